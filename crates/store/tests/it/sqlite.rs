//! The SQLite file: its schema, who may open it, and what a damaged one is answered with.

use crate::fixture::*;
use machine::Time;
use rusqlite::Connection;
use sha2::{Digest, Sha256};
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};
use store::{sqlite::Sqlite, *};

pub(crate) struct Place {
    pub(crate) dir: tempfile::TempDir,
}

impl Place {
    pub(crate) fn new() -> Place {
        Place { dir: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.dir.path().join("windlass.db")
    }

    /// A store that was used and closed.
    pub(crate) async fn used() -> Place {
        let place = Place::new();
        let store = Sqlite::open(place.path()).unwrap();
        store.join(node(1), Time(0), LEASE_MS).await.unwrap();
        let batch = (1..=300).map(|n| commit(vec![create(n), history(n, 1)])).collect();
        store.commit(node(1), batch).await.unwrap();
        let owned = Write::Call(call(1, 0, Some(node(1))));
        store.commit(node(1), vec![commit(vec![owned])]).await.unwrap();
        place
    }
}

fn refused(path: &Path) -> Error {
    match Sqlite::open(path) {
        Ok(_) => panic!("{} was opened", path.display()),
        Err(err) => err,
    }
}

#[tokio::test]
async fn reopening_keeps_what_was_committed() {
    let place = Place::used().await;
    assert!(!place.dir.path().join("windlass.db-wal").exists(), "a clean stop leaves no WAL");
    let store = Sqlite::open(place.path()).unwrap();
    assert_eq!(store.counts(None).await.unwrap().instances, [("running".to_owned(), 300)]);
    // The node of the earlier process is gone, its work is backlog.
    assert_eq!(store.commit(node(1), vec![]).await, Err(Error::Fenced));
    store.join(node(2), Time(0), LEASE_MS).await.unwrap();
    assert_eq!(store.claim_calls(node(2), Time(0), 9, &[]).await.unwrap().len(), 1);
}

#[tokio::test]
async fn an_unclean_stop_loses_nothing() {
    let place = Place::new();
    let store = Sqlite::open(place.path()).unwrap();
    store.join(node(1), Time(0), LEASE_MS).await.unwrap();
    store.commit(node(1), vec![commit(vec![create(1)])]).await.unwrap();
    // What is on the disk at this moment is what a killed process leaves.
    let copy = Place::new();
    for suffix in ["", "-wal"] {
        let name = format!("windlass.db{suffix}");
        fs::copy(place.dir.path().join(&name), copy.dir.path().join(&name)).unwrap();
    }
    let recovered = Sqlite::open(copy.path()).unwrap();
    assert!(recovered.load(&acme(), id(1)).await.unwrap().is_some());
}

#[tokio::test]
async fn a_second_process_is_refused() {
    let place = Place::new();
    let first = Sqlite::open(place.path()).unwrap();
    let err = refused(&place.path());
    let text = err.to_string();
    assert!(matches!(err, Error::InUse(_)), "{err:?}");
    assert!(text.contains("in use by process") && text.contains(&std::process::id().to_string()), "{text}");
    drop(first);
    Sqlite::open(place.path()).unwrap();
}

#[tokio::test]
async fn a_file_that_is_no_database_is_refused() {
    let place = Place::new();
    fs::write(
        place.path(),
        b"this is not a database, and longer than a header of one hundred bytes. ".repeat(99),
    )
    .unwrap();
    assert!(matches!(refused(&place.path()), Error::Corrupt(_)));
}

#[tokio::test]
async fn a_truncated_file_is_refused() {
    for keep in [0, 100, 4_096, 3 * 4_096 + 17] {
        let place = Place::used().await;
        let bytes = fs::read(place.path()).unwrap();
        fs::write(place.path(), &bytes[..keep]).unwrap();
        assert!(matches!(refused(&place.path()), Error::Corrupt(_)), "{keep} bytes kept");
    }
}

/// An engine that begins anew without a word has lost everything without a word.
#[tokio::test]
async fn a_lost_file_is_not_taken_for_a_new_one() {
    let place = Place::used().await;
    let bytes = fs::read(place.path()).unwrap();
    fs::remove_file(place.path()).unwrap();
    let text = refused(&place.path()).to_string();
    assert!(text.contains("is missing or empty, but there was a database"), "{text}");
    fs::write(place.path(), bytes).unwrap();
    Sqlite::open(place.path()).unwrap();
}

#[tokio::test]
async fn damage_is_found_after_an_unclean_stop() {
    let place = Place::used().await;
    let mut bytes = fs::read(place.path()).unwrap();
    for page in bytes.chunks_mut(4_096).skip(5) {
        page[..16].fill(0xA5);
    }
    fs::write(place.path(), bytes).unwrap();
    fs::write(place.dir.path().join("windlass.db-wal"), [0; 32]).unwrap();
    assert!(matches!(refused(&place.path()), Error::Corrupt(_)));
}

#[tokio::test]
async fn the_file_of_another_program_is_refused() {
    let place = Place::new();
    Connection::open(place.path()).unwrap().execute_batch("CREATE TABLE theirs (id)").unwrap();
    let text = refused(&place.path()).to_string();
    assert!(text.contains("another program"), "{text}");
}

#[tokio::test]
async fn a_newer_schema_is_refused() {
    let place = Place::used().await;
    Connection::open(place.path()).unwrap().pragma_update(None, "user_version", 99).unwrap();
    let text = refused(&place.path()).to_string();
    assert!(text.contains("schema 99") && text.contains("newer program"), "{text}");
}

fn names(connection: &Connection, sql: &str) -> BTreeSet<String> {
    let mut statement = connection.prepare(sql).unwrap();
    let rows = statement.query_map([], |row| row.get(0)).unwrap();
    rows.map(|row| row.unwrap()).collect()
}

#[tokio::test]
async fn the_named_tables_and_columns_are_there() {
    let place = Place::used().await;
    let connection = Connection::open(place.path()).unwrap();
    let tables = names(&connection, "SELECT name FROM sqlite_schema WHERE type = 'table'");
    let named = [
        "wf_instances",
        "wf_tasks",
        "wf_task_events",
        "wf_runtime_states",
        "wf_host_locks",
        "wf_signal_q",
        "wf_schedule_q",
        "wf_dlq",
    ];
    for table in named {
        assert!(tables.contains(table), "{table}");
    }
    let columns = names(&connection, "SELECT name FROM pragma_table_info('wf_runtime_states')");
    let added = [
        "state_version",
        "snapshot_schema_version",
        "waiting_kind",
        "waiting_token",
        "waiting_until_utc",
        "active_task_id",
        "resume_pointer_json",
        "last_signal_id",
        "last_error_code",
        "last_error_json",
        "last_executed_by",
        "last_executed_on_utc",
    ];
    let kept = [
        "namespace",
        "name",
        "version",
        "business_key",
        "business_parts",
        "runtime_provider",
        "runtime_instance_id",
        "runtime_status",
        "state_json",
        "created_on_utc",
        "completed_on_utc",
    ];
    for column in added.into_iter().chain(kept) {
        assert!(columns.contains(column), "{column}");
    }
    let keys = "SELECT m.name FROM sqlite_schema m, pragma_table_info(m.name) c
        WHERE m.type = 'table' AND c.pk = 1 AND c.name <> 'tenant'";
    // What comes in an order has that as its key, and a unique index by tenant beside it.
    let not_by_tenant =
        ["deliveries", "deployment_keys", "events", "outbox", "schema_migrations", "wf_host_locks"]
            .map(str::to_owned);
    assert_eq!(names(&connection, keys), BTreeSet::from(not_by_tenant));
}

#[tokio::test]
async fn the_last_signal_and_the_time_of_the_end_stay() {
    let place = Place::new();
    let store = Sqlite::open(place.path()).unwrap();
    store.join(node(1), Time(0), LEASE_MS).await.unwrap();
    let look = || {
        let connection = Connection::open(place.path()).unwrap();
        let columns = "SELECT last_signal_id, completed_on_utc FROM wf_runtime_states";
        connection
            .query_row(columns, [], |row| Ok((row.get::<_, Option<[u8; 16]>>(0)?, row.get(1)?)))
            .unwrap()
    };
    let write = async |write: Write| {
        assert_eq!(store.commit(node(1), vec![commit(vec![write])]).await.unwrap(), [Outcome::Committed]);
    };
    let turn = |version, status: &str, signal| {
        let (runtime_status, last_signal_id) = (status.to_owned(), signal);
        Write::UpdateState(Box::new(rows::StateRow { runtime_status, last_signal_id, ..state(1, version) }))
    };
    let signal = Some(*id(7).as_bytes());
    write(create(1)).await;
    write(turn(2, "Open", Some(id(7)))).await;
    write(turn(3, "Faulted", None)).await;
    assert_eq!(look(), (signal, Some(1_003)));
    write(turn(4, "Faulted", None)).await;
    assert_eq!(look(), (signal, Some(1_003)), "a signal to an ended instance moves nothing");
    write(turn(5, "Open", None)).await;
    assert_eq!(look(), (signal, None));
}

#[tokio::test]
async fn the_schema_is_the_golden_one() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/schema.sqlite.sql");
    let place = Place::used().await;
    let connection = Connection::open(place.path()).unwrap();
    let mut statement = connection
        .prepare("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY tbl_name, type DESC, name")
        .unwrap();
    let rows = statement.query_map([], |row| row.get::<_, String>(0)).unwrap();
    let schema: String = rows.map(|row| row.unwrap() + ";\n\n").collect();
    if std::env::var_os("GOLDEN_REFRESH").is_some() {
        fs::write(&golden, &schema).unwrap();
    }
    let expected = fs::read_to_string(&golden).unwrap_or_default();
    assert!(
        schema == expected,
        "the schema is not the one in {}: if that is meant, run GOLDEN_REFRESH=1 cargo test -p store golden",
        golden.display()
    );
}

/// What the migrations before the feed made of a file.
const BEFORE_THE_FEED: [(&str, &str); 9] = [
    ("V1__core", include_str!("../../migrations/sqlite/V1__core.sql")),
    ("V2__calls_by_tenant", include_str!("../../migrations/sqlite/V2__calls_by_tenant.sql")),
    ("V3__business_parts", include_str!("../../migrations/sqlite/V3__business_parts.sql")),
    ("V4__deployment_keys", include_str!("../../migrations/sqlite/V4__deployment_keys.sql")),
    ("V5__secrets", include_str!("../../migrations/sqlite/V5__secrets.sql")),
    ("V6__schedules_and_events", include_str!("../../migrations/sqlite/V6__schedules_and_events.sql")),
    ("V7__children", include_str!("../../migrations/sqlite/V7__children.sql")),
    ("V8__retention", include_str!("../../migrations/sqlite/V8__retention.sql")),
    ("V9__collections", include_str!("../../migrations/sqlite/V9__collections.sql")),
];

#[tokio::test]
async fn events_of_an_older_file_keep_their_order_in_the_feed() {
    let place = Place::new();
    let connection = Connection::open(place.path()).unwrap();
    let record = "CREATE TABLE schema_migrations (version INTEGER PRIMARY KEY, name TEXT NOT NULL, sha256 BLOB NOT NULL)";
    connection.execute_batch(record).unwrap();
    for (at, (name, sql)) in BEFORE_THE_FEED.iter().enumerate() {
        connection.execute_batch(sql).unwrap();
        let note = "INSERT INTO schema_migrations (version, name, sha256) VALUES (?1, ?2, ?3)";
        let hash = Sha256::digest(sql).to_vec();
        connection.execute(note, rusqlite::params![at as i64 + 1, name, hash]).unwrap();
    }
    connection.pragma_update(None, "application_id", 0x5749_4E44).unwrap();
    connection.pragma_update(None, "user_version", 9).unwrap();
    for number in [2, 1] {
        let insert = "INSERT INTO events (tenant, id, source, event_id, event_type, received_at, expires_at, told, taken,
            started, collected, event) VALUES ('acme', ?1, 's', ?2, 't', 1, 5, 1, 0, 0, 3, x'7b7d')";
        connection.execute(insert, (id(number).as_bytes(), format!("e{number}"))).unwrap();
    }
    drop(connection);
    let store = Sqlite::open(place.path()).unwrap();
    let items = store.feed(&acme(), feed::FeedCursor::default(), 10).await.unwrap().unwrap();
    let shown: Vec<_> = items.iter().map(|item| (item.row.id, item.row.told, item.row.collected)).collect();
    assert_eq!(shown, [(id(2), 1, 3), (id(1), 1, 3)]);
    assert_eq!(store.event_of(&acme(), "s", "e1").await.unwrap().unwrap().id, id(1));
}

#[tokio::test]
async fn nothing_is_changed_in_the_audit_trail_by_hand() {
    let place = Place::new();
    let store = Sqlite::open(place.path()).unwrap();
    store.join(node(1), Time(0), LEASE_MS).await.unwrap();
    let entries = [audit_entry(&acme(), 1), audit_entry(&acme(), 2)];
    let writes = entries.iter().map(|entry| Write::Audit(Box::new(entry.clone()))).collect();
    assert_eq!(store.commit(node(1), vec![commit(writes)]).await.unwrap(), [Outcome::Committed]);
    let seal = sealed_after((0, machine::audit::BEGINNING), &entries[..1]);
    assert!(store.audit().seal(&acme(), &seal).await.unwrap());
    drop(store);
    let connection = Connection::open(place.path()).unwrap();
    for sql in AGAINST_THE_TRAIL {
        let refused = connection.execute(sql, []).unwrap_err().to_string();
        assert!(refused.contains("append-only"), "{sql}: {refused}");
    }
}

/// What a sealed entry, one that is not, and a checkpoint must withstand.
pub(crate) const AGAINST_THE_TRAIL: [&str; 7] = [
    "UPDATE audit_entries SET act = 'x'",
    "UPDATE audit_entries SET body = content_hash",
    "UPDATE audit_entries SET chain_seq = 7 WHERE chain_seq IS NOT NULL",
    "DELETE FROM audit_entries WHERE chain_seq IS NULL",
    "DELETE FROM audit_entries WHERE chain_seq = 1",
    "UPDATE audit_checkpoints SET at = 0",
    "DELETE FROM audit_checkpoints",
];
