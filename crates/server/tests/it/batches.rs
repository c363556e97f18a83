//! Batches through the API: made, counted, read, ordered about; what is wrong is refused in the right place.

use crate::harness::{LISTEN, World};
use serde_json::{Value, json};

async fn done(world: &World, id: &str) -> Value {
    loop {
        let batch = world.get(&format!("/api/v1/batches/{id}")).await.ok(200);
        if batch["status"] != "running" {
            return batch;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_batch_is_made_read_and_paged() {
    let world = World::new().await;
    world.deploy("listen", LISTEN).await;
    let mut ids = Vec::new();
    for _ in 0..7 {
        ids.push(world.start("listen", json!({})).await);
    }
    let body = json!({ "act": "cancel", "q": "definition:test/listen -status:cancelled", "why": "a test", "rate": 1000 });
    let mut counting = body.clone();
    counting["dry_run"] = json!(true);
    let preview = world.post("/api/v1/batches", counting).await.ok(200);
    assert_eq!((&preview["matched"], &preview["more"]), (&json!(7), &json!(false)));
    let key = [("idempotency-key", "b-1")];
    let made = world.post_with("/api/v1/batches", &key, body.clone()).await;
    let id = made.ok(202)["id"].as_str().unwrap().to_owned();
    assert_eq!(made.header("location"), format!("/api/v1/batches/{id}"));
    let again = world.post_with("/api/v1/batches", &key, body.clone()).await;
    assert_eq!(
        (again.ok(202)["id"].as_str(), again.header("idempotency-replayed")),
        (Some(id.as_str()), "true")
    );
    let mut other = body;
    other["act"] = json!("pause");
    world.post_with("/api/v1/batches", &key, other).await.problem(422, "idempotency-key-reused");
    let batch = done(&world, &id).await;
    assert_eq!(
        batch["counts"],
        json!({ "matched": 7, "waiting": 0, "sent": 0, "done": 7, "failed": 0, "skipped": 0 })
    );
    assert_eq!(
        (&batch["status"], &batch["why"], &batch["act"]),
        (&json!("done"), &json!("a test"), &json!("cancel"))
    );
    let mut found = Vec::new();
    let mut path = format!("/api/v1/batches/{id}/items?outcome=done&limit=3");
    loop {
        let page = world.get(&path).await.ok(200);
        found.extend(
            page["items"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap().to_owned()),
        );
        let Some(next) = page["next"].as_str() else { break };
        path = format!("/api/v1/batches/{id}/items?outcome=done&limit=3&cursor={next}");
    }
    ids.sort_unstable();
    assert_eq!(found, ids);
    let listed = world.get("/api/v1/batches?status=done&act=cancel").await.ok(200);
    assert_eq!(listed["items"][0]["id"], json!(id));
    assert_eq!(world.get("/api/v1/batches?status=halted").await.ok(200)["items"], json!([]));
    for verb in ["pause", "resume"] {
        let ended = world.post(&format!("/api/v1/batches/{id}/{verb}"), Value::Null).await;
        ended.problem(409, "batch-ended");
    }
}

#[tokio::test]
async fn what_is_wrong_with_a_batch_is_said() {
    let world = World::new().await;
    let cases = [
        (json!({ "act": "cancel", "q": "" }), "empty-query", "/q"),
        (json!({ "act": "cancel", "q": "   " }), "empty-query", "/q"),
        (json!({ "act": "cancel" }), "missing-key", "/q"),
        (json!({ "act": "cancle", "q": "status:waiting" }), "invalid-value", "/act"),
        (json!({ "act": "cancel", "q": "statsu:waiting" }), "invalid-query", "/q"),
        // Dead letters have no status.
        (json!({ "act": "replay", "q": "status:waiting" }), "invalid-query", "/q"),
        (json!({ "act": "cancel", "q": "status:waiting", "ramp": true }), "invalid-value", "/ramp"),
        (json!({ "act": "cancel", "q": "status:waiting", "rate": 0 }), "invalid-value", "/rate"),
        (json!({ "act": "signal", "q": "status:waiting" }), "missing-key", "/name"),
        (json!({ "act": "migrate", "q": "status:waiting" }), "missing-key", "/version"),
        (json!({ "act": "discard", "q": "worker:mail" }), "missing-key", "/why"),
        (json!({ "act": "cancel", "q": "status:waiting", "reason": "x" }), "unknown-key", "/reason"),
    ];
    for (body, code, pointer) in cases {
        let problem = world.post("/api/v1/batches", body.clone()).await.problem(400, code);
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{body}: {problem}");
    }
    let nobody = format!("/api/v1/batches/bat_{}", "0".repeat(32));
    world.get(&nobody).await.problem(404, "not-found");
    world.get(&format!("{nobody}/items")).await.problem(404, "not-found");
    world.post(&format!("{nobody}/cancel"), Value::Null).await.problem(404, "not-found");
    assert_eq!(world.get("/api/v1/batches").await.ok(200)["items"], json!([]));
}

#[tokio::test]
async fn another_tenants_batch_is_not_there() {
    let world = World::new().await;
    let body = json!({ "act": "cancel", "q": "status:waiting" });
    let id = world.post("/api/v1/batches", body).await.ok(202)["id"].as_str().unwrap().to_owned();
    let token = world.token("globex", "admin");
    for (method, path) in [("GET", ""), ("GET", "/items"), ("POST", "/cancel")] {
        let answer = world.ask(method, &format!("/api/v1/batches/{id}{path}"), Some(&token), "").await;
        answer.problem(404, "not-found");
    }
    assert_eq!(world.ask("GET", "/api/v1/batches", Some(&token), "").await.ok(200)["items"], json!([]));
}
