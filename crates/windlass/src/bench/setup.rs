//! A node on a fresh store, with the definitions and workers the workloads use.

use super::{Args, w2::Sink, w5};
use anyhow::{Context, Result, bail};
use machine::{Data, TenantId, language::Format, time::Span};
use runtime::{
    Handle, Node, Parts,
    api::{DefinitionRef, Refusal, Start},
    clock::{Clock, SystemClock},
};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use store::{
    Store,
    postgres::{self, Postgres},
    sqlite::{Sqlite, probe},
};
use worker::{Declaration, Outcome};

/// Three steps, each a durable call to a worker that does nothing.
const THREE: &str = "document: { dsl: '1.0.3', namespace: bench, name: three, version: '1.0.0' }
do:
- one: { call: 'noop:1.0.0@default' }
- two: { call: 'noop:1.0.0@default' }
- three: { call: 'noop:1.0.0@default' }
";

/// Waits a day: what a full store holds.
const SLEEP: &str = "document: { dsl: '1.0.3', namespace: bench, name: sleep, version: '1.0.0' }
do:
- rest: { wait: { days: 1 } }
";

/// One child per item of `items`.
const MAP: &str = "document: { dsl: '1.0.3', namespace: bench, name: map, version: '1.0.0' }
do:
- each:
    call: 'map:1.0.0@default'
    with:
      items: '${ .items }'
      concurrency: 1000
      batchSize: 100
      onError: collect
      workflow: { namespace: bench, name: '${ .child }', version: '1.0.0' }
";

/// Children: one step in process, one durable call, one step that faults.
const PURE: &str = "document: { dsl: '1.0.3', namespace: bench, name: pure, version: '1.0.0' }
do: [ { s: { set: { sum: '${ .n + 1 }' } } } ]
";
const CALL: &str = "document: { dsl: '1.0.3', namespace: bench, name: call, version: '1.0.0' }
do: [ { c: { call: 'noop:1.0.0@default' } } ]
";
const FAULT: &str = "document: { dsl: '1.0.3', namespace: bench, name: fault, version: '1.0.0' }
do: [ { r: { raise: { error: { type: 'https://bench/fault', status: 500, title: Fault } } } } ]
";

pub(super) struct Bench {
    pub(super) handle: Handle,
    /// Every node's, that one first.
    pub(super) handles: Vec<Handle>,
    pub(super) tenant: TenantId,
    pub(super) clock: SystemClock,
    /// What the machine itself does, measured before anything else.
    pub(super) limits: Limits,
    /// Secret of an API key, for going through HTTP.
    pub(super) key: String,
    /// Where the workers of w2 count what they are given.
    pub(super) sink: Arc<Sink>,
    pub(super) arrivals: tokio::sync::mpsc::UnboundedReceiver<(u64, f64)>,
    /// The database and its address, if it is one.
    database: Option<(Arc<Postgres>, String)>,
    /// The same as the other nodes have it open.
    others: Vec<Arc<Postgres>>,
    nodes: Vec<Node>,
    /// Holds an old snapshot, if that is asked for.
    _snapshot: Option<postgres::probe::Snapshot>,
    // The folder goes when this does.
    folder: tempfile::TempDir,
}

/// What the disk and SQLite can do at the moment. Machines are shared, so the moment matters.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) raw_per_second: f64,
    pub(super) fsync_micros: f64,
}

/// What the database itself counted.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counted {
    pub(super) statements: f64,
    pub(super) rows: f64,
    pub(super) wal_bytes: f64,
    written: postgres::Written,
    pub(super) statements_per_batch: f64,
    pub(super) commits_per_batch: f64,
}

/// Counters of the cost model.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cost {
    pub(super) commits: f64,
    pub(super) rows: f64,
    pub(super) bytes: f64,
}

/// Nodes know of each other once each has renewed its lease.
#[allow(clippy::disallowed_methods, reason = "leases are real time")]
async fn acquainted() {
    let lease = runtime::Options::default().lease;
    tokio::time::sleep(Duration::from_micros(lease.0.unsigned_abs() / 3) + Duration::from_secs(1)).await;
}

impl Bench {
    pub(super) async fn new(args: &Args) -> Result<Bench> {
        let parent = args.data.clone().unwrap_or_else(|| PathBuf::from("."));
        std::fs::create_dir_all(&parent).with_context(|| format!("cannot create {}", parent.display()))?;
        let folder = tempfile::Builder::new().prefix("windlass-bench-").tempdir_in(&parent)?;
        let clock = SystemClock;
        let database = open_database(&args.store).await?;
        let url = database.as_ref().map(|(_, url)| url.as_str());
        let limits = Limits::measure(folder.path(), url).await?;
        let store: Arc<dyn Store> = match &database {
            Some((store, _)) => store.clone(),
            None => Sqlite::open(folder.path().join("bench.db"))?.shared(),
        };
        let (sink, arrivals) = Sink::new();
        let mut nodes = vec![Node::start(parts_of(store, database.as_ref(), args, &sink)).await?];
        let mut others = Vec::new();
        for _ in 1..args.nodes {
            let Some((_, url)) = &database else {
                bail!("several nodes need a database: name one with --store")
            };
            let store = Arc::new(Postgres::open(url).await?);
            others.push(store.clone());
            let another = Some((store.clone(), url.clone()));
            nodes.push(Node::start(parts_of(store, another.as_ref(), args, &sink)).await?);
        }
        if args.nodes > 1 {
            acquainted().await;
        }
        let snapshot = match (&database, args.held_snapshot) {
            (Some((_, url)), true) => Some(postgres::probe::Snapshot::hold(url).await?),
            (None, true) => bail!("a held snapshot needs a database: name one with --store"),
            (_, false) => None,
        };
        let handles: Vec<Handle> = nodes.iter().map(Node::handle).collect();
        let handle = handles.first().cloned().context("there is a node")?;
        let tenant = make_tenant(&handle, "bench").await?;
        let key = handle.create_key(&tenant, "bench", &["admin".to_owned()], None).await?;
        let key = format!("wlk_{}_{}", key.id, key.secret);
        let bench = Bench {
            handle,
            handles,
            tenant,
            clock,
            limits,
            key,
            sink,
            arrivals,
            database,
            others,
            nodes,
            _snapshot: snapshot,
            folder,
        };
        bench.fill_with(&bench.tenant, "sleep", args.stored).await?;
        Ok(bench)
    }

    /// Tells this go from others on the same database: what they published is not published again.
    pub(super) fn number(&self) -> uuid::Uuid {
        self.nodes.first().map(Node::id).unwrap_or_default()
    }

    /// A further tenant with the same definitions.
    pub(super) async fn tenant_of(&self, name: &str) -> Result<TenantId> {
        make_tenant(&self.handle, name).await
    }

    pub(super) fn start_of(&self, name: &str) -> Start {
        Start {
            definition: DefinitionRef {
                namespace: "bench".to_owned(),
                name: name.to_owned(),
                version: Some("1.0.0".to_owned()),
            },
            input: Data::object(),
            business_key: None,
            business_parts: vec![],
            idempotency_key: None,
            traceparent: None,
            tracestate: None,
            correlation_id: None,
            id: None,
        }
    }

    /// Shows on a terminal that a measurement of this many seconds goes on.
    #[allow(clippy::disallowed_methods, reason = "the length of a measurement is real time")]
    pub(super) fn progress(what: &'static str, seconds: u64) -> Measuring {
        let bar = crate::verb::def::progress(seconds, what);
        let ticked = bar.clone();
        let ticking = tokio::spawn(async move {
            for _ in 0..seconds {
                tokio::time::sleep(std::time::Duration::from_secs(1)).await;
                ticked.inc(1);
            }
        });
        Measuring { bar, ticking }
    }

    /// Stores `count` instances of a definition that waits on a timer, a bounded number in flight.
    pub(super) async fn fill_with(&self, tenant: &TenantId, definition: &str, count: u64) -> Result<()> {
        use futures_util::{StreamExt, TryStreamExt, stream};
        if count == 0 {
            return Ok(());
        }
        let bar = indicatif::ProgressBar::new(count);
        bar.set_style(indicatif::ProgressStyle::with_template(
            "filling {bar:40} {pos}/{len} {per_sec} eta {eta}",
        )?);
        stream::iter(0..count)
            .map(|_| async { self.handle.start(tenant, self.start_of(definition)).await })
            .buffer_unordered(4096)
            .try_for_each(|_| {
                bar.inc(1);
                async { Ok::<_, Refusal>(()) }
            })
            .await?;
        bar.finish_and_clear();
        Ok(())
    }

    /// How many instances of the tenant have completed.
    pub(super) async fn completed(&self, tenant: &TenantId) -> Result<u64> {
        let counts = self.handle.store().counts(Some(tenant)).await?;
        let done = counts.instances.iter().find(|(status, _)| status == "completed");
        Ok(done.map_or(0, |(_, count)| *count))
    }

    pub(super) fn cost(&self) -> Cost {
        let metrics = self.handle.metrics();
        let read = |name: &str| metrics.iter().find(|metric| metric.name == name).map_or(0.0, |m| m.value);
        Cost {
            commits: read("windlass_commits_total"),
            rows: read("windlass_rows_total"),
            bytes: read("windlass_row_bytes_total"),
        }
    }

    /// How many ended instances retention has deleted so far.
    pub(super) fn purged(&self) -> f64 {
        let metrics = self.handles.iter().flat_map(Handle::metrics);
        let purged = metrics.filter(|metric| metric.name == "windlass_instances_purged_total");
        purged.map(|metric| metric.value).sum()
    }

    /// What the database has counted so far; nothing for the embedded store.
    pub(super) async fn counted(&self) -> Result<Option<Counted>> {
        let Some((store, url)) = &self.database else { return Ok(None) };
        let counters = postgres::probe::counters(url).await?;
        let (mut statements, mut written) = (store.statements(), store.written());
        for store in &self.others {
            let more = store.written();
            statements += store.statements();
            written.batches += more.batches;
            written.commits += more.commits;
            written.statements += more.statements;
        }
        Ok(Some(Counted {
            statements: statements as f64,
            rows: counters.rows as f64,
            wal_bytes: counters.wal_bytes as f64,
            written,
            statements_per_batch: 0.0,
            commits_per_batch: 0.0,
        }))
    }

    /// What one start costs up to its first step, and one workflow from start to end.
    pub(super) async fn cost_of_one(&self) -> Result<(Cost, Cost)> {
        let before = self.cost();
        self.handle.start(&self.tenant, self.start_of("sleep")).await?;
        let started = self.cost().minus(before);
        let before = self.cost();
        let wait = Duration::from_secs(10);
        let (_, result) = self.handle.start_and_wait(&self.tenant, self.start_of("three"), wait).await?;
        if !matches!(result, runtime::api::InstanceResult::Completed(_)) {
            bail!("the workflow did not complete: {result:?}");
        }
        Ok((started, self.cost().minus(before)))
    }

    /// The limits before and after what was measured in between.
    pub(super) async fn limits_around(&self) -> Result<Limits> {
        let url = self.database.as_ref().map(|(_, url)| url.as_str());
        let (before, after) = (self.limits, Limits::measure(self.folder.path(), url).await?);
        Ok(Limits {
            raw_per_second: f64::midpoint(before.raw_per_second, after.raw_per_second),
            fsync_micros: f64::midpoint(before.fsync_micros, after.fsync_micros),
        })
    }

    /// Times the disk's sync on the disk the store is on.
    pub(super) fn syncs(&self) -> Result<probe::Syncs> {
        Ok(probe::Syncs::new(self.folder.path())?)
    }

    pub(super) async fn stop(self) {
        for node in self.nodes {
            node.stop().await;
        }
    }
}

impl Limits {
    /// Of the database at `url`, or of SQLite in `folder`.
    async fn measure(folder: &Path, url: Option<&str>) -> Result<Limits> {
        let mut syncs = probe::Syncs::new(folder)?;
        for _ in 0..200 {
            syncs.once(&elapsed)?;
        }
        let length = Duration::from_secs(1);
        let raw_per_second = match url {
            Some(url) => postgres::probe::insert_rate(url, length, &elapsed).await?,
            None => probe::insert_rate(folder, length, &elapsed)?,
        };
        Ok(Limits { raw_per_second, fsync_micros: syncs.p50_micros() })
    }
}

fn parts_of(
    store: Arc<dyn Store>,
    database: Option<&(Arc<Postgres>, String)>,
    args: &Args,
    sink: &Arc<Sink>,
) -> Parts {
    let mut parts = Parts::new(store);
    parts.sole = database.is_none();
    parts.options.dev_clock = true;
    // A workload in which everything fails measures how fast failures are dealt with, not how they are held up.
    parts.options.kill_switch = None;
    if let Some((store, _)) = database {
        parts.hints = Arc::new(store.hints());
        parts.options.batches_in_flight_max = postgres::BATCHES_MAX;
    }
    if let Some(times) = args.courtesy {
        parts.options.courtesy = times;
    }
    if let Some(commits) = args.batch_min {
        parts.options.batch_min = commits;
    }
    if let Some(batches) = args.batches {
        parts.options.batches_in_flight_max = batches;
    }
    if args.retention {
        let kept = Span::from_secs(i64::try_from(args.seconds).unwrap_or(i64::MAX / 1_000_000));
        parts.options.retention.ended = Some(kept);
        parts.options.retention.every = Span::from_secs(1);
    }
    let noop = worker::from_fn(|_, input| Outcome::Done(input));
    parts.workers.push(Declaration::new("noop", noop).concurrency_max(100_000));
    let fails = worker::from_fn(|_, _| Outcome::retry("the ledger is closed"));
    let once = worker::RetryPolicy { attempts_max: 1, ..worker::RetryPolicy::default() };
    parts.workers.push(Declaration::new(w5::FAILS, fails).retry(once).concurrency_max(100_000));
    parts.workers.extend(sink.workers());
    parts
}

async fn make_tenant(handle: &Handle, name: &str) -> Result<TenantId> {
    let tenant = TenantId::new(name)?;
    match handle.create_tenant(&tenant, name).await {
        Ok(()) | Err(Refusal::Conflict { .. }) => {}
        Err(refusal) => return Err(refusal.into()),
    }
    for source in [THREE, SLEEP, MAP, PURE, CALL, FAULT, w5::FAIL] {
        handle.deploy(&tenant, source.as_bytes(), Format::Yaml, false).await?;
    }
    Ok(tenant)
}

async fn open_database(store: &str) -> Result<Option<(Arc<Postgres>, String)>> {
    if store == "sqlite" {
        return Ok(None);
    }
    anyhow::ensure!(
        store.starts_with("postgres"),
        "store {store:?} is not known; use sqlite or a postgres:// URL"
    );
    postgres::migrate(store, None).await?;
    Ok(Some((Arc::new(Postgres::open(store).await?), store.to_owned())))
}

impl Counted {
    pub(super) fn per_unit(self, before: Counted, units: usize) -> Counted {
        let units = units.max(1) as f64;
        let batches = (self.written.batches - before.written.batches).max(1) as f64;
        Counted {
            statements_per_batch: (self.written.statements - before.written.statements) as f64 / batches,
            commits_per_batch: (self.written.commits - before.written.commits) as f64 / batches,
            written: self.written,
            statements: (self.statements - before.statements) / units,
            rows: (self.rows - before.rows) / units,
            wal_bytes: (self.wal_bytes - before.wal_bytes) / units,
        }
    }
}

impl Cost {
    pub(super) fn minus(self, other: Cost) -> Cost {
        Cost {
            commits: self.commits - other.commits,
            rows: self.rows - other.rows,
            bytes: self.bytes - other.bytes,
        }
    }
}

pub(super) fn elapsed() -> Duration {
    Duration::from_micros(SystemClock.steady_micros())
}

pub(super) fn now_ms(clock: &SystemClock) -> f64 {
    clock.steady_micros() as f64 / 1000.0
}

/// A bar over the seconds of a measurement; gone when dropped.
pub(super) struct Measuring {
    bar: indicatif::ProgressBar,
    ticking: tokio::task::JoinHandle<()>,
}

impl Drop for Measuring {
    fn drop(&mut self) {
        self.ticking.abort();
        self.bar.finish_and_clear();
    }
}
