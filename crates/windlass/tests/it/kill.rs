//! `kill -9` at random moments of 1,000 instances, three times: nothing acknowledged is lost, nothing is done twice.
//!
//! A moment is a number of starts or ends drawn at random, so that every run kills in the middle of other work.

use crate::engine::{Engine, PATIENCE, POLL};
use futures_util::{StreamExt, stream};
use runtime::clock::{Dice, Entropy};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::{Arc, Mutex},
};
use tokio::{sync::watch, time::timeout};

const INSTANCES: usize = 1000;
const REQUESTS_AT_ONCE: usize = 32;

const DOCUMENT: &str = "
document: { dsl: 1.0.3, namespace: test, name: several-steps, version: 1.0.0 }
do:
  - one: { call: 'echo:1.0.0@default', with: { n: '${ .n }' } }
  - two: { call: 'echo:1.0.0@default', with: { n: '${ .n }' } }
  - pause: { wait: { milliseconds: 300 } }
  - three: { call: 'echo:1.0.0@default', with: { n: '${ .n }' } }
  - four: { call: 'flaky:1.0.0@default', with: { n: '${ .n }' } }
  - last: { set: { n: '${ $workflow.input.n }' } }
";

/// What the test knows: which start was acknowledged with which instance.
#[derive(Default)]
struct Acknowledged {
    ids: Mutex<BTreeMap<usize, String>>,
    count: watch::Sender<usize>,
}

impl Acknowledged {
    fn note(&self, n: usize, id: &str) {
        let mut ids = self.ids.lock().unwrap();
        let earlier = ids.insert(n, id.to_owned());
        assert!(earlier.is_none_or(|earlier| earlier == id), "start {n} was acknowledged as two instances");
        self.count.send_replace(ids.len());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_and_nothing_is_done_twice() {
    kills(None).await;
}

/// The same where the engine keeps everything in PostgreSQL: what a killed node owned is taken over when its lease ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_in_a_database_either() {
    let Some(database) = scratch::database() else { return };
    kills(Some(&database.owner_url)).await;
}

/// `up` on the data in `home`, or on a database.
async fn up(home: &Path, store: Option<&str>) -> Engine {
    match store {
        None => Engine::up(home).await,
        Some(url) => Engine::start(home, &["up", "--port", "0", "-o", "json", "--store", url]).await,
    }
}

async fn kills(store: Option<&str>) {
    let home = tempfile::tempdir().unwrap();
    let dice = Dice::from_os();
    let between = |low: f64, high: f64| ((low + (high - low) * dice.unit()) * INSTANCES as f64) as usize;
    let first = up(home.path(), store).await;
    first.deploy(DOCUMENT).await;
    let (live, engines) = watch::channel(Some(Arc::new(first)));
    let known = Arc::new(Acknowledged::default());
    let starting = tokio::spawn(start_all(engines, known.clone()));

    let moments = [between(0.05, 0.45), between(0.55, 0.95)];
    for moment in moments {
        let mut count = known.count.subscribe();
        timeout(PATIENCE, count.wait_for(|count| *count >= moment)).await.expect("starts go on").unwrap();
        restart(&live, home.path(), store).await;
    }
    timeout(PATIENCE, starting).await.expect("all starts are acknowledged").unwrap();
    let moment = between(0.05, 0.8);
    let engine = live.borrow().clone().unwrap();
    until_ended(&engine, moment).await;
    drop(engine);
    restart(&live, home.path(), store).await;

    let engine = live.borrow().clone().unwrap();
    let ids = known.ids.lock().unwrap().clone();
    let context = format!("killed after {moments:?} starts and {moment} ends");
    assert_eq!(ids.len(), INSTANCES, "{context}");
    let checks = stream::iter(&ids).map(|(n, id)| check(&engine, *n, id, &context));
    checks.buffer_unordered(REQUESTS_AT_ONCE).collect::<Vec<()>>().await;
    let stored = all_ids(&engine).await;
    let acknowledged: BTreeSet<String> = ids.into_values().collect();
    assert_eq!(stored, acknowledged, "one instance per start, repeated or not; {context}");
}

/// The same for a stop that was asked for in the middle of the work.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_graceful_stop_loses_nothing_either() {
    let home = tempfile::tempdir().unwrap();
    let engine = Engine::up(home.path()).await;
    engine.deploy(DOCUMENT).await;
    let start = ["instance", "start", "several-steps", "--input", r#"{"n":7}"#, "--count", "300", "-o", "id"];
    let ids = engine.cli(&start).await.ok();
    let (status, _) = engine.terminate().await;
    assert_eq!(status.code(), Some(0));
    let engine = Engine::up(home.path()).await;
    let checks = stream::iter(ids.lines()).map(|id| check(&engine, 7, id, "stopped gracefully"));
    let checked = checks.buffer_unordered(REQUESTS_AT_ONCE).collect::<Vec<()>>().await;
    assert_eq!(checked.len(), 300);
}

/// Starts every instance, asking again with the same idempotency key until it is acknowledged.
async fn start_all(engines: watch::Receiver<Option<Arc<Engine>>>, known: Arc<Acknowledged>) {
    let start = |n: usize| {
        let (mut engines, known) = (engines.clone(), known.clone());
        async move {
            loop {
                let live = engines.wait_for(Option::is_some).await.unwrap().clone().unwrap();
                let request =
                    live.request("POST", "/instances").header("Idempotency-Key", format!("start-{n}"));
                let definition = json!({ "namespace": "test", "name": "several-steps", "version": "1.0.0" });
                let sent =
                    request.json(&json!({ "definition": definition, "input": { "n": n } })).send().await;
                let Ok(answer) = sent else { continue };
                if answer.status() != 201 {
                    let status = answer.status();
                    assert!(
                        status == 429 || status == 503,
                        "{status}: {}",
                        answer.text().await.unwrap_or_default()
                    );
                    continue;
                }
                // A body cut off by the kill is no acknowledgement.
                let Ok(body) = answer.json::<Value>().await else { continue };
                return known.note(n, body["id"].as_str().unwrap());
            }
        }
    };
    stream::iter(0..INSTANCES).map(start).buffer_unordered(REQUESTS_AT_ONCE).collect::<Vec<()>>().await;
}

/// Kills the live engine without warning and starts another on the same data.
async fn restart(live: &watch::Sender<Option<Arc<Engine>>>, home: &Path, store: Option<&str>) {
    let engine = live.send_replace(None).unwrap();
    engine.kill().await;
    live.send_replace(Some(Arc::new(up(home, store).await)));
}

/// Waits until at least `count` instances have ended.
async fn until_ended(engine: &Engine, count: usize) {
    let looking = async {
        let mut pace = tokio::time::interval(POLL);
        loop {
            pace.tick().await;
            let mut ended = 0;
            let mut cursor = String::new();
            loop {
                let path = format!(
                    "/instances?status=completed&name=several-steps&namespace=test&limit=200{cursor}"
                );
                let page = engine.get(&path).await;
                ended += page["items"].as_array().unwrap().len();
                match page["next"].as_str() {
                    Some(next) => cursor = format!("&cursor={next}"),
                    None => break,
                }
            }
            if ended >= count {
                return;
            }
        }
    };
    timeout(PATIENCE, looking).await.expect("instances end");
}

/// The instance completed with its own output; its history is whole and no step ended twice.
async fn check(engine: &Engine, n: usize, id: &str, context: &str) {
    let result = engine.result(id).await;
    assert_eq!(result["status"], "completed", "{id}: {result}; {context}");
    assert_eq!(result["output"], json!({ "n": n }), "{id}; {context}");
    let history = engine.get(&format!("/instances/{id}/history?limit=200")).await;
    assert!(history["next"].is_null(), "{id}: one page");
    let items = history["items"].as_array().unwrap();
    let versions: BTreeSet<i64> = items.iter().map(|item| item["version"].as_i64().unwrap()).collect();
    let expected: BTreeSet<i64> = (1..=versions.len() as i64).collect();
    assert_eq!(versions, expected, "{id}: versions without gap; {context}");
    let mut completed = BTreeMap::<&str, usize>::new();
    for item in items.iter().filter(|item| item["kind"] == "step.completed") {
        *completed.entry(item["step"].as_str().unwrap()).or_default() += 1;
    }
    assert_eq!(completed.len(), 6, "{id}: every step once: {completed:?}; {context}");
    assert!(completed.values().all(|count| *count == 1), "{id}: a step twice: {completed:?}; {context}");
    let ends = items.iter().filter(|item| item["kind"] == "workflow.completed").count();
    assert_eq!(ends, 1, "{id}; {context}");
}

async fn all_ids(engine: &Engine) -> BTreeSet<String> {
    let mut ids = BTreeSet::new();
    let mut cursor = String::new();
    loop {
        let page =
            engine.get(&format!("/instances?name=several-steps&namespace=test&limit=200{cursor}")).await;
        ids.extend(
            page["items"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap().to_owned()),
        );
        match page["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return ids,
        }
    }
}
