//! What the outside world saw: C4, C7, C14. It has a clock and a memory of its own.

use super::{Index, Verdict};
use crate::record::Effect;
use std::collections::{BTreeMap, BTreeSet};

/// Repeated requests for each different one that are acceptable under the faults of a run. Each is a call that was under
/// way when its node or its database was lost; an engine that repeats by habit would be far above it.
const REPEATS_PER_HUNDRED_MAX: usize = 25;

/// Requests that the sink took. What it refuses it means to see again.
pub(crate) struct Taken {
    pub(crate) different: usize,
    pub(crate) repeats: usize,
}

impl Taken {
    pub(crate) fn of(sink: &[Effect]) -> Taken {
        let taken = || sink.iter().filter(|effect| effect.status == 200);
        let different = taken().map(|effect| effect.key.as_str()).collect::<BTreeSet<_>>().len();
        Taken { different, repeats: taken().count() - different }
    }
}

/// C4.
pub(super) fn effects(index: &Index<'_>) -> Verdict {
    let mut verdict = Verdict::new("C4", "an effect has one key, and repeats only under it");
    let mut keys: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut bodies: BTreeMap<&str, BTreeSet<(&str, &str)>> = BTreeMap::new();
    for Effect { key, id, hash, .. } in &index.record.sink {
        keys.entry(id).or_default().insert(key);
        bodies.entry(key).or_default().insert((id, hash));
    }
    let mut wanted: BTreeMap<&str, bool> = BTreeMap::new();
    for (expected, is_whole) in index.started() {
        wanted.extend(expected.effects.iter().map(|id| (id.as_str(), is_whole)));
    }
    for (id, is_whole) in &wanted {
        let found = keys.get(id).map_or(0, BTreeSet::len);
        let fine = found == 1 || (found == 0 && !is_whole);
        verdict.look(fine, || format!("{id} came with {found} keys"));
    }
    for id in keys.keys() {
        verdict.look(wanted.contains_key(id), || format!("{id} was no step of any instance"));
    }
    for (key, bodies) in &bodies {
        let fine = bodies.len() == 1 && !key.is_empty();
        verdict.look(fine, || format!("key {key:?} came with {} different requests", bodies.len()));
    }
    verdict
}

/// C7, by the sink's clock: the wait lies between two effects.
pub(super) fn timers(index: &Index<'_>) -> Verdict {
    let mut verdict = Verdict::new("C7", "a timer is never early");
    let mut first: BTreeMap<&str, i64> = BTreeMap::new();
    for effect in &index.record.sink {
        let at = first.entry(&effect.id).or_insert(effect.t);
        *at = effect.t.min(*at);
    }
    for wait in index.record.expected.iter().flat_map(|one| &one.waits) {
        if let (Some(before), Some(after)) = (first.get(&*wait.before), first.get(&*wait.after)) {
            let (passed, asked) = (after - before, i64::try_from(wait.ms * 1000).unwrap_or(i64::MAX));
            verdict.look(passed >= asked, || {
                format!("{} came {passed} µs after {}, asked for {asked}", wait.after, wait.before)
            });
        }
    }
    verdict
}

/// C14.
pub(super) fn repeats(index: &Index<'_>) -> Verdict {
    let mut verdict = Verdict::new("C14", "few effects are repeated");
    let Taken { different, repeats } = Taken::of(&index.record.sink);
    verdict.looked_at = different.saturating_sub(1);
    verdict.look(repeats * 100 <= different * REPEATS_PER_HUNDRED_MAX, || {
        format!(
            "{repeats} repeats of {different} effects; {REPEATS_PER_HUNDRED_MAX} in a hundred are allowed"
        )
    });
    verdict
}
