//! Hands deliveries out at a pace, and no more at once than a worker may have: both are counted in the transaction that hands
//! out, one at a time for a worker.

use super::{
    base::{Postgres, begin, of},
    delivery::{CLAIM, CLAIM_MAX, LEND, Placed, Shares, delivery, in_order, lending},
    error::error,
    node,
    read::{tenant as tenant_at, time as time_at},
    session::{Scope, Session},
    value::{Text, Value, get, id, text, time},
};
use crate::{port::Result, rows::*};
use machine::{TenantId, Time, time::Span};
use std::collections::BTreeMap;
use tokio_postgres::{Error as PgError, Row};

pub(super) const LENT: &str =
    "SELECT count(*) FROM deliveries WHERE lent AND worker = $2 AND tenant = $1 AND visible_at > $3";
/// Whoever hands out to the same worker at the same time waits here.
const HOLD: &str = "INSERT INTO worker_turns AS t (tenant, worker, next_at)
    SELECT r.tenant, $2, 0 FROM unnest($1) AS r(tenant) ORDER BY r.tenant
    ON CONFLICT (tenant, worker) DO UPDATE SET next_at = t.next_at RETURNING t.tenant, t.next_at";
const TAKE: &str = "UPDATE worker_turns t SET next_at = r.next_at FROM unnest($1, $3) AS r(tenant, next_at)
    WHERE t.tenant = r.tenant AND t.worker = $2";
const WATERMARKS: &str = "SELECT name, value, version, updated_at FROM watermarks
    WHERE tenant = $1 AND worker = $2 ORDER BY name";

/// The turns of one worker, held until the transaction ends.
struct Turns<'a> {
    session: &'a Session,
    worker: &'a str,
    pace: Pace,
    now: Time,
    next: BTreeMap<TenantId, Time>,
}

impl<'a> Turns<'a> {
    async fn hold(
        session: &'a Session,
        (worker, pace, now): (&'a str, Pace, Time),
        tenants: &[&TenantId],
    ) -> std::result::Result<Turns<'a>, PgError> {
        let names: Vec<Text<'_>> = tenants.iter().map(|tenant| Text(tenant.as_str())).collect();
        let held = session.query(HOLD, &[Value::Texts(&names), text(worker)]).await?;
        let next = held.iter().map(|row| Ok((tenant_at(row, 0)?, time_at(row, 1)?)));
        Ok(Turns { session, worker, pace, now, next: next.collect::<std::result::Result<_, PgError>>()? })
    }

    fn allowed(&self, tenant: &TenantId) -> usize {
        self.pace.allowed(self.next.get(tenant).copied(), self.now)
    }

    /// These were handed out.
    async fn take(&self, taken: &[Placed]) -> std::result::Result<(), PgError> {
        let mut counts = BTreeMap::<&TenantId, usize>::new();
        for (_, one) in taken {
            *counts.entry(&one.tenant).or_default() += 1;
        }
        let names: Vec<Text<'_>> = counts.keys().map(|tenant| Text(tenant.as_str())).collect();
        let next = |(of, count): (&&TenantId, &usize)| {
            self.pace.next(self.next.get(*of).copied(), self.now, *count).0
        };
        let times: Vec<i64> = counts.iter().map(next).collect();
        self.session.query(TAKE, &[Value::Texts(&names), text(self.worker), Value::Ints(&times)]).await?;
        Ok(())
    }
}

impl Postgres {
    /// The turns that the pace allows are taken with the rows.
    pub(super) async fn claim_at_pace(
        &self,
        ask: &DeliveryAsk,
        pace: Pace,
        shares: &[(&str, TenantId, usize)],
    ) -> Result<Vec<Claimed<DeliveryRow>>> {
        let session = self.writers.take().await?;
        let lock = format!(", pg_advisory_xact_lock_shared({})", node::fence_key(ask.node));
        session
            .command(&begin(Scope::All, &format!("{lock}, {}", super::apply::SETTINGS)))
            .await
            .map_err(error)?;
        let member = session.query(node::FENCED, &[id(ask.node)]).await.map_err(error)?;
        if let Err(fenced) = node::not_fenced(&member) {
            session.command("ROLLBACK").await.map_err(error)?;
            session.done();
            return Err(fenced);
        }
        let mut claimed = Vec::new();
        for worker in &ask.workers {
            let mine: Vec<_> = shares.iter().filter(|(of, _, _)| of == worker).collect();
            let mut tenants: Vec<&TenantId> = mine.iter().map(|(_, tenant, _)| tenant).collect();
            tenants.sort();
            let turns = Turns::hold(&session, (worker, pace, ask.now), &tenants).await.map_err(error)?;
            let allowed: Vec<_> = mine
                .into_iter()
                .map(|(worker, tenant, share)| (*worker, tenant.clone(), turns.allowed(tenant).min(*share)))
                .collect();
            let shares = Shares::of(&allowed);
            let rows = session.query(CLAIM, &shares.params(ask, ask.limit.min(CLAIM_MAX))).await;
            let rows = rows.map_err(error)?;
            let taken: std::result::Result<Vec<Placed>, PgError> =
                rows.iter().map(|row| delivery(row, Some(ask.node))).collect();
            let taken = taken.map_err(error)?;
            turns.take(&taken).await.map_err(error)?;
            claimed.extend(taken);
        }
        session.command("COMMIT").await.map_err(error)?;
        session.done();
        Ok(in_order(claimed))
    }

    /// Lends what the pace and the number that may be lent at once allow.
    pub(super) async fn lend_bounded(
        &self,
        tenant: &TenantId,
        loan: &Loan,
        limit: usize,
    ) -> Result<Vec<DeliveryRow>> {
        let any = Pace { every: Span(1), burst: u32::MAX };
        let session = self.writers.take().await?;
        session.command(&begin(of(tenant), &format!(", {}", super::apply::SETTINGS))).await.map_err(error)?;
        let of_worker = (loan.worker.as_str(), loan.pace.unwrap_or(any), loan.now);
        let turns = Turns::hold(&session, of_worker, &[tenant]).await.map_err(error)?;
        let mut room = limit.min(turns.allowed(tenant));
        if let Some(max) = loan.lent_max {
            let names = [text(tenant.as_str()), text(&loan.worker), time(loan.now)];
            let rows = session.query(LENT, &names).await.map_err(error)?;
            let lent: i64 = rows.first().map_or(Ok(0), |row| get(row, 0)).map_err(error)?;
            room = room.min(max.saturating_sub(lent.unsigned_abs() as usize));
        }
        let rows = session.query(LEND, &lending(tenant, loan, room)).await.map_err(error)?;
        let lent: std::result::Result<Vec<Placed>, PgError> =
            rows.iter().map(|row| delivery(row, None)).collect();
        let lent = lent.map_err(error)?;
        if loan.pace.is_some() {
            turns.take(&lent).await.map_err(error)?;
        }
        session.command("COMMIT").await.map_err(error)?;
        session.done();
        Ok(in_order(lent).into_iter().map(|one| one.row).collect())
    }

    pub(super) async fn watermarks_of(&self, tenant: &TenantId, worker: &str) -> Result<Vec<WatermarkRow>> {
        let row = |row: &Row| {
            Ok(WatermarkRow {
                name: get(row, 0)?,
                value: get(row, 1)?,
                version: get(row, 2)?,
                updated_at: time_at(row, 3)?,
            })
        };
        self.many(of(tenant), WATERMARKS, &[text(tenant.as_str()), text(worker)], row).await
    }
}
