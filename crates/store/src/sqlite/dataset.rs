//! Reads of datasets and of children, over any connection.

use super::read::{Read, id, time};
use crate::{datasets::*, port::Result};
use machine::TenantId;
use rusqlite::params;
use uuid::Uuid;

const DATASET: &str = "SELECT id, count, created_at, owner FROM datasets WHERE tenant = ?1 AND id = ?2";
/// A row that begins before the range may reach into it; no row is longer than `RUN_MAX`.
const ITEMS: &str = "SELECT dataset, first, round, count, items FROM dataset_items
    WHERE tenant = ?1 AND dataset = ?2 AND first > ?3 AND first < ?4 AND first + count > ?5
    ORDER BY first, round";
const CHILDREN: &str = "SELECT status, count(*) FROM wf_instances WHERE tenant = ?1 AND parent = ?2 GROUP BY status ORDER BY status";

impl Read<'_> {
    pub fn dataset(&self, tenant: &TenantId, dataset: Uuid) -> Result<Option<DatasetRow>> {
        self.one(DATASET, params![tenant.as_str(), dataset.as_bytes()], |row| {
            Ok(DatasetRow {
                id: id(row, 0)?,
                count: row.get::<_, i64>(1)? as u64,
                created_at: time(row, 2)?,
                owner: row.get::<_, Option<[u8; 16]>>(3)?.map(Uuid::from_bytes),
            })
        })
    }

    /// Every row that holds any of the items `from..to`, by position and round.
    pub fn dataset_items(
        &self,
        tenant: &TenantId,
        dataset: Uuid,
        from: u64,
        to: u64,
    ) -> Result<Vec<ItemsRow>> {
        let (from, to) = (from as i64, to.min(i64::MAX as u64) as i64);
        let values = params![tenant.as_str(), dataset.as_bytes(), from - RUN_MAX as i64, to, from];
        self.many(ITEMS, values, |row| {
            Ok(ItemsRow {
                dataset: id(row, 0)?,
                first: row.get::<_, i64>(1)? as u64,
                round: row.get(2)?,
                count: row.get::<_, i64>(3)? as u64,
                items: row.get(4)?,
            })
        })
    }

    /// How many children the instance has, by status.
    pub fn children(&self, tenant: &TenantId, parent: Uuid) -> Result<Vec<(String, u64)>> {
        self.many(CHILDREN, params![tenant.as_str(), parent.as_bytes()], |row| {
            Ok((row.get(0)?, row.get::<_, i64>(1)? as u64))
        })
    }
}
