//! `windlass admin`: a backup of a running engine, the loss of its database, and its way back.

use crate::engine::{Engine, Said, binary, said};
use std::path::Path;

const PATIENT: &str = "document: { dsl: 1.0.3, namespace: test, name: patient, version: 1.0.0 }
do: [ { l: { listen: { to: { one: { with: { type: go } } } } } } ]
";

async fn run(home: &Path, args: &[&str]) -> Said {
    let mut command = binary(home);
    command.args(args);
    said(command).await
}

#[tokio::test]
async fn a_lost_database_is_noticed_and_comes_back_from_a_backup() {
    let home = tempfile::tempdir().unwrap();
    let engine = Engine::up(home.path()).await;
    engine.deploy(PATIENT).await;
    let id = engine.start_instance("patient", serde_json::json!({})).await;
    let backed_up = run(home.path(), &["admin", "backup", "--to", "copy.db", "-o", "json"]).await.json();
    assert_eq!(backed_up["file"], "copy.db");
    assert_eq!(backed_up["bytes"], std::fs::metadata(home.path().join("copy.db")).unwrap().len());
    let again = run(home.path(), &["admin", "backup", "--to", "copy.db"]).await;
    assert_eq!(again.code, Some(5), "{}", again.stderr);
    let in_use = run(home.path(), &["admin", "restore", "--from", "copy.db"]).await;
    assert_eq!(in_use.code, Some(5), "{}", in_use.stderr);
    engine.terminate().await;

    std::fs::remove_file(home.path().join("windlass-data/windlass.db")).unwrap();
    let lost = run(home.path(), &["up", "--port", "0"]).await;
    assert_eq!(lost.code, Some(1));
    assert!(lost.stderr.contains("but there was a database: bring it back from a backup"), "{}", lost.stderr);
    run(home.path(), &["admin", "restore", "--from", "copy.db"]).await.ok();
    let engine = Engine::up(home.path()).await;
    engine.cli(&["instance", "signal", &id, "go", "--data", "1"]).await.ok();
    assert_eq!(engine.result(&id).await["output"], serde_json::json!([1]));
}

#[tokio::test]
async fn what_is_not_there_is_said() {
    let home = tempfile::tempdir().unwrap();
    for args in [&["admin", "backup", "--to", "x.db"][..], &["admin", "restore", "--from", "x.db"]] {
        let told = run(home.path(), args).await;
        assert_eq!(told.code, Some(3), "{args:?}: {}", told.stderr);
    }
    std::fs::write(home.path().join("x.db"), "not a database").unwrap();
    let told = run(home.path(), &["admin", "restore", "--from", "x.db"]).await;
    assert_eq!(told.code, Some(1), "{}", told.stderr);
}
