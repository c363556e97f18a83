//! The error flush: what failed for good is committed with others of its tenant, its record and its acknowledgement in
//! one transaction, every [`Options::errors_flushed_max`](crate::Options) errors or when the oldest has waited for
//! [`Options::errors_kept`](crate::Options), whichever is first.
//!
//! Whoever failed has given its place to the next by then; it waits here only for its acknowledgement. What waits is
//! rows that this node owns and has not consumed, so there are no more of them than the node takes on, and after a crash
//! they are found where they were. Tenants have lanes of their own: none waits for another's group.

use crate::{acting, engine::Engine, errors, metrics::Metrics};
use machine::{TenantId, Time, time::Span};
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};
use store::{Commit, Error, Outcome, Write};
use tokio::sync::{Notify, Semaphore, oneshot};

/// Groups of one tenant that are being committed at once.
const GROUPS_IN_FLIGHT_MAX: usize = 2;
/// A parent is not kept waiting any longer once no more errors have come for so long.
const LULL: Span = Span::from_millis(100);

/// Who cannot go on until the failure is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HoldsUp {
    Nobody,
    /// An instance that waits for its child, one of many perhaps: the group goes once no more come.
    Parent,
    /// Somebody who asked, or the next of an order key: the group goes at once.
    Somebody,
}

/// What waits, by tenant.
#[derive(Default)]
pub(crate) struct Flush {
    lanes: Mutex<BTreeMap<TenantId, Lane>>,
}

#[derive(Default)]
struct Lane {
    waiting: VecDeque<Deferred>,
    errors: u64,
    parents: usize,
    askers: usize,
    changed: Arc<Notify>,
}

/// A failure whose commit waits for its group.
struct Deferred {
    writes: Vec<Write>,
    errors: u64,
    holds_up: HoldsUp,
    since: Time,
    reply: oneshot::Sender<Result<Outcome, Error>>,
}

/// What is to be done about a lane.
enum Step {
    Take(Vec<Deferred>),
    Wait(Time, Arc<Notify>),
    End,
}

impl Flush {
    /// Errors that wait to be recorded.
    pub(crate) fn waiting(&self) -> u64 {
        self.lanes.lock().values().map(|lane| lane.errors).sum()
    }

    /// Answers what wakes the lane's driver, if it has one.
    fn push(&self, tenant: &TenantId, deferred: Deferred) -> Option<Arc<Notify>> {
        let mut lanes = self.lanes.lock();
        let is_driven = lanes.contains_key(tenant);
        let lane = lanes.entry(tenant.clone()).or_default();
        lane.push(deferred);
        is_driven.then(|| lane.changed.clone())
    }

    fn step(&self, engine: &Engine, tenant: &TenantId) -> Step {
        let mut lanes = self.lanes.lock();
        let Some(lane) = lanes.get_mut(tenant).filter(|lane| !lane.waiting.is_empty()) else {
            lanes.remove(tenant);
            return Step::End;
        };
        let (max, now) = (engine.options.errors_flushed_max as u64, engine.now());
        let due = lane.due(engine.options.errors_kept);
        match lane.errors >= max || engine.is_stopping() || due <= now {
            true => Step::Take(lane.take(max)),
            false => Step::Wait(due, lane.changed.clone()),
        }
    }
}

impl Lane {
    fn push(&mut self, deferred: Deferred) {
        self.count(&deferred, 1);
        self.waiting.push_back(deferred);
    }

    fn count(&mut self, deferred: &Deferred, sign: isize) {
        self.errors = self.errors.wrapping_add_signed(deferred.errors as i64 * sign as i64);
        match deferred.holds_up {
            HoldsUp::Nobody => {}
            HoldsUp::Parent => self.parents = self.parents.wrapping_add_signed(sign),
            HoldsUp::Somebody => self.askers = self.askers.wrapping_add_signed(sign),
        }
    }

    /// When the next group goes, however few it has.
    fn due(&self, kept: Span) -> Time {
        let since = |deferred: Option<&Deferred>| deferred.map_or(Time(i64::MAX), |one| one.since);
        let (oldest, newest) = (since(self.waiting.front()), since(self.waiting.back()));
        match (self.askers, self.parents) {
            (0, 0) => oldest.after(kept),
            (0, _) => newest.after(LULL).min(oldest.after(kept)),
            _ => oldest,
        }
    }

    /// The oldest, until there are as many errors as one flush has.
    fn take(&mut self, max: u64) -> Vec<Deferred> {
        let (mut group, mut errors) = (Vec::new(), 0);
        while errors < max
            && let Some(deferred) = self.waiting.pop_front()
        {
            self.count(&deferred, -1);
            errors += deferred.errors.max(1);
            group.push(deferred);
        }
        group
    }
}

/// Commits what a failure comes to, with its record, once its group goes. Answers as the committer does.
pub(crate) async fn commit(
    engine: &Arc<Engine>,
    commit: Commit,
    holds_up: HoldsUp,
) -> Result<Outcome, Error> {
    let (Commit { tenant, writes }, landing) = acting::signed(commit).await?;
    let (reply, answer) = oneshot::channel();
    let errors = errors::count(&writes);
    let deferred = Deferred { writes, errors, holds_up, since: engine.now(), reply };
    match engine.flush.push(&tenant, deferred) {
        Some(changed) => changed.notify_one(),
        None => engine.tasks.spawn(drive(engine.clone(), tenant)),
    }
    // A driver that died without answering leaves the outcome open.
    let outcome = answer.await.unwrap_or_else(|_| Err(Error::Unknown("the error flush ended".to_owned())));
    acting::landed(landing, &outcome);
    outcome
}

/// Sends off one group after the other until the lane is empty. A stop waits for it, and it does not wait any more then.
async fn drive(engine: Arc<Engine>, tenant: TenantId) {
    let places = Arc::new(Semaphore::new(GROUPS_IN_FLIGHT_MAX));
    let stopping = engine.tasks.stopping.clone();
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        match engine.flush.step(&engine, &tenant) {
            Step::Take(group) => {
                let (engine_of_group, tenant) = (engine.clone(), tenant.clone());
                engine.tasks.spawn(async move {
                    land(&engine_of_group, &tenant, group).await;
                    drop(place);
                });
            }
            Step::Wait(until, changed) => tokio::select! {
                biased;
                () = stopping.cancelled() => {}
                () = changed.notified() => {}
                () = engine.clock.sleep_until(until) => {}
            },
            Step::End => return,
        }
    }
}

/// Commits a group. If it cannot land whole, halves of it are tried: one that is somebody else's by now, or that the store
/// refuses, is answered by itself.
async fn land(engine: &Engine, tenant: &TenantId, group: Vec<Deferred>) {
    let mut parts = vec![group];
    while let Some(mut part) = parts.pop() {
        let mut writes: Vec<Write> = part.iter().flat_map(|one| one.writes.iter().cloned()).collect();
        let errors = errors::fold(&mut writes);
        let commit = Commit { tenant: tenant.clone(), writes };
        engine.metrics.cost(&commit);
        Metrics::add(&engine.metrics.error_flushes);
        let outcome = engine.committer.commit(commit).await;
        match outcome {
            Ok(Outcome::Conflict(_) | Outcome::Rejected(_)) if part.len() > 1 => {
                let second = part.split_off(part.len() / 2);
                parts.extend([second, part]);
                continue;
            }
            Ok(Outcome::Committed) => Metrics::add_many(&engine.metrics.errors, errors),
            _ => {}
        }
        for deferred in part {
            // Whoever went away does not care for the answer.
            let _ = deferred.reply.send(outcome.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane(waiting: &[(i64, HoldsUp)]) -> Lane {
        let mut lane = Lane::default();
        for (since, holds_up) in waiting {
            let (reply, _) = oneshot::channel();
            let (since, holds_up) = (Time(*since), *holds_up);
            lane.push(Deferred { writes: vec![], errors: 1, holds_up, since, reply });
        }
        lane
    }

    #[test]
    fn a_group_waits_as_long_as_it_holds_up_nobody() {
        use HoldsUp::{Nobody, Parent, Somebody};
        let kept = Span::from_secs(2);
        assert_eq!(lane(&[(10, Nobody), (50, Nobody)]).due(kept), Time(2_000_010));
        assert_eq!(lane(&[(10, Nobody), (50, Parent)]).due(kept), Time(100_050));
        assert_eq!(lane(&[(10, Parent), (1_990_000, Nobody)]).due(kept), Time(2_000_010));
        assert_eq!(lane(&[(10, Nobody), (50, Somebody)]).due(kept), Time(10));
        let mut lane = lane(&[(10, Somebody), (20, Nobody), (30, Parent)]);
        assert_eq!(lane.take(2).len(), 2);
        assert_eq!((lane.errors, lane.parents, lane.askers), (1, 1, 0));
        assert_eq!(lane.due(kept), Time(100_030), "what holds up somebody went with its group");
    }
}
