//! P24: the tables may be one version ahead of a program that runs on them, while it runs and when it starts: a node of this
//! version goes on while the next version's tables are made, another one starts on them, and nothing is lost. Tables that
//! have moved too far are refused, with what to do. Two programs side by side are `cargo xtask chaos --other`.

use crate::engine::{Engine, Said, binary, said};
use serde_json::{Value, json};
use std::path::Path;

const INSTANCES: usize = 40;

const DOCUMENT: &str = "
document: { dsl: 1.0.3, namespace: test, name: walk, version: 1.0.0 }
do:
  - first: { wait: { milliseconds: 300 } }
  - hear: { listen: { to: { one: { with: { type: go } } } } }
  - emit: { emit: { event: { with: { type: heard, source: 'https://example.com/walk' } } } }
  - last: { set: { n: '${ $workflow.input.n }' } }
";

/// What a version to come would do to every table that there is, and a table of its own. Nodes of this version do not know
/// it.
const EXPAND: &str = "DO $$ DECLARE name text; BEGIN
    FOR name IN SELECT relname FROM pg_class WHERE relkind IN ('r', 'p') AND NOT relispartition
        AND relnamespace = 'public'::regnamespace AND relname <> 'schema_migrations'
    LOOP
        EXECUTE format('ALTER TABLE %I ADD COLUMN of_the_next text, ADD COLUMN with_default bigint NOT NULL DEFAULT 0', name);
        EXECUTE format('CREATE INDEX ON %I (of_the_next)', name);
    END LOOP;
END $$;
CREATE TABLE next_things (tenant text NOT NULL, id uuid NOT NULL, PRIMARY KEY (tenant, id));";

/// Notes the migration; `oldest` is the lowest schema that a program must know to work with it.
fn note(oldest: &str) -> String {
    format!(
        "INSERT INTO schema_migrations (version, name, sha256, oldest)
         SELECT max(version) + 1, 'next', '\\x00', {oldest} FROM schema_migrations"
    )
}

struct Place {
    home: tempfile::TempDir,
    database: scratch::Database,
}

impl Place {
    /// `None`, said loudly, without PostgreSQL.
    async fn new() -> Option<Place> {
        let place = Place { home: tempfile::tempdir().unwrap(), database: scratch::database()? };
        place.migrate().await.ok();
        let config = "[server]\nlisten = '127.0.0.1:0'\n[runtime]\nlease_seconds = 3\n";
        std::fs::write(place.home.path().join("windlass.toml"), config).unwrap();
        Some(place)
    }

    async fn migrate(&self) -> Said {
        let mut migrate = binary(self.home());
        let database = &self.database;
        migrate.args(["migrate", "--store", &database.owner_url, "--app-role", database.application]);
        said(migrate).await
    }

    fn home(&self) -> &Path {
        self.home.path()
    }

    fn args(&self) -> [&str; 7] {
        ["serve", "--config", "windlass.toml", "--store", &self.database.url, "-o", "json"]
    }

    async fn node(&self) -> Engine {
        Engine::start(self.home(), &self.args()).await
    }
}

async fn begin(node: &Engine, numbers: std::ops::Range<usize>) -> Vec<String> {
    let mut ids = Vec::new();
    for n in numbers {
        ids.push(node.start_instance("walk", json!({ "n": n })).await);
    }
    ids
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_work_and_start_on_tables_that_are_one_version_ahead() {
    let Some(place) = Place::new().await else { return };
    let mut first = place.node().await;
    first.key = first.line["platform_key"].as_str().expect("a platform key").to_owned();
    first.cli(&["tenant", "create", "acme"]).await.ok();
    let make = ["key", "create", "--tenant", "acme", "--name", "admin", "--role", "admin", "-o", "json"];
    first.key = first.cli(&make).await.json()["secret"].as_str().unwrap().to_owned();
    first.deploy(DOCUMENT).await;
    let mut ids = begin(&first, 0..INSTANCES).await;
    // Step 2 of the upgrade, under load, as the owner.
    let database = &place.database;
    let owner = "SET ROLE windlass_owner; SET windlass.tenants = '*';";
    let expand = format!("{owner} {EXPAND} {}", note("max(oldest)"));
    // As `windlass migrate` does: a node in the way of so many locks at once may be the one that goes on.
    while let Err(err) = database.ask(&expand) {
        assert!(err.to_string().contains("deadlock detected"), "{err}");
    }
    ids.extend(begin(&first, INSTANCES..2 * INSTANCES).await);
    // A program of this version that starts now, as after a crash, or on the way back.
    let mut second = place.node().await;
    second.key = first.key.clone();
    ids.extend(begin(&second, 2 * INSTANCES..3 * INSTANCES).await);
    assert!(place.migrate().await.ok().contains("nothing to do"), "there is nothing that it could make");
    first.kill().await;
    for id in &ids {
        second.until(&format!("/instances/{id}"), |view| view["waiting"]["kind"] == "event").await;
    }
    let go = json!({ "specversion": "1.0", "id": "1", "source": "test", "type": "go", "data": {} });
    let published = second.request("POST", "/events").json(&go).send().await.unwrap();
    assert_eq!(published.status(), 202);
    for (n, id) in ids.iter().enumerate() {
        let result = second.result(id).await;
        assert_eq!((&result["status"], &result["output"]), (&json!("completed"), &json!({ "n": n })), "{id}");
    }
    let heard = second.until("/events?type=heard&limit=200", |page| count(page) == ids.len()).await;
    assert_eq!(count(&heard), 3 * INSTANCES, "one of each");
    // One that has moved too far is refused by whoever starts; who runs already goes on.
    database.ask(&format!("{owner} {}", note("max(version) + 1"))).unwrap();
    let mut refused = binary(place.home());
    refused.args(place.args());
    let refused = said(refused).await;
    assert_eq!(refused.code, Some(1), "{}", refused.stderr);
    assert!(refused.stderr.contains("use the newer program"), "{}", refused.stderr);
    let id = begin(&second, 0..1).await.remove(0);
    second.until(&format!("/instances/{id}"), |view| view["status"] == "waiting").await;
    let (status, _) = second.terminate().await;
    assert!(status.success());
}

fn count(page: &Value) -> usize {
    page["items"].as_array().map_or(0, Vec::len)
}

/// Tables that are older than the program needs.
#[tokio::test]
async fn tables_of_the_version_before_are_refused_with_what_to_do() {
    let Some(place) = Place::new().await else { return };
    let last = "DELETE FROM schema_migrations WHERE version = (SELECT max(version) FROM schema_migrations)";
    place.database.ask(last).unwrap();
    let mut refused = binary(place.home());
    refused.args(place.args());
    let refused = said(refused).await;
    assert_eq!(refused.code, Some(1), "{}", refused.stderr);
    assert!(refused.stderr.contains("windlass migrate"), "{}", refused.stderr);
}
