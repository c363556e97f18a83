//! What only SQLite can get wrong: settings, a full disk, an I/O error, statements and their plans.

use super::{Core, Inline, host::Host, migrate, open, semver, statement::Statement, threaded::Sqlite};
use crate::{commit::*, port::*, rows::*, views::*};
use machine::{TenantId, Time};
use rusqlite::{Connection, ffi};
use std::cmp::Ordering;
use uuid::Uuid;

const NODE: Uuid = Uuid::from_u128(1);

fn acme() -> TenantId {
    TenantId::new("acme").unwrap()
}

fn history(number: u128, bytes: usize) -> Commit {
    let row =
        HistoryRow { instance: Uuid::from_u128(number), version: 1, at: Time(1), events: vec![b'x'; bytes] };
    Commit { tenant: acme(), writes: vec![Write::History(row)] }
}

fn pragma(connection: &Connection, name: &str) -> i64 {
    open::get(connection, name).unwrap()
}

#[test]
fn the_writer_is_durable_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    let core = Core::open(&path).unwrap();
    let mode: String = open::get(core.connection(), "journal_mode").unwrap();
    assert_eq!((mode.as_str(), pragma(core.connection(), "synchronous")), ("wal", 2));
    assert_eq!(pragma(core.connection(), "mmap_size"), 0);
    assert_eq!(pragma(core.connection(), "foreign_keys"), 0);
    // The WAL-reset bug is fixed from 3.51.3 on.
    assert!(rusqlite::version_number() >= 3_051_003, "{}", rusqlite::version());
    let reader = open::reader(&path).unwrap();
    let refused = reader.execute("DELETE FROM wf_history", []).unwrap_err();
    assert_eq!(refused.sqlite_error_code(), Some(rusqlite::ErrorCode::ReadOnly));
}

#[tokio::test]
async fn a_full_disk_refuses_writes_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let store = Sqlite::open(dir.path().join("a.db")).unwrap();
    store.join(NODE, Time(0), 1_000).await.unwrap();
    assert_eq!(store.commit(NODE, vec![history(1, 100)]).await.unwrap(), [Outcome::Committed]);
    let set = |pages: i64| {
        store.write(move |core| {
            core.connection()
                .query_row(&format!("PRAGMA max_page_count = {pages}"), [], |row| row.get::<_, i64>(0))
                .map_err(super::error::error)
        })
    };
    let pages = store.write(|core| open::get::<i64>(core.connection(), "page_count")).await.unwrap();
    set(pages + 4).await.unwrap();
    let batch = vec![history(2, 100), history(3, 1 << 20)];
    let refused = store.commit(NODE, batch.clone()).await;
    assert!(matches!(refused, Err(Error::Full(_))), "{refused:?}");
    // Nothing of the batch is there, reads work, and what fits is still taken.
    assert_eq!(store.history(&acme(), Uuid::from_u128(2), 0, 9).await.unwrap(), []);
    assert_eq!(store.history(&acme(), Uuid::from_u128(1), 0, 9).await.unwrap().len(), 1);
    assert_eq!(store.commit(NODE, vec![history(4, 100)]).await.unwrap(), [Outcome::Committed]);
    set(1 << 20).await.unwrap();
    assert_eq!(store.commit(NODE, batch).await.unwrap(), vec![Outcome::Committed; 2]);
    let check = |core: &mut Core| {
        core.connection()
            .query_row("PRAGMA integrity_check", [], |row| row.get::<_, String>(0))
            .map_err(super::error::error)
    };
    assert_eq!(store.write(check).await.unwrap(), "ok");
}

#[test]
fn an_io_error_is_fatal() {
    let mut core = Core::open_in_memory().unwrap();
    core.join(NODE, Time(0), 1_000).unwrap();
    core.begin().unwrap();
    let failed = rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_IOERR_FSYNC), None);
    assert!(matches!(core.fail(failed), Error::Corrupt(_)));
    assert!(matches!(core.apply(NODE, &[history(1, 1)]), Err(Error::Corrupt(_))));
    assert!(matches!(core.renew(NODE, Time(0), 1), Err(Error::Corrupt(_))));
    assert_eq!(core.read().history(&acme(), Uuid::from_u128(1), 0, 9).unwrap(), []);
}

#[test]
fn a_row_too_large_is_refused_alone() {
    let mut core = Core::open_in_memory().unwrap();
    core.join(NODE, Time(0), 1_000).unwrap();
    let outcomes = core.apply(NODE, &[history(1, 1), history(2, 65 << 20), history(3, 1)]).unwrap();
    assert!(matches!(outcomes[..], [Outcome::Committed, Outcome::Rejected(_), Outcome::Committed]));
}

#[test]
fn every_statement_prepares() {
    let core = Core::open_in_memory().unwrap();
    for statement in Statement::ALL {
        core.connection().prepare(statement.sql()).unwrap();
    }
}

/// The plan of whatever `read` asks first, as SQLite explains it.
fn plan(core: &Core, sql: &str) -> String {
    let mut statement = core.connection().prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    let lines = statement.query_map([], |row| row.get::<_, String>(3)).unwrap();
    lines.map(|line| line.unwrap()).collect::<Vec<_>>().join("; ")
}

#[test]
fn work_discovery_runs_along_the_backlog() {
    let core = Core::open_in_memory().unwrap();
    use super::{
        claim::{FAIR_CALLS, FAIR_SIGNALS, FAIR_TIMERS, SIGNALS, TIMERS},
        read::NEXT_DUE,
    };
    let fair = [FAIR_SIGNALS, FAIR_TIMERS, FAIR_CALLS].map(|fair| [fair.tenants, fair.due]);
    for sql in [SIGNALS, TIMERS, NEXT_DUE].iter().chain(fair.as_flattened()) {
        let sql = sql.replace("?1", "1").replace("?2", "1").replace("?3", "'acme'");
        let plan = plan(&core, &sql);
        assert!(plan.contains("_backlog"), "{plan}");
        assert!(!plan.contains("TEMP B-TREE"), "{plan}");
    }
}

#[test]
fn lists_run_in_order_without_sorting() {
    let instance = super::read::INSTANCE.replace("?1", "'acme'");
    let task = super::read::TASK.replace("?1", "'acme'");
    let core = Core::open_in_memory().unwrap();
    for (sql, index) in [
        (format!("{instance} AND i.id < x'01' ORDER BY i.id DESC LIMIT 9"), "autoindex_wf_instances"),
        (format!("{instance} AND i.status = 'faulted' ORDER BY i.id DESC LIMIT 9"), "wf_instances_status"),
        (format!("{instance} AND i.business_key = 'k' ORDER BY i.id DESC LIMIT 9"), "wf_instances_key"),
        (format!("{task} AND status = 'open' ORDER BY id DESC LIMIT 9"), "wf_tasks_status"),
        (format!("{task} AND assignee = 'ann' ORDER BY id DESC LIMIT 9"), "wf_tasks_assignee"),
        (format!("{task} AND instance = x'01' ORDER BY id DESC LIMIT 9"), "wf_tasks_instance"),
        (
            "SELECT status, count(*) FROM wf_instances WHERE tenant = 'a' GROUP BY status".into(),
            "COVERING INDEX",
        ),
    ] {
        let plan = plan(&core, &sql);
        assert!(plan.contains(index), "{sql}\n{plan}");
        assert!(!plan.contains("TEMP B-TREE"), "{sql}\n{plan}");
    }
}

#[test]
fn born_owned_rows_write_no_index() {
    let mut core = Core::open_in_memory().unwrap();
    core.join(NODE, Time(0), 1_000).unwrap();
    let call = |token, owner| {
        Write::Call(CallRow {
            instance: NODE,
            token,
            target: "http".into(),
            envelope: vec![],
            created_at: Time(0),
            visible_at: Time(0),
            attempt: 0,
            last_error: None,
            owner,
            taken_over: 0,
        })
    };
    let writes = vec![call(1, Some(NODE)), call(2, Some(NODE)), call(3, None)];
    core.apply(NODE, &[Commit { tenant: acme(), writes }]).unwrap();
    let cells = "SELECT sum(ncell) FROM dbstat WHERE name = ?1";
    let count = |name: &str| core.connection().query_row(cells, [name], |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!((count("calls"), count("calls_backlog")), (3, 1));
}

#[test]
fn task_events_are_append_only() {
    let mut core = Core::open_in_memory().unwrap();
    core.join(NODE, Time(0), 1_000).unwrap();
    let event = TaskEventRow {
        task: NODE,
        sequence: 1,
        kind: "created".into(),
        actor: "ann".into(),
        at: Time(1),
        detail: vec![],
    };
    let commit = |event| [Commit { tenant: acme(), writes: vec![Write::TaskEvent(event)] }];
    assert_eq!(core.apply(NODE, &commit(event.clone())).unwrap(), [Outcome::Committed]);
    let task = "INSERT INTO wf_tasks (tenant, id, instance, token, step, title, status, candidate_users, candidate_groups,
        priority, version, created_at, updated_at, payload)
        VALUES ('acme', ?1, ?1, 1, 's', 't', 'open', '[]', '[]', 0, 1, 1, 1, x'')";
    core.connection().execute(task, [NODE.as_bytes()]).unwrap();
    for sql in ["UPDATE wf_task_events SET actor = 'bob'", "DELETE FROM wf_task_events"] {
        let refused = core.connection().execute(sql, []).unwrap_err();
        assert!(refused.to_string().contains("append-only"), "{refused}");
    }
    let again = core.apply(NODE, &commit(TaskEventRow { actor: "bob".into(), ..event.clone() })).unwrap();
    assert!(matches!(again[..], [Outcome::Rejected(_)]), "{again:?}");
    assert_eq!(core.read().task_events(&acme(), NODE).unwrap(), [event]);
}

#[test]
fn what_an_earlier_process_left_is_backlog() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    let mut core = Core::open(&path).unwrap();
    core.join(NODE, Time(0), 1_000_000).unwrap();
    let signal = SignalRow {
        id: NODE,
        instance: NODE,
        signal_type: "go".into(),
        envelope: vec![],
        created_at: Time(0),
        visible_at: Time(0),
        attempt: 0,
        owner: Some(NODE),
        taken_over: 0,
    };
    core.apply(NODE, &[Commit { tenant: acme(), writes: vec![Write::Signal(signal)] }]).unwrap();
    assert_eq!(core.adopt_all().unwrap(), 1);
    assert_eq!(core.apply(NODE, &[]), Err(Error::Fenced));
    let next = Uuid::from_u128(2);
    core.join(next, Time(0), 1_000).unwrap();
    assert_eq!(core.claim_signals(next, Time(0), 9).unwrap().len(), 1);
}

#[test]
fn migrating_again_changes_nothing_and_a_changed_migration_is_refused() {
    let mut connection = open::memory().unwrap();
    migrate::migrate(&mut connection).unwrap();
    let before = connection.total_changes();
    migrate::migrate(&mut connection).unwrap();
    assert_eq!(connection.total_changes(), before);
    connection.execute("UPDATE schema_migrations SET sha256 = x'00'", []).unwrap();
    assert!(matches!(migrate::migrate(&mut connection), Err(Error::Misconfigured(_))));
}

#[tokio::test]
async fn inline_stores_are_apart() {
    let stores: Vec<Inline> = (0..20).map(|_| Inline::new().unwrap()).collect();
    for store in &stores {
        store.join(NODE, Time(0), 1_000).await.unwrap();
        assert_eq!(store.commit(NODE, vec![history(1, 1)]).await.unwrap(), [Outcome::Committed]);
    }
    assert_eq!(Inline::new().unwrap().counts(None).await.unwrap(), Counts::default());
}

#[test]
fn versions_compare_as_semver_says() {
    let ascending = [
        "",
        "latest",
        "0.0.1",
        "1.0.0-alpha",
        "1.0.0-alpha.1",
        "1.0.0-alpha.beta",
        "1.0.0-beta.2",
        "1.0.0-beta.11",
        "1.0.0-rc.1",
        "1.0.0",
        "1.0.0+build",
        "1.2.0",
        "1.10.0",
        "2.0.0",
    ];
    for (at, version) in ascending.iter().enumerate() {
        for (other_at, other) in ascending.iter().enumerate() {
            assert_eq!(semver::compare(version, other), at.cmp(&other_at), "{version} {other}");
        }
    }
    assert_eq!(semver::compare("1.0", "1.0.0"), Ordering::Less);
    let preferred = ["2.0.0-rc.1", "2.0.0-rc.2", "1.0.0", "1.0.1+build"];
    for pair in preferred.windows(2) {
        assert_eq!(semver::by_preference(pair[0], pair[1]), Ordering::Less, "{pair:?}");
    }
}
