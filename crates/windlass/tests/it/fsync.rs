//! A disk that does not keep what it was given: `fsync` fails (F16). Whoever has it in a file must not try again, since the
//! kernel may have dropped the pages: the commit is not acknowledged, the process ends, and what it had acknowledged
//! before is there when it starts again. PostgreSQL does the same by itself: the nodes wait until it is back.

use crate::{
    engine::{Engine, PATIENCE, POLL},
    nodes::Cluster,
};
use serde_json::{Value, json};
use std::{path::Path, process::Stdio};
use tokio::{
    process::{Child, Command},
    time::timeout,
};

const DOCUMENT: &str = "document: { dsl: '1.0.3', namespace: test, name: rests, version: '1.0.0' }
do: [ { rest: { wait: { hours: 1 } } } ]";

/// From now on every sync of these processes fails, not of those that come after them. `None`, said loudly, where that
/// cannot be done.
#[allow(clippy::print_stderr, reason = "skipping must be seen")]
async fn fail_syncs(pids: &[u32], said: &Path) -> Option<Child> {
    let Some(strace) = scratch::strace() else {
        eprintln!("SKIPPED fsync: strace is not installed; `cargo xtask test` installs it");
        return None;
    };
    let mut command = Command::new(strace);
    // A process with threads is looked into with all of them.
    if let [alone] = pids {
        command.args(["-f", "-p", &alone.to_string()]);
    } else {
        command.args(pids.iter().map(|pid| format!("--attach={pid}")));
    }
    command.args(["-e", "trace=fsync,fdatasync"]);
    command.args(["-e", "inject=fsync,fdatasync:error=EIO", "-o", "/dev/null"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(std::fs::File::create(said).unwrap());
    let mut child = command.kill_on_drop(true).spawn().unwrap();
    let attached = async {
        let mut pace = tokio::time::interval(POLL);
        loop {
            pace.tick().await;
            let text = std::fs::read_to_string(said).unwrap();
            // One that has ended meanwhile is said not to be there.
            let told = |words: &str| text.lines().filter(|line| line.contains(words)).count();
            if told("attached") > 0 && told("attached") + told("ptrace(") >= pids.len() {
                return true;
            }
            if child.try_wait().unwrap().is_some() {
                eprintln!("SKIPPED fsync: looking into another process is not allowed here: {text}");
                return false;
            }
        }
    };
    timeout(PATIENCE, attached).await.expect("strace attaches or ends").then_some(child)
}

async fn start(engine: &Engine) -> Result<(u16, Value), reqwest::Error> {
    let definition = json!({ "namespace": "test", "name": "rests", "version": "1.0.0" });
    let answer =
        engine.request("POST", "/instances").json(&json!({ "definition": definition })).send().await?;
    Ok((answer.status().as_u16(), answer.json().await?))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_sync_ends_the_process_and_loses_nothing() {
    let home = tempfile::tempdir().unwrap();
    let engine = Engine::up(home.path()).await;
    engine.deploy(DOCUMENT).await;
    let (status, kept) = start(&engine).await.unwrap();
    assert_eq!(status, 201, "{kept}");
    let Some(_strace) = fail_syncs(&[engine.id()], &home.path().join("strace.log")).await else { return };
    // Neither this one nor any that comes after it is acknowledged.
    while let Ok((status, answer)) = start(&engine).await {
        assert!(status >= 500, "a commit that is not durable was acknowledged: {answer}");
    }
    let status = engine.ended().await;
    assert!(status.code().is_some_and(|code| code != 0), "it ends by itself and says so: {status}");
    let engine = Engine::up(home.path()).await;
    let kept = kept["id"].as_str().unwrap();
    assert_eq!(engine.get(&format!("/instances/{kept}")).await["status"], "waiting");
    assert_eq!(start(&engine).await.unwrap().0, 201, "it goes on with a disk that works");
    engine.terminate().await;
}

/// The id, if the start was acknowledged.
async fn acknowledged(node: &Engine) -> Option<String> {
    let (status, answer) = start(node).await.unwrap();
    assert!([201, 429, 503, 504].contains(&status), "{status}: {answer}");
    (status == 201).then(|| answer["id"].as_str().unwrap().to_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_sync_of_postgres_loses_nothing_that_was_acknowledged() {
    if scratch::programs().is_none() {
        return;
    }
    let mut server = scratch::Server::start(scratch::Durability::Default).unwrap();
    let cluster = Cluster::over(server.database().unwrap(), None).await;
    cluster.nodes[0].deploy(DOCUMENT).await;
    let mut kept = vec![acknowledged(&cluster.nodes[0]).await.expect("all is well yet")];
    let folder = tempfile::tempdir().unwrap();
    let attached = fail_syncs(&server.children().unwrap(), &folder.path().join("strace.log")).await;
    let Some(_strace) = attached else { return };
    let said = server.log().unwrap();
    let recovers = async {
        let mut pace = tokio::time::interval(POLL);
        for node in cluster.nodes.iter().cycle() {
            pace.tick().await;
            kept.extend(acknowledged(node).await);
            let said = std::fs::read_to_string(&said).unwrap();
            // Its own recovery, after it began to take connections for the first time.
            if said.contains("PANIC") && said.matches("ready to accept connections").count() > 1 {
                return;
            }
        }
    };
    timeout(PATIENCE, recovers).await.expect("it panics and recovers");
    let goes_on = async {
        let mut pace = tokio::time::interval(POLL);
        for node in &cluster.nodes {
            while acknowledged(node).await.is_none() {
                pace.tick().await;
            }
        }
    };
    timeout(PATIENCE, goes_on).await.expect("both nodes go on");
    for id in &kept {
        let found = cluster.nodes[1].get(&format!("/instances/{id}")).await;
        assert_eq!(found["status"], "waiting", "{id} was acknowledged");
    }
}
