//! The stream of changes: filtered by tenant and topic, resumable, honest about gaps.

use crate::harness::{APPROVE, HELLO, SLEEP, World};
use axum::body::{Body, BodyDataStream};
use futures_util::StreamExt;
use serde_json::{Value, json};
use tower::ServiceExt;

struct Events {
    body: BodyDataStream,
    text: String,
}

impl Events {
    async fn open(world: &World, token: &str, topics: &str, last: Option<&str>) -> Events {
        let path = format!("/api/v1/stream{topics}");
        let mut request = axum::http::Request::get(path).header("authorization", format!("Bearer {token}"));
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        let response = world.router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Events { body: response.into_body().into_data_stream(), text: String::new() }
    }

    /// The next event as (event, id, data).
    async fn next(&mut self) -> (String, String, Value) {
        loop {
            if let Some((block, rest)) = self.text.split_once("\n\n") {
                let field = |name: &str| {
                    let line = block.lines().find_map(|line| line.strip_prefix(name));
                    line.unwrap_or_default().trim().to_owned()
                };
                let event = (field("event:"), field("id:"), field("data:"));
                self.text = rest.to_owned();
                if event.2.is_empty() {
                    continue;
                }
                return (event.0, event.1, serde_json::from_str(&event.2).unwrap());
            }
            let chunk = self.body.next().await.expect("the stream goes on").unwrap();
            self.text.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    }
}

#[tokio::test]
async fn changes_of_the_own_tenant_arrive_and_a_client_resumes() {
    let world = World::new().await;
    world.deploy("sleep", SLEEP).await;
    let (ours, theirs) = (world.token("acme", "viewer"), world.token("globex", "viewer"));
    let mut own = Events::open(&world, &ours, "", None).await;
    let mut foreign = Events::open(&world, &theirs, "", None).await;
    let first = world.start("sleep", json!({})).await;
    let (event, id, data) = own.next().await;
    assert_eq!((event.as_str(), &data["id"]), ("instance", &json!(first)));
    assert!(data["version"].is_i64() && data["status"].is_string() && data["time"].is_string());
    drop(own);
    let second = world.start("sleep", json!({})).await;
    let mut again = Events::open(&world, &ours, "", Some(&id)).await;
    let (event, _, mut data) = again.next().await;
    assert_eq!(event, "instance");
    while data["id"] == json!(first) {
        data = again.next().await.2;
    }
    assert_eq!(data["id"], json!(second), "what was missed is sent");
    for unknown in ["x", "1", "deadbeef-1", "00000000-0"] {
        let mut gap = Events::open(&world, &ours, "", Some(unknown)).await;
        assert_eq!(gap.next().await.0, "reset", "{unknown}");
    }
    let quiet = tokio::time::timeout(std::time::Duration::from_millis(50), foreign.next()).await;
    assert!(quiet.is_err(), "another tenant hears nothing");
}

#[tokio::test]
async fn topics_choose() {
    let world = World::new().await;
    world.deploy("hello", HELLO).await;
    world.deploy("approve", APPROVE).await;
    let token = world.token("acme", "admin");
    let mut tasks = Events::open(&world, &token, "?topics=tasks", None).await;
    let id = world.start("approve", json!({})).await;
    let mut one = Events::open(&world, &token, &format!("?topics={id}"), None).await;
    let task = world.task_of(&id).await["id"].as_str().unwrap().to_owned();
    world.start("hello", json!({"name": "x"})).await;
    world.act(&format!("/api/v1/tasks/{task}/claim")).await.ok(200);
    let (event, _, data) = tasks.next().await;
    assert_eq!((event.as_str(), &data["id"]), ("task", &json!(task)));
    world.act(&format!("/api/v1/instances/{id}/cancel")).await.ok(200);
    assert_eq!(one.next().await.2["id"], json!(id));
    world.get("/api/v1/stream?topics=weather").await.problem(400, "invalid-parameter");
}

#[tokio::test]
async fn a_stream_ends_when_its_key_is_revoked() {
    let world = World::new().await;
    let token = world.token("acme", "viewer");
    let mut events = Events::open(&world, &token, "", None).await;
    let id = token.split('_').nth(1).unwrap();
    let revoke = world.request("DELETE", &format!("/api/v1/keys/{id}")).body(Body::empty()).unwrap();
    assert_eq!(world.send(revoke).await.status, 204);
    let end = async { while events.body.next().await.is_some() {} };
    tokio::time::timeout(std::time::Duration::from_secs(5), end).await.expect("the stream ends");
}

#[tokio::test]
async fn a_worker_hears_of_nothing_it_may_not_read() {
    let world = World::new().await;
    world.deploy("sleep", SLEEP).await;
    let id = world.start("sleep", json!({})).await;
    let mut worker = Events::open(&world, &world.token("acme", "worker"), "", None).await;
    let mut admin = Events::open(&world, &world.token("acme", "admin"), "", None).await;
    let letter = world.dead_letter(1, b"{}").await;
    world.act(&format!("/api/v1/dead-letters/{letter}/discard")).await.ok(200);
    world.act(&format!("/api/v1/instances/{id}/cancel")).await.ok(200);
    assert_eq!(worker.next().await.0, "instance");
    let first = admin.next().await.0;
    assert!(first == "dead-letter" || first == "instance");
}
