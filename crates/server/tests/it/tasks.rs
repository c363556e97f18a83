//! Tasks and dead letters through the API.

use crate::harness::{APPROVE, World};
use serde_json::json;

#[tokio::test]
async fn a_person_claims_and_completes() {
    let world = World::new().await;
    world.deploy("approve", APPROVE).await;
    let id = world.start("approve", json!({"total": 900})).await;
    let task = world.task_of(&id).await;
    assert_eq!((&task["status"], &task["title"]), (&json!("open"), &json!("Approve it")));
    assert_eq!((&task["instance"], &task["candidate_groups"]), (&json!(id), &json!(["managers"])));
    let path = format!("/api/v1/tasks/{}", task["id"].as_str().unwrap());
    let claimed = world.act(&format!("{path}/claim")).await;
    assert_eq!(
        (&claimed.ok(200)["status"], &claimed.json()["assignee"]),
        (&json!("claimed"), &json!("admin"))
    );
    let stale = [("if-match", "\"1\"")];
    let late = world.post_with(&format!("{path}/complete"), &stale, json!({"result": {"ok": true}})).await;
    late.problem(412, "stale");
    assert_eq!(late.header("etag"), claimed.header("etag"));
    let other = world.token("acme", "worker");
    let refused = world.ask("POST", &format!("{path}/complete"), Some(&other), "{}").await;
    refused.problem(409, "task-claimed");
    let fresh = [("if-match", claimed.header("etag"))];
    let done = world.post_with(&format!("{path}/complete"), &fresh, json!({"result": {"ok": true}})).await;
    assert_eq!(done.ok(200)["status"], "completed");
    assert_eq!(world.result(&id).await["status"], "completed");
    world.act(&format!("{path}/claim")).await.problem(409, "task-ended");
    let read = world.get(&path).await;
    let body = read.json();
    let events = body["events"].as_array().unwrap();
    let kinds: Vec<&str> = events.iter().map(|event| event["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["created", "assigned", "completed"]);
    assert_eq!(read.header("etag"), format!("\"{}\"", read.json()["version"]));
}

#[tokio::test]
async fn a_result_must_fit_the_form() {
    let world = World::new().await;
    let form = "{ type: object, required: [ ok ], properties: { ok: { type: boolean } }, additionalProperties: false }";
    world.deploy("form", &format!("{APPROVE}\n        form: {form}")).await;
    let id = world.start("form", json!({})).await;
    let task = world.task_of(&id).await;
    let path = format!("/api/v1/tasks/{}/complete", task["id"].as_str().unwrap());
    let refused = world.post(&path, json!({"result": {"ok": 1}})).await.problem(422, "task-result-invalid");
    assert_eq!(refused["errors"][0]["pointer"], "/ok");
    assert!(refused["errors"][0]["line"].is_null(), "{refused}");
    world.post(&path, json!({"result": {"ok": true}})).await.ok(200);
    assert_eq!(world.result(&id).await["output"], json!({"ok": true}));
}

#[tokio::test]
async fn tasks_are_released_assigned_and_filtered() {
    let world = World::new().await;
    world.deploy("approve", APPROVE).await;
    let id = world.start("approve", json!({})).await;
    let task = world.task_of(&id).await;
    let path = format!("/api/v1/tasks/{}", task["id"].as_str().unwrap());
    world.act(&format!("{path}/release")).await.problem(409, "task-not-claimed");
    let assigned = world.post(&format!("{path}/assign"), json!({"to": "ada"})).await.ok(200);
    assert_eq!(assigned["assignee"], "ada");
    let count = |page: serde_json::Value| page["items"].as_array().unwrap().len();
    for (filter, wanted) in [
        ("assignee=ada", 1),
        ("assignee=bob", 0),
        ("status=claimed", 1),
        ("status=open", 0),
        ("status=open,claimed", 1),
        ("group=managers,others", 1),
        ("group=others", 0),
    ] {
        assert_eq!(count(world.get(&format!("/api/v1/tasks?{filter}")).await.ok(200)), wanted, "{filter}");
    }
    world.post(&format!("{path}/assign"), json!({})).await.problem(400, "missing-key");
    world.post(&format!("{path}/assign"), json!({"to": ""})).await.problem(400, "invalid-value");
    world
        .post_with(&format!("{path}/assign"), &[("if-match", "x")], json!({"to": "b"}))
        .await
        .problem(400, "invalid-header");
    world.get("/api/v1/tasks?status=done").await.problem(400, "invalid-parameter");
}

#[tokio::test]
async fn dead_letters_are_listed_and_unknown_ones_are_not_found() {
    let world = World::new().await;
    let page = world.get("/api/v1/dead-letters?reason=retries-exhausted&source=call").await.ok(200);
    assert_eq!(page, json!({"items": [], "next": null}));
    world.get("/api/v1/dead-letters?reason=boredom").await.problem(400, "invalid-parameter");
    let path = "/api/v1/dead-letters/dl_00000000000000000000000000000099";
    world.get(path).await.problem(404, "not-found");
    for verb in ["replay", "discard"] {
        world.act(&format!("{path}/{verb}")).await.problem(404, "not-found");
    }
}

#[tokio::test]
async fn a_dead_letter_shows_what_it_carried_and_goes_once() {
    let world = World::new().await;
    let json_one = world.dead_letter(1, br#"{"a":1}"#).await;
    let odd_one = world.dead_letter(2, b"not \xff json").await;
    for at in 3..8 {
        world.dead_letter(at, b"{}").await;
    }
    let read = world.get(&format!("/api/v1/dead-letters/{json_one}")).await.ok(200);
    assert_eq!((&read["envelope"], &read["attempts"]), (&json!({"a": 1}), &json!(3)));
    let read = world.get(&format!("/api/v1/dead-letters/{odd_one}")).await.ok(200);
    assert_eq!((&read["envelope"], &read["envelope_text"]), (&json!(null), &json!("not \u{fffd} json")));
    let mut seen = Vec::new();
    let mut path = "/api/v1/dead-letters?limit=3".to_owned();
    loop {
        let page = world.get(&path).await.ok(200);
        seen.extend(page["items"].as_array().unwrap().iter().map(|item| item["id"].clone()));
        let Some(next) = page["next"].as_str() else { break };
        path = format!("/api/v1/dead-letters?limit=3&cursor={next}");
    }
    assert_eq!((seen.len(), &seen[6]), (7, &json!(json_one)));
    let discard = format!("/api/v1/dead-letters/{json_one}/discard");
    assert_eq!(world.act(&discard).await.ok(200)["status"], "discarded");
    world.act(&discard).await.problem(404, "not-found");
}
