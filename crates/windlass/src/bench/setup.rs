//! A node on a fresh store, with the definitions and workers the workloads use.

use super::Args;
use anyhow::{Context, Result, bail};
use machine::{Data, TenantId, language::Format};
use runtime::{
    Handle, Node, Parts,
    api::{DefinitionRef, Refusal, Start},
    clock::{Clock, SystemClock},
};
use std::{
    path::{Path, PathBuf},
    time::Duration,
};
use store::sqlite::{Sqlite, probe};
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
    pub(super) tenant: TenantId,
    pub(super) clock: SystemClock,
    /// What the machine itself does, measured before anything else.
    pub(super) limits: Limits,
    /// Secret of an API key, for going through HTTP.
    pub(super) key: String,
    node: Node,
    // The folder goes when this does.
    folder: tempfile::TempDir,
}

/// What the disk and SQLite can do at the moment. Machines are shared, so the moment matters.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) raw_per_second: f64,
    pub(super) fsync_micros: f64,
}

/// Counters of the cost model.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cost {
    pub(super) commits: f64,
    pub(super) rows: f64,
    pub(super) bytes: f64,
}

impl Bench {
    pub(super) async fn new(args: &Args) -> Result<Bench> {
        let parent = args.data.clone().unwrap_or_else(|| PathBuf::from("."));
        std::fs::create_dir_all(&parent).with_context(|| format!("cannot create {}", parent.display()))?;
        let folder = tempfile::Builder::new().prefix("windlass-bench-").tempdir_in(&parent)?;
        let clock = SystemClock;
        let limits = Limits::measure(folder.path())?;
        let store = Sqlite::open(folder.path().join("bench.db"))?.shared();
        let mut parts = Parts::new(store);
        parts.sole = true;
        parts.workers.push(
            Declaration::new("noop", worker::from_fn(|_, input| Outcome::Done(input)))
                .concurrency_max(100_000),
        );
        let node = Node::start(parts).await?;
        let handle = node.handle();
        let tenant = TenantId::new("bench")?;
        handle.create_tenant(&tenant, "bench").await?;
        let key = handle.create_key(&tenant, "bench", &["admin".to_owned()], None).await?;
        for source in [THREE, SLEEP, MAP, PURE, CALL, FAULT] {
            handle.deploy(&tenant, source.as_bytes(), Format::Yaml, false).await?;
        }
        let key = format!("wlk_{}_{}", key.id, key.secret);
        let bench = Bench { handle, tenant, clock, limits, key, node, folder };
        bench.fill(args.stored).await?;
        Ok(bench)
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

    /// Stores `count` instances that wait on a timer, a bounded number in flight.
    async fn fill(&self, count: u64) -> Result<()> {
        use futures_util::{StreamExt, TryStreamExt, stream};
        if count == 0 {
            return Ok(());
        }
        let bar = indicatif::ProgressBar::new(count);
        bar.set_style(indicatif::ProgressStyle::with_template(
            "filling {bar:40} {pos}/{len} {per_sec} eta {eta}",
        )?);
        stream::iter(0..count)
            .map(|_| async { self.handle.start(&self.tenant, self.start_of("sleep")).await })
            .buffer_unordered(4096)
            .try_for_each(|_| {
                bar.inc(1);
                async { Ok::<_, Refusal>(()) }
            })
            .await?;
        bar.finish_and_clear();
        Ok(())
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
    pub(super) fn limits_around(&self) -> Result<Limits> {
        let (before, after) = (self.limits, Limits::measure(self.folder.path())?);
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
        self.node.stop().await;
    }
}

impl Limits {
    fn measure(folder: &Path) -> Result<Limits> {
        let mut syncs = probe::Syncs::new(folder)?;
        for _ in 0..200 {
            syncs.once(&elapsed)?;
        }
        let raw_per_second = probe::insert_rate(folder, Duration::from_secs(1), &elapsed)?;
        Ok(Limits { raw_per_second, fsync_micros: syncs.p50_micros() })
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
