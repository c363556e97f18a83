//! What was emitted and is not published yet: of every tenant its share, in the order of its commits.

use super::{
    base::Postgres,
    list::ROWS_MAX,
    read::{tenant, time},
    session::Scope,
    value::{Text, Value, get, int},
};
use crate::{
    port::Result,
    rows::*,
    share::{self, Waiting},
};
use machine::Time;
use tokio_postgres::{Error as PgError, Row};
use uuid::Uuid;

/// Tenants with something in the outbox, since when and their weight, one step along the index each.
const TENANTS: &str = "WITH RECURSIVE emitting(tenant) AS (
        (SELECT tenant FROM outbox ORDER BY tenant, seq LIMIT 1)
        UNION ALL SELECT (SELECT o.tenant FROM outbox o WHERE o.tenant > emitting.tenant
            ORDER BY o.tenant, o.seq LIMIT 1)
        FROM emitting WHERE emitting.tenant IS NOT NULL)
    SELECT tenant, (SELECT created_at FROM outbox o WHERE o.tenant = emitting.tenant ORDER BY seq LIMIT 1),
        coalesce((SELECT weight FROM tenants t WHERE t.tenant = emitting.tenant), 1)
    FROM emitting WHERE tenant IS NOT NULL AND NOT EXISTS (SELECT 1 FROM tenants p
        WHERE p.tenant = emitting.tenant AND p.status IN ('suspended', 'deleted'))";
const SHARED: &str = "SELECT c.tenant, c.id, c.key, c.event_type, c.event, c.created_at
    FROM unnest($1, $2) WITH ORDINALITY AS t(tenant, share, ord)
    CROSS JOIN LATERAL (SELECT o.* FROM outbox o WHERE o.tenant = t.tenant AND NOT EXISTS (
            SELECT 1 FROM unnest($4, $5) AS k(tenant, key) WHERE k.tenant = o.tenant AND k.key = o.key)
        ORDER BY o.seq LIMIT t.share) c
    ORDER BY t.ord, c.seq LIMIT $3";

impl Postgres {
    pub(super) async fn emitted(&self, ask: &OutboxAsk) -> Result<Vec<Claimed<OutboxRow>>> {
        let limit = ask.limit.min(ROWS_MAX);
        let waiting = |row: &Row| {
            let (tenant, oldest) = (tenant(row, 0)?, time(row, 1)?);
            Ok(Waiting { tenant, oldest, weight: get::<i64>(row, 2)? as u32 })
        };
        let waiting = self.many(Scope::All, TENANTS, &[], waiting).await?;
        // Nothing in the outbox is for later.
        let mut shares = share::shares(waiting, Time(i64::MAX), limit, &ask.but_tenants);
        shares.truncate(limit);
        if shares.is_empty() {
            return Ok(Vec::new());
        }
        let tenants: Vec<Text<'_>> = shares.iter().map(|(tenant, _)| Text(tenant.as_str())).collect();
        let counts: Vec<i64> = shares.iter().map(|(_, share)| *share as i64).collect();
        let but_tenants: Vec<Text<'_>> = ask.but_keys.iter().map(|(of, _)| Text(of.as_str())).collect();
        let but_keys: Vec<Text<'_>> = ask.but_keys.iter().map(|(_, key)| Text(key)).collect();
        let values = [
            Value::Texts(&tenants),
            Value::Ints(&counts),
            int(limit as i64),
            Value::Texts(&but_tenants),
            Value::Texts(&but_keys),
        ];
        self.many(Scope::All, SHARED, &values, outbox).await
    }
}

fn outbox(row: &Row) -> std::result::Result<Claimed<OutboxRow>, PgError> {
    Ok(Claimed {
        tenant: tenant(row, 0)?,
        row: OutboxRow {
            id: get::<Uuid>(row, 1)?,
            key: get(row, 2)?,
            event_type: get(row, 3)?,
            event: get(row, 4)?,
            created_at: time(row, 5)?,
        },
    })
}
