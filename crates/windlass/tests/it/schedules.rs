//! Schedules, events addressed to nobody and the tenant's clock, through the API and the CLI, over a `kill -9`.

use crate::engine::Engine;
use serde_json::{Value, json};

const NIGHTLY: &str = "
document:
  dsl: 1.0.3
  namespace: test
  name: nightly
  version: 1.0.0
  metadata: { windlass: { timeZone: Europe/Berlin, missed: all } }
schedule: { cron: '30 2 * * *' }
do:
  - note: { set: { done: true } }
";
const PAID: &str = "
document: { dsl: 1.0.3, namespace: test, name: paid, version: 1.0.0 }
do:
  - hear:
      listen:
        to:
          one:
            with: { type: com.example.paid }
            correlate: { order: { from: .data.order, expect: '${ .order }' } }
";
const PLACED: &str = "
document: { dsl: 1.0.3, namespace: test, name: placed, version: 1.0.0 }
schedule: { on: { one: { with: { type: com.example.placed } } } }
do:
  - greet: { set: { order: '${ .[0].data.order }' } }
";

fn count(page: &Value) -> usize {
    page["items"].as_array().unwrap().len()
}

#[tokio::test]
async fn a_schedule_fires_each_slot_once_while_days_go_by_in_seconds() {
    let home = tempfile::tempdir().unwrap();
    let engine = Engine::up(home.path()).await;
    engine.deploy(NIGHTLY).await;
    let shown = engine.cli(&["schedule", "show", "test/nightly", "-o", "json"]).await.json();
    assert_eq!((&shown["kind"], &shown["spec"]), (&json!("cron"), &json!("30 2 * * *")));
    let id = shown["id"].as_str().unwrap().to_owned();
    let next = engine.cli(&["schedule", "next", "test/nightly", "--count", "7"]).await.ok();
    assert_eq!(next.lines().count(), 7);
    assert!(next.lines().all(|line| line.ends_with(":30:00Z")), "{next}");

    engine.cli(&["dev", "clock", "advance", "3d"]).await.ok();
    let slots = format!("/schedules/{id}/slots");
    engine.until(&slots, |page| count(page) == 3).await;
    engine.kill().await;
    let engine = Engine::up(home.path()).await;
    let clock = engine.cli(&["dev", "clock", "show", "-o", "json"]).await.json();
    assert_eq!(clock["ahead_ms"], 3 * 86_400_000);
    engine.cli(&["dev", "clock", "advance", "2d"]).await.ok();
    let page = engine.until(&slots, |page| count(page) == 5).await;
    assert!(page["items"].as_array().unwrap().iter().all(|slot| slot["outcome"] == "fired"), "{page}");
    let instances = engine.until("/instances?name=nightly&status=completed", |page| count(page) == 5).await;
    assert_eq!(count(&instances), 5);

    let paused = engine.cli(&["schedule", "pause", &id, "-o", "json"]).await.json();
    assert_eq!(paused["status"], "paused");
    let instance = engine.cli(&["schedule", "trigger", &id, "-o", "id"]).await.ok();
    assert_eq!(engine.result(instance.trim()).await["output"], json!({ "done": true }));
    engine.cli(&["schedule", "resume", "test/nightly"]).await.ok();
    assert_eq!(engine.cli(&["schedule", "list", "-o", "id"]).await.ok().trim(), id);
    assert_eq!(engine.cli(&["schedule", "show", "test/nothing"]).await.code, Some(3));
    let back = engine.cli(&["dev", "clock", "set", "2001-01-01T00:00:00Z"]).await;
    assert!(back.code != Some(0) && back.stderr.contains("only goes forward"), "{}", back.stderr);
}

#[tokio::test]
async fn events_reach_who_waits_who_comes_later_and_who_is_started_by_them() {
    let home = tempfile::tempdir().unwrap();
    let engine = Engine::up(home.path()).await;
    engine.deploy(PAID).await;
    engine.deploy(PLACED).await;
    let waits = engine.start_instance("paid", json!({ "order": "a" })).await;
    let publish = async |id: &str, kind: &str, data: &str| {
        engine.cli(&["event", "publish", kind, "--id", id, "--data", data, "-o", "json"]).await.json()
    };
    let early = publish("p-1", "com.example.paid", r#"{"order": "b"}"#).await;
    publish("p-2", "com.example.paid", r#"{"order": "a"}"#).await;
    assert_eq!(engine.result(&waits).await["output"], json!([{ "order": "a" }]));
    let again = publish("p-2", "com.example.paid", r#"{"order": "a"}"#).await;
    assert_eq!(again["items"][0]["replayed"], true);

    let id = early["items"][0]["id"].as_str().unwrap();
    let shown = engine.cli(&["event", "show", id, "-o", "json"]).await.json();
    assert!(shown["verdict"].as_str().unwrap().starts_with("no listen step waited"), "{shown}");
    engine.kill().await;
    let engine = Engine::up(home.path()).await;
    let late = engine.start_instance("paid", json!({ "order": "b" })).await;
    assert_eq!(engine.result(&late).await["output"], json!([{ "order": "b" }]));

    let batch = json!([
        { "specversion": "1.0", "id": "o-1", "source": "shop", "type": "com.example.placed", "data": { "order": "x" } },
        { "specversion": "1.0", "id": "o-2", "source": "shop", "type": "com.example.placed", "data": { "order": "y" } },
    ]);
    let answer = engine.request("POST", "/events").json(&batch).send().await.unwrap();
    assert_eq!(answer.status(), 202);
    let accepted: Value = answer.json().await.unwrap();
    let started = accepted["items"][1]["started"][0].as_str().unwrap();
    assert_eq!(engine.result(started).await["output"], json!({ "order": "y" }));
    let wrong = engine.request("POST", "/events").json(&json!({ "id": "1" })).send().await.unwrap();
    assert_eq!(wrong.status(), 422);
    assert_eq!(wrong.json::<Value>().await.unwrap()["code"], "invalid-event");
    let listed = engine.cli(&["event", "list", "--type", "com.example.placed", "-o", "id"]).await.ok();
    assert_eq!(listed.lines().count(), 2);
}

#[tokio::test]
async fn serve_moves_no_clock_unless_its_configuration_says_so() {
    let home = tempfile::tempdir().unwrap();
    for (dev, code) in [("", Some(5)), ("[dev]\nclock = true\n", Some(0))] {
        let text = format!("[server]\nlisten = '127.0.0.1:0'\n[store]\ndata = 'data'\n{dev}");
        std::fs::write(home.path().join("windlass.toml"), text).unwrap();
        let args = ["serve", "--config", "windlass.toml", "--new-platform-key", "-o", "json"];
        let mut engine = Engine::start(home.path(), &args).await;
        engine.key = engine.line["platform_key"].as_str().unwrap().to_owned();
        let tenant = if dev.is_empty() { "acme" } else { "other" };
        engine.cli(&["tenant", "create", tenant]).await.ok();
        let made = engine
            .cli(&["key", "create", "--tenant", tenant, "--name", "a", "--role", "admin", "-o", "json"])
            .await;
        engine.key = made.json()["secret"].as_str().unwrap().to_owned();
        let moved = engine.cli(&["dev", "clock", "advance", "1h"]).await;
        assert_eq!(moved.code, code, "{}", moved.stderr);
        engine.terminate().await;
    }
}
