//! What an operator does with tenants from the command line, and what a tenant is told why nothing happens.

use crate::engine::Engine;
use serde_json::json;

const HEARS: &str = "
document: { dsl: 1.0.3, namespace: test, name: hears, version: 1.0.0 }
do:
  - hear: { listen: { to: { one: { with: { type: go } } } } }
";

#[tokio::test]
async fn a_tenants_life_from_the_command_line() {
    let home = tempfile::tempdir().unwrap();
    let mut engine = Engine::up(home.path()).await;
    let platform = engine.key.clone();
    engine.cli(&["tenant", "create", "acme"]).await.ok();
    let create = ["key", "create", "--tenant", "acme", "--name", "a", "--role", "admin", "-o", "json"];
    let own = engine.cli(&create).await.json()["secret"].as_str().unwrap().to_owned();
    engine.key.clone_from(&own);
    engine.deploy(HEARS).await;
    let id = engine.cli(&["instance", "start", "test/hears", "-o", "id"]).await.ok();
    let id = id.trim();
    let says = async |engine: &Engine, word: &str| {
        for _ in 0..600 {
            if engine.cli(&["instance", "explain", id]).await.ok().contains(word) {
                return;
            }
        }
        panic!("it never says {word}");
    };
    says(&engine, "an event, or a signal, of `go`").await;

    engine.key.clone_from(&platform);
    let limits = ["tenant", "limit", "acme", "--open", "5", "--starts-per-second", "9", "-o", "json"];
    let limited = engine.cli(&limits).await.json();
    assert_eq!((&limited["open_max"], &limited["starts_per_second"]), (&json!(5), &json!(9)));
    let status = async |engine: &Engine, args: &[&str]| {
        let args = [&["tenant"], args, &["-o", "json"]].concat();
        engine.cli(&args).await.json()["status"].as_str().unwrap().to_owned()
    };
    assert_eq!(status(&engine, &["suspend", "acme"]).await, "suspended");
    engine.key.clone_from(&own);
    says(&engine, "tenant acme is suspended").await;
    let refused = engine.cli(&["instance", "signal", id, "go"]).await;
    assert!(refused.stderr.contains("suspended"), "{}", refused.stderr);
    engine.key.clone_from(&platform);
    assert_eq!(status(&engine, &["degrade", "acme", "--per-second", "3"]).await, "degraded");
    assert_eq!(status(&engine, &["resume", "acme"]).await, "active");
    assert_eq!(status(&engine, &["delete", "acme", "--grace", "1h"]).await, "deleted");
    assert_eq!(status(&engine, &["restore", "acme"]).await, "active");
    assert_eq!(status(&engine, &["show", "acme"]).await, "active");
    engine.key.clone_from(&own);
    engine.cli(&["instance", "signal", id, "go", "--data", "1"]).await.ok();
    assert_eq!(engine.result(id).await["status"], "completed");
    engine.cli(&["delivery", "list"]).await.ok();

    engine.key.clone_from(&platform);
    engine.cli(&["tenant", "delete", "acme", "--grace", "0s"]).await.ok();
    for _ in 0..600 {
        let list = engine.cli(&["tenant", "list", "-o", "id"]).await.ok();
        if !list.lines().any(|line| line == "acme") {
            return;
        }
    }
    panic!("the tenant is still there");
}
