//! The smaller ports of a store, tapped like the store itself: they are counted, break, and hold the time.

use super::Tap;
use async_trait::async_trait;
use machine::{TenantId, Time, audit::export::Checkpoint, query::Condition};
use store::{
    Audit, Records, Result,
    records::{Listed, Pending, RecordAsk, RecordView},
    rows::*,
    views::Page,
};
use uuid::Uuid;

macro_rules! pass {
    ($tap:ident.$port:ident.$method:ident($($argument:expr),*)) => {{
        let _held = $tap.enter(stringify!($method)).await?;
        $tap.inner.$port().$method($($argument),*).await
    }};
}

#[async_trait]
impl Records for Tap {
    async fn record(
        &self,
        tenant: &TenantId,
        id: &str,
        seen_by: Option<&[String]>,
    ) -> Result<Option<RecordView>> {
        pass!(self.records.record(tenant, id, seen_by))
    }
    async fn records(&self, tenant: &TenantId, ask: &RecordAsk) -> Result<Vec<Listed>> {
        pass!(self.records.records(tenant, ask))
    }
    async fn ancestors(&self, tenant: &TenantId, id: &str, limit: usize) -> Result<Vec<RecordView>> {
        pass!(self.records.ancestors(tenant, id, limit))
    }
    async fn has_children(&self, tenant: &TenantId, id: &str) -> Result<bool> {
        pass!(self.records.has_children(tenant, id))
    }
    async fn record_kind(&self, tenant: &TenantId, name: &str) -> Result<Option<RecordKindRow>> {
        pass!(self.records.record_kind(tenant, name))
    }
    async fn record_kinds(&self, tenant: &TenantId) -> Result<Vec<RecordKindRow>> {
        pass!(self.records.record_kinds(tenant))
    }
    async fn group(&self, tenant: &TenantId, name: &str) -> Result<Option<GroupRow>> {
        pass!(self.records.group(tenant, name))
    }
    async fn groups(&self, tenant: &TenantId, member: Option<&str>) -> Result<Vec<GroupRow>> {
        pass!(self.records.groups(tenant, member))
    }
    async fn acl_nodes(&self, tenant: &TenantId, ids: &[String]) -> Result<Vec<AclNode>> {
        pass!(self.records.acl_nodes(tenant, ids))
    }
    async fn acl_children(
        &self,
        tenant: &TenantId,
        parents: &[String],
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<AclNode>> {
        pass!(self.records.acl_children(tenant, parents, after, limit))
    }
    async fn acl_lists(&self, tenant: &TenantId, ids: &[Uuid]) -> Result<Vec<(Uuid, Vec<u8>)>> {
        pass!(self.records.acl_lists(tenant, ids))
    }
    async fn due_acl_work(&self, now: Time, limit: usize) -> Result<Vec<Claimed<AclWorkRow>>> {
        pass!(self.records.due_acl_work(now, limit))
    }
    async fn next_acl_work(&self) -> Result<Option<Time>> {
        pass!(self.records.next_acl_work())
    }
    async fn acl_pending(&self, tenant: Option<&TenantId>) -> Result<Pending> {
        pass!(self.records.acl_pending(tenant))
    }
    async fn acl_work(&self, tenant: &TenantId, limit: usize) -> Result<Vec<AclWorkRow>> {
        pass!(self.records.acl_work(tenant, limit))
    }
    async fn acl_propagates(&self, tenant: &TenantId, root: &str) -> Result<bool> {
        pass!(self.records.acl_propagates(tenant, root))
    }
}

#[async_trait]
impl Audit for Tap {
    async fn unsealed_tenants(&self, limit: usize) -> Result<Vec<TenantId>> {
        pass!(self.audit.unsealed_tenants(limit))
    }
    async fn unsealed(&self, tenant: &TenantId, limit: usize) -> Result<Vec<AuditRow>> {
        pass!(self.audit.unsealed(tenant, limit))
    }
    async fn tail(&self, tenant: &TenantId) -> Result<Tail> {
        pass!(self.audit.tail(tenant))
    }
    async fn seal(&self, tenant: &TenantId, seal: &Seal) -> Result<bool> {
        pass!(self.audit.seal(tenant, seal))
    }
    async fn entries(
        &self,
        tenant: &TenantId,
        conditions: &[Condition],
        page: &Page,
    ) -> Result<Vec<AuditView>> {
        pass!(self.audit.entries(tenant, conditions, page))
    }
    async fn sealed(&self, tenant: &TenantId, from: u64, limit: usize) -> Result<Vec<AuditView>> {
        pass!(self.audit.sealed(tenant, from, limit))
    }
    async fn checkpoints(&self, tenant: &TenantId, from: u64, to: u64) -> Result<Vec<Checkpoint>> {
        pass!(self.audit.checkpoints(tenant, from, to))
    }
    async fn cut(&self, before: Time, limit: usize) -> Result<u64> {
        pass!(self.audit.cut(before, limit))
    }
}
