//! Pause, resume, cancel and retry: what each does to running, waiting and ended instances, and what is refused.

use crate::support::*;
use machine::{Data, time::Span};
use runtime::api::{InstanceResult, Order, Refusal, TaskAct};
use serde_json::json;
use uuid::Uuid;
use worker::{Class, Outcome};

async fn order(node: &Up, id: Uuid, order: Order) -> Result<String, Refusal> {
    node.handle.order(&node.tenant, id, order, "op").await
}

fn refused(answer: Result<String, Refusal>) -> bool {
    matches!(answer, Err(Refusal::Conflict { code: "not-allowed-now", .. }))
}

#[tokio::test(start_paused = true)]
async fn what_comes_in_while_paused_is_kept_and_obeyed_in_order_on_resume() {
    let world = World::new();
    let node = world.node().await;
    node.deploy(
        "d",
        "do:
- first: { listen: { to: { one: { with: { type: go } } } } }
- second: { listen: { to: { one: { with: { type: go } } } } }
",
    )
    .await;
    let id = node.start("d", json!({})).await;
    assert_eq!(order(&node, id, Order::Pause).await.unwrap(), "paused");
    assert_eq!(order(&node, id, Order::Pause).await.unwrap(), "paused", "asking again is fine");
    node.signal(id, "go", json!(1)).await;
    node.signal(id, "go", json!(2)).await;
    pass(secs(60)).await;
    let view = world.view(id).await;
    assert_eq!((view.row.status.as_str(), view.runtime_status.as_str()), ("paused", "Paused"));
    assert_eq!(world.snapshot(id).await["continuationBuffer"].as_array().unwrap().len(), 2);
    order(&node, id, Order::Resume).await.unwrap();
    assert_eq!(node.output(id).await, json!([2]));
    assert_eq!(world.count(id, "signal.received").await, 2);
}

#[tokio::test(start_paused = true)]
async fn a_timer_that_comes_due_while_paused_fires_on_resume() {
    let world = World::new();
    let node = world.node().await;
    node.deploy("d", "do: [ { rest: { wait: { seconds: 10 } } } ]").await;
    let id = node.start("d", json!({})).await;
    order(&node, id, Order::Pause).await.unwrap();
    pass(secs(100)).await;
    assert_eq!((world.status(id).await.as_str(), world.counts().await.timers), ("paused", 0));
    order(&node, id, Order::Resume).await.unwrap();
    node.output(id).await;
    let row = world.view(id).await.row;
    assert!(row.ended_at.unwrap().since(row.created_at) >= Span::from_secs(100));
}

#[tokio::test(start_paused = true)]
async fn a_call_in_flight_when_paused_finishes_and_its_result_is_used_on_resume() {
    let world = World::new();
    let gate = Gate::new();
    let node = world.build().worker(gate.worker("w")).start().await;
    node.deploy("d", "do: [ { a: { call: 'w:1.0.0@default', with: { v: '${ . }' } } }, { b: { call: 'w:1.0.0@default', with: { v: '${ . }' } } } ]").await;
    let id = node.start("d", json!(7)).await;
    until(|| async { gate.begun() == 1 }).await;
    order(&node, id, Order::Pause).await.unwrap();
    gate.open.add_permits(2);
    pass(secs(60)).await;
    assert_eq!((gate.begun(), world.status(id).await.as_str()), (1, "paused"), "nothing new is begun");
    order(&node, id, Order::Resume).await.unwrap();
    assert_eq!(node.output(id).await, json!(7));
    assert_eq!(gate.begun(), 2);
}

#[tokio::test(start_paused = true)]
async fn cancelling_drops_calls_and_timers_and_cancels_tasks_in_one_commit() {
    let world = World::new();
    let gate = Gate::new();
    let node = world.build().worker(gate.worker("w")).start().await;
    node.deploy(
        "d",
        "do:
- all:
    fork:
      branches:
      - a: { call: 'w:1.0.0@default', with: { v: '${ . }' } }
      - b: { wait: { hours: 1 } }
      - c: { call: 'human-task:1.0.0@default', with: { title: T } }
",
    )
    .await;
    let id = node.start("d", json!({})).await;
    until(|| async { gate.begun() == 1 }).await;
    assert_eq!(order(&node, id, Order::Cancel).await.unwrap(), "cancelled");
    let counts = world.counts().await;
    assert_eq!((counts.calls, counts.timers, counts.tasks_open), (0, 0, 0));
    let task = world.tasks(id).await.remove(0);
    assert_eq!(task.status, "cancelled");
    let kinds: Vec<_> =
        world.store.task_events(&world.tenant, task.id).await.unwrap().into_iter().map(|e| e.kind).collect();
    assert_eq!(kinds, ["created", "cancelled"]);
    assert_eq!(node.end(id).await, InstanceResult::Cancelled);
    gate.open.add_permits(1);
    pass(secs(1)).await;
    assert_eq!(world.view(id).await.state_version, 2, "the late answer changes nothing");
    let act = TaskAct::Complete { result: Data::bool(true) };
    let late = node.handle.act_on_task(&node.tenant, task.id, act, "ann", None).await;
    assert!(matches!(late, Err(Refusal::Conflict { code: "task-ended", .. })), "{late:?}");
}

#[tokio::test(start_paused = true)]
async fn each_status_allows_its_own_orders_only() {
    let world = World::new();
    let (failing, _) = recording(&world, "fails", |_, _| Outcome::fail(Class::Validation, "no"));
    let node = world.build().worker(failing).start().await;
    node.deploy("waits", "do: [ { a: { listen: { to: { one: { with: { type: go } } } } } } ]").await;
    node.deploy("ends", "do: [ { a: { set: { x: 1 } } } ]").await;
    node.deploy("fails", "do: [ { a: { call: 'fails:1.0.0@default' } } ]").await;
    let waiting = node.start("waits", json!({})).await;
    assert!(refused(order(&node, waiting, Order::Resume).await));
    assert!(refused(order(&node, waiting, Order::Retry).await));
    let completed = node.start("ends", json!({})).await;
    for wish in [Order::Pause, Order::Resume, Order::Retry, Order::Cancel] {
        assert!(refused(order(&node, completed, wish).await), "{wish:?}");
    }
    let faulted = node.start("fails", json!({})).await;
    node.fault(faulted).await;
    for wish in [Order::Pause, Order::Resume, Order::Cancel] {
        assert!(refused(order(&node, faulted, wish).await), "{wish:?}");
    }
    order(&node, waiting, Order::Cancel).await.unwrap();
    assert_eq!(order(&node, waiting, Order::Cancel).await.unwrap(), "cancelled", "asking again is fine");
    for wish in [Order::Pause, Order::Resume, Order::Retry] {
        assert!(refused(order(&node, waiting, wish).await), "{wish:?}");
    }
    let missing = order(&node, Uuid::from_u128(1), Order::Pause).await;
    assert!(matches!(missing, Err(Refusal::NotFound(_))), "{missing:?}");
    let ended = node.handle.signal(&node.tenant, completed, signal_of("go", json!(1), None)).await;
    assert!(matches!(ended, Err(Refusal::Conflict { code: "instance-ended", .. })), "{ended:?}");
}

#[tokio::test(start_paused = true)]
async fn a_retry_runs_the_faulted_step_again_and_keeps_what_was_done() {
    let world = World::new();
    let (work, seen) = recording(&world, "w", |_, input| Outcome::Done(input));
    let broken = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(true));
    let state = broken.clone();
    let (flaky, _) =
        recording(&world, "flaky", move |_, input| match state.load(std::sync::atomic::Ordering::SeqCst) {
            true => Outcome::fail(Class::Validation, "no"),
            false => Outcome::Done(input),
        });
    let node = world.build().worker(work).worker(flaky).start().await;
    node.deploy("d", "do: [ { a: { call: 'w:1.0.0@default', with: { v: '${ . }' } } }, { b: { call: 'flaky:1.0.0@default', with: { v: '${ . }' } } } ]")
        .await;
    let id = node.start("d", json!(3)).await;
    node.fault(id).await;
    assert!(world.view(id).await.row.ended_at.is_some());
    broken.store(false, std::sync::atomic::Ordering::SeqCst);
    assert_eq!(order(&node, id, Order::Retry).await.unwrap(), "running");
    assert_eq!(node.output(id).await, json!(3));
    assert_eq!(seen.lock().len(), 1, "the first step is not done again");
}

#[tokio::test(start_paused = true)]
async fn a_retry_whose_business_key_was_taken_meanwhile_is_refused_and_changes_nothing() {
    let world = World::new();
    let (failing, _) = recording(&world, "fails", |_, _| Outcome::fail(Class::Validation, "no"));
    let node = world.build().worker(failing).start().await;
    node.deploy("fails", "do: [ { a: { call: 'fails:1.0.0@default' } } ]").await;
    node.deploy("waits", "do: [ { a: { listen: { to: { one: { with: { type: go } } } } } } ]").await;
    let keyed =
        |name: &str| runtime::api::Start { business_key: Some("k".to_owned()), ..start_of(name, json!({})) };
    let faulted = node.handle.start(&node.tenant, keyed("fails")).await.unwrap().id;
    node.fault(faulted).await;
    node.handle.start(&node.tenant, keyed("waits")).await.unwrap();
    let version = world.view(faulted).await.state_version;
    order(&node, faulted, Order::Retry).await.unwrap_err();
    assert_eq!((world.view(faulted).await.state_version, world.counts().await.calls), (version, 0));
}
