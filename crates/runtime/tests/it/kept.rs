//! P24, B14: instances that earlier versions left behind go on to their end. `tests/kept` holds a database of each schema with
//! an instance at every kind of wait.
//!
//! With `WINDLASS_KEEP=schema-N` the test writes `tests/kept/schema-N.db` instead, with what the present code leaves behind:
//! once per release, before anything is changed.

use crate::{
    restart::{HandClock, soon},
    support::*,
};
use machine::Data;
use runtime::api::{Order, TaskAct};
use serde_json::{Value, json};
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::Arc,
};
use store::{
    Write,
    rows::InstanceRow,
    sqlite::{self, Sqlite},
    views::InstanceFilter,
};
use tokio::sync::watch;
use trial::tap::Act;
use uuid::Uuid;
use worker::{Class, Declaration, Outcome};

/// Names a file to be written, without its ending.
const KEEP: &str = "WINDLASS_KEEP";
const DAY: i64 = 86_400_000_000;

/// Name and body of what is left behind, each at a wait of its own.
const KEPT: [(&str, &str); 12] = [
    ("item", "do: [ { rest: { wait: { minutes: 5 } } }, { s: { set: { twice: '${ .n * 2 }' } } } ]"),
    ("timer", "do: [ { rest: { wait: { minutes: 5 } } }, { s: { set: { done: timer } } } ]"),
    (
        "call",
        "do: [ { c: { call: 'late:1.0.0@default', with: { v: 1 }, timeout: { after: { hours: 48 } } } },
        { s: { set: { done: '${ . }' } } } ]",
    ),
    (
        "attempt",
        "do:
- t:
    try: [ { c: { call: 'late:1.0.0@default', with: { v: 2 } } } ]
    catch: { retry: { delay: PT1M, limit: { attempt: { count: 3, duration: PT48H } } } }
- s: { set: { done: '${ . }' } }",
    ),
    (
        "retry",
        "do:
- t:
    try: [ { c: { call: 'refuses:1.0.0@default', with: { v: 3 } } } ]
    catch: { retry: { delay: PT5M, limit: { attempt: { count: 3 } } } }
- s: { set: { done: '${ . }' } }",
    ),
    ("task", "do: [ { ask: { call: 'human-task:1.0.0@default', with: { title: T } } } ]"),
    ("event", "do: [ { hear: { listen: { to: { one: { with: { type: go } } } } } } ]"),
    (
        "child",
        "do: [ { c: { run: { workflow: { namespace: test, name: item, version: '1.0.0', input: { n: 4 } } } } } ]",
    ),
    (
        "map",
        "do:
- m:
    call: 'map:1.0.0@default'
    with: { items: '${ .items }', workflow: { namespace: test, name: item, version: '1.0.0' }, batchSize: 3, concurrency: 3 }
- s: { set: { done: '${ [.results[].output.twice] }' } }",
    ),
    (
        "fork",
        "do:
- f:
    fork:
      branches:
      - a: { wait: { minutes: 5 } }
      - b: { for: { each: x, in: '${ [1, 2] }' }, do: [ { c: { call: 'late:1.0.0@default', with: { v: '${ $x }' } } } ] }
- s: { set: { done: fork } }",
    ),
    (
        "saga",
        "do:
- s:
    call: saga:1.0.0@default
    with:
      steps:
      - { name: a, do: 'echo:1.0.0@default', undo: 'echo:1.0.0@default', with: { v: 1 } }
      - { name: b, do: 'late:1.0.0@default', undo: 'echo:1.0.0@default', with: { v: 2 } }
- t: { set: { done: saga } }",
    ),
    (
        "continue",
        "do:
- f:
    for: { each: x, in: '${ [range(2500)] }' }
    do: [ { s: { set: { n: '${ $x }' } } } ]
- t: { set: { done: '${ .n }' } }",
    ),
];

/// What each comes to.
fn output(name: &str) -> Value {
    match name {
        "item" => json!({ "twice": 10 }),
        "child" => json!({ "twice": 8 }),
        "task" => json!({ "yes": true }),
        "event" => json!([7]),
        "call" => json!({ "done": 1 }),
        "attempt" => json!({ "done": 2 }),
        "retry" => json!({ "done": 3 }),
        "map" => json!({ "done": [2, 4, 6] }),
        "continue" => json!({ "done": 2_499 }),
        name => json!({ "done": name }),
    }
}

fn input(name: &str) -> Value {
    match name {
        "map" => json!({ "items": [{ "n": 1 }, { "n": 2 }, { "n": 3 }] }),
        _ => json!({ "n": 5 }),
    }
}

#[tokio::test]
async fn what_earlier_versions_left_behind_comes_to_its_end() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kept");
    if let Ok(name) = std::env::var(KEEP) {
        return keep(&folder.join(format!("{name}.db"))).await;
    }
    let files = std::fs::read_dir(&folder).unwrap().map(|file| file.unwrap().path());
    let files: Vec<PathBuf> =
        files.filter(|file| file.extension().is_some_and(|kind| kind == "db")).collect();
    assert!(!files.is_empty(), "nothing is kept");
    for file in files {
        finish(&file).await;
    }
}

fn at(time: i64) -> Arc<HandClock> {
    Arc::new(HandClock(watch::channel(time).0))
}

/// Leaves an instance of each behind, and a node that died with all of them.
async fn keep(file: &Path) {
    let place = tempfile::tempdir().unwrap();
    let database = place.path().join("windlass.db");
    let world = World::over(Arc::new(Sqlite::open(&database).unwrap()), at(EPOCH));
    let refuses = worker::from_fn(|_, _| Outcome::fail(Class::Validation, "not now"));
    let refuses = Declaration::new("refuses", refuses);
    let node = world.build().worker(echo("echo")).worker(refuses).start().await;
    for (name, body) in KEPT {
        node.deploy(name, body).await;
    }
    let mut kinds = BTreeSet::new();
    for (name, _) in KEPT.iter().filter(|(name, _)| *name != "continue") {
        let id = node.start(name, input(name)).await;
        let waits = || async { kinds_of(&world, id).await.contains(wait_of(name)) };
        soon(name, waits).await;
        kinds.extend(kinds_of(&world, id).await);
    }
    let paused = node.start("event", json!({})).await;
    node.handle.order(&node.tenant, paused, Order::Pause, "op").await.unwrap();
    node.signal(paused, "go", json!(7)).await;
    soon("what comes in while paused", || async { world.counts().await.signals == 0 }).await;
    let continues =
        |write: &Write| matches!(write, Write::Signal(row) if row.signal_type == "InternalContinue");
    node.tap.once(move |commit| commit.writes.iter().any(continues), Act::CrashAfter);
    let _ = node.handle.start(&node.tenant, start_of("continue", json!({}))).await;
    for row in left_behind(&world).await.iter().filter(|row| row.name == "continue") {
        kinds.extend(kinds_of(&world, row.id).await);
    }
    let all = [
        "AttemptTimeout",
        "Call",
        "Child",
        "Continue",
        "Event",
        "Map",
        "Retry",
        "TaskCompletion",
        "Timeout",
        "Timer",
    ];
    assert_eq!(kinds.iter().map(String::as_str).collect::<Vec<_>>(), all);
    node.crash().await;
    sqlite::backup(&database, file).unwrap();
}

/// The wait by which it is known that the instance is where it shall be left.
fn wait_of(name: &str) -> &'static str {
    match name {
        "item" | "timer" => "Timer",
        "attempt" => "AttemptTimeout",
        "retry" => "Retry",
        "task" => "TaskCompletion",
        "event" => "Event",
        "child" => "Child",
        "map" => "Map",
        _ => "Call",
    }
}

async fn kinds_of(world: &World, id: Uuid) -> BTreeSet<String> {
    let waits = world.snapshot(id).await["workflowState"]["waits"].as_array().unwrap().clone();
    waits.iter().map(|wait| wait["kind"].as_str().unwrap().to_owned()).collect()
}

/// All that no other instance started.
async fn left_behind(world: &World) -> Vec<InstanceRow> {
    let all = world.store.instances(&world.tenant, &InstanceFilter::default(), &whole_page()).await.unwrap();
    all.into_iter().map(|view| view.row).filter(|row| row.parent.is_none()).collect()
}

/// Goes on with all of them a day later.
async fn finish(file: &Path) {
    let place = tempfile::tempdir().unwrap();
    let database = place.path().join("windlass.db");
    sqlite::restore(file, &database).unwrap();
    let world = World::over(Arc::new(Sqlite::open(&database).unwrap()), at(EPOCH + DAY));
    let node = world.build().worker(echo("echo")).worker(echo("late")).worker(echo("refuses")).start().await;
    let left = left_behind(&world).await;
    assert_eq!(left.len(), KEPT.len() + 1, "{}", file.display());
    for row in &left {
        if row.status == "paused" {
            node.handle.order(&node.tenant, row.id, Order::Resume, "op").await.unwrap();
        } else if row.name == "event" {
            node.signal(row.id, "go", json!(7)).await;
        } else if row.name == "task" {
            let task = world.tasks(row.id).await.remove(0);
            let act = TaskAct::Complete { result: Data::from_json(json!({ "yes": true })) };
            node.handle.act_on_task(&node.tenant, task.id, act, "ann", None).await.unwrap();
        }
    }
    for row in left {
        soon(&row.name, || async { world.status(row.id).await == "completed" }).await;
        assert_eq!(node.output(row.id).await, output(&row.name), "{} of {}", row.name, file.display());
    }
    world.nothing_is_queued().await;
}
