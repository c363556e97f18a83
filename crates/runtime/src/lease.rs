//! Keeps the node's lease and takes over nodes whose lease has ended.
//!
//! A renewal waits for nothing but the store's answer to it. A take-over may have to wait for what the other node left in
//! flight, for as long as the store lets it; it goes on beside the renewals, one at a time.

use crate::{calls, clock::Clock, deliveries, engine::Engine, outage::Outage};
use machine::{Time, time::Span};
use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};
use store::{Hint, Renewed};

/// Of a lease that was not renewed, the part within which effects are still begun: five sixths. Two renewals are missed by
/// then, and the last sixth is for what was begun to reach whom it is for.
const BEGINS_WITHIN: (i64, i64) = (5, 6);

/// What the node knows of its lease.
pub(crate) struct Lease {
    lasts: Span,
    /// Nobody else can take over where nobody else can be.
    sole: bool,
    clock: Arc<dyn Clock>,
    /// When the last renewal that was answered was asked for, in microseconds of the steady clock.
    renewed_at: AtomicU64,
}

impl Lease {
    pub(crate) fn new(lasts: Span, sole: bool, clock: Arc<dyn Clock>, joined_at: u64) -> Lease {
        Lease { lasts, sole, clock, renewed_at: AtomicU64::new(joined_at) }
    }

    /// False once the lease may have ended: another node may take this one over at any moment.
    pub(crate) fn holds(&self) -> bool {
        self.age().is_some_and(|age| age < self.lasts.0)
    }

    /// False once a renewal is overdue: they come every third of a lease.
    pub(crate) fn was_renewed_lately(&self) -> bool {
        self.age().is_some_and(|age| age < self.lasts.0 / 2)
    }

    /// False once so much of the lease is over that another node may soon do what this one begins now.
    pub(crate) fn may_begin(&self) -> bool {
        let (part, of) = BEGINS_WITHIN;
        self.sole || self.age().is_some_and(|age| age < self.lasts.0 / of * part)
    }

    fn renewed(&self, asked_at: u64) {
        self.renewed_at.store(asked_at, Ordering::Relaxed);
    }

    /// How long ago the last renewal was asked for, by a clock that goes on while the process stands still.
    fn age(&self) -> Option<i64> {
        let age = self.clock.steady_micros().saturating_sub(self.renewed_at.load(Ordering::Relaxed));
        i64::try_from(age).ok()
    }
}

/// Whether a take-over is under way.
#[derive(Default)]
pub(crate) struct TakingOver(AtomicBool);

/// Renews the lease every third of it and takes over nodes whose lease ended.
pub(crate) async fn keep(engine: Arc<Engine>) {
    let stopping = engine.tasks.stopping.clone();
    let period = Span(engine.options.lease.0 / 3);
    let mut pause = period;
    let mut outage = Outage::new("renewing the lease");
    loop {
        let until = engine.now().after(pause);
        tokio::select! {
            biased;
            () = stopping.cancelled() => return,
            () = engine.clock.sleep_until(until) => {}
        }
        let asked_at = engine.clock.steady_micros();
        match engine.store.renew(engine.node, engine.now(), engine.options.lease.as_millis()).await {
            Ok(Renewed { another_ended, now, nodes }) => {
                outage.worked();
                engine.lease.renewed(asked_at);
                pause = period;
                if now.is_some_and(|now| engine.clock.heard(now, asked_at)) {
                    engine.look_again();
                }
                engine.committer.share(nodes);
                // Where nobody asks for anything, the lease is what finds out that there is room again.
                engine.committer.try_again();
                // What was not begun because the lease was too old.
                calls::pump(&engine);
                deliveries::pump(&engine);
                if another_ended && !engine.sole {
                    begin_take_over(&engine);
                }
            }
            Err(error) => {
                engine.tasks.heed(&error);
                outage.failed(&error);
                // Every moment counts now, but one that does not answer is not helped by being asked without end.
                pause = Span(period.0 / 5);
            }
        }
    }
}

/// Takes over what ended nodes left, unless that is being done; nobody waits for it. A try that fails is made again after
/// the next renewal.
pub(crate) fn begin_take_over(engine: &Arc<Engine>) {
    if engine.taking_over.0.swap(true, Ordering::SeqCst) {
        return;
    }
    let taking = engine.clone();
    engine.tasks.spawn_pump(async move {
        let taken = take_over(&taking, taking.now()).await;
        taking.taking_over.0.store(false, Ordering::SeqCst);
        if let Err(error) = taken {
            taking.tasks.heed(&error);
            tracing::warn!(%error, "take-over failed; it is tried again");
        }
    });
}

/// Makes backlog of the rows of nodes whose lease ended before `until`.
pub(crate) async fn take_over(engine: &Engine, until: Time) -> Result<(), store::Error> {
    let rows = engine.store.take_over(engine.node, until).await?;
    if rows > 0 {
        tracing::info!(rows, "took over work left behind");
    }
    // That node may have been the only one awake, also for what has no owner.
    engine.look_again();
    engine.hints.tell(Hint::queues());
    Ok(())
}
