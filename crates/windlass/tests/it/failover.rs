//! The database is lost for good and its synchronous standby takes its place, while clients start instances on nodes that
//! know both by one address: nothing that was acknowledged is lost, no key has two instances, and the nodes go on by
//! themselves (F7).

use crate::engine::{Engine, PATIENCE, POLL, binary, said};
use futures_util::{StreamExt, stream};
use scratch::{Database, Durability, STANDBY, Server};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};
use tokio::{sync::watch, time::timeout};

const CLIENTS: usize = 8;
/// Starts that are acknowledged before the database is lost, and again after.
const STARTS: usize = 100;

const DOCUMENT: &str = "
document: { dsl: 1.0.3, namespace: test, name: rests, version: 1.0.0 }
do:
  - rest: { wait: { milliseconds: 500 } }
  - last: { set: { n: '${ $workflow.input.n }' } }
";

/// Clients that start one instance after the other, on either node, each again with the same key until it is acknowledged.
struct Clients {
    nodes: [Engine; 2],
    next: AtomicUsize,
    is_over: AtomicBool,
    /// Ids by the number that is the key.
    acknowledged: Mutex<BTreeMap<usize, String>>,
    count: watch::Sender<usize>,
}

impl Clients {
    async fn live(self: Arc<Clients>) {
        let mut pace = tokio::time::interval(POLL);
        while !self.is_over.load(Ordering::Relaxed) {
            let n = self.next.fetch_add(1, Ordering::Relaxed);
            for node in self.nodes.iter().cycle() {
                pace.tick().await;
                if let Some(id) = start(node, n).await {
                    let mut known = self.acknowledged.lock().unwrap();
                    known.insert(n, id);
                    self.count.send_replace(known.len());
                    break;
                }
            }
        }
    }

    async fn until(&self, count: usize) {
        let mut counts = self.count.subscribe();
        timeout(PATIENCE, counts.wait_for(|seen| *seen >= count)).await.expect("starts go on").unwrap();
    }
}

/// The id, if the start was acknowledged.
async fn start(node: &Engine, n: usize) -> Option<String> {
    let definition = json!({ "namespace": "test", "name": "rests", "version": "1.0.0" });
    let request = node.request("POST", "/instances").header("Idempotency-Key", format!("start-{n}"));
    let answer = request.json(&json!({ "definition": definition, "input": { "n": n } })).send().await.ok()?;
    let status = answer.status();
    let body: Value = answer.json().await.ok()?;
    assert!([201, 429, 503, 504].contains(&status.as_u16()), "{status}: {body}");
    (status == 201).then(|| body["id"].as_str().unwrap().to_owned())
}

/// A database with a standby that every commit waits for.
async fn replicated() -> (Server, Server, Database) {
    let primary = Server::start(Durability::Default).unwrap();
    let standby = primary.standby().unwrap();
    let database = primary.database().unwrap();
    // After the copy was made: once it is promoted there is nobody for it to wait for.
    database.ask(&format!("ALTER SYSTEM SET synchronous_standby_names = '{STANDBY}'")).unwrap();
    database.ask("SELECT pg_reload_conf()").unwrap();
    let follows = async {
        let mut pace = tokio::time::interval(POLL);
        while database.ask("SELECT sync_state FROM pg_stat_replication").unwrap() != "sync" {
            pace.tick().await;
        }
    };
    timeout(PATIENCE, follows).await.expect("the standby follows");
    (primary, standby, database)
}

/// Two nodes that know the database and its standby by one address.
async fn nodes(home: &std::path::Path, database: &Database, ports: [u16; 2]) -> [Engine; 2] {
    let mut migrate = binary(home);
    migrate.args(["migrate", "--store", &database.owner_url, "--app-role", database.application]);
    said(migrate).await.ok();
    let config =
        "[server]\nlisten = '127.0.0.1:0'\nwrite_timeout_seconds = 5\n[runtime]\nlease_seconds = 3\n";
    std::fs::write(home.join("windlass.toml"), config).unwrap();
    let [one, other] = ports;
    let places = (format!("127.0.0.1:{one}/"), format!("127.0.0.1:{one},127.0.0.1:{other}/"));
    let url = format!("{}?target_session_attrs=read-write", database.url.replace(&places.0, &places.1));
    assert!(url.contains(&places.1), "{url}");
    let args = ["serve", "--config", "windlass.toml", "--store", &url, "-o", "json"];
    let mut first = Engine::start(home, &args).await;
    first.key = first.line["platform_key"].as_str().expect("a platform key").to_owned();
    first.cli(&["tenant", "create", "acme"]).await.ok();
    let make = ["key", "create", "--tenant", "acme", "--name", "admin", "--role", "admin", "-o", "json"];
    first.key = first.cli(&make).await.json()["secret"].as_str().unwrap().to_owned();
    let mut second = Engine::start(home, &args).await;
    second.key.clone_from(&first.key);
    first.deploy(DOCUMENT).await;
    [first, second]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_acknowledged_survives_the_loss_of_the_database() {
    if scratch::programs().is_none() {
        drop(scratch::database());
        return;
    }
    let (mut primary, standby, database) = replicated().await;
    let home = tempfile::tempdir().unwrap();
    let nodes = nodes(home.path(), &database, [primary.port(), standby.port()]).await;
    let (next, is_over, acknowledged, count) = Default::default();
    let clients = Arc::new(Clients { nodes, next, is_over, acknowledged, count });
    let mut lives = tokio::task::JoinSet::new();
    for _ in 0..CLIENTS {
        lives.spawn(clients.clone().live());
    }
    clients.until(STARTS).await;
    primary.kill().unwrap();
    standby.promote().unwrap();
    let before = *clients.count.borrow();
    clients.until(before + STARTS).await;
    clients.is_over.store(true, Ordering::Relaxed);
    timeout(PATIENCE, lives.join_all()).await.expect("every start is acknowledged in the end");

    let known = clients.acknowledged.lock().unwrap().clone();
    assert_eq!(known.len(), clients.next.load(Ordering::Relaxed), "every key was acknowledged");
    let checks = stream::iter(&known).map(async |(n, id)| {
        let [one, other] = &clients.nodes;
        let result = if n % 2 == 0 { one } else { other }.result(id).await;
        assert_eq!((&result["status"], &result["output"]["n"]), (&json!("completed"), &json!(n)), "{id}");
        assert_eq!(start(one, *n).await.as_ref(), Some(id), "the same key is the same instance");
    });
    checks.buffer_unordered(CLIENTS).collect::<Vec<()>>().await;
    let mut listed = 0;
    let mut cursor = String::new();
    loop {
        let page = clients.nodes[0].get(&format!("/instances?name=rests&limit=200{cursor}")).await;
        listed += page["items"].as_array().unwrap().len();
        match page["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(listed, known.len(), "one instance per key");
}
