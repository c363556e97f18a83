//! One store, nodes over it that can be killed, and a worker on trial.

use crate::{
    lent::{self, Lent},
    outside,
    tap::Tap,
    time::{VirtualClock, pass, until},
};
use async_trait::async_trait;
use machine::{Data, TenantId};
use parking_lot::Mutex;
use runtime::{
    Handle, Node, Parts,
    clock::{Clock, Dice, Entropy},
};
use serde_json::Value;
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use store::{
    Store,
    rows::{DeadLetterRow, EventRow},
    sqlite::Inline,
    views::{Counts, DeadLetterFilter, EventFilter, PAGE_MAX, Page},
};
use tokio::{task::JoinSet, time::Instant};
use tokio_util::sync::CancellationToken;
use worker::{Declaration, Delivery, Handled, Handler};

pub(crate) const TENANT: &str = "trial";

/// Where the worker on trial is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// Built into the node.
    Inside,
    /// Somewhere else: it asks for its deliveries.
    Outside,
}

pub(crate) struct World {
    side: Side,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) tenant: TenantId,
    seed: AtomicU64,
    /// Goes after the store.
    _lent: Lent,
}

/// A node that is up.
pub(crate) struct Up {
    pub(crate) node: Node,
    pub(crate) handle: Handle,
    pub(crate) tap: Arc<Tap>,
    crash: CancellationToken,
    /// Workers outside that talk to this node.
    outside: JoinSet<()>,
}

impl World {
    pub(crate) fn new(side: Side) -> World {
        let lent = lent::store(lent::Clock::Caller, || Arc::new(Inline::new().unwrap()));
        World {
            side,
            store: lent.store.clone(),
            clock: Arc::new(VirtualClock(Instant::now())),
            tenant: TenantId::new(TENANT).unwrap(),
            seed: AtomicU64::new(1),
            _lent: lent,
        }
    }

    /// The only node, or one of several.
    pub(crate) async fn node(&self, workers: Vec<Declaration>, sole: bool) -> Up {
        let crash = CancellationToken::new();
        let tap = Arc::new(Tap::new(self.store.clone(), crash.clone()));
        let mut parts = Parts::new(tap.clone());
        parts.clock = self.clock.clone();
        parts.entropy = Arc::new(Longest(Dice::from_seed(self.seed.fetch_add(1, Ordering::Relaxed))));
        parts.crash = Some(crash.clone());
        // Those of the suite itself are always inside.
        let is_outside = |worker: &Declaration| {
            self.side == Side::Outside && worker.on.is_some() && !worker.name.starts_with("trial-")
        };
        let (outside, inside) = workers.into_iter().partition(is_outside);
        parts.workers = inside;
        parts.sole = sole;
        let node = Node::start(parts).await.unwrap();
        let mut up = Up { handle: node.handle(), node, tap, crash, outside: JoinSet::new() };
        for worker in outside {
            up.declare(self, &worker).await;
            // Two processes of it.
            for _ in 0..2 {
                up.outside.spawn(outside::work(up.handle.clone(), self.tenant.clone(), worker.clone()));
            }
        }
        up
    }

    pub(crate) async fn counts(&self) -> Counts {
        self.store.counts(Some(&self.tenant)).await.unwrap()
    }

    /// Waits until nothing is to be handed out or published any more.
    pub(crate) async fn settled(&self) {
        until(|| async {
            let counts = self.counts().await;
            counts.deliveries == 0 && counts.outbox == 0
        })
        .await;
    }

    pub(crate) async fn letters(&self) -> Vec<DeadLetterRow> {
        let page = Page { after: None, limit: PAGE_MAX };
        self.store.dead_letters(&self.tenant, &DeadLetterFilter::default(), &page).await.unwrap()
    }

    pub(crate) async fn events(&self) -> Vec<EventRow> {
        let page = Page { after: None, limit: PAGE_MAX };
        self.store.events(&self.tenant, &EventFilter::default(), &page).await.unwrap()
    }

    /// What a worker has emitted: type, subject and data, in no order.
    pub(crate) async fn outputs(&self, worker: &str) -> Vec<String> {
        let source = format!("windlass/workers/{worker}");
        let events = self.events().await;
        let mut outputs: Vec<String> = events
            .iter()
            .filter(|row| row.source == source)
            .map(|row| {
                let event: Value = serde_json::from_slice(&row.event).unwrap();
                format!("{} {} {}", event["type"], event["subject"], event["data"])
            })
            .collect();
        outputs.sort();
        outputs
    }
}

impl Up {
    pub(crate) async fn publish(&self, world: &World, events: Vec<Data>) {
        for answer in self.handle.publish_many(&world.tenant, events).await {
            answer.unwrap();
        }
    }

    /// Says of a worker what the node is to know of it.
    pub(crate) async fn declare(&self, world: &World, worker: &Declaration) {
        let declared = outside::declared(worker);
        self.handle.declare_worker(&world.tenant, &worker.name, &declared).await.unwrap();
    }

    pub(crate) async fn stop(mut self) {
        self.outside.shutdown().await;
        self.node.stop().await;
    }

    /// As `kill -9` would.
    pub(crate) async fn crash(mut self) {
        self.crash.cancel();
        self.outside.shutdown().await;
        pass(Duration::from_millis(1)).await;
    }
}

/// Chance that always waits as long as it may, so that growing waits can be seen to grow.
struct Longest(Dice);

impl Entropy for Longest {
    fn bytes16(&self) -> [u8; 16] {
        self.0.bytes16()
    }

    fn unit(&self) -> f64 {
        1.0
    }
}

/// What a handler was called with: keys of events, attempts and microseconds.
pub(crate) type Calls = Arc<Mutex<Vec<(String, u32, i64)>>>;

/// A handler that notes its calls, and answers by itself if it is told to.
struct Noted {
    inner: Arc<dyn Handler>,
    answer: Option<Handled>,
    calls: Calls,
    clock: Arc<dyn Clock>,
}

#[async_trait]
impl Handler for Noted {
    async fn handle(&self, deliveries: &[Delivery]) -> Vec<Handled> {
        let at = self.clock.now().0;
        self.calls.lock().extend(deliveries.iter().map(|one| (one.key.clone(), one.attempt, at)));
        match &self.answer {
            Some(answer) => vec![answer.clone(); deliveries.len()],
            None => self.inner.handle(deliveries).await,
        }
    }
}

/// The worker with its calls noted; with `answer` in place of whatever it would say.
pub(crate) fn noted(world: &World, worker: &Declaration, answer: Option<Handled>) -> (Declaration, Calls) {
    let (mut worker, calls) = (worker.clone(), Calls::default());
    if let Some(on) = &mut worker.on {
        let (inner, clock) = (on.handler.clone(), world.clock.clone());
        on.handler = Arc::new(Noted { inner, answer, calls: calls.clone(), clock });
    }
    (worker, calls)
}
