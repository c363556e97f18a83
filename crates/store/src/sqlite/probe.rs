//! What the disk and SQLite itself can do with the store's settings: the limits a benchmark is measured against.

use super::{error::error, open};
use crate::port::{Error, Result};
use std::{fs::File, io::Write as _, path::Path, time::Duration};

const CREATE: &str = "CREATE TABLE probe (id INTEGER PRIMARY KEY, payload BLOB NOT NULL) STRICT";
const INSERT: &str = "INSERT INTO probe (id, payload) VALUES (?1, ?2)";
/// Rows per transaction: as many as one full batch of commits writes.
const BATCH: i64 = 2_048;

/// Single-row inserts per second, in transactions of [`BATCH`] rows, in a new file in `folder`.
pub fn insert_rate(folder: &Path, length: Duration, elapsed: &dyn Fn() -> Duration) -> Result<f64> {
    let path = folder.join("probe.db");
    let mut connection = open::file(&path)?;
    connection.execute_batch(CREATE).map_err(error)?;
    let payload = [7u8; 64];
    let began = elapsed();
    let mut rows = 0i64;
    while elapsed() - began < length {
        let transaction = connection.transaction().map_err(error)?;
        {
            let mut insert = transaction.prepare_cached(INSERT).map_err(error)?;
            for id in rows..rows + BATCH {
                insert.execute((id, payload)).map_err(error)?;
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
