//! Who leaves room for whom: while tenants with little to commit are about, batches of those with much are short, one at a
//! time, and followed by a pause. So a commit of a quiet tenant waits for one short batch at most, and finds the machine
//! free more often than not. Among tenants that all have much, or all have little, nothing changes.
//!
//! Knows nothing of commits or batches; it is told what goes and when.

use machine::TenantId;
use std::collections::HashMap;

/// How long what a tenant has committed counts, in microseconds: this window and the one before.
const WINDOW: u64 = 250_000;
/// How long room is left after a quiet tenant had something to commit.
const KEPT: u64 = 1_000_000;
/// Nobody is busy below this many commits in a window: there is room for all.
const BUSY_MIN: u64 = 100;
/// Who has committed less than this part of what the busiest has is quiet.
const QUIET_PART: u64 = 2;
/// What one commit of a tenant with weight 1 counts for.
const SCALE: u64 = 1_000;
/// Tenants that are counted in a window; those beyond it count as busy.
const COUNTED_MAX: usize = 100_000;

pub(super) struct Courtesy {
    /// Commits by tenant, in this window and in the one before.
    used: [HashMap<TenantId, u64>; 2],
    window_began: u64,
    busiest: [u64; 2],
    /// When a quiet tenant last had something to commit beside a busy one.
    quiet_at: Option<u64>,
    /// Since when a batch of busy tenants is in flight.
    under_way: Option<u64>,
    /// When the pause after the last one ends.
    pause_until: u64,
    /// How long the pause is, in lengths of the batch before it.
    pause: f64,
}

impl Courtesy {
    pub(super) fn new(pause: f64) -> Courtesy {
        Courtesy {
            used: [HashMap::new(), HashMap::new()],
            window_began: 0,
            busiest: [0, 0],
            quiet_at: None,
            under_way: None,
            pause_until: 0,
            pause,
        }
    }

    /// Takes note of commits that begin to wait. They count for as much less as the tenant weighs more: who has what its
    /// weight is worth is not busier than others. True if they are a quiet tenant's beside busy ones.
    pub(super) fn came(&mut self, tenant: &TenantId, count: usize, weight: u32, now: u64) -> bool {
        self.roll(now);
        let count = count as u64 * SCALE / u64::from(weight.max(1));
        let [used, _] = &mut self.used;
        if let Some(known) = used.get_mut(tenant) {
            *known += count;
            self.busiest[0] = self.busiest[0].max(*known);
        } else if used.len() < COUNTED_MAX {
            used.insert(tenant.clone(), count);
            self.busiest[0] = self.busiest[0].max(count);
        }
        let quiet = self.is_quiet(tenant);
        if quiet {
            self.quiet_at = Some(now);
        }
        quiet
    }

    /// True if the tenant has little and another one much.
    pub(super) fn is_quiet(&self, tenant: &TenantId) -> bool {
        let busiest = self.busiest[0].max(self.busiest[1]);
        let of = |used: &HashMap<TenantId, u64>| used.get(tenant).copied();
        let most = self.used.iter().filter_map(of).max();
        busiest >= BUSY_MIN * SCALE && most.is_some_and(|most| most * QUIET_PART <= busiest)
    }

    /// True while quiet tenants are about.
    pub(super) fn is_due(&self, now: u64) -> bool {
        self.pause > 0.0 && self.quiet_at.is_some_and(|at| now.saturating_sub(at) < KEPT)
    }

    /// When busy tenants may have a batch; `None` if one is under way.
    pub(super) fn busy_from(&self) -> Option<u64> {
        self.under_way.is_none().then_some(self.pause_until)
    }

    /// A batch of busy tenants goes.
    pub(super) fn begin(&mut self, now: u64) {
        self.under_way = Some(now);
    }

    /// It has been answered.
    pub(super) fn end(&mut self, now: u64) {
        if let Some(began) = self.under_way.take() {
            self.pause_until = now + (now.saturating_sub(began) as f64 * self.pause) as u64;
        }
    }

    fn roll(&mut self, now: u64) {
        let age = now.saturating_sub(self.window_began);
        if age < WINDOW {
            return;
        }
        let last = std::mem::take(&mut self.used[0]);
        let (before, most) = if age < 2 * WINDOW { (last, self.busiest[0]) } else { (HashMap::new(), 0) };
        (self.used[1], self.busiest, self.window_began) = (before, [0, most], now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(name: &str) -> TenantId {
        TenantId::new(name).expect("valid")
    }

    #[test]
    fn a_tenant_with_little_is_quiet_beside_one_with_much() {
        let mut courtesy = Courtesy::new(1.0);
        assert!(!courtesy.came(&tenant("few"), 1, 1, 10), "alone nobody is");
        courtesy.came(&tenant("busy"), 90, 1, 20);
        assert!(!courtesy.came(&tenant("few"), 1, 1, 30), "nobody is busy yet");
        courtesy.came(&tenant("busy"), 10, 1, 40);
        assert!(courtesy.came(&tenant("few"), 1, 1, 50) && courtesy.is_due(60));
        assert!(!courtesy.is_quiet(&tenant("busy")));
        assert!(courtesy.is_due(999_999) && !courtesy.is_due(1_000_051), "for a while");
    }

    #[test]
    fn equals_leave_each_other_no_room() {
        let mut courtesy = Courtesy::new(1.0);
        for at in 0..100 {
            for name in ["a", "b", "c"] {
                courtesy.came(&tenant(name), 100, 1, at);
            }
        }
        assert!(!["a", "b", "c"].iter().any(|name| courtesy.came(&tenant(name), 1, 1, 200)));
        assert!(!courtesy.is_due(200));
    }

    #[test]
    fn who_has_what_its_weight_is_worth_makes_nobody_quiet() {
        let mut courtesy = Courtesy::new(1.0);
        for at in 0..100 {
            courtesy.came(&tenant("heavy"), 40, 4, at);
            courtesy.came(&tenant("light"), 10, 1, at);
        }
        assert!(!courtesy.is_quiet(&tenant("light")) && !courtesy.is_quiet(&tenant("heavy")));
    }

    #[test]
    fn what_was_long_ago_does_not_count() {
        let mut courtesy = Courtesy::new(1.0);
        courtesy.came(&tenant("busy"), 5_000, 1, 0);
        assert!(courtesy.came(&tenant("few"), 1, 1, WINDOW), "the window before counts");
        assert!(!courtesy.came(&tenant("few"), 1, 1, 3 * WINDOW));
    }

    #[test]
    fn after_a_batch_of_the_busy_comes_a_pause_as_long_as_asked_for() {
        let mut courtesy = Courtesy::new(2.0);
        assert_eq!(courtesy.busy_from(), Some(0));
        courtesy.begin(100);
        assert_eq!(courtesy.busy_from(), None);
        courtesy.end(150);
        assert_eq!(courtesy.busy_from(), Some(250));
    }
}
