//! An expression that would not end costs its step, not the engine.

use crate::engine::Engine;
use serde_json::json;

#[tokio::test]
async fn hostile_expressions_fail_their_step_only() {
    let home = tempfile::tempdir().unwrap();
    let engine = Engine::up(home.path()).await;
    let hostile =
        ["last(range(1e12))", "[range(1e9)] | length", "def f: 1 + f; f", "[limit(100; repeat(1))] | length"];
    let mut ids = Vec::new();
    for (at, expression) in hostile.iter().enumerate() {
        let document = format!(
            "document: {{ dsl: 1.0.3, namespace: test, name: hostile-{at}, version: 1.0.0 }}\n\
             do:\n  - compute:\n      set:\n        x: '${{ {expression} }}'\n"
        );
        engine.deploy(&document).await;
        ids.push(engine.start_instance(&format!("hostile-{at}"), json!({})).await);
    }
    for (id, expression) in ids.iter().zip(hostile).take(3) {
        let result = engine.result(id).await;
        assert_eq!(result["status"], "faulted", "{expression}: {result}");
        let kind = result["error"]["type"].as_str().unwrap();
        assert!(kind.ends_with("/expression"), "{expression}: {kind}");
    }
    let harmless = engine.result(&ids[3]).await;
    assert_eq!(harmless["output"], json!({ "x": 100 }), "what ends is evaluated: {harmless}");
    assert_eq!(engine.cli(&["instance", "list"]).await.code, Some(0), "the engine keeps serving");
}

/// Requests are let out before the engine stops: one that waits for the sandbox gets its answer and not a closed
/// connection. There are more than the sandbox could get done while requests are let out.
#[tokio::test]
async fn a_stop_answers_those_who_wait_for_the_sandbox() {
    let home = tempfile::tempdir().unwrap();
    let engine = Engine::up(home.path()).await;
    engine
        .deploy(
            "document: { dsl: 1.0.3, namespace: test, name: endless, version: 1.0.0 }\n\
             do: [ { a: { set: { x: '${ def f(x): f(f(x)); f(1) }' } } } ]\n",
        )
        .await;
    let body = json!({ "definition": { "namespace": "test", "name": "endless" }, "input": {} });
    let mut waiting = tokio::task::JoinSet::new();
    for _ in 0..40 {
        let request = engine.request("POST", "/instances").json(&body);
        waiting.spawn(async move { request.send().await.map(|answer| answer.status().as_u16()) });
    }
    // The first of them has been computed, so the others stand in line.
    assert_eq!(waiting.join_next().await.unwrap().unwrap().unwrap(), 201);
    let (status, _) = engine.terminate().await;
    assert_eq!(status.code(), Some(0));
    while let Some(answer) = waiting.join_next().await {
        let status = answer.unwrap().expect("an answer");
        assert!(status == 201 || status == 503, "{status}");
    }
}

/// Definitions whose one expression takes a while: within its bounds, but too long for the threads of the engine; or
/// one that only the sandbox may evaluate at all.
const SLOW: [&str; 2] =
    ["[range(200)] | [.[] as $a | .[] as $b | $a * $b] | add", "reduce range(30000) as $i (0; . + $i)"];

#[tokio::test]
async fn a_tenant_with_slow_expressions_holds_up_nobody_else() {
    let home = tempfile::tempdir().unwrap();
    let mut engine = Engine::up(home.path()).await;
    for (at, expression) in SLOW.iter().enumerate() {
        let head = format!("document: {{ dsl: 1.0.3, namespace: test, name: slow-{at}, version: 1.0.0 }}");
        engine.deploy(&format!("{head}\ndo: [{{ a: {{ set: {{ x: '${{ {expression} }}' }} }} }}]\n")).await;
    }
    let item =
        |at: usize| json!({ "definition": { "namespace": "test", "name": format!("slow-{}", at % 2) } });
    let items: Vec<_> = (0..60).map(item).collect();
    let bulk = engine.request("POST", "/instances/bulk").json(&json!({ "items": items }));
    let mut slow = tokio::spawn(async move { bulk.send().await.unwrap().json::<serde_json::Value>().await });

    engine.cli(&["tenant", "create", "bee"]).await.ok();
    let key = ["key", "create", "--tenant", "bee", "--name", "b", "--role", "admin", "-o", "json"];
    let made = engine.cli(&key).await.json();
    engine.key = made["secret"].as_str().unwrap().to_owned();
    let quick = "def f: if . > 100 then . else (. + 1 | f) end; 1 | f";
    let head = "document: { dsl: 1.0.3, namespace: test, name: quick, version: 1.0.0 }";
    engine.deploy(&format!("{head}\ndo: [{{ a: {{ set: {{ x: '${{ {quick} }}' }} }} }}]\n")).await;
    let result = engine.result(&engine.start_instance("quick", json!({})).await).await;
    assert_eq!(result["output"], json!({ "x": 101 }), "{result}");
    assert!(!slow.is_finished(), "the other tenant's turn came long before the slow ones were done");

    let answer = (&mut slow).await.unwrap().unwrap();
    let answers = answer["items"].as_array().unwrap();
    assert!(answers.len() == 60 && answers.iter().all(|item| item["id"].is_string()), "{answer}");
    engine.key = engine.line["key"].as_str().unwrap().to_owned();
    let done = |list: &serde_json::Value| list["items"].as_array().unwrap().len() == 60;
    engine.until("/instances?namespace=test&status=completed&limit=200", done).await;
}
