//! How many rows each queue holds, as the triggers of the tables keep it, and what of a queue nobody has.

use super::{
    base::{Postgres, begin, of},
    error::error,
    session::Scope,
    value::{Value, get, int, text, time},
};
use crate::{
    port::Result,
    rows::{QueueKind, QueueRow, Unclaimed},
    views::AHEAD_MAX,
};
use machine::{TenantId, Time};
use tokio_postgres::Row;

const ALL: &str = "SELECT kind, name, sum(depth)::bigint FROM queue_depths
    GROUP BY kind, name HAVING sum(depth) <> 0 ORDER BY kind, name";
const OF: &str = "SELECT kind, name, sum(depth)::bigint FROM queue_depths WHERE tenant = $1
    GROUP BY kind, name HAVING sum(depth) <> 0 ORDER BY kind, name";
/// The limits keep a look at a long queue short.
const UNCLAIMED: &str = "SELECT
    (SELECT count(*) FROM (SELECT 1 FROM deliveries WHERE owner IS NULL AND worker = $1 AND tenant = $2
        AND visible_at <= $3 LIMIT $4) ready),
    (SELECT count(*) FROM (SELECT 1 FROM deliveries WHERE owner IS NULL AND worker = $1 AND tenant = $2
        AND visible_at > $3 LIMIT $4) later),
    (SELECT min(visible_at) FROM deliveries WHERE owner IS NULL AND worker = $1 AND tenant = $2)";
/// What connections hold is put together; a row that somebody adds to at this moment is left for the next time.
const FOLD: &str = "WITH idle AS MATERIALIZED (
        SELECT tenant, kind, name, shard FROM queue_depths WHERE shard <> 0 LIMIT 10000 FOR UPDATE SKIP LOCKED),
    gone AS (DELETE FROM queue_depths q USING idle i WHERE q.tenant = i.tenant AND q.kind = i.kind
        AND q.name = i.name AND q.shard = i.shard RETURNING q.tenant, q.kind, q.name, q.depth)
    INSERT INTO queue_depths AS q (tenant, kind, name, shard, depth)
    SELECT tenant, kind, name, 0, sum(depth) FROM gone GROUP BY tenant, kind, name HAVING sum(depth) <> 0
    ORDER BY tenant, kind, name
    ON CONFLICT (tenant, kind, name, shard) DO UPDATE SET depth = q.depth + excluded.depth";
const SWEEP: &str = "DELETE FROM queue_depths WHERE shard = 0 AND depth = 0";

impl Postgres {
    pub(super) async fn kept_queues(&self, tenant: Option<&TenantId>) -> Result<Vec<QueueRow>> {
        let queue = |row: &Row| {
            let (kind, depth): (String, i64) = (get(row, 0)?, get(row, 2)?);
            Ok((kind, get(row, 1)?, depth))
        };
        let rows: Vec<(String, String, i64)> = match tenant {
            Some(tenant) => self.many(of(tenant), OF, &[text(tenant.as_str())], queue).await?,
            None => self.many(Scope::All, ALL, &[], queue).await?,
        };
        let known = |(kind, name, depth): (String, String, i64)| {
            Some(QueueRow { kind: QueueKind::of_word(&kind)?, name, depth: depth.max(0).unsigned_abs() })
        };
        Ok(rows.into_iter().filter_map(known).collect())
    }

    pub(super) async fn unclaimed_of(&self, tenant: &TenantId, worker: &str, now: Time) -> Result<Unclaimed> {
        let values = [text(worker), text(tenant.as_str()), time(now), int(AHEAD_MAX as i64)];
        let found = self.one(of(tenant), UNCLAIMED, &values, |row| {
            let (ready, later): (i64, i64) = (get(row, 0)?, get(row, 1)?);
            let oldest: Option<i64> = get(row, 2)?;
            Ok(Unclaimed {
                ready: ready.unsigned_abs(),
                later: later.unsigned_abs(),
                oldest: oldest.map(Time),
            })
        });
        Ok(found.await?.unwrap_or_default())
    }

    /// Puts together what connections have counted, so that it does not grow with the number of connections there were.
    pub(super) async fn fold_queues(&self) -> Result<()> {
        let session = self.writers.take().await?;
        session.command(&begin(Scope::All, "")).await.map_err(error)?;
        for sql in [FOLD, SWEEP] {
            session.query(sql, &[] as &[Value<'_>]).await.map_err(error)?;
        }
        session.command("COMMIT").await.map_err(error)?;
        session.done();
        Ok(())
    }
}
