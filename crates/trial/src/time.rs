//! Time that passes only when nothing else can happen.

use async_trait::async_trait;
use machine::Time;
use runtime::clock::Clock;
use std::{future::Future, panic::Location, time::Duration};
use tokio::time::Instant;

pub const EPOCH: i64 = 1_700_000_000_000_000;
const UNTIL_MAX: Duration = Duration::from_secs(1_800);

/// Tokio's paused time, from a fixed beginning.
pub struct VirtualClock(pub Instant);

#[async_trait]
impl Clock for VirtualClock {
    fn now(&self) -> Time {
        Time(EPOCH + Instant::now().duration_since(self.0).as_micros() as i64)
    }
    async fn sleep_until(&self, time: Time) {
        let left = time.since(self.now()).0.clamp(0, 86_400_000_000) as u64;
        // Tokio's timers tick in milliseconds: round up, a timer must not be early.
        pass(Duration::from_millis(left.div_ceil(1000))).await;
    }
    fn steady_micros(&self) -> u64 {
        Instant::now().duration_since(self.0).as_micros() as u64
    }
}

/// Lets virtual time go by.
#[allow(clippy::disallowed_methods, reason = "virtual time")]
pub async fn pass(time: Duration) {
    tokio::time::sleep(time).await;
}

pub fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Waits, in virtual time, until `holds`. Looks often at first, and never later than by a fiftieth of the time that it took.
#[track_caller]
pub fn until<F: Future<Output = bool>>(mut holds: impl FnMut() -> F) -> impl Future<Output = ()> {
    let caller = Location::caller();
    async move {
        let began = Instant::now();
        let mut step = Duration::from_millis(1);
        while began.elapsed() < UNTIL_MAX {
            if holds().await {
                return;
            }
            pass(step).await;
            step = (step * 2).min(Duration::from_millis(50).max(began.elapsed() / 50));
        }
        panic!("what is waited for at {caller} did not come to hold within half a virtual hour");
    }
}
