//! A disk that does not keep what it was given: `fsync` fails (F16). Whoever has it in a file must not try again, since the
//! kernel may have dropped the pages: the commit is not acknowledged, the process ends, and what it had acknowledged
//! before is there when it starts again.

use crate::engine::{Engine, PATIENCE, POLL};
use serde_json::{Value, json};
use std::{path::Path, process::Stdio};
use tokio::{
    process::{Child, Command},
    time::timeout,
};

const DOCUMENT: &str = "document: { dsl: '1.0.3', namespace: test, name: rests, version: '1.0.0' }
do: [ { rest: { wait: { hours: 1 } } } ]";

/// From now on every sync of that process fails. `None`, said loudly, where that cannot be done.
#[allow(clippy::print_stderr, reason = "skipping must be seen")]
async fn fail_syncs(pid: u32, said: &Path) -> Option<Child> {
    let Some(strace) = scratch::strace() else {
        eprintln!("SKIPPED fsync: strace is not installed; `cargo xtask test` installs it");
        return None;
    };
    let mut command = Command::new(strace);
    command.args(["-f", "-p", &pid.to_string(), "-e", "trace=fsync,fdatasync"]);
    command.args(["-e", "inject=fsync,fdatasync:error=EIO", "-o", "/dev/null"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(std::fs::File::create(said).unwrap());
    let mut child = command.kill_on_drop(true).spawn().unwrap();
    let attached = async {
        let mut pace = tokio::time::interval(POLL);
        loop {
            pace.tick().await;
            let text = std::fs::read_to_string(said).unwrap();
            if text.contains("attached") {
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
    let Some(_strace) = fail_syncs(engine.id(), &home.path().join("strace.log")).await else { return };
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
