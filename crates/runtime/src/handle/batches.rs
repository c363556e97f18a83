//! What is asked about batches.

use super::{Answer, Handle};
use crate::{
    api::{BatchOrder, NewBatch, Preview},
    batches,
};
use machine::{
    TenantId,
    query::{Condition, Subject},
};
use store::rows::BatchRow;
use uuid::Uuid;

impl Handle {
    /// Counts what a query finds now, up to a bound, with a few examples. Changes nothing.
    pub async fn preview(
        &self,
        tenant: &TenantId,
        subject: Subject,
        conditions: &[Condition],
    ) -> Answer<Preview> {
        batches::preview(&self.engine, tenant, subject, conditions).await
    }

    /// Makes a batch and begins with it. The same idempotency key and request answer the same batch, and `true`.
    pub async fn create_batch(
        &self,
        tenant: &TenantId,
        wanted: NewBatch,
        actor: &str,
    ) -> Answer<(Uuid, bool)> {
        self.is_writable(tenant)?;
        batches::create(&self.engine, tenant, wanted, actor).await
    }

    /// Pauses, resumes or cancels a batch, or changes its rate; answers it as it is then.
    pub async fn order_batch(
        &self,
        tenant: &TenantId,
        batch: Uuid,
        order: BatchOrder,
        actor: &str,
    ) -> Answer<BatchRow> {
        self.is_writable(tenant)?;
        batches::order(&self.engine, tenant, batch, order, actor).await
    }
}
