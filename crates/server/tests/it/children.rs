//! Children and fan-outs through the API: upload, start, look at the children, read the results.

use crate::harness::World;
use axum::body::Body;
use serde_json::{Value, json};

const ITEM: &str = "  - s: { set: { twice: '${ .n * 2 }' } }";
const MAP: &str = "  - m:
      call: map:1.0.0@default
      with:
        items: ${ .items }
        batchSize: 50
        workflow: { namespace: test, name: item, version: 1.0.0 }";

impl World {
    async fn upload(&self, body: String) -> crate::harness::Answer {
        let request = self.request("POST", "/api/v1/datasets").header("content-type", "application/x-ndjson");
        self.send(request.body(Body::from(body)).unwrap()).await
    }
}

fn lines(count: u64) -> String {
    (0..count).map(|n| format!("{}\n", json!({ "n": n, "text": "x".repeat(50) }))).collect()
}

#[tokio::test]
async fn a_dataset_is_fanned_out_and_its_results_are_read_by_page() {
    let world = World::new().await;
    world.deploy("item", ITEM).await;
    world.deploy("map", MAP).await;
    let created = world.upload(lines(1200)).await;
    let dataset = created.ok(201);
    assert_eq!(dataset["count"], 1200);
    let items = dataset["id"].as_str().unwrap();
    assert_eq!(created.header("location"), format!("/api/v1/datasets/{items}"));
    assert_eq!(world.get(&format!("/api/v1/datasets/{items}")).await.ok(200)["count"], 1200);
    let page = world.get(&format!("/api/v1/datasets/{items}/items?limit=2")).await.ok(200);
    assert_eq!(page["items"][1]["n"], 1);

    let id = world.start("map", json!({ "items": items })).await;
    let result = world.result(&id).await;
    assert_eq!(result["output"]["succeeded"], 1200, "{result}");
    let instance = world.get(&format!("/api/v1/instances/{id}")).await.ok(200);
    assert_eq!(instance["children"], json!({ "completed": 1200 }));
    let children = world.get(&format!("/api/v1/instances?parent={id}&limit=3")).await.ok(200);
    assert_eq!(children["items"].as_array().unwrap().len(), 3);
    assert_eq!(children["items"][0]["parent"], json!({ "id": id, "item": 1199 }));

    let results = result["output"]["resultsRef"].as_str().unwrap();
    let mut path = format!("/api/v1/datasets/{results}/items?limit=200");
    let mut all: Vec<Value> = Vec::new();
    loop {
        let page = world.get(&path).await.ok(200);
        all.extend(page["items"].as_array().unwrap().iter().cloned());
        let Some(next) = page["next"].as_str() else { break };
        path = format!("/api/v1/datasets/{results}/items?limit=200&cursor={next}");
    }
    assert_eq!(all.len(), 1200);
    assert_eq!(all[777], json!({ "index": 777, "status": "completed", "output": { "twice": 1554 } }));
}

#[tokio::test]
async fn a_parent_shows_its_child_and_the_child_its_parent() {
    let world = World::new().await;
    world.deploy("item", ITEM).await;
    world
        .deploy(
            "parent",
            "  - c: { run: { workflow: { namespace: test, name: item, version: 1.0.0, input: { n: 21 } } } }",
        )
        .await;
    let id = world.start("parent", json!({})).await;
    assert_eq!(world.result(&id).await["output"], json!({ "twice": 42 }));
    let children = world.get(&format!("/api/v1/instances?parent={id}")).await.ok(200);
    assert_eq!(children["items"][0]["parent"]["id"], json!(id));
    assert_eq!(children["items"].as_array().unwrap().len(), 1);
    world.get("/api/v1/instances?parent=x").await.problem(400, "invalid-parameter");
}

#[tokio::test]
async fn what_is_uploaded_is_checked_line_by_line() {
    let world = World::new().await;
    let problem = world.upload("{\"n\":1}\nnot json\n".to_owned()).await.problem(400, "invalid-json");
    assert!(problem.to_string().contains("/1"), "{problem}");
    let large = format!("\"{}\"\n", "x".repeat(70_000));
    world.upload(large.clone()).await.problem(413, "item-too-large");
    world.upload(large.trim_end().repeat(3)).await.problem(413, "item-too-large");
    let request = world.request("POST", "/api/v1/datasets").header("content-type", "application/json");
    world.send(request.body(Body::from("[]")).unwrap()).await.problem(415, "unsupported-media-type");
    assert_eq!(world.upload("\n\n".to_owned()).await.ok(201)["count"], 0);
    world.get("/api/v1/datasets/ds_00000000000000000000000000000001").await.problem(404, "not-found");
}
