//! R09, R10, F21, F22: what instances emit goes out over real servers. A server that is away only makes it late; one that
//! has lost it is given it again; an engine that is killed says it again with the same id.

use crate::engine::{Engine, PATIENCE, POLL};
use scratch::{Broker, Kind};
use serde_json::{Value, json};
use std::{collections::BTreeMap, path::Path};
use tempfile::TempDir;
use tokio::time::timeout;

const DOCUMENT: &str = "
document: { dsl: 1.0.3, namespace: test, name: emits, version: 1.0.0 }
do:
  - count:
      for: { each: n, in: '[range(5)]' }
      do:
        - say: { emit: { event: { with: { source: 'https://a.b', type: order.said, data: { n: '${ $n }', of: '${ $workflow.input.of }' } } } } }
  - quiet: { emit: { event: { with: { source: 'https://a.b', type: internal.said } } } }
";

/// An engine that carries events of some types to a server.
struct Carrying {
    engine: Engine,
    platform: String,
    home: TempDir,
}

impl Carrying {
    async fn start(broker: &Broker) -> Carrying {
        let home = TempDir::new().unwrap();
        let config = format!(
            "[server]\nlisten = \"127.0.0.1:0\"\n[buses.main]\nurl = \"{}\"\ntypes = [\"order.*\"]\n",
            broker.url()
        );
        std::fs::write(home.path().join("windlass.toml"), config).unwrap();
        let mut engine = launch(home.path()).await;
        let platform = engine.line["platform_key"].as_str().unwrap().to_owned();
        engine.key = platform.clone();
        engine.cli(&["tenant", "create", "acme"]).await.ok();
        let made = ["key", "create", "--tenant", "acme", "--name", "a", "--role", "admin", "-o", "json"];
        engine.key = engine.cli(&made).await.json()["secret"].as_str().unwrap().to_owned();
        engine.deploy(DOCUMENT).await;
        Carrying { engine, platform, home }
    }

    /// As `kill -9`, and again on the same data.
    async fn again(self) -> Carrying {
        self.engine.kill().await;
        let mut engine = launch(self.home.path()).await;
        engine.key = self.engine.key.clone();
        Carrying { engine, ..self }
    }

    async fn bus(&self) -> Value {
        let answer = self.engine.request_as(&self.platform, "GET", "/buses/main").send().await.unwrap();
        assert_eq!(answer.status(), 200);
        answer.json().await.unwrap()
    }

    async fn until_bus(&self, wanted: impl Fn(&Value) -> bool) -> Value {
        let looking = async {
            let mut pace = tokio::time::interval(POLL * 5);
            loop {
                pace.tick().await;
                let bus = self.bus().await;
                if wanted(&bus) {
                    return bus;
                }
            }
        };
        timeout(PATIENCE, looking).await.expect("the bus becomes as wanted")
    }

    async fn metrics(&self) -> String {
        let metrics = format!("{}/metrics", self.engine.url);
        let asked = reqwest::Client::new().get(metrics).bearer_auth(&self.platform).send().await.unwrap();
        asked.text().await.unwrap()
    }

    /// Runs instances to their end.
    async fn run(&self, of: std::ops::Range<i64>) {
        for number in of {
            let id = self.engine.start_instance("emits", json!({ "of": number })).await;
            assert_eq!(self.engine.result(&id).await["status"], "completed");
        }
    }
}

async fn launch(home: &Path) -> Engine {
    Engine::start(home, &["serve", "--config", "windlass.toml", "-o", "json"]).await
}

/// (id, event) of everything that is kept for the tenant.
async fn kept(broker: &Broker, kind: Kind) -> Vec<(String, Value)> {
    let read = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).unwrap();
    match kind {
        Kind::Redis => {
            let client = redis::Client::open(broker.url()).unwrap();
            let mut line = client.get_multiplexed_async_connection().await.unwrap();
            let mut ask = redis::cmd("XRANGE");
            let range = ask.arg("windlass.acme.events").arg("-").arg("+").query_async(&mut line).await;
            let range: redis::streams::StreamRangeReply = range.unwrap();
            let one = |entry: &redis::streams::StreamId| {
                (entry.get("id").unwrap(), read(&entry.get::<Vec<u8>>("event").unwrap()))
            };
            range.ids.iter().map(one).collect()
        }
        Kind::Nats => {
            use futures_util::StreamExt;
            let context = async_nats::jetstream::new(async_nats::connect(broker.url()).await.unwrap());
            let stream = context.get_stream("windlass-events").await.unwrap();
            let config = async_nats::jetstream::consumer::pull::Config {
                filter_subject: "windlass.acme.events.order.said".to_owned(),
                ..Default::default()
            };
            let consumer = stream.create_consumer(config).await.unwrap();
            let mut messages = consumer.fetch().max_messages(10_000).messages().await.unwrap();
            let mut kept = vec![];
            while let Some(Ok(message)) = messages.next().await {
                let id = message.headers.as_ref().unwrap().get("Nats-Msg-Id").unwrap().to_string();
                kept.push((id, read(&message.payload)));
            }
            kept
        }
        Kind::Kafka => {
            let records = crate::topics::kept(broker, "windlass.acme.events").await;
            let one = |record: &krafka::consumer::ConsumerRecord| {
                let id = record.header_str("windlass-id").unwrap().to_owned();
                (id, read(record.value.as_deref().unwrap()))
            };
            records.iter().map(one).collect()
        }
    }
}

/// Every instance said 0 to 4 in order, under one id each, however often each was carried.
fn check(kept: &[(String, Value)], instances: i64) {
    let mut said = BTreeMap::<i64, Vec<(i64, String)>>::new();
    for (id, event) in kept {
        assert_eq!(event["type"], "order.said", "nothing else goes out");
        let (of, n) = (event["data"]["of"].as_i64().unwrap(), event["data"]["n"].as_i64().unwrap());
        let said = said.entry(of).or_default();
        match said.iter().find(|(_, known)| known == id) {
            Some((known, _)) => assert_eq!(*known, n, "an id is one event's"),
            None => said.push((n, id.clone())),
        }
    }
    assert_eq!(said.len() as i64, instances);
    for (of, said) in said {
        assert_eq!(said.iter().map(|(n, _)| *n).collect::<Vec<_>>(), [0, 1, 2, 3, 4], "instance {of}");
    }
}

async fn an_outage_only_makes_events_late(kind: Kind) {
    let Some(mut broker) = scratch::broker(kind) else { return };
    let mut carrying = Carrying::start(&broker).await;
    carrying.run(0..3).await;
    carrying.until_bus(|bus| bus["waiting"] == 0 && bus["carried"] == 15).await;
    // It stands still: starts and steps go on, and what they emit waits.
    broker.hold_still().unwrap();
    carrying.run(3..6).await;
    let bus = carrying.until_bus(|bus| bus["status"] == "away").await;
    assert!(bus["waiting"].as_i64().unwrap() >= 12, "{bus}");
    assert!(
        bus["away_since"].is_string() && bus["error"].is_string() && bus["oldest_at"].is_string(),
        "{bus}"
    );
    let metrics = carrying.metrics().await;
    for name in [
        "windlass_bus_up{bus=\"main\"} 0",
        "windlass_bus_waiting{bus=\"main\"}",
        "windlass_bus_oldest_seconds",
    ] {
        assert!(metrics.contains(name), "{name}: {metrics}");
    }
    broker.go_on().unwrap();
    carrying.until_bus(|bus| bus["waiting"] == 0 && bus["status"] == "up").await;
    // It is gone, and the engine is killed as well.
    broker.kill();
    carrying.run(6..9).await;
    carrying = carrying.again().await;
    carrying.run(9..10).await;
    broker.resume().unwrap();
    carrying.until_bus(|bus| bus["waiting"] == 0 && bus["status"] == "up").await;
    check(&kept(&broker, kind).await, 10);
    let metrics = carrying.metrics().await;
    for name in ["windlass_bus_up{bus=\"main\"} 1", "windlass_bus_waiting{bus=\"main\"} 0"] {
        assert!(metrics.contains(name), "{name}: {metrics}");
    }
    let listed = carrying.engine.request_as(&carrying.engine.key, "GET", "/buses").send().await.unwrap();
    assert_eq!(listed.status(), 403, "buses are the operator's");
}

#[tokio::test]
async fn an_outage_of_nats_only_makes_events_late() {
    an_outage_only_makes_events_late(Kind::Nats).await;
}

#[tokio::test]
async fn an_outage_of_kafka_only_makes_events_late() {
    an_outage_only_makes_events_late(Kind::Kafka).await;
}

#[tokio::test]
async fn an_outage_of_redis_only_makes_events_late() {
    an_outage_only_makes_events_late(Kind::Redis).await;
}

#[tokio::test]
async fn an_engine_killed_at_any_moment_says_the_same_again_with_the_same_id() {
    let Some(broker) = scratch::broker(Kind::Redis) else { return };
    let mut carrying = Carrying::start(&broker).await;
    for round in 0..5 {
        for number in 0..4 {
            carrying.engine.start_instance("emits", json!({ "of": round * 4 + number })).await;
        }
        carrying = carrying.again().await;
    }
    let ended = |page: &Value| page["items"].as_array().unwrap().len() == 20;
    carrying.engine.until("/instances?status=completed&limit=100", ended).await;
    let settled = carrying.engine.request_as(&carrying.platform, "GET", "/buses").send().await.unwrap();
    assert_eq!(settled.status(), 200);
    let looking = async {
        let mut pace = tokio::time::interval(POLL * 10);
        while kept(&broker, Kind::Redis)
            .await
            .iter()
            .map(|(id, _)| id)
            .collect::<std::collections::BTreeSet<_>>()
            .len()
            < 100
        {
            pace.tick().await;
        }
    };
    timeout(PATIENCE, looking).await.expect("all events are carried");
    check(&kept(&broker, Kind::Redis).await, 20);
}

#[tokio::test]
async fn what_a_bus_has_lost_is_carried_again_on_request() {
    let Some(broker) = scratch::broker(Kind::Redis) else { return };
    let carrying = Carrying::start(&broker).await;
    carrying.run(0..4).await;
    carrying.until_bus(|bus| bus["carried"] == 20).await;
    let before = kept(&broker, Kind::Redis).await;
    let client = redis::Client::open(broker.url()).unwrap();
    let mut line = client.get_multiplexed_async_connection().await.unwrap();
    let _: () = redis::cmd("FLUSHALL").query_async(&mut line).await.unwrap();
    let mut engine = carrying.engine.cli(&["bus", "list"]).await;
    assert_ne!(engine.code, Some(0), "a tenant's key may not");
    let url = carrying.engine.url.clone();
    let as_platform = |args: &'static [&'static str]| {
        let mut command = crate::engine::binary(carrying.home.path());
        command.env("WINDLASS_URL", &url).env("WINDLASS_KEY", &carrying.platform).args(args);
        crate::engine::said(command)
    };
    let resent =
        as_platform(&["bus", "resend", "main", "--since", "2000-01-01T00:00:00Z", "-o", "json"]).await;
    assert_eq!(resent.json()["events"], 20);
    carrying.until_bus(|bus| bus["carried"] == 40 && bus["waiting"] == 0).await;
    let ids = [before, kept(&broker, Kind::Redis).await].map(|kept| {
        let mut ids: Vec<String> = kept.into_iter().map(|(id, _)| id).collect();
        ids.sort();
        ids
    });
    assert_eq!(ids[0], ids[1]);
    check(&kept(&broker, Kind::Redis).await, 4);
    engine = as_platform(&["bus", "list"]).await;
    let table = engine.ok();
    assert!(table.contains("main") && table.contains("redis://localhost"), "{table}");
    let none =
        as_platform(&["bus", "resend", "main", "--since", "2000-01-01T00:00:00Z", "--of", "nobody"]).await;
    assert_ne!(none.code, Some(0));
}
