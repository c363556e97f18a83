//! Real time: faults last, clients wait, and what happened when is compared with what was asked for.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Microseconds since 1970.
#[expect(clippy::disallowed_methods, reason = "other processes live in real time")]
pub(crate) fn now_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

#[expect(clippy::disallowed_methods, reason = "other processes live in real time")]
pub(crate) async fn sleep(length: Duration) {
    tokio::time::sleep(length).await;
}

pub(crate) async fn sleep_ms(length: u64) {
    sleep(Duration::from_millis(length)).await;
}
