//! Retention: deletes what ended long ago, a small page at a time, so that no commit waits long behind it.
//!
//! A sweep goes over every ended instance once, oldest first; the store keeps what is still needed. One node at a time
//! sweeps: it holds a lock from one sweep to the next, and another gets it when that node is gone. Two sweeps at once would do
//! the same twice and no harm.

use crate::{audit, engine::Engine, metrics::Metrics, tenants};
use machine::{Time, time::Span};
use std::sync::Arc;
use store::{
    Hint, HostLock,
    views::{PURGE_MAX, Purge},
};

/// When what a tenant left is tried again after a failure.
const AGAIN: Span = Span::from_secs(10);
/// Between two pages, so that commits of others get in.
const PAUSE: Span = Span::from_millis(10);
/// No idempotency key is forgotten sooner, whatever is configured.
pub const KEYS_MIN: Span = Span::from_secs(86_400);

/// Rows of a deleted tenant that one transaction deletes.
const TENANT_ROWS_MAX: usize = 2_000;

/// A lock on sweeping lasts so long at least.
const LEASE_MS_MIN: i64 = 60_000;

/// How long what has ended is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Completed and cancelled instances, from their end on. `None`: for ever.
    pub ended: Option<Span>,
    /// Faulted ones; never while a dead letter of theirs is there. `None`: for ever.
    pub faulted: Option<Span>,
    /// Idempotency keys of starts and of workers; at least [`KEYS_MIN`], those of workers until nothing is left that they may be
    /// for. `None`: for ever.
    pub keys: Option<Span>,
    /// How often to look.
    pub every: Span,
}

impl Default for Retention {
    fn default() -> Retention {
        const DAY: i64 = 86_400;
        Retention {
            ended: Some(Span::from_secs(30 * DAY)),
            faulted: Some(Span::from_secs(180 * DAY)),
            keys: Some(Span::from_secs(7 * DAY)),
            every: Span::from_secs(3600),
        }
    }
}

impl Retention {
    /// What may go at `now`.
    fn allows(&self, now: Time, retry_longest: Span) -> Purge {
        let before =
            |kept: Option<Span>| kept.map_or(Time(i64::MIN), |kept| Time(now.0.saturating_sub(kept.0)));
        Purge {
            ended_before: before(self.ended),
            faulted_before: before(self.faulted),
            keys_before: before(self.keys.map(|kept| kept.max(KEYS_MIN))),
            keys_kept: self.keys.map_or(Span::ZERO, |kept| kept.max(KEYS_MIN)),
            retry_longest,
            after: None,
            limit: PURGE_MAX,
        }
    }
}

/// Sweeps now and then until the node stops.
pub(crate) async fn run(engine: Arc<Engine>) {
    let stopping = engine.tasks.stopping.clone();
    loop {
        // Jitter keeps nodes from sweeping together.
        let every = engine.options.retention.every.0 as f64 * (0.8 + 0.4 * engine.entropy.unit());
        let sweep_at = engine.now().after(Span(every as i64));
        while engine.now() < sweep_at {
            let until = engine.wake.departures.next().min(sweep_at);
            if engine.now() < until {
                tokio::select! {
                    biased;
                    () = stopping.cancelled() => return,
                    () = engine.wake.departures.sooner() => {}
                    () = engine.clock.sleep_until(until) => {}
                }
                continue;
            }
            engine.wake.departures.reset();
            if let Err(error) = departures(&engine).await {
                engine.tasks.heed(&error);
                tracing::warn!(%error, "deleting what a tenant left failed; it goes on in a moment");
                engine.wake.departures.at(engine.now().after(AGAIN));
            }
        }
        if let Err(error) = sweep(&engine).await {
            engine.tasks.heed(&error);
            tracing::warn!(%error, "deleting what ended long ago failed; the next sweep goes on");
        }
    }
}

/// True if this node is the one that deletes what is old.
pub(crate) async fn is_this_nodes(engine: &Engine) -> Result<bool, store::Error> {
    if engine.sole {
        return Ok(true);
    }
    // The next sweep comes before this is over.
    let lease_ms = (engine.options.retention.every.0 / 500).max(LEASE_MS_MIN);
    engine.store.hold(HostLock::Retention, engine.node, engine.now(), lease_ms).await
}

/// Deletes what tenants left whose time of grace is over, page by page.
async fn departures(engine: &Arc<Engine>) -> Result<(), store::Error> {
    if let Some(next) = engine.tenants.next_departure().filter(|at| *at > engine.now()) {
        engine.wake.departures.at(next);
    }
    if !is_this_nodes(engine).await? {
        return Ok(());
    }
    let mut rows = 0;
    while !engine.is_stopping() {
        let Some(purged) = engine.store.purge_tenant(engine.now(), TENANT_ROWS_MAX).await? else { break };
        rows += purged.rows;
        if purged.gone {
            Metrics::add(&engine.metrics.tenants_purged);
            tracing::info!(tenant = %purged.tenant, rows, "a deleted tenant is gone");
            rows = 0;
            tenants::reload(engine).await?;
            engine.hints.tell(Hint { clocks: true, ..Hint::default() });
        }
        engine.clock.sleep_until(engine.now().after(PAUSE)).await;
    }
    Ok(())
}

async fn sweep(engine: &Arc<Engine>) -> Result<(), store::Error> {
    departures(engine).await?;
    if !is_this_nodes(engine).await? {
        return Ok(());
    }
    let mut purge = engine.options.retention.allows(engine.now(), engine.subscribers.retry_longest());
    let (mut instances, mut keys, mut slots, mut batches) = (0, 0, 0, 0);
    while !engine.is_stopping() {
        let purged = engine.store.purge(&purge).await?;
        Metrics::add_many(&engine.metrics.instances_purged, purged.instances);
        Metrics::add_many(&engine.metrics.keys_purged, purged.keys);
        instances += purged.instances;
        keys += purged.keys;
        slots += purged.slots;
        batches += purged.batches;
        let most = purged.keys.max(purged.slots).max(purged.batches);
        if purged.next.is_none() && most < PURGE_MAX as u64 {
            break;
        }
        // Others may go on when instances do not: the last mark then finds no instance again.
        purge.after = purged.next.or(Some((Time(i64::MAX), uuid::Uuid::max())));
        engine.clock.sleep_until(engine.now().after(PAUSE)).await;
    }
    while !engine.is_stopping() && engine.store.retire(purge.ended_before).await? {
        engine.clock.sleep_until(engine.now().after(PAUSE)).await;
    }
    audit::cut(engine).await?;
    if instances + keys + slots + batches > 0 {
        tracing::info!(instances, keys, slots, batches, "deleted what ended long ago");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_never_forgotten_within_a_day() {
        let short = Retention { keys: Some(Span::from_secs(1)), ..Retention::default() };
        let now = Time(10 * KEYS_MIN.0);
        assert_eq!(short.allows(now, Span::ZERO).keys_before, Time(9 * KEYS_MIN.0));
    }

    #[test]
    fn nothing_goes_that_is_kept_for_ever() {
        let kept = Retention { ended: None, faulted: None, keys: None, ..Retention::default() };
        let purge = kept.allows(Time(0), Span::ZERO);
        let never = Time(i64::MIN);
        assert_eq!((purge.ended_before, purge.faulted_before, purge.keys_before), (never, never, never));
    }
}
