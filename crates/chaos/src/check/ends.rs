//! Instances at their end: C1, C2, C3, C5, C8.

use super::{Index, Verdict};
use crate::{
    driver::ENDED,
    record::{Act, Expected, Final, Res},
};
use std::collections::{BTreeMap, BTreeSet};

/// C1.
pub(super) fn acknowledged_starts(index: &Index<'_>) -> Verdict {
    let mut verdict = Verdict::new("C1", "an acknowledged start is never lost");
    for (key, ids) in &index.acknowledged {
        for id in ids {
            let found = index.by_id.get(id);
            verdict.look(found.is_some_and(|found| found.key == *key), || match found {
                Some(other) => format!("{key} was told {id}, which is the instance of {:?}", other.key),
                None => format!("{key} was told {id}, which is not there"),
            });
        }
    }
    // A node that does not know an instance after another has acknowledged it has lost it, if only for a while.
    for op in index.record.ops.iter().filter(|op| op.status == Some(404)) {
        verdict.look(false, || format!("op {}: node {} does not know {:?}", op.n, op.node, op.id));
    }
    verdict
}

/// C2.
pub(super) fn one_per_key(index: &Index<'_>) -> Verdict {
    let mut verdict = Verdict::new("C2", "one instance per idempotency key");
    for (key, found) in index.roots.iter().chain(&index.children) {
        verdict.look(found.len() == 1, || format!("{key} has {} instances: {}", found.len(), ids(found)));
    }
    for (key, ids) in &index.acknowledged {
        verdict.look(ids.len() == 1, || format!("{key} was told different instances: {ids:?}"));
    }
    // The same key always came with the same body: nothing else may be said of it.
    let refused = index.record.ops.iter().filter(|op| {
        op.op == Act::Start && op.res == Res::Fail && op.status.is_some_and(|status| status != 429)
    });
    for op in refused {
        verdict.look(false, || format!("op {}: {} was refused with {:?}", op.n, op.key, op.status));
    }
    verdict
}

fn ids(found: &[&Final]) -> String {
    found.iter().map(|one| one.id.as_str()).collect::<Vec<_>>().join(" ")
}

/// C3.
pub(super) fn outputs(index: &Index<'_>) -> Verdict {
    let mut verdict = Verdict::new("C3", "every instance comes to what its program says");
    for (key, found) in &index.roots {
        let Some(expected) = index.expected.get(key) else {
            verdict.look(false, || format!("{key} was never asked for"));
            continue;
        };
        for one in found {
            verdict.look(comes_to(index, one, expected), || {
                format!(
                    "{key} {}: {} with {:?} {:?}, expected {} with {}",
                    one.id, one.status, one.n, one.error, expected.status, expected.n
                )
            });
            children(index, &mut verdict, expected, one.status != "cancelled");
        }
    }
    let named: BTreeSet<&str> =
        index.expected.values().flat_map(|one| one.children.keys().map(String::as_str)).collect();
    for (key, found) in &index.children {
        verdict.look(named.contains(key), || format!("child {key} {} is nobody's", ids(found)));
    }
    verdict
}

fn comes_to(index: &Index<'_>, one: &Final, expected: &Expected) -> bool {
    match index.cancelled.get(one.id.as_str()) {
        // Acknowledged: that is its end. Otherwise it may have come too late, or not at all.
        Some(true) => return one.status == "cancelled",
        Some(false) if one.status == "cancelled" => return true,
        _ => {}
    }
    let output = (expected.status == "completed").then_some(expected.n);
    one.status == expected.status && one.n == output && one.tenant == expected.tenant
}

/// `is_whole` if the parent was not cancelled: then none of its children was, and all of them are there.
fn children(index: &Index<'_>, verdict: &mut Verdict, expected: &Expected, is_whole: bool) {
    for (key, n) in &expected.children {
        let found = index.children.get(key.as_str()).map(Vec::as_slice).unwrap_or_default();
        let fine = |one: &&Final| {
            let completed = one.status == "completed" && one.n == Some(*n);
            completed || (!is_whole && one.status == "cancelled")
        };
        let is_there = !found.is_empty() || !is_whole;
        verdict.look(is_there && found.iter().all(fine), || match found.first() {
            Some(one) => format!("child {key}: {} with {:?}, expected {n}", one.status, one.n),
            None => format!("child {key} was never started"),
        });
    }
}

/// C5.
pub(super) fn signals(index: &Index<'_>) -> Verdict {
    let mut verdict = Verdict::new("C5", "a signal is applied once, or listed as unmatched");
    let mut sent: BTreeMap<(&str, &str), bool> = BTreeMap::new();
    for op in index.record.ops.iter().filter(|op| op.op == Act::Signal) {
        if let (Some(id), Some(signal)) = (&op.id, &op.signal) {
            *sent.entry((id, signal)).or_default() |= op.res == Res::Ok;
        }
    }
    for ((id, signal), acknowledged) in &sent {
        // An instance that is not there is the business of C1.
        let Some(one) = index.by_id.get(id) else { continue };
        let came_to = came_to(one, signal);
        let fine = if *acknowledged { came_to.len() == 1 } else { came_to.len() <= 1 };
        verdict.look(fine, || {
            let word = if *acknowledged { "acknowledged" } else { "unknown" };
            format!("{} {id}: {word} signal {signal} came to {came_to:?}", one.key)
        });
    }
    for (key, found) in &index.roots {
        let Some(expected) = index.expected.get(key) else { continue };
        for one in found.iter().filter(|one| one.status == expected.status) {
            verdict.look(one.met == expected.meets, || {
                format!("{key} {}: heard {} of {} events of its own", one.id, one.met, expected.meets)
            });
        }
    }
    for one in index.by_id.values() {
        for (_, signal) in &one.signals {
            let known = sent.contains_key(&(one.id.as_str(), signal.as_str()));
            verdict.look(known, || format!("{} has a signal that nobody sent: {signal}", one.id));
        }
    }
    verdict
}

/// What became of a signal: each time it was used, or listed as unmatched. A faulted instance may be run again, and
/// keeps what it has no use for.
fn came_to<'a>(one: &'a Final, signal: &str) -> Vec<&'a str> {
    let told = one.signals.iter().filter(|(_, of)| of == signal).map(|(kind, _)| kind.as_str());
    let (kept, mut ends): (Vec<&str>, Vec<&str>) = told.partition(|kind| *kind == "signal.buffered");
    if ends.is_empty() && one.status == "faulted" {
        ends.extend(kept);
    }
    ends
}

/// C8.
pub(super) fn accounting(index: &Index<'_>) -> Verdict {
    let mut verdict = Verdict::new("C8", "accounting closes, and nothing is left");
    let mut ours: BTreeMap<String, u64> = BTreeMap::new();
    for one in &index.record.finals {
        *ours.entry(format!("{}/{}", one.tenant, one.status)).or_default() += 1;
        verdict.look(ENDED.contains(&one.status.as_str()), || {
            format!("{} {} has not ended: {}", one.key, one.id, one.status)
        });
    }
    let theirs = &index.record.counts.instances;
    verdict.look(ours == *theirs, || format!("the API lists {ours:?}, the database counts {theirs:?}"));
    for (table, count) in &index.record.counts.left {
        verdict.look(*count == 0, || format!("{count} rows are left in {table}"));
    }
    verdict
}
