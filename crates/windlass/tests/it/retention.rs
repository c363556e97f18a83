//! Retention while work goes on, with a `kill -9` in between: only what has ended goes, and not before its time.

use crate::engine::{Engine, PATIENCE, POLL};
use futures_util::{StreamExt, stream};
use machine::{Time, time::Span};
use runtime::clock::{Clock, SystemClock};
use serde_json::{Value, json};
use std::path::Path;
use tokio::time::timeout;

/// As in the configuration.
const KEPT: Span = Span::from_secs(2);
const CONFIG: &str = "[server]\nlisten = '127.0.0.1:0'\n[store]\ndata = 'data'\n\
                      [retention]\nended = '2s'\nevery = '1s'\n";
const ROUNDS: usize = 3;
const PER_ROUND: usize = 120;

const QUICK: &str = "document: { dsl: 1.0.3, namespace: test, name: quick, version: 1.0.0 }
do: [ { w: { wait: { milliseconds: 20 } } }, { s: { set: { n: '${ .n }' } } } ]
";
const PATIENT: &str = "document: { dsl: 1.0.3, namespace: test, name: patient, version: 1.0.0 }
do: [ { l: { listen: { to: { one: { with: { type: go } } } } } } ]
";
const BROKEN: &str = "document: { dsl: 1.0.3, namespace: test, name: broken, version: 1.0.0 }
do: [ { r: { raise: { error: { type: 'https://test/broken', status: 500, title: Broken } } } } ]
";

async fn serve(home: &Path) -> Engine {
    Engine::start(home, &["serve", "--config", "windlass.toml", "-o", "json"]).await
}

/// Starts one under a key of its own; answers its id and whether it was there before.
async fn start(engine: &Engine, name: &str, key: &str) -> (String, bool) {
    let body = json!({ "definition": { "namespace": "test", "name": name }, "input": { "n": 1 } });
    let request = engine.request("POST", "/instances").header("Idempotency-Key", key).json(&body);
    let answer = request.send().await.unwrap();
    assert!(answer.status().is_success(), "{name} {key}: {}", answer.status());
    let replayed = answer.headers().contains_key("Idempotency-Replayed");
    (answer.json::<Value>().await.unwrap()["id"].as_str().unwrap().to_owned(), replayed)
}

/// Starts one, waits for its end, then until it is gone, which must not be too soon.
async fn comes_and_goes(engine: &Engine, key: &str) -> (String, String) {
    let (id, _) = start(engine, "quick", key).await;
    let mut ended: Option<Time> = None;
    let mut pace = tokio::time::interval(POLL);
    let going = async {
        loop {
            pace.tick().await;
            let answer = engine.request("GET", &format!("/instances/{id}")).send().await.unwrap();
            if answer.status() == 404 {
                return SystemClock.now();
            }
            let shown = answer.json::<Value>().await.unwrap();
            ended = shown["ended_at"].as_str().map(|text| Time::parse_rfc3339(text).unwrap());
        }
    };
    let gone = timeout(PATIENCE, going).await.expect("what has ended goes");
    if let Some(ended) = ended {
        assert!(gone >= ended.after(KEPT), "{id} ended at {ended:?} and was gone at {gone:?}");
    }
    (key.to_owned(), id)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_what_has_ended_goes_and_not_before_its_time() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("windlass.toml"), CONFIG).unwrap();
    let mut engine = serve(home.path()).await;
    engine.key = engine.line["platform_key"].as_str().unwrap().to_owned();
    engine.cli(&["tenant", "create", "acme"]).await.ok();
    let create = ["key", "create", "--tenant", "acme", "--name", "a", "--role", "admin", "-o", "json"];
    engine.key = engine.cli(&create).await.json()["secret"].as_str().unwrap().to_owned();
    for document in [QUICK, PATIENT, BROKEN] {
        engine.deploy(document).await;
    }
    let (mut open, mut faulted, mut purged) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        for n in 0..5 {
            open.push(start(&engine, "patient", &format!("patient-{round}-{n}")).await.0);
            faulted.push(start(&engine, "broken", &format!("broken-{round}-{n}")).await.0);
        }
        let key = |n: usize| format!("quick-{round}-{n}");
        let all = stream::iter(0..PER_ROUND).map(|n| {
            let engine = &engine;
            async move { comes_and_goes(engine, &key(n)).await }
        });
        purged.extend(all.buffer_unordered(PER_ROUND).collect::<Vec<_>>().await);
        // In the middle of whatever it does.
        let own = engine.key.clone();
        engine.kill().await;
        engine = serve(home.path()).await;
        engine.key = own;
    }
    assert_eq!(purged.len(), ROUNDS * PER_ROUND);
    for (key, id) in purged.iter().step_by(7) {
        assert_eq!(start(&engine, "quick", key).await, (id.clone(), true), "the key outlives the instance");
    }
    for id in &faulted {
        assert_eq!(engine.result(id).await["status"], "faulted");
    }
    for id in &open {
        let path = format!("/instances/{id}/signals/go");
        let answer = engine.request("POST", &path).json(&json!(7)).send().await.unwrap();
        assert_eq!(answer.status(), 202);
        assert_eq!(engine.result(id).await["output"], json!([7]));
    }
}
