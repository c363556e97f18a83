//! Virtual time: tokio's paused clock from a fixed beginning. A node's own clock may be off.

use async_trait::async_trait;
use machine::Time;
use runtime::clock::Clock;
use std::{cell::Cell, time::Duration};
use tokio::time::Instant;

/// What the time is when a seed begins.
pub(crate) const EPOCH: i64 = 1_700_000_000_000_000;

thread_local!(static ORIGIN: Cell<Option<Instant>> = const { Cell::new(None) });

/// The seed's time begins now.
pub(crate) fn begin() {
    ORIGIN.set(Some(Instant::now()));
}

/// How long the seed has been under way.
pub(crate) fn elapsed() -> Duration {
    Instant::now().duration_since(ORIGIN.get().expect("a seed is under way"))
}

/// The true time: the store's and the outside's.
pub(crate) fn now() -> Time {
    Time(EPOCH + elapsed().as_micros() as i64)
}

/// What one node takes the time to be.
pub(crate) struct NodeClock {
    /// Microseconds it is ahead of the true time.
    pub(crate) ahead: i64,
}

#[async_trait]
impl Clock for NodeClock {
    fn now(&self) -> Time {
        Time(now().0 + self.ahead)
    }
    async fn sleep_until(&self, time: Time) {
        let left = time.since(self.now()).0.clamp(0, 86_400_000_000) as u64;
        // Tokio's timers tick in milliseconds: round up, a timer must not be early.
        tokio::time::sleep(Duration::from_millis(left.div_ceil(1000))).await;
    }
    fn steady_micros(&self) -> u64 {
        elapsed().as_micros() as u64
    }
}
