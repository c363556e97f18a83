//! What is asked about the trail: exports of ranges, checked before they are signed.

use super::{broken, is_signed, is_this_nodes, seal_tenant};
use crate::{
    acting::{self, Act, Acting},
    api::Refusal,
    handle::Handle,
    refusal::of_store,
};
use machine::{
    TenantId,
    audit::{
        export::{Link, Range, write},
        verify,
    },
};
use std::sync::Arc;

/// Entries of one export.
pub const EXPORT_MAX: usize = 10_000;

/// A range of a tenant's trail.
pub struct Exported {
    /// NDJSON.
    pub bytes: Vec<u8>,
    /// The last entry in it.
    pub to: u64,
    /// There are more after it.
    pub more: bool,
}

impl Handle {
    /// Begins an act of somebody: its work is done within it.
    pub fn acting(&self, act: Act) -> Arc<Acting> {
        Arc::new(Acting::new(&self.engine, act))
    }

    /// Leaves an entry of what somebody does that changes no row; nothing if nobody acts.
    pub async fn note_act(&self, tenant: &TenantId) -> Result<(), Refusal> {
        if acting::current().is_some() {
            self.commit(tenant, vec![]).await?;
        }
        Ok(())
    }

    /// Sealed entries from a place on, or from the first that is kept, as a signed export. What is not sealed yet is sealed
    /// first, unless another node is at it. A trail that was tampered with is refused as `audit-broken`.
    pub async fn export_audit(
        &self,
        tenant: &TenantId,
        from: u64,
        limit: usize,
    ) -> Result<Exported, Refusal> {
        let engine = &self.engine;
        if is_this_nodes(engine).await.map_err(of_store)? {
            seal_tenant(engine, tenant).await.map_err(of_store)?;
        }
        let trail = engine.store.audit();
        let tail = trail.tail(tenant).await.map_err(of_store)?;
        if let Some(why) = broken(&tail) {
            return Err(tampered(tenant, &why));
        }
        let limit = limit.clamp(1, EXPORT_MAX);
        let rows = trail.sealed(tenant, from.max(1), limit).await.map_err(of_store)?;
        let link = |row: store::rows::AuditView| {
            let seal = row.seal?;
            Some(Link { seq: seal.seq, prev: seal.prev, hash: seal.hash, body: row.body })
        };
        let links: Vec<Link> = rows.into_iter().filter_map(link).collect();
        let (from, prev) = links.first().map_or((tail.seq + 1, tail.hash), |first| (first.seq, first.prev));
        let to = links.last().map_or(tail.seq, |last| last.seq);
        let checkpoints = trail.checkpoints(tenant, from, to).await.map_err(of_store)?;
        let signer = engine.trail.signer(engine).await.map_err(of_store)?;
        let range = Range { tenant: tenant.clone(), from, prev, links, checkpoints };
        let bytes = write(&range, &signer.key, |said| signer.sign(said));
        match verify(&bytes, &is_signed) {
            Ok(_) => Ok(Exported { bytes, to, more: to < tail.seq }),
            Err(found) => Err(tampered(tenant, &found.to_string())),
        }
    }
}

fn tampered(tenant: &TenantId, why: &str) -> Refusal {
    tracing::error!(%tenant, why, "the audit trail was tampered with; it is not exported");
    let detail = format!("the audit trail is not the one that was written: {why}");
    Refusal::Conflict { code: "audit-broken", detail, existing: None }
}
