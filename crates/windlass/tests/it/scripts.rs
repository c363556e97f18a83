//! Scripts through the binary: allowed in `up`, refused in `serve` unless the operator allows them.

use crate::engine::Engine;
use serde_json::json;

const SCRIPT: &str = "
document: { dsl: 1.0.3, namespace: test, name: scripted, version: 1.0.0 }
do:
  - compute:
      run:
        script:
          language: js
          arguments: [ '${ .n }' ]
          code: |
            console.log(JSON.stringify({ double: process.argv[2] * 2 }))
      output: { as: fromjson }
";

#[tokio::test]
async fn a_script_computes_the_output_of_its_step() {
    let home = tempfile::tempdir().unwrap();
    let engine = Engine::up(home.path()).await;
    engine.deploy(SCRIPT).await;
    let id = engine.start_instance("scripted", json!({"n": 21})).await;
    let result = engine.result(&id).await;
    assert_eq!(result["output"], json!({"double": 42}), "{result}");
    let broken = SCRIPT.replace("scripted", "broken").replace("console.log(", "throw new Error(");
    engine.deploy(&broken).await;
    let id = engine.start_instance("broken", json!({"n": 1})).await;
    let result = engine.result(&id).await;
    assert_eq!((&result["status"], &result["error"]["status"]), (&json!("faulted"), &json!(500)), "{result}");
    assert!(result["error"]["detail"].as_str().unwrap().contains("line 1 of the script"), "{result}");
}

#[tokio::test]
async fn serving_many_tenants_refuses_scripts_unless_allowed() {
    for (allowed, status) in [(false, 422), (true, 201)] {
        let home = tempfile::tempdir().unwrap();
        let config = "[server]\nlisten = '127.0.0.1:0'\n[store]\ndata = 'data'\n";
        std::fs::write(home.path().join("windlass.toml"), config).unwrap();
        let mut args = vec!["serve", "--config", "windlass.toml", "-o", "json"];
        args.extend(allowed.then_some("--allow-scripts"));
        let mut engine = Engine::start(home.path(), &args).await;
        engine.key = engine.line["platform_key"].as_str().unwrap().to_owned();
        engine.cli(&["tenant", "create", "acme"]).await.ok();
        let key = ["key", "create", "--tenant", "acme", "--name", "a", "--role", "admin", "-o", "json"];
        let made = engine.cli(&key).await.json();
        engine.key = made["secret"].as_str().unwrap().to_owned();
        let answer = engine
            .request("POST", "/definitions")
            .header("content-type", "application/yaml")
            .body(SCRIPT)
            .send()
            .await
            .unwrap();
        assert_eq!(answer.status().as_u16(), status);
        if !allowed {
            let problem: serde_json::Value = answer.json().await.unwrap();
            assert_eq!(problem["code"], "definition-not-allowed");
            assert_eq!(
                (&problem["errors"][0]["code"], &problem["errors"][0]["line"]),
                (&json!("configuration"), &json!(6))
            );
        }
    }
}
