//! The outbox pump: publishes what instances and workers have emitted, in order, and forgets it once that is durable.
//!
//! Publishing tells everybody inside and, in the same commit, addresses the event to the buses that carry it out. So
//! nobody inside ever waits for a bus.

use crate::{
    api::Refusal,
    dead_letters::{self, Reason},
    engine::Engine,
    events,
    outage::Outage,
};
use machine::{Data, TenantId, time::Span};
use std::{collections::BTreeMap, sync::Arc};
use store::{
    Commit, Write,
    rows::{Claimed, OutboxRow},
};

/// Rows handed on at a time.
const OUTBOX_MAX: usize = 256;
/// The wait after something could not be published; it doubles up to the last.
const WAIT: Span = Span::from_millis(50);
const WAIT_MAX: Span = Span::from_secs(30);

pub(crate) async fn run(engine: Arc<Engine>) {
    let stopping = engine.tasks.stopping.clone();
    let mut wait = WAIT;
    let mut outage = Outage::new("handing on events of the outbox");
    loop {
        match hand_on(&engine).await {
            Ok(full) => {
                outage.worked();
                wait = WAIT;
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
                let until = engine.now().after(wait);
                wait = Span((wait.0 * 2).min(WAIT_MAX.0));
                tokio::select! {
                    biased;
                    () = stopping.cancelled() => return,
                    () = engine.clock.sleep_until(until) => {}
                }
            }
        }
    }
}

/// Hands one page on: events of one key in order, keys side by side. `true` if there may be more.
async fn hand_on(engine: &Arc<Engine>) -> Result<bool, String> {
    let rows = engine.store.outbox(OUTBOX_MAX).await.map_err(|error| error.to_string())?;
    let full = rows.len() == OUTBOX_MAX;
    let mut keys: BTreeMap<(&TenantId, &str), Vec<&OutboxRow>> = BTreeMap::new();
    for Claimed { tenant, row } in &rows {
        keys.entry((tenant, &row.key)).or_default().push(row);
    }
    let told = keys.into_iter().map(|((tenant, _), rows)| async move {
        let mut done = Vec::new();
        for row in rows {
            match tell(engine, tenant, row).await {
                Ok(letter) => done.push((row.id, letter)),
                // What follows of this key waits for it.
                Err(detail) => return (tenant, done, Some(detail)),
            }
        }
        (tenant, done, None)
    });
    let mut failure = None;
    let mut writes = BTreeMap::<&TenantId, (Vec<uuid::Uuid>, Vec<Write>)>::new();
    for (tenant, done, failed) in futures_util::future::join_all(told).await {
        let (ids, letters) = writes.entry(tenant).or_default();
        for (id, letter) in done {
            ids.push(id);
            letters.extend(letter);
        }
        failure = failure.or(failed);
    }
    for (tenant, (ids, mut writes)) in writes.into_iter().filter(|(_, (ids, _))| !ids.is_empty()) {
        writes.push(Write::OutboxSent { ids });
        let commit = Commit { tenant: tenant.clone(), writes };
        engine.committer.commit(commit).await.map_err(|error| error.to_string())?;
    }
    match failure {
        Some(detail) => Err(detail),
        None => Ok(full),
    }
}

/// Publishes one event to its own tenant. What can never be published is answered with its dead letter.
async fn tell(engine: &Arc<Engine>, tenant: &TenantId, row: &OutboxRow) -> Result<Option<Write>, String> {
    let event = Data::parse(&row.event).map_err(|error| error.to_string());
    let published = match event {
        Ok(event) => events::publish_of(engine, tenant, event, Some(&row.key)).await,
        Err(detail) => Err(Refusal::Invalid { code: "invalid-event", detail, problems: vec![] }),
    };
    match published {
        Ok(_) => Ok(None),
        Err(refusal @ (Refusal::Invalid { .. } | Refusal::Conflict { .. })) => {
            tracing::warn!(%tenant, event = %row.id, %refusal, "an emitted event cannot be published");
            Ok(Some(dead_letters::of_emitted(engine, row, Reason::Refused, refusal.to_string())))
        }
        Err(refusal) => Err(refusal.to_string()),
    }
}
