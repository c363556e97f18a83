//! Every bound and period of the runtime, with its default.

use crate::{breaker::BreakerRule, egress, retention::Retention};
use machine::{ir::Lifecycle, retry::RetryPolicy, time::Span};

/// How a node behaves. Each `_max` is a bound on memory or on work in flight.
#[derive(Clone, Debug)]
pub struct Options {
    /// Commits one batch holds at most.
    pub batch_max: usize,
    /// Commits that have to wait for another batch to be handed to the store beside those in flight.
    pub batch_min: usize,
    /// Batches handed to the store and not yet answered.
    pub batches_in_flight_max: usize,
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
    /// How long what has ended is kept.
    pub retention: Retention,
    /// Clocks of tenants may be moved forward, for trying things out.
    pub dev_clock: bool,
    /// When the breaker of an endpoint opens; `None`: never.
    pub endpoint_breaker: Option<BreakerRule>,
    /// When a worker is given a pause because nearly everything it handles fails; `None`: never.
    pub kill_switch: Option<BreakerRule>,
    /// Whether retries to a worker are held to a fifth of its attempts.
    pub retry_budget: bool,
    /// Whether definitions may have scripts (`run.script`).
    pub scripts: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            batch_max: 512,
            batch_min: 1,
            batches_in_flight_max: 2,
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
            retention: Retention::default(),
            dev_clock: false,
            endpoint_breaker: Some(BreakerRule::ENDPOINT),
            kill_switch: Some(BreakerRule::WORKER),
            retry_budget: true,
            scripts: false,
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
