//! A tenant of its own with a schedule and with events addressed to nobody, in some seeds.
//!
//! Every second has to start one instance; every event has to start one instance and reach the one that collects,
//! also if it was published before anybody listened.

use super::{clients::PATIENCE, world::World};
use machine::{Data, TenantId, language::Format};
use runtime::api::{DefinitionRef, Start};
use std::time::Duration;
use tokio::time::{sleep, timeout};
use uuid::Uuid;

/// Events published in a seed.
pub(crate) const EVENTS: u64 = 3;

const TICKS: &str = "document:
  dsl: '1.0.3'
  namespace: sim
  name: ticks
  version: '1.0.0'
  metadata: { windlass: { missed: all } }
schedule: { every: PT1S }
do: [ { a: { set: { x: 1 } } } ]
";
const REACTS: &str = "document: { dsl: '1.0.3', namespace: sim, name: reacts, version: '1.0.0' }
schedule: { on: { one: { with: { type: ping } } } }
do: [ { a: { set: { n: '${ .[0].data.n }' } } } ]
";
const COLLECTS: &str = "document: { dsl: '1.0.3', namespace: sim, name: collects, version: '1.0.0' }
do:
- hear:
    listen:
      to:
        any: [ { with: { type: pong }, correlate: { seed: { from: .data.seed, expect: '${ .seed }' } } } ]
        until: '${ length >= 3 }'
    output: { as: '${ map(.n) | sort }' }
";

pub(crate) fn tenant() -> TenantId {
    TenantId::new("beat").expect("valid")
}

/// The instance that collects.
pub(crate) fn collector() -> Uuid {
    Uuid::from_u128(0xBEA7 << 64 | 0x7000_8000)
}

impl World {
    pub(crate) async fn beat(&self) {
        for source in [TICKS, REACTS, COLLECTS] {
            self.deploy(source).await;
        }
        let mut all = tokio::task::JoinSet::new();
        for number in 0..EVENTS * 2 {
            let (world, delay) = (self.clone(), self.chaos.below(3000));
            all.spawn(async move {
                sleep(Duration::from_millis(delay)).await;
                world.publish(number).await;
            });
        }
        sleep(Duration::from_millis(self.chaos.below(3000))).await;
        self.collect().await;
        all.join_all().await;
        self.seen.lock().beats = true;
    }

    async fn deploy(&self, source: &str) {
        let tenant = tenant();
        loop {
            let node = self.any_node().await;
            let deploy = node.deploy(&tenant, source.as_bytes(), Format::Yaml, false);
            if matches!(timeout(PATIENCE, deploy).await, Ok(Ok(_))) {
                return;
            }
            self.breathe().await;
        }
    }

    async fn collect(&self) {
        let tenant = tenant();
        loop {
            let start = Start {
                definition: DefinitionRef {
                    namespace: "sim".to_owned(),
                    name: "collects".to_owned(),
                    version: Some("1.0.0".to_owned()),
                },
                input: Data::map([("seed".to_owned(), Data::int(7))]),
                business_key: None,
                business_parts: vec![],
                idempotency_key: Some("collects".to_owned()),
                traceparent: None,
                tracestate: None,
                correlation_id: None,
                id: Some(collector()),
            };
            let node = self.any_node().await;
            if matches!(timeout(PATIENCE, node.start(&tenant, start)).await, Ok(Ok(_))) {
                return;
            }
            self.breathe().await;
        }
    }

    /// Publishes until it is acknowledged, and then perhaps once more.
    async fn publish(&self, number: u64) {
        let tenant = tenant();
        let kind = if number < EVENTS { "ping" } else { "pong" };
        let data = Data::map([
            ("n".to_owned(), Data::int((number % EVENTS) as i64)),
            ("seed".to_owned(), Data::int(7)),
        ]);
        let event = Data::map([
            ("specversion".to_owned(), Data::text("1.0")),
            ("id".to_owned(), Data::text(format!("e{number}"))),
            ("source".to_owned(), Data::text("sim")),
            ("type".to_owned(), Data::text(kind)),
            ("data".to_owned(), data),
        ]);
        loop {
            let node = self.any_node().await;
            let told = matches!(timeout(PATIENCE, node.publish(&tenant, event.clone())).await, Ok(Ok(_)));
            if told && !self.chaos.strikes(self.chaos.levels.repeat_signal) {
                break;
            }
            self.breathe().await;
        }
        self.chaos.note(format_args!("event {number} is published"));
    }

    async fn breathe(&self) {
        sleep(Duration::from_millis(20 + self.chaos.below(200))).await;
    }
}
