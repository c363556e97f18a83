//! What was emitted and is not published yet: of every tenant its share, in the order of its commits.

use super::{
    list::ROWS_MAX,
    read::{Read, id, tenant, time},
};
use crate::{
    port::Result,
    rows::*,
    share::{self, Waiting},
};
use machine::Time;
use rusqlite::{Row, params};

/// Tenants with something in the outbox, since when and their weight, one step along the index each.
const TENANTS: &str = "WITH RECURSIVE emitting(tenant) AS (
        SELECT min(tenant) FROM outbox
        UNION ALL SELECT (SELECT min(tenant) FROM outbox WHERE tenant > emitting.tenant)
        FROM emitting WHERE emitting.tenant IS NOT NULL)
    SELECT tenant, (SELECT created_at FROM outbox o WHERE o.tenant = emitting.tenant ORDER BY seq LIMIT 1),
        coalesce((SELECT weight FROM tenants t WHERE t.tenant = emitting.tenant), 1)
    FROM emitting WHERE tenant IS NOT NULL AND NOT EXISTS (SELECT 1 FROM tenants p
        WHERE p.tenant = emitting.tenant AND p.status IN ('suspended', 'deleted'))";
const OF_TENANT: &str = "SELECT tenant, id, key, event_type, event, created_at FROM outbox
    WHERE tenant = ?1 AND key NOT IN (SELECT value FROM json_each(?2)) ORDER BY seq LIMIT ?3";

impl Read<'_> {
    pub fn outbox(&self, ask: &OutboxAsk) -> Result<Vec<Claimed<OutboxRow>>> {
        let waiting = self.many(TENANTS, &[], |row| {
            Ok(Waiting { tenant: tenant(row, 0)?, oldest: time(row, 1)?, weight: row.get(2)? })
        })?;
        let mut left = ask.limit.min(ROWS_MAX);
        let mut found = Vec::new();
        // Nothing in the outbox is for later.
        for (tenant, share) in share::shares(waiting, Time(i64::MAX), left, &ask.but_tenants) {
            let but = ask.but_keys.iter().filter(|(of, _)| *of == tenant).map(|(_, key)| key.as_str());
            let but = serde_json::Value::from_iter(but).to_string();
            let rows = self.many(OF_TENANT, params![tenant.as_str(), but, left.min(share) as i64], outbox)?;
            left -= rows.len();
            found.extend(rows);
        }
        Ok(found)
    }
}

fn outbox(row: &Row<'_>) -> rusqlite::Result<Claimed<OutboxRow>> {
    Ok(Claimed {
        tenant: tenant(row, 0)?,
        row: OutboxRow {
            id: id(row, 1)?,
            key: row.get(2)?,
            event_type: row.get(3)?,
            event: row.get(4)?,
            created_at: time(row, 5)?,
        },
    })
}
