//! The feed with many writers: what commits late is never skipped, where a cursor over ids would skip it.

use crate::fixture::*;
use machine::time::Span;
use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};
use store::{feed::*, postgres::*, *};
use tokio::time::Instant;
use tokio_postgres::{Client, NoTls};
use uuid::Uuid;

const PATIENCE: Duration = Duration::from_secs(60);

async fn migrated() -> Option<scratch::Database> {
    let database = scratch::database()?;
    migrate(&database.owner_url, Some(database.application)).await.unwrap();
    Some(database)
}

/// A connection of the application's role that sees the tenant.
async fn client(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute("SET windlass.tenants = 'acme'").await.unwrap();
    client
}

fn insert(number: u64) -> String {
    format!(
        "INSERT INTO events (tenant, id, source, event_id, event_type, received_at, expires_at, told, taken, started,
            collected, event) VALUES ('acme', '{}', 's', 'e{number}', 't', 1, 5, 0, 0, 0, 0, '{{}}')",
        id(number.into())
    )
}

/// What most would write: everything after the highest id seen.
async fn naive(client: &Client, last: &mut Uuid) -> Vec<Uuid> {
    let rows = client.query("SELECT id FROM events WHERE id > $1 ORDER BY id", &[last]).await.unwrap();
    let ids: Vec<Uuid> = rows.iter().map(|row| row.get(0)).collect();
    *last = ids.last().copied().unwrap_or(*last);
    ids
}

async fn ours(store: &Postgres, last: &mut FeedCursor) -> Vec<Uuid> {
    let items = store.feed(&acme(), *last, 200).await.unwrap().expect("the cursor is known");
    *last = items.last().map_or(*last, |item| item.cursor);
    items.into_iter().map(|item| item.row.id).collect()
}

#[tokio::test]
async fn what_began_first_and_commits_last_is_not_skipped() {
    let Some(database) = migrated().await else { return };
    let store = Postgres::open(&database.url).await.unwrap();
    let (first, second, reader) =
        (client(&database.url).await, client(&database.url).await, client(&database.url).await);
    first.batch_execute(&format!("BEGIN; {}", insert(1))).await.unwrap();
    second.batch_execute(&format!("BEGIN; {}; COMMIT", insert(2))).await.unwrap();
    let (mut last_id, mut cursor) = (Uuid::nil(), FeedCursor::default());
    assert_eq!(naive(&reader, &mut last_id).await, [id(2)]);
    assert_eq!(
        ours(&store, &mut cursor).await,
        Vec::<Uuid>::new(),
        "event 1 may still come, and belongs before"
    );
    first.batch_execute("COMMIT").await.unwrap();
    assert_eq!(
        naive(&reader, &mut last_id).await,
        Vec::<Uuid>::new(),
        "the cursor over ids has lost event 1"
    );
    let (mut met, deadline) = (Vec::new(), Instant::now() + PATIENCE);
    while met.len() < 2 && Instant::now() < deadline {
        met.extend(ours(&store, &mut cursor).await);
    }
    assert_eq!(met, [id(1), id(2)]);
}

/// 24 writers with transactions of 0 to 8 ms, some of which are undone, and a reader that follows all the while.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_live_cursor_meets_every_event_of_many_writers_once() {
    const WRITERS: u64 = 24;
    const EACH: u64 = 60;
    let Some(database) = migrated().await else { return };
    let store = Postgres::open(&database.url).await.unwrap();
    let reader = client(&database.url).await;
    let (numbers, done) = (Arc::new(AtomicU64::new(1)), Arc::new(AtomicBool::new(false)));
    let mut writers = Vec::new();
    for writer in 0..WRITERS {
        let (client, numbers) = (client(&database.url).await, numbers.clone());
        writers.push(tokio::spawn(async move {
            let mut written = BTreeSet::new();
            for turn in 0..EACH {
                let number = numbers.fetch_add(1, Ordering::Relaxed);
                let pause_ms = (writer * 7 + turn * 5) % 9;
                let end = if turn % 10 == 9 { "ROLLBACK" } else { "COMMIT" };
                let pause = format!("SELECT pg_sleep({pause_ms} / 1000.0)");
                client.batch_execute(&format!("BEGIN; {}; {pause}; {end}", insert(number))).await.unwrap();
                if end == "COMMIT" {
                    written.insert(id(number.into()));
                }
            }
            written
        }));
    }
    let beside = tokio::spawn({
        let done = done.clone();
        async move {
            let (mut last, mut met) = (Uuid::nil(), BTreeSet::new());
            while !done.load(Ordering::Relaxed) {
                met.extend(naive(&reader, &mut last).await);
            }
            met.extend(naive(&reader, &mut last).await);
            met
        }
    });
    let following = tokio::spawn(async move {
        let (mut cursor, mut met, mut pages) = (FeedCursor::default(), Vec::new(), 0);
        let deadline = Instant::now() + PATIENCE;
        while met.len() < (WRITERS * EACH * 9 / 10) as usize && Instant::now() < deadline {
            let page = ours(&store, &mut cursor).await;
            pages += u64::from(!page.is_empty());
            met.extend(page);
        }
        met.extend(ours(&store, &mut cursor).await);
        (met, pages)
    });
    let mut written = BTreeSet::new();
    for writer in writers {
        written.extend(writer.await.unwrap());
    }
    done.store(true, Ordering::Relaxed);
    let naive = beside.await.unwrap();
    let (met, pages) = following.await.unwrap();
    println!(
        "{} events of {WRITERS} writers in {pages} pages: lost {}, a cursor over ids lost {}",
        written.len(),
        written.len() - met.iter().collect::<BTreeSet<_>>().len(),
        written.difference(&naive).count()
    );
    assert!(pages > 1, "the reader followed while they wrote");
    assert_eq!(met.len(), written.len(), "each once");
    assert_eq!(met.into_iter().collect::<BTreeSet<_>>(), written);
}

#[tokio::test]
async fn the_horizon_says_how_long_the_feed_is_held_back() {
    let Some(database) = migrated().await else { return };
    let store = Postgres::open(&database.url).await.unwrap();
    let holder = client(&database.url).await;
    holder.batch_execute(&format!("BEGIN; {}", insert(1))).await.unwrap();
    client(&database.url).await.batch_execute(&insert(2)).await.unwrap();
    // Transactions of other tests on the same server may be older for a moment.
    let deadline = Instant::now() + PATIENCE;
    let held = loop {
        let horizon = store.horizon().await.unwrap();
        assert!(horizon.transactions > 0, "{horizon:?}");
        let old = horizon.open_for.filter(|age| *age > Span::from_millis(50));
        if old.is_some() || Instant::now() > deadline {
            break old;
        }
    };
    assert!(held.is_some());
    holder.batch_execute("COMMIT").await.unwrap();
}

#[tokio::test]
async fn a_snapshot_of_somebody_who_only_reads_is_seen_and_so_is_its_end() {
    let Some(database) = migrated().await else { return };
    let store = Postgres::open(&database.url).await.unwrap();
    let holder = client(&database.url).await;
    let hold = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SELECT count(*) FROM pg_class";
    holder.batch_execute(hold).await.unwrap();
    client(&database.url).await.batch_execute(&insert(2)).await.unwrap();
    let deadline = Instant::now() + PATIENCE;
    let aged = |horizon: &Horizon| horizon.snapshot.held_for.is_some_and(|age| age > Span::from_millis(50));
    let mut seen = store.horizon().await.unwrap();
    while !aged(&seen) && Instant::now() < deadline {
        seen = store.horizon().await.unwrap();
    }
    assert!(aged(&seen) && seen.snapshot.transactions > 0, "{seen:?}");
    holder.batch_execute("COMMIT").await.unwrap();
    while seen.snapshot.transactions > 0 && Instant::now() < deadline {
        seen = store.horizon().await.unwrap();
    }
    assert_eq!(seen.snapshot.transactions, 0, "{seen:?}");
}

#[tokio::test]
async fn whether_commits_are_durable_and_wait_for_a_standby_is_told_by_the_settings_they_are_made_with() {
    if scratch::programs().is_none() {
        drop(scratch::database());
        return;
    }
    // The settings are of the whole server, so this one is nobody else's.
    let server = scratch::Server::start(scratch::Durability::Default).unwrap();
    let database = server.database().unwrap();
    migrate(&database.owner_url, Some(database.application)).await.unwrap();
    let told = async || {
        let horizon = Postgres::open(&database.url).await.unwrap().horizon().await.unwrap();
        (horizon.is_durable, horizon.is_synchronous)
    };
    assert_eq!(told().await, (true, true), "there is no standby to go over to");
    let _standby = server.standby().unwrap();
    let deadline = Instant::now() + PATIENCE;
    while told().await.1 && Instant::now() < deadline {}
    assert_eq!(told().await, (true, false), "one that commits do not wait for");
    database.ask("ALTER SYSTEM SET synchronous_standby_names = '*'").unwrap();
    database.ask("SELECT pg_reload_conf()").unwrap();
    while !told().await.1 && Instant::now() < deadline {}
    assert_eq!(told().await, (true, true));
    database.ask("ALTER SYSTEM SET synchronous_commit = 'off'").unwrap();
    database.ask("SELECT pg_reload_conf()").unwrap();
    while told().await.0 && Instant::now() < deadline {}
    assert_eq!(told().await, (false, false));
}
