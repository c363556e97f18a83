//! Hands lists of who may do what down the tree, level by level, in chunks.
//!
//! A row of `acl_work` says that the list of a record has changed and its children are to be given theirs. One step reads the
//! children of several such records, makes their lists with `machine`, and commits all of it together: the children, the
//! lists, the work that follows below them, and the work that is done by it. Every write is guarded by what was read, so a
//! record that was moved, deleted or changed meanwhile is left to whoever did that: they have read the new list. A later
//! change of the same record begins its work anew, so the newest always wins. A child whose list stays the same ends the way
//! down there. What takes something away goes first.

mod chunk;

use crate::{engine::Engine, outage::Outage};
use machine::{TenantId, Time, time::Span};
use std::{collections::BTreeMap, sync::Arc};
use store::{
    HostLock,
    rows::{AclWorkRow, Claimed},
};

/// Records below which lists are handed down together, of one tenant.
const WORKS_MAX: usize = 200;
/// One node at a time does this; another may when that one has not for so long.
const LEASE_MS: i64 = 2_000;
/// How long to wait when the store does not answer, and after a step that lost against somebody else.
const STORE_WAIT: Span = Span::from_millis(500);
const LOST_WAIT: Span = Span::from_millis(20);

/// Hands down what there is until the node stops.
pub(crate) async fn run(engine: Arc<Engine>) {
    let stopping = engine.tasks.stopping.clone();
    let mut outage = Outage::new("handing down lists of who may do what");
    engine.wake.acl.at(engine.now());
    while !stopping.is_cancelled() {
        let until = engine.wake.acl.next();
        if engine.now() < until {
            tokio::select! {
                biased;
                () = stopping.cancelled() => return,
                () = engine.wake.acl.sooner() => {}
                () = engine.clock.sleep_until(until) => {}
            }
            continue;
        }
        engine.wake.acl.reset();
        match look(&engine).await {
            Ok(next) => {
                let _ = outage.worked();
                next.into_iter().for_each(|at| engine.wake.acl.at(at));
            }
            Err(error) => {
                engine.tasks.heed(&error);
                outage.failed(&error);
                engine.wake.acl.at(engine.now().after(STORE_WAIT));
            }
        }
    }
}

/// Takes a step for every tenant that has something due. Answers when to look again.
async fn look(engine: &Arc<Engine>) -> Result<Option<Time>, store::Error> {
    match engine.store.records().next_acl_work().await? {
        None => return Ok(None),
        Some(later) if later > engine.now() => return Ok(Some(later)),
        Some(_) => {}
    }
    let now = engine.now();
    if !engine.sole && !engine.store.hold(HostLock::Acl, engine.node, now, LEASE_MS).await? {
        return Ok(Some(now.after(Span::from_millis(LEASE_MS))));
    }
    let mut tenants = BTreeMap::<TenantId, Vec<AclWorkRow>>::new();
    for Claimed { tenant, row } in engine.store.records().due_acl_work(now, WORKS_MAX).await? {
        tenants.entry(tenant).or_default().push(row);
    }
    let mut wait = if tenants.is_empty() { STORE_WAIT } else { Span::ZERO };
    for (tenant, works) in &tenants {
        if !chunk::step(engine, tenant, together(works)).await? {
            wait = LOST_WAIT;
        }
    }
    Ok(Some(engine.now().after(wait)))
}

/// Those that go into one step: the first alone if it is in the middle or has failed, else all up to the next such.
fn together(works: &[AclWorkRow]) -> &[AclWorkRow] {
    let is_odd = |work: &AclWorkRow| work.cursor.is_some() || work.error.is_some();
    match works.iter().position(is_odd) {
        Some(0) => &works[..1],
        Some(odd) => &works[..odd],
        None => works,
    }
}
