//! The part of the port that reads and seals the audit trail. Entries are written by [`crate::Write::Audit`], in the commit
//! of the act.
//!
//! Sealing is guarded by the chain itself: no two entries follow the same one, so that of two sequencers one writes nothing.

use crate::{port::Result, rows::*, views::Page};
use async_trait::async_trait;
use machine::{TenantId, Time, audit::export::Checkpoint, query::Condition};

#[async_trait]
pub trait Audit: Send + Sync {
    /// Tenants with entries that are not sealed, at most `limit`.
    async fn unsealed_tenants(&self, limit: usize) -> Result<Vec<TenantId>>;
    /// Entries that are not sealed, oldest first.
    async fn unsealed(&self, tenant: &TenantId, limit: usize) -> Result<Vec<AuditRow>>;
    async fn tail(&self, tenant: &TenantId) -> Result<Tail>;
    /// Gives entries their places. `false` if another was faster, or an entry has a place already: then nothing was written.
    async fn seal(&self, tenant: &TenantId, seal: &Seal) -> Result<bool>;
    /// Newest first.
    async fn entries(
        &self,
        tenant: &TenantId,
        conditions: &[Condition],
        page: &Page,
    ) -> Result<Vec<AuditView>>;
    /// Sealed entries from a place on, by place.
    async fn sealed(&self, tenant: &TenantId, from: u64, limit: usize) -> Result<Vec<AuditView>>;
    /// By place, from one to the other, both included.
    async fn checkpoints(&self, tenant: &TenantId, from: u64, to: u64) -> Result<Vec<Checkpoint>>;
    /// Cuts off what lies before the first sealed entry that is not older than `before`, at most `limit` entries of one
    /// tenant in one transaction. The hash that the rest follows is kept. Answers how many went.
    async fn cut(&self, before: Time, limit: usize) -> Result<u64>;
}
