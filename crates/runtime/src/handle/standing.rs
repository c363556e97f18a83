//! Tenants: create, change, suspend, degrade, resume, delete, restore.

use super::{Answer, Handle, unexpected};
use crate::{
    api::Refusal,
    runs,
    tenants::{self, Standing, TenantOrder},
};
use machine::TenantId;
use store::{
    Conflict, Hint, Outcome, TenantChange, Write,
    rows::{LimitsRow, TenantRow},
};

impl Handle {
    pub async fn create_tenant(&self, tenant: &TenantId, title: &str) -> Answer<()> {
        let row = TenantRow {
            id: tenant.clone(),
            title: title.to_owned(),
            status: Standing::Active.word().to_owned(),
            weight: 1,
            limits: LimitsRow::default(),
            purge_at: None,
            created_at: self.engine.now(),
        };
        match self.commit(tenant, vec![Write::CreateTenant(row)]).await? {
            Outcome::Committed => {
                // One of that name may have left; nobody keeps anything of it in mind.
                self.engine.buses.tenants.notify_waiters();
                let scheduled = self.engine.subscribers.scheduled();
                runs::put_for(&self.engine, tenant, &scheduled).await?;
                self.engine.wake.slots.at(self.engine.now());
                self.engine.hints.tell(Hint { clocks: true, ..Hint::default() });
                Ok(())
            }
            Outcome::Conflict(Conflict::Exists) => Err(Refusal::Conflict {
                code: "tenant-exists",
                detail: format!("tenant {tenant} exists"),
                existing: None,
            }),
            other => Err(unexpected(&other)),
        }
    }

    /// Changes a tenant's title, weight or limits, each only if it is given. It counts at once, for what is queued
    /// already too. Answers the tenant as it is then.
    pub async fn change_tenant(&self, tenant: &TenantId, change: TenantChange) -> Answer<TenantRow> {
        tenants::change(&self.engine, tenant, change).await
    }

    /// Gives a tenant another status, and changes what else is given in the same commit. Every node follows.
    pub async fn order_tenant(
        &self,
        tenant: &TenantId,
        order: TenantOrder,
        change: TenantChange,
    ) -> Answer<TenantRow> {
        tenants::order(&self.engine, tenant, order, change).await
    }

    /// What the tenant may do now, as far as this node knows.
    pub fn standing(&self, tenant: &TenantId) -> Standing {
        self.engine.tenants.standing(tenant)
    }

    /// Refuses for a tenant that is parked.
    pub fn is_writable(&self, tenant: &TenantId) -> Answer<()> {
        tenants::is_writable(tenant, self.standing(tenant))
    }
}
