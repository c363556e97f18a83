//! The clocks of tenants: how far each is ahead of the real one. For trying definitions with long waits; see
//! [`crate::Handle::advance_clock`].
//!
//! Everything a tenant's instances see is in its own time; everything a pump compares with the clock is in real time.
//! [`Engine::now_of`] and [`Engine::real`] are the only ways across.

use crate::{
    api::{DevClock, Refusal},
    engine::Engine,
    refusal,
};
use machine::{Command, State, TenantId, Time, state::Wait, time::Span};
use parking_lot::RwLock;
use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};
use store::{Commit, Hint, Outcome, Write};

/// How far a clock may be ahead in all.
const AHEAD_MAX: Span = Span::MAX;

#[derive(Default)]
pub(crate) struct Clocks {
    /// False until any clock is ahead, which is always so outside of tests.
    used: AtomicBool,
    ahead: RwLock<HashMap<TenantId, Span>>,
    /// Held from reading the store's clocks to keeping them: an older answer must not replace a newer one.
    reading: tokio::sync::Mutex<()>,
}

impl Clocks {
    pub(crate) fn set(&self, clocks: Vec<(TenantId, Span)>) {
        let used = !clocks.is_empty();
        *self.ahead.write() = clocks.into_iter().collect();
        self.used.store(used, Ordering::Release);
    }

    pub(crate) fn ahead(&self, tenant: &TenantId) -> Span {
        if !self.used.load(Ordering::Acquire) {
            return Span::ZERO;
        }
        self.ahead.read().get(tenant).copied().unwrap_or(Span::ZERO)
    }
}

impl Engine {
    /// The tenant's time.
    pub(crate) fn now_of(&self, tenant: &TenantId) -> Time {
        self.now().after(self.clocks.ahead(tenant))
    }

    /// When the tenant's clock shows `time`, by the real clock.
    pub(crate) fn real(&self, tenant: &TenantId, time: Time) -> Time {
        Time(time.0.saturating_sub(self.clocks.ahead(tenant).0))
    }
}

/// Reads the clocks again, for who finds something due that is not due by the clock this node knows.
pub(crate) async fn reload(engine: &Engine) -> Result<(), store::Error> {
    let _reading = engine.clocks.reading.lock().await;
    engine.clocks.set(engine.store.clocks().await?);
    Ok(())
}

/// When a turn is decided. A timer that the store holds for due is never early: if it seems so, the clock was moved.
pub(crate) async fn now_for(
    engine: &Engine,
    tenant: &TenantId,
    command: &Command,
    state: &State,
) -> Result<Time, store::Error> {
    let now = engine.now_of(tenant);
    let Command::Timer { token } = command else { return Ok(now) };
    let is_early = |wait: &Wait| wait.token == *token && wait.until.is_some_and(|until| until > now);
    if !engine.options.dev_clock || !state.waits.iter().any(is_early) {
        return Ok(now);
    }
    reload(engine).await?;
    Ok(engine.now_of(tenant))
}

pub(crate) fn show(engine: &Engine, tenant: &TenantId) -> DevClock {
    DevClock {
        now: engine.now_of(tenant),
        ahead: engine.clocks.ahead(tenant),
        enabled: engine.options.dev_clock,
    }
}

/// Moves the tenant's clock forward. What was queued before becomes due accordingly, in the same commit.
pub(crate) async fn advance(engine: &Arc<Engine>, tenant: &TenantId, by: Span) -> Result<DevClock, Refusal> {
    if !engine.options.dev_clock {
        return Err(Refusal::Conflict {
            code: "dev-clock-off",
            detail: "clocks of tenants cannot be moved here; `windlass up` allows it, `serve` with [dev] clock = true"
                .to_owned(),
            existing: None,
        });
    }
    let reading = engine.clocks.reading.lock().await;
    let total = engine.clocks.ahead(tenant).0.saturating_add(by.0);
    if by.0 < 0 || total > AHEAD_MAX.0 {
        let detail = "a clock only goes forward, and at most 100 years".to_owned();
        return Err(Refusal::Invalid { code: "bad-clock", detail, problems: vec![] });
    }
    if by.0 > 0 {
        let commit = Commit { tenant: tenant.clone(), writes: vec![Write::AdvanceClock { by }] };
        match engine.committer.commit(commit).await {
            Ok(Outcome::Committed) => {}
            Ok(other) => {
                let detail = format!("{other:?}");
                return Err(Refusal::Conflict { code: "conflict", detail, existing: None });
            }
            Err(error) => {
                // Whether it landed or not, the store knows.
                engine.clocks.set(engine.store.clocks().await.map_err(refusal::of_store)?);
                return Err(refusal::of_store(error));
            }
        }
        engine.clocks.set(engine.store.clocks().await.map_err(refusal::of_store)?);
        drop(reading);
        tracing::info!(%tenant, by_s = by.0 / 1_000_000, "clock moved forward");
        engine.backlog();
        engine.wake.slots.at(engine.now());
        engine.hints.tell(Hint { clocks: true, ..Hint::default() });
    }
    Ok(show(engine, tenant))
}
