//! Deletes what a tenant had whose time of grace is over, table by table, a bounded number of rows in one transaction.

use super::{
    audit,
    base::{Postgres, begin},
    error::error,
    read,
    session::{Scope, Session},
    value::{int, text, time},
};
use crate::{
    port::Result,
    transfer::{TABLES, Table},
    views::TenantPurged,
};
use machine::{TenantId, Time};
use tokio_postgres::Error as PgError;

/// The lock keeps a second node from waiting for the same rows.
const LEAVING: &str =
    "SELECT tenant FROM tenants WHERE status <> 'active' AND status = 'deleted' AND purge_at <= $1
    ORDER BY purge_at, tenant LIMIT 1 FOR UPDATE SKIP LOCKED";

/// What commits of nodes begin with. Deleting these waits for commits in flight that use them up, and what such a commit has
/// written is there for the statements that follow. Some of it may lie in these tables again, but nothing comes of that any
/// more: the tenant is parked.
const CAUSES: [&str; 4] = ["deliveries", "calls", "wf_signal_q", "wf_schedule_q"];

impl Postgres {
    pub(super) async fn purge_leaving(&self, now: Time, limit: usize) -> Result<Option<TenantPurged>> {
        let session = self.writers.take().await?;
        let begin = begin(Scope::All, &format!(", {}", super::apply::SETTINGS));
        session.command(&begin).await.map_err(error)?;
        let leaving = session.query(LEAVING, &[time(now)]).await.map_err(error)?;
        let tenant = leaving.first().map(|row| read::tenant(row, 0)).transpose().map_err(error)?;
        let purged = match tenant {
            Some(tenant) => Some(rows(&session, tenant, limit.max(1)).await.map_err(error)?),
            None => None,
        };
        session.command("COMMIT").await.map_err(error)?;
        session.done();
        Ok(purged)
    }
}

/// The tenant's own row comes last in the list of tables, so it goes when nothing else is left.
async fn rows(
    session: &Session,
    tenant: TenantId,
    limit: usize,
) -> std::result::Result<TenantPurged, PgError> {
    let mut left = limit;
    let mut gone = false;
    session.query(audit::LET_GO, &[text(tenant.as_str())]).await?;
    let causes = || TABLES.iter().filter(|table| CAUSES.contains(&table.name));
    for table in causes().chain(causes()).chain(TABLES) {
        let values = [text(tenant.as_str()), int(left as i64)];
        let deleted = session.query(&delete(table), &values).await?.len();
        left -= deleted;
        gone = table.name == "tenants" && deleted > 0;
        if left == 0 {
            break;
        }
    }
    Ok(TenantPurged { tenant, rows: (limit - left) as u64, gone })
}

fn delete(table: &Table) -> String {
    let name = table.name;
    let key: Vec<&str> =
        std::iter::once("tenant").chain(table.key_columns().iter().map(|(key, _)| *key)).collect();
    let same: Vec<String> = key.iter().map(|key| format!("x.{key} = g.{key}")).collect();
    let (key, same) = (key.join(", "), same.join(" AND "));
    format!(
        "WITH gone AS MATERIALIZED (SELECT {key} FROM {name} WHERE tenant = $1 LIMIT $2)
        DELETE FROM {name} x USING gone g WHERE {same} RETURNING 1"
    )
}
