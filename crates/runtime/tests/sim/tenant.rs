//! The tenant is suspended for a while: what it has waits, and then goes on, on every node, though none tells the others.

use super::{clients::PATIENCE, time, world::World};
use machine::{TenantId, Time};
use runtime::TenantOrder;
use std::time::Duration;
use store::{
    TenantChange,
    rows::{LimitsRow, TenantRow},
};
use tokio::time::{sleep, timeout};

pub(crate) fn row(tenant: &TenantId) -> TenantRow {
    TenantRow {
        id: tenant.clone(),
        title: "simulated".to_owned(),
        status: "active".to_owned(),
        weight: 1,
        limits: LimitsRow::default(),
        purge_at: None,
        created_at: Time(time::EPOCH),
    }
}

impl World {
    /// Suspends the tenant, and resumes it later, perhaps on another node.
    pub(crate) async fn suspension(&self) {
        sleep(Duration::from_millis(self.chaos.below(3000))).await;
        self.tell_tenant(TenantOrder::Suspend).await;
        sleep(Duration::from_millis(self.chaos.below(3000))).await;
        self.tell_tenant(TenantOrder::Resume).await;
    }

    async fn tell_tenant(&self, order: TenantOrder) {
        loop {
            let node = self.any_node().await;
            let told = node.order_tenant(&self.tenant, order, TenantChange::default());
            if matches!(timeout(PATIENCE, told).await, Ok(Ok(_))) {
                self.chaos.note(format_args!("the tenant is told: {order:?}"));
                return;
            }
            sleep(Duration::from_millis(20 + self.chaos.below(200))).await;
        }
    }
}
