//! `windlass up`: its one line, what it keeps, how it stops.

use crate::engine::{Engine, binary, members, said};
use std::os::unix::fs::PermissionsExt;

#[tokio::test]
async fn one_line_then_a_graceful_stop_then_the_same_again() {
    let home = tempfile::tempdir().unwrap();
    let engine = Engine::up(home.path()).await;
    assert_eq!(members(&engine.line), ["console", "key", "tenant", "url"]);
    assert_eq!(engine.line["tenant"], "demo");
    let data = home.path().join("windlass-data");
    let mode = std::fs::metadata(data.join("demo-key")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    for file in ["windlass.db", "windlass.db-wal"] {
        let mode = std::fs::metadata(data.join(file)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{file}");
    }
    let before = engine.get("/instances").await["items"].as_array().unwrap().len();
    assert_eq!(before, 3, "one instance of each example");
    let waiting = |tasks: &serde_json::Value| tasks["items"].as_array().unwrap().len() == 1;
    engine.until("/tasks", waiting).await;
    let key = engine.key.clone();
    let (status, rest) = engine.terminate().await;
    assert_eq!(status.code(), Some(0));
    assert_eq!(rest, "", "exactly one line on stdout");
    assert!(!data.join("demo-url").exists(), "nobody answers there any more");

    let engine = Engine::up(home.path()).await;
    assert_eq!(engine.key, key, "a restart keeps the key");
    assert_eq!(engine.get("/instances").await["items"].as_array().unwrap().len(), before);
}

#[tokio::test]
async fn client_verbs_find_the_engine_beside_them() {
    let home = tempfile::tempdir().unwrap();
    let _engine = Engine::up(home.path()).await;
    let mut command = binary(home.path());
    command.args(["instance", "list"]);
    let listed = said(command).await.ok();
    assert_eq!(listed.lines().count(), 3, "{listed}");
    assert!(listed.lines().all(|line| line.split('\t').count() == 6), "{listed}");
}

#[tokio::test]
async fn a_second_process_on_the_same_data_is_a_conflict() {
    let home = tempfile::tempdir().unwrap();
    let engine = Engine::up(home.path()).await;
    let mut command = binary(home.path());
    command.args(["up", "--port", "0"]);
    let second = said(command).await;
    assert_eq!(second.code, Some(5), "{}", second.stderr);
    assert!(second.stderr.contains("in use by process"), "{}", second.stderr);
    assert_eq!(second.stdout, "");

    let port = engine.url.rsplit(':').next().unwrap();
    let mut command = binary(home.path());
    command.args(["up", "--ephemeral", "--port", port]);
    let second = said(command).await;
    assert_eq!(second.code, Some(5), "{}", second.stderr);
    assert!(second.stderr.contains("cannot listen"), "{}", second.stderr);
}

#[tokio::test]
async fn an_ephemeral_engine_leaves_nothing() {
    let home = tempfile::tempdir().unwrap();
    let engine = Engine::start(home.path(), &["up", "--ephemeral", "--port", "0", "-o", "json"]).await;
    assert_eq!(engine.get("/instances").await["items"].as_array().unwrap().len(), 3);
    let (status, _) = engine.terminate().await;
    assert_eq!(status.code(), Some(0));
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0);
}
