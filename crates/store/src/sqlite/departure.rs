//! Deletes what a tenant had whose time of grace is over, table by table, a bounded number of rows in one transaction.

use super::{audit, core::Core, error::error, read};
use crate::{
    port::Result,
    transfer::{TABLES, Table},
    views::TenantPurged,
};
use machine::{TenantId, Time};
use rusqlite::{Connection, OptionalExtension, params};

const LEAVING: &str =
    "SELECT tenant FROM tenants WHERE status <> 'active' AND status = 'deleted' AND purge_at <= ?1
    ORDER BY purge_at, tenant LIMIT 1";

impl Core {
    pub fn purge_tenant(&mut self, now: Time, limit: usize) -> Result<Option<TenantPurged>> {
        // Rows of queues may go with it.
        self.tally.forget();
        self.transaction(|connection| {
            let tenant = connection
                .prepare_cached(LEAVING)
                .and_then(|mut statement| statement.query_row([now.0], |row| read::tenant(row, 0)).optional())
                .map_err(error)?;
            let purged = tenant.map(|tenant| rows(connection, tenant, limit.max(1)));
            purged.transpose().map_err(error)
        })
    }
}

/// The tenant's own row comes last in the list of tables, so it goes when nothing else is left.
fn rows(connection: &Connection, tenant: TenantId, limit: usize) -> rusqlite::Result<TenantPurged> {
    let mut left = limit;
    connection.prepare_cached(audit::LET_GO)?.execute([tenant.as_str()])?;
    for table in TABLES {
        let mut statement = connection.prepare_cached(&delete(table))?;
        left -= statement.execute(params![tenant.as_str(), left as i64])?;
        if left == 0 {
            break;
        }
    }
    let gone = !connection
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM tenants WHERE tenant = ?1)")?
        .query_row([tenant.as_str()], |row| row.get::<_, bool>(0))?;
    Ok(TenantPurged { tenant, rows: (limit - left) as u64, gone })
}

fn delete(table: &Table) -> String {
    let mut key = "tenant".to_owned();
    table.key_columns().iter().for_each(|(name, _)| key += &format!(", {name}"));
    let name = table.name;
    format!("DELETE FROM {name} WHERE ({key}) IN (SELECT {key} FROM {name} WHERE tenant = ?1 LIMIT ?2)")
}
