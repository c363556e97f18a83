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

/// Single-row inserts per second, in transactions of [`BATCH`] rows, in a new file in `folder`, which goes again.
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
    let rate = rows as f64 / (elapsed() - began).as_secs_f64();
    drop(connection);
    std::fs::remove_file(&path).map_err(io)?;
    Ok(rate)
}

/// Times how long the disk takes to make 4 KiB appended to a file durable, as often as it is asked.
#[derive(Debug)]
pub struct Syncs {
    file: File,
    micros: Vec<f64>,
}

impl Syncs {
    pub fn new(folder: &Path) -> Result<Syncs> {
        let file = File::create(folder.join("probe.sync")).map_err(io)?;
        Ok(Syncs { file, micros: Vec::new() })
    }

    pub fn once(&mut self, elapsed: &dyn Fn() -> Duration) -> Result<()> {
        let began = elapsed();
        self.file.write_all(&[0u8; 4096]).map_err(io)?;
        self.file.sync_data().map_err(io)?;
        self.micros.push((elapsed() - began).as_secs_f64() * 1e6);
        Ok(())
    }

    /// The median so far, in microseconds.
    pub fn p50_micros(&mut self) -> f64 {
        self.micros.sort_by(f64::total_cmp);
        self.micros.get(self.micros.len() / 2).copied().unwrap_or(f64::NAN)
    }
}

fn io(err: std::io::Error) -> Error {
    Error::Unavailable(err.to_string())
}
