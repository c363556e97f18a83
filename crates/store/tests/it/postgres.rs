//! The PostgreSQL database: its schema, who sees what, who may migrate, and two nodes at once.

use crate::fixture::*;
use machine::Time;
use std::{fs, path::Path, sync::Arc};
use store::{postgres::*, rows::*, *};

/// Every migration, in order.
const MIGRATIONS: [&str; 19] = [
    "core",
    "retention",
    "plans",
    "feed",
    "fair",
    "partitions",
    "deliveries",
    "buses",
    "standing",
    "errors",
    "taken-over",
    "worker_terms",
    "publish",
    "event_types",
    "queue_depths",
    "batches",
    "wake",
    "outbox_by_tenant",
    "traces",
];

/// A database with tables, and whatever must live as long as it.
pub(crate) async fn migrated() -> Option<scratch::Database> {
    let database = scratch::database()?;
    let made = migrate(&database.owner_url, Some(database.application)).await.unwrap();
    assert_eq!(made, MIGRATIONS);
    Some(database)
}

pub(crate) async fn open(database: &scratch::Database) -> Arc<Postgres> {
    let options = Options { database_clock: false, ..Options::default() };
    Arc::new(Postgres::open_with(&database.url, options).await.unwrap())
}

#[tokio::test]
async fn the_schema_is_the_golden_one() {
    let Some(database) = migrated().await else { return };
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/schema.postgres.txt");
    let schema = schema(&database.owner_url).await.unwrap();
    if std::env::var_os("GOLDEN_REFRESH").is_some() {
        fs::write(&golden, &schema).unwrap();
    }
    let expected = fs::read_to_string(&golden).unwrap_or_default();
    assert!(
        schema == expected,
        "the schema is not the one in {}: if that is meant, run GOLDEN_REFRESH=1 cargo test -p store golden",
        golden.display()
    );
    // Every table of tenants is under forced row security.
    for table in schema.lines().filter_map(|line| line.strip_suffix(".tenant text collate C not null")) {
        assert!(schema.contains(&format!("{table} policy tenant forced")), "{table}");
    }
}

#[tokio::test]
async fn migrating_is_done_once_and_by_one_at_a_time() {
    let Some(database) = scratch::database() else { return };
    let text = match Postgres::open(&database.owner_url).await {
        Ok(_) => panic!("an empty database was opened"),
        Err(Error::Misconfigured(text)) => text,
        Err(err) => panic!("{err:?}"),
    };
    assert!(text.contains("run `windlass migrate`"), "{text}");
    let many = (0..4).map(|_| {
        let url = database.owner_url.clone();
        tokio::spawn(async move { migrate(&url, None).await.unwrap().len() })
    });
    let mut made = 0;
    for one in many.collect::<Vec<_>>() {
        made += one.await.unwrap();
    }
    assert_eq!(made, MIGRATIONS.len());
    // Tables that nobody was let in to are nobody's.
    let Err(Error::Misconfigured(text)) = Postgres::open(&database.url).await else {
        panic!("a role without rights was let in")
    };
    assert!(text.contains("--app-role"), "{text}");
    migrate(&database.owner_url, Some(database.application)).await.unwrap();
    Postgres::open(&database.url).await.unwrap();
    assert!(migrate(&database.url, None).await.is_err(), "the application makes no tables");
}

#[tokio::test]
async fn a_transaction_that_names_no_tenant_sees_nothing() {
    let Some(database) = migrated().await else { return };
    let store = open(&database).await;
    store.join(node(1), Time(0), LEASE_MS).await.unwrap();
    store.commit(node(1), vec![commit(vec![create(1)])]).await.unwrap();
    let count = async |url: &str, tenants: Option<&str>| -> i64 {
        let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        if let Some(tenants) = tenants {
            client.execute("SELECT set_config('windlass.tenants', $1, false)", &[&tenants]).await.unwrap();
        }
        client.query_one("SELECT count(*) FROM wf_instances", &[]).await.unwrap().get(0)
    };
    for url in [&database.url, &database.owner_url] {
        assert_eq!(count(url, None).await, 0);
        assert_eq!(count(url, Some("other")).await, 0);
        assert_eq!(count(url, Some("other,acme")).await, 1);
        assert_eq!(count(url, Some("*")).await, 1);
    }
}

#[tokio::test]
async fn nothing_is_written_for_a_tenant_that_was_not_named() {
    let Some(database) = migrated().await else { return };
    let store = open(&database).await;
    store.join(node(1), Time(0), LEASE_MS).await.unwrap();
    store.commit(node(1), vec![commit(vec![create(1)])]).await.unwrap();
    let insert = "INSERT INTO wf_dlq (tenant, id, source, reason, detail, origin, attempts, last_node, failed_at, envelope)
        VALUES ('acme', gen_random_uuid(), 's', 'r', '', '', 0, gen_random_uuid(), 0, '')";
    let update = "UPDATE wf_instances SET status = 'paused' WHERE tenant = 'acme'";
    let give_away = "UPDATE wf_instances SET tenant = 'other' WHERE tenant = 'acme'";
    for url in [&database.url, &database.owner_url] {
        let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        for named in ["", "other"] {
            client.execute("SELECT set_config('windlass.tenants', $1, false)", &[&named]).await.unwrap();
            let refused = client.execute(insert, &[]).await.unwrap_err();
            assert!(refused.as_db_error().unwrap().message().contains("row-level security"), "{refused:?}");
            assert_eq!(client.execute(update, &[]).await.unwrap(), 0);
            assert_eq!(client.execute("DELETE FROM wf_instances", &[]).await.unwrap(), 0);
        }
        client.execute("SELECT set_config('windlass.tenants', 'acme', false)", &[]).await.unwrap();
        let refused = client.execute(give_away, &[]).await.unwrap_err();
        assert!(refused.as_db_error().unwrap().message().contains("row-level security"), "{refused:?}");
    }
    assert_eq!(store.counts(None).await.unwrap().dead_letters, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_nodes_claim_each_row_once() {
    let Some(database) = migrated().await else { return };
    let (left, right) = (open(&database).await, open(&database).await);
    for (store, number) in [(&left, 1), (&right, 2)] {
        store.join(node(number), Time(0), LEASE_MS).await.unwrap();
    }
    let writes = (0..300).map(|token| Write::Call(call(token, 0, None))).collect();
    left.commit(node(1), vec![commit(writes)]).await.unwrap();
    let claiming = [(left, 1), (right, 2)].map(|(store, number)| {
        tokio::spawn(async move {
            let mut tokens = Vec::new();
            for _ in 0..40 {
                let claimed = store.claim_calls(node(number), Time(1), 10, &[]).await.unwrap();
                tokens.extend(claimed.into_iter().map(|one| one.row.token));
            }
            tokens
        })
    });
    let mut tokens = Vec::new();
    for one in claiming {
        tokens.extend(one.await.unwrap());
    }
    tokens.sort_unstable();
    assert_eq!(tokens, (0..300).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn rivals_on_one_instance_lose_by_version_and_never_both_win() {
    let Some(database) = migrated().await else { return };
    let (left, right) = (open(&database).await, open(&database).await);
    for (store, number) in [(&left, 1), (&right, 2)] {
        store.join(node(number), Time(0), LEASE_MS).await.unwrap();
    }
    left.commit(node(1), (1..=20).map(|n| commit(vec![create(n)])).collect()).await.unwrap();
    for version in 2..12 {
        // Opposite orders: what would be a deadlock if rows were locked as they come.
        let batch = |order: &mut dyn Iterator<Item = u128>| -> Vec<Commit> {
            order.map(|n| commit(vec![update(n, version), history(n, version)])).collect()
        };
        let (up, down) = (batch(&mut (1..=20)), batch(&mut (1..=20).rev()));
        let (ours, theirs) = tokio::join!(left.commit(node(1), up), right.commit(node(2), down));
        let (ours, mut theirs) = (ours.unwrap(), theirs.unwrap());
        theirs.reverse();
        for (one, other) in ours.into_iter().zip(theirs) {
            let both = [one, other];
            assert!(both.contains(&Outcome::Committed), "{both:?}");
            assert!(both.contains(&Outcome::Conflict(Conflict::Version)), "{both:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_event_and_a_wait_that_begin_together_meet() {
    let Some(database) = migrated().await else { return };
    let (left, right) = (open(&database).await, open(&database).await);
    for (store, number) in [(&left, 1), (&right, 2)] {
        store.join(node(number), Time(0), LEASE_MS).await.unwrap();
    }
    for number in 1..=40u128 {
        let kind = format!("kind-{number}");
        let event = EventRow {
            id: id(number),
            source: "s".into(),
            event_id: kind.clone(),
            event_type: kind.clone(),
            received_at: Time(10),
            visible_at: Time(10),
            kept_until: Some(Time(1_000)),
            expires_at: Time(5_000),
            told: 0,
            taken: 0,
            started: 0,
            collected: 0,
            delivered: 0,
            emitted_by: None,
            traced: store::rows::Traced::default(),
            event: b"{}".to_vec(),
        };
        let wants = vec![SubscriptionRow { event_type: Some(kind), key: None }];
        let subscriber = Subscriber::Listen { instance: id(number), token: 1 };
        let wait = Write::Subscribe { subscriber, wants, now: Time(20), visible_at: Time(20) };
        let publish = commit(vec![Write::Publish(Box::new(event))]);
        let (published, waited) = tokio::join!(
            left.commit(node(1), vec![publish]),
            right.commit(node(2), vec![commit(vec![wait])])
        );
        assert_eq!(
            (published.unwrap(), waited.unwrap()),
            (vec![Outcome::Committed], vec![Outcome::Committed])
        );
    }
    assert_eq!(left.counts(None).await.unwrap().signals, 40);
}

/// Statements of one batch, those around the transaction among them.
async fn statements_of(store: &Postgres, batch: Vec<Commit>) -> u64 {
    let before = store.statements();
    let outcomes = store.commit(node(1), batch).await.unwrap();
    assert!(outcomes.iter().all(|outcome| *outcome == Outcome::Committed), "{outcomes:?}");
    store.statements() - before
}

fn schedule(number: u128) -> ScheduleRow {
    ScheduleRow {
        id: id(number),
        namespace: "n".into(),
        name: format!("s{number}"),
        version: "1.0.0".into(),
        kind: "every".into(),
        spec: "PT1M".into(),
        time_zone: "UTC".into(),
        missed: "latest".into(),
        status: "active".into(),
        anchor: Time(0),
        last_slot: None,
        next_slot: Some(Time(50)),
        due_at: Some(Time(50)),
        instance: None,
        row_version: 1,
        created_at: Time(0),
        updated_at: Time(0),
    }
}

#[tokio::test]
async fn a_batch_is_a_handful_of_statements_whatever_its_size() {
    let Some(database) = migrated().await else { return };
    let store = open(&database).await;
    store.join(node(1), Time(0), LEASE_MS).await.unwrap();
    let event = |number: u128| EventRow {
        id: id(number),
        source: "s".into(),
        event_id: number.to_string(),
        event_type: format!("kind-{}", number % 70),
        received_at: Time(10),
        visible_at: Time(10),
        kept_until: Some(Time(1_000)),
        expires_at: Time(5_000),
        told: 0,
        taken: 0,
        started: 0,
        collected: 0,
        delivered: 0,
        emitted_by: None,
        traced: store::rows::Traced::default(),
        event: b"{\"data\":1}".to_vec(),
    };
    let listen = |number: u128| {
        let subscriber = Subscriber::Listen { instance: id(number), token: 1 };
        let wants = vec![SubscriptionRow { event_type: Some(format!("kind-{}", number % 7)), key: None }];
        Write::Subscribe { subscriber, wants, now: Time(20), visible_at: Time(20) }
    };
    let start = |number: u128| {
        let history = HistoryRow { instance: id(number), version: 1, at: Time(1), events: b"[]".to_vec() };
        let call = CallRow { instance: id(number), ..call(1, 0, Some(node(1))) };
        vec![create(number), Write::History(history), Write::Call(call)]
    };
    let step = |number: u128| {
        let history = HistoryRow { instance: id(number), version: 2, at: Time(1), events: b"[]".to_vec() };
        let consume = Write::ConsumeCall { instance: id(number), token: 1 };
        vec![consume, update(number, 2), Write::History(history)]
    };
    let schedule = |number: u128, row_version: i64| {
        let row = ScheduleRow { row_version, ..schedule(number) };
        Write::PutSchedule { schedule: Box::new(row), expected_version: row_version - 1 }
    };
    for number in 1..=500 {
        store.commit(node(1), vec![commit(vec![schedule(number, 1)])]).await.unwrap();
    }
    let slot = |number: u128| SlotRow {
        schedule: id(number),
        slot: Time(50),
        outcome: "fired".into(),
        count: 1,
        instance: Some(id(number)),
        late: machine::time::Span(0),
        at: Time(50),
        detail: None,
    };
    type Of<'a> = &'a dyn Fn(u128) -> Vec<Write>;
    let kinds: [(&str, Of<'_>, u64); 6] = [
        ("slots", &|number| vec![schedule(number, 2), Write::Slot(slot(number))], 8),
        ("starts", &start, 9),
        ("steps", &step, 8),
        ("waits", &|number| vec![listen(number)], 9),
        ("events", &|number| vec![Write::Publish(Box::new(event(number)))], 12),
        ("events taken", &|number| vec![Write::EventTaken { id: id(number) }], 6),
    ];
    for (name, of, most) in kinds {
        let batch = (1..=500).map(|number| commit(of(number))).collect();
        let statements = statements_of(&store, batch).await;
        println!("a batch of 500 {name}: {statements} statements");
        assert!(statements <= most, "{name}: {statements}");
    }
    // 55 of the events are of a kind that some 71 waits want.
    assert_eq!(store.counts(None).await.unwrap().signals, 7 * 71 + 8 * (3 * 72 + 3 * 71));
}

/// F19: a node's own clock may be hours off.
#[tokio::test]
async fn only_the_databases_clock_counts_for_leases() {
    let Some(database) = migrated().await else { return };
    let store = Postgres::open(&database.url).await.unwrap();
    let (past, future) = (Time(0), Time(i64::MAX / 2));
    store.join(node(1), past, 600_000).await.unwrap();
    store.join(node(2), future, 600_000).await.unwrap();
    assert_eq!(store.take_over(node(2), future).await, Ok(0));
    assert_eq!(store.renew(node(2), future, 600_000).await.map(|renewed| renewed.another_ended), Ok(false));
    assert_eq!(
        store.renew(node(1), past, 600_000).await.map(|renewed| renewed.another_ended),
        Ok(false),
        "node 1 was not taken over"
    );
    // Its lease ends in a moment, whatever it believes.
    store.renew(node(1), future, 1).await.unwrap();
    while !store.renew(node(2), past, 600_000).await.unwrap().another_ended {}
    store.take_over(node(2), past).await.unwrap();
    assert_eq!(store.renew(node(1), future, 600_000).await, Err(Error::Fenced));
}

/// Statistics of a young table say nothing, so any index that holds the key may look as good as the primary one.
#[tokio::test]
async fn on_a_fresh_database_rows_are_changed_along_the_primary_key() {
    let Some(database) = migrated().await else { return };
    const SETTINGS: &str = "SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off;
        SET plan_cache_mode = force_generic_plan; SET windlass.tenants = 'acme'; SET ROLE windlass_app";
    let by_key = [
        ("wf_instances", "tenant, id", "text[], uuid[]"),
        ("wf_runtime_states", "tenant, runtime_instance_id", "text[], uuid[]"),
        ("wf_tasks", "tenant, id", "text[], uuid[]"),
        ("events", "tenant, id", "text[], uuid[]"),
        ("wf_signal_q", "tenant, id", "text[], uuid[]"),
        ("calls", "tenant, instance, token", "text[], uuid[], bigint[]"),
        ("wf_schedule_q", "tenant, instance, token", "text[], uuid[], bigint[]"),
        ("subscriptions", "tenant, kind, owner, token", "text[], text[], uuid[], bigint[]"),
    ];
    for (table, key, types) in by_key {
        let names: Vec<&str> = key.split(", ").collect();
        let places: Vec<String> = (1..=names.len()).map(|place| format!("${place}")).collect();
        let same: Vec<String> = names.iter().map(|name| format!("q.{name} = r.{name}")).collect();
        let nothing = vec!["'{}'"; names.len()].join(", ");
        let plan = database.ask(&format!(
            "{SETTINGS}; PREPARE p({types}) AS DELETE FROM {table} q USING unnest({}) AS r({key}) WHERE {};
             EXPLAIN EXECUTE p({nothing})",
            places.join(", "),
            same.join(" AND ")
        ));
        let plan = plan.unwrap();
        assert!(plan.contains(&format!("using {table}_pkey")), "{table}: {plan}");
    }
}

/// A standby that is lost lets every commit wait, renewals of leases among them.
#[tokio::test]
async fn renewals_that_are_not_answered_keep_to_two_connections() {
    let Some(database) = migrated().await else { return };
    let store = Arc::new(Postgres::open(&database.url).await.unwrap());
    store.join(node(1), Time(0), LEASE_MS).await.unwrap();
    let (client, connection) =
        tokio_postgres::connect(&database.owner_url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute("BEGIN; SELECT 1 FROM wf_host_locks FOR UPDATE").await.unwrap();
    let renewals = (0..6).map(|_| {
        let store = store.clone();
        tokio::spawn(async move { store.renew(node(1), Time(0), LEASE_MS).await })
    });
    for renewal in renewals.collect::<Vec<_>>() {
        assert!(matches!(renewal.await.unwrap(), Err(Error::Unavailable(_))));
    }
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%wf_host_locks%'
        AND datname = current_database() AND pid <> pg_backend_pid()";
    assert_eq!(database.ask(waiting).unwrap(), "2");
    client.batch_execute("COMMIT").await.unwrap();
    let mut pace = tokio::time::interval(std::time::Duration::from_millis(20));
    for tries in 0.. {
        pace.tick().await;
        assert!(tries < 1_000, "they are answered, and there is room again");
        if store.renew(node(1), Time(0), LEASE_MS).await.is_ok() {
            return;
        }
    }
}

/// Statements that were prepared over one connection of a pooler are asked for over another.
#[tokio::test]
async fn a_pooler_that_the_address_does_not_tell_of_is_named_with_its_remedy() {
    let Some(database) = migrated().await else { return };
    let Some(pooler) = scratch::pooler() else { return };
    let url = pooler.url(&database.url).unwrap().replace("?pooled=true", "").replace("&pooled=true", "");
    // Two at a time go over two connections of the pooler, in any order.
    for _ in 0..200 {
        let said = async {
            let store = Postgres::open(&url).await?;
            for _ in 0..20 {
                tokio::try_join!(store.next_due(), store.next_due(), store.next_due(), store.next_due())?;
            }
            Ok(())
        };
        match said.await {
            Ok(()) | Err(Error::Unavailable(_)) => {}
            Err(Error::Misconfigured(text)) => {
                assert!(text.contains("pooled=true"), "{text}");
                return;
            }
            Err(err) => panic!("{err:?}"),
        }
    }
    panic!("the pooler lent the same connection every time");
}

/// Stops or resumes server processes; those that are stopped acknowledge what is sent to them and answer nothing.
fn signal_processes(signal: &str, pids: &str) {
    let pids: Vec<&str> = pids.split_whitespace().collect();
    assert!(!pids.is_empty(), "there is somebody to stop");
    assert!(std::process::Command::new("kill").arg(signal).args(&pids).status().unwrap().success());
}

/// F8: whoever is not answered does not wait for ever, and the next one is not harmed.
#[tokio::test]
async fn a_server_process_that_stands_still_holds_up_nobody_for_long() {
    let Some(database) = migrated().await else { return };
    let answer_max = std::time::Duration::from_secs(2);
    let options = Options { readers_max: 1, writers_max: 1, answer_max, ..Options::default() };
    let store = Postgres::open_with(&database.url, options).await.unwrap();
    store.join(node(1), Time(0), LEASE_MS).await.unwrap();
    store.commit(node(1), vec![commit(vec![create(1)])]).await.unwrap();
    let processes = "SELECT string_agg(pid::text, ' ') FROM pg_stat_activity
        WHERE datname = current_database() AND application_name = 'windlass'";
    let stopped = database.ask(processes).unwrap();
    signal_processes("-STOP", &stopped);
    let (read, written) =
        tokio::join!(store.next_due(), store.commit(node(1), vec![commit(vec![create(2)])]));
    signal_processes("-CONT", &stopped);
    assert!(matches!(read, Err(Error::Unavailable(_))), "{read:?}");
    assert!(matches!(written, Err(Error::Unavailable(_))), "nothing of it can have landed: {written:?}");
    assert_eq!(store.next_due().await, Ok(None));
    assert_eq!(store.commit(node(1), vec![commit(vec![create(2)])]).await, Ok(vec![Outcome::Committed]));
}

/// As when a standby is waited for: the outcome is not known, and the connection is used for nothing else meanwhile.
#[tokio::test]
async fn a_commit_that_is_not_answered_is_unknown_and_keeps_its_connection() {
    let Some(database) = migrated().await else { return };
    let answer_max = std::time::Duration::from_secs(1);
    let options = Options { writers_max: 2, answer_max, ..Options::default() };
    let store = Postgres::open_with(&database.url, options).await.unwrap();
    store.join(node(1), Time(0), LEASE_MS).await.unwrap();
    let (client, connection) =
        tokio_postgres::connect(&database.owner_url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    // What is deferred happens inside COMMIT.
    let slow = "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS
            $$BEGIN PERFORM pg_advisory_xact_lock(42); RETURN NULL; END$$;
        CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON wf_instances DEFERRABLE INITIALLY DEFERRED
            FOR EACH ROW EXECUTE FUNCTION slow();
        SELECT pg_advisory_lock(42)";
    client.batch_execute(slow).await.unwrap();
    for number in [1, 2] {
        let written = store.commit(node(1), vec![commit(vec![create(number)])]).await;
        assert!(matches!(written, Err(Error::Unknown(_))), "{written:?}");
    }
    let written = store.commit(node(1), vec![commit(vec![create(3)])]).await;
    assert!(matches!(written, Err(Error::Unavailable(_))), "no third connection is made: {written:?}");
    client.batch_execute("SELECT pg_advisory_unlock(42)").await.unwrap();
    for tries in 0.. {
        assert!(tries < 60, "what was unknown has landed, and there is room again");
        if store.commit(node(1), vec![commit(vec![create(3)])]).await == Ok(vec![Outcome::Committed]) {
            break;
        }
    }
    for number in [1, 2, 3] {
        assert!(store.load(&acme(), id(number)).await.unwrap().is_some(), "{number}");
    }
}

/// A program from before there were deliveries fences a node and frees what it owned in the tables it knows.
#[tokio::test]
async fn what_an_older_program_left_owned_is_freed_by_the_next_take_over() {
    let Some(database) = migrated().await else { return };
    let store = open(&database).await;
    for number in [1, 2] {
        store.join(node(number), Time(0), LEASE_MS).await.unwrap();
    }
    let delivery = |number: u128, owner: u128| {
        Write::Delivery(Box::new(DeliveryRow {
            id: id(number),
            worker: "mail".into(),
            events: [id(9)].into_iter().collect(),
            order_key: None,
            created_at: Time(0),
            visible_at: Time(0),
            attempt: 0,
            last_error: None,
            owner: Some(node(owner)),
            taken_over: 0,
            traced: store::rows::Traced::default(),
        }))
    };
    store.commit(node(1), vec![commit(vec![delivery(1, 1)])]).await.unwrap();
    store.commit(node(2), vec![commit(vec![delivery(2, 2)])]).await.unwrap();
    let fence =
        format!("UPDATE wf_host_locks SET fenced = true WHERE kind = 'node' AND name = '{}'", node(1));
    database.ask(&fence).unwrap();
    assert_eq!(store.take_over(node(2), Time(1)).await, Ok(1), "and its own stays its own");
    let ask = DeliveryAsk {
        node: node(2),
        now: Time(1),
        limit: 9,
        workers: vec!["mail".into()],
        full: vec![],
        full_of: vec![],
        pace: None,
    };
    let claimed = store.claim_deliveries(&ask).await.unwrap();
    assert_eq!(claimed.into_iter().map(|one| one.row.id).collect::<Vec<_>>(), [id(1)]);
    let oldest = "SELECT oldest FROM schema_migrations WHERE name = 'deliveries'";
    assert_eq!(database.ask(oldest).unwrap(), "7", "and no such program starts any more");
}
