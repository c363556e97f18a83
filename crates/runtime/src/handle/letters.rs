//! What is asked about dead letters.

use super::{Answer, Handle};
use crate::dead_letters::{self, Taking};
use machine::{Data, TenantId};
use uuid::Uuid;

impl Handle {
    /// Puts the dead letter back where it came from; a second replay is `NotFound`.
    pub async fn replay_dead_letter(&self, tenant: &TenantId, id: Uuid, actor: &str) -> Answer<()> {
        tracing::info!(%tenant, dead_letter = %id, actor, "replay");
        dead_letters::replay(&self.engine, tenant, id, Taking { actor, ..Taking::default() }).await
    }

    /// Delivers the event of a dead letter again with other data, as an event of its own.
    pub async fn replay_changed(&self, tenant: &TenantId, id: Uuid, actor: &str, data: Data) -> Answer<()> {
        tracing::info!(%tenant, dead_letter = %id, actor, "replay with other data");
        let taking = Taking { actor, data: Some(data), ..Taking::default() };
        dead_letters::replay(&self.engine, tenant, id, taking).await
    }

    /// Throws the dead letter away; history says why, if somebody did.
    pub async fn discard_dead_letter(
        &self,
        tenant: &TenantId,
        id: Uuid,
        actor: &str,
        reason: Option<String>,
    ) -> Answer<()> {
        tracing::info!(%tenant, dead_letter = %id, actor, reason, "discard");
        let taking = Taking { actor, why: reason, ..Taking::default() };
        dead_letters::discard(&self.engine, tenant, id, taking).await
    }
}
