//! Where a queue row stands: who has it, and what comes before it.

use super::{
    base::{Postgres, of},
    read::time as time_at,
    turns::LENT,
    value::{Value, get, id, int, text, time},
};
use crate::{
    port::Result,
    rows::{Loans, QueueKey},
    views::*,
};
use machine::{TenantId, Time};
use tokio_postgres::Row;
use uuid::Uuid;

const SIGNAL: &str = "SELECT owner FROM wf_signal_q WHERE tenant = $1 AND id = $2";
const TIMER: &str = "SELECT owner FROM wf_schedule_q WHERE tenant = $1 AND instance = $2 AND token = $3";
const CALL: &str = "SELECT owner, visible_at FROM calls WHERE tenant = $1 AND instance = $2 AND token = $3";
const CALLS_AHEAD: &str = "SELECT count(*) FROM (SELECT 1 FROM calls
    WHERE owner IS NULL AND tenant = $1 AND visible_at < $2 LIMIT $3) AS counted";
const DELIVERY: &str =
    "SELECT owner, visible_at, worker, (SELECT e.id FROM deliveries e WHERE e.tenant = d.tenant
        AND e.worker = d.worker AND e.order_key = d.order_key AND e.seq < d.seq ORDER BY e.seq LIMIT 1),
        lent FROM deliveries d WHERE tenant = $1 AND id = $2";
const NEXT_TURN: &str = "SELECT next_at FROM worker_turns WHERE tenant = $1 AND worker = $2";
const DELIVERIES_AHEAD: &str = "SELECT count(*) FROM (SELECT 1 FROM deliveries
    WHERE owner IS NULL AND worker = $4 AND tenant = $1 AND visible_at < $2 LIMIT $3) AS counted";

impl Postgres {
    pub(super) async fn place_of(&self, tenant: &TenantId, row: QueueKey) -> Result<Option<Place>> {
        let name = text(tenant.as_str());
        let owned = |row: &Row| Ok(Place { owner: get(row, 0)?, ..Place::default() });
        match row {
            QueueKey::Signal { id: signal } => self.one(of(tenant), SIGNAL, &[name, id(signal)], owned).await,
            QueueKey::Timer { instance, token } => {
                self.one(of(tenant), TIMER, &[name, id(instance), int(token.cast_signed())], owned).await
            }
            QueueKey::Call { instance, token } => self.place_of_call(tenant, instance, token).await,
            QueueKey::Delivery { id } => self.place_of_delivery(tenant, id).await,
        }
    }

    async fn place_of_call(&self, tenant: &TenantId, instance: Uuid, token: u64) -> Result<Option<Place>> {
        let values = [text(tenant.as_str()), id(instance), int(token.cast_signed())];
        let found =
            self.one(of(tenant), CALL, &values, |row| Ok((get(row, 0)?, get::<i64>(row, 1)?))).await?;
        let Some((owner, visible_at)) = found else { return Ok(None) };
        let values = [text(tenant.as_str()), int(visible_at), int(AHEAD_MAX as i64)];
        let ahead = self.ahead(tenant, CALLS_AHEAD, &values).await?;
        Ok(Some(Place { owner, ahead, ..Place::default() }))
    }

    async fn place_of_delivery(&self, tenant: &TenantId, delivery: Uuid) -> Result<Option<Place>> {
        let values = [text(tenant.as_str()), id(delivery)];
        let read = |row: &Row| {
            Ok((
                get(row, 0)?,
                get::<i64>(row, 1)?,
                get::<String>(row, 2)?,
                get(row, 3)?,
                get::<bool>(row, 4)?,
            ))
        };
        let found = self.one(of(tenant), DELIVERY, &values, read).await?;
        let Some((owner, visible_at, worker, behind, lent)) = found else { return Ok(None) };
        let values = [text(tenant.as_str()), int(visible_at), int(AHEAD_MAX as i64), text(&worker)];
        let ahead = self.ahead(tenant, DELIVERIES_AHEAD, &values).await?;
        Ok(Some(Place { owner, ahead, behind, lent }))
    }

    pub(super) async fn loans_of(&self, tenant: &TenantId, worker: &str, now: Time) -> Result<Loans> {
        let values = [text(tenant.as_str()), text(worker), time(now)];
        let lent = self.ahead(tenant, LENT, &values).await?;
        let next_turn = self.one(of(tenant), NEXT_TURN, &values[..2], |row| time_at(row, 0)).await?;
        Ok(Loans { lent, next_turn })
    }

    async fn ahead(&self, tenant: &TenantId, sql: &str, values: &[Value<'_>]) -> Result<u64> {
        let count = self.one(of(tenant), sql, values, |row| get::<i64>(row, 0)).await?;
        Ok(count.unwrap_or(0).unsigned_abs())
    }
}
