//! Versions through the API: decompiled, compared, asked about, and gone to.

use crate::harness::{World, document};
use serde_json::{Value, json};

const OLD: &str = "  - approve:
      call: human-task:1.0.0@default
      with: { title: Approve it, candidateGroups: [managers] }
  - done:
      set: { version: old, answer: '${ .ok }' }";
const NEW: &str = "  - prepare:
      set: { ready: true }
  - approve:
      call: human-task:1.0.0@default
      with: { title: Approve it, candidateGroups: [managers] }
  - done:
      set: { version: new, answer: '${ .ok }' }";
const RENAMED: &str = "  - question:
      call: human-task:1.0.0@default
      with: { title: Approve it, candidateGroups: [managers] }
  - done:
      set: { version: renamed }";

async fn deploy(world: &World, version: &str, steps: &str) {
    let text = document("flow", version, steps);
    world.raw("/api/v1/definitions", "application/yaml", text).await.ok(201);
}

/// Three versions and one instance of the first, which waits for a person.
async fn flow() -> (World, String) {
    let world = World::new().await;
    deploy(&world, "1.0.0", OLD).await;
    let id = world.start("flow", json!({})).await;
    world.task_of(&id).await;
    deploy(&world, "1.1.0", NEW).await;
    deploy(&world, "2.0.0", RENAMED).await;
    (world, id)
}

async fn complete(world: &World, id: &str) -> Value {
    let task = world.task_of(id).await;
    let path = format!("/api/v1/tasks/{}", task["id"].as_str().unwrap());
    world.act(&format!("{path}/claim")).await.ok(200);
    world.post(&format!("{path}/complete"), json!({"result": {"ok": true}})).await.ok(200);
    world.result(id).await
}

#[tokio::test]
async fn a_version_is_shown_as_it_is_executed() {
    let (world, _) = flow().await;
    let read = world.get("/api/v1/definitions/test/flow/versions/1.0.0?form=decompiled").await;
    assert_eq!((read.status.as_u16(), read.header("content-type")), (200, "application/yaml"));
    assert!(read.text().contains("  - done:\n      set:\n        version: old\n"), "{}", read.text());
    let newest = world.get("/api/v1/definitions/test/flow?form=decompiled").await;
    assert!(newest.text().contains("version: renamed"), "{}", newest.text());
    let wrong = world.get("/api/v1/definitions/test/flow?form=other").await;
    wrong.problem(400, "invalid-parameter");
    world.get("/api/v1/definitions/test/flow/versions/9.0.0?form=decompiled").await.problem(404, "not-found");
}

#[tokio::test]
async fn versions_are_compared() {
    let (world, _) = flow().await;
    let diff = world.get("/api/v1/definitions/test/flow/diff?from=1.0.0&to=1.1.0").await.ok(200);
    assert_eq!(diff["definition"], json!([]));
    assert_eq!(diff["steps"][0], json!({"change": "added", "to": "/do/0/prepare", "kind": "set"}));
    let done = &diff["steps"][1];
    assert_eq!(
        (&done["change"], &done["from"], &done["to"]),
        (&json!("changed"), &json!("/do/1/done"), &json!("/do/2/done"))
    );
    assert_eq!(done["changes"], json!([{"what": "set.version", "from": "old", "to": "new"}]));
    let newest = world.get("/api/v1/definitions/test/flow/diff").await.ok(200);
    let asked = world.get("/api/v1/definitions/test/flow/diff?from=1.1.0&to=2.0.0").await.ok(200);
    assert_eq!(newest, asked, "the newest and the one before it unless said otherwise");
    world.get("/api/v1/definitions/test/flow/diff?from=1.0.0&to=3.0.0").await.problem(404, "not-found");
}

#[tokio::test]
async fn a_preflight_says_who_fits() {
    let (world, id) = flow().await;
    let look = |version: &str| format!("/api/v1/definitions/test/flow/versions/{version}/preflight");
    let safe = world.post(&look("1.1.0"), json!({})).await.ok(200);
    assert_eq!((&safe["checked"], &safe["safe"], &safe["next"]), (&json!(1), &json!(1), &Value::Null));
    let needs = world.act(&look("2.0.0")).await.ok(200);
    assert_eq!((&needs["needs_mapping"], &needs["examples"][0]["id"]), (&json!(1), &json!(id)));
    let need = &needs["needs"][0];
    assert_eq!(
        (&need["reference"], &need["suggestion"]),
        (&json!("/do/0/approve"), &json!("/do/0/question"))
    );
    let mapping = json!({"mapping": {"/do/0/approve": "/do/0/question"}});
    assert_eq!(world.post(&look("2.0.0"), mapping).await.ok(200)["safe"], 1);
    let other = world.post(&look("2.0.0"), json!({"from": "1.1.0"})).await.ok(200);
    assert_eq!(other["checked"], 0);
    let gone = document("flow", "3.0.0", "  - other:\n      set: { x: 1 }");
    let breaks = world.post("/api/v1/definitions/preflight", json!({"document": gone})).await.ok(200);
    assert_eq!(
        breaks["reasons"],
        json!([{"version": "1.0.0", "reason": "/do/0/approve is gone", "instances": 1}])
    );
    let bad = world.post("/api/v1/definitions/preflight", json!({"document": "a: 1"})).await;
    bad.problem(422, "definition-invalid");
    world.post(&look("2.0.0"), json!({"mapping": []})).await.problem(400, "invalid-value");
}

#[tokio::test]
async fn an_instance_goes_on_in_another_version() {
    let (world, id) = flow().await;
    let path = format!("/api/v1/instances/{id}/migrate");
    let dry = world.post(&path, json!({"version": "1.1.0", "dry_run": true})).await;
    assert_eq!(dry.ok(200)["status"], "waiting");
    let read = world.get(&format!("/api/v1/instances/{id}")).await.ok(200);
    assert_eq!(read["definition"]["version"], "1.0.0");
    world.post(&path, json!({"version": "1.1.0"})).await.ok(200);
    let read = world.get(&format!("/api/v1/instances/{id}")).await.ok(200);
    assert_eq!(read["definition"]["version"], "1.1.0");
    // Again changes nothing.
    world.post(&path, json!({"version": "1.1.0"})).await.ok(200);
    let history = world.get(&format!("/api/v1/instances/{id}/history")).await.ok(200);
    let moved: Vec<&Value> = history["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|event| event["kind"] == "workflow.migrated")
        .collect();
    assert_eq!(moved.len(), 1, "{history}");
    assert_eq!(moved[0]["detail"], json!({"from": "1.0.0", "to": "1.1.0", "by": "admin"}));
    let result = complete(&world, &id).await;
    assert_eq!(result["output"], json!({"version": "new", "answer": true}));
    world.post(&path, json!({"version": "2.0.0"})).await.problem(409, "does-not-fit");
}

#[tokio::test]
async fn an_instance_that_does_not_fit_is_refused_with_reasons() {
    let (world, id) = flow().await;
    let path = format!("/api/v1/instances/{id}/migrate");
    let refused = world.post(&path, json!({"version": "2.0.0"})).await.problem(409, "does-not-fit");
    assert!(refused["detail"].as_str().unwrap().contains("/do/0/approve"), "{refused}");
    world.post(&path, json!({"version": "9.0.0"})).await.problem(404, "not-found");
    world.post(&path, json!({})).await.problem(400, "missing-key");
    let mapping = json!({"version": "2.0.0", "mapping": {"/do/0/approve": "/do/0/question"}});
    world.post(&path, mapping).await.ok(200);
    assert_eq!(complete(&world, &id).await["output"], json!({"version": "renamed"}));
}

#[tokio::test]
async fn many_instances_go_page_by_page() {
    let (world, _) = flow().await;
    for _ in 0..4 {
        let start = json!({"definition": {"namespace": "test", "name": "flow", "version": "1.0.0"}});
        world.post("/api/v1/instances", start).await.ok(201);
    }
    let mut body =
        json!({"namespace": "test", "name": "flow", "version": "1.1.0", "from": "1.0.0", "limit": 2});
    let (mut migrated, mut pages) = (0, 0);
    loop {
        let page = world.post("/api/v1/instances/migrate", body.clone()).await.ok(200);
        assert_eq!(page["refused"], 0, "{page}");
        migrated += page["migrated"].as_u64().unwrap();
        pages += 1;
        body["cursor"] = page["next"].clone();
        if page["next"].is_null() {
            break;
        }
    }
    assert_eq!(migrated, 5);
    assert!(pages >= 3, "{pages}");
    let back = json!({"namespace": "test", "name": "flow", "version": "2.0.0"});
    let page = world.post("/api/v1/instances/migrate", back).await.ok(200);
    assert_eq!((&page["migrated"], &page["refused"]), (&json!(0), &json!(5)));
    assert!(page["examples"][0]["why"].as_str().unwrap().contains("mapping"), "{page}");
    let wrong = json!({"namespace": "test", "name": "flow", "version": "2.0.0", "limit": 5000});
    world.post("/api/v1/instances/migrate", wrong).await.problem(400, "invalid-value");
}
