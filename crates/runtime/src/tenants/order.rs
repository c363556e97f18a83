//! What an operator does with a tenant: suspend, degrade, resume, delete, restore, and its limits.

use super::{Standing, WEIGHT_MAX, reload};
use crate::{api::Refusal, engine::Engine, refusal};
use machine::{TenantId, Time, time::Span};
use std::sync::Arc;
use store::{Commit, Conflict, Hint, Outcome, TenantChange, Write, rows::TenantRow};

/// The longest time between the deletion of a tenant and that of its rows.
pub const GRACE_MAX: Span = Span::from_secs(365 * 86_400);
/// Tries while others change the same tenant.
const TRIES_MAX: usize = 8;

/// What an operator tells a tenant to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TenantOrder {
    Suspend,
    Degrade,
    Resume,
    /// All its rows go after so long.
    Delete {
        grace: Span,
    },
    /// Takes a deletion back, as long as its time of grace lasts.
    Restore,
}

/// What the order makes of a tenant; `None` if its standing does not allow it.
fn after(standing: Standing, order: TenantOrder) -> Option<Standing> {
    match (order, standing) {
        (TenantOrder::Delete { .. }, _) => Some(Standing::Deleted),
        (TenantOrder::Restore, Standing::Deleted) => Some(Standing::Active),
        (TenantOrder::Restore, _) | (_, Standing::Deleted) => None,
        (TenantOrder::Suspend, _) => Some(Standing::Suspended),
        (TenantOrder::Degrade, _) => Some(Standing::Degraded),
        (TenantOrder::Resume, _) => Some(Standing::Active),
    }
}

/// Carries the order out, together with what else is to change. Answers the tenant as it is then.
pub(crate) async fn order(
    engine: &Arc<Engine>,
    tenant: &TenantId,
    order: TenantOrder,
    change: TenantChange,
) -> Result<TenantRow, Refusal> {
    valid(&change)?;
    for _ in 0..TRIES_MAX {
        let row = read(engine, tenant).await?;
        let standing = Standing::of(&row.status);
        let Some(to) = after(standing, order) else {
            let detail = format!("tenant {tenant} is {}: that is not possible now", row.status);
            return Err(Refusal::Conflict { code: "tenant-not-allowed-now", detail, existing: None });
        };
        let purge_at = match order {
            TenantOrder::Delete { grace } => Some(engine.now().after(grace.min(GRACE_MAX))),
            _ => None,
        };
        let (from, status) = (row.status.clone(), to.word().to_owned());
        let mut writes = vec![Write::SetStanding { from, to: status.clone(), purge_at }];
        if change != TenantChange::default() {
            writes.push(Write::ChangeTenant(change.clone()));
        }
        if land(engine, tenant, writes, purge_at).await? {
            tracing::info!(%tenant, status, "order");
            // One that is deleted without grace may be gone by now.
            let there = engine.store.tenant(tenant).await.map_err(refusal::of_store)?;
            return Ok(there.unwrap_or(TenantRow { status, purge_at, ..row }));
        }
    }
    Err(Refusal::Busy)
}

/// Changes what is given: title, weight, limits. It counts at once, for what is queued already too.
pub(crate) async fn change(
    engine: &Arc<Engine>,
    tenant: &TenantId,
    change: TenantChange,
) -> Result<TenantRow, Refusal> {
    valid(&change)?;
    match land(engine, tenant, vec![Write::ChangeTenant(change)], None).await? {
        true => read(engine, tenant).await,
        false => Err(Refusal::NotFound("tenant".to_owned())),
    }
}

fn valid(change: &TenantChange) -> Result<(), Refusal> {
    match change.weight.is_some_and(|weight| !(1..=WEIGHT_MAX).contains(&weight)) {
        true => {
            let detail = format!("a weight is 1 to {WEIGHT_MAX}");
            Err(Refusal::Invalid { code: "invalid-value", detail, problems: vec![] })
        }
        false => Ok(()),
    }
}

async fn read(engine: &Engine, tenant: &TenantId) -> Result<TenantRow, Refusal> {
    let row = engine.store.tenant(tenant).await.map_err(refusal::of_store)?;
    row.ok_or_else(|| Refusal::NotFound("tenant".to_owned()))
}

/// Commits, follows, and tells the other nodes. `false` if somebody else was faster, or nobody is there.
async fn land(
    engine: &Arc<Engine>,
    tenant: &TenantId,
    writes: Vec<Write>,
    purge_at: Option<Time>,
) -> Result<bool, Refusal> {
    let commit = Commit { tenant: tenant.clone(), writes };
    match engine.committer.commit(commit).await.map_err(refusal::of_store)? {
        Outcome::Committed => {}
        Outcome::Conflict(Conflict::Version | Conflict::Gone) => return Ok(false),
        other => return Err(Refusal::Unavailable(format!("{other:?}"))),
    }
    reload(engine).await.map_err(refusal::of_store)?;
    engine.hints.tell(Hint { clocks: true, ..Hint::default() });
    if let Some(at) = purge_at {
        engine.wake.departures.at(at);
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Standing::*;
    use TenantOrder::*;

    #[test]
    fn every_order_in_every_standing() {
        let delete = Delete { grace: Span::ZERO };
        let all = [Active, Degraded, Suspended, Deleted];
        for (order, expected) in [
            (Suspend, [Some(Suspended), Some(Suspended), Some(Suspended), None]),
            (Degrade, [Some(Degraded), Some(Degraded), Some(Degraded), None]),
            (Resume, [Some(Active), Some(Active), Some(Active), None]),
            (delete, [Some(Deleted); 4]),
            (Restore, [None, None, None, Some(Active)]),
        ] {
            assert_eq!(all.map(|standing| after(standing, order)), expected, "{order:?}");
        }
    }
}
