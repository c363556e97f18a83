//! What clients read: C6, C13.

use super::{Index, Verdict};
use crate::record::{Act, Op, Res};
use std::collections::BTreeMap;

/// The last answers of a node that must all be good.
const TAIL: usize = 5;

/// C6. All nodes read the same database, so an instance never goes back for one client, whichever node it asks.
pub(super) fn versions(index: &Index<'_>) -> Verdict {
    let mut verdict = Verdict::new("C6", "versions are 1 to n without gap and never go back");
    for one in &index.record.finals {
        let whole = is_whole(&one.versions) && one.versions.last() == Some(&one.version);
        verdict.look(whole, || {
            format!("{} is at {} and has history {}", one.id, one.version, shown(&one.versions))
        });
    }
    let mut seen: BTreeMap<(u64, &str), (i64, u64)> = BTreeMap::new();
    let reads = |op: &&Op| op.res == Res::Ok && matches!(op.op, Act::Read | Act::History);
    for op in index.record.ops.iter().filter(reads) {
        if op.op == Act::History {
            verdict.look(is_whole(&op.versions), || format!("op {}: history {}", op.n, shown(&op.versions)));
            // A page may end before the history does: it says nothing about how far that is.
            continue;
        }
        let (Some(id), Some(last)) = (op.id.as_deref(), op.versions.last()) else { continue };
        let (before, at) = seen.entry((op.client, id)).or_insert((*last, op.n));
        verdict.look(last >= before, || {
            format!("op {}: {id} is at {last} on node {}, op {at} had seen {before}", op.n, op.node)
        });
        (*before, *at) = ((*before).max(*last), op.n);
    }
    verdict
}

fn is_whole(versions: &[i64]) -> bool {
    !versions.is_empty() && versions.iter().zip(1..).all(|(found, wanted)| *found == wanted)
}

fn shown(versions: &[i64]) -> String {
    let gap = versions.iter().zip(1..).find(|(found, wanted)| *found != wanted);
    match gap {
        Some((found, wanted)) => format!("with {found} where {wanted} should be"),
        None => format!("of {} versions", versions.len()),
    }
}

/// C13.
pub(super) fn tail(index: &Index<'_>) -> Verdict {
    let mut verdict = Verdict::new("C13", "after healing every node serves");
    for node in 0..index.record.settings.nodes {
        let ops: Vec<&Op> = index.record.ops.iter().filter(|op| op.tail && op.node == node).collect();
        let last = &ops[ops.len().saturating_sub(TAIL)..];
        // A refusal of what was not in order, such as a signal to an instance that has ended, is an answer too.
        let is_good = |op: &&&Op| op.res == Res::Ok || op.status.is_some_and(|status| status < 500);
        let good = last.iter().filter(is_good).count();
        verdict.look(good == TAIL, || {
            let bad: Vec<u64> = last.iter().filter(|op| !is_good(op)).map(|op| op.n).collect();
            format!("node {node}: {good} of the last {TAIL} requests were answered; not: {bad:?}")
        });
    }
    verdict
}
