//! A PostgreSQL database as one end of a move.

use super::{
    audit,
    base::begin,
    error::error,
    migrate,
    pool::{self, Options},
    session::{Scope, Session},
    value::{Column, Text, Value, bytes, get, text},
};
use crate::{
    port::{Error, Result},
    transfer::{Cell, Copied, Kind, Side, TABLES, Table},
};
use async_trait::async_trait;
use machine::TenantId;
use tokio_postgres::Row;
use uuid::Uuid;

const LIVING: &str = "SELECT count(*) FROM wf_host_locks WHERE kind = 'node' AND NOT fenced
    AND until_utc > (extract(epoch FROM clock_timestamp()) * 1000000)::bigint";
const TENANTS: &str = "SELECT tenant FROM tenants ORDER BY tenant";
const KEYS: &str = "SELECT name, value FROM deployment_keys ORDER BY name";
const KEEP_KEY: &str = "INSERT INTO deployment_keys (name, value) VALUES ($1, $2) ON CONFLICT DO NOTHING";

/// A database that no node is at work on.
pub struct AtRest {
    session: Session,
}

impl AtRest {
    /// Connects to a database that [`super::migrate`] has prepared.
    pub async fn open(url: &str) -> Result<AtRest> {
        let mut options = Options::default();
        let session = pool::connect(&pool::address(url, &mut options)?, options.pooled).await?;
        migrate::check(&session).await?;
        Ok(AtRest { session })
    }

    async fn ask(&self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>> {
        let answer = self.session.transact(&begin(Scope::All, ""), sql, values).await;
        if answer.is_err() {
            // The error that counts is the one before.
            let _ = self.session.command("ROLLBACK").await;
        }
        answer
    }
}

/// What rows are read by: an expression, its kind, and its type for a parameter.
fn marks(table: &Table) -> Vec<(&'static str, Kind)> {
    match (table.in_order, table.name) {
        (true, "events") => vec![("xid::text::bigint", Kind::Int), ("seq", Kind::Int), ("id", Kind::Id)],
        (true, _) => vec![("seq", Kind::Int)],
        (false, _) => table.key_columns().to_vec(),
    }
}

fn names(columns: &[(&'static str, Kind)]) -> String {
    columns.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

fn sql_type(kind: Kind) -> &'static str {
    match kind {
        Kind::Text => "text",
        Kind::Bytes => "bytea",
        Kind::Id => "uuid",
        Kind::Int => "bigint",
    }
}

fn value(cell: &Cell, kind: Kind) -> Value<'_> {
    match (cell, kind) {
        (Cell::Text(text), _) => Value::Text(Some(Text(text))),
        (Cell::Bytes(id), Kind::Id) => Value::Id(Uuid::from_slice(id).ok()),
        (Cell::Bytes(bytes), _) => Value::Bytes(Some(bytes)),
        (Cell::Int(int), _) => Value::Int(Some(*int)),
        (Cell::Null, Kind::Text) => Value::Text(None),
        (Cell::Null, Kind::Bytes) => Value::Bytes(None),
        (Cell::Null, Kind::Id) => Value::Id(None),
        (Cell::Null, Kind::Int) => Value::Int(None),
    }
}

fn cells(row: &Row, from: usize, columns: &[(&'static str, Kind)]) -> Result<Vec<Cell>> {
    let read = |(at, (_, kind)): (usize, &(&'static str, Kind))| {
        Ok(match kind {
            Kind::Text => get::<Option<String>>(row, from + at)?.map(Cell::Text),
            Kind::Bytes => get::<Option<Vec<u8>>>(row, from + at)?.map(Cell::Bytes),
            Kind::Id => get::<Option<Uuid>>(row, from + at)?.map(|id| Cell::Bytes(id.as_bytes().to_vec())),
            Kind::Int => get::<Option<i64>>(row, from + at)?.map(Cell::Int),
        }
        .unwrap_or(Cell::Null))
    };
    columns
        .iter()
        .enumerate()
        .map(read)
        .collect::<std::result::Result<_, tokio_postgres::Error>>()
        .map_err(error)
}

#[async_trait]
impl Side for AtRest {
    async fn at_rest(&self) -> Result<()> {
        let rows = self.ask(LIVING, &[]).await?;
        let living: i64 = rows.first().map_or(Ok(0), |row| get(row, 0)).map_err(error)?;
        match living {
            0 => Ok(()),
            count => Err(Error::InUse(format!("{count} nodes work on the database: stop them first"))),
        }
    }

    async fn tenants(&self) -> Result<Vec<TenantId>> {
        let rows = self.ask(TENANTS, &[]).await?;
        let named = rows.iter().map(|row| super::read::tenant(row, 0));
        named.collect::<std::result::Result<_, _>>().map_err(error)
    }

    async fn read(
        &self,
        table: &Table,
        tenant: &TenantId,
        after: &[Cell],
        limit: usize,
    ) -> Result<Vec<Copied>> {
        let marks = marks(table);
        let order = names(&marks);
        let mut sql = format!("SELECT {}", names(table.columns));
        if !marks.is_empty() {
            sql += &format!(", {order}");
        }
        sql += &format!(" FROM {} t WHERE tenant = $1", table.name);
        if table.name == "wf_history" {
            // Of instances that retention deleted it goes with its partition, and is nobody's until then.
            sql +=
                " AND EXISTS (SELECT 1 FROM wf_instances i WHERE i.tenant = t.tenant AND i.id = t.instance)";
        }
        if !after.is_empty() {
            let places: Vec<String> = marks
                .iter()
                .enumerate()
                .map(|(at, (_, kind))| format!("${}::{}", at + 2, sql_type(*kind)))
                .collect();
            sql += &format!(" AND ({order}) > ({})", places.join(", "));
        }
        if !marks.is_empty() {
            sql += &format!(" ORDER BY {order}");
        }
        sql += &format!(" LIMIT {limit}");
        let mut values = vec![text(tenant.as_str())];
        values.extend(after.iter().zip(&marks).map(|(cell, (_, kind))| value(cell, *kind)));
        let count = table.columns.len();
        let copied =
            |row: &Row| Ok(Copied { cells: cells(row, 0, table.columns)?, mark: cells(row, count, &marks)? });
        self.ask(&sql, &values).await?.iter().map(copied).collect()
    }

    async fn last(&self, table: &Table, tenant: &TenantId) -> Result<Vec<Cell>> {
        let marks = marks(table);
        if table.in_order || marks.is_empty() {
            return Ok(vec![]);
        }
        let backwards: Vec<String> = marks.iter().map(|(name, _)| format!("{name} DESC")).collect();
        let (names, backwards) = (names(&marks), backwards.join(", "));
        let sql =
            format!("SELECT {names} FROM {} WHERE tenant = $1 ORDER BY {backwards} LIMIT 1", table.name);
        let rows = self.ask(&sql, &[text(tenant.as_str())]).await?;
        rows.first().map_or(Ok(vec![]), |row| cells(row, 0, &marks))
    }

    async fn write(&self, table: &Table, tenant: &TenantId, rows: &[Vec<Cell>]) -> Result<()> {
        let Some(first) = rows.first() else { return Ok(()) };
        let kinds = || table.columns.iter().map(|(_, kind)| *kind);
        let mut columns: Vec<Column<'_>> =
            first.iter().zip(kinds()).map(|(cell, kind)| Column::like(&value(cell, kind))).collect();
        for row in rows {
            for ((column, cell), kind) in columns.iter_mut().zip(row).zip(kinds()) {
                column.push(value(cell, kind));
            }
        }
        // Events have a place in their transaction, and others a number that is given in the order of the rows.
        let (place, number) = if table.name == "events" { (", seq", ", place") } else { ("", "") };
        let arrays: Vec<String> = (2..columns.len() + 2).map(|at| format!("${at}")).collect();
        let (names, arrays) = (names(table.columns), arrays.join(", "));
        let sql = format!(
            "INSERT INTO {} (tenant, {names}{place}) SELECT $1, {names}{number}
            FROM unnest({arrays}) WITH ORDINALITY AS r({names}, place) ORDER BY place ON CONFLICT DO NOTHING",
            table.name
        );
        let tenant = text(tenant.as_str());
        let mut params = vec![tenant.param()];
        params.extend(columns.iter().map(Column::param));
        self.session.command(&begin(Scope::All, "")).await.map_err(error)?;
        self.session.prepare(&sql, &params).await.map_err(error)?;
        self.session.ask(&sql, params).await.map_err(error)?;
        self.session.command("COMMIT").await.map(drop).map_err(error)
    }

    async fn remove(&self, tenant: &TenantId) -> Result<()> {
        let no_limit = "; SET LOCAL statement_timeout = 0";
        self.session.command(&begin(Scope::All, no_limit)).await.map_err(error)?;
        self.session.query(audit::LET_GO, &[text(tenant.as_str())]).await.map_err(error)?;
        for table in TABLES {
            let sql = format!("DELETE FROM {} WHERE tenant = $1", table.name);
            self.session.query(&sql, &[text(tenant.as_str())]).await.map_err(error)?;
        }
        self.session.command("COMMIT").await.map(drop).map_err(error)
    }

    async fn deployment_keys(&self) -> Result<Vec<(String, Vec<u8>)>> {
        let rows = self.ask(KEYS, &[]).await?;
        let read = |row: &Row| Ok((get(row, 0)?, get(row, 1)?));
        rows.iter().map(read).collect::<std::result::Result<_, tokio_postgres::Error>>().map_err(error)
    }

    async fn keep_deployment_key(&self, name: &str, value: &[u8]) -> Result<()> {
        self.ask(KEEP_KEY, &[text(name), bytes(value)]).await.map(drop)
    }
}
