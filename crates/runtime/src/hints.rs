//! What other nodes say: somebody left work for all, moved a clock, or ended an instance. Never truth: whoever is told
//! looks into the store, and the re-scan finds what nobody told.

use crate::{clocks, engine::Engine};
use std::sync::Arc;
use store::Hint;

/// Passes on what is heard until the node stops.
pub(crate) async fn run(engine: Arc<Engine>) {
    let stopping = engine.tasks.stopping.clone();
    loop {
        let hint = tokio::select! {
            biased;
            () = stopping.cancelled() => return,
            hint = engine.hints.heard() => hint,
        };
        heed(&engine, hint).await;
    }
}

async fn heed(engine: &Engine, hint: Hint) {
    if hint.clocks && engine.options.dev_clock {
        if let Err(error) = clocks::reload(engine).await {
            engine.tasks.heed(&error);
            tracing::warn!(%error, "reading the clocks of tenants failed");
        }
        engine.wake.slots.at(engine.now());
    }
    if hint.queues {
        engine.wake.at(engine.now());
    }
    if !hint.ended.is_none() {
        engine.hub.may_have_ended(&hint.ended);
    }
}

impl Engine {
    /// Work that any node may do is due: this one looks, and the others are told.
    pub(crate) fn backlog(&self) {
        self.wake.at(self.now());
        self.hints.tell(Hint::queues());
    }
}
