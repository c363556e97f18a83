//! Definitions through the API.

use crate::harness::{HELLO, SLEEP, World, document};
use axum::body::Body;
use serde_json::json;

#[tokio::test]
async fn deploying_is_idempotent_by_content() {
    let world = World::new().await;
    let text = document("hello", "1.0.0", HELLO);
    let first = world.raw("/api/v1/definitions", "application/yaml", text.clone()).await;
    let body = first.ok(201);
    assert_eq!(
        (&body["namespace"], &body["name"], &body["version"]),
        (&json!("test"), &json!("hello"), &json!("1.0.0"))
    );
    assert!(body["warnings"].is_array());
    assert_eq!(first.header("location"), "/api/v1/definitions/test/hello/versions/1.0.0");
    world.raw("/api/v1/definitions", "application/yaml", text).await.ok(200);
    let other = document("hello", "1.0.0", SLEEP);
    world.raw("/api/v1/definitions", "application/yaml", other.clone()).await.problem(409, "version-exists");
    let check = world.raw("/api/v1/definitions/validate", "application/yaml", other).await.ok(200);
    assert_eq!(check["valid"], true);
}

#[tokio::test]
async fn another_layout_is_the_same_document() {
    let world = World::new().await;
    let head = r#"{"dsl":"1.0.3","namespace":"test","name":"laid-out","version":"1.0.0"}"#;
    let deploy =
        async |kind: &str, tasks: &str| world.raw("/api/v1/definitions", kind, format!("{tasks}\n")).await;
    let yaml = |tasks: &str| format!("# as written\ndocument: {head}\ndo:\n{tasks}");
    deploy("application/yaml", &yaml("- a:   {set: {x: 1,   y: 2}}")).await.ok(201);
    deploy("application/yaml", &yaml("  - a: # formatted\n      set: { x: 1, y: 2 }")).await.ok(200);
    let json = format!(r#"{{"document":{head},"do":[{{"a":{{"set":{{"x":1,"y":2}}}}}}]}}"#);
    deploy("application/json", &json).await.ok(200);
    deploy("application/yaml", &yaml("- a: {set: {x: 1, y: '2'}}")).await.problem(409, "version-exists");
    let kept = world.get("/api/v1/definitions/test/laid-out").await.ok(200);
    assert!(kept["source"].as_str().unwrap().contains("set: {x: 1,   y: 2}"), "the first one stays: {kept}");
}

#[tokio::test]
async fn a_dry_run_stores_nothing() {
    let world = World::new().await;
    let text = document("hello", "1.0.0", HELLO);
    world.raw("/api/v1/definitions?dry_run=true", "application/yaml", text.clone()).await.ok(200);
    world.get("/api/v1/definitions/test/hello").await.problem(404, "not-found");
    world
        .raw("/api/v1/definitions?dry_run=perhaps", "application/yaml", text)
        .await
        .problem(400, "invalid-parameter");
}

#[tokio::test]
async fn json_documents_are_as_good_as_yaml() {
    let world = World::new().await;
    let text = json!({
        "document": {"dsl": "1.0.3", "namespace": "test", "name": "json", "version": "0.1.0", "title": "In JSON"},
        "do": [{"greet": {"set": {"x": 1}}}],
    })
    .to_string();
    world.raw("/api/v1/definitions", "application/json", text.clone()).await.ok(201);
    let read = world.get("/api/v1/definitions/test/json/versions/0.1.0").await.ok(200);
    assert_eq!(read["source"], text);
    assert_eq!(read["media_type"], "application/json");
    assert_eq!(read["title"], "In JSON");
}

#[tokio::test]
async fn versions_are_listed_newest_first_and_the_source_is_kept_byte_for_byte() {
    let world = World::new().await;
    for version in ["1.2.0", "1.10.0", "1.9.0"] {
        let text = format!("# {version}\r\n{}", document("hello", version, HELLO));
        world.raw("/api/v1/definitions", "application/yaml", text).await.ok(201);
    }
    let page = world.get("/api/v1/definitions/test/hello/versions?limit=2").await.ok(200);
    let versions: Vec<&str> =
        page["items"].as_array().unwrap().iter().map(|item| item["version"].as_str().unwrap()).collect();
    assert_eq!(versions, ["1.10.0", "1.9.0"]);
    let next = page["next"].as_str().unwrap();
    let page = world.get(&format!("/api/v1/definitions/test/hello/versions?cursor={next}")).await.ok(200);
    assert_eq!((&page["items"][0]["version"], &page["next"]), (&json!("1.2.0"), &json!(null)));
    assert_eq!(world.get("/api/v1/definitions/test/hello").await.ok(200)["version"], "1.10.0");
    let path = "/api/v1/definitions/test/hello/versions/1.9.0";
    let request = world.request("GET", path).header("accept", "application/yaml");
    let raw = world.send(request.body(Body::empty()).unwrap()).await;
    assert_eq!(raw.header("content-type"), "application/yaml");
    assert_eq!(raw.text(), format!("# 1.9.0\r\n{}", document("hello", "1.9.0", HELLO)));
}

#[tokio::test]
async fn the_list_shows_each_name_once_and_pages() {
    let world = World::new().await;
    for (name, version) in [("a", "1.0.0"), ("a", "2.0.0"), ("b", "1.0.0"), ("c", "1.0.0")] {
        world.raw("/api/v1/definitions", "application/yaml", document(name, version, HELLO)).await.ok(201);
    }
    let page = world.get("/api/v1/definitions?limit=2").await.ok(200);
    let names = |page: &serde_json::Value| -> Vec<String> {
        let items = page["items"].as_array().unwrap();
        items
            .iter()
            .map(|item| format!("{}@{}", item["name"].as_str().unwrap(), item["version"].as_str().unwrap()))
            .collect()
    };
    assert_eq!(names(&page), ["a@2.0.0", "b@1.0.0"]);
    let next = page["next"].as_str().unwrap();
    let page = world.get(&format!("/api/v1/definitions?limit=2&cursor={next}")).await.ok(200);
    assert_eq!((names(&page), &page["next"]), (vec!["c@1.0.0".to_owned()], &json!(null)));
    assert_eq!(world.get("/api/v1/definitions?namespace=none").await.ok(200)["items"], json!([]));
    world.get("/api/v1/definitions/test/none").await.problem(404, "not-found");
    world.get("/api/v1/definitions/test/none/versions").await.problem(404, "not-found");
    world.get("/api/v1/definitions/test/a/versions/9.9.9").await.problem(404, "not-found");
}

#[tokio::test]
async fn a_flag_may_stand_alone_and_a_dry_run_says_what_deploying_would() {
    let world = World::new().await;
    let text = |x: u8| crate::harness::document("dry", "1.0.0", &format!("  - a:\n      set: {{ x: {x} }}"));
    for query in ["dry_run", "dry_run=", "dry_run=true"] {
        world.raw(&format!("/api/v1/definitions?{query}"), "application/yaml", text(1)).await.ok(200);
        world.get("/api/v1/definitions/test/dry").await.problem(404, "not-found");
    }
    world.raw("/api/v1/definitions?dry_run=false", "application/yaml", text(1)).await.ok(201);
    world.raw("/api/v1/definitions?dry_run", "application/yaml", text(1)).await.ok(200);
    world
        .raw("/api/v1/definitions?dry_run", "application/yaml", text(2))
        .await
        .problem(409, "version-exists");
}

#[tokio::test]
async fn names_in_upper_case_can_be_started() {
    let world = World::new().await;
    let text = "document: { dsl: '1.0.3', namespace: BAD, name: Xy, version: '1.0.0' }\ndo: [ { a: { set: { x: 1 } } } ]";
    world.raw("/api/v1/definitions", "application/yaml", text).await.ok(201);
    let start = serde_json::json!({"definition": {"namespace": "BAD", "name": "Xy", "version": "1.0.0"}});
    world.post("/api/v1/instances", start).await.ok(201);
}
