//! Thousands of timers that come due in the same moment, on two nodes that share a database: each fires once, none is left,
//! each row is claimed about once (F26), and the nodes keep to the connections that they are given (A01).

use crate::support::*;
use futures_util::{StreamExt, stream};
use machine::time::Span;
use runtime::clock::SystemClock;
use serde_json::json;
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};
use store::postgres::{Options, Postgres, migrate};

const TIMERS: usize = 4_000;
const AT_ONCE: usize = 256;
/// Connections for renewals of the lease: one, and another while the first is not answered.
const LEASE_CONNECTIONS_MAX: usize = 2;

const LATER: &str = "do: [ { rest: { wait: { days: 1 } } } ]";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn timers_that_come_due_together_fire_once_each_over_few_connections() {
    let Some(database) = scratch::database() else { return };
    let database = Arc::new(database);
    migrate(&database.owner_url, Some(database.application)).await.unwrap();
    let store = Postgres::open(&database.url).await.unwrap();
    let world = World::over(Arc::new(store), Arc::new(SystemClock));
    let build = || world.build().options(|options| options.dev_clock = true);
    let (first, second) = (build().start().await, build().start().await);
    first.deploy("later", LATER).await;
    let watching = Peak::watch(database.clone());
    let starts = stream::iter(0..TIMERS).map(|n| {
        let node = if n % 2 == 0 { &first } else { &second };
        node.handle.start(&node.tenant, start_of("later", json!({})))
    });
    let started = starts.buffer_unordered(AT_ONCE).collect::<Vec<_>>().await;
    assert!(started.iter().all(Result::is_ok), "{:?}", started.iter().find(|one| one.is_err()));
    assert_eq!(world.counts().await.timers, TIMERS as u64);
    first.handle.advance_clock(&first.tenant, Span::from_secs(86_400)).await.unwrap();
    until(|| async { world.counts().await.timers == 0 }).await;
    let (peak, looks) = watching.end().await;

    let ask = |sql: &str| database.ask(sql).unwrap();
    until(|| async { ask("SELECT count(*) FROM wf_instances WHERE status <> 'completed'") == "0" }).await;
    assert_eq!(ask("SELECT count(*) FROM wf_instances"), TIMERS.to_string());
    assert_eq!(ask("SELECT count(*) FROM wf_runtime_states WHERE state_version <> 2"), "0", "once each");
    assert_eq!(ask("SELECT count(*) FROM wf_history"), (2 * TIMERS).to_string());
    assert_eq!(ask("SELECT count(*) FROM wf_dlq"), "0");
    // One change by the clock that was moved, one by the claim. Every connection tells of its own some time later.
    let sql = "SELECT n_tup_upd FROM pg_stat_user_tables WHERE relname = 'wf_schedule_q' AND n_tup_del >= n_tup_ins";
    let changes = || ask(sql).parse::<usize>().unwrap_or(0);
    until(|| async { changes() >= 2 * TIMERS }).await;
    let changes = changes();
    assert!(changes < 3 * TIMERS, "{changes} changes of {TIMERS} timers");
    let options = Options::default();
    let most = options.writers_max + options.readers_max + LEASE_CONNECTIONS_MAX;
    println!("{TIMERS} timers: {changes} changes of their rows; {peak} of {most} connections, {looks} looks");
    assert!(looks > 0 && peak > 1 && peak <= most, "{peak} connections; {most} are allowed");
    first.stop().await;
    second.stop().await;
}

/// The most connections that the nodes' role had at any look.
struct Peak {
    is_over: Arc<AtomicBool>,
    looking: std::thread::JoinHandle<(usize, usize)>,
}

impl Peak {
    fn watch(database: Arc<scratch::Database>) -> Peak {
        let is_over = Arc::new(AtomicBool::new(false));
        let ends = is_over.clone();
        let looking = std::thread::spawn(move || {
            let sql = format!(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND usename = '{}'",
                database.application
            );
            let (mut peak, mut looks) = (0, 0);
            while !ends.load(Ordering::Relaxed) {
                peak = peak.max(database.ask(&sql).unwrap().parse().unwrap());
                looks += 1;
            }
            (peak, looks)
        });
        Peak { is_over, looking }
    }

    async fn end(self) -> (usize, usize) {
        self.is_over.store(true, Ordering::Relaxed);
        tokio::task::spawn_blocking(|| self.looking.join().unwrap()).await.unwrap()
    }
}
