//! What a newer build wrote is left to the nodes of that build.
//!
//! While nodes of two versions run side by side, the older ones meet snapshots, definitions and rows that they cannot read
//! and the newer ones can. They put the cause back for a while, counting no attempt. Only what nobody has taken for an hour
//! becomes a dead letter: then there is no such node any more.

use crate::{
    calls,
    dead_letters::{self, Reason},
    engine::Engine,
    rows,
    turn::Work,
};
use machine::{TenantId, Time, newer, time::Span};
use parking_lot::Mutex;
use serde::{Serialize, de::DeserializeOwned};
use std::{collections::HashMap, sync::Arc};
use store::rows::{CallRow, WorkerRow};
use uuid::Uuid;

/// How long others are given.
const GIVEN: Span = Span::from_secs(3600);
/// Of the time that it has waited already, the part that it waits next: at first others come to it soon, and later it costs
/// little.
const PART: i64 = 4;
const WAIT_MIN: Span = Span::from_secs(1);
const WAIT_MAX: Span = Span::from_secs(30);
/// What was not met for so long was dealt with; the next time is another.
const FORGOTTEN: Span = Span::from_secs(300);
/// Instances of which it is known since when. Beyond, all begin anew.
const MET_MAX: usize = 10_000;

/// Since when which instances are left to others.
#[derive(Default)]
pub(crate) struct Newer(Mutex<HashMap<(TenantId, Uuid), Met>>);

struct Met {
    first: Time,
    last: Time,
}

impl Newer {
    /// How long the instance is left to others from now on; `None` once they had their time.
    fn wait(&self, tenant: &TenantId, instance: Uuid, now: Time) -> Option<Span> {
        let mut met = self.0.lock();
        if met.len() >= MET_MAX {
            met.retain(|_, one| now.since(one.last) < FORGOTTEN);
        }
        if met.len() >= MET_MAX {
            met.clear();
        }
        let key = (tenant.clone(), instance);
        let one = met.entry(key.clone()).or_insert(Met { first: now, last: now });
        if now.since(one.last) >= FORGOTTEN {
            one.first = now;
        }
        one.last = now;
        let waited = now.since(one.first);
        if waited >= GIVEN {
            met.remove(&key);
            return None;
        }
        Some(Span(waited.0 / PART).clamp(WAIT_MIN, WAIT_MAX))
    }
}

/// Puts the cause back for a node of the newer build, or makes it a dead letter when none came for long.
pub(crate) async fn leave(engine: &Arc<Engine>, work: &mut Work, reason: Reason, detail: &str) {
    match engine.newer.wait(&work.tenant, work.instance, engine.now()) {
        Some(wait) => {
            tracing::debug!(tenant = %work.tenant, instance = %work.instance, detail, "left to a newer build");
            dead_letters::put_back(engine, work, engine.now().after(wait), None, detail).await;
        }
        None => dead_letters::bury(engine, work, reason, detail),
    }
}

/// The same for a call that cannot be read. `false` if it was not put back.
pub(crate) async fn leave_call(engine: &Arc<Engine>, tenant: &TenantId, row: &CallRow, detail: &str) -> bool {
    let Some(wait) = engine.newer.wait(tenant, row.instance, engine.now()) else { return false };
    calls::try_again(engine, tenant, row, wait, row.attempt, detail.to_owned()).await;
    true
}

/// What is stored of a declaration, with what a newer build has said besides: it is served as far as it is known, and what
/// is not known is nobody's to take away here.
pub(crate) fn rewritten<T: Serialize + DeserializeOwned>(before: Option<&WorkerRow>, said: &T) -> Vec<u8> {
    let json = |value: &T| serde_json::to_value(value).expect("a declaration is plain JSON");
    let mut fresh = json(said);
    if let Some(stored) = before.and_then(|row| serde_json::from_slice(&row.declaration).ok())
        && let Ok(read) = T::deserialize(&stored)
    {
        newer::keep(&stored, &json(&read), &mut fresh);
    }
    rows::to_json(&fresh)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_are_given_an_hour_from_the_first_meeting() {
        let (newer, tenant) = (Newer::default(), TenantId::new("acme").unwrap());
        let mut now = Time(0);
        let mut waits = Vec::new();
        while let Some(wait) = newer.wait(&tenant, Uuid::nil(), now) {
            waits.push(wait);
            now = now.after(wait);
        }
        assert_eq!((waits[0], waits[waits.len() - 1]), (WAIT_MIN, WAIT_MAX));
        assert!(now.since(Time(0)) >= GIVEN && now.since(Time(0)) < Span(GIVEN.0 + WAIT_MAX.0), "{now:?}");
        assert!(waits.len() < 200, "{}", waits.len());
        assert!(newer.wait(&tenant, Uuid::nil(), now).is_some(), "replayed, it is left to others again");
    }

    #[test]
    fn what_others_dealt_with_begins_anew_the_next_time() {
        let (newer, tenant) = (Newer::default(), TenantId::new("acme").unwrap());
        assert!(newer.wait(&tenant, Uuid::nil(), Time(0)).is_some());
        let much_later = Time(0).after(Span(GIVEN.0 * 2));
        assert_eq!(newer.wait(&tenant, Uuid::nil(), much_later), Some(WAIT_MIN));
    }

    #[test]
    fn no_more_is_remembered_than_allowed() {
        let (newer, tenant) = (Newer::default(), TenantId::new("acme").unwrap());
        for n in 0..=MET_MAX as u128 {
            newer.wait(&tenant, Uuid::from_u128(n), Time(n as i64));
        }
        assert!(newer.0.lock().len() <= MET_MAX);
    }
}
