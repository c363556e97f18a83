//! Reads of datasets and of children.

use super::{read::time, value::get};
use crate::datasets::*;
use tokio_postgres::{Error as PgError, Row};

pub(super) const DATASET: &str =
    "SELECT id, count, created_at, owner FROM datasets WHERE tenant = $1 AND id = $2";
/// A row that begins before the range may reach into it; no row is longer than `RUN_MAX`.
pub(super) const ITEMS: &str = "SELECT dataset, first, round, count, items FROM dataset_items
    WHERE tenant = $1 AND dataset = $2 AND first > $3 AND first < $4 AND first + count > $5
    ORDER BY first, round";
pub(super) const CHILDREN: &str =
    "SELECT status, count(*) FROM wf_instances WHERE tenant = $1 AND parent = $2
    GROUP BY status ORDER BY status";

pub(super) fn dataset(row: &Row) -> Result<DatasetRow, PgError> {
    Ok(DatasetRow {
        id: get(row, 0)?,
        count: get::<i64>(row, 1)? as u64,
        created_at: time(row, 2)?,
        owner: get(row, 3)?,
    })
}

pub(super) fn items(row: &Row) -> Result<ItemsRow, PgError> {
    Ok(ItemsRow {
        dataset: get(row, 0)?,
        first: get::<i64>(row, 1)? as u64,
        round: get::<i64>(row, 2)? as u32,
        count: get::<i64>(row, 3)? as u64,
        items: get(row, 4)?,
    })
}
