//! What the database counts and can do: the figures a benchmark is measured against.

use super::{
    error::error,
    pool::{self, Options},
};
use crate::port::Result;
use std::time::Duration;

const COUNTERS: &str = "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint,
    (SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()),
    (SELECT (tup_inserted + tup_updated + tup_deleted)::bigint FROM pg_stat_database WHERE datname = current_database())";

/// What the server has counted since it started, over all databases for the log.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counters {
    pub wal_bytes: i64,
    pub transactions: i64,
    pub rows: i64,
}

pub async fn counters(url: &str) -> Result<Counters> {
    let mut options = Options::default();
    let session = pool::connect(&pool::address(url, &mut options)?, options.pooled).await?;
    let rows = session.query(COUNTERS, &[]).await.map_err(error)?;
    let Some(row) = rows.first() else { return Ok(Counters::default()) };
    let read = || -> std::result::Result<Counters, tokio_postgres::Error> {
        Ok(Counters { wal_bytes: row.try_get(0)?, transactions: row.try_get(1)?, rows: row.try_get(2)? })
    };
    read().map_err(error)
}

/// Rows per second of plain inserts of 1,000 rows each, one transaction each. Needs a role that may make tables.
pub async fn insert_rate(
    url: &str,
    length: Duration,
    elapsed: &(dyn Fn() -> Duration + Sync),
) -> Result<f64> {
    let mut options = Options::default();
    let session = pool::connect(&pool::address(url, &mut options)?, options.pooled).await?;
    // Several may measure at once, and a temporary table would not be logged.
    let table = format!("bench_probe_{}", std::process::id());
    let create = format!(
        "DROP TABLE IF EXISTS {table}; CREATE TABLE {table} (tenant text NOT NULL, id uuid NOT NULL, payload bytea NOT NULL,
         PRIMARY KEY (tenant, id))"
    );
    // The average row of a workflow of three steps: 3,119 payload bytes in 16 rows.
    let insert = format!(
        "INSERT INTO {table} SELECT 'probe', gen_random_uuid(), convert_to(repeat('7', 195), 'UTF8')
         FROM generate_series(1, 1000)"
    );
    session.command(&create).await.map_err(error)?;
    let began = elapsed();
    let mut rows = 0;
    while elapsed() - began < length {
        session.command(&insert).await.map_err(error)?;
        rows += 1_000;
    }
    let rate = f64::from(rows) / (elapsed() - began).as_secs_f64();
    session.command(&format!("DROP TABLE {table}")).await.map_err(error)?;
    Ok(rate)
}
