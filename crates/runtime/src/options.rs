//! Every bound and period of the runtime, with its default.

use crate::{breaker::BreakerRule, egress, retention::Retention};
use machine::{ir::Lifecycle, retry::RetryPolicy, time::Span};
use std::collections::BTreeMap;
use worker::Declaration;

/// How a node behaves. Each `_max` is a bound on memory or on work in flight.
#[derive(Clone, Debug)]
pub struct Options {
    /// Commits one batch holds at most.
    pub batch_max: usize,
    /// Commits that have to wait for another batch to be handed to the store beside those in flight.
    pub batch_min: usize,
    /// Batches handed to the store and not yet answered.
    pub batches_in_flight_max: usize,
    /// While tenants with little to commit are about, those with much pause after each of their batches for so many times
    /// its length; 0: never.
    pub courtesy: f64,
    /// Commits waiting for a batch; beyond it starts and signals are refused as busy and turns wait.
    pub commits_queued_max: usize,
    /// Signals and timers in memory whose turns are not yet finished; beyond it they stay in the store.
    pub turns_in_flight_max: usize,
    /// Calls of one tenant kept in memory; beyond it they stay in the store.
    pub calls_queued_per_tenant_max: usize,
    /// Calls being handled at once; one tenant takes half of them at most while calls of others wait.
    pub calls_in_flight_max: usize,
    /// Events for workers of one tenant kept in memory; beyond it they stay in the store.
    pub deliveries_queued_per_tenant_max: usize,
    /// Calls of handlers of events being made at once.
    pub deliveries_in_flight_max: usize,
    /// Rows one claim takes.
    pub claim_max: usize,
    /// The safety re-scan that catches whatever a lost wake left behind. `None` only in tests that break it.
    pub rescan: Option<Span>,
    pub lease: Span,
    /// Failed turns before a signal or timer becomes a dead letter.
    pub poison: RetryPolicy,
    /// Errors that one flush records at most; so many of a tenant are recorded at once.
    pub errors_flushed_max: usize,
    /// How long fewer wait to be recorded and acknowledged.
    pub errors_kept: Span,
    /// Nodes that may end while they have a signal, a timer, a call or a delivery before it becomes a dead letter: what it
    /// leads to may be what ends them.
    pub taken_over_max: u32,
    /// How long a graceful stop waits for work in flight.
    pub stop_grace: Span,
    /// Rules of outward calls.
    pub egress: egress::Settings,
    /// Time limit of an HTTP call.
    pub http_timeout: Span,
    /// Bytes of an HTTP response or a worker's answer that are taken.
    pub answer_bytes_max: usize,
    /// Which changes of instances are told as events at least; a definition may ask for more.
    pub lifecycle: Lifecycle,
    /// The address under which others reach the API, without a slash at its end; signal tokens name it.
    pub public_url: String,
    /// How long an event that nothing has taken is offered to listen steps that begin.
    pub events_kept: Span,
    /// Emitted events that may follow each other; one more is a loop, and a dead letter.
    pub hops_max: u32,
    /// How long what has ended is kept.
    pub retention: Retention,
    /// How long entries of the audit trail are kept. `None`: for ever.
    pub audit_kept: Option<Span>,
    /// Clocks of tenants may be moved forward, for trying things out.
    pub dev_clock: bool,
    /// When the breaker of an endpoint opens; `None`: never.
    pub endpoint_breaker: Option<BreakerRule>,
    /// When a worker is given a pause because nearly everything it handles fails; `None`: never.
    pub kill_switch: Option<BreakerRule>,
    /// Whether retries to a worker or an endpoint are held to a fifth of its attempts.
    pub retry_budget: bool,
    /// Combinations of tenant, target, event type and outcome that metrics tell apart; the rest is `other`.
    pub metrics_series_max: usize,
    /// Whether definitions may have scripts (`run.script`).
    pub scripts: bool,
    /// What an operator says of workers of the node, by name; it counts more than their declarations.
    pub workers: BTreeMap<String, WorkerOptions>,
}

/// What an operator says of a worker. What is not given is as it is declared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkerOptions {
    /// Calls of it at once, on one node.
    pub concurrency_max: Option<usize>,
    /// Events for it that one node keeps in memory; beyond it they stay in the store.
    pub prefetch_max: Option<usize>,
}

impl Options {
    /// The worker as it is to be used.
    pub(crate) fn over(&self, mut worker: Declaration) -> Declaration {
        let Some(said) = self.workers.get(&worker.name) else { return worker };
        worker.concurrency_max = said.concurrency_max.unwrap_or(worker.concurrency_max);
        if let Some(on) = &mut worker.on {
            on.prefetch_max = said.prefetch_max.or(on.prefetch_max);
        }
        worker
    }

    /// What is said of workers and cannot be meant, if anything.
    pub(crate) fn worker_problem(&self, workers: &[Declaration]) -> Option<String> {
        self.workers.iter().find_map(|(name, said)| {
            let worker = workers.iter().find(|worker| worker.name == *name);
            let none = [said.concurrency_max, said.prefetch_max].contains(&Some(0));
            match worker {
                None => Some(format!("workers.{name}: this node has no worker of that name")),
                Some(_) if none => Some(format!("workers.{name}: a bound is 1 at least")),
                Some(worker) if said.prefetch_max.is_some() && worker.on.is_none() => {
                    Some(format!("workers.{name}: it handles no events, so nothing is fetched ahead"))
                }
                Some(_) => None,
            }
        })
    }
}

impl Default for Options {
    fn default() -> Options {
        Options {
            batch_max: 512,
            batch_min: 1,
            batches_in_flight_max: 2,
            courtesy: 1.0,
            commits_queued_max: 8192,
            turns_in_flight_max: 4096,
            calls_queued_per_tenant_max: 16_384,
            calls_in_flight_max: 1024,
            deliveries_queued_per_tenant_max: 16_384,
            deliveries_in_flight_max: 1024,
            claim_max: 512,
            rescan: Some(Span::from_secs(30)),
            lease: Span::from_secs(15),
            poison: RetryPolicy {
                attempts_max: 6,
                base: Span::from_millis(200),
                factor: 3.0,
                cap: Span::from_secs(60),
            },
            errors_flushed_max: 100,
            errors_kept: Span::from_secs(2),
            taken_over_max: 10,
            stop_grace: Span::from_secs(10),
            egress: egress::Settings::default(),
            http_timeout: Span::from_secs(30),
            answer_bytes_max: 1024 * 1024,
            lifecycle: Lifecycle::None,
            public_url: String::new(),
            events_kept: Span::from_secs(86_400),
            hops_max: 100,
            retention: Retention::default(),
            audit_kept: None,
            dev_clock: false,
            endpoint_breaker: Some(BreakerRule::ENDPOINT),
            kill_switch: Some(BreakerRule::WORKER),
            retry_budget: true,
            metrics_series_max: 2_000,
            scripts: false,
            workers: BTreeMap::new(),
        }
    }
}

impl Options {
    /// What no node can work with, if anything.
    pub fn problem(&self) -> Option<String> {
        let counts = [
            ("batch_max", self.batch_max),
            ("batch_min", self.batch_min),
            ("batches_in_flight_max", self.batches_in_flight_max),
            ("commits_queued_max", self.commits_queued_max),
            ("turns_in_flight_max", self.turns_in_flight_max),
            ("calls_queued_per_tenant_max", self.calls_queued_per_tenant_max),
            ("calls_in_flight_max", self.calls_in_flight_max),
            ("deliveries_queued_per_tenant_max", self.deliveries_queued_per_tenant_max),
            ("deliveries_in_flight_max", self.deliveries_in_flight_max),
            ("claim_max", self.claim_max),
            ("errors_flushed_max", self.errors_flushed_max),
            ("answer_bytes_max", self.answer_bytes_max),
            ("metrics_series_max", self.metrics_series_max),
            ("taken_over_max", self.taken_over_max as usize),
            ("poison.attempts_max", self.poison.attempts_max as usize),
        ];
        if let Some((name, _)) = counts.iter().find(|(_, count)| *count == 0) {
            return Some(format!("{name} must be at least 1"));
        }
        let spans = [
            ("lease", Some(self.lease)),
            ("rescan", self.rescan),
            ("http_timeout", Some(self.http_timeout)),
            ("retention.every", Some(self.retention.every)),
        ];
        let short = spans.iter().find(|(_, span)| span.is_some_and(|span| span < Span::from_millis(3)));
        short.map(|(name, _)| format!("{name} must be at least 3 ms"))
    }
}
