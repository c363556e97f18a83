//! What a consumer without a group finds in a topic of the Kafka server, and how others write there.

use krafka::{
    Kafka, Record,
    consumer::{AutoOffsetReset, ConsumerRecord},
};
use scratch::Broker;
use std::time::Duration;

async fn client(broker: &Broker) -> Kafka {
    let address = format!("localhost:{}", broker.port());
    Kafka::builder(address).allow_auto_create_topics(true).connect().await.unwrap()
}

/// Everything in the topic, partition by partition, in order.
pub(crate) async fn kept(broker: &Broker, topic: &str) -> Vec<ConsumerRecord> {
    let kafka = client(broker).await;
    let build = kafka.consumer_without_group().auto_offset_reset(AutoOffsetReset::Earliest);
    let consumer = build.build().await.unwrap();
    let known = consumer.fetch_metadata(Some(topic)).await.unwrap();
    let partitions: Vec<i32> =
        known.topics.iter().flat_map(|topic| &topic.partitions).map(|(number, _)| *number).collect();
    let mut wanted = 0;
    for partition in &partitions {
        let (low, high) = consumer.fetch_watermarks(topic, *partition).await.unwrap();
        wanted += high - low;
    }
    consumer.assign(topic, partitions).await.unwrap();
    let mut kept = vec![];
    while (kept.len() as i64) < wanted {
        kept.extend(consumer.poll(Duration::from_secs(1)).await.unwrap());
    }
    kept.sort_by_key(|record| (record.partition, record.offset));
    consumer.close().await.unwrap();
    kept
}

/// Writes as another program would.
pub(crate) async fn send(broker: &Broker, topic: &str, body: &[u8], headers: &[(&str, &str)]) {
    let producer = client(broker).await.producer().build().await.unwrap();
    let mut record = Record::new(topic, body.to_vec());
    for (name, value) in headers {
        record = record.header(*name, (*value).to_owned());
    }
    assert!(producer.send(record).await.unwrap().is_success());
    producer.close().await.unwrap();
}
