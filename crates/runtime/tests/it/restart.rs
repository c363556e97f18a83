//! B04, B05, B09: one file holds everything; a node with nothing in memory goes on from the snapshot.

use crate::support::*;
use async_trait::async_trait;
use machine::{Data, Time, time::Span};
use runtime::{
    api::{Signal, TaskAct},
    clock::Clock,
};
use serde_json::json;
use std::sync::Arc;
use store::sqlite::Sqlite;
use tokio::sync::watch;
use trial::lent::{self, Lent};
use uuid::Uuid;

/// Time that moves only when the test says so; for stores with threads of their own.
pub(crate) struct HandClock(pub(crate) watch::Sender<i64>);

impl HandClock {
    fn advance(&self, seconds: i64) {
        self.0.send_modify(|now| *now += seconds * 1_000_000);
    }
}

#[async_trait]
impl Clock for HandClock {
    fn now(&self) -> Time {
        Time(*self.0.borrow())
    }
    async fn sleep_until(&self, time: Time) {
        let mut changes = self.0.subscribe();
        let _ = changes.wait_for(|now| Time(*now) >= time).await;
    }
    fn steady_micros(&self) -> u64 {
        self.now().0 as u64
    }
}

/// Where everything is kept: a file, or a database if that is asked for.
struct Place {
    folder: tempfile::TempDir,
    database: Option<Lent>,
}

impl Place {
    fn new() -> Place {
        let folder = tempfile::tempdir().unwrap();
        let database = lent::wants_postgres().then(|| World::lend(lent::Clock::Caller));
        Place { folder, database }
    }

    /// A node that has the place to itself: a file is locked, a database is not.
    fn build(&self, world: &World) -> Build {
        match self.database.is_some() {
            true => world.build().sole(),
            false => world.build(),
        }
    }

    /// Opens it once whoever had it open has let go of it.
    async fn open(&self, clock: &Arc<HandClock>) -> World {
        if let Some(database) = &self.database {
            return World::on(database.clone(), clock.clone());
        }
        let path = self.folder.path().join("windlass.db");
        let wait = async {
            loop {
                match Sqlite::open(&path) {
                    Ok(store) => return store,
                    Err(_) => tokio::task::yield_now().await,
                }
            }
        };
        let store =
            tokio::time::timeout(secs(60), wait).await.expect("a node that ended lets go of its store");
        World::over(Arc::new(store), clock.clone())
    }
}

/// Waits for something the threads of the store are about to do.
pub(crate) async fn soon<F: Future<Output = bool>>(what: &str, mut holds: impl FnMut() -> F) {
    let wait = async {
        while !holds().await {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(secs(60), wait).await.unwrap_or_else(|_| panic!("{what} does not come"));
}

const ALL: &str = "do:
- all:
    fork:
      branches:
      - work: { call: 'w:1.0.0@default', with: { v: '${ . }' } }
      - rest: { wait: { hours: 1 } }
      - ask: { call: 'human-task:1.0.0@default', with: { title: T } }
      - hear: { listen: { to: { one: { with: { type: go } } } } }
";

#[tokio::test]
async fn everything_survives_reopening_the_one_file() {
    let place = Place::new();
    let clock = Arc::new(HandClock(watch::channel(EPOCH).0));
    let world = place.open(&clock).await;
    let node = place.build(&world).start().await;
    node.deploy("d", ALL).await;
    let mut start = start_of("d", json!({ "n": 1 }));
    start.business_key = Some("k".to_owned());
    start.idempotency_key = Some("once".to_owned());
    let id = node.handle.start(&node.tenant, start.clone()).await.unwrap().id;
    let task = world.tasks(id).await.remove(0);
    node.handle.act_on_task(&node.tenant, task.id, TaskAct::Claim, "ann", None).await.unwrap();
    let early = Uuid::from_u128(50);
    let signal = Signal { name: "go".to_owned(), data: Data::int(1), id: None };
    node.handle.signal_early(&node.tenant, early, signal).await.unwrap();
    soon("the signal", || async { world.counts().await.signals == 1 }).await;
    let (view, snapshot, tasks) = (world.view(id).await, world.snapshot(id).await, world.tasks(id).await);
    let (history, counts) = (world.history(id).await, world.counts().await);
    node.crash().await;
    drop(world);

    let world = place.open(&clock).await;
    let after = world.view(id).await;
    assert_eq!((after.row, after.state_version), (view.row, view.state_version), "instance projection");
    assert_eq!(world.snapshot(id).await, snapshot, "snapshot");
    assert_eq!(world.tasks(id).await, tasks, "task projection");
    assert_eq!(world.store.task_events(&world.tenant, task.id).await.unwrap().len(), 2, "task events");
    assert_eq!((world.history(id).await, world.counts().await), (history, counts), "history and both queues");
    let node = place.build(&world).worker(echo("w")).start().await;
    let again = node.handle.start(&node.tenant, start).await.unwrap();
    assert!(again.replayed && again.id == id, "the idempotency record");
}

#[tokio::test]
async fn a_node_with_nothing_in_memory_goes_on_from_the_snapshot_alone() {
    let place = Place::new();
    let clock = Arc::new(HandClock(watch::channel(EPOCH).0));
    let world = place.open(&clock).await;
    let node = place.build(&world).start().await;
    node.deploy("d", ALL).await;
    let id = node.start("d", json!({ "n": 1 })).await;
    node.crash().await;
    drop(world);

    // Each branch is answered by another process start.
    // The first one had no such worker, and may have put the call off by a little.
    clock.advance(60);
    let world = place.open(&clock).await;
    let node = place.build(&world).worker(echo("w")).start().await;
    soon("the answer of the call", || async { world.view(id).await.state_version == 2 }).await;
    node.crash().await;
    drop(world);
    let world = place.open(&clock).await;
    let node = place.build(&world).start().await;
    node.handle.signal(&node.tenant, id, signal_of("go", json!(5), None)).await.unwrap();
    soon("what the signal leads to", || async { world.view(id).await.state_version == 3 }).await;
    node.crash().await;
    drop(world);
    let world = place.open(&clock).await;
    let node = place.build(&world).start().await;
    let task = world.tasks(id).await[0].id;
    let act = TaskAct::Complete { result: Data::bool(true) };
    node.handle.act_on_task(&node.tenant, task, act, "ann", None).await.unwrap();
    node.stop().await;
    drop(world);
    clock.advance(3600);
    let world = place.open(&clock).await;
    let node = place.build(&world).start().await;
    soon("the end", || async { world.status(id).await == "completed" }).await;
    assert_eq!(node.output(id).await, json!([{ "n": 1 }, { "n": 1 }, true, [5]]));
    let row = world.view(id).await.row;
    assert!(row.ended_at.unwrap().since(row.created_at) >= Span::from_secs(3600));
}

#[tokio::test]
async fn many_instances_complete_on_the_threaded_store_with_real_concurrency() {
    let place = Place::new();
    let clock = Arc::new(HandClock(watch::channel(EPOCH).0));
    let world = place.open(&clock).await;
    let node = place.build(&world).worker(echo("w")).start().await;
    node.deploy("d", "do: [ { a: { call: 'w:1.0.0@default', with: { v: '${ . }' } } }, { b: { call: 'w:1.0.0@default', with: { v: '${ . }' } } } ]").await;
    let starts = (0..200).map(|n| start_of("d", json!(n))).collect();
    let answers = node.handle.start_many(&node.tenant, starts).await;
    for (n, answer) in answers.into_iter().enumerate() {
        assert_eq!(node.output(answer.unwrap().id).await, json!(n));
    }
    assert_eq!(world.counts().await.instances, [("completed".to_owned(), 200)]);
}
