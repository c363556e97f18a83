//! Two nodes on one PostgreSQL database: one is killed, or stopped for longer than its lease. The other carries on what it
//! had; nothing is lost, no step ends twice, every effect keeps its key, and who comes back too late changes nothing (P5,
//! P7). The nodes connect as a role that owns nothing.

use crate::{
    engine::{Engine, PATIENCE, POLL, binary, said},
    hosts::{self, Answer, Request},
};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::{Arc, Mutex},
};
use tokio::{sync::watch, time::timeout};

const INSTANCES: usize = 60;
const LEASE_SECONDS: &str = "3";
const HOST: &str = "sink.example";

const DOCUMENT: &str = "
document: { dsl: 1.0.3, namespace: test, name: effects, version: 1.0.0 }
do:
  - one: { call: http, with: { method: post, endpoint: 'https://sink.example/one', body: { n: '${ $workflow.input.n }' } } }
  - pause: { wait: { milliseconds: 200 } }
  - two: { call: http, with: { method: post, endpoint: 'https://sink.example/two', body: { n: '${ $workflow.input.n }' } } }
  - last: { set: { n: '${ $workflow.input.n }' } }
";

/// What the outside saw: the keys under which each step of each instance reached it.
#[derive(Default)]
struct Sink {
    keys: Mutex<BTreeMap<(String, u64), BTreeSet<String>>>,
    requests: watch::Sender<usize>,
}

impl Sink {
    fn take(&self, request: &Request) -> Answer {
        let body: Value = serde_json::from_str(&request.body).unwrap_or_default();
        let of = (request.path.clone(), body["n"].as_u64().unwrap_or(u64::MAX));
        let key = request.header("idempotency-key").to_owned();
        self.keys.lock().unwrap().entry(of).or_default().insert(key);
        self.requests.send_modify(|count| *count += 1);
        let header = "content-type: application/json".to_owned();
        Answer { status: "200 OK".to_owned(), header, body: "{}".to_owned() }
    }

    async fn until(&self, count: usize) {
        let mut requests = self.requests.subscribe();
        timeout(PATIENCE, requests.wait_for(|seen| *seen >= count)).await.expect("effects happen").unwrap();
    }
}

pub(crate) struct Cluster {
    pub(crate) nodes: Vec<Engine>,
    sink: Arc<Sink>,
    home: tempfile::TempDir,
    pub(crate) database: scratch::Database,
}

/// A clock that is wrong: where the library is, and how.
#[derive(Clone, Copy)]
pub(crate) enum Wrong<'a> {
    /// An hour ahead. Lengths of time stay what they are.
    Ahead(&'a Path),
    /// A tenth too fast, by whatever is measured.
    Fast(&'a Path),
}

/// A node that nobody is told of but by its address, with a log of its own.
async fn serve(home: &Path, url: &str, flags: &[String], (log, wrong): (&str, Option<Wrong<'_>>)) -> Engine {
    let mut command = binary(home);
    command.args(["serve", "--config", "windlass.toml", "--store", url, "-o", "json"]).args(flags);
    command.stderr(std::fs::File::create(home.join(log)).unwrap());
    match wrong {
        Some(Wrong::Ahead(library)) => {
            command.env("LD_PRELOAD", library).env("FAKETIME", "+1h");
            command.env("FAKETIME_DONT_FAKE_MONOTONIC", "1").env("DONT_FAKE_MONOTONIC", "1");
        }
        Some(Wrong::Fast(library)) => drop(command.env("LD_PRELOAD", library).env("FAKETIME", "+0 x1.1")),
        None => {}
    }
    Engine::launch(home, command).await
}

const LOGS: [&str; 2] = ["first.log", "second.log"];

impl Cluster {
    /// `None`, said loudly, without PostgreSQL.
    async fn new() -> Option<Cluster> {
        Cluster::with(None).await
    }

    /// The same with a clock of the second node that is wrong.
    async fn with(wrong: Option<Wrong<'_>>) -> Option<Cluster> {
        Some(Cluster::over(scratch::database()?, wrong).await)
    }

    /// Two nodes on a database that is there.
    pub(crate) async fn over(database: scratch::Database, wrong: Option<Wrong<'_>>) -> Cluster {
        let home = tempfile::tempdir().unwrap();
        let mut migrate = binary(home.path());
        migrate.args(["migrate", "--store", &database.owner_url, "--app-role", database.application]);
        said(migrate).await.ok();
        let config =
            format!("[server]\nlisten = '127.0.0.1:0'\n[runtime]\nlease_seconds = {LEASE_SECONDS}\n");
        std::fs::write(home.path().join("windlass.toml"), config).unwrap();
        let sink = Arc::<Sink>::default();
        let taking = sink.clone();
        let answer: hosts::Answering = Arc::new(move |request: &Request| taking.take(request));
        let flags = hosts::flags(home.path(), &[HOST.to_owned()], answer).await;
        let mut first = serve(home.path(), &database.url, &flags, (LOGS[0], None)).await;
        first.key = first.line["platform_key"].as_str().expect("a platform key").to_owned();
        first.cli(&["tenant", "create", "acme"]).await.ok();
        let make = ["key", "create", "--tenant", "acme", "--name", "admin", "--role", "admin", "-o", "json"];
        let key = first.cli(&make).await.json()["secret"].as_str().unwrap().to_owned();
        let mut second = serve(home.path(), &database.url, &flags, (LOGS[1], wrong)).await;
        (first.key, second.key) = (key.clone(), key);
        first.deploy(DOCUMENT).await;
        Cluster { nodes: vec![first, second], sink, home, database }
    }

    /// What the nodes have written into their logs.
    pub(crate) fn logs(&self) -> [String; 2] {
        LOGS.map(|log| std::fs::read_to_string(self.home.path().join(log)).unwrap())
    }

    /// Starts on both nodes in turn.
    pub(crate) async fn start(&self) -> Vec<String> {
        let mut ids = Vec::new();
        for n in 0..INSTANCES {
            ids.push(self.nodes[n % 2].start_instance("effects", json!({ "n": n })).await);
        }
        ids
    }

    /// Waits until so many nodes are as the condition says, by the database's clock.
    async fn until_nodes_are(&self, condition: &str, count: &str) {
        let sql = format!("SELECT count(*) FROM wf_host_locks WHERE kind = 'node' AND {condition}");
        let looking = async {
            let mut pace = tokio::time::interval(POLL);
            while self.database.ask(&sql).unwrap() != count {
                pace.tick().await;
            }
        };
        timeout(PATIENCE, looking).await.unwrap_or_else(|_| panic!("{count} nodes are never {condition}"));
    }

    /// Every instance completed on the node that is left, whole and once.
    pub(crate) async fn check(&self, ids: &[String]) {
        let node = &self.nodes[1];
        for (n, id) in ids.iter().enumerate() {
            let result = node.result(id).await;
            assert_eq!(
                (&result["status"], &result["output"]),
                (&json!("completed"), &json!({ "n": n })),
                "{id}"
            );
            let history = node.get(&format!("/instances/{id}/history?limit=200")).await;
            let items = history["items"].as_array().unwrap();
            let versions: BTreeSet<i64> =
                items.iter().map(|item| item["version"].as_i64().unwrap()).collect();
            assert_eq!(versions, (1..=versions.len() as i64).collect(), "{id}: versions without gap");
            let ended = |item: &&Value| item["kind"] == "step.completed";
            let steps: Vec<&str> =
                items.iter().filter(ended).filter_map(|item| item["step"].as_str()).collect();
            let distinct: BTreeSet<&str> = steps.iter().copied().collect();
            assert_eq!((steps.len(), distinct.len()), (4, 4), "{id}: every step once: {steps:?}");
        }
        let keys = self.sink.keys.lock().unwrap();
        assert_eq!(keys.len(), 2 * INSTANCES, "every effect reached the outside");
        assert!(keys.values().all(|keys| keys.len() == 1), "under one key each: {keys:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_killed_node_had_is_done_by_the_other() {
    let Some(cluster) = Cluster::new().await else { return };
    let ids = cluster.start().await;
    cluster.sink.until(INSTANCES / 4).await;
    cluster.nodes[0].kill().await;
    cluster.check(&ids).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_was_stopped_beyond_its_lease_changes_nothing_and_goes_on_as_a_new_one() {
    let Some(mut cluster) = Cluster::new().await else { return };
    let ids = cluster.start().await;
    cluster.sink.until(INSTANCES / 4).await;
    cluster.nodes[0].stop();
    cluster.check(&ids).await;
    cluster.until_nodes_are("fenced", "1").await;
    let zombie = cluster.nodes.remove(0);
    zombie.go_on();
    // The process lives: it joins as another node, and does its work again.
    cluster.until_nodes_are("NOT fenced", "2").await;
    cluster.nodes[0].kill().await;
    let id = zombie.start_instance("effects", json!({ "n": INSTANCES })).await;
    assert_eq!(zombie.result(&id).await["status"], "completed");
    let node = &zombie;
    for id in &ids {
        assert_eq!(node.result(id).await["status"], "completed", "{id}");
    }
    let kept = cluster.sink.keys.lock().unwrap();
    assert!(kept.values().all(|keys| keys.len() == 1), "{kept:?}");
}

const LONG: &str = "
document: { dsl: 1.0.3, namespace: test, name: long, version: 1.0.0 }
do: [ { rest: { wait: { minutes: 30 } } } ]
";

/// F19: only the database's clock counts, for leases, timers, keys and everything that is written down.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[allow(clippy::print_stderr, reason = "skipping must be seen")]
async fn a_node_whose_clock_is_an_hour_ahead_does_everything_in_its_time() {
    let Some(library) = scratch::faketime() else {
        return eprintln!("SKIPPED: libfaketime is not installed; `cargo xtask test` installs it");
    };
    let Some(cluster) = Cluster::with(Some(Wrong::Ahead(&library))).await else { return };
    let [straight, ahead] = cluster.nodes.as_slice() else { panic!("two nodes") };
    let holds = |condition: &str| cluster.database.ask(&format!("SELECT {condition}")).unwrap();
    let answer = ahead.request("GET", "/instances").send().await.unwrap();
    let date = answer.headers()["date"].to_str().unwrap();
    assert_eq!(holds(&format!("'{date}'::timestamptz > now() + interval '55 minutes'")), "t", "{date}");

    straight.deploy(LONG).await;
    let long =
        [straight.start_instance("long", json!({})).await, ahead.start_instance("long", json!({})).await];
    let expires_at =
        holds("to_char(now() AT TIME ZONE 'UTC' + interval '30 minutes', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')");
    let body = json!({ "name": "short", "roles": ["viewer"], "expires_at": expires_at });
    let key: Value =
        straight.request("POST", "/keys").json(&body).send().await.unwrap().json().await.unwrap();
    let key = key["secret"].as_str().expect("a key");
    for node in [straight, ahead] {
        let answer = node.request_as(key, "GET", "/instances").send().await.unwrap();
        assert_eq!(answer.status(), 200, "a key that has half an hour left is good");
    }

    let ids = cluster.start().await;
    cluster.check(&ids).await;
    for id in &long {
        assert_eq!(ahead.get(&format!("/instances/{id}")).await["status"], "waiting", "{id}");
    }
    const NOW: &str = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint";
    let due = format!("count(*) FROM wf_schedule_q WHERE due_at - {NOW} BETWEEN 0 AND 1800000000");
    assert_eq!(holds(&due), "2", "half an hour from when they began");
    let future = format!(
        "(SELECT count(*) FROM wf_instances WHERE greatest(created_at, updated_at) > {NOW})
         + (SELECT count(*) FROM wf_history WHERE at > {NOW})"
    );
    assert_eq!(holds(&future), "0", "nothing happened in the future");
    assert_eq!(
        holds("count(*) FROM wf_host_locks WHERE kind = 'node' AND fenced"),
        "0",
        "nobody was taken over"
    );
}

const SHORT: &str = "
document: { dsl: 1.0.3, namespace: test, name: short, version: 1.0.0 }
do: [ { rest: { wait: { seconds: 4 } } } ]
";

/// F19: what drifts is put right with every renewal of the lease, long before it could count as a jump.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[allow(clippy::print_stderr, reason = "skipping must be seen")]
#[allow(clippy::disallowed_methods, reason = "how long a wait takes is measured by the clock of the test")]
async fn a_node_whose_clock_is_a_tenth_too_fast_does_everything_once_and_waits_nearly_as_long_as_it_should() {
    let Some(library) = scratch::faketime() else {
        return eprintln!("SKIPPED: libfaketime is not installed; `cargo xtask test` installs it");
    };
    let Some(cluster) = Cluster::with(Some(Wrong::Fast(&library))).await else { return };
    let fast = &cluster.nodes[1];
    fast.deploy(SHORT).await;
    let began = std::time::Instant::now();
    let id = fast.start_instance("short", json!({})).await;
    let ids = cluster.start().await;
    cluster.check(&ids).await;
    assert_eq!(fast.result(&id).await["status"], "completed");
    assert!(began.elapsed().as_millis() >= 3_600, "{:?}", began.elapsed());
    let fenced = cluster.database.ask("SELECT count(*) FROM wf_host_locks WHERE kind = 'node' AND fenced");
    assert_eq!(fenced.unwrap(), "0", "nobody was taken over");
}
