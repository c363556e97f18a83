//! The outbox pump: publishes what instances and workers have emitted, in order, and forgets it once that is durable.
//!
//! Publishing tells everybody inside and, in the same commit, addresses the event to the buses that carry it out. So
//! nobody inside ever waits for a bus. Every tenant has its share of a page, and what cannot be published holds up its
//! own key only.

mod waits;

use crate::{
    api::Refusal,
    dead_letters::{self, Reason},
    engine::Engine,
    events,
    outage::Outage,
    publishing,
};
use machine::{Data, TenantId, Time, time::Span};
use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};
use store::{
    Commit, Write,
    rows::{Claimed, OutboxRow},
};
use waits::Waits;

/// Rows handed on at a time.
const OUTBOX_MAX: usize = 256;
/// The wait after the store did not answer; it doubles up to the last.
const WAIT: Span = Span::from_millis(50);
const WAIT_MAX: Span = Span::from_secs(30);

pub(crate) async fn run(engine: Arc<Engine>) {
    let stopping = engine.tasks.stopping.clone();
    let (mut wait, mut waits) = (WAIT, Waits::default());
    let mut outage = Outage::new("handing on events of the outbox");
    while !stopping.is_cancelled() {
        match hand_on(&engine, &mut waits).await {
            Ok(more) => {
                outage.worked();
                wait = WAIT;
                if more {
                    continue;
                }
                let until = waits.next(engine.now()).unwrap_or(Time(i64::MAX));
                tokio::select! {
                    biased;
                    () = stopping.cancelled() => return,
                    () = engine.wake.outbox.notified() => {}
                    () = engine.clock.sleep_until(until), if until < Time(i64::MAX) => {}
                }
            }
            Err(error) => {
                outage.failed(&error);
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

/// Hands one page on, tenants side by side. `true` if there may be more.
async fn hand_on(engine: &Arc<Engine>, waits: &mut Waits) -> Result<bool, store::Error> {
    let rows = engine.store.outbox(&waits.ask(OUTBOX_MAX, engine.now())).await?;
    let more = !rows.is_empty();
    let mut tenants = BTreeMap::<TenantId, Vec<OutboxRow>>::new();
    for Claimed { tenant, row } in rows {
        tenants.entry(tenant).or_default().push(row);
    }
    let told = tenants.iter().map(|(tenant, rows)| tell(engine, tenant, rows));
    let told = futures_util::future::join_all(told).await;
    for ((tenant, _), told) in tenants.iter().zip(told) {
        let told = told?;
        told.worked.iter().for_each(|key| waits.worked(tenant, key));
        for (key, refusal) in told.failed {
            if waits.failed(tenant, key, engine.now(), engine.entropy.unit()) {
                tracing::warn!(%tenant, key, %refusal, "an emitted event cannot be published now; its key waits");
            }
        }
    }
    Ok(more)
}

/// What became of a tenant's rows, by key.
#[derive(Default)]
struct Told<'r> {
    worked: Vec<&'r str>,
    failed: Vec<(&'r str, Refusal)>,
}

/// Publishes a tenant's rows: what comes first of each key together, then what comes second. The error is the store's.
async fn tell<'r>(
    engine: &Arc<Engine>,
    tenant: &TenantId,
    rows: &'r [OutboxRow],
) -> Result<Told<'r>, store::Error> {
    let mut told = Told::default();
    let (mut sent, mut writes) = (Vec::new(), Vec::new());
    let mut left: Vec<&OutboxRow> = rows.iter().collect();
    while !left.is_empty() {
        let mut keys = HashSet::new();
        let (first, later): (Vec<_>, Vec<_>) = left.into_iter().partition(|row| keys.insert(&row.key));
        let answers = publish(engine, tenant, &first).await;
        let mut failed = HashSet::new();
        for (row, answer) in first.into_iter().zip(answers) {
            match answer {
                Ok(letter) => {
                    sent.push(row.id);
                    writes.extend(letter);
                    told.worked.push(&row.key);
                }
                // What follows of this key waits for it.
                Err(refusal) => {
                    failed.insert(&row.key);
                    told.failed.push((&row.key, refusal));
                }
            }
        }
        left = later.into_iter().filter(|row| !failed.contains(&row.key)).collect();
    }
    if !sent.is_empty() {
        writes.push(Write::OutboxSent { ids: sent });
        engine.committer.commit(Commit { tenant: tenant.clone(), writes }).await?;
    }
    Ok(told)
}

/// Publishes events of different keys to their own tenant. What can never be published is answered with its dead letter.
async fn publish(
    engine: &Arc<Engine>,
    tenant: &TenantId,
    rows: &[&OutboxRow],
) -> Vec<Result<Option<Write>, Refusal>> {
    let mut events = Vec::with_capacity(rows.len());
    let mut unreadable = Vec::with_capacity(rows.len());
    for row in rows {
        match Data::parse(&row.event) {
            Ok(event) => {
                events.push((event, Some(row.key.clone())));
                unreadable.push(None);
            }
            Err(error) => unreadable.push(Some(error.to_string())),
        }
    }
    let mut published = publishing::many(engine, tenant, events).await.into_iter();
    let answer = |(row, unreadable): (&&OutboxRow, Option<String>)| {
        let published = match unreadable {
            Some(detail) => Err(Refusal::Invalid { code: "invalid-event", detail, problems: vec![] }),
            None => published.next().unwrap_or(Err(Refusal::Busy)),
        };
        match published {
            Ok(_) => Ok(None),
            Err(refusal @ (Refusal::Invalid { .. } | Refusal::Conflict { .. })) => {
                tracing::warn!(%tenant, event = %row.id, %refusal, "an emitted event cannot be published");
                let reason = match &refusal {
                    Refusal::Invalid { code: events::LOOP, .. } => Reason::Loop,
                    _ => Reason::Refused,
                };
                Ok(Some(dead_letters::of_emitted(engine, row, reason, refusal.to_string())))
            }
            Err(refusal) => Err(refusal),
        }
    };
    rows.iter().zip(unreadable).map(answer).collect()
}
