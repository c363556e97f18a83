//! F25, W5: twenty thousand items fail for good, the engine is killed in the middle, and every failure is recorded once.

use crate::engine::{Engine, PATIENCE, POLL};
use serde_json::{Value, json};
use tokio::time::timeout;

const ITEMS: u64 = 20_000;
const CHILD: &str = "
document: { dsl: 1.0.3, namespace: test, name: declined, version: 1.0.0 }
do: [ { pay: { call: 'charge-payment:1.0.0@default', with: { amount: '${ .amount }' } } } ]
";
const ALL: &str = "
document: { dsl: 1.0.3, namespace: test, name: all-of-them, version: 1.0.0 }
do:
  - each:
      call: 'map:1.0.0@default'
      with:
        items: '${ .items }'
        concurrency: 1000
        batchSize: 100
        onError: collect
        workflow: { namespace: test, name: declined, version: 1.0.0 }
";

/// How many failures of the worker are recorded, over all groups.
async fn recorded(engine: &Engine) -> u64 {
    let groups = engine.get("/errors?worker=charge-payment").await;
    groups["items"].as_array().unwrap().iter().map(|group| group["count"].as_u64().unwrap()).sum()
}

async fn until_recorded(engine: &Engine, enough: u64) -> u64 {
    let mut pace = tokio::time::interval(POLL);
    loop {
        match recorded(engine).await {
            count if count >= enough => return count,
            _ => pace.tick().await,
        };
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_in_the_middle_of_a_storm_of_failures_loses_none_and_counts_none_twice() {
    let home = tempfile::tempdir().unwrap();
    let engine = Engine::up(home.path()).await;
    engine.deploy(CHILD).await;
    engine.deploy(ALL).await;
    let lines = "{\"amount\":0}\n".repeat(ITEMS as usize);
    let upload = engine.request("POST", "/datasets").header("content-type", "application/x-ndjson");
    let dataset: Value = upload.body(lines).send().await.unwrap().json().await.unwrap();
    let id = engine.start_instance("all-of-them", json!({ "items": dataset["id"] })).await;
    let killed_at =
        timeout(PATIENCE, until_recorded(&engine, ITEMS / 4)).await.expect("failures are recorded");
    engine.kill().await;
    assert!(killed_at < ITEMS, "the kill came too late: everything was recorded");
    let engine = Engine::up(home.path()).await;
    assert!(recorded(&engine).await >= killed_at, "what was recorded stays");
    let result = engine.result(&id).await;
    assert_eq!(result["output"]["failed"], json!(ITEMS), "{result}");
    assert_eq!(recorded(&engine).await, ITEMS, "killed after {killed_at}");
}
