//! Carries again what a bus has confirmed and lost: what was emitted since a time is addressed to it once more.

use super::Line;
use crate::{api::Refusal, engine::Engine, patience::Patience, refusal};
use machine::{TenantId, Time, time::Span};
use std::{collections::VecDeque, sync::Arc};
use store::{
    Commit, Outcome, Write,
    feed::{FeedCursor, FeedItem},
    rows::{DeliveryRow, EventRow},
    views::{EventFilter, PAGE_MAX, Page},
};
use uuid::Uuid;

/// Events looked at in one go.
const PAGE: usize = 500;
/// Events that are remembered to have been looked at: several times what is compared with them.
const SEEN_MAX: usize = 4 * PAGE_MAX;
/// How long what the feed does not show yet is waited for.
const HELD_BACK_MAX: Span = Span::from_secs(60);

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
    let is_meant = |row: &EventRow| {
        (between.since..=until).contains(&row.received_at)
            && row.emitted_by.is_some()
            && line.wants(&row.event_type)
    };
    let (mut cursor, mut resent) = (FeedCursor::default(), 0);
    let (mut seen, mut patience) = (VecDeque::new(), Patience::new());
    loop {
        let page = engine.store.feed(tenant, cursor, PAGE).await.map_err(refusal::of_store)?;
        let page = page.unwrap_or_default();
        let Some(last) = page.last() else {
            if !is_held_back(engine, tenant, &is_meant, &seen).await? {
                return Ok(resent);
            }
            if engine.now() > begun.after(HELD_BACK_MAX) || !patience.wait(engine).await {
                let detail = format!(
                    "{resent} are carried again; newer ones are held back by a transaction that has been open on the \
                     database for long: end it, and ask again"
                );
                return Err(Refusal::Unavailable(detail));
            }
            continue;
        };
        cursor = last.cursor;
        let meant: Vec<&FeedItem> = page.iter().filter(|item| is_meant(&item.row)).collect();
        seen.extend(meant.iter().map(|item| item.row.id));
        seen.drain(..seen.len().saturating_sub(SEEN_MAX));
        let writes: Vec<Write> = meant.into_iter().map(|item| again(engine, line, item)).collect();
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

/// Whether the feed does not show yet what is there: it waits for every transaction that is older.
async fn is_held_back(
    engine: &Engine,
    tenant: &TenantId,
    is_meant: impl Fn(&EventRow) -> bool,
    seen: &VecDeque<Uuid>,
) -> Result<bool, Refusal> {
    let newest = Page { after: None, limit: PAGE_MAX };
    let newest = engine.store.events(tenant, &EventFilter::default(), &newest).await;
    let newest = newest.map_err(refusal::of_store)?;
    Ok(newest.iter().any(|row| is_meant(row) && !seen.contains(&row.id)))
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
        traced: item.row.traced.clone().by_event(),
    }))
}
