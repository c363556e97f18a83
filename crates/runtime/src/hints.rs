//! What other nodes say: somebody left work for all, moved a clock, or ended an instance. Never truth: whoever is told
//! looks into the store, and the re-scan finds what nobody told.

use crate::{clocks, engine::Engine, finder};
use machine::time::Span;
use std::sync::Arc;
use store::{Hint, hint::Ended};

/// Everybody who waits for an end looks into the store at most this often: under load each hint would make them all look.
const ALL_LOOK_WAIT: Span = Span::from_secs(1);

/// Passes on what is heard until the node stops.
pub(crate) async fn run(engine: Arc<Engine>) {
    let stopping = engine.tasks.stopping.clone();
    let mut all_look_at = None;
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
                engine.hub.may_have_ended(&Ended::Many);
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
        engine.buses.wake(engine.now());
        engine.webhooks.alarm.at(engine.now());
        engine.polled.notify_waiters();
    }
    if hint.ended != Ended::Many {
        engine.hub.may_have_ended(&hint.ended);
    }
}

impl Engine {
    /// Work that any node may do is due: this one looks, and the others are told.
    pub(crate) fn backlog(&self) {
        self.wake.at(self.now());
        self.polled.notify_waiters();
        self.hints.tell(Hint::queues());
    }
}
