//! Time and chance, handed in. The only place that reads a clock or draws random numbers.

use async_trait::async_trait;
use machine::{Time, time::Span};
use rand::{Rng, SeedableRng, rngs::StdRng};
use std::{
    sync::atomic::{AtomicI64, Ordering},
    time::Duration,
};
use uuid::Uuid;

/// Where the runtime gets the time from.
#[async_trait]
pub trait Clock: Send + Sync + 'static {
    fn now(&self) -> Time;
    /// Returns once `now()` is at least `time`.
    async fn sleep_until(&self, time: Time);
    /// A steadily rising number of microseconds, for measuring lengths only.
    fn steady_micros(&self) -> u64;
    /// The store said so, some time after this clock's `steady_micros` were `asked_at`. For a clock that goes by it.
    fn heard(&self, _now: Time, _asked_at: u64) {}
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
pub struct SharedClock {
    /// The store's time, less the steady time of this process.
    ahead: AtomicI64,
}

impl SharedClock {
    /// It was `now` a moment ago.
    pub fn new(now: Time) -> SharedClock {
        SharedClock { ahead: AtomicI64::new(now.0 - SystemClock.steady_micros() as i64) }
    }
}

#[async_trait]
impl Clock for SharedClock {
    fn now(&self) -> Time {
        Time(SystemClock.steady_micros() as i64 + self.ahead.load(Ordering::Relaxed))
    }

    #[allow(clippy::disallowed_methods)] // this is a clock
    async fn sleep_until(&self, time: Time) {
        while self.now() < time {
            let left = time.since(self.now()).0.clamp(0, 60_000_000) as u64;
            tokio::time::sleep(Duration::from_micros(left)).await;
        }
    }

    fn steady_micros(&self) -> u64 {
        SystemClock.steady_micros()
    }

    fn heard(&self, now: Time, asked_at: u64) {
        // The answer was made after it was asked for and before now: what fits between is as good as it gets.
        let (most, least) = (now.0 - asked_at as i64, now.0 - SystemClock.steady_micros() as i64);
        let before = self.ahead.load(Ordering::Relaxed);
        self.ahead.store(before.clamp(least, most.max(least)), Ordering::Relaxed);
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
    fn a_shared_clock_goes_by_what_it_hears_and_no_further() {
        const HOUR: i64 = 3_600_000_000;
        let (clock, start) = (SharedClock::new(Time(10 * HOUR)), SystemClock.steady_micros());
        assert!((10 * HOUR..11 * HOUR).contains(&clock.now().0), "whatever this machine's clock says");
        // An answer that took long says little: what it knew fits.
        let before = clock.ahead.load(Ordering::Relaxed);
        clock.heard(Time(10 * HOUR), start);
        assert_eq!(clock.ahead.load(Ordering::Relaxed), before.min(10 * HOUR - start as i64));
        // The store's clock was put forward, or back.
        for hours in [20, 5] {
            clock.heard(Time(hours * HOUR), clock.steady_micros());
            assert!((hours * HOUR..(hours + 1) * HOUR).contains(&clock.now().0));
        }
    }
}
