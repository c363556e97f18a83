//! Time and chance, handed in. The only place that reads a clock or draws random numbers.

use async_trait::async_trait;
use machine::{Time, time::Span};
use rand::{Rng, SeedableRng, rngs::StdRng};
use std::{
    sync::atomic::{AtomicI64, Ordering},
    time::Duration,
};
use tokio::sync::Notify;
use uuid::Uuid;

/// Where the runtime gets the time from.
#[async_trait]
pub trait Clock: Send + Sync + 'static {
    fn now(&self) -> Time;
    /// Returns once `now()` is at least `time`, or has jumped: whoever waits looks again.
    async fn sleep_until(&self, time: Time);
    /// A steadily rising number of microseconds, for measuring lengths only.
    fn steady_micros(&self) -> u64;
    /// The store said so, some time after this clock's `steady_micros` were `asked_at`. For a clock that goes by it: `true`
    /// if it jumped.
    fn heard(&self, _now: Time, _asked_at: u64) -> bool {
        false
    }
    /// How much later than `now()` it may be. What must not be early by anybody's clock is written that much later.
    fn doubt(&self) -> Span {
        Span::ZERO
    }
}

/// Where the runtime gets chance from: ids and jitter.
pub trait Entropy: Send + Sync + 'static {
    fn bytes16(&self) -> [u8; 16];

    /// A fresh UUIDv7. Its first random bits hold the microseconds, so that ids sort by the time they were made.
    fn id(&self, now: Time) -> Uuid {
        let bytes = self.bytes16();
        let mut random = [0u8; 10];
        random.copy_from_slice(&bytes[..10]);
        let fraction = (now.0.rem_euclid(1000) * 4096 / 1000) as u16;
        random[..2].copy_from_slice(&fraction.to_be_bytes());
        uuid::Builder::from_unix_timestamp_millis((now.0 / 1000).max(0) as u64, &random).into_uuid()
    }

    /// A number in 0..1.
    fn unit(&self) -> f64 {
        let bytes = self.bytes16();
        let word = u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"));
        (word >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// The machine's clock.
#[derive(Default)]
pub struct SystemClock;

#[async_trait]
impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods)] // this is the clock
    fn now(&self) -> Time {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Time(since.as_micros() as i64)
    }

    #[allow(clippy::disallowed_methods)] // this is the clock
    async fn sleep_until(&self, time: Time) {
        // Long sleeps are cut, so that a changed wall clock is noticed within a minute.
        while self.now() < time {
            let left = time.since(self.now()).0.clamp(0, 60_000_000) as u64;
            tokio::time::sleep(Duration::from_micros(left)).await;
        }
    }

    #[allow(clippy::disallowed_methods)] // this is the clock
    fn steady_micros(&self) -> u64 {
        use std::{sync::OnceLock, time::Instant};
        static ORIGIN: OnceLock<Instant> = OnceLock::new();
        ORIGIN.get_or_init(Instant::now).elapsed().as_micros() as u64
    }
}

/// The clock of the machine that holds the store, for nodes that share one: those of their own may be wrong by hours, and
/// then one of them would fire timers early. It goes on by itself and is put right whenever the lease is renewed.
///
/// An answer takes a while, so the store's time is known between two bounds only. The clock shows the earliest: what is
/// due by it is due by the store's. What is written for later adds the [`Clock::doubt`], for a node that knows better.
pub struct SharedClock {
    /// The store's time, less the steady time of this process: the least it can be.
    ahead: AtomicI64,
    doubt: AtomicI64,
    bounds: parking_lot::Mutex<Bounds>,
    jumped: Notify,
}

/// A change of the store's clock, in microseconds, that is worth a word. Smaller ones are how clocks are kept right.
const JUMP_MIN: i64 = 500_000;

/// Where the store's time can lie, less the steady time of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bounds {
    least: i64,
    most: i64,
    /// How far apart they were before the last answer.
    before: i64,
    heard_at: u64,
}

impl Bounds {
    /// Two machines' steady clocks differ by less than one microsecond in so many.
    const DRIFT_ONE_IN: u64 = 5_000;

    /// An answer of which nothing else is known.
    fn new(now: Time, asked_at: u64, heard_at: u64) -> Bounds {
        // The answer was made after it was asked for and before now.
        let (least, most) = (now.0 - heard_at as i64, now.0 - asked_at as i64);
        Bounds { least, most, before: most - least, heard_at }
    }

    /// The bounds after another answer, and by how much the store's clock was moved if this does not fit the ones before.
    fn heard(self, now: Time, asked_at: u64, heard_at: u64) -> (Bounds, i64) {
        let fresh = Bounds::new(now, asked_at, heard_at);
        let drift = (heard_at.saturating_sub(self.heard_at) / Bounds::DRIFT_ONE_IN) as i64;
        let (least, most) = (fresh.least.max(self.least - drift), fresh.most.min(self.most + drift));
        // What does not fit was put forward or back where the store is.
        match least <= most {
            true => (Bounds { least, most, before: self.most - self.least, heard_at }, 0),
            false if fresh.least > self.most => (fresh, fresh.least - self.most),
            false => (fresh, fresh.most - self.least),
        }
    }

    /// A decision may have been made by the time of before the last answer and be written after it.
    fn doubt(self) -> i64 {
        self.before.max(self.most - self.least)
    }
}

impl SharedClock {
    /// The store said that it was `now`, some time after [`SystemClock`]'s steady time was `asked_at`.
    pub fn new(now: Time, asked_at: u64) -> SharedClock {
        let bounds = Bounds::new(now, asked_at, SystemClock.steady_micros());
        let (ahead, doubt) = (AtomicI64::new(bounds.least), AtomicI64::new(bounds.doubt()));
        SharedClock { ahead, doubt, bounds: parking_lot::Mutex::new(bounds), jumped: Notify::new() }
    }
}

#[async_trait]
impl Clock for SharedClock {
    fn now(&self) -> Time {
        Time(SystemClock.steady_micros() as i64 + self.ahead.load(Ordering::Relaxed))
    }

    #[allow(clippy::disallowed_methods)] // this is a clock
    async fn sleep_until(&self, time: Time) {
        let mut jumped = std::pin::pin!(self.jumped.notified());
        // Before looking: a jump between the look and the sleep is heard.
        jumped.as_mut().enable();
        while self.now() < time {
            let left = time.since(self.now()).0.clamp(0, 60_000_000) as u64;
            tokio::select! {
                () = jumped.as_mut() => return,
                () = tokio::time::sleep(Duration::from_micros(left)) => {}
            }
        }
    }

    fn steady_micros(&self) -> u64 {
        SystemClock.steady_micros()
    }

    fn heard(&self, now: Time, asked_at: u64) -> bool {
        let mut bounds = self.bounds.lock();
        let (fresh, moved) = bounds.heard(now, asked_at, SystemClock.steady_micros());
        *bounds = fresh;
        self.doubt.store(bounds.doubt(), Ordering::Relaxed);
        self.ahead.store(bounds.least, Ordering::Relaxed);
        let jumped = moved.abs() >= JUMP_MIN;
        if jumped {
            self.jumped.notify_waiters();
            let seconds = moved as f64 / 1e6;
            tracing::warn!(
                seconds,
                "the clock of the database was moved: timers, schedules and leases go by it"
            );
        }
        jumped
    }

    fn doubt(&self) -> Span {
        Span(self.doubt.load(Ordering::Relaxed))
    }
}

/// Seeded randomness: from the operating system in production, from a seed in tests.
pub struct Dice(parking_lot::Mutex<StdRng>);

impl Dice {
    pub fn from_os() -> Dice {
        Dice(parking_lot::Mutex::new(StdRng::from_os_rng()))
    }

    pub fn from_seed(seed: u64) -> Dice {
        Dice(parking_lot::Mutex::new(StdRng::seed_from_u64(seed)))
    }
}

impl Entropy for Dice {
    fn bytes16(&self) -> [u8; 16] {
        self.0.lock().random()
    }
}

/// Adds a length to the present.
pub fn later(clock: &dyn Clock, span: Span) -> Time {
    clock.now().after(span)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_answer_leaves_doubt_and_a_quick_one_takes_it() {
        const SECOND: i64 = 1_000_000;
        // Asked at 0, answered after 300 ms: when in between the store said so is not known.
        let late = Bounds::new(Time(100 * SECOND), 0, 300_000);
        assert_eq!((late.least, late.doubt()), (100 * SECOND - 300_000, 300_000));
        // A quick answer a second later knows it to the millisecond; a decision of before it may still be written.
        let (quick, moved) = late.heard(Time(101 * SECOND), 1_100_000, 1_101_000);
        assert_eq!(moved, 0);
        assert_eq!((quick.least, quick.most), (101 * SECOND - 1_101_000, 101 * SECOND - 1_100_000));
        assert_eq!(quick.doubt(), 300_000);
        // Another late one knows nothing new but that the clocks may have drifted apart meanwhile.
        let (again, moved) = quick.heard(Time(102 * SECOND), 2_000_000, 2_500_000);
        assert_eq!(moved, 0);
        let drift = (2_500_000 - 1_101_000) / 5_000;
        assert_eq!((again.least, again.doubt()), (quick.least - drift, 1_000 + 2 * drift));
        // Whenever the answer was made, the store's time lay between the bounds.
        for bounds in [late, quick, again] {
            assert!(bounds.least <= bounds.most, "{bounds:?}");
        }
    }

    #[test]
    fn by_how_much_the_stores_clock_was_moved_is_known() {
        const SECOND: i64 = 1_000_000;
        let bounds = Bounds::new(Time(100 * SECOND), 0, 1_000);
        let (forward, moved) = bounds.heard(Time(108 * SECOND), 5_000_000, 5_001_000);
        assert!((2_990_000..=3_000_000).contains(&moved), "{moved}");
        let (_, moved) = forward.heard(Time(103 * SECOND), 10_000_000, 10_001_000);
        assert!((-10_000_000..=-9_990_000).contains(&moved), "{moved}");
    }

    #[tokio::test]
    async fn who_waits_for_a_time_looks_again_once_the_clock_was_moved() {
        const HOUR: i64 = 3_600_000_000;
        let clock = SharedClock::new(Time(10 * HOUR), SystemClock.steady_micros());
        for hours in [20, 5] {
            // Polled first: it waits when the clock is moved. Neither time would come while a test runs.
            tokio::join!(biased; clock.sleep_until(Time(100 * HOUR)), async {
                assert!(clock.heard(Time(hours * HOUR), clock.steady_micros()));
            });
        }
        assert!(!clock.heard(clock.now(), clock.steady_micros()), "it goes on as it was");
    }

    #[test]
    fn a_store_whose_clock_was_moved_is_followed() {
        const HOUR: i64 = 3_600_000_000;
        let clock = SharedClock::new(Time(10 * HOUR), SystemClock.steady_micros());
        assert!((10 * HOUR..11 * HOUR).contains(&clock.now().0), "whatever this machine's clock says");
        for hours in [20, 5] {
            clock.heard(Time(hours * HOUR), clock.steady_micros());
            assert!((hours * HOUR..(hours + 1) * HOUR).contains(&clock.now().0));
        }
    }
}
