//! What a worker somewhere else was given: C15.

use super::{Index, Verdict};
use std::collections::{BTreeMap, BTreeSet};

/// C15.
pub(super) fn handled(index: &Index<'_>) -> Verdict {
    let mut verdict =
        Verdict::new("C15", "every acknowledged event is handled, and has its effect once per key");
    let record = index.record;
    let mut keys: BTreeMap<(&str, &str), BTreeSet<&str>> = BTreeMap::new();
    for one in &record.handled {
        keys.entry((&one.tenant, &one.id)).or_default().insert(&one.key);
    }
    let mut emitted: BTreeMap<(&str, String), usize> = BTreeMap::new();
    for one in &record.emitted {
        *emitted.entry((&one.tenant, one.id.clone())).or_default() += 1;
    }
    for one in &record.published {
        let found = keys.get(&(one.tenant.as_str(), one.id.as_str())).map_or(0, BTreeSet::len);
        verdict.look(found == 1, || format!("{} was handled under {found} keys", one.id));
    }
    // Also what nobody knows to be published may have been; then it is handled like any other.
    for ((tenant, id), keys) in &keys {
        let effects: usize =
            keys.iter().map(|key| emitted.remove(&(*tenant, format!("{key}-0"))).unwrap_or_default()).sum();
        verdict.look(effects == 1, || format!("{id} had {effects} effects"));
    }
    for (_, id) in emitted.keys() {
        verdict.look(false, || format!("{id} is the effect of nothing that was handled"));
    }
    verdict
}
