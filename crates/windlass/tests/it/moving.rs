//! `windlass admin move`: tenants go from a file to a database and back. It is killed when one step is left, is called again, and
//! everything goes on where it was.

use crate::engine::{Engine, PATIENCE, POLL, binary, said};
use scratch::Database;
use serde_json::json;
use std::{path::Path, process::Stdio};
use tokio::{
    process::{Child, Command},
    time::timeout,
};

const PATIENT: &str = "document: { dsl: 1.0.3, namespace: test, name: patient, version: 1.0.0 }
do: [ { l: { listen: { to: { one: { with: { type: go } } } } } } ]
";
const INSTANCES: usize = 40;

fn admin_move(home: &Path, args: &[&str]) -> Command {
    let mut command = binary(home);
    command.args(["admin", "move", "-o", "json"]).args(args);
    command
}

/// Nobody's own row can be written there while this lives; it can be read.
async fn held(database: &Database) -> Child {
    let psql = scratch::programs().unwrap().join("psql");
    let sql = "BEGIN; LOCK TABLE tenants IN EXCLUSIVE MODE; SELECT pg_sleep(3600)";
    let mut command = Command::new(psql);
    command.args(["-XAtqw", "-c", sql, &database.admin_url]).kill_on_drop(true);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let child = command.spawn().unwrap();
    let granted = "SELECT count(*) FROM pg_locks WHERE granted AND mode = 'ExclusiveLock' AND relation = 'tenants'::regclass";
    until(database, granted, "1").await;
    child
}

async fn until(database: &Database, sql: &str, wanted: &str) {
    let looking = async {
        let mut pace = tokio::time::interval(POLL);
        while database.ask(sql).unwrap() != wanted {
            pace.tick().await;
        }
    };
    timeout(PATIENCE, looking).await.unwrap_or_else(|_| panic!("never {wanted}: {sql}"));
}

/// Ends one of the instances that wait.
async fn ends(engine: &Engine, id: &str) {
    engine.cli(&["instance", "signal", id, "go", "--data", "1"]).await.ok();
    assert_eq!(engine.result(id).await["output"], json!([1]), "{id}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tenants_move_to_a_database_and_back_though_it_is_killed() {
    let Some(database) = scratch::database() else { return };
    let home = tempfile::tempdir().unwrap();
    let engine = Engine::up(home.path()).await;
    engine.deploy(PATIENT).await;
    let count = INSTANCES.to_string();
    let ids = engine.cli(&["instance", "start", "patient", "--count", &count, "-o", "id"]).await.ok();
    let ids: Vec<&str> = ids.lines().collect();
    let refused = said(admin_move(home.path(), &["--to", &database.owner_url])).await;
    assert_ne!(refused.code, Some(0), "an engine is at work, and there are no tables: {}", refused.stdout);
    engine.terminate().await;
    let mut migrate = binary(home.path());
    migrate.args(["migrate", "--store", &database.owner_url]);
    said(migrate).await.ok();

    // All rows are there but the tenant's own: to nodes it is not there yet.
    let held = held(&database).await;
    let mut moving = admin_move(home.path(), &["--to", &database.owner_url]);
    let mut moving = moving.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let waits = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'tenants'::regclass";
    until(&database, waits, "1").await;
    moving.kill().await.unwrap();
    assert_eq!(database.ask("SELECT count(*) FROM tenants").unwrap(), "0");
    let there: usize = database.ask("SELECT count(*) FROM wf_instances").unwrap().parse().unwrap();
    assert!(there >= INSTANCES, "{there} instances are copied");
    // Its end alone would not end what the server does for it.
    let end = "SELECT count(pg_terminate_backend(pid)) FROM pg_locks
        WHERE granted AND mode = 'ExclusiveLock' AND relation = 'tenants'::regclass";
    assert_eq!(database.ask(end).unwrap(), "1");
    drop(held);

    let moved = said(admin_move(home.path(), &["--to", &database.owner_url])).await.ok();
    let moved: Vec<serde_json::Value> =
        moved.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let demo = moved.iter().find(|one| one["tenant"] == "demo").expect("the tenant of `up`");
    assert!(demo["instances"].as_u64().unwrap() as usize >= INSTANCES, "{demo}");
    let again = said(admin_move(home.path(), &["--to", &database.owner_url])).await.ok();
    assert_eq!(again, "", "there is nobody left to move");

    let args = ["up", "--port", "0", "-o", "json", "--store", &database.owner_url];
    let engine = Engine::start(home.path(), &args).await;
    ends(&engine, ids[0]).await;
    engine.terminate().await;

    let back = ["--from", &database.owner_url, "--to", "back"];
    let came = said(admin_move(home.path(), &back)).await.json();
    assert_eq!(came["tenant"], "demo");
    std::fs::copy(home.path().join("windlass-data/demo-key"), home.path().join("back/demo-key")).unwrap();
    let engine = Engine::start(home.path(), &["up", "--port", "0", "-o", "json", "--data", "back"]).await;
    for id in &ids[1..] {
        ends(&engine, id).await;
    }
    assert_eq!(engine.result(ids[0]).await["output"], json!([1]), "what ended there is here as well");
    engine.terminate().await;
}
