//! An embedded store as one end of a move. Holds the file as an engine would: no engine can be at work on it meanwhile.

use super::{
    audit,
    core::Core,
    error::error,
    lock::{self, Lock},
};
use crate::{
    port::{Error, Result},
    transfer::{Cell, Copied, Side, TABLES, Table},
};
use async_trait::async_trait;
use machine::TenantId;
use parking_lot::Mutex;
use rusqlite::{
    Row, params_from_iter,
    types::{ToSql, ToSqlOutput, ValueRef},
};
use std::path::Path;

/// A database file at rest.
pub struct AtRest {
    core: Mutex<Core>,
    #[expect(dead_code, reason = "held for as long as the file is in use")]
    lock: Lock,
}

impl AtRest {
    /// Opens or makes the file; refused while an engine has it open.
    pub fn open(path: &Path) -> Result<AtRest> {
        let mut lock = lock::acquire(path)?;
        let mut core = Core::open(path)?;
        lock.database_is_made()?;
        // What an earlier process had taken on is backlog.
        core.adopt_all()?;
        Ok(AtRest { core: Mutex::new(core), lock })
    }
}

impl ToSql for Cell {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Cell::Null => ValueRef::Null,
            Cell::Int(value) => ValueRef::Integer(*value),
            Cell::Text(value) => ValueRef::Text(value.as_bytes()),
            Cell::Bytes(value) => ValueRef::Blob(value),
        }))
    }
}

/// What rows are read by: their keys, or the number under which they were inserted.
fn marks(table: &Table) -> Vec<&'static str> {
    match table.in_order {
        true => vec!["rowid"],
        false => table.key_columns().iter().map(|(name, _)| *name).collect(),
    }
}

fn names(table: &Table) -> String {
    table.columns.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

/// `?2, ?3, …`: one for each of `count`, the tenant being the first.
fn places(count: usize) -> String {
    (2..count + 2).map(|at| format!("?{at}")).collect::<Vec<_>>().join(", ")
}

fn cells(row: &Row<'_>, from: usize, count: usize) -> rusqlite::Result<Vec<Cell>> {
    (from..from + count)
        .map(|at| {
            Ok(match row.get_ref(at)? {
                ValueRef::Null => Cell::Null,
                ValueRef::Integer(value) => Cell::Int(value),
                ValueRef::Text(value) => Cell::Text(String::from_utf8_lossy(value).into_owned()),
                ValueRef::Blob(value) => Cell::Bytes(value.to_vec()),
                ValueRef::Real(_) => return Err(rusqlite::Error::InvalidColumnIndex(at)),
            })
        })
        .collect()
}

#[async_trait]
impl Side for AtRest {
    async fn at_rest(&self) -> Result<()> {
        // The lock says so.
        Ok(())
    }

    async fn tenants(&self) -> Result<Vec<TenantId>> {
        Ok(self.core.lock().read().tenants()?.into_iter().map(|row| row.id).collect())
    }

    async fn read(
        &self,
        table: &Table,
        tenant: &TenantId,
        after: &[Cell],
        limit: usize,
    ) -> Result<Vec<Copied>> {
        let marks = marks(table);
        let order = marks.join(", ");
        let mut sql = format!("SELECT {}", names(table));
        if !marks.is_empty() {
            sql += &format!(", {order}");
        }
        sql += &format!(" FROM {} WHERE tenant = ?1", table.name);
        if !after.is_empty() {
            sql += &format!(" AND ({order}) > ({})", places(after.len()));
        }
        if !marks.is_empty() {
            sql += &format!(" ORDER BY {order}");
        }
        sql += &format!(" LIMIT {limit}");
        let core = self.core.lock();
        let mut statement = core.connection().prepare_cached(&sql).map_err(error)?;
        let tenant = Cell::Text(tenant.to_string());
        let values = std::iter::once(&tenant).chain(after);
        let count = table.columns.len();
        let rows = statement.query_map(params_from_iter(values), |row| {
            Ok(Copied { cells: cells(row, 0, count)?, mark: cells(row, count, marks.len())? })
        });
        rows.and_then(Iterator::collect).map_err(error)
    }

    async fn last(&self, table: &Table, tenant: &TenantId) -> Result<Vec<Cell>> {
        if table.in_order || table.key == 0 {
            return Ok(vec![]);
        }
        let marks = marks(table);
        let backwards: Vec<String> = marks.iter().map(|name| format!("{name} DESC")).collect();
        let sql = format!(
            "SELECT {} FROM {} WHERE tenant = ?1 ORDER BY {} LIMIT 1",
            marks.join(", "),
            table.name,
            backwards.join(", ")
        );
        let core = self.core.lock();
        let mut statement = core.connection().prepare_cached(&sql).map_err(error)?;
        let last = statement.query_map([tenant.as_str()], |row| cells(row, 0, marks.len()));
        let last: Vec<Vec<Cell>> = last.and_then(Iterator::collect).map_err(error)?;
        Ok(last.into_iter().next().unwrap_or_default())
    }

    async fn write(&self, table: &Table, tenant: &TenantId, rows: &[Vec<Cell>]) -> Result<()> {
        let sql = format!(
            "INSERT INTO {} (tenant, {}) VALUES (?1, {}) ON CONFLICT DO NOTHING",
            table.name,
            names(table),
            places(table.columns.len())
        );
        let tenant = Cell::Text(tenant.to_string());
        self.core.lock().transaction(|connection| {
            let mut statement = connection.prepare_cached(&sql).map_err(error)?;
            for row in rows {
                let values = std::iter::once(&tenant).chain(row);
                statement.execute(params_from_iter(values)).map_err(error)?;
            }
            Ok(())
        })
    }

    async fn remove(&self, tenant: &TenantId) -> Result<()> {
        self.core.lock().transaction(|connection| {
            // What people did with a task goes once the task has gone, which stands before it in the list.
            connection.execute(audit::LET_GO, [tenant.as_str()]).map_err(error)?;
            for table in TABLES {
                let sql = format!("DELETE FROM {} WHERE tenant = ?1", table.name);
                connection.execute(&sql, [tenant.as_str()]).map_err(error)?;
            }
            Ok(())
        })
    }

    async fn deployment_keys(&self) -> Result<Vec<(String, Vec<u8>)>> {
        let core = self.core.lock();
        core.read().many("SELECT name, value FROM deployment_keys", &[], |row| Ok((row.get(0)?, row.get(1)?)))
    }

    async fn keep_deployment_key(&self, name: &str, value: &[u8]) -> Result<()> {
        let value: [u8; 32] =
            value.try_into().map_err(|_| Error::Corrupt(format!("the key {name} has another length")))?;
        self.core.lock().deployment_key(name, value).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transfer::Kind;
    use std::collections::BTreeMap;

    /// Columns that stay behind: who works on a row or did, and numbers that are given anew.
    const LEFT: [(&str, &str); 12] = [
        ("wf_signal_q", "owner"),
        ("wf_schedule_q", "owner"),
        ("calls", "owner"),
        ("deliveries", "owner"),
        ("wf_signal_q", "taken_over"),
        ("wf_schedule_q", "taken_over"),
        ("calls", "taken_over"),
        ("deliveries", "taken_over"),
        ("deliveries", "lent"),
        ("deliveries", "seq"),
        ("outbox", "seq"),
        ("events", "position"),
    ];

    #[test]
    fn every_column_of_a_tenant_is_moved() {
        let core = Core::open_in_memory().unwrap();
        let sql = "SELECT m.name, c.name, c.type FROM sqlite_schema m JOIN pragma_table_info(m.name) c
            WHERE m.type = 'table' AND EXISTS (SELECT 1 FROM pragma_table_info(m.name) t WHERE t.name = 'tenant')";
        let columns: Vec<(String, String, String)> =
            core.read().many(sql, &[], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap();
        let mut found = BTreeMap::<String, Vec<(String, String)>>::new();
        for (table, column, kind) in columns {
            if column != "tenant" && !LEFT.contains(&(table.as_str(), column.as_str())) {
                found.entry(table).or_default().push((column, kind));
            }
        }
        let mut moved = BTreeMap::<String, Vec<(String, String)>>::new();
        for table in TABLES {
            let kind = |kind: Kind| match kind {
                Kind::Text => "TEXT",
                Kind::Int => "INTEGER",
                Kind::Bytes | Kind::Id => "BLOB",
            };
            let columns =
                table.columns.iter().map(|(name, of)| ((*name).to_owned(), kind(*of).to_owned())).collect();
            moved.insert(table.name.to_owned(), columns);
        }
        for columns in found.values_mut().chain(moved.values_mut()) {
            columns.sort();
        }
        assert_eq!(moved, found);
    }
}
