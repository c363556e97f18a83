//! Slot arithmetic: which times a schedule names, and what becomes of those that have come.
//!
//! A *slot* is one due time of a schedule. [`after`] finds the next one, [`plan`] says what to do at `now`. All of it
//! is arithmetic on what is handed in: no clock, no store, and time zones from a database that is part of the build.

mod cron;
#[cfg(test)]
mod tests;

pub use cron::Cron;

use crate::{
    ir::{Missed, Schedule, When},
    time::{Span, Time},
};
use jiff::{
    Timestamp,
    tz::{TimeZone, TimeZoneDatabase},
};
use std::sync::OnceLock;

/// Slots that one plan looks at; the rest follows in the next plan.
pub const SLOTS_PER_PLAN_MAX: usize = 10_000;
/// Slots passed over that are told one by one; older ones are told as one, with their number.
pub const PASSED_MAX: usize = 100;
/// A slot that fires within this time is not missed.
pub const GRACE: Span = Span::from_secs(60);
/// The shortest interval of `every` and `after`.
pub const INTERVAL_MIN: Span = Span::from_secs(1);

/// What to do with the slots that have come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Slots that do not fire, oldest first.
    pub passed: Vec<Passed>,
    /// The slot that fires, if one does.
    pub fire: Option<Time>,
    /// The first slot this plan says nothing about; it may have come as well.
    pub next: Option<Time>,
}

/// A slot, or several from `at` on, passed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passed {
    pub at: Time,
    pub count: u64,
    pub fate: Fate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// A later slot fires for it too.
    Merged,
    /// The policy for missed slots says no.
    Skipped,
}

impl Fate {
    pub fn word(self) -> &'static str {
        match self {
            Fate::Merged => "merged",
            Fate::Skipped => "skipped",
        }
    }
}

/// The time zone of that IANA name.
pub fn zone(name: &str) -> Option<TimeZone> {
    static ZONES: OnceLock<TimeZoneDatabase> = OnceLock::new();
    match name {
        "UTC" => Some(TimeZone::UTC),
        name => ZONES.get_or_init(TimeZoneDatabase::bundled).get(name).ok(),
    }
}

/// The first slot later than `after`. Intervals count from `anchor`, the time the schedule became active. Nothing
/// for schedules whose next slot does not follow from the one before.
pub fn after(schedule: &Schedule, anchor: Time, after: Time) -> Option<Time> {
    match &schedule.when {
        When::Cron(text) => {
            let zone = zone(schedule.time_zone.as_deref().unwrap_or("UTC"))?;
            let after = Timestamp::from_microsecond(after.0).ok()?;
            let next = Cron::parse(text).ok()?.after(after, &zone)?;
            Some(Time(next.as_microsecond()))
        }
        When::Every(span) if span.0 > 0 => {
            let gone = after.since(anchor).0.max(0) / span.0;
            Some(anchor.after(Span(span.0.checked_mul(gone.checked_add(1)?)?)))
        }
        When::Every(_) | When::After(_) | When::On(_) => None,
    }
}

/// The slot that a schedule begins with when it becomes active at `anchor`.
pub fn first(schedule: &Schedule, anchor: Time) -> Option<Time> {
    match schedule.when {
        When::After(span) => Some(anchor.after(span)),
        _ => after(schedule, anchor, anchor),
    }
}

/// What to do at `now`, when the slot `next` has not been dealt with. At most one slot fires in a plan.
pub fn plan(schedule: &Schedule, anchor: Time, next: Time, now: Time) -> Plan {
    if next > now {
        return Plan { next: Some(next), ..Plan::default() };
    }
    // What waits for an instance's end has one slot at a time; nothing is missed by being late.
    if let When::After(_) = schedule.when {
        return Plan { fire: Some(next), ..Plan::default() };
    }
    let following = |slot: Time| after(schedule, anchor, slot);
    match schedule.missed {
        Missed::All => Plan { passed: vec![], fire: Some(next), next: following(next) },
        Missed::Latest => {
            let (mut due, rest) = collect(next, following, |slot| slot <= now);
            // With more than one plan can hold, the latest is not among them.
            let fire = if rest.is_some_and(|slot| slot <= now) { None } else { due.pop() };
            Plan { passed: fold(due, Fate::Merged), fire, next: rest }
        }
        Missed::Skip => skip(next, following, now, GRACE),
        Missed::Window(window) => skip(next, following, now, window.max(GRACE)),
    }
}

/// Skips what is older than `window` and fires the first slot that is not.
fn skip(next: Time, following: impl Fn(Time) -> Option<Time>, now: Time, window: Span) -> Plan {
    let (old, rest) = collect(next, &following, |slot| slot <= now && now.since(slot) > window);
    let passed = fold(old, Fate::Skipped);
    match rest {
        Some(slot) if slot <= now && now.since(slot) <= window => {
            Plan { passed, fire: Some(slot), next: following(slot) }
        }
        rest => Plan { passed, fire: None, next: rest },
    }
}

/// Slots from `next` on that `which` picks, as far as a plan goes, and the one after them.
fn collect(
    next: Time,
    following: impl Fn(Time) -> Option<Time>,
    which: impl Fn(Time) -> bool,
) -> (Vec<Time>, Option<Time>) {
    let mut slots = Vec::new();
    let mut next = Some(next);
    while let Some(slot) = next.filter(|slot| slots.len() < SLOTS_PER_PLAN_MAX && which(*slot)) {
        slots.push(slot);
        next = following(slot);
    }
    (slots, next)
}

fn fold(slots: Vec<Time>, fate: Fate) -> Vec<Passed> {
    let told = slots.len().min(PASSED_MAX);
    let (older, newer) = slots.split_at(slots.len() - told);
    let many = older.first().map(|at| Passed { at: *at, count: older.len() as u64, fate });
    many.into_iter().chain(newer.iter().map(|at| Passed { at: *at, count: 1, fate })).collect()
}
