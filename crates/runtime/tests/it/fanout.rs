//! `map`: every item once, a bounded number at a time, whatever fails.

use crate::support::*;
use machine::Data;
use parking_lot::Mutex;
use runtime::api::{InstanceResult, Order};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};
use store::Write;
use trial::tap::Act;
use uuid::Uuid;
use worker::{Class, Declaration, Outcome};

const PURE: &str = "do: [ { s: { set: { twice: '${ .n * 2 }' } } } ]";
const DURABLE: &str = "do: [ { w: { call: 'work:1.0.0@default', with: { n: '${ .n }' } } } ]";

fn map(more: &str) -> String {
    format!(
        "do:
- m:
    call: 'map:1.0.0@default'
    with: {{ items: '${{ .items }}', workflow: {{ namespace: test, name: item, version: '1.0.0' }}, {more} }}
"
    )
}

fn numbers(count: u64) -> Vec<Value> {
    (0..count).map(|n| json!({ "n": n })).collect()
}

async fn uploaded(node: &Up, count: u64) -> String {
    let mut upload = node.handle.upload(&node.tenant);
    for item in numbers(count) {
        upload.push(Data::from_json(item)).await.unwrap();
    }
    let row = upload.finish().await.unwrap();
    assert_eq!(row.count, count);
    machine::id::show(machine::id::Kind::Dataset, row.id)
}

/// How often each item was worked on, and how many at once at most.
#[derive(Default)]
struct Seen {
    times: Mutex<BTreeMap<i64, usize>>,
    at_once: AtomicUsize,
    at_once_max: AtomicUsize,
    /// Items that fail.
    failing: Mutex<Vec<i64>>,
    slow: AtomicBool,
}

fn worker_of(seen: &Arc<Seen>) -> Declaration {
    struct Work(Arc<Seen>);
    #[async_trait::async_trait]
    impl worker::Worker for Work {
        async fn handle(&self, _: &worker::Context, input: Data) -> Outcome {
            let n = input.get("n").and_then(|n| n.as_i64()).unwrap();
            *self.0.times.lock().entry(n).or_default() += 1;
            let now = self.0.at_once.fetch_add(1, Ordering::SeqCst) + 1;
            self.0.at_once_max.fetch_max(now, Ordering::SeqCst);
            pass(secs(if self.0.slow.load(Ordering::SeqCst) { 3600 } else { 1 })).await;
            self.0.at_once.fetch_sub(1, Ordering::SeqCst);
            match self.0.failing.lock().contains(&n) {
                true => Outcome::fail(Class::Validation, format!("{n} is bad")),
                false => Outcome::Done(Data::int(n * 10)),
            }
        }
    }
    Declaration::new("work", Work(seen.clone())).timeout(machine::time::Span::from_secs(100_000))
}

impl World {
    async fn results(&self, node: &Up, output: &Value, to: u64) -> Vec<Value> {
        let id = output["resultsRef"].as_str().unwrap();
        let id = machine::id::parse(machine::id::Kind::Dataset, id).unwrap();
        let items = node.handle.dataset_items(&self.tenant, id, 0, to).await.unwrap();
        items.into_iter().map(|(_, item)| item.to_json()).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn a_small_map_answers_with_its_results_in_order() {
    let world = World::new();
    let node = world.node().await;
    node.deploy("m", &map("batchSize: 3, concurrency: 6")).await;
    node.deploy("item", PURE).await;
    let id = node.start("m", json!({ "items": numbers(10) })).await;
    let output = node.output(id).await;
    assert_eq!((&output["succeeded"], &output["failed"]), (&json!(10), &json!(0)));
    let twice: Vec<Value> =
        output["results"].as_array().unwrap().iter().map(|one| one["output"]["twice"].clone()).collect();
    assert_eq!(twice, (0..10).map(|n| json!(n * 2)).collect::<Vec<_>>());
    assert_eq!(world.children(id).await.len(), 10);
    world.nothing_is_queued().await;
    let empty = node.start("m", json!({ "items": [] })).await;
    assert_eq!(node.output(empty).await["results"], json!([]));
}

#[tokio::test(start_paused = true)]
async fn a_large_map_keeps_its_snapshot_small_and_its_results_by_reference() {
    let world = World::new();
    let node = world.node().await;
    node.deploy("m", &map("batchSize: 100, concurrency: 200")).await;
    node.deploy("item", PURE).await;
    let items = uploaded(&node, 2500).await;
    let id = node.start("m", json!({ "items": items })).await;
    let output = node.output(id).await;
    assert_eq!((&output["succeeded"], &output["results"]), (&json!(2500), &Value::Null));
    let results = world.results(&node, &output, 2500).await;
    assert_eq!(results.len(), 2500);
    assert_eq!(results[1234], json!({"index": 1234, "status": "completed", "output": {"twice": 2468}}));
    assert_eq!(world.store.children(&world.tenant, id).await.unwrap(), [("completed".to_owned(), 2500)]);
    assert!(world.view(id).await.state_version < 100, "one commit per batch");
}

#[tokio::test(start_paused = true)]
async fn children_that_take_time_are_bounded_and_counted_together() {
    let world = World::new();
    let seen = Arc::new(Seen::default());
    let node = world.build().worker(worker_of(&seen)).start().await;
    node.deploy("m", &map("batchSize: 10, concurrency: 20")).await;
    node.deploy("item", DURABLE).await;
    let id = node.start("m", json!({ "items": numbers(300) })).await;
    let output = node.output(id).await;
    assert_eq!(output["succeeded"], 300);
    assert_eq!(output["results"][299]["output"], 2990);
    assert!(seen.times.lock().values().all(|times| *times == 1) && seen.times.lock().len() == 300);
    assert!(seen.at_once_max.load(Ordering::SeqCst) <= 20);
    let turns = world.view(id).await.state_version;
    assert!(turns < 150, "many ends are one turn, there were {turns}");
    world.nothing_is_queued().await;
}

#[tokio::test(start_paused = true)]
async fn the_first_failure_stops_and_a_retry_does_the_rest() {
    let world = World::new();
    let seen = Arc::new(Seen::default());
    let node = world.build().worker(worker_of(&seen)).start().await;
    node.deploy("m", &map("batchSize: 5, concurrency: 10, onError: fail")).await;
    node.deploy("item", DURABLE).await;
    seen.failing.lock().push(7);
    let id = node.start("m", json!({ "items": numbers(40) })).await;
    let fault = node.fault(id).await;
    assert!(
        fault.error_type.ends_with("validation") && fault.detail.as_deref() == Some("7 is bad"),
        "{fault:?}"
    );
    world.nothing_is_queued().await;
    let open = ["running", "waiting", "paused"];
    assert!(world.children(id).await.iter().all(|child| !open.contains(&child.row.status.as_str())));
    assert!(seen.times.lock().len() < 40, "no more were started");
    seen.failing.lock().clear();
    node.handle.order(&node.tenant, id, Order::Retry, "op").await.unwrap();
    let output = node.output(id).await;
    assert_eq!((&output["succeeded"], &output["failed"]), (&json!(40), &json!(0)));
    assert_eq!(output["results"].as_array().unwrap().len(), 40);
    assert_eq!(output["results"][7]["output"], 70);
    let times = seen.times.lock();
    assert!(times.len() == 40 && times[&0] == 1, "what had succeeded was not done again: {times:?}");
}

/// Item 0 is worked on; every other one is in the middle of a saga whose undoing takes an hour.
const UNDOING: &str = "use: { functions: { keep: { set: { kept: true } }, hold: { wait: { hours: 1 } } } }
do:
- work: { if: '${ .n == 0 }', call: 'work:1.0.0@default', with: { n: '${ .n }' } }
- saga:
    if: '${ .n? > 0 }'
    call: 'saga:1.0.0@default'
    with: { steps: [ { name: a, do: keep, undo: hold }, { name: b, do: hold } ] }
";

#[tokio::test(start_paused = true)]
async fn a_retry_waits_for_children_that_are_still_undoing() {
    let world = World::new();
    let seen = Arc::new(Seen::default());
    let node = world.build().worker(worker_of(&seen)).start().await;
    node.deploy("m", &map("onError: fail")).await;
    node.deploy("item", UNDOING).await;
    seen.failing.lock().push(0);
    let id = node.start("m", json!({ "items": numbers(2) })).await;
    node.fault(id).await;
    let undoing = || async { world.children(id).await.iter().any(|child| child.row.status == "cancelling") };
    until(undoing).await;
    seen.failing.lock().clear();
    node.handle.order(&node.tenant, id, Order::Retry, "op").await.unwrap();
    pass(secs(600)).await;
    assert!(undoing().await);
    assert_eq!(world.children(id).await.len(), 2, "no second child beside one that is not over");
    pass(secs(3600)).await;
    until(|| async { world.children(id).await.len() == 4 }).await;
}

#[tokio::test(start_paused = true)]
async fn failures_are_collected_up_to_what_is_tolerated() {
    for (tolerated, faults) in [(2, false), (1, true)] {
        let world = World::new();
        let seen = Arc::new(Seen::default());
        let node = world.build().worker(worker_of(&seen)).start().await;
        node.deploy("m", &map(&format!("onError: collect, toleratedFailures: {tolerated}"))).await;
        node.deploy("item", DURABLE).await;
        seen.failing.lock().extend([3, 4]);
        let id = node.start("m", json!({ "items": numbers(10) })).await;
        match node.end(id).await {
            InstanceResult::Completed(output) => {
                let output = output.to_json();
                assert_eq!((&output["succeeded"], &output["failed"]), (&json!(8), &json!(2)));
                assert_eq!(output["results"][3]["error"]["detail"], "3 is bad");
                assert!(!faults);
            }
            InstanceResult::Faulted(fault) => {
                assert!(faults && fault.detail.unwrap().contains("2 items failed, 1 are tolerated"));
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(world.letters().await.len(), 0, "the errors are among the results");
    }
}

#[tokio::test(start_paused = true)]
async fn cancelling_cancels_every_child() {
    let world = World::new();
    let seen = Arc::new(Seen::default());
    seen.slow.store(true, Ordering::SeqCst);
    let node = world.build().worker(worker_of(&seen)).start().await;
    node.deploy("m", &map("batchSize: 100, concurrency: 500")).await;
    node.deploy("item", DURABLE).await;
    let items = uploaded(&node, 1000).await;
    let id = node.start("m", json!({ "items": items })).await;
    until(|| async { world.store.children(&world.tenant, id).await.unwrap().iter().any(|(_, n)| *n >= 500) })
        .await;
    node.handle.order(&node.tenant, id, Order::Cancel, "op").await.unwrap();
    until(|| async {
        let children = world.store.children(&world.tenant, id).await.unwrap();
        children.iter().all(|(status, _)| status == "cancelled")
    })
    .await;
    world.nothing_is_queued().await;
    assert_eq!(world.store.children(&world.tenant, id).await.unwrap(), [("cancelled".to_owned(), 500)]);
}

#[tokio::test(start_paused = true)]
async fn a_paused_map_starts_nothing_new_and_goes_on() {
    let world = World::new();
    let seen = Arc::new(Seen::default());
    let node = world.build().worker(worker_of(&seen)).start().await;
    node.deploy("m", &map("batchSize: 5, concurrency: 10")).await;
    node.deploy("item", DURABLE).await;
    let id = node.start("m", json!({ "items": numbers(50) })).await;
    until(|| async { !seen.times.lock().is_empty() }).await;
    node.handle.order(&node.tenant, id, Order::Pause, "op").await.unwrap();
    pass(secs(100)).await;
    let begun = seen.times.lock().len();
    assert!(begun <= 20, "{begun}");
    pass(secs(1000)).await;
    assert_eq!(seen.times.lock().len(), begun);
    node.handle.order(&node.tenant, id, Order::Resume, "op").await.unwrap();
    assert_eq!(node.output(id).await["succeeded"], 50);
}

#[tokio::test(start_paused = true)]
async fn what_is_asked_for_is_checked() {
    let world = World::new();
    let node = world.node().await;
    node.deploy("m", &map("batchSize: 5")).await;
    for items in [json!(3), json!("ds_00000000000000000000000000000001"), json!(vec![1; 1001]), json!("x")] {
        let id = node.start("m", json!({ "items": items })).await;
        let fault = node.fault(id).await;
        assert!(fault.error_type.ends_with("validation"), "{fault:?}");
    }
    let id = node.start("m", json!({ "items": [1] })).await;
    assert!(node.fault(id).await.error_type.ends_with("configuration"), "the definition is not there");
}

async fn crashes_at(nth: usize, act: Act) {
    let world = World::new();
    let seen = Arc::new(Seen::default());
    let node = world.build().worker(worker_of(&seen)).start().await;
    node.deploy("m", &map("batchSize: 4, concurrency: 8")).await;
    node.deploy("item", DURABLE).await;
    let (mut left, tap) = (nth, node.tap.clone());
    let id: Uuid = node.start("m", json!({ "items": numbers(20) })).await;
    tap.on_commit(move |batch| {
        let touches = batch.iter().any(|commit| {
            commit
                .writes
                .iter()
                .any(|write| matches!(write, Write::UpdateState(_) | Write::CreateInstance { .. }))
        });
        if !touches || left == 0 {
            return Act::Pass;
        }
        left -= 1;
        if left == 0 { act } else { Act::Pass }
    });
    pass(secs(60)).await;
    node.crash().await;
    let node = world.build().worker(worker_of(&seen)).sole().start().await;
    let output = node.output(id).await;
    assert_eq!(output["succeeded"], 20, "{nth} {act:?}");
    assert_eq!(world.children(id).await.len(), 20, "{nth} {act:?}");
    world.nothing_is_queued().await;
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_commit_starts_every_item_once() {
    // A database takes its time.
    let step = if trial::lent::wants_postgres() { 6 } else { 1 };
    for nth in (1..25).step_by(step) {
        for act in [Act::CrashBefore, Act::CrashAfter, Act::Landed] {
            crashes_at(nth, act).await;
        }
    }
}
