//! A09, A10, P16: what a platform key does with tenants, and what the tenant's own keys are told meanwhile.

use crate::harness::World;
use serde_json::{Value, json};
use server::{access::Role, routes::ROUTES};

async fn patch(world: &World, id: &str, body: Value) -> Value {
    let platform = world.token("acme", "platform");
    world.ask("PATCH", &format!("/api/v1/tenants/{id}"), Some(&platform), &body.to_string()).await.ok(200)
}

#[tokio::test]
async fn a_suspended_tenant_can_be_read_and_not_changed() {
    let world = World::new().await;
    let admin = world.token("globex", "admin");
    let suspended = patch(&world, "globex", json!({ "status": "suspended" })).await;
    assert_eq!((&suspended["status"], &suspended["purge_at"]), (&json!("suspended"), &Value::Null));
    for route in
        ROUTES.iter().filter(|route| route.path.starts_with("/api/v1/") && !route.path.contains("tenants"))
    {
        let path = route.path.replace("{id}", "ins_00000000000000000000000000000001");
        let path = path.replace("{namespace}", "a").replace("{name}", "b").replace("{version}", "1.0.0");
        let is_open = route.path.contains("{token}") || route.path.ends_with("/stream");
        if is_open || !route.access.admits(&[Role::Admin]) {
            continue;
        }
        let answer = world.ask(route.method, &path, Some(&admin), "").await;
        let refused = answer.status == 403 && answer.json()["code"] == "tenant-suspended";
        assert_eq!(refused, !route.while_parked, "{} {}: {}", route.method, route.path, answer.status);
        assert!(route.while_parked || route.method != "GET", "{}", route.path);
    }
    // Another tenant is not concerned.
    world.get("/api/v1/instances").await.ok(200);
    patch(&world, "globex", json!({ "status": "active" })).await;
    let secret = json!({ "value": "v" }).to_string();
    let answer = world.ask("PUT", "/api/v1/secrets/s", Some(&admin), &secret).await;
    assert_ne!(answer.json()["code"], "tenant-suspended");
}

#[tokio::test]
async fn a_degraded_tenant_is_asked_to_come_back_later() {
    let world = World::new().await;
    let admin = world.token("globex", "admin");
    patch(&world, "globex", json!({ "status": "degraded" })).await;
    let event = json!({ "specversion": "1.0", "id": "1", "source": "s", "type": "t" }).to_string();
    let publish = async || world.ask("POST", "/api/v1/events", Some(&admin), &event).await;
    let refused = publish().await;
    refused.problem(429, "tenant-degraded");
    assert_eq!(refused.header("retry-after"), "30");
    patch(&world, "globex", json!({ "degraded_per_second": 1 })).await;
    publish().await.ok(202);
    patch(&world, "globex", json!({ "status": "active", "open_max": 1, "starts_per_second": 5 })).await;
    publish().await.ok(202);
    let shown =
        world.ask("GET", "/api/v1/tenants/globex", Some(&world.token("acme", "platform")), "").await.ok(200);
    let of = |name: &str| shown[name].clone();
    assert_eq!(
        [of("status"), of("open_max"), of("starts_per_second")],
        [json!("active"), json!(1), json!(5)]
    );
}

#[tokio::test]
async fn a_tenant_is_deleted_and_restored() {
    let world = World::new().await;
    let (platform, admin) = (world.token("acme", "platform"), world.token("globex", "admin"));
    let ask = async |method: &str, path: &str| {
        world.ask(method, &format!("/api/v1/tenants/{path}"), Some(&platform), "").await
    };
    ask("POST", "globex/restore").await.problem(409, "tenant-not-allowed-now");
    for wrong in ["-1", "x", "31536001"] {
        ask("DELETE", &format!("globex?grace_seconds={wrong}")).await.problem(400, "invalid-parameter");
    }
    let deleted = ask("DELETE", "globex").await.ok(200);
    assert_eq!(deleted["status"], "deleted");
    assert!(deleted["purge_at"].is_string());
    world.ask("PUT", "/api/v1/secrets/s", Some(&admin), "{}").await.problem(403, "tenant-deleted");
    world.ask("GET", "/api/v1/instances", Some(&admin), "").await.ok(200);
    let body = json!({ "status": "active" }).to_string();
    let resumed = world.ask("PATCH", "/api/v1/tenants/globex", Some(&platform), &body).await;
    resumed.problem(409, "tenant-not-allowed-now");
    assert_eq!(ask("POST", "globex/restore").await.ok(200)["status"], "active");
    ask("DELETE", "nobody").await.problem(404, "not-found");
    ask("POST", "nobody/restore").await.problem(404, "not-found");
    ask("GET", "nobody").await.problem(404, "not-found");
}

#[tokio::test]
async fn nobody_locks_itself_out() {
    let world = World::new().await;
    let platform = world.token("acme", "platform");
    world.ask("DELETE", "/api/v1/tenants/acme", Some(&platform), "").await.problem(409, "own-tenant");
    for status in ["suspended", "degraded"] {
        let body = json!({ "status": status }).to_string();
        let refused = world.ask("PATCH", "/api/v1/tenants/acme", Some(&platform), &body).await;
        refused.problem(409, "own-tenant");
    }
    for wrong in
        [json!({ "status": "deleted" }), json!({ "open_max": -1 }), json!({ "concurrency_max": 1.5 })]
    {
        let refused = world.ask("PATCH", "/api/v1/tenants/globex", Some(&platform), &wrong.to_string()).await;
        refused.problem(400, "invalid-value");
    }
}
