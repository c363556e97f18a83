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
