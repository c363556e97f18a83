//! Hears what comes in for every tenant: subscriptions begin and end with tenants, without a restart.

use super::Line;
use crate::{engine::Engine, intake::Desk, tenants::Standing};
use bus::{Inlet, Source};
use machine::{TenantId, time::Span};
use std::{collections::BTreeMap, sync::Arc};
use store::rows::TenantRow;
use tokio_util::sync::CancellationToken;

/// The wait after a subscription failed; it doubles up to the last.
const AWAY_WAIT: Span = Span::from_millis(200);
const AWAY_WAIT_MAX: Span = Span::from_secs(15);
/// How long the tenants may go unlooked at after reading them failed.
const STORE_WAIT: Span = Span::from_millis(500);

/// What comes in over a bus.
#[derive(Clone)]
pub struct Incomings {
    pub source: Arc<dyn Source>,
    pub inlets: Vec<Inlet>,
}

/// Follows the tenants until the node stops.
pub(crate) async fn run(engine: Arc<Engine>, line: Arc<Line>) {
    let Some(incomings) = line.bus.incomings.clone() else { return };
    let stopping = engine.tasks.stopping.clone();
    let mut heard = BTreeMap::<TenantId, CancellationToken>::new();
    loop {
        // Registered before the look: a change between the two is not missed.
        let changed = engine.buses.tenants.notified();
        let mut changed = std::pin::pin!(changed);
        changed.as_mut().enable();
        let pause = match engine.store.tenants().await {
            Ok(tenants) => {
                let meant = tenants.into_iter().filter(is_heard).map(|tenant| tenant.id).collect();
                follow(&engine, &line, &incomings, &mut heard, meant);
                None
            }
            Err(error) => {
                engine.tasks.heed(&error);
                tracing::warn!(%error, bus = line.bus.name, "reading the tenants failed");
                Some(engine.now().after(STORE_WAIT))
            }
        };
        let again = async {
            match pause {
                Some(until) => engine.clock.sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = stopping.cancelled() => break,
            () = changed => {}
            () = again => {}
        }
    }
    heard.into_values().for_each(|one| one.cancel());
}

/// Whether anything that comes in for the tenant would be taken. What is not heard stays with its server, instead of being
/// given out and refused again and again.
fn is_heard(tenant: &TenantRow) -> bool {
    match Standing::of(&tenant.status) {
        Standing::Active => true,
        Standing::Degraded => tenant.limits.degraded_per_second > 0,
        Standing::Suspended | Standing::Deleted => false,
    }
}

/// Begins what is missing and ends what is not meant any more.
fn follow(
    engine: &Arc<Engine>,
    line: &Arc<Line>,
    incomings: &Incomings,
    heard: &mut BTreeMap<TenantId, CancellationToken>,
    meant: Vec<TenantId>,
) {
    heard.retain(|tenant, ends| {
        let stays = meant.contains(tenant);
        if !stays {
            tracing::info!(%tenant, bus = line.bus.name, "a tenant's subscriptions end");
            ends.cancel();
        }
        stays
    });
    for tenant in meant {
        if heard.contains_key(&tenant) {
            continue;
        }
        let ends = engine.tasks.stopping.child_token();
        heard.insert(tenant.clone(), ends.clone());
        for inlet in &incomings.inlets {
            let hearing =
                hear(engine.clone(), line.clone(), incomings.source.clone(), tenant.clone(), inlet.clone());
            let ends = ends.clone();
            engine.tasks.spawn_pump(async move {
                tokio::select! {
                    biased;
                    () = ends.cancelled() => {}
                    () = hearing => {}
                }
            });
        }
    }
}

async fn hear(engine: Arc<Engine>, line: Arc<Line>, source: Arc<dyn Source>, tenant: TenantId, inlet: Inlet) {
    let desk = Desk { engine: engine.clone(), bus: line.bus.name.clone() };
    let _subscription = line.subscribed();
    let mut wait = AWAY_WAIT;
    loop {
        let began = engine.clock.steady_micros();
        let detail = source.hear(&tenant, &inlet, &desk).await;
        // One that was heard for a while was lost now, and not the last time.
        if engine.clock.steady_micros() - began > AWAY_WAIT_MAX.0 as u64 {
            wait = AWAY_WAIT;
        }
        if wait == AWAY_WAIT {
            let bus = &line.bus.name;
            tracing::warn!(%tenant, bus, detail, "a subscription is lost; it is tried again");
        }
        let pause = Span((wait.0 as f64 * (0.5 + engine.entropy.unit() / 2.0)) as i64);
        wait = Span((wait.0 * 2).min(AWAY_WAIT_MAX.0));
        engine.clock.sleep_until(engine.now().after(pause)).await;
    }
}
