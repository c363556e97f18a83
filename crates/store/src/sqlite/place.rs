//! Where a queue row stands: who has it, and what comes before it.

use super::{
    delivery::{LENT, NEXT_TURN},
    read::{Read, optional_id, time},
    write::int,
};
use crate::{
    port::Result,
    rows::{Loans, QueueKey},
    views::*,
};
use machine::{TenantId, Time};
use rusqlite::{Row, ToSql, params};
use uuid::Uuid;

const SIGNAL: &str = "SELECT owner FROM wf_signal_q WHERE tenant = ?1 AND id = ?2";
const TIMER: &str = "SELECT owner FROM wf_schedule_q WHERE tenant = ?1 AND instance = ?2 AND token = ?3";
const CALL: &str = "SELECT owner, visible_at FROM calls WHERE tenant = ?1 AND instance = ?2 AND token = ?3";
const CALLS_AHEAD: &str = "SELECT count(*) FROM (SELECT 1 FROM calls
    WHERE owner IS NULL AND tenant = ?1 AND visible_at < ?2 LIMIT ?3)";
const DELIVERY: &str =
    "SELECT owner, visible_at, worker, (SELECT e.id FROM deliveries e WHERE e.tenant = d.tenant
        AND e.worker = d.worker AND e.order_key = d.order_key AND e.seq < d.seq ORDER BY e.seq LIMIT 1),
        lent FROM deliveries d WHERE tenant = ?1 AND id = ?2";
const DELIVERIES_AHEAD: &str = "SELECT count(*) FROM (SELECT 1 FROM deliveries
    WHERE owner IS NULL AND worker = ?4 AND tenant = ?1 AND visible_at < ?2 LIMIT ?3)";

impl Read<'_> {
    pub fn place(&self, tenant: &TenantId, row: QueueKey) -> Result<Option<Place>> {
        let tenant = tenant.as_str();
        let owned = |row: &Row<'_>| Ok(Place { owner: optional_id(row, 0)?, ..Place::default() });
        match row {
            QueueKey::Signal { id } => self.one(SIGNAL, params![tenant, id.as_bytes()], owned),
            QueueKey::Timer { instance, token } => {
                self.one(TIMER, params![tenant, instance.as_bytes(), int(token)], owned)
            }
            QueueKey::Call { instance, token } => self.place_of_call(tenant, instance, token),
            QueueKey::Delivery { id } => self.place_of_delivery(tenant, id),
        }
    }

    fn place_of_call(&self, tenant: &str, instance: Uuid, token: u64) -> Result<Option<Place>> {
        let found = self.one(CALL, params![tenant, instance.as_bytes(), int(token)], |row| {
            Ok((optional_id(row, 0)?, row.get::<_, i64>(1)?))
        })?;
        let Some((owner, visible_at)) = found else { return Ok(None) };
        let ahead = self.ahead(CALLS_AHEAD, params![tenant, visible_at, AHEAD_MAX as i64])?;
        Ok(Some(Place { owner, ahead, ..Place::default() }))
    }

    fn place_of_delivery(&self, tenant: &str, id: Uuid) -> Result<Option<Place>> {
        let found = self.one(DELIVERY, params![tenant, id.as_bytes()], |row| {
            Ok((
                optional_id(row, 0)?,
                row.get::<_, i64>(1)?,
                row.get::<_, String>(2)?,
                optional_id(row, 3)?,
                row.get::<_, bool>(4)?,
            ))
        })?;
        let Some((owner, visible_at, worker, behind, lent)) = found else { return Ok(None) };
        let ahead = self.ahead(DELIVERIES_AHEAD, params![tenant, visible_at, AHEAD_MAX as i64, worker])?;
        Ok(Some(Place { owner, ahead, behind, lent }))
    }

    pub fn loans(&self, tenant: &TenantId, worker: &str, now: Time) -> Result<Loans> {
        let lent = self.ahead(LENT, params![worker, tenant.as_str(), now.0])?;
        let next_turn = self.one(NEXT_TURN, params![tenant.as_str(), worker], |row| time(row, 0))?;
        Ok(Loans { lent, next_turn })
    }

    fn ahead(&self, sql: &str, values: &[&dyn ToSql]) -> Result<u64> {
        let count: Option<i64> = self.one(sql, values, |row| row.get(0))?;
        Ok(count.unwrap_or(0).unsigned_abs())
    }
}
