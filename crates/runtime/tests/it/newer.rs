//! P24: calls and declarations that hold what only a newer build knows.

use crate::{deliveries::event, support::*};
use machine::id;
use runtime::api::Declared;
use serde_json::{Value, json};
use std::time::Duration;
use store::{
    Outcome, Write,
    rows::{CallRow, WorkerRow},
};
use uuid::Uuid;

const LISTEN: &str = "do: [ { hear: { listen: { to: { one: { with: { type: go } } } } } } ]";

/// Inputs that this build writes for its own targets, one for each.
fn inputs() -> [(&'static str, Value); 7] {
    let (workflow, some) =
        (json!({ "namespace": "test", "name": "d", "version": "1.0.0" }), Uuid::from_u128(7));
    let parent = json!({ "instance": some, "token": 1, "depth": 1, "tell": false });
    [
        ("http", json!({ "method": "GET", "url": "http://127.0.0.1:1/" })),
        ("openapi", json!({ "document": "http://127.0.0.1:1/", "operation": "o" })),
        ("script:js", json!({ "code": "1" })),
        ("@child", json!({ "workflow": workflow, "input": {}, "parent": parent })),
        (
            "@map",
            json!({ "workflow": workflow, "items": some, "first": 0, "count": 1, "depth": 1, "results": some, "rounds": [1] }),
        ),
        ("@map-close", json!({ "token": 1 })),
        ("@map-results", json!({ "results": some, "total": 1, "output": {} })),
    ]
}

/// A call that nobody waits for, in the backlog.
fn call(world: &World, instance: Uuid, target: &str, input: &Value) -> CallRow {
    let envelope = json!({ "token": 900, "target": target, "key": "k", "step": "/do/0/a", "input": input });
    CallRow {
        instance,
        token: 900,
        target: target.to_owned(),
        envelope: serde_json::to_vec(&envelope).unwrap(),
        created_at: world.now(),
        visible_at: world.now(),
        attempt: 1,
        last_error: None,
        owner: None,
        taken_over: 0,
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_input_has_a_member_of_a_newer_build_is_left_to_it() {
    let world = World::new();
    let node = world.node().await;
    node.deploy("d", LISTEN).await;
    let (mut unknown, mut known) = (Vec::new(), Vec::new());
    for (target, mut input) in inputs() {
        let id = node.start("d", json!({})).await;
        known.push(Write::Call(call(&world, id, target, &input)));
        input["dreams"] = json!(1);
        unknown.push(Write::Call(call(&world, id, target, &input)));
    }
    let all = unknown.len() as u64;
    world.write(unknown).await;
    pass(secs(1800)).await;
    assert_eq!((world.counts().await.calls, world.letters().await.len()), (all, 0));
    pass(secs(2000)).await;
    assert_eq!(world.counts().await.calls, 0);
    let letters = world.letters().await;
    assert_eq!(letters.len() as u64, all, "{letters:?}");
    for letter in letters {
        assert!(letter.detail.contains("dreams") && letter.reason == "deserialization", "{letter:?}");
    }
    // The same without it is dealt with at once; only what belongs to a map that is not there may wait.
    world.write(known).await;
    pass(secs(60)).await;
    assert!(world.counts().await.calls <= 3);
    assert_eq!(world.letters().await.len() as u64, all);
}

#[tokio::test(start_paused = true)]
async fn a_declaration_of_a_newer_build_is_served_as_far_as_it_is_known_and_keeps_the_rest() {
    let world = World::new();
    let node = world.node().await;
    let declared = Declared { types: vec!["order".to_owned()], ..Declared::default() };
    let mut json = serde_json::to_value(&declared).unwrap();
    json["dreams"] = json!({ "deep": 1 });
    json["terminal"]["page"] = json!("on-call");
    let row = WorkerRow {
        name: "mail".to_owned(),
        declaration: serde_json::to_vec(&json).unwrap(),
        row_version: 1,
        created_at: world.now(),
        updated_at: world.now(),
    };
    assert_eq!(world.write(vec![Write::PutWorker { row, expected_version: 0 }]).await, Outcome::Committed);
    // It is read again now and then.
    until(|| async { node.handle.poll_deliveries(&node.tenant, "mail", 1, Duration::ZERO).await.is_ok() })
        .await;
    node.handle.publish(&node.tenant, event("order", 1)).await.unwrap();
    let lent = node.handle.poll_deliveries(&node.tenant, "mail", 1, Duration::from_secs(60)).await.unwrap();
    assert_eq!(lent.len(), 1);
    assert!(id::show(id::Kind::Event, lent[0].events[0].0).starts_with("evt_"));
    // Said anew at this node: what it does not know stays.
    let changed = Declared { attempts_max: 9, ..declared };
    assert!(!node.handle.declare_worker(&node.tenant, "mail", &changed).await.unwrap());
    let (row, read) = node.handle.declared_workers(&node.tenant).await.unwrap().remove(0);
    let stored: Value = serde_json::from_slice(&row.declaration).unwrap();
    assert_eq!((read, &stored["attempts_max"]), (changed, &json!(9)));
    assert_eq!((&stored["dreams"], &stored["terminal"]["page"]), (&json!({ "deep": 1 }), &json!("on-call")));
}
