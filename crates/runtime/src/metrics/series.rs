//! Which messages have a series of their own. Their number is bounded whatever names are made up, and no tenant takes the
//! room of another: the first [`TENANTS_MAX`] tenants have a share each, what is left is for whoever comes first, and all
//! tenants beyond are one, called `other`.

use std::collections::BTreeMap;

/// What stands for tenants, targets and types beyond the bound.
const OTHER: &str = "other";
/// Tenants that are told apart.
const TENANTS_MAX: usize = 100;

/// (tenant, target, event type, outcome).
type Key = (String, String, String, &'static str);

/// What a message was about; `event_type` is empty for what is no event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Of<'a> {
    pub(crate) tenant: &'a str,
    pub(crate) target: &'a str,
    pub(crate) event_type: &'a str,
    /// `processed`, `duplicate`, `retried` or `dead-lettered`.
    pub(crate) outcome: &'static str,
}

impl Of<'_> {
    fn key(&self) -> Key {
        (self.tenant.to_owned(), self.target.to_owned(), self.event_type.to_owned(), self.outcome)
    }
}

#[derive(Default)]
struct Count {
    messages: u64,
    micros: u64,
}

/// The series, and how many of them each tenant has.
#[derive(Default)]
pub(super) struct Series {
    counts: BTreeMap<Key, Count>,
    /// Those called `other` not counted: there are as many as outcomes, for each tenant that has any.
    of_tenants: BTreeMap<String, usize>,
    /// Half of the bound is divided into shares, the other half is everybody's.
    half: usize,
    /// Of what is everybody's, so much is taken.
    taken: usize,
}

impl Series {
    pub(super) fn new(series_max: usize) -> Series {
        Series { half: series_max / 2, ..Series::default() }
    }

    /// What every tenant has for itself.
    fn share(&self) -> usize {
        (self.half / TENANTS_MAX).max(1)
    }

    pub(super) fn add(&mut self, of: Of<'_>, messages: u64, micros: u64) {
        let key = self.key(of);
        let count = self.counts.entry(key).or_default();
        count.messages += messages;
        count.micros += micros;
    }

    /// Its own series if it has one or there is room for one; the tenant's for all others, or that of all other tenants.
    fn key(&mut self, of: Of<'_>) -> Key {
        let key = of.key();
        if self.counts.contains_key(&key) {
            return key;
        }
        let share = self.share();
        let whole = Of { tenant: OTHER, target: OTHER, event_type: OTHER, ..of };
        let of_tenant = Of { target: OTHER, event_type: OTHER, ..of };
        if self.of_tenants.len() >= TENANTS_MAX && !self.of_tenants.contains_key(of.tenant) {
            return whole.key();
        }
        let has = self.of_tenants.entry(of.tenant.to_owned()).or_default();
        if *has >= share {
            if self.taken >= self.half {
                return of_tenant.key();
            }
            self.taken += 1;
        }
        *has += 1;
        key
    }

    /// Nothing is said of a tenant that is gone, and another has its place.
    pub(super) fn forget(&mut self, tenant: &str) {
        self.counts.retain(|(of, _, _, _), _| of != tenant);
        let had = self.of_tenants.remove(tenant).unwrap_or_default();
        self.taken -= had.saturating_sub(self.share());
    }

    /// What each is about, how many messages there were and how long they took.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Of<'_>, u64, u64)> {
        self.counts.iter().map(|((tenant, target, event_type, outcome), count)| {
            (Of { tenant, target, event_type, outcome }, count.messages, count.micros)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(series: &mut Series, tenant: &str, event_type: &str) {
        series.add(Of { tenant, target: "mail", event_type, outcome: "processed" }, 1, 0);
    }

    fn of(series: &Series, tenant: &str, event_type: &str) -> Option<u64> {
        let found = series.iter().find(|(of, _, _)| (of.tenant, of.event_type) == (tenant, event_type));
        found.map(|(_, messages, _)| messages)
    }

    #[test]
    fn thousands_of_tenants_and_types_have_a_bounded_number_of_series() {
        let mut series = Series::new(2_000);
        for tenant in 0..5_000 {
            for event_type in 0..20 {
                count(&mut series, &format!("t{tenant}"), &format!("order.{event_type}"));
            }
        }
        // Four outcomes at most for everybody who has a series called `other`.
        assert!(series.counts.len() <= 2_000 + 4 * (TENANTS_MAX + 1), "{}", series.counts.len());
        let all: u64 = series.iter().map(|(_, messages, _)| messages).sum();
        assert_eq!(all, 100_000, "every message is counted somewhere");
        assert_eq!(of(&series, OTHER, OTHER), Some(4_900 * 20));
        assert_eq!((of(&series, "t99", "order.0"), of(&series, "t100", "order.0")), (Some(1), None));
    }

    #[test]
    fn a_tenant_that_makes_up_types_does_not_take_the_room_of_others() {
        let mut series = Series::new(2_000);
        for event_type in 0..100_000 {
            count(&mut series, "loud", &format!("type.{event_type}"));
        }
        assert_eq!(of(&series, "loud", "type.0"), Some(1));
        assert_eq!(of(&series, "loud", OTHER), Some(100_000 - 1_010));
        for tenant in 1..TENANTS_MAX {
            for event_type in 0..10 {
                count(&mut series, &format!("t{tenant}"), &format!("order.{event_type}"));
            }
            assert_eq!(of(&series, &format!("t{tenant}"), "order.9"), Some(1), "{tenant}");
        }
        // The place of one that is gone is another's.
        series.forget("loud");
        assert_eq!(of(&series, "loud", OTHER), None);
        count(&mut series, "new", "order.0");
        assert_eq!((of(&series, "new", "order.0"), series.taken), (Some(1), 0));
    }
}
