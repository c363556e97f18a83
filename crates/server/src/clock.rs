//! The wall clock: the only place of this crate that reads it. Used for the expiry of keys and nothing else.

use machine::Time;

/// Reads the time; tests give their own.
pub type Clock = std::sync::Arc<dyn Fn() -> Time + Send + Sync>;

/// The machine's clock.
#[allow(clippy::disallowed_methods, reason = "this is the clock that the rest of the crate is handed")]
pub fn system() -> Clock {
    std::sync::Arc::new(|| {
        let since_epoch =
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Time(i64::try_from(since_epoch.as_micros()).unwrap_or(i64::MAX))
    })
}
