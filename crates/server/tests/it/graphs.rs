//! Pictures of definitions and instances, in every form.

use crate::harness::{APPROVE, HELLO, World, document};
use axum::body::Body;

#[tokio::test]
async fn a_definition_is_drawn_in_the_form_that_is_asked_for() {
    let world = World::new().await;
    world.deploy("hello", HELLO).await;
    let path = "/api/v1/definitions/test/hello/versions/1.0.0/graph";
    let drawn = world.get(path).await.ok(200);
    let names: Vec<&str> =
        drawn["nodes"].as_array().unwrap().iter().filter_map(|node| node["name"].as_str()).collect();
    assert!(names.contains(&"greet"), "{names:?}");
    for (media, begin) in
        [("image/svg+xml", "<svg "), ("text/vnd.mermaid", "flowchart"), ("application/vnd.elk+json", "{")]
    {
        let request = world.request("GET", path).header("accept", format!("text/x-unknown, {media};q=0.9"));
        let answer = world.send(request.body(Body::empty()).unwrap()).await;
        assert_eq!(answer.header("content-type"), media);
        assert!(answer.text().contains(begin), "{media}: {}", answer.text());
    }
    let png = world.get(&format!("{path}?format=png&theme=dark&scale=1&direction=top-bottom")).await;
    assert_eq!((png.header("content-type"), &png.body[1..4]), ("image/png", b"PNG".as_slice()));
    for wrong in ["format=bmp", "theme=pink", "direction=up", "scale=0", "scale=5", "colour=red"] {
        assert_eq!(world.get(&format!("{path}?{wrong}")).await.status, 400, "{wrong}");
    }
    world.get("/api/v1/definitions/test/hello/versions/9.9.9/graph").await.problem(404, "not-found");
}

#[tokio::test]
async fn two_versions_are_drawn_as_one_with_what_changed() {
    let world = World::new().await;
    world.deploy("hello", HELLO).await;
    let more = format!("{HELLO}\n  - rest:\n      wait: {{ seconds: 1 }}");
    world.raw("/api/v1/definitions", "application/yaml", document("hello", "1.1.0", &more)).await;
    let drawn = world.get("/api/v1/definitions/test/hello/versions/1.1.0/graph?from=1.0.0").await.ok(200);
    let rest = drawn["nodes"].as_array().unwrap().iter().find(|node| node["name"] == "rest").unwrap();
    assert_eq!(rest["mark"]["change"], "added");
}

#[tokio::test]
async fn an_instance_is_drawn_with_where_its_steps_stand() {
    let world = World::new().await;
    world.deploy("ask", &format!("{HELLO}\n{APPROVE}")).await;
    let id = world.start("ask", serde_json::json!({ "name": "x" })).await;
    world.task_of(&id).await;
    let drawn = world.get(&format!("/api/v1/instances/{id}/graph")).await.ok(200);
    let state = |name: &str| {
        let nodes = drawn["nodes"].as_array().unwrap();
        nodes.iter().find(|node| node["name"] == name).unwrap()["mark"]["state"].clone()
    };
    assert_eq!((state("greet"), state("approve")), ("completed".into(), "waiting".into()));
    let other = world
        .ask("GET", &format!("/api/v1/instances/{id}/graph"), Some(&world.token("globex", "admin")), "")
        .await;
    other.problem(404, "not-found");
    assert_eq!(world.get(&format!("/api/v1/instances/{id}/graph?from=1.0.0")).await.status, 400);
}
