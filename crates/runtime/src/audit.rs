//! The audit trail after the commits of the acts: seals entries into one chain for each tenant, signs where the chain stands
//! now and then, and exports it.
//!
//! One node at a time seals, under a lock; should two do it, the store lets one of them through. What a node that ended left
//! is sealed by the next that looks. An entry is in the trail from its commit on: sealing only gives it its place.

pub mod export;
pub(crate) mod object;
mod signer;

use crate::engine::Engine;
use machine::{
    TenantId, Time,
    audit::{checkpoint, content_hash, export::Checkpoint, link},
    time::Span,
};
use parking_lot::Mutex;
use signer::Signer;
pub use signer::is_signed;
use std::{collections::BTreeSet, sync::Arc};
use store::{
    Error, HostLock,
    rows::{Seal, SealRow, Tail},
};
use tokio::sync::OnceCell;

/// Entries sealed in one transaction.
const SEAL_MAX: usize = 500;
/// Tenants looked after in one round.
const TENANTS_MAX: usize = 100;
/// The chain is signed after so many entries, or so long after it was last signed.
const SIGNED_EVERY: u64 = 1_000;
const SIGNED_AFTER: Span = Span::from_secs(60);
/// How often to look for what others left: after so many re-scans, each this long unless options say otherwise.
const RESCANS_PER_LOOK: i64 = 10;
const RESCAN: Span = Span::from_secs(360);
/// When to try again after a failure, or if another node seals.
const AGAIN: Span = Span::from_secs(5);
/// The next seal comes before this is over.
const LEASE_MS: i64 = 30_000;
/// Entries that retention cuts off in one transaction.
const CUT_MAX: usize = 1_000;
/// Between two cuts, so that commits of others get in.
const PAUSE: Span = Span::from_millis(10);

/// What a node keeps for the trail.
#[derive(Default)]
pub(crate) struct Trail {
    signer: OnceCell<Signer>,
    /// Tenants whose last entries are sealed and not signed.
    unsigned: Mutex<BTreeSet<TenantId>>,
}

impl Trail {
    /// The deployment's key, made when it is first needed.
    async fn signer(&self, engine: &Engine) -> Result<&Signer, Error> {
        let make = || async {
            let fresh = [engine.entropy.bytes16(), engine.entropy.bytes16()].concat();
            let fresh = fresh.try_into().expect("twice 16 bytes");
            Ok(Signer::new(&engine.store.deployment_key("audit-signature", fresh).await?))
        };
        self.signer.get_or_try_init(make).await
    }
}

/// Seals until the node stops.
pub(crate) async fn run(engine: Arc<Engine>) {
    let stopping = engine.tasks.stopping.clone();
    let every = Span(engine.options.rescan.unwrap_or(RESCAN).0.saturating_mul(RESCANS_PER_LOOK));
    let mut look_at = engine.now().after(every);
    loop {
        let until = engine.wake.audit.next().min(look_at);
        if engine.now() < until {
            tokio::select! {
                biased;
                () = stopping.cancelled() => return,
                () = engine.wake.audit.sooner() => {}
                () = engine.clock.sleep_until(until) => {}
            }
            continue;
        }
        engine.wake.audit.reset();
        if engine.now() >= look_at {
            look_at = engine.now().after(every);
        }
        match seal_all(&engine).await {
            Ok(true) => {}
            Ok(false) => engine.wake.audit.at(engine.now().after(AGAIN)),
            Err(error) => {
                engine.tasks.heed(&error);
                tracing::warn!(%error, "entries of the audit trail could not be sealed; it is tried again in a moment");
                engine.wake.audit.at(engine.now().after(AGAIN));
            }
        }
    }
}

/// `false` if there is something left to do and another does it, or has done it meanwhile.
async fn seal_all(engine: &Engine) -> Result<bool, Error> {
    let mut tenants = engine.store.audit().unsealed_tenants(TENANTS_MAX).await?;
    let full = tenants.len() == TENANTS_MAX;
    let unsigned: Vec<TenantId> = engine.trail.unsigned.lock().iter().cloned().collect();
    tenants.extend(unsigned);
    tenants.sort();
    tenants.dedup();
    if tenants.is_empty() {
        return Ok(true);
    }
    if !is_this_nodes(engine).await? {
        // What another has sealed it also signs.
        engine.trail.unsigned.lock().clear();
        return Ok(false);
    }
    let mut whole = true;
    for tenant in &tenants {
        whole &= seal_tenant(engine, tenant).await?;
    }
    Ok(whole && !full)
}

async fn is_this_nodes(engine: &Engine) -> Result<bool, Error> {
    match engine.sole {
        true => Ok(true),
        false => engine.store.hold(HostLock::Audit, engine.node, engine.now(), LEASE_MS).await,
    }
}

/// Seals what the tenant has, in batches. `false` if another was faster.
async fn seal_tenant(engine: &Engine, tenant: &TenantId) -> Result<bool, Error> {
    loop {
        let tail = engine.store.audit().tail(tenant).await?;
        if let Some(why) = broken(&tail) {
            tracing::error!(%tenant, why, "the audit trail was tampered with; nothing more is sealed");
            engine.trail.unsigned.lock().remove(tenant);
            return Ok(true);
        }
        let seal = next(engine, tenant, &tail).await?;
        if seal.rows.is_empty() && seal.checkpoint.is_none() {
            return Ok(true);
        }
        if !engine.store.audit().seal(tenant, &seal).await? {
            return Ok(false);
        }
        if let Some(signed) = &seal.checkpoint {
            engine.trail.unsigned.lock().remove(tenant);
            // The log is kept elsewhere: whoever takes away the end of a chain does not take this.
            let hash = machine::audit::hex(&signed.hash);
            tracing::info!(%tenant, seq = signed.seq, hash, "checkpoint of the audit trail");
        }
        if seal.rows.len() < SEAL_MAX {
            return Ok(true);
        }
    }
}

/// Why a chain cannot be gone on with: what was signed is not there any more.
fn broken(tail: &Tail) -> Option<String> {
    let signed = tail.checkpoint.as_ref()?;
    let is_there = signed.seq < tail.seq || (signed.seq == tail.seq && signed.hash == tail.hash);
    (!is_there).then(|| format!("entry {} was signed, and the chain ends at {}", signed.seq, tail.seq))
}

/// What comes after the tail.
async fn next(engine: &Engine, tenant: &TenantId, tail: &Tail) -> Result<Seal, Error> {
    let entries = engine.store.audit().unsealed(tenant, SEAL_MAX).await?;
    let (mut seq, mut prev) = (tail.seq, tail.hash);
    let mut rows = Vec::with_capacity(entries.len());
    for entry in &entries {
        // Of the bytes that are there: an entry that was changed before it was sealed does not pass. Only this tenant's
        // trail ends there.
        if content_hash(&entry.body) != entry.content_hash {
            tracing::error!(%tenant, entry = %entry.id, "an entry of the audit trail is not the one that was written; nothing more is sealed");
            break;
        }
        seq += 1;
        let hash = link(&prev, seq, &entry.content_hash);
        rows.push(SealRow { id: entry.id, seq, prev, hash });
        prev = hash;
    }
    let now = engine.now();
    let signed_at = tail.checkpoint.as_ref().map_or(Time(i64::MIN), |signed| signed.at);
    let signed = tail.checkpoint.as_ref().map_or(0, |signed| signed.seq);
    let due = Time(signed_at.0.saturating_add(SIGNED_AFTER.0));
    if seq == signed {
        return Ok(Seal { rows, checkpoint: None });
    }
    if seq - signed < SIGNED_EVERY && now < due {
        engine.trail.unsigned.lock().insert(tenant.clone());
        engine.wake.audit.at(due);
        return Ok(Seal { rows, checkpoint: None });
    }
    let signer = engine.trail.signer(engine).await?;
    let signature = signer.sign(&checkpoint(tenant, seq, &prev, now));
    let signed = Checkpoint { seq, hash: prev, at: now, key: signer.key, signature };
    Ok(Seal { rows, checkpoint: Some(signed) })
}

/// Cuts off what is older than it has to be kept.
pub(crate) async fn cut(engine: &Engine) -> Result<(), Error> {
    let Some(kept) = engine.options.audit_kept else { return Ok(()) };
    let before = Time(engine.now().0.saturating_sub(kept.0));
    let mut gone = 0;
    while !engine.is_stopping() {
        let cut = engine.store.audit().cut(before, CUT_MAX).await?;
        if cut == 0 {
            break;
        }
        gone += cut;
        engine.clock.sleep_until(engine.now().after(PAUSE)).await;
    }
    if gone > 0 {
        tracing::info!(entries = gone, "cut off the old end of audit trails");
    }
    Ok(())
}
