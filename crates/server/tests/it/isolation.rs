//! One tenant's objects do not exist for another: every route, asked with the other tenant's ids, cursors and keys.

use crate::harness::{APPROVE, HELLO, World};
use axum::body::Body;
use serde_json::json;
use server::routes::{ROUTES, Route};

const CANARY: &str = "canary-of-acme";

#[tokio::test]
async fn every_route_with_the_other_tenants_ids_is_not_found() {
    let world = World::new().await;
    world.deploy("approve", APPROVE).await;
    world.deploy("hello", HELLO).await;
    let id = world.start("approve", json!({"secret": CANARY})).await;
    let task = world.task_of(&id).await["id"].as_str().unwrap().to_owned();
    for _ in 0..3 {
        world.start("hello", json!({"name": CANARY})).await;
    }
    let letter = world.dead_letter(1, CANARY.as_bytes()).await;
    let raise = r#"  - r: { raise: { error: { type: "https://example.com/e", status: 500, title: canary-of-acme } } }"#;
    world.deploy("raise", raise).await;
    world.start("raise", json!({})).await;
    let error = world.get("/api/v1/errors").await.ok(200)["items"][0]["id"].as_str().unwrap().to_owned();
    let daily = "document: { dsl: 1.0.3, namespace: test, name: daily, version: 1.0.0 }\nschedule: { every: P1D }\ndo: [ { a: { set: { x: canary-of-acme } } } ]";
    world.raw("/api/v1/definitions", "application/yaml", daily).await.ok(201);
    let schedules = world.get("/api/v1/schedules").await.ok(200);
    let schedule = schedules["items"][0]["id"].as_str().unwrap().to_owned();
    let event =
        json!({ "specversion": "1.0", "id": "1", "source": "s", "type": "t", "data": { "secret": CANARY } });
    let event = world.post("/api/v1/events", event).await.ok(202);
    let event = event["items"][0]["id"].as_str().unwrap().to_owned();
    let admin = world.token("acme", "admin");
    let wanted = json!({ "types": ["w"] }).to_string();
    world.ask("PUT", "/api/v1/workers/approve", Some(&admin), &wanted).await.ok(201);
    let schema = json!({ "schema": { "title": CANARY } }).to_string();
    world.ask("PUT", "/api/v1/event-types/approve", Some(&admin), &schema).await.ok(201);
    let for_worker = json!({ "specversion": "1.0", "id": "2", "source": "s", "type": "w", "data": CANARY });
    world.post("/api/v1/events", for_worker).await.ok(202);
    let lent = world.post("/api/v1/workers/approve/poll", json!({})).await.ok(200);
    let delivery = lent["items"][0]["id"].as_str().unwrap().to_owned();
    world.ask("PUT", "/api/v1/record-kinds/approve", Some(&admin), "{}").await.ok(201);
    let record = json!({ "id": "of-acme", "kind": "approve", "body": { "secret": CANARY } }).to_string();
    world.ask("POST", "/api/v1/records", Some(&admin), &record).await.ok(201);
    let group = json!({ "members": [CANARY] }).to_string();
    world.ask("PUT", "/api/v1/groups/approve", Some(&admin), &group).await.ok(201);
    let keys = world.get("/api/v1/keys").await.ok(200);
    let key = keys["items"][0]["id"].as_str().unwrap().to_owned();
    let cursor = world.get("/api/v1/instances?limit=1").await.ok(200)["next"].as_str().unwrap().to_owned();
    let request = world.request("POST", "/api/v1/datasets").header("content-type", "application/x-ndjson");
    let dataset = world.send(request.body(Body::from(format!("\"{CANARY}\"\n"))).unwrap()).await.ok(201);
    let dataset = dataset["id"].as_str().unwrap().to_owned();
    let wanted = json!({ "act": "pause", "q": "key:canary-of-acme", "why": CANARY });
    let batch = world.post("/api/v1/batches", wanted).await.ok(202)["id"].as_str().unwrap().to_owned();
    let foreign = world.token("globex", "admin");
    // Putting makes an object of one's own; tenants, buses and what is of all tenants are the platform's.
    let is_platforms = |path: &str| ["/tenants/", "/buses/", "/metrics/"].iter().any(|of| path.contains(of));
    let own = |route: &Route| route.method == "PUT" || is_platforms(route.path);
    let named = |route: &&Route| route.documented && route.path.contains('{') && !own(route);
    for route in ROUTES.iter().filter(named) {
        let id = match route.path {
            path if path.contains("/tasks/") => task.clone(),
            path if path.contains("/dead-letters/") => letter.clone(),
            path if path.contains("/errors/") => error.clone(),
            path if path.contains("/batches/") => batch.clone(),
            path if path.contains("/keys/") => key.clone(),
            path if path.contains("/schedules/") => schedule.clone(),
            path if path.contains("/events/") => event.clone(),
            path if path.contains("/datasets/") => dataset.clone(),
            path if path.contains("/records/") => "of-acme".to_owned(),
            path if path.contains("/deliveries/") => delivery.clone(),
            _ => id.clone(),
        };
        let path = route.path.replace("{id}", &id).replace("{namespace}", "test");
        let path = path
            .replace("{name}", "approve")
            .replace("{type}", "approve")
            .replace("{target}", "x:443")
            .replace("{version}", "1.0.0");
        let body = match route.path.rsplit('/').next().unwrap() {
            "assign" => r#"{"to":"eve"}"#,
            "complete" if route.path.contains("/tasks/") => r#"{"result":1}"#,
            "complete" | "heartbeat" => r#"{"attempt":1}"#,
            "fail" => r#"{"attempt":1,"class":"poison","message":"m"}"#,
            "migrate" => r#"{"version":"1.0.0"}"#,
            "{id}" if route.method == "PATCH" => r#"{"rate":1}"#,
            _ => "",
        };
        let answer = world.ask(route.method, &path, Some(&foreign), body).await;
        // A delivery that is gone and one that never was are the same to whoever asks.
        match route.path.contains("/deliveries/") && route.method == "POST" {
            true => answer.problem(409, "delivery-lost"),
            false => answer.problem(404, "not-found"),
        };
        assert!(!answer.text().contains(CANARY), "{path}");
        let own = world.ask("GET", &path, Some(&world.token("acme", "admin")), "").await;
        if route.method == "GET" {
            assert!(own.status.is_success(), "{path} is there for its owner");
        }
    }
    for list in [
        "instances",
        "tasks",
        "dead-letters",
        "dead-letters/groups",
        "errors",
        "batches",
        "definitions",
        "schedules",
        "events",
        "feed",
        "workers",
        "event-types",
        "records",
        "record-kinds",
        "groups",
    ] {
        let answer = world.ask("GET", &format!("/api/v1/{list}"), Some(&foreign), "").await;
        assert_eq!(answer.ok(200)["items"], json!([]), "{list}");
    }
    let tasks = format!("/api/v1/tasks?instance={id}");
    assert_eq!(world.ask("GET", &tasks, Some(&foreign), "").await.ok(200)["items"], json!([]));
    let stolen = format!("/api/v1/instances?cursor={cursor}");
    world.ask("GET", &stolen, Some(&foreign), "").await.problem(400, "invalid-cursor");
    let keys = world.ask("GET", "/api/v1/keys", Some(&foreign), "").await;
    assert!(!keys.text().contains(&key));
    // Nothing the other tenant tried had an effect.
    let task = world.get(&format!("/api/v1/tasks/{task}")).await.ok(200);
    assert_eq!((&task["status"], &task["version"]), (&json!("open"), &json!(1)));
    assert_eq!(world.get(&format!("/api/v1/instances/{id}")).await.ok(200)["status"], "waiting");
}

#[tokio::test]
async fn names_and_keys_are_the_tenants_own() {
    let world = World::new().await;
    world.deploy("hello", HELLO).await;
    let foreign = world.token("globex", "admin");
    let body =
        json!({"definition": {"namespace": "test", "name": "hello"}, "input": {"name": "x"}, "key": "k"});
    // The definition is acme's: globex cannot start it.
    world.ask("POST", "/api/v1/instances", Some(&foreign), &body.to_string()).await.problem(404, "not-found");
    // The same name, idempotency key and business key in both tenants are two different things.
    let text = crate::harness::document("hello", "1.0.0", HELLO);
    let deploy = axum::http::Request::post("/api/v1/definitions")
        .header("authorization", format!("Bearer {foreign}"))
        .header("content-type", "application/yaml");
    world.send(deploy.body(Body::from(text)).unwrap()).await.ok(201);
    let key = [("idempotency-key", "one")];
    let ours = world.post_with("/api/v1/instances", &key, body.clone()).await.ok(201);
    let start = axum::http::Request::post("/api/v1/instances")
        .header("authorization", format!("Bearer {foreign}"))
        .header("idempotency-key", "one")
        .header("content-type", "application/json");
    let theirs = world.send(start.body(Body::from(body.to_string())).unwrap()).await;
    assert_eq!(theirs.header("idempotency-replayed"), "");
    assert_ne!(ours["id"], theirs.ok(201)["id"]);
}
