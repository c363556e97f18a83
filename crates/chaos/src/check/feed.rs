//! The feed of events: C9, C10. Followed all the while by a reader on each node, and read once more from the beginning.

use super::{Index, Verdict};
use std::collections::BTreeMap;

/// What each reader saw of a tenant, in its order.
fn read<'a>(index: &Index<'a>) -> BTreeMap<(&'a str, Option<usize>), Vec<&'a str>> {
    let mut read: BTreeMap<_, Vec<&str>> = BTreeMap::new();
    for told in &index.record.feed {
        read.entry((told.tenant.as_str(), told.node)).or_default().push(&told.id);
    }
    read
}

/// C9.
pub(super) fn complete(index: &Index<'_>) -> Verdict {
    let mut verdict = Verdict::new("C9", "a cursor of the feed skips nothing and repeats nothing");
    let read = read(index);
    let nothing = Vec::new();
    let mut wanted: BTreeMap<&str, BTreeMap<&str, bool>> = BTreeMap::new();
    for (expected, is_whole) in index.started() {
        let told = expected.told.iter().flatten().map(|id| (id.as_str(), is_whole));
        wanted.entry(&expected.tenant).or_default().extend(told);
    }
    for (tenant, wanted) in &wanted {
        let whole = read.get(&(tenant, None)).unwrap_or(&nothing);
        for (id, is_whole) in wanted {
            let found = whole.iter().filter(|told| *told == id).count();
            let fine = found == 1 || (found == 0 && !is_whole);
            verdict.look(fine, || format!("{id} is in the feed {found} times"));
        }
        for id in whole.iter().filter(|id| !wanted.contains_key(*id)) {
            verdict.look(false, || format!("{id} is in the feed and nobody emitted it"));
        }
        for node in 0..index.record.settings.nodes {
            let live = read.get(&(tenant, Some(node))).unwrap_or(&nothing);
            verdict.look(live == whole, || difference(tenant, node, live, whole));
        }
    }
    verdict
}

/// Where a reader that followed the feed saw something else than one that read it at the end.
fn difference(tenant: &str, node: usize, live: &[&str], whole: &[&str]) -> String {
    let at = live.iter().zip(whole).take_while(|(one, other)| one == other).count();
    let missed: Vec<&&str> = whole.iter().filter(|id| !live.contains(id)).take(5).collect();
    format!(
        "{tenant}: the reader on node {node} saw {} of {}; place {at} is {:?} where {:?} should be; missed {missed:?}",
        live.len(),
        whole.len(),
        live.get(at),
        whole.get(at)
    )
}

/// C10.
pub(super) fn in_order(index: &Index<'_>) -> Verdict {
    let mut verdict = Verdict::new("C10", "events of an instance come in the order in which it emitted them");
    let mut place: BTreeMap<&str, usize> = BTreeMap::new();
    for (at, told) in index.record.feed.iter().enumerate().filter(|(_, told)| told.node.is_none()) {
        place.entry(&told.id).or_insert(at);
    }
    for list in index.record.expected.iter().flat_map(|one| &one.told) {
        for pair in list.windows(2) {
            let (Some(one), Some(other)) = (place.get(&*pair[0]), place.get(&*pair[1])) else { continue };
            verdict.look(one < other, || format!("{} comes after {}", pair[0], pair[1]));
        }
    }
    verdict
}
