//! Two nodes on one database that wake each other over Redis or NATS. A wait on one ends as soon as the instance has ended
//! on the other; with the server gone everything still happens, and each node says so once (B32).

use crate::engine::{Engine, PATIENCE, POLL, binary, said};
use scratch::{Database, Kind};
use serde_json::json;
use std::{
    path::{Path, PathBuf},
    time::Duration,
};
use tempfile::TempDir;
use tokio::time::timeout;

/// Shorter than a request is held: what comes by then was not found by looking again at its end.
const TOLD_MAX: Duration = Duration::from_secs(45);

const DOCUMENT: &str = "
document: { dsl: 1.0.3, namespace: test, name: waits, version: 1.0.0 }
do:
  - hear: { listen: { to: { one: { with: { type: go } } } } }
";

struct Node {
    engine: Engine,
    log: PathBuf,
}

impl Node {
    /// Trusts the root in `root.pem`, if there is such a file.
    async fn start(home: &Path, name: &str, store: &str, hints: &str) -> Node {
        let log = home.join(format!("{name}.log"));
        let mut command = binary(home);
        command.args([
            "serve",
            "--config",
            "windlass.toml",
            "--store",
            store,
            "--hints",
            hints,
            "-o",
            "json",
        ]);
        if home.join("root.pem").exists() {
            command.env("SSL_CERT_FILE", home.join("root.pem")).env_remove("SSL_CERT_DIR");
        }
        command.stderr(std::fs::File::create(&log).unwrap());
        Node { engine: Engine::launch(home, command).await, log }
    }

    /// How often it has said this in its log.
    fn says(&self, text: &str) -> usize {
        std::fs::read_to_string(&self.log).unwrap().matches(text).count()
    }

    async fn until_says(&self, text: &str, times: usize) {
        let looking = async {
            let mut pace = tokio::time::interval(POLL);
            while self.says(text) < times {
                pace.tick().await;
            }
        };
        timeout(PATIENCE, looking).await.unwrap_or_else(|_| panic!("it does not say {text:?}"));
        assert_eq!(self.says(text), times, "{text:?} is said once for each time");
    }
}

/// Ends an instance on `from` while `to` is asked for its result.
async fn told(from: &Engine, to: &Engine) {
    let id = from.start_instance("waits", json!({})).await;
    let held = to.request("GET", &format!("/instances/{id}/result")).header("Prefer", "wait=60").send();
    let ending = async {
        // The request is held by then, on all but the slowest machines; on those this proves less.
        let mut pace = tokio::time::interval(POLL * 20);
        pace.tick().await;
        pace.tick().await;
        go(from, &id).await;
    };
    let answer = timeout(TOLD_MAX, async { tokio::join!(held, ending).0 }).await.expect("its end is told");
    assert_eq!(answer.unwrap().status(), 200);
}

async fn go(engine: &Engine, id: &str) {
    let answer =
        engine.request("POST", &format!("/instances/{id}/signals/go")).json(&1).send().await.unwrap();
    assert_eq!(answer.status(), 202);
}

/// The same when nobody is told: whoever asks again finds it.
async fn found(from: &Engine, to: &Engine) {
    let id = from.start_instance("waits", json!({})).await;
    go(from, &id).await;
    to.until(&format!("/instances/{id}"), |view| view["status"] == "completed").await;
}

const LOST: &str = "hints to other nodes are interrupted";
const BACK: &str = "hints to other nodes are back";

struct Pair {
    a: Node,
    b: Node,
    home: TempDir,
    database: Database,
}

impl Pair {
    /// Two nodes that have told each other something.
    async fn new(home: TempDir, database: Database, hints: &str) -> Pair {
        let mut migrate = binary(home.path());
        migrate.args(["migrate", "--store", &database.owner_url, "--app-role", database.application]);
        said(migrate).await.ok();
        std::fs::write(home.path().join("windlass.toml"), "[server]\nlisten = '127.0.0.1:0'\n").unwrap();
        let mut a = Node::start(home.path(), "a", &database.url, hints).await;
        a.engine.key = a.engine.line["platform_key"].as_str().expect("a platform key").to_owned();
        a.engine.cli(&["tenant", "create", "acme"]).await.ok();
        let make = ["key", "create", "--tenant", "acme", "--name", "admin", "--role", "admin", "-o", "json"];
        a.engine.key = a.engine.cli(&make).await.json()["secret"].as_str().unwrap().to_owned();
        let mut b = Node::start(home.path(), "b", &database.url, hints).await;
        b.engine.key.clone_from(&a.engine.key);
        a.engine.deploy(DOCUMENT).await;
        told(&a.engine, &b.engine).await;
        told(&b.engine, &a.engine).await;
        assert_eq!((a.says(LOST), b.says(LOST)), (0, 0));
        Pair { a, b, home, database }
    }
}

async fn nodes_wake_each_other(kind: Kind) {
    let (Some(mut broker), Some(database)) = (scratch::broker(kind), scratch::database()) else { return };
    let home = tempfile::tempdir().unwrap();
    let Pair { a, b, home, database } = Pair::new(home, database, &broker.url()).await;
    broker.kill();
    for node in [&a, &b] {
        node.until_says(LOST, 1).await;
    }
    found(&a.engine, &b.engine).await;
    found(&b.engine, &a.engine).await;
    // A node that starts meanwhile starts, and says what it misses.
    let mut c = Node::start(home.path(), "c", &database.url, &broker.url()).await;
    c.engine.key.clone_from(&a.engine.key);
    c.until_says(LOST, 1).await;
    found(&c.engine, &a.engine).await;

    broker.resume().unwrap();
    for node in [&a, &b, &c] {
        node.until_says(BACK, 1).await;
    }
    told(&a.engine, &b.engine).await;
    told(&b.engine, &c.engine).await;
    told(&c.engine, &a.engine).await;
    assert_eq!((a.says(LOST), b.says(LOST), c.says(LOST)), (1, 1, 1), "once per outage");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_wake_each_other_over_redis() {
    nodes_wake_each_other(Kind::Redis).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_wake_each_other_over_nats() {
    nodes_wake_each_other(Kind::Nats).await;
}

/// The same once more with a server that proves itself, to nodes that trust its root.
async fn nodes_wake_each_other_over_tls(kind: Kind) {
    let home = tempfile::tempdir().unwrap();
    let file = |name: &str, text: String| {
        let path = home.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let key = || rcgen::KeyPair::generate().unwrap();
    let mut root = rcgen::CertificateParams::new(vec![]).unwrap();
    root.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let (root_key, own_key) = (key(), key());
    file("root.pem", root.self_signed(&root_key).unwrap().pem());
    let own = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let own = own.signed_by(&own_key, &rcgen::Issuer::new(root, root_key)).unwrap();
    let (certificate, key) = (file("own.pem", own.pem()), file("own.key", own_key.serialize_pem()));
    let Some(broker) = scratch::broker_over_tls(kind, scratch::Tls { certificate, key }) else { return };
    let Some(database) = scratch::database() else { return };
    Pair::new(home, database, &broker.url()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_wake_each_other_over_redis_with_tls() {
    nodes_wake_each_other_over_tls(Kind::Redis).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_wake_each_other_over_nats_with_tls() {
    nodes_wake_each_other_over_tls(Kind::Nats).await;
}

#[tokio::test]
async fn hints_that_nobody_can_carry_are_refused_by_name() {
    let home = tempfile::tempdir().unwrap();
    let cases = [
        (["--store", "postgres://db/w", "--hints", "kafka://k:secret@k"], "Kafka carries no hints"),
        (["--store", "postgres://db/w", "--hints", "redis"], "hints.url: it is no URL"),
        (["--store", "", "--hints", "redis://r:6379"], "hints.url: a file is one node's"),
    ];
    for (flags, expected) in cases {
        let mut command = binary(home.path());
        command.arg("serve").args(flags);
        let said = said(command).await;
        assert_eq!(said.code, Some(2), "{}", said.stderr);
        assert!(said.stderr.contains(expected) && !said.stderr.contains("secret"), "{}", said.stderr);
    }
}
