//! Compares what was recorded with what is promised: C1 to C10 and C13 to C15. Reads nothing but the record.
//!
//! [`check`] is the way in. What a client does not know (`info`) is never taken for done, nor for not done.

mod ends;
mod feed;
pub(crate) mod outside;
mod reads;
#[cfg(test)]
mod tests;
mod workers;

use crate::{
    nemesis,
    record::{Act, Expected, Final, Op, Record, Res},
};
use std::collections::{BTreeMap, BTreeSet};

/// Fewer answered requests during faults would prove nothing.
const OK_IN_FAULTS_MIN: usize = 100;
const INSTANCES_MIN: usize = 20;
/// Findings of one check that are told.
const TOLD_MAX: usize = 10;

/// What one check found wrong.
#[derive(Clone, Debug)]
pub(crate) struct Verdict {
    pub(crate) name: &'static str,
    pub(crate) promise: &'static str,
    /// How many things were looked at.
    pub(crate) looked_at: usize,
    pub(crate) wrong: Vec<String>,
}

impl Verdict {
    fn new(name: &'static str, promise: &'static str) -> Verdict {
        Verdict { name, promise, looked_at: 0, wrong: Vec::new() }
    }

    /// Looks at one thing.
    fn look(&mut self, holds: bool, wrong: impl FnOnce() -> String) {
        self.looked_at += 1;
        if !holds {
            self.wrong.push(wrong());
        }
    }

    /// The first findings, and how many more there are.
    pub(crate) fn told(&self) -> Vec<String> {
        let mut told: Vec<String> = self.wrong.iter().take(TOLD_MAX).cloned().collect();
        if self.wrong.len() > TOLD_MAX {
            told.push(format!("and {} more", self.wrong.len() - TOLD_MAX));
        }
        told
    }
}

/// Every check, in order.
pub(crate) fn check(record: &Record) -> Vec<Verdict> {
    let index = Index::new(record);
    vec![
        ends::acknowledged_starts(&index),
        ends::one_per_key(&index),
        ends::outputs(&index),
        outside::effects(&index),
        ends::signals(&index),
        reads::versions(&index),
        outside::timers(&index),
        ends::accounting(&index),
        feed::complete(&index),
        feed::in_order(&index),
        reads::tail(&index),
        outside::repeats(&index),
        workers::handled(&index),
    ]
}

/// Why a run proves too little, if it does.
pub(crate) fn invalid(record: &Record) -> Option<String> {
    let in_fault = |op: &&Op| {
        let end = op.t1.unwrap_or(op.t0);
        op.res == Res::Ok && record.faults.iter().any(|fault| fault.t0 <= end && op.t0 <= fault.t1)
    };
    let ok = record.ops.iter().filter(in_fault).count();
    let met: BTreeSet<&str> =
        record.faults.iter().filter(|fault| fault.hit).map(|fault| fault.kind.as_str()).collect();
    let mut missing = nemesis::names(&record.settings);
    missing.retain(|kind| !met.contains(kind));
    if !missing.is_empty() {
        return Some(format!("these faults met nothing or never came: {}", missing.join(", ")));
    }
    if ok < OK_IN_FAULTS_MIN {
        return Some(format!("{ok} requests were answered during faults; {OK_IN_FAULTS_MIN} are needed"));
    }
    let instances = record.finals.len();
    (instances < INSTANCES_MIN).then(|| format!("{instances} instances; {INSTANCES_MIN} are needed"))
}

/// The record, found by what checks ask for.
struct Index<'a> {
    record: &'a Record,
    expected: BTreeMap<&'a str, &'a Expected>,
    by_id: BTreeMap<&'a str, &'a Final>,
    /// Instances that clients started, by key.
    roots: BTreeMap<&'a str, Vec<&'a Final>>,
    /// Instances that instances started, by key.
    children: BTreeMap<&'a str, Vec<&'a Final>>,
    /// Instances that somebody tried to cancel, and whether that was acknowledged.
    cancelled: BTreeMap<&'a str, bool>,
    /// Ids that starts were answered with, by key.
    acknowledged: BTreeMap<&'a str, BTreeSet<&'a str>>,
}

impl<'a> Index<'a> {
    /// What was started, with whether it had to be carried out to its end.
    fn started(&self) -> impl Iterator<Item = (&'a Expected, bool)> {
        self.roots.iter().filter_map(|(key, found)| {
            let was_cancelled = found.iter().any(|one| one.status == "cancelled");
            self.expected.get(key).map(|expected| (*expected, !was_cancelled))
        })
    }

    fn new(record: &'a Record) -> Index<'a> {
        let mut roots: BTreeMap<&str, Vec<&Final>> = BTreeMap::new();
        let mut children: BTreeMap<&str, Vec<&Final>> = BTreeMap::new();
        for one in &record.finals {
            let by_key = if one.parent.is_none() { &mut roots } else { &mut children };
            by_key.entry(&one.key).or_default().push(one);
        }
        let mut acknowledged: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for op in record.ops.iter().filter(|op| op.op == Act::Start && op.res == Res::Ok) {
            acknowledged.entry(&op.key).or_default().insert(op.id.as_deref().unwrap_or("no id"));
        }
        let mut cancelled: BTreeMap<&str, bool> = BTreeMap::new();
        for op in record.ops.iter().filter(|op| op.op == Act::Cancel) {
            *cancelled.entry(op.id.as_deref().unwrap_or_default()).or_default() |= op.res == Res::Ok;
        }
        Index {
            record,
            cancelled,
            expected: record.expected.iter().map(|one| (one.key.as_str(), one)).collect(),
            by_id: record.finals.iter().map(|one| (one.id.as_str(), one)).collect(),
            roots,
            children,
            acknowledged,
        }
    }
}
