//! Webhooks of tenants.

use super::{Answer, Handle};
use crate::{
    api::{Refusal, Webhook},
    remote, webhooks,
};
use machine::TenantId;
use store::rows::WorkerRow;

impl Handle {
    /// Makes or changes a webhook. `true` if it is new.
    pub async fn put_webhook(&self, tenant: &TenantId, name: &str, webhook: &Webhook) -> Answer<bool> {
        webhooks::put(&self.engine, tenant, name, webhook).await
    }

    /// The tenant's webhooks with their rows, by name.
    pub async fn webhooks(&self, tenant: &TenantId) -> Answer<Vec<(String, WorkerRow, Webhook)>> {
        webhooks::list(&self.engine, tenant).await
    }

    /// Nothing more is sent to it.
    pub async fn forget_webhook(&self, tenant: &TenantId, name: &str) -> Answer<()> {
        let forgotten = remote::forget(&self.engine, tenant, &webhooks::worker_of(name)).await;
        forgotten.map_err(|refusal| match refusal {
            Refusal::NotFound(_) => Refusal::NotFound("webhook".to_owned()),
            other => other,
        })
    }
}
