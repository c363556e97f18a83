//! What could not be published and is tried again later: its key waits, and later events of that key with it. Nobody else
//! does. Time is handed in.

use machine::{TenantId, Time, time::Span};
use std::collections::BTreeMap;
use store::rows::OutboxAsk;

/// Keys that wait by themselves; a tenant with a further one waits as a whole.
const KEYS_MAX: usize = 256;
/// The first wait; it doubles up to the last.
const WAIT: Span = Span::from_millis(50);
const WAIT_MAX: Span = Span::from_secs(30);

#[derive(Clone, Copy)]
struct Wait {
    until: Time,
    span: Span,
}

impl Wait {
    /// One that follows, half of it at least.
    fn after(before: Option<Wait>, now: Time, chance: f64) -> Wait {
        let span = before.map_or(WAIT, |wait| Span((wait.span.0 * 2).min(WAIT_MAX.0)));
        Wait { until: now.after(Span((span.0 as f64 * (0.5 + chance / 2.0)) as i64)), span }
    }
}

#[derive(Default)]
pub(super) struct Waits {
    keys: BTreeMap<(TenantId, String), Wait>,
    tenants: BTreeMap<TenantId, Wait>,
}

impl Waits {
    /// `true` if the key has not failed before.
    pub(super) fn failed(&mut self, tenant: &TenantId, key: &str, now: Time, chance: f64) -> bool {
        let of_key = (tenant.clone(), key.to_owned());
        let before = self.keys.get(&of_key).copied();
        if before.is_none() && self.keys.len() >= KEYS_MAX {
            self.keys.retain(|_, wait| wait.until > now);
        }
        if before.is_none() && self.keys.len() >= KEYS_MAX {
            let before = self.tenants.get(tenant).copied();
            // Several keys of a page fail together, and count once.
            if before.is_none_or(|wait| wait.until <= now) {
                self.tenants.insert(tenant.clone(), Wait::after(before, now, chance));
            }
            return before.is_none();
        }
        self.keys.insert(of_key, Wait::after(before, now, chance));
        before.is_none()
    }

    pub(super) fn worked(&mut self, tenant: &TenantId, key: &str) {
        if !self.keys.is_empty() {
            self.keys.remove(&(tenant.clone(), key.to_owned()));
        }
        if !self.tenants.is_empty() {
            self.tenants.remove(tenant);
        }
    }

    /// What may be published now.
    pub(super) fn ask(&self, limit: usize, now: Time) -> OutboxAsk {
        let keys = self.keys.iter().filter(|(_, wait)| wait.until > now);
        let tenants = self.tenants.iter().filter(|(_, wait)| wait.until > now);
        OutboxAsk {
            limit,
            but_tenants: tenants.map(|(tenant, _)| tenant.clone()).collect(),
            but_keys: keys.map(|(key, _)| key.clone()).collect(),
        }
    }

    /// When somebody's wait is over.
    pub(super) fn next(&self, now: Time) -> Option<Time> {
        let all = self.keys.values().chain(self.tenants.values());
        all.map(|wait| wait.until).filter(|until| *until > now).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(name: &str) -> TenantId {
        TenantId::new(name).expect("valid")
    }

    #[test]
    fn a_key_waits_longer_each_time_until_it_works() {
        let (mut waits, acme) = (Waits::default(), tenant("acme"));
        let mut now = Time(0);
        let mut spans = Vec::new();
        for _ in 0..12 {
            assert_eq!(waits.failed(&acme, "k", now, 1.0), spans.is_empty());
            let until = waits.next(now).expect("it waits");
            assert_eq!(waits.ask(9, now).but_keys, [(acme.clone(), "k".to_owned())]);
            spans.push(until.since(now).0 / 1_000);
            now = until;
            assert_eq!((waits.next(now), waits.ask(9, now)), (None, OutboxAsk::of(9)));
        }
        assert_eq!(spans, [50, 100, 200, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600, 30_000, 30_000]);
        waits.worked(&acme, "k");
        assert!(waits.failed(&acme, "k", now, 0.0));
        assert_eq!(waits.next(now), Some(now.after(Span::from_millis(25))));
    }

    #[test]
    fn a_tenant_with_too_many_waits_as_a_whole_and_no_other_does() {
        let (mut waits, acme) = (Waits::default(), tenant("acme"));
        for key in 0..=KEYS_MAX {
            waits.failed(&acme, &key.to_string(), Time(0), 0.0);
        }
        let ask = waits.ask(9, Time(0));
        assert_eq!((ask.but_keys.len(), ask.but_tenants), (KEYS_MAX, vec![acme.clone()]));
        waits.worked(&acme, "0");
        assert!(waits.ask(9, Time(0)).but_tenants.is_empty());
        // Those whose time is over make room.
        let later = Time(60_000_000);
        waits.failed(&tenant("zoo"), "k", Time(0), 0.0);
        waits.failed(&acme, "new", later, 0.0);
        assert!(waits.ask(9, later).but_tenants.is_empty());
    }
}
