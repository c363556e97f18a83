//! What other nodes say: somebody left work for all, moved a clock, or ended an instance. Never truth: whoever is told
//! looks into the store, and the re-scan finds what nobody told.

use crate::{clocks, engine::Engine, finder};
use machine::time::Span;
use std::sync::Arc;
use store::{Hint, hint::Ended};

/// Everybody who waits for an end looks into the store at most this often: under load each hint would make them all look.
const ALL_LOOK_WAIT: Span = Span::from_secs(1);
/// Who waits for an instance that this node is carrying on looks only every so many times: it is most likely this node
/// that will end it, and with two busy nodes every waiter of both would ask the store every second.
const OWN_LOOK_EVERY: u64 = 10;

/// Passes on what is heard until the node stops.
pub(crate) async fn run(engine: Arc<Engine>) {
    let stopping = engine.tasks.stopping.clone();
    let (mut all_look_at, mut looks) = (None, 0_u64);
    loop {
        let all_look = async {
            match all_look_at {
                Some(at) => engine.clock.sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        let hint = tokio::select! {
            biased;
            () = stopping.cancelled() => return,
            () = all_look => {
                looks += 1;
                let spares_own = !looks.is_multiple_of(OWN_LOOK_EVERY);
                engine.hub.may_have_ended(&Ended::Many, |key| spares_own && engine.slots.has(key));
                all_look_at = None;
                continue;
            }
            hint = engine.hints.heard() => hint,
        };
        if hint.ended == Ended::Many && all_look_at.is_none() {
            all_look_at = Some(engine.now().after(ALL_LOOK_WAIT));
        }
        heed(&engine, hint).await;
    }
}

async fn heed(engine: &Arc<Engine>, hint: Hint) {
    if hint.clocks {
        finder::remind(engine).await;
    }
    if hint.clocks && engine.options.dev_clock {
        if let Err(error) = clocks::reload(engine).await {
            engine.tasks.heed(&error);
            tracing::warn!(%error, "reading the clocks of tenants failed");
        }
        engine.wake.slots.at(engine.now());
    }
    if hint.outbox {
        engine.wake.outbox();
    }
    if hint.queues {
        engine.wake.at(engine.now());
        engine.wake.deliveries.at(engine.now());
        engine.wake.batches.at(engine.now());
        engine.wake.acl.at(engine.now());
        engine.buses.wake(engine.now());
        engine.webhooks.alarm.at(engine.now());
        engine.polled.notify_waiters();
    }
    if hint.ended != Ended::Many {
        engine.hub.may_have_ended(&hint.ended, |_| false);
    }
}

impl Engine {
    /// Work that any node may do is due: this one looks, and the others are told.
    pub(crate) fn backlog(&self) {
        self.wake.at(self.now());
        self.polled.notify_waiters();
        self.hints.tell(Hint::queues());
    }

    /// The clock was moved: what was to come later may be due, or be far off, so that every pump looks anew.
    pub(crate) fn look_again(&self) {
        let now = self.now();
        self.wake.all(now);
        self.webhooks.alarm.at(now);
        self.buses.wake(now);
        self.polled.notify_waiters();
    }
}
