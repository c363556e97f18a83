//! Clients: each starts an instance and sends its signals, asking again until each is acknowledged.

use super::{chaos::Mutant, definitions::Definition, world::World};
use futures_util::future::join_all;
use machine::Data;
use runtime::api::{DefinitionRef, Refusal, Signal, Start};
use std::time::Duration;
use tokio::time::{sleep, timeout};
use uuid::Uuid;

/// How long anybody waits for an answer before asking again.
pub(crate) const PATIENCE: Duration = Duration::from_secs(2);

impl World {
    /// One client with everybody who has to do with its instance.
    pub(crate) async fn client(&self, client: u64, definition: &'static Definition) {
        let early = definition.name == "signals" && self.chaos.strikes(self.chaos.levels.early_signal);
        let chosen = Uuid::from_u128(u128::from(client + 1) << 64 | 0x7000_8000);
        let chosen = (early || self.chaos.below(2) == 0).then_some(chosen);
        let early_signal = async {
            if let Some(instance) = chosen.filter(|_| early) {
                self.signal(instance, client, 0).await;
            }
        };
        let start = async {
            if early {
                sleep(Duration::from_millis(self.chaos.below(400))).await;
            }
            let id = self.start(client, definition.name, chosen).await;
            // All at once, or each in its own time: in either case they overtake each other.
            let burst = (self.chaos.below(2) == 0).then(|| self.chaos.below(2500));
            let signals = (u64::from(early)..definition.signals).map(async |number| {
                let delay = burst.unwrap_or_else(|| self.chaos.below(2500));
                sleep(Duration::from_millis(delay)).await;
                self.signal(id, client, number).await;
            });
            let people = self.people(definition.person.then_some(id));
            tokio::join!(join_all(signals), self.operator(id), people);
        };
        tokio::join!(early_signal, start);
    }

    async fn start(&self, client: u64, definition: &str, chosen: Option<Uuid>) -> Uuid {
        let mut key = format!("client-{client}");
        let mut id = chosen;
        for attempt in 0.. {
            let start = Start {
                definition: DefinitionRef {
                    namespace: "sim".to_owned(),
                    name: definition.to_owned(),
                    version: Some("1.0.0".to_owned()),
                },
                input: Data::map([("client".to_owned(), Data::int(client as i64))]),
                business_key: None,
                business_parts: vec![],
                idempotency_key: Some(key.clone()),
                traceparent: None,
                tracestate: None,
                correlation_id: None,
                id,
            };
            let node = self.any_node().await;
            let unknown = match timeout(PATIENCE, node.start(&self.tenant, start)).await {
                Ok(Ok(started)) => {
                    self.chaos.note(format_args!("client {client} started {}", started.id));
                    self.seen.lock().started.push((client, started.id));
                    return started.id;
                }
                Ok(Err(refusal)) => {
                    self.chaos.note(format_args!("client {client}: {refusal}"));
                    matches!(refusal, Refusal::Unavailable(_))
                }
                Err(_) => {
                    self.chaos.note(format_args!("client {client}: no answer"));
                    true
                }
            };
            if unknown && self.chaos.is(Mutant::NewKeyOnUnknown) {
                (key, id) = (format!("client-{client}-{attempt}"), None);
            }
            sleep(Duration::from_millis(20 + self.chaos.below(200))).await;
        }
        unreachable!("the loop ends with a start")
    }

    async fn signal(&self, instance: Uuid, client: u64, number: u64) {
        let id = Uuid::from_u128(u128::from(client + 1) << 64 | 0x9000_8000 | u128::from(number) << 96);
        let mut sent = false;
        loop {
            let node = self.any_node().await;
            let signal = Signal { name: "go".to_owned(), data: Data::int(number as i64), id: Some(id) };
            let answer = timeout(PATIENCE, node.signal_early(&self.tenant, instance, signal)).await;
            sent |= matches!(answer, Ok(Ok(_)));
            if sent && !self.chaos.strikes(self.chaos.levels.repeat_signal) {
                self.seen.lock().signals.push((instance, id));
                return;
            }
            sleep(Duration::from_millis(self.chaos.below(600))).await;
        }
    }
}
