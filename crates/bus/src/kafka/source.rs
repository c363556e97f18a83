//! What comes in over the protocol of Kafka: a consumer group for every tenant's topic, whose offsets are committed after
//! the store's commit. A partition has one consumer at a time; one that died leaves its partitions to the others.

use super::{CLOSE_MAX, connect, later, structured};
use crate::{
    Server,
    intake::{Incoming, Inlet, Intake, Source, Taken, UNDER_WAY_MAX},
};
use async_trait::async_trait;
use futures_util::future::join_all;
use krafka::{
    CloseOptions,
    consumer::{AutoOffsetReset, Consumer, ConsumerRecord, OffsetAndMetadata, TopicPartition},
    error::KrafkaError,
};
use machine::TenantId;
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};
use tokio::time::Instant;

/// How long one request for records stands.
const ASK_MAX: Duration = Duration::from_secs(5);
/// How long one waits before it tries again what could not be taken.
const LATER: Duration = Duration::from_secs(2);
/// What servers allow for the time after which a consumer that is silent has left, unless they are told otherwise.
const SILENT_MIN: Duration = Duration::from_secs(6);
const SILENT_MAX: Duration = Duration::from_secs(1_800);

/// A cluster that messages come in from.
pub(crate) struct KafkaSource {
    pub(crate) server: Server,
    /// Lets the cluster make topics that are not there.
    pub(crate) create: bool,
    /// A consumer that has been silent for so long has left.
    pub(crate) claim_after: Duration,
}

/// A member of a group that leaves when it is not heard any more.
struct Member(Arc<Consumer>);

impl Drop for Member {
    fn drop(&mut self) {
        let consumer = self.0.clone();
        later(async move {
            let _ = consumer.close_with(CloseOptions::new().timeout(CLOSE_MAX)).await;
        });
    }
}

impl KafkaSource {
    async fn listen(&self, tenant: &TenantId, inlet: &Inlet, intake: &dyn Intake) -> Result<(), String> {
        let kafka = connect(&self.server, self.create).await?;
        let topic = inlet.subject.of(tenant, "");
        let silent = self.claim_after.clamp(SILENT_MIN, SILENT_MAX);
        let said = |error: KrafkaError| format!("the topic {topic}: {error}");
        let consumer = kafka
            // A group of its own for each topic: tenants that come and go make no other consumer wait.
            .consumer(format!("windlass.{topic}"))
            .enable_auto_commit(false)
            .auto_offset_reset(AutoOffsetReset::Earliest)
            .max_poll_records(UNDER_WAY_MAX as i32)
            .session_timeout(silent)
            .heartbeat_interval(silent / 4)
            .metrics_push(false)
            .build()
            .await
            .map_err(said)?;
        let member = Member(Arc::new(consumer));
        member.0.subscribe([&topic]).await.map_err(said)?;
        let mut place = Place { tenant, inlet, intake, seen: HashMap::new(), owed: BTreeMap::new() };
        loop {
            let records = match member.0.poll(ASK_MAX).await {
                Ok(records) => records,
                Err(error) if error.is_retriable() => {
                    tokio::time::sleep_until(Instant::now() + LATER).await;
                    continue;
                }
                Err(error) => return Err(said(error)),
            };
            place.take(&member.0, records).await.map_err(said)?;
        }
    }
}

/// A tenant's topic.
struct Place<'a> {
    tenant: &'a TenantId,
    inlet: &'a Inlet,
    intake: &'a dyn Intake,
    /// The first and the last record of each partition since it came here.
    seen: HashMap<i32, (i64, i64)>,
    /// Offsets that are to be committed.
    owed: BTreeMap<(String, i32), i64>,
}

impl Place<'_> {
    /// Takes records side by side until each is taken, committing as far as all before are.
    async fn take(&mut self, consumer: &Consumer, records: Vec<ConsumerRecord>) -> Result<(), KrafkaError> {
        let mut waiting: Vec<(ConsumerRecord, bool)> = records
            .into_iter()
            .map(|record| {
                let again = self.may_come_again(&record);
                (record, again)
            })
            .collect();
        for (record, _) in &waiting {
            let next = self.owed.entry((record.topic.to_string(), record.partition)).or_insert(0);
            *next = (*next).max(record.offset + 1);
        }
        while !waiting.is_empty() {
            let taken = join_all(waiting.iter().map(|(record, again)| self.take_one(record, *again))).await;
            let mut taken = taken.into_iter();
            waiting.retain(|_| matches!(taken.next(), Some(Taken::Later(_))));
            if waiting.is_empty() {
                break;
            }
            self.commit(consumer, &waiting).await?;
            tokio::time::sleep_until(Instant::now() + LATER).await;
        }
        self.commit(consumer, &waiting).await
    }

    /// The server does not say what it has given before. What was under way when a partition came here may have been.
    fn may_come_again(&mut self, record: &ConsumerRecord) -> bool {
        let (first, last) = self.seen.entry(record.partition).or_insert((record.offset, record.offset - 1));
        if record.offset <= *last {
            *first = record.offset;
        }
        *last = record.offset;
        record.offset < *first + UNDER_WAY_MAX as i64
    }

    /// Commits what is owed, up to the first record of each partition that still waits. What cannot be committed now is with
    /// the next.
    async fn commit(
        &mut self,
        consumer: &Consumer,
        waiting: &[(ConsumerRecord, bool)],
    ) -> Result<(), KrafkaError> {
        let held = |topic: &str, partition: i32| {
            let mine = waiting.iter().map(|(record, _)| record);
            let mine = mine.filter(|record| &*record.topic == topic && record.partition == partition);
            mine.map(|record| record.offset).min()
        };
        let offsets: Vec<_> = self
            .owed
            .iter()
            .map(|((topic, partition), next)| {
                let upto = held(topic, *partition).map_or(*next, |first| first.min(*next));
                (TopicPartition::new(topic.clone(), *partition), OffsetAndMetadata::new(upto))
            })
            .collect();
        if offsets.is_empty() {
            return Ok(());
        }
        match consumer.commit_offsets(offsets).await {
            Ok(()) if waiting.is_empty() => self.owed.clear(),
            Ok(()) => {}
            Err(error) if error.is_retriable() => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    async fn take_one(&self, record: &ConsumerRecord, again: bool) -> Taken {
        let ConsumerRecord { topic, partition, offset, .. } = record;
        let incoming = Incoming {
            tenant: self.tenant.clone(),
            channel: self.inlet.channel,
            id: format!("kafka/{topic}/{partition}/{offset}"),
            again,
            body: structured::body(record),
        };
        self.intake.take(incoming).await
    }
}

#[async_trait]
impl Source for KafkaSource {
    async fn hear(&self, tenant: &TenantId, inlet: &Inlet, intake: &dyn Intake) -> String {
        match self.listen(tenant, inlet, intake).await {
            Ok(()) => String::new(),
            Err(why) => why,
        }
    }
}
