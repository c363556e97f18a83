//! B13, B14: the stored snapshot's shape, its agreement with the columns, and what happens to one that is not ours.

use crate::support::*;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::sync::Arc;
use store::Write;
use trial::tap::Act;

/// Panics unless `snapshot` has exactly the members and types of the contract.
fn has_the_shape(snapshot: &Value) {
    let keys: Vec<&str> = snapshot.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(
        keys,
        [
            "engineSchemaVersion",
            "workflowState",
            "businessReference",
            "status",
            "waiting",
            "resume",
            "subWorkflowFrames",
            "continuationBuffer"
        ]
    );
    assert_eq!(snapshot["engineSchemaVersion"], 1);
    assert!(snapshot["workflowState"].is_object());
    let status = snapshot["status"].as_str().unwrap();
    assert!(["Open", "Paused", "Completed", "Faulted", "Cancelled"].contains(&status), "{status}");
    let business = &snapshot["businessReference"];
    assert!(business.is_null() || business["key"].is_string() && business["parts"].is_object(), "{business}");
    let waiting = &snapshot["waiting"];
    if !waiting.is_null() {
        assert!(waiting["kind"].is_string() && waiting["token"].is_string(), "{waiting}");
        assert!(waiting["untilUtc"].is_null() || waiting["untilUtc"].as_str().unwrap().ends_with('Z'));
    }
    let resume = &snapshot["resume"];
    assert_eq!(resume.is_null(), waiting.is_null());
    if !resume.is_null() {
        assert!(resume["entryPointKind"].is_string() && resume["taskName"].is_string(), "{resume}");
        assert!(resume["branchPath"].as_array().unwrap().iter().all(Value::is_string));
        assert!(resume["nextStepIndex"].is_u64());
    }
    assert!(snapshot["subWorkflowFrames"].is_array() && snapshot["continuationBuffer"].is_array());
}

#[tokio::test(start_paused = true)]
async fn every_stored_snapshot_has_the_shape_and_agrees_with_its_columns() {
    let world = World::new();
    let node = world.build().worker(echo("w")).start().await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = seen.clone();
    node.tap.on_commit(move |batch| {
        for write in batch.iter().flat_map(|commit| &commit.writes) {
            if let Write::UpdateState(state) | Write::CreateInstance { state, .. } = write {
                noted.lock().push((**state).clone());
            }
        }
        Act::Pass
    });
    node.deploy(
        "all",
        "do:
- work: { call: 'w:1.0.0@default', with: { v: '${ . }' } }
- rest: { wait: { seconds: 1 } }
- both:
    fork:
      branches:
      - hear: { listen: { to: { one: { with: { type: go } } } } }
      - ask: { call: 'human-task:1.0.0@default', with: { title: T }, timeout: { after: { seconds: 30 } } }
",
    )
    .await;
    let mut start = start_of("all", json!({ "a": [1, { "b": null }] }));
    start.business_key = Some("k".to_owned());
    let id = node.handle.start(&node.tenant, start).await.unwrap().id;
    node.signal(id, "later", json!(0)).await;
    node.handle.order(&node.tenant, id, runtime::api::Order::Pause, "op").await.unwrap();
    node.handle.order(&node.tenant, id, runtime::api::Order::Resume, "op").await.unwrap();
    pass(secs(5)).await;
    node.signal(id, "go", json!(1)).await;
    node.fault(id).await;
    node.handle.order(&node.tenant, id, runtime::api::Order::Retry, "op").await.unwrap();
    node.handle.order(&node.tenant, id, runtime::api::Order::Cancel, "op").await.unwrap();
    let rows = seen.lock().clone();
    assert!(rows.len() >= 8, "{}", rows.len());
    for row in &rows {
        let snapshot: Value = serde_json::from_slice(&row.state_json).unwrap();
        has_the_shape(&snapshot);
        let text = |value: &Value| value.as_str().map(str::to_owned);
        assert_eq!(text(&snapshot["waiting"]["kind"]), row.waiting_kind);
        assert_eq!(text(&snapshot["waiting"]["token"]), row.waiting_token);
        assert_eq!(text(&snapshot["waiting"]["untilUtc"]), row.waiting_until.map(machine::Time::rfc3339));
        let pointer = row.resume_pointer_json.as_ref();
        let pointer = pointer.map_or(Value::Null, |json| serde_json::from_slice(json).unwrap());
        assert_eq!(snapshot["resume"], pointer);
        let waits_for_person = row.waiting_kind.as_deref() == Some("TaskCompletion");
        assert_eq!(row.active_task_id.is_some(), waits_for_person);
    }
    assert!(rows.iter().any(|row| row.waiting_kind.as_deref() == Some("TaskCompletion")));
    let last: Value = serde_json::from_slice(&rows.last().unwrap().state_json).unwrap();
    assert_eq!(last["status"], "Cancelled");
    assert_eq!(last["businessReference"]["key"], "k");
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_a_person_is_a_task_completion_entered_by_task_on_complete() {
    let world = World::new();
    let node = world.node().await;
    node.deploy("ask", "do: [ { approve: { call: 'human-task:1.0.0@default', with: { title: T } } } ]").await;
    let id = node.start("ask", json!({})).await;
    let snapshot = world.snapshot(id).await;
    assert_eq!(snapshot["status"], "Open");
    assert_eq!(snapshot["waiting"]["kind"], "TaskCompletion");
    assert_eq!(snapshot["resume"]["entryPointKind"], "TaskOnComplete");
    assert_eq!(snapshot["resume"]["taskName"], "approve");
}

const LISTEN: &str = "do: [ { hear: { listen: { to: { one: { with: { type: go } } } } } } ]";

#[tokio::test(start_paused = true)]
async fn what_a_newer_build_wrote_is_left_to_it_and_nothing_is_buried_or_lost() {
    let outcome = |json: &mut Value, outcome: Value| {
        json["continuationBuffer"] = json!([{ "command": "childDone", "token": 1, "outcome": outcome }]);
    };
    let newer: [&dyn Fn(&mut Value); 9] = [
        &|json| json["engineSchemaVersion"] = json!(99),
        &|json| json["workflowState"]["dreams"] = json!([1]),
        &|json| json["workflowState"]["trace"] = json!({ "correlationId": "c", "baggage": "b" }),
        &|json| {
            json["workflowState"]["error"] = json!({ "type": "t", "status": 400, "dreams": 1 });
        },
        &|json| outcome(json, json!({ "status": "completed", "output": 1, "dreams": 1 })),
        &|json| {
            outcome(json, json!({ "status": "faulted", "error": { "type": "t", "status": 1, "new": 1 } }))
        },
        &|json| outcome(json, json!({ "status": "cancelled", "by": "op" })),
        &|json| json["workflowState"]["branches"][0]["next"] = json!({ "hop": "begin", "dreams": 1 }),
        &|json| json["workflowState"]["branches"][0]["frames"][0]["body"] = json!({ "dream": {} }),
    ];
    let world = World::new();
    let node = world.node().await;
    node.deploy("d", LISTEN).await;
    let mut left = Vec::new();
    for change in newer {
        let id = node.start("d", json!({})).await;
        let before = world.snapshot(id).await;
        world.rewrite(id, change).await;
        let stored = world.snapshot(id).await;
        let signal = node.signal(id, "go", json!(1)).await;
        left.push((id, before, stored, signal));
    }
    pass(secs(1800)).await;
    assert!(world.letters().await.is_empty());
    assert_eq!(world.counts().await.signals, newer.len() as u64);
    for (id, before, stored, signal) in left {
        assert_eq!(world.snapshot(id).await, stored, "as it was");
        let refused = node.handle.order(&node.tenant, id, runtime::api::Order::Cancel, "op").await;
        assert!(matches!(refused, Err(runtime::api::Refusal::Unavailable(_))), "{refused:?}");
        // A node of that build goes on from there, and leaves something that everybody reads.
        world.rewrite(id, |json| *json = before).await;
        assert_eq!(node.output(id).await, json!([1]));
        assert_eq!(world.view(id).await.last_signal_id, Some(signal));
    }
}

#[tokio::test(start_paused = true)]
async fn what_no_newer_node_takes_for_an_hour_becomes_a_dead_letter_and_can_be_replayed() {
    let world = World::new();
    let node = world.node().await;
    node.deploy("d", LISTEN).await;
    let id = node.start("d", json!({})).await;
    world.rewrite(id, |json| json["engineSchemaVersion"] = json!(99)).await;
    node.signal(id, "go", json!(1)).await;
    node.tap.take_counts();
    pass(secs(3500)).await;
    let commits = node.tap.take_counts()["commit"];
    assert!(commits < 250, "it comes more and more seldom: {commits} commits");
    assert!(world.letters().await.is_empty());
    pass(secs(200)).await;
    let letter = world.letter().await;
    assert_eq!((letter.source.as_str(), letter.reason.as_str()), ("signal", "snapshot-inconsistent"));
    assert!(letter.detail.contains("99") && letter.attempts == 0, "{letter:?}");
    world.rewrite(id, |json| json["engineSchemaVersion"] = json!(1)).await;
    node.handle.replay_dead_letter(&node.tenant, letter.id, "op").await.unwrap();
    assert_eq!(node.output(id).await, json!([1]));
}

#[tokio::test(start_paused = true)]
async fn a_definition_that_a_newer_build_compiled_is_left_to_it() {
    let world = World::new();
    let node = world.node().await;
    node.deploy("old", LISTEN).await;
    let stored = world.store.definition(&world.tenant, "test", "old", None).await.unwrap().unwrap();
    let mut ir: Value = serde_json::from_slice(&stored.ir).unwrap();
    ir["name"] = json!("new");
    ir["steps"][0]["dreams"] = json!(true);
    let row =
        store::rows::DefinitionRow { name: "new".into(), ir: serde_json::to_vec(&ir).unwrap(), ..stored };
    world.write(vec![Write::CreateDefinition(Box::new(row))]).await;
    let refused = node.handle.start(&node.tenant, start_of("new", json!({}))).await;
    assert!(matches!(refused, Err(runtime::api::Refusal::Unavailable(_))), "{refused:?}");
    node.deploy(
        "parent",
        "do: [ { child: { run: { workflow: { namespace: test, name: new, version: latest } } } } ]",
    )
    .await;
    let id = node.start("parent", json!({})).await;
    pass(secs(600)).await;
    assert_eq!(world.status(id).await, "waiting", "it does not fault because this node is too old");
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_that_contradicts_itself_is_refused() {
    for damage in ["orphan wait", "no waits", "unknown step", "not JSON of ours"] {
        let world = World::new();
        let node = world.node().await;
        node.deploy("d", LISTEN).await;
        let id = node.start("d", json!({})).await;
        world
            .rewrite(id, |json| match damage {
                "orphan wait" => json["workflowState"]["waits"][0]["frame"] = json!(1_000),
                "no waits" => json["workflowState"]["waits"] = json!([]),
                "unknown step" => json["workflowState"]["branches"][0]["frames"][1]["step"] = json!(500),
                _ => json["workflowState"] = json!("gone"),
            })
            .await;
        node.signal(id, "go", json!(1)).await;
        assert_eq!(world.letter().await.reason, "snapshot-inconsistent", "{damage}");
    }
}
