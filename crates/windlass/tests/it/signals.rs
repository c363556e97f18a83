//! P3: every signal that was acknowledged is in its instance's history, used or unmatched, whatever it raced with.

use crate::engine::Engine;
use futures_util::future::join_all;
use serde_json::Value;

const DOCUMENT: &str = "
document: { dsl: 1.0.3, namespace: test, name: hear, version: 1.0.0 }
do:
  - hear: { listen: { to: { one: { with: { type: go } } } } }
";

/// The ids of the signals that were acknowledged; those that came after the end are refused.
async fn send(engine: &Engine, instance: &str, count: usize) -> Vec<String> {
    let sent = join_all((0..count).map(|n| {
        let request = engine.request("POST", &format!("/instances/{instance}/signals/go"));
        request.json(&n).send()
    }));
    let mut ids = Vec::new();
    for answer in sent.await {
        let answer = answer.unwrap();
        match answer.status().as_u16() {
            202 => ids.push(answer.json::<Value>().await.unwrap()["id"].as_str().unwrap().to_owned()),
            status => assert_eq!(status, 409),
        }
    }
    ids.sort();
    ids
}

/// The ids of all signals that history has as used or unmatched, sorted.
fn told(history: &Value) -> Vec<String> {
    let ends = ["signal.received", "signal.unmatched"];
    let items = history["items"].as_array().unwrap().iter();
    let told = items.filter(|item| ends.contains(&item["kind"].as_str().unwrap()));
    let mut ids: Vec<String> =
        told.map(|item| item["detail"]["signal"].as_str().unwrap().to_owned()).collect();
    ids.sort();
    ids
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_acknowledged_signal_is_in_history() {
    let home = tempfile::tempdir().unwrap();
    let engine = Engine::up(home.path()).await;
    engine.deploy(DOCUMENT).await;
    let mut raced = 0;
    for round in 0..30 {
        let instance = engine.start_instance("hear", Value::Null).await;
        let cancel = async {
            if round % 3 == 0 {
                let path = format!("/instances/{instance}/cancel");
                engine.request("POST", &path).send().await.unwrap();
            }
        };
        let (sent, ()) = tokio::join!(send(&engine, &instance, 4), cancel);
        engine.result(&instance).await;
        let path = format!("/instances/{instance}/history?limit=200");
        let history = engine.until(&path, |history| told(history).len() >= sent.len()).await;
        assert_eq!(told(&history), sent);
        raced += sent.len().saturating_sub(1);
    }
    assert!(raced > 0, "no signal came in time to lose a race");
}
