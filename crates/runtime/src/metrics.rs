//! Counters of one node since its start.

mod series;

use crate::handle::Metric;
use parking_lot::Mutex;
pub(crate) use series::Of;
use series::Series;
use std::sync::atomic::{AtomicU64, Ordering};

/// Per-tenant counts of what happened to messages (calls, signals, timers).
#[derive(Default)]
pub(crate) struct Metrics {
    pub(crate) instances_started: AtomicU64,
    pub(crate) instances_ended: AtomicU64,
    pub(crate) commits: AtomicU64,
    pub(crate) rows: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) conflicts: AtomicU64,
    /// Commands that changed nothing: late timers, duplicate signals.
    pub(crate) stale: AtomicU64,
    /// Errors recorded, the commits that were to record them, and their statements.
    pub(crate) errors: AtomicU64,
    pub(crate) error_flushes: AtomicU64,
    pub(crate) error_writes: AtomicU64,
    pub(crate) instances_purged: AtomicU64,
    pub(crate) keys_purged: AtomicU64,
    pub(crate) tenants_purged: AtomicU64,
    pub(crate) foreign_events: AtomicU64,
    /// Records that were given another list of who may do what.
    pub(crate) acl_records: AtomicU64,
    messages: Mutex<Series>,
}

impl Metrics {
    pub(crate) fn new(series_max: usize) -> Metrics {
        Metrics { messages: Mutex::new(Series::new(series_max)), ..Metrics::default() }
    }

    pub(crate) fn add(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn add_many(counter: &AtomicU64, count: u64) {
        counter.fetch_add(count, Ordering::Relaxed);
    }

    /// Counts what is on its way into the store.
    pub(crate) fn cost(&self, commit: &store::Commit) {
        let cost = commit.cost();
        self.rows.fetch_add(cost.rows, Ordering::Relaxed);
        self.bytes.fetch_add(cost.bytes, Ordering::Relaxed);
        self.error_writes.fetch_add(cost.error_writes, Ordering::Relaxed);
    }

    /// Counts one message that is no event.
    pub(crate) fn message(&self, tenant: &str, target: &str, outcome: &'static str, micros: u64) {
        self.messages(Of { tenant, target, event_type: "", outcome }, 1, micros);
    }

    /// Counts several that were handled as one.
    pub(crate) fn messages(&self, of: Of<'_>, count: u64, micros: u64) {
        self.messages.lock().add(of, count, micros);
    }

    /// Nothing is said of a tenant that is gone.
    pub(crate) fn forget(&self, tenant: &str) {
        self.messages.lock().forget(tenant);
    }

    pub(crate) fn read(&self) -> Vec<Metric> {
        let plain = [
            ("windlass_instances_started_total", "instances started", &self.instances_started),
            ("windlass_instances_ended_total", "instances that came to an end", &self.instances_ended),
            ("windlass_commits_total", "commits made durable", &self.commits),
            ("windlass_rows_total", "rows written or deleted", &self.rows),
            ("windlass_row_bytes_total", "payload bytes of rows written", &self.bytes),
            ("windlass_conflicts_total", "commits that lost to another", &self.conflicts),
            ("windlass_stale_total", "late or duplicate commands that changed nothing", &self.stale),
            ("windlass_errors_total", "failures recorded by the error flush", &self.errors),
            ("windlass_error_flushes_total", "commits of the error flush", &self.error_flushes),
            ("windlass_error_writes_total", "statements that record errors", &self.error_writes),
            (
                "windlass_instances_purged_total",
                "ended instances deleted by retention",
                &self.instances_purged,
            ),
            ("windlass_keys_purged_total", "idempotency keys deleted by retention", &self.keys_purged),
            ("windlass_tenants_purged_total", "deleted tenants that are gone for good", &self.tenants_purged),
            (
                "windlass_foreign_events_total",
                "events that named another tenant and were not handed to a worker",
                &self.foreign_events,
            ),
            (
                "windlass_acl_records_total",
                "records that were given another list of who may do what",
                &self.acl_records,
            ),
        ];
        let mut all: Vec<Metric> = plain
            .into_iter()
            .map(|(name, help, counter)| Metric {
                name,
                help,
                kind: "counter",
                labels: vec![],
                value: counter.load(Ordering::Relaxed) as f64,
            })
            .collect();
        for (of, count, micros) in self.messages.lock().iter() {
            let labels = vec![
                ("tenant", of.tenant.to_owned()),
                ("target", of.target.to_owned()),
                ("event_type", of.event_type.to_owned()),
                ("outcome", of.outcome.to_owned()),
            ];
            all.push(Metric {
                name: "windlass_messages_total",
                help: "calls and deliveries handled, by tenant, target, event type and outcome",
                kind: "counter",
                labels: labels.clone(),
                value: count as f64,
            });
            all.push(Metric {
                name: "windlass_messages_seconds_total",
                help: "time spent handling calls and deliveries",
                kind: "counter",
                labels,
                value: micros as f64 / 1e6,
            });
        }
        all
    }
}
