//! Retry arithmetic: bounded exponential back-off with full jitter, also at the cap.

use crate::time::Span;
use serde::{Deserialize, Serialize};

/// How often and how patiently something is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RetryPolicy {
    /// Attempts in all, the first included.
    pub attempts_max: u32,
    pub base: Span,
    pub factor: f64,
    pub cap: Span,
}

impl Default for RetryPolicy {
    fn default() -> RetryPolicy {
        RetryPolicy { attempts_max: 5, base: Span::from_millis(200), factor: 2.0, cap: Span::from_secs(60) }
    }
}

impl RetryPolicy {
    /// The wait after the `attempt`-th attempt failed, or `None` when there are no more.
    /// `random` in 0..1 picks a point in the whole interval (full jitter), so that callers who failed together
    /// do not come back together.
    pub fn delay(&self, attempt: u32, random: f64) -> Option<Span> {
        if attempt >= self.attempts_max {
            return None;
        }
        let growth = self.factor.max(1.0).powi(attempt.saturating_sub(1).min(64) as i32);
        let ceiling = (self.base.0 as f64 * growth).min(self.cap.0 as f64);
        Some(Span((ceiling * random.clamp(0.0, 1.0)) as i64))
    }

    /// All waits together at most.
    pub fn longest(&self) -> Span {
        let waits = (1..self.attempts_max).filter_map(|attempt| self.delay(attempt, 1.0));
        waits.fold(Span::ZERO, |sum, wait| Span(sum.0.saturating_add(wait.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_to_the_cap_and_end() {
        let policy = RetryPolicy { attempts_max: 6, base: Span(100), factor: 2.0, cap: Span(500) };
        let full: Vec<_> = (1..=6).map(|attempt| policy.delay(attempt, 1.0).map(|span| span.0)).collect();
        assert_eq!(full, [Some(100), Some(200), Some(400), Some(500), Some(500), None]);
        assert_eq!(policy.delay(5, 0.5), Some(Span(250)), "jitter also acts at the cap");
        assert_eq!(policy.delay(1, 0.0), Some(Span(0)));
        assert_eq!(policy.longest(), Span(1_700));
    }
}
