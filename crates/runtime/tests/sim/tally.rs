//! A tenant of its own with workers that handle events, in some seeds.
//!
//! Every event is handled by two workers: one counts orders, and an order that several events are about counts once; one
//! notes every event, some together. What they emit is all that is left to see of it: nothing may be lost, nothing be there
//! twice, through failures, dead letters, crashes and nodes that are taken over.

use super::{chaos::Chaos, clients::PATIENCE, world::World};
use async_trait::async_trait;
use machine::{Data, TenantId, retry::RetryPolicy};
use std::{sync::Arc, time::Duration};
use tokio::time::{sleep, timeout};
use worker::{Class, Declaration, Delivery, Emit, Handled, Handler};

/// Requests of a seed, and events in each.
const REQUESTS: u64 = 4;
const TOGETHER: u64 = 3;
/// Orders that the events are about.
pub(crate) const ORDERS: u64 = 5;
pub(crate) const EVENTS: u64 = REQUESTS * TOGETHER;

pub(crate) const COUNTED: &str = "tally.counted";
pub(crate) const NOTED: &str = "tally.noted";

pub(crate) fn tenant() -> TenantId {
    TenantId::new("tally").expect("valid")
}

/// Emits what it was given, or fails.
struct Tally {
    chaos: Arc<Chaos>,
    emits: &'static str,
}

#[async_trait]
impl Handler for Tally {
    async fn handle(&self, deliveries: &[Delivery]) -> Vec<Handled> {
        sleep(Duration::from_millis(self.chaos.below(30))).await;
        deliveries.iter().map(|delivery| self.answer(delivery)).collect()
    }
}

impl Tally {
    fn answer(&self, delivery: &Delivery) -> Handled {
        let levels = &self.chaos.levels;
        let id = delivery.attribute("id").unwrap_or_default();
        self.chaos.note(format_args!("{} {id} attempt {}", self.emits, delivery.attempt));
        if self.chaos.strikes(levels.worker_retries) {
            return Handled::retry("simulated");
        }
        if self.chaos.strikes(levels.worker_fails) {
            return Handled::fail(Class::Validation, "simulated");
        }
        let order = delivery.data().get("order").unwrap_or_default();
        let data = Data::map([("order".to_owned(), order), ("event".to_owned(), Data::text(id))]);
        Handled::emit([Emit::new(self.emits, data)])
    }
}

/// The workers that every node has.
pub(crate) fn workers(chaos: &Arc<Chaos>, retry: RetryPolicy) -> [Declaration; 2] {
    let worker = |name: &str, emits: &'static str| {
        Declaration::on(name, ["order.paid"], Tally { chaos: chaos.clone(), emits }).retry(retry)
    };
    [worker("count", COUNTED).key_by("data.order"), worker("note", NOTED).batch_max(2)]
}

fn event(number: u64) -> Data {
    let order = ("order".to_owned(), Data::int((number % ORDERS) as i64));
    Data::map([
        ("specversion".to_owned(), Data::text("1.0")),
        ("id".to_owned(), Data::text(format!("paid-{number}"))),
        ("source".to_owned(), Data::text("sim")),
        ("type".to_owned(), Data::text("order.paid")),
        ("data".to_owned(), Data::map([order])),
    ])
}

impl World {
    /// Publishes everything, each request until it is acknowledged, and then perhaps once more.
    pub(crate) async fn tally(&self) {
        let mut all = tokio::task::JoinSet::new();
        for request in 0..REQUESTS {
            let (world, delay) = (self.clone(), self.chaos.below(4000));
            all.spawn(async move {
                sleep(Duration::from_millis(delay)).await;
                world.pay(request).await;
            });
        }
        all.join_all().await;
        self.seen.lock().tallied = true;
    }

    async fn pay(&self, request: u64) {
        let events: Vec<Data> = (request * TOGETHER..(request + 1) * TOGETHER).map(event).collect();
        loop {
            let node = self.any_node().await;
            let published = timeout(PATIENCE, node.publish_many(&tenant(), events.clone())).await;
            let told = published.is_ok_and(|answers| answers.iter().all(Result::is_ok));
            if told && !self.chaos.strikes(self.chaos.levels.repeat_signal) {
                break;
            }
            sleep(Duration::from_millis(20 + self.chaos.below(200))).await;
        }
        self.chaos.note(format_args!("request {request} is published"));
    }
}
