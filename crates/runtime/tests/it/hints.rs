//! B32, P10: hints between nodes that share a database, over the database itself, Redis and NATS. With them nobody waits for
//! a re-scan; without them, with lost and with doubled ones, or with their server gone, everything ends the same.

use crate::support::*;
use async_trait::async_trait;
use machine::{Data, time::Span};
use runtime::clock::SystemClock;
use serde_json::json;
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};
use store::{
    Hint, Hints, NoHints, Write,
    postgres::{Postgres, migrate},
};

/// How nodes hear of each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    On,
    Off,
    /// Every second one is lost, all others come twice.
    Broken,
}

/// What carries the hints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Over {
    Database,
    Broker(scratch::Kind),
}

const REDIS: Over = Over::Broker(scratch::Kind::Redis);
const NATS: Over = Over::Broker(scratch::Kind::Nats);

struct Broken {
    inner: Arc<dyn Hints>,
    count: AtomicU64,
}

#[async_trait]
impl Hints for Broken {
    fn tell(&self, hint: Hint) {
        if self.count.fetch_add(1, Ordering::Relaxed).is_multiple_of(2) {
            self.inner.tell(hint.clone());
            self.inner.tell(hint);
        }
    }

    async fn heard(&self) -> Hint {
        self.inner.heard().await
    }
}

struct Shared {
    world: World,
    store: Arc<Postgres>,
    broker: Option<scratch::Broker>,
    _database: scratch::Database,
}

impl Shared {
    /// `None`, said loudly, without the servers on this machine.
    async fn new(over: Over) -> Option<Shared> {
        let broker = match over {
            Over::Database => None,
            Over::Broker(kind) => Some(scratch::broker(kind)?),
        };
        let database = scratch::database()?;
        migrate(&database.owner_url, Some(database.application)).await.unwrap();
        let store = Arc::new(Postgres::open(&database.url).await.unwrap());
        let world = World::over(store.clone(), Arc::new(SystemClock));
        Some(Shared { world, store, broker, _database: database })
    }

    fn whole(&self) -> Arc<dyn Hints> {
        match &self.broker {
            None => Arc::new(self.store.hints()),
            Some(broker) => {
                Arc::new(bus::Address::parse(&broker.url(), "test").and_then(|way| way.open()).unwrap())
            }
        }
    }

    fn hints(&self, mode: Mode) -> Arc<dyn Hints> {
        match mode {
            Mode::On => self.whole(),
            Mode::Off => Arc::new(NoHints),
            Mode::Broken => Arc::new(Broken { inner: self.whole(), count: AtomicU64::new(0) }),
        }
    }

    /// With whole hints a node never looks round by itself; otherwise it does so often.
    async fn node(&self, mode: Mode) -> Up {
        let rescan = (mode != Mode::On).then(|| Span::from_millis(300));
        let build = self.world.build().worker(echo("work")).hints(self.hints(mode));
        build.options(|options| options.rescan = rescan).start().await
    }

    /// Publishes what all of them wait for, once all do: an event that was taken is kept for nobody else.
    async fn publish_to_all(&self, node: &Up, ids: &[uuid::Uuid]) {
        for id in ids {
            until(async || self.world.view(*id).await.waiting_kind.as_deref() == Some("Event")).await;
        }
        let event = json!({ "specversion": "1.0", "id": "1", "source": "test", "type": "go", "data": {} });
        node.handle.publish(&node.tenant, Data::from_json(event)).await.unwrap();
    }
}

const WALK: &str = "do:
- one: { call: 'work:1.0.0@default', with: { v: '${ .n }' } }
- two: { wait: { milliseconds: 20 } }
- hear: { listen: { to: { one: { with: { type: go } } } } }
- three: { call: 'work:1.0.0@default', with: { v: 3 } }
";

/// Nodes take turns in starting, in publishing and in waiting for the end.
async fn walks(over: Over) {
    let mode = Mode::On;
    let Some(shared) = Shared::new(over).await else { return };
    let nodes = [shared.node(mode).await, shared.node(mode).await, shared.node(mode).await];
    nodes[0].deploy("walk", WALK).await;
    let mut ids = Vec::new();
    for n in 0..30 {
        ids.push(nodes[n % 3].start("walk", json!({ "n": n })).await);
    }
    shared.publish_to_all(&nodes[1], &ids).await;
    for (n, id) in ids.into_iter().enumerate() {
        let other = &nodes[(n + 1) % 3];
        let end = tokio::time::timeout(secs(60), other.handle.result(&other.tenant, id, secs(600))).await;
        let end = end.expect("its end is heard of").unwrap();
        assert!(matches!(end, runtime::api::InstanceResult::Completed(_)), "{mode:?}: {end:?}");
        assert_eq!(shared.world.count(id, "step.completed").await, 4, "{mode:?}");
    }
    for node in nodes {
        node.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_hints_no_node_waits_for_a_rescan() {
    walks(Over::Database).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nor_with_hints_over_redis() {
    walks(REDIS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nor_with_hints_over_nats() {
    walks(NATS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_and_doubled_hints_change_nothing_but_time() {
    walks_and_looks(Over::Database, Mode::Broken).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_and_doubled_hints_over_redis_change_nothing_but_time() {
    walks_and_looks(REDIS, Mode::Broken).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_and_doubled_hints_over_nats_change_nothing_but_time() {
    walks_and_looks(NATS, Mode::Broken).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_hints_the_rescan_finds_everything() {
    walks_and_looks(Over::Database, Mode::Off).await;
}

/// The same where an end may go untold: whoever waits asks again.
async fn walks_and_looks(over: Over, mode: Mode) {
    let Some(mut shared) = Shared::new(over).await else { return };
    let nodes = [shared.node(mode).await, shared.node(mode).await];
    nodes[0].deploy("walk", WALK).await;
    let mut ids = Vec::new();
    for n in 0..20 {
        ids.push(nodes[n % 2].start("walk", json!({ "n": n })).await);
        if let (10, Some(broker)) = (n, &mut shared.broker) {
            // Half of them have only begun: nobody is told of the rest.
            broker.kill();
        }
    }
    shared.publish_to_all(&nodes[1], &ids).await;
    for id in ids {
        let ended = async || shared.world.status(id).await == "completed";
        until(ended).await;
        assert_eq!(shared.world.count(id, "step.completed").await, 4, "{mode:?}");
    }
    for node in nodes {
        node.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_nobody_owns_is_found_by_whoever_is_told() {
    let Some(shared) = Shared::new(Over::Database).await else { return };
    let node = shared.node(Mode::On).await;
    node.deploy("d", "do: [ { a: { listen: { to: { one: { with: { type: go } } } } } } ]").await;
    let id = node.start("d", json!({})).await;
    // As if another node had no room for it.
    let signal = store::rows::SignalRow {
        id: uuid::Uuid::from_u128(9),
        instance: id,
        signal_type: "ExternalSignal".to_owned(),
        created_at: shared.world.now(),
        visible_at: shared.world.now(),
        attempt: 0,
        owner: None,
        envelope: b"no envelope".to_vec(),
        taken_over: 0,
    };
    shared.world.write(vec![Write::Signal(signal)]).await;
    let other = shared.whole();
    other.tell(Hint::queues());
    // What cannot be read becomes a dead letter, by whoever claims it.
    tokio::time::timeout(secs(60), shared.world.letter()).await.expect("it is found");
    node.stop().await;
}

/// Everything that three nodes do by themselves, ten times as often as by default.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_node_of_three_sends_less_than_one_statement_a_second() {
    const FASTER: i64 = 10;
    const SECONDS: u64 = 6;
    const NODES: u64 = 3;
    let Some(shared) = Shared::new(Over::Database).await else { return };
    let faster = |span: Span| Span(span.0 / FASTER);
    let mut nodes = Vec::new();
    for _ in 0..NODES {
        let done = worker::each(|_| worker::Handled::done());
        let events = worker::Declaration::on("mail", ["order"], done);
        let build = shared.world.build().worker(echo("work")).worker(events).hints(shared.hints(Mode::On));
        let node = build.options(|options| {
            options.lease = faster(options.lease);
            options.rescan = options.rescan.map(faster);
        });
        nodes.push(node.start().await);
    }
    let body = "do: [ { a: { call: 'work:1.0.0@default', with: { v: 1 } } }, { b: { wait: { days: 1 } } } ]";
    nodes[0].deploy("d", body).await;
    nodes[0].start("d", json!({})).await;
    pass(secs(2)).await;
    let before = shared.store.statements();
    pass(secs(SECONDS)).await;
    let sent = shared.store.statements() - before;
    let per_second = sent as f64 / (NODES as f64 * SECONDS as f64 * FASTER as f64);
    println!(
        "idle: {per_second:.2} statements per node and second ({sent} of {NODES} in {SECONDS} s at {FASTER} times the pace)"
    );
    assert!(per_second < 0.6, "{per_second}");
    for node in nodes {
        node.stop().await;
    }
}
