//! Why a call is not answered yet.

use super::{Reason, breaker, held, in_line, last_error, tries};
use crate::{api::Refusal, calls, children, engine::Engine, guards::Target, lanes::Full, refusal};
use machine::{TenantId, command::Call};
use store::{
    rows::CallRow,
    views::{AHEAD_MAX, Place},
};

/// The reasons of one call, what is in its way first.
pub(super) async fn reasons(
    engine: &Engine,
    tenant: &TenantId,
    row: &CallRow,
) -> Result<Vec<Reason>, Refusal> {
    let place = engine.store.place(tenant, row.key()).await.map_err(refusal::of_store)?;
    // It was answered meanwhile.
    let Some(place) = place else { return Ok(vec![]) };
    let call: Option<Call> = serde_json::from_slice(&row.envelope).ok();
    let target = call.as_ref().and_then(|call| Target::of_call(row, call));
    let version = call.as_ref().and_then(|call| call.version.clone());
    let step = call.map(|call| call.step);
    let of_worker = !calls::is_built_in(&row.target) && !children::is_own(&row.target);
    let worker = engine.callees.worker(&row.target, version.as_deref());
    let attempts_max = worker.as_ref().ok().map(|worker| worker.retry.attempts_max).filter(|_| of_worker);
    let mut reasons: Vec<Reason> =
        target.and_then(|target| breaker(engine, tenant, &target)).into_iter().collect();
    if let Err(missing) = &worker
        && of_worker
        && place.owner.is_none_or(|owner| owner == engine.node)
    {
        let text = format!("{missing}; the call waits for a node that has the worker");
        reasons.push(Reason::new("no-worker", text));
    }
    reasons.extend(where_it_is(engine, tenant, row, &place, attempts_max));
    for reason in &mut reasons {
        reason.step = step.clone();
        reason.target = Some(row.target.clone());
        reason.attempt = Some(row.attempt);
        reason.attempts_max = attempts_max;
    }
    Ok(reasons)
}

fn where_it_is(
    engine: &Engine,
    tenant: &TenantId,
    row: &CallRow,
    place: &Place,
    attempts_max: Option<u32>,
) -> Vec<Reason> {
    let target = &row.target;
    if let Some(owner) = place.owner {
        return [limit(engine, tenant, row).filter(|_| owner == engine.node), Some(held(engine, owner))]
            .into_iter()
            .flatten()
            .collect();
    }
    if row.visible_at > engine.now() {
        let (tries, failed) = (tries(row.attempt, attempts_max), last_error(&row.last_error));
        let at = row.visible_at.rfc3339();
        let text = format!("attempt {tries} of the call to `{target}` comes at {at}{failed}");
        return vec![Reason { until: Some(row.visible_at), ..Reason::new("retry", text) }];
    }
    let before = in_line(place.ahead, AHEAD_MAX, "calls");
    let queued = Reason {
        ahead: Some(place.ahead),
        ..Reason::new("queued", format!("the call to `{target}` waits for a node to take it; {before}"))
    };
    limit(engine, tenant, row).into_iter().chain([queued]).collect()
}

fn limit(engine: &Engine, tenant: &TenantId, row: &CallRow) -> Option<Reason> {
    let full = engine.calls.full_for(tenant, &row.target)?;
    Some(of_limit(full, tenant, &row.target))
}

/// Which limit is in the way, in words.
pub(super) fn of_limit(full: Full, tenant: &TenantId, target: &str) -> Reason {
    let text = match full {
        Full::Tenant(max) => format!("tenant {tenant} has {max} under way on this node, which is its limit"),
        Full::Target(max) => format!("`{target}` handles {max} at once on this node, which is its limit"),
        Full::Node(max) => format!("this node has {max} under way, which is its limit"),
    };
    Reason::new("limit", text)
}
