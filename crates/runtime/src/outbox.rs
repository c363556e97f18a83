//! The outbox pump: hands committed events on, in order, and forgets them once they are taken.

use crate::{api::Refusal, engine::Engine, events, outage::Outage};
use async_trait::async_trait;
use machine::{Data, TenantId, time::Span};
use std::{collections::BTreeMap, sync::Arc};
use store::{
    Commit, Write,
    rows::{Claimed, OutboxRow},
};

/// Where events go. At least once: an event may come again after a crash, with the same id.
#[async_trait]
pub trait Publish: Send + Sync + 'static {
    async fn publish(&self, tenant: &TenantId, event: &OutboxRow) -> Result<(), String>;
}

/// Takes everything and does nothing: there is no bus.
pub struct NoBus;

#[async_trait]
impl Publish for NoBus {
    async fn publish(&self, _: &TenantId, _: &OutboxRow) -> Result<(), String> {
        Ok(())
    }
}

/// Rows handed on at a time.
const OUTBOX_MAX: usize = 256;

pub(crate) async fn run(engine: Arc<Engine>, bus: Arc<dyn Publish>) {
    let stopping = engine.tasks.stopping.clone();
    let mut patience = Span::from_millis(50);
    let mut outage = Outage::new("handing on events of the outbox");
    loop {
        match hand_on(&engine, bus.as_ref()).await {
            Ok(full) => {
                outage.worked();
                patience = Span::from_millis(50);
                if full {
                    continue;
                }
                tokio::select! {
                    biased;
                    () = stopping.cancelled() => return,
                    () = engine.wake.outbox.notified() => {}
                }
            }
            Err(detail) => {
                outage.failed(&detail);
                let until = engine.now().after(patience);
                patience = Span((patience.0 * 2).min(30_000_000));
                tokio::select! {
                    biased;
                    () = stopping.cancelled() => return,
                    () = engine.clock.sleep_until(until) => {}
                }
            }
        }
    }
}

/// Tells everybody inside: events of one key in order, keys side by side.
async fn tell_all(engine: &Arc<Engine>, rows: &[Claimed<OutboxRow>]) -> Result<(), String> {
    let mut keys: BTreeMap<(&TenantId, &str), Vec<&OutboxRow>> = BTreeMap::new();
    for Claimed { tenant, row } in rows {
        keys.entry((tenant, &row.key)).or_default().push(row);
    }
    let told = keys.into_iter().map(|((tenant, _), rows)| async move {
        for row in rows {
            tell(engine, tenant, row).await?;
        }
        Ok(())
    });
    futures_util::future::join_all(told).await.into_iter().collect()
}

/// What an instance emits reaches the listen steps and schedules of its own tenant, once, before it goes out.
async fn tell(engine: &Arc<Engine>, tenant: &TenantId, row: &OutboxRow) -> Result<(), String> {
    let event = Data::parse(&row.event).map_err(|error| error.to_string());
    let published = match event {
        Ok(event) => events::publish(engine, tenant, event).await,
        Err(detail) => Err(Refusal::Invalid { code: "invalid-event", detail, problems: vec![] }),
    };
    match published {
        Ok(_) => Ok(()),
        // It will never be one; whoever is outside may still make sense of it.
        Err(refusal @ (Refusal::Invalid { .. } | Refusal::Conflict { .. })) => {
            tracing::warn!(%tenant, event = %row.id, %refusal, "an emitted event reaches nobody inside");
            Ok(())
        }
        Err(refusal) => Err(refusal.to_string()),
    }
}

/// Hands one page on. `true` if there may be more.
async fn hand_on(engine: &Arc<Engine>, bus: &dyn Publish) -> Result<bool, String> {
    let rows = engine.store.outbox(OUTBOX_MAX).await.map_err(|error| error.to_string())?;
    let full = rows.len() == OUTBOX_MAX;
    let mut sent: Vec<(TenantId, Vec<uuid::Uuid>)> = Vec::new();
    let mut failure = None;
    tell_all(engine, &rows).await?;
    for claimed in rows {
        if let Err(detail) = bus.publish(&claimed.tenant, &claimed.row).await {
            failure = Some(detail);
            break;
        }
        match sent.iter_mut().find(|(tenant, _)| *tenant == claimed.tenant) {
            Some((_, ids)) => ids.push(claimed.row.id),
            None => sent.push((claimed.tenant, vec![claimed.row.id])),
        }
    }
    for (tenant, ids) in sent {
        let commit = Commit { tenant, writes: vec![Write::OutboxSent { ids }] };
        engine.committer.commit(commit).await.map_err(|error| error.to_string())?;
    }
    match failure {
        Some(detail) => Err(detail),
        None => Ok(full),
    }
}
