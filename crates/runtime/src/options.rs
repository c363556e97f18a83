//! Every bound and period of the runtime, with its default.

use machine::{retry::RetryPolicy, time::Span};

/// How a node behaves. Each `_max` is a bound on memory or on work in flight.
#[derive(Clone, Debug)]
pub struct Options {
    /// Commits one batch holds at most.
    pub batch_max: usize,
    /// Batches handed to the store and not yet answered.
    pub batches_in_flight_max: usize,
    /// Commits waiting for a batch; beyond it callers wait.
    pub commits_queued_max: usize,
    /// Signals and timers in memory whose turns are not yet finished; beyond it they stay in the store.
    pub turns_in_flight_max: usize,
    /// Calls of one tenant kept in memory; beyond it they stay in the store.
    pub calls_queued_per_tenant_max: usize,
    /// Calls being handled at once.
    pub calls_in_flight_max: usize,
    /// Rows one claim takes.
    pub claim_max: usize,
    /// The safety re-scan that catches whatever a lost wake left behind. `None` only in tests that break it.
    pub rescan: Option<Span>,
    pub lease: Span,
    /// Failed turns before a signal or timer becomes a dead letter.
    pub poison: RetryPolicy,
    /// How long a graceful stop waits for work in flight.
    pub stop_grace: Span,
    /// Time limit of an HTTP call.
    pub http_timeout: Span,
    /// Bytes of an HTTP response or a worker's answer that are taken.
    pub answer_bytes_max: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            batch_max: 512,
            batches_in_flight_max: 2,
            commits_queued_max: 8192,
            turns_in_flight_max: 4096,
            calls_queued_per_tenant_max: 16_384,
            calls_in_flight_max: 1024,
            claim_max: 512,
            rescan: Some(Span::from_secs(30)),
            lease: Span::from_secs(15),
            poison: RetryPolicy {
                attempts_max: 6,
                base: Span::from_millis(200),
                factor: 3.0,
                cap: Span::from_secs(60),
            },
            stop_grace: Span::from_secs(10),
            http_timeout: Span::from_secs(30),
            answer_bytes_max: 1024 * 1024,
        }
    }
}
