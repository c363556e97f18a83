//! An event in somebody's own transaction, by the SQL functions `windlass_publish` and `windlass_wake`.

use machine::TenantId;
use serde_json::Value;
use tokio_postgres::{Error, GenericClient};

/// Publishes an event, a CloudEvent with at least `type`, in the caller's own transaction: it is there exactly if that commits.
/// Answers the event's id, a fresh one unless it is given. The caller's role has to be among the `publishers` of the tenant.
/// A node finds it within half a minute, or at once after [`wake`].
pub async fn publish_in(to: &impl GenericClient, tenant: &TenantId, event: &Value) -> Result<String, Error> {
    let values = [tenant.as_str().to_owned(), event.to_string()];
    let row =
        to.query_one("SELECT windlass_publish($1::text, $2::text::jsonb)", &[&values[0], &values[1]]).await?;
    row.try_get(0)
}

/// Wakes nodes for what was published: after the commit, and once for any number of events. Never inside of the transaction:
/// all that do so wait for each other when they commit.
pub async fn wake(to: &impl GenericClient) -> Result<(), Error> {
    to.execute("SELECT windlass_wake()", &[]).await.map(drop)
}
