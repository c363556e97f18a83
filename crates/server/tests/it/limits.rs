//! Every input is bounded, and each bound has its own answer.

use crate::harness::{HELLO, World};
use axum::{
    body::{Body, Bytes},
    http::Request,
};
use futures_util::stream;
use serde_json::json;
use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

const BODIES: &[&str] = &[
    "/api/v1/instances",
    "/api/v1/instances/ins_00000000000000000000000000000001/signals/x",
    "/api/v1/instances/ins_00000000000000000000000000000001/cancel",
    "/api/v1/tasks/tsk_00000000000000000000000000000001/complete",
    "/api/v1/keys",
];

#[tokio::test]
async fn a_body_over_one_mebibyte_is_refused_everywhere() {
    let world = World::new().await;
    for path in BODIES {
        let big = format!("{{\"input\":\"{}\"}}", "x".repeat(1024 * 1024));
        world.raw(path, "application/json", big).await.problem(413, "body-too-large");
    }
    let yaml = format!("a: {}", "x".repeat(1024 * 1024));
    world.raw("/api/v1/definitions", "application/yaml", yaml).await.problem(413, "body-too-large");
}

#[tokio::test]
async fn a_declared_length_is_believed_before_anything_is_read() {
    let world = World::new().await;
    let request = world
        .request("POST", "/api/v1/instances")
        .header("content-type", "application/json")
        .header("content-length", (64 << 20).to_string())
        .header("expect", "100-continue");
    // The body never comes: waiting for it would hang this test.
    let never = Body::from_stream(stream::pending::<Result<Bytes, Infallible>>());
    world.send(request.body(never).unwrap()).await.problem(413, "body-too-large");
}

#[tokio::test]
async fn an_endless_body_ends() {
    let world = World::new().await;
    let sent = Arc::new(AtomicUsize::new(0));
    let count = sent.clone();
    let endless = stream::repeat_with(move || {
        count.fetch_add(1 << 16, Ordering::Relaxed);
        Ok::<_, Infallible>(Bytes::from(vec![b' '; 1 << 16]))
    });
    let request = world.request("POST", "/api/v1/instances").header("content-type", "application/json");
    let answer = world.send(request.body(Body::from_stream(endless)).unwrap()).await;
    answer.problem(413, "body-too-large");
    assert!(sent.load(Ordering::Relaxed) < 256 << 20, "reading goes on far beyond the limit");
}

#[tokio::test]
async fn bulk_has_its_own_bound() {
    let world = World::new().await;
    world.deploy("hello", HELLO).await;
    let item =
        json!({"definition": {"namespace": "test", "name": "hello"}, "input": {"name": "x".repeat(2048)}});
    let answer =
        world.post("/api/v1/instances/bulk", json!({"items": vec![item.clone(); 600]})).await.ok(200);
    assert!(answer["items"].as_array().unwrap().iter().all(|item| item["status"] == 201));
    let over = json!({"items": vec![item; 1001]});
    world.post("/api/v1/instances/bulk", over).await.problem(400, "too-many-items");
    let big = " ".repeat(8 * 1024 * 1024 + 1);
    world.raw("/api/v1/instances/bulk", "application/json", big).await.problem(413, "body-too-large");
}

#[tokio::test]
async fn pages_are_bounded() {
    let world = World::new().await;
    let platform = world.token("acme", "platform");
    for list in ["instances", "tasks", "dead-letters", "definitions"] {
        let path = |limit: &str| format!("/api/v1/{list}?limit={limit}");
        assert_eq!(world.get(&path("200")).await.status, 200);
        world.get(&path("201")).await.problem(400, "page-too-large");
        world.get(&path("99999999999999999999999")).await.problem(400, "page-too-large");
        for odd in ["0", "-1", "ten", "1.5", "1e2"] {
            world.get(&path(odd)).await.problem(400, "invalid-parameter");
        }
        for odd in ["x", "00", "ffffffff", &"0".repeat(40), "é"] {
            let path = format!("/api/v1/{list}?cursor={odd}").replace('é', "%C3%A9");
            world.get(&path).await.problem(400, "invalid-cursor");
        }
    }
    world.ask("GET", "/api/v1/tenants?limit=201", Some(&platform), "").await.problem(400, "page-too-large");
}

#[tokio::test]
async fn content_types_are_checked() {
    let world = World::new().await;
    for path in BODIES {
        world.raw(path, "text/plain", "{}").await.problem(415, "unsupported-media-type");
        world.raw(path, "application/xml", "{}").await.problem(415, "unsupported-media-type");
        let bare = world.request("POST", path).body(Body::from("{\"a\":1}")).unwrap();
        world.send(bare).await.problem(415, "unsupported-media-type");
    }
    let squeezed = world.request("POST", "/api/v1/keys").header("content-type", "application/json");
    let squeezed = squeezed.header("content-encoding", "gzip").body(Body::from("x")).unwrap();
    world.send(squeezed).await.problem(415, "unsupported-media-type");
    for odd in ["text/plain", "application/octet-stream", "", "yaml"] {
        world.raw("/api/v1/definitions", odd, "a: b").await.problem(415, "unsupported-media-type");
    }
    for fine in ["application/yaml", "application/x-yaml", "text/yaml; charset=utf-8", "Application/JSON"] {
        world.raw("/api/v1/definitions", fine, "[]").await.problem(422, "definition-invalid");
    }
}

#[tokio::test]
async fn unknown_parameters_and_keys_are_named() {
    let world = World::new().await;
    let problem = world.get("/api/v1/instances?statsu=running").await.problem(400, "unknown-parameter");
    assert_eq!(problem["errors"][0]["pointer"], "statsu");
    assert_eq!(problem["errors"][0]["hint"], "did you mean \"status\"?");
    let problem = world.get("/api/v1/instances?status=runing").await.problem(400, "invalid-parameter");
    assert_eq!(problem["errors"][0]["hint"], "did you mean \"running\"?");
    world.get("/api/v1/instances?limit=1&limit=2").await.problem(400, "invalid-parameter");
    world.get("/api/v1/instances?key=%00").await.problem(400, "invalid-parameter");
    world.get("/api/v1/instances?key=%ff").await.problem(400, "invalid-parameter");
    world.get("/api/v1/instances?from=yesterday").await.problem(400, "invalid-parameter");
    world.get("/api/v1/tasks?instance=x").await.problem(400, "invalid-parameter");
    world.get("/api/v1/me?verbose=1").await.problem(400, "unknown-parameter");

    let body = json!({"definiton": {"namespace": "a", "name": "b"}});
    let problem = world.post("/api/v1/instances", body).await.problem(400, "unknown-key");
    assert_eq!(problem["errors"][0]["pointer"], "/definiton");
    assert_eq!(problem["errors"][0]["hint"], "did you mean \"definition\"?");
    let body = json!({"definition": {"namespace": "a", "nmae": "b"}});
    let problem = world.post("/api/v1/instances", body).await.problem(400, "unknown-key");
    assert_eq!(problem["errors"][0]["pointer"], "/definition/nmae");
    let body = json!({"definition": {"namespace": "a"}});
    let problem = world.post("/api/v1/instances", body).await.problem(400, "missing-key");
    assert_eq!(problem["errors"][0]["pointer"], "/definition/name");
    for id in ["", "../x", "a_b", "-a", "a b"] {
        let body = json!({"definition": {"namespace": id, "name": "b"}});
        world.post("/api/v1/instances", body).await.problem(400, "invalid-value");
    }
    let path = "/api/v1/instances/ins_00000000000000000000000000000001/pause";
    world.post(path, json!({"reason": "x"})).await.problem(400, "unknown-key");
}

#[tokio::test]
async fn addresses_and_headers_are_bounded() {
    let world = World::new().await;
    let long = format!("/api/v1/instances?key={}", "x".repeat(9000));
    world.get(&long).await.problem(414, "uri-too-long");
    let mut many = world.request("GET", "/api/v1/me");
    for at in 0..101 {
        many = many.header(format!("x-{at}"), "1");
    }
    world.send(many.body(Body::empty()).unwrap()).await.problem(431, "headers-too-large");
    let large = world.request("GET", "/api/v1/me").header("x-large", "y".repeat(40_000));
    world.send(large.body(Body::empty()).unwrap()).await.problem(431, "headers-too-large");
}

#[tokio::test]
async fn keys_of_requests_are_bounded() {
    let world = World::new().await;
    world.deploy("hello", HELLO).await;
    let body = json!({"definition": {"namespace": "test", "name": "hello"}, "input": {"name": "a"}});
    let longest = "k".repeat(255);
    let fine = [("idempotency-key", longest.as_str())];
    assert_eq!(world.post_with("/api/v1/instances", &fine, body.clone()).await.status, 201);
    let over = "k".repeat(256);
    for odd in [over.as_str(), "", "é"] {
        let request = world
            .request("POST", "/api/v1/instances")
            .header("content-type", "application/json")
            .header("idempotency-key", odd.as_bytes());
        let request: Request<Body> = request.body(Body::from(body.to_string())).unwrap();
        world.send(request).await.problem(400, "invalid-header");
    }
    let mut keyed = body.clone();
    keyed["key"] = json!("b".repeat(256));
    world.post("/api/v1/instances", keyed).await.problem(400, "invalid-value");
}
