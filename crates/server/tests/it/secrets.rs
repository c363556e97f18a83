//! Secrets through the API: set, listed by name, deleted, never shown.

use crate::harness::World;
use serde_json::json;

#[tokio::test]
async fn a_value_goes_in_and_never_comes_out() {
    let world = World::new().await;
    let admin = world.token("acme", "admin");
    let put = |name: &str, body: serde_json::Value| {
        let (path, admin, body) = (format!("/api/v1/secrets/{name}"), admin.clone(), body.to_string());
        let world = &world;
        async move { world.ask("PUT", &path, Some(&admin), &body).await }
    };
    let made = put("api-key", json!({ "value": "hunter2-hunter2", "hosts": ["*.example.com"] })).await;
    assert_eq!(made.ok(201)["version"], 1);
    let again = put("api-key", json!({ "value": { "user": "u", "password": "hunter2-hunter2" } })).await;
    assert_eq!((again.ok(200)["version"].clone(), again.ok(200)["hosts"].clone()), (json!(2), json!([])));
    let listed = world.ask("GET", "/api/v1/secrets", Some(&admin), "").await;
    assert_eq!(listed.ok(200)["items"][0]["name"], "api-key");
    for answer in [&made, &again, &listed] {
        assert!(!answer.text().contains("hunter2"), "{}", answer.text());
    }
    for (name, body, code) in [
        ("api-key", json!({}), "missing-key"),
        ("api-key", json!({ "value": 7 }), "invalid-value"),
        ("api-key", json!({ "value": "" }), "invalid-value"),
        ("api-key", json!({ "value": "v", "hosts": ["http://x"] }), "invalid-value"),
        ("api-key", json!({ "value": "v", "hosts": [1] }), "invalid-value"),
        ("api-key", json!({ "value": "v", "note": 1 }), "unknown-key"),
        ("a%20b", json!({ "value": "v" }), "invalid-value"),
    ] {
        put(name, body).await.problem(400, code);
    }
    let delete = || world.ask("DELETE", "/api/v1/secrets/api-key", Some(&admin), "");
    assert_eq!(delete().await.status, 204);
    delete().await.problem(404, "not-found");
}

#[tokio::test]
async fn secrets_of_others_are_not_there() {
    let world = World::new().await;
    let (acme, globex) = (world.token("acme", "admin"), world.token("globex", "admin"));
    let body = json!({ "value": "of-globex" }).to_string();
    world.ask("PUT", "/api/v1/secrets/one", Some(&globex), &body).await.ok(201);
    assert_eq!(world.ask("GET", "/api/v1/secrets", Some(&acme), "").await.ok(200)["items"], json!([]));
    world.ask("DELETE", "/api/v1/secrets/one", Some(&acme), "").await.problem(404, "not-found");
    let developer = world.token("acme", "developer");
    world.ask("GET", "/api/v1/secrets", Some(&developer), "").await.ok(200);
    world.ask("PUT", "/api/v1/secrets/one", Some(&developer), &body).await.problem(403, "forbidden");
}
