//! An event in somebody's own transaction, by the SQL function `windlass_publish`.

use machine::TenantId;
use serde_json::Value;
use tokio_postgres::{Error, GenericClient};

/// Publishes an event, a CloudEvent with at least `type`, in the caller's own transaction: it is there exactly if that commits.
/// Answers the event's id, a fresh one unless it is given. The caller's role has to be among the `publishers` of the tenant.
pub async fn publish_in(to: &impl GenericClient, tenant: &TenantId, event: &Value) -> Result<String, Error> {
    let values = [tenant.as_str().to_owned(), event.to_string()];
    let row =
        to.query_one("SELECT windlass_publish($1::text, $2::text::jsonb)", &[&values[0], &values[1]]).await?;
    row.try_get(0)
}
