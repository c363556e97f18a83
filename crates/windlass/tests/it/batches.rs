//! Batches through the binary: what they act on and refuse, `kill -9` in the middle of one, and a ramp of dead letters.

use crate::engine::{Engine, PATIENCE, binary, said};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use tokio::time::timeout;

const WAITS: &str = "
document: { dsl: 1.0.3, namespace: test, name: waits, version: 1.0.0 }
do:
  - hear: { listen: { to: { one: { with: { type: go } } } } }
";
const INSTANCES: usize = 80;

async fn waiting(engine: &Engine) -> Vec<String> {
    engine.deploy(WAITS).await;
    let mut ids = Vec::new();
    for n in 0..INSTANCES {
        ids.push(engine.start_instance("waits", json!({ "n": n })).await);
    }
    ids
}

fn count(batch: &Value, key: &str) -> u64 {
    batch["counts"][key].as_u64().unwrap()
}

#[tokio::test]
async fn a_batch_that_is_killed_in_the_middle_does_everything_once() {
    let home = tempfile::tempdir().unwrap();
    let engine = Engine::up(home.path()).await;
    let ids = waiting(&engine).await;
    let query = "definition:test/waits status:waiting";
    let counted =
        engine.cli(&["batch", "create", "pause", "-q", query, "--dry-run", "-o", "json"]).await.json();
    assert_eq!((&counted["matched"], &counted["more"]), (&json!(INSTANCES), &json!(false)));
    assert_eq!(counted["samples"].as_array().unwrap().len(), 5);
    let unasked = engine.cli(&["batch", "create", "pause", "-q", query]).await;
    assert_eq!(unasked.code, Some(2), "{}", unasked.stderr);
    assert!(unasked.stderr.contains("--yes"), "{}", unasked.stderr);
    let everything = engine.cli(&["batch", "create", "pause", "-q", " ", "--yes"]).await;
    assert!(everything.stderr.contains("empty-query"), "{}", everything.stderr);
    let wrong = engine.cli(&["batch", "create", "pause", "-q", "stauts:waiting", "--yes"]).await;
    assert!(wrong.stderr.contains("did you mean status?"), "{}", wrong.stderr);
    assert_eq!(engine.get("/batches").await["items"], json!([]));

    let made =
        ["batch", "create", "pause", "-q", query, "--rate", "20/s", "--why", "a test", "--yes", "-o", "id"];
    let id = engine.cli(&[&made[..], &["--idempotency-key", "k-1"]].concat()).await.ok();
    let id = id.trim();
    let again = engine.cli(&[&made[..], &["--idempotency-key", "k-1"]].concat()).await.ok();
    assert_eq!(again.trim(), id, "pressing twice runs once");
    let path = format!("/batches/{id}");
    engine.until(&path, |batch| count(batch, "done") > 5).await;
    engine.kill().await;

    let engine = Engine::up(home.path()).await;
    let shown = engine.cli(&["batch", "show", id]).await.ok();
    assert!(shown.contains("a test") && shown.contains(query), "{shown}");
    engine.cli(&["batch", "watch", id]).await.ok();
    let batch = engine.get(&path).await;
    assert_eq!(batch["status"], "done");
    let counts = ["matched", "waiting", "sent", "done", "failed", "skipped"].map(|key| count(&batch, key));
    assert_eq!(counts, [INSTANCES as u64, 0, 0, INSTANCES as u64, 0, 0], "{batch}");
    for instance in &ids {
        let history = engine.get(&format!("/instances/{instance}/history?limit=200")).await;
        let paused = |item: &&Value| item["kind"] == "workflow.paused";
        assert_eq!(history["items"].as_array().unwrap().iter().filter(paused).count(), 1, "{history}");
    }
    let items = engine.cli(&["batch", "items", id, "--all", "-o", "id"]).await.ok();
    assert_eq!(items.lines().count(), INSTANCES);
}

async fn ask(engine: &Engine, method: &str, path: &str, body: Value) -> Value {
    let answer = engine.request(method, path).json(&body).send().await.unwrap();
    assert!(answer.status().is_success(), "{method} {path}: {}", answer.text().await.unwrap());
    answer.json().await.unwrap_or_default()
}

/// Answers what the worker is given: fails what is `broken`, until `enough` has been handled.
async fn serve(engine: &Engine, broken: impl Fn(i64) -> bool, enough: usize) -> BTreeMap<i64, usize> {
    let mut handled = BTreeMap::new();
    while handled.values().sum::<usize>() < enough {
        let lent = ask(engine, "POST", "/workers/mail/poll", json!({ "max": 50, "wait_seconds": 5 })).await;
        for delivery in lent["items"].as_array().unwrap() {
            let (id, attempt) = (delivery["id"].as_str().unwrap(), &delivery["attempt"]);
            let numbers = delivery["events"].as_array().unwrap().iter();
            let numbers: Vec<i64> = numbers.map(|event| event["data"]["n"].as_i64().unwrap()).collect();
            let result = |n: &i64| match broken(*n) {
                true => json!({ "class": "validation", "message": "broken" }),
                false => json!({}),
            };
            let results: Vec<Value> = numbers.iter().map(result).collect();
            let body = json!({ "attempt": attempt, "results": results });
            ask(engine, "POST", &format!("/deliveries/{id}/complete"), body).await;
            numbers.into_iter().for_each(|n| *handled.entry(n).or_default() += 1);
        }
    }
    handled
}

#[tokio::test]
async fn a_group_of_dead_letters_goes_up_a_ramp_and_halts_when_one_fails_again() {
    const LETTERS: u64 = 30;
    let home = tempfile::tempdir().unwrap();
    let engine = Engine::up(home.path()).await;
    ask(&engine, "PUT", "/workers/mail", json!({ "types": ["order.*"] })).await;
    let event = |n| json!({ "specversion": "1.0", "id": format!("o-{n}"), "source": "test", "type": "order.paid", "data": { "n": n } });
    ask(&engine, "POST", "/events", Value::Array((0..LETTERS).map(event).collect())).await;
    serve(&engine, |_| true, LETTERS as usize).await;
    let list = "/dead-letters?worker=mail&limit=200";
    let letters =
        engine.until(list, |page| page["items"].as_array().unwrap().len() == LETTERS as usize).await;
    let group = letters["items"][0]["group"].as_str().unwrap().to_owned();

    let args = ["dlq", "replay", "--group", &group, "--ramp", "--yes", "-o", "id"];
    let id = engine.cli(&args).await.ok();
    let path = format!("/batches/{}", id.trim());
    let tried = serve(&engine, |_| true, 1).await;
    let halted = engine.until(&path, |batch| batch["status"] == "halted").await;
    assert_eq!((count(&halted, "failed"), count(&halted, "done"), tried.len()), (1, 0, 1), "{halted}");
    let failed = engine.cli(&["batch", "items", id.trim(), "--outcome", "failed"]).await.ok();
    assert!(failed.contains("it failed again, as dl_"), "{failed}");

    // The cause is gone: the rest goes through, also with the server killed on the way.
    engine.cli(&["batch", "resume", id.trim()]).await.ok();
    serve(&engine, |_| false, 5).await;
    engine.kill().await;
    let engine = Engine::up(home.path()).await;
    let done = async {
        loop {
            let batch = engine.get(&path).await;
            if batch["status"] != "running" {
                return batch;
            }
            let lent =
                ask(&engine, "POST", "/workers/mail/poll", json!({ "max": 50, "wait_seconds": 1 })).await;
            for delivery in lent["items"].as_array().unwrap() {
                let path = format!("/deliveries/{}/complete", delivery["id"].as_str().unwrap());
                ask(&engine, "POST", &path, json!({ "attempt": delivery["attempt"] })).await;
            }
        }
    };
    let batch = timeout(PATIENCE, done).await.expect("the ramp ends");
    assert_eq!((&batch["status"], count(&batch, "matched")), (&json!("done"), LETTERS), "{batch}");
    assert_eq!((count(&batch, "done"), count(&batch, "failed")), (LETTERS - 1, 1), "{batch}");
    let left = engine.get(list).await;
    assert_eq!(left["items"].as_array().unwrap().len(), 1, "what failed again is a dead letter again");

    let mut viewer = binary(home.path());
    let made =
        engine.cli(&["key", "create", "--name", "reader", "--role", "viewer", "-o", "json"]).await.json();
    viewer.env("WINDLASS_URL", &engine.url).env("WINDLASS_KEY", made["secret"].as_str().unwrap());
    viewer.args(["dlq", "replay", "--group", &group, "--yes"]);
    assert_eq!(said(viewer).await.code, Some(4), "a viewer may not");
}
