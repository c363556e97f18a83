//! What a tenant says of types of events.

use super::{Answer, Handle};
use crate::{api::EventType, event_types};
use machine::{Data, TenantId};

impl Handle {
    /// Sets the JSON Schema that the data of a type of events has to fit. `true` if there was none.
    pub async fn put_event_type(&self, tenant: &TenantId, name: &str, schema: &Data) -> Answer<bool> {
        event_types::put(&self.engine, tenant, name, schema).await
    }

    /// The types that the tenant says something of, by name.
    pub async fn event_types(&self, tenant: &TenantId) -> Answer<Vec<EventType>> {
        event_types::list(&self.engine, tenant).await
    }

    /// Data of that type may be anything from now on.
    pub async fn forget_event_type(&self, tenant: &TenantId, name: &str) -> Answer<()> {
        event_types::forget(&self.engine, tenant, name).await
    }
}
