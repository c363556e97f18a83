//! Records through the API: kinds, versions, keys, grants, and who finds what.

use crate::harness::{Answer, World};
use serde_json::{Value, json};

async fn ask(world: &World, method: &str, path: &str, token: &str, body: Value) -> Answer {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    world.ask(method, &format!("/api/v1/{path}"), Some(token), &body).await
}

/// A key of acme that acts for a user.
async fn key_for(world: &World, user: &str) -> String {
    let wanted = json!({ "name": user, "roles": ["worker"], "subject": user });
    let made = ask(world, "POST", "keys", &world.token("acme", "admin"), wanted).await.ok(201);
    made["secret"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_record_is_made_changed_and_deleted_under_its_version() {
    let world = World::new().await;
    let admin = world.token("acme", "admin");
    let kind = json!({ "schema": { "type": "object", "required": ["total"] }, "keys": [{ "name": "total", "path": "/total" }] });
    ask(&world, "PUT", "record-kinds/order", &admin, kind).await.ok(201);
    let order = json!({ "id": "o1", "kind": "order", "body": { "total": 7 } });
    let made = ask(&world, "POST", "records", &admin, order.clone()).await.ok(201);
    assert_eq!((&made["version"], &made["body"]), (&json!(1), &json!({ "total": 7 })));
    ask(&world, "POST", "records", &admin, order).await.problem(409, "record-exists");
    let unfit = json!({ "id": "o2", "kind": "order", "body": {} });
    ask(&world, "POST", "records", &admin, unfit).await.problem(422, "record-invalid");
    let unknown = json!({ "kind": "nothing", "body": {} });
    ask(&world, "POST", "records", &admin, unknown).await.problem(422, "record-kind-unknown");
    let change = json!({ "body": { "total": 8 } }).to_string();
    let with = |tag: &str| {
        let request = world.request("PUT", "/api/v1/records/o1").header("content-type", "application/json");
        request.header("if-match", tag).body(axum::body::Body::from(change.clone())).unwrap()
    };
    world.send(with("\"9\"")).await.problem(412, "stale");
    let changed = world.send(with("\"1\"")).await;
    assert_eq!((changed.ok(200)["version"].clone(), changed.header("etag")), (json!(2), "\"2\""));
    let circle = json!({ "parent": "o1" });
    ask(&world, "PUT", "records/o1", &admin, circle).await.problem(409, "record-cycle");
    let wrong = json!({ "acl": { "grants": [{ "to": "ann", "rights": ["read"] }] } });
    ask(&world, "PUT", "records/o1", &admin, wrong).await.problem(422, "acl-invalid");
    ask(&world, "DELETE", "record-kinds/order", &admin, Value::Null).await.problem(409, "record-kind-in-use");
    assert_eq!(ask(&world, "DELETE", "records/o1", &admin, Value::Null).await.status, 204);
    ask(&world, "GET", "records/o1", &admin, Value::Null).await.problem(404, "not-found");
}

#[tokio::test]
async fn lists_are_filtered_sorted_and_paged_by_declared_keys() {
    let world = World::new().await;
    let admin = world.token("acme", "admin");
    let kind =
        json!({ "keys": [{ "name": "total", "path": "/total" }, { "name": "status", "path": "/status" }] });
    ask(&world, "PUT", "record-kinds/order", &admin, kind).await.ok(201);
    for (id, total, status) in [("a", 30, "open"), ("b", 4, "open"), ("c", 100, "paid"), ("d", 7, "open")] {
        let order = json!({ "id": id, "kind": "order", "body": { "total": total, "status": status } });
        ask(&world, "POST", "records", &admin, order).await.ok(201);
    }
    let ids = |page: &Value| -> Vec<String> {
        page["items"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap().to_owned()).collect()
    };
    let list = async |query: &str| ask(&world, "GET", &format!("records?{query}"), &admin, Value::Null).await;
    assert_eq!(ids(&list("kind=order&sort=total").await.ok(200)), ["b", "d", "a", "c"]);
    let open = "filter=%7B%22status%22%3A%22open%22%2C%22total%22%3A%7B%22%3E%22%3A4%7D%7D";
    assert_eq!(ids(&list(&format!("kind=order&sort=-total&{open}")).await.ok(200)), ["a", "d"]);
    let first = list("kind=order&sort=total&limit=3").await.ok(200);
    let next = first["next"].as_str().unwrap();
    assert_eq!(ids(&list(&format!("kind=order&sort=total&limit=3&cursor={next}")).await.ok(200)), ["c"]);
    list("kind=order&sort=size").await.problem(400, "invalid-parameter");
    list("sort=total").await.problem(400, "invalid-parameter");
    list("kind=order&filter=x").await.problem(400, "invalid-parameter");
}

#[tokio::test]
async fn a_key_that_acts_for_a_user_reaches_what_the_user_may() {
    let world = World::new().await;
    let admin = world.token("acme", "admin");
    ask(&world, "PUT", "record-kinds/doc", &admin, json!({})).await.ok(201);
    ask(&world, "PUT", "groups/sales", &admin, json!({ "members": ["ann"], "roles": ["seller"] }))
        .await
        .ok(201);
    let rules = json!({ "grants": [{ "to": "group:sales", "rights": ["read"] }] });
    let folder = json!({ "id": "folder", "kind": "doc", "body": {}, "acl": rules });
    ask(&world, "POST", "records", &admin, folder).await.ok(201);
    let paper = json!({ "id": "paper", "kind": "doc", "parent": "folder", "body": {} });
    ask(&world, "POST", "records", &admin, paper).await.ok(201);
    let (ann, eve) = (key_for(&world, "ann").await, key_for(&world, "eve").await);
    let read = ask(&world, "GET", "records/paper", &ann, Value::Null).await.ok(200);
    assert_eq!(read["effective"], json!({ "group:sales": { "allow": ["read"], "deny": [] } }));
    ask(&world, "PUT", "records/paper", &ann, json!({ "body": [1] })).await.problem(403, "record-forbidden");
    ask(&world, "GET", "records/paper", &eve, Value::Null).await.problem(404, "not-found");
    ask(&world, "DELETE", "records/paper", &eve, Value::Null).await.problem(404, "not-found");
    let seen =
        async |token: &str| ask(&world, "GET", "records", token, Value::Null).await.ok(200)["items"].clone();
    assert_eq!(seen(&ann).await.as_array().unwrap().len(), 2);
    assert_eq!(seen(&eve).await, json!([]));
    // A key that acts for nobody and may not see all is its roles.
    assert_eq!(seen(&world.token("acme", "viewer")).await, json!([]));
    let why = ask(&world, "GET", "records/paper/explain?user=ann", &admin, Value::Null).await.ok(200);
    assert_eq!((&why["allowed"], &why["decided_by"]), (&json!(true), &json!("group:sales")));
    assert_eq!(why["decided_at"], "folder");
    let why =
        ask(&world, "GET", "records/paper/explain?user=eve&right=write", &admin, Value::Null).await.ok(200);
    assert_eq!((&why["allowed"], &why["verdict"]), (&json!(false), &json!("nothing-said")));
    ask(&world, "GET", "records/paper/explain?user=ann", &eve, Value::Null).await.problem(404, "not-found");
    let far = ask(&world, "GET", "acl/propagation", &admin, Value::Null).await.ok(200);
    assert_eq!((&far["pending"], &far["failed"]), (&json!(false), &json!(0)));
}
