//! B11: each column of the snapshot row, by what it is there for.

use crate::support::*;
use machine::{Time, id};
use serde_json::{Value, json};
use worker::{Class, Outcome};

const LISTEN_THEN_WAIT: &str = "do:
- hear: { listen: { to: { one: { with: { type: go } } } } }
- rest: { wait: { seconds: 5 } }
- ask: { call: 'human-task:1.0.0@default', with: { title: T } }
";

#[tokio::test(start_paused = true)]
async fn state_version_rises_by_one_per_commit_and_the_schema_version_is_the_snapshots() {
    let world = World::new();
    let node = world.node().await;
    node.deploy("d", LISTEN_THEN_WAIT).await;
    let id = node.start("d", json!({})).await;
    assert_eq!(world.view(id).await.state_version, 1);
    node.signal(id, "go", json!(1)).await;
    until(|| async { world.view(id).await.state_version == 2 }).await;
    let view = world.view(id).await;
    assert_eq!(view.snapshot_schema_version, machine::snapshot::SCHEMA_VERSION);
    let snapshot = world.snapshot(id).await;
    assert_eq!(snapshot["engineSchemaVersion"], view.snapshot_schema_version);
}

#[tokio::test(start_paused = true)]
async fn the_waiting_columns_name_what_is_waited_for_and_until_when() {
    let world = World::new();
    let node = world.node().await;
    node.deploy("d", LISTEN_THEN_WAIT).await;
    let id = node.start("d", json!({})).await;
    let view = world.view(id).await;
    assert_eq!((view.waiting_kind.as_deref(), view.waiting_until), (Some("Event"), None));
    let event_token = view.waiting_token.unwrap();
    node.signal(id, "go", json!(1)).await;
    until(|| async { world.view(id).await.waiting_kind.as_deref() == Some("Timer") }).await;
    let view = world.view(id).await;
    assert_ne!(view.waiting_token.unwrap(), event_token, "a new wait has a new token");
    assert_eq!(view.waiting_until, Some(Time(view.last_executed_on.0 + 5_000_000)));
    until(|| async { world.view(id).await.waiting_kind.as_deref() == Some("TaskCompletion") }).await;
    let view = world.view(id).await;
    assert_eq!(view.active_task_id, Some(world.tasks(id).await[0].id));
    assert_eq!(view.waiting_until, None);
    node.handle.order(&node.tenant, id, runtime::api::Order::Cancel, "op").await.unwrap();
    let view = world.view(id).await;
    assert_eq!((view.waiting_kind, view.waiting_token, view.active_task_id), (None, None, None));
}

#[tokio::test(start_paused = true)]
async fn of_several_waits_the_columns_show_the_one_due_first() {
    let world = World::new();
    let node = world.node().await;
    node.deploy(
        "d",
        "do:
- all:
    fork:
      branches:
      - slow: { wait: { seconds: 90 } }
      - hear: { listen: { to: { one: { with: { type: go } } } } }
      - fast: { wait: { seconds: 30 } }
",
    )
    .await;
    let id = node.start("d", json!({})).await;
    let view = world.view(id).await;
    assert_eq!(view.waiting_until, Some(Time(view.row.created_at.0 + 30_000_000)));
    let snapshot = world.snapshot(id).await;
    assert_eq!(snapshot["workflowState"]["waits"].as_array().unwrap().len(), 3);
    assert_eq!(snapshot["waiting"]["token"].as_str(), view.waiting_token.as_deref());
    pass(secs(31)).await;
    let view = world.view(id).await;
    assert_eq!(view.waiting_until, Some(Time(view.row.created_at.0 + 90_000_000)), "then the next");
}

#[tokio::test(start_paused = true)]
async fn the_resume_pointer_says_which_step_goes_on() {
    let world = World::new();
    let node = world.node().await;
    node.deploy(
        "d",
        "do: [ { outer: { do: [ { a: { set: { x: 1 } } }, { rest: { wait: { seconds: 9 } } } ] } } ]",
    )
    .await;
    let id = node.start("d", json!({})).await;
    let pointer: Value = serde_json::from_slice(&world.view(id).await.resume_pointer_json.unwrap()).unwrap();
    assert_eq!(pointer["entryPointKind"], "TimerDue");
    assert_eq!(pointer["taskName"], "rest");
    assert_eq!(pointer["branchPath"], json!(["/do/0/outer", "/do/0/outer/do/1/rest"]));
    assert_eq!(pointer["nextStepIndex"], 2);
    assert_eq!(world.snapshot(id).await["resume"], pointer);
}

#[tokio::test(start_paused = true)]
async fn the_last_signal_is_remembered_until_the_next_one() {
    let world = World::new();
    let node = world.build().worker(echo("w")).start().await;
    node.deploy(
        "d",
        "do:
- hear: { listen: { to: { one: { with: { type: go } } } } }
- work: { call: 'w:1.0.0@default', with: { v: '${ . }' } }
- again: { listen: { to: { one: { with: { type: go } } } } }
- rest: { wait: { seconds: 1 } }
- last: { listen: { to: { one: { with: { type: go } } } } }
",
    )
    .await;
    let id = node.start("d", json!({})).await;
    assert_eq!(world.view(id).await.last_signal_id, None);
    let first = node.signal(id, "go", json!(1)).await;
    until(|| async { world.count(id, "step.completed").await == 2 }).await;
    assert_eq!(world.view(id).await.last_signal_id, Some(first), "a call's result is no signal");
    let second = node.signal(id, "go", json!(2)).await;
    until(|| async { world.view(id).await.last_signal_id == Some(second) }).await;
    let token: u64 = world.view(id).await.waiting_token.unwrap().parse().unwrap();
    until(|| async { world.view(id).await.waiting_kind.as_deref() == Some("Event") }).await;
    let due = id::derive(id, token);
    assert_eq!(world.view(id).await.last_signal_id, Some(due), "a due timer is a signal");
}

#[tokio::test(start_paused = true)]
async fn the_last_error_is_there_while_faulted_and_gone_after_a_retry() {
    let world = World::new();
    let failing = Gate::new();
    let (declaration, _) = recording(&world, "w", |context, input| match context.attempt {
        _ if input.get("bad").is_some() => Outcome::fail(Class::Validation, "not like this"),
        _ => Outcome::Done(input),
    });
    let node = world.build().worker(declaration).worker(failing.worker("gate")).start().await;
    node.deploy("d", "do: [ { a: { call: 'w:1.0.0@default', with: { bad: 1 } } } ]").await;
    let id = node.start("d", json!({})).await;
    let fault = node.fault(id).await;
    let view = world.view(id).await;
    assert_eq!(view.last_error_code.as_deref(), Some(fault.error_type.as_str()));
    assert!(view.last_error_code.unwrap().ends_with("/validation"));
    let error: Value = serde_json::from_slice(&view.last_error_json.unwrap()).unwrap();
    assert_eq!(
        (error["detail"].as_str(), error["instance"].as_str()),
        (Some("not like this"), Some("/do/0/a"))
    );
    assert_eq!(view.row.error, Some(serde_json::to_vec(&error).unwrap()), "the projection says the same");
    node.handle.order(&node.tenant, id, runtime::api::Order::Retry, "op").await.unwrap();
    let view = world.view(id).await;
    assert_eq!((view.last_error_code, view.last_error_json, view.row.error), (None, None, None));
}

#[tokio::test(start_paused = true)]
async fn the_committing_node_and_its_time_are_recorded() {
    let world = World::new();
    let first = world.node().await;
    first.deploy("d", LISTEN_THEN_WAIT).await;
    let id = first.start("d", json!({})).await;
    let view = world.view(id).await;
    assert_eq!((view.last_executed_by, view.last_executed_on), (first.node.id(), view.row.created_at));
    let second = world.node().await;
    pass(secs(3)).await;
    second.signal(id, "go", json!(1)).await;
    until(|| async { world.view(id).await.state_version == 2 }).await;
    let view = world.view(id).await;
    assert_eq!(view.last_executed_by, second.node.id(), "no node owns an instance for good");
    assert!(view.last_executed_on.0 >= view.row.created_at.0 + 3_000_000);
}
