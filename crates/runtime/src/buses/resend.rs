//! Carries again what a bus has confirmed and lost: what was emitted since a time is addressed to it once more.

use super::Line;
use crate::{api::Refusal, engine::Engine, refusal};
use machine::{TenantId, Time};
use std::sync::Arc;
use store::{
    Commit, Outcome, Write,
    feed::{FeedCursor, FeedItem},
    rows::DeliveryRow,
};

/// Events looked at in one go.
const PAGE: usize = 500;

/// Between which times events of a tenant were published that are carried again.
#[derive(Clone, Copy, Debug)]
pub struct Between {
    pub since: Time,
    pub until: Option<Time>,
}

/// Addresses the tenant's events of that time to the bus once more, in their order. Answers how many.
pub(crate) async fn resend(
    engine: &Arc<Engine>,
    line: &Line,
    tenant: &TenantId,
    between: Between,
) -> Result<u64, Refusal> {
    // What is published meanwhile is carried anyway.
    let begun = engine.now_of(tenant);
    let until = between.until.map_or(begun, |until| until.min(begun));
    let is_meant = |item: &&FeedItem| {
        let row = &item.row;
        (between.since..=until).contains(&row.received_at)
            && row.emitted_by.is_some()
            && line.wants(&row.event_type)
    };
    let (mut cursor, mut resent) = (FeedCursor::default(), 0);
    loop {
        let page = engine.store.feed(tenant, cursor, PAGE).await.map_err(refusal::of_store)?;
        let page = page.unwrap_or_default();
        let Some(last) = page.last() else { return Ok(resent) };
        cursor = last.cursor;
        let writes: Vec<Write> = page.iter().filter(is_meant).map(|item| again(engine, line, item)).collect();
        resent += writes.len() as u64;
        if !writes.is_empty() {
            let commit = Commit { tenant: tenant.clone(), writes };
            match engine.committer.commit(commit).await.map_err(refusal::of_store)? {
                Outcome::Committed => line.alarm.at(engine.now()),
                other => return Err(Refusal::Unavailable(format!("{other:?}"))),
            }
        }
        if page.iter().all(|item| item.row.received_at > begun) {
            return Ok(resent);
        }
    }
}

fn again(engine: &Engine, line: &Line, item: &FeedItem) -> Write {
    let now = engine.now();
    Write::Delivery(Box::new(DeliveryRow {
        id: engine.entropy.id(now),
        worker: line.worker.clone(),
        events: [item.row.id].into_iter().collect(),
        order_key: item.row.emitted_by.clone(),
        // As old as its event, which stays as long as something of its age is waited for.
        created_at: item.row.received_at.min(now),
        visible_at: now,
        attempt: 0,
        last_error: None,
        owner: None,
        taken_over: 0,
    }))
}
