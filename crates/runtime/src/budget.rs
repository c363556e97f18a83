//! A retry budget: retries may be a fifth of the attempts. Whoever finds it used up waits; nothing is given up for it.
//! Time is handed in.

use machine::{Time, time::Span};

/// What a retry costs. All of it is counted in thousandths, so that fifths add up.
const RETRY: i64 = 1_000;
/// What a first attempt adds: one retry for five of them.
const PER_ATTEMPT: i64 = RETRY / 5;
/// So much is there at first, and at most: few attempts in all may each be retried at once.
const HELD_MAX: i64 = 100 * RETRY;
/// What comes by itself in a second, so that a target without new work gets its retries too.
const PER_SECOND: i64 = 5 * RETRY;
/// A retry that has to wait comes back after one to two of these.
const WAIT: Span = Span::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Budget {
    held: i64,
    at: Time,
}

impl Budget {
    pub(crate) fn new(now: Time) -> Budget {
        Budget { held: HELD_MAX, at: now }
    }

    /// True if it is as good as new.
    pub(crate) fn is_idle(&self, now: Time) -> bool {
        now.since(self.at).0.max(0) / 1_000_000 >= HELD_MAX / PER_SECOND
    }

    /// Pays for an attempt; a retry for which nothing is left has to wait so long. `chance` is 0 to 1.
    pub(crate) fn spend(&mut self, is_retry: bool, now: Time, chance: f64) -> Result<(), Span> {
        let grown = now.since(self.at).0.max(0).saturating_mul(PER_SECOND) / 1_000_000;
        // What is less than a thousandth is not lost: the clock is not moved for it.
        if grown > 0 {
            self.held = self.held.saturating_add(grown).min(HELD_MAX);
            self.at = now;
        }
        if !is_retry {
            self.held = (self.held + PER_ATTEMPT).min(HELD_MAX);
            return Ok(());
        }
        if self.held < RETRY {
            return Err(Span(WAIT.0 + (WAIT.0 as f64 * chance) as i64));
        }
        self.held -= RETRY;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// At which second so many first attempts and then so many retries are made; how many of the retries are let through.
    fn check(script: &[(i64, u32, u32, u32)]) {
        let mut budget = Budget::new(Time(0));
        for (second, firsts, retries, expected) in script {
            let now = Time(second * 1_000_000);
            (0..*firsts).for_each(|_| budget.spend(false, now, 0.0).expect("a first attempt never waits"));
            let made = (0..*retries).filter(|_| budget.spend(true, now, 0.0).is_ok()).count();
            assert_eq!(made, *expected as usize, "second {second}");
        }
    }

    #[test]
    fn retries_are_a_fifth_once_the_beginning_is_used_up() {
        check(&[(0, 0, 150, 100), (0, 1_000, 1_000, 100), (0, 100, 100, 20), (0, 4, 9, 0), (0, 1, 9, 1)]);
    }

    #[test]
    fn some_come_by_themselves_and_no_more_than_fit() {
        check(&[(0, 0, 100, 100), (1, 0, 9, 5), (3, 0, 20, 10), (1_000, 0, 150, 100)]);
    }

    #[test]
    fn who_waits_does_not_come_back_with_all_others() {
        let mut budget = Budget { held: 0, at: Time(0) };
        assert_eq!(budget.spend(true, Time(0), 0.0), Err(Span::from_secs(1)));
        assert_eq!(budget.spend(true, Time(0), 0.5), Err(Span::from_millis(1_500)));
    }
}
