//! The lines of the contract that tools rely on, asked over plain HTTP; and `-o json`, which adds nothing to it.

use crate::engine::{Engine, members};
use serde_json::{Value, json};

const DOCUMENT: &str = "
document: { dsl: 1.0.3, namespace: test, name: greet, version: 1.0.0 }
do:
  - hello: { call: 'echo:1.0.0@default', with: { text: '${ .name }' } }
  - last: { set: { greeting: '${ .text }' } }
";

#[tokio::test]
async fn deploy_start_result_history() {
    let home = tempfile::tempdir().unwrap();
    let engine = Engine::up(home.path()).await;
    let request = engine.request("POST", "/definitions").header("Content-Type", "application/yaml");
    let answer = request.body(DOCUMENT).send().await.unwrap();
    assert_eq!(answer.status(), 201);
    let deployed: Value = answer.json().await.unwrap();
    assert_eq!(
        (&deployed["namespace"], &deployed["name"], &deployed["version"]),
        (&json!("test"), &json!("greet"), &json!("1.0.0"))
    );

    let start = json!({
        "definition": { "namespace": "test", "name": "greet", "version": "1.0.0" }, "input": { "name": "Ada" },
    });
    let answer = engine.request("POST", "/instances").json(&start).send().await.unwrap();
    assert_eq!(answer.status(), 201);
    let started: Value = answer.json().await.unwrap();
    assert_eq!(members(&started), ["id"]);
    let id = started["id"].as_str().unwrap();

    let result = engine.result(id).await;
    assert_eq!(result, json!({ "status": "completed", "output": { "greeting": "Ada" }, "error": null }));

    let history = engine.get(&format!("/instances/{id}/history")).await;
    assert_eq!(members(&history), ["items", "next"]);
    for item in history["items"].as_array().unwrap() {
        assert!(item["kind"].is_string() && item["time"].is_string() && item["version"].is_i64(), "{item}");
    }
    let steps: Vec<&str> =
        history["items"].as_array().unwrap().iter().filter_map(|item| item["step"].as_str()).collect();
    assert!(steps.contains(&"/do/0/hello") && steps.contains(&"/do/1/last"), "{steps:?}");
}

/// Every reading verb prints with `-o json` what the API answers, byte for byte.
#[tokio::test]
async fn json_is_the_apis_own() {
    let home = tempfile::tempdir().unwrap();
    let engine = Engine::up(home.path()).await;
    engine.deploy(DOCUMENT).await;
    let id = engine.start_instance("greet", json!({ "name": "Ada" })).await;
    engine.result(&id).await;
    engine.until("/tasks", |tasks| !tasks["items"].as_array().unwrap().is_empty()).await;
    let task = engine.get("/tasks").await["items"][0]["id"].as_str().unwrap().to_owned();
    let cases: &[(&[&str], String)] = &[
        (&["def", "list"], "/definitions".to_owned()),
        (&["def", "show", "test/greet"], "/definitions/test/greet".to_owned()),
        (&["def", "show", "greet@1.0.0"], "/definitions/test/greet/versions/1.0.0".to_owned()),
        (&["instance", "list", "--definition", "greet"], "/instances?namespace=test&name=greet".to_owned()),
        (&["instance", "show", &id], format!("/instances/{id}")),
        (&["instance", "result", &id], format!("/instances/{id}/result")),
        (&["instance", "history", &id, "--limit", "2"], format!("/instances/{id}/history?limit=2")),
        (&["task", "list"], "/tasks?status=open%2Cclaimed".to_owned()),
        (&["task", "show", &task], format!("/tasks/{task}")),
        (&["dlq", "list"], "/dead-letters".to_owned()),
        (&["dlq", "groups"], "/dead-letters/groups".to_owned()),
        (&["error", "list"], "/errors".to_owned()),
        (&["key", "list"], "/keys".to_owned()),
        (&["api", "GET", "/me"], "/me".to_owned()),
    ];
    for (args, path) in cases {
        let printed = engine.cli(&[*args, &["-o", "json"]].concat()).await.ok();
        let answered = engine.request("GET", path).send().await.unwrap().text().await.unwrap();
        assert_eq!(printed.trim_end_matches('\n'), answered, "{args:?}");
    }
}

/// The members that scripts read.
#[tokio::test]
async fn shapes_of_json() {
    let home = tempfile::tempdir().unwrap();
    let engine = Engine::up(home.path()).await;
    let file = home.path().join("greet.yaml");
    std::fs::write(&file, DOCUMENT).unwrap();
    let file = file.to_str().unwrap();
    let json = async |args: &[&str]| engine.cli(&[args, &["-o", "json"]].concat()).await.json();

    assert_eq!(
        members(&json(&["def", "deploy", file, "--dry-run"]).await),
        ["name", "namespace", "version", "warnings"]
    );
    assert_eq!(members(&json(&["def", "deploy", file]).await), ["name", "namespace", "version", "warnings"]);
    assert_eq!(members(&json(&["def", "validate", file]).await), ["problems", "valid", "warnings"]);
    let started = json(&["instance", "start", "greet", "--input", r#"{"name":"Ada"}"#]).await;
    assert_eq!(members(&started), ["id"]);
    let id = started["id"].as_str().unwrap();
    let result = json(&["instance", "result", id, "--wait", "60s"]).await;
    assert_eq!(members(&result), ["error", "output", "status"]);
    let shown = json(&["instance", "show", id]).await;
    let expected = [
        "calls",
        "children",
        "context",
        "correlation_id",
        "created_at",
        "definition",
        "ended_at",
        "error",
        "id",
        "input",
        "key",
        "output",
        "parent",
        "pointer",
        "status",
        "traceparent",
        "updated_at",
        "version",
        "waiting",
    ];
    assert_eq!(members(&shown), expected);
    let many = json(&["instance", "start", "greet", "--input", r#"{"name":"Ada"}"#, "--count", "7"]).await;
    assert_eq!(many["items"].as_array().unwrap().len(), 7);
    assert_eq!(members(&many["items"][0]), ["id", "replayed", "status"]);
    let all = json(&["instance", "list", "--definition", "greet", "--limit", "2", "--all"]).await;
    assert_eq!(all["items"].as_array().unwrap().len(), 8, "all pages");
    assert_eq!(all["next"], Value::Null);
    let key = json(&["key", "create", "--name", "bot", "--role", "viewer"]).await;
    assert_eq!(members(&key), ["expires_at", "id", "name", "roles", "secret"]);
}
