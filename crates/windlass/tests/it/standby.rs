//! A synchronous standby that is lost: COMMIT hangs. Whoever waits for a change is told after a while that nobody knows yet;
//! asked again with the same key, once the database goes on, it is there, once.

use crate::engine::{Engine, binary, said};
use reqwest::Response;
use serde_json::{Value, json};

const DOCUMENT: &str = "document: { dsl: '1.0.3', namespace: test, name: rests, version: '1.0.0' }
do: [ { rest: { wait: { hours: 1 } } } ]";

async fn start(engine: &Engine) -> Response {
    let definition = json!({ "namespace": "test", "name": "rests", "version": "1.0.0" });
    let request = engine.request("POST", "/instances").header("Idempotency-Key", "order-1");
    request.json(&json!({ "definition": definition })).send().await.unwrap()
}

#[tokio::test]
async fn a_commit_that_hangs_is_answered_in_time_and_lands_once() {
    if scratch::programs().is_none() {
        drop(scratch::database());
        return;
    }
    // The setting is of the whole server, so this one is nobody else's.
    let server = scratch::Server::start(scratch::Durability::Default).unwrap();
    let database = server.database().unwrap();
    let home = tempfile::tempdir().unwrap();
    let mut migrate = binary(home.path());
    migrate.args(["migrate", "--store", &database.owner_url, "--app-role", database.application]);
    said(migrate).await.ok();
    let config = "[server]\nlisten = '127.0.0.1:0'\nwrite_timeout_seconds = 1\n";
    std::fs::write(home.path().join("windlass.toml"), config).unwrap();
    let args = ["serve", "--config", "windlass.toml", "--store", &database.url, "-o", "json"];
    let mut engine = Engine::start(home.path(), &args).await;
    engine.key = engine.line["platform_key"].as_str().expect("a platform key").to_owned();
    engine.cli(&["tenant", "create", "acme"]).await.ok();
    let make = ["key", "create", "--tenant", "acme", "--name", "admin", "--role", "admin", "-o", "json"];
    engine.key = engine.cli(&make).await.json()["secret"].as_str().unwrap().to_owned();
    engine.deploy(DOCUMENT).await;

    database.ask("ALTER SYSTEM SET synchronous_standby_names = 'lost'").unwrap();
    database.ask("SELECT pg_reload_conf()").unwrap();
    // A server takes a moment to read its settings: until then a commit lands at once.
    let mut last = database.ask("SHOW synchronous_standby_names").unwrap();
    while last != "lost" {
        last = database.ask("SHOW synchronous_standby_names").unwrap();
    }
    let unknown = start(&engine).await;
    assert_eq!(unknown.status(), 504);
    assert!(unknown.headers().contains_key("retry-after"));
    let unknown: Value = unknown.json().await.unwrap();
    assert_eq!(unknown["code"], "outcome-unknown", "{unknown}");
    assert!(unknown["detail"].as_str().unwrap().contains("same Idempotency-Key"), "{unknown}");

    database.ask("ALTER SYSTEM RESET synchronous_standby_names").unwrap();
    database.ask("SELECT pg_reload_conf()").unwrap();
    let mut again = start(&engine).await;
    while again.status() != 201 {
        assert!([503, 504].contains(&again.status().as_u16()), "{}", again.text().await.unwrap());
        again = start(&engine).await;
    }
    assert_eq!(again.headers()["idempotency-replayed"], "true");
    let id = again.json::<Value>().await.unwrap()["id"].clone();
    let listed = engine.get("/instances").await;
    let ids: Vec<&Value> = listed["items"].as_array().unwrap().iter().map(|one| &one["id"]).collect();
    assert_eq!(ids, [&id]);
}
