//! A token bucket: so many at once, so many in a second. Time is handed in.

use machine::{Time, time::Span};

const SECOND: i64 = 1_000_000;

/// Fills at `per_second`, holds what one second gives and at least one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Bucket {
    per_second: f64,
    held: f64,
    at: Time,
}

impl Bucket {
    /// Full.
    pub(crate) fn new(per_second: f64, now: Time) -> Bucket {
        Bucket { per_second, held: per_second.max(1.0), at: now }
    }

    /// Changes how fast it fills; what it holds stays, as far as it fits.
    pub(crate) fn pour(&mut self, per_second: f64, now: Time) {
        self.fill(now);
        self.per_second = per_second;
        self.held = self.held.min(per_second.max(1.0));
    }

    /// Takes `count`, or says how long there is nothing to take. Whoever finds one token may take more than there are and
    /// leaves a debt: what is asked for at once is given whole.
    pub(crate) fn take(&mut self, count: f64, now: Time) -> Result<(), Span> {
        self.fill(now);
        if self.per_second > 0.0 && self.held >= 1.0 {
            self.held -= count;
            return Ok(());
        }
        Err(self.wait())
    }

    /// How long until there is a token.
    fn wait(&self) -> Span {
        match self.per_second > 0.0 {
            true => Span(((1.0 - self.held) / self.per_second * SECOND as f64).ceil().max(1.0) as i64),
            false => Span::MAX,
        }
    }

    fn fill(&mut self, now: Time) {
        let passed = now.0.saturating_sub(self.at.0).max(0) as f64 / SECOND as f64;
        self.held = (self.held + passed * self.per_second).min(self.per_second.max(1.0));
        self.at = now.max(self.at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is asked at which second: how many, and whether they are given or how many milliseconds to wait.
    fn check(per_second: f64, asked: &[(f64, f64, Result<(), i64>)]) {
        let mut bucket = Bucket::new(per_second, Time(0));
        for (at, count, expected) in asked {
            let now = Time((at * SECOND as f64) as i64);
            let found = bucket.take(*count, now).map_err(|wait| wait.0 / 1_000);
            assert_eq!(found, *expected, "{count} at {at} s of {per_second}/s");
        }
    }

    #[test]
    fn so_many_at_once_and_so_many_in_a_second() {
        check(2.0, &[(0.0, 1.0, Ok(())), (0.0, 1.0, Ok(())), (0.0, 1.0, Err(500)), (0.5, 1.0, Ok(()))]);
        // What is not used is not saved up beyond one second's worth.
        check(2.0, &[(9.0, 1.0, Ok(())), (9.0, 1.0, Ok(())), (9.0, 1.0, Err(500))]);
        check(0.5, &[(0.0, 1.0, Ok(())), (1.0, 1.0, Err(1_000)), (2.0, 1.0, Ok(()))]);
    }

    #[test]
    fn what_is_asked_for_at_once_is_given_whole_and_owed() {
        check(10.0, &[(0.0, 30.0, Ok(())), (1.0, 1.0, Err(1_100)), (2.1, 1.0, Ok(()))]);
    }

    #[test]
    fn nothing_comes_of_nothing_and_time_never_goes_back() {
        check(0.0, &[(0.0, 1.0, Err(Span::MAX.0 / 1_000)), (99.0, 1.0, Err(Span::MAX.0 / 1_000))]);
        check(1.0, &[(5.0, 1.0, Ok(())), (4.0, 1.0, Err(1_000)), (5.5, 1.0, Err(500)), (6.0, 1.0, Ok(()))]);
    }

    #[test]
    fn a_rate_may_change() {
        let mut bucket = Bucket::new(100.0, Time(0));
        bucket.pour(1.0, Time(0));
        assert_eq!(bucket.take(1.0, Time(0)), Ok(()));
        assert_eq!(bucket.take(1.0, Time(0)), Err(Span::from_secs(1)));
        bucket.pour(10.0, Time(0));
        assert_eq!(bucket.take(1.0, Time(0)), Err(Span::from_millis(100)));
    }
}
