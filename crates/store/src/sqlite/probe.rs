//! What the disk and SQLite itself can do with the store's settings: the limits a benchmark is measured against.

use super::{error::error, open};
use crate::port::{Error, Result};
use std::{fs::File, io::Write as _, path::Path, time::Duration};

/// Keyed as the store's own tables are.
const CREATE: &str = "CREATE TABLE probe (tenant TEXT NOT NULL, id BLOB NOT NULL, payload BLOB NOT NULL, \
                      PRIMARY KEY (tenant, id)) STRICT, WITHOUT ROWID";
const INSERT: &str = "INSERT INTO probe (tenant, id, payload) VALUES (?1, ?2, ?3)";
/// The average row of a workflow of three steps: 3,119 payload bytes in 16 rows.
const PAYLOAD: [u8; 195] = [7; 195];
/// Rows per transaction: as many as one full batch of commits writes.
const BATCH: i64 = 2_048;

/// Single-row inserts per second, in transactions of [`BATCH`] rows, in a new file in `folder`.
pub fn insert_rate(folder: &Path, length: Duration, elapsed: &dyn Fn() -> Duration) -> Result<f64> {
    let path = folder.join("probe.db");
    let mut connection = open::file(&path)?;
    connection.execute_batch(CREATE).map_err(error)?;
    let began = elapsed();
    let mut rows = 0i64;
    while elapsed() - began < length {
        let transaction = connection.transaction().map_err(error)?;
        {
            let mut insert = transaction.prepare_cached(INSERT).map_err(error)?;
            for id in rows..rows + BATCH {
                let id = i128::from(id).to_be_bytes();
                insert.execute(("probe", id, PAYLOAD)).map_err(error)?;
            }
        }
        transaction.commit().map_err(error)?;
        rows += BATCH;
    }
    Ok(rows as f64 / (elapsed() - began).as_secs_f64())
}

/// The median time in microseconds to make 4 KiB appended to a file in `folder` durable.
pub fn sync_p50_micros(folder: &Path, elapsed: &dyn Fn() -> Duration) -> Result<f64> {
    let io = |err: std::io::Error| Error::Unavailable(err.to_string());
    let mut file = File::create(folder.join("probe.sync")).map_err(io)?;
    let page = [0u8; 4096];
    let mut times = Vec::new();
    for _ in 0..200 {
        let began = elapsed();
        file.write_all(&page).map_err(io)?;
        file.sync_data().map_err(io)?;
        times.push((elapsed() - began).as_secs_f64() * 1e6);
    }
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}
