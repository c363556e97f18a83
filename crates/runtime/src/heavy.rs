//! Decisions that take long, kept off the threads that everything else runs on.
//!
//! Deciding is plain computing on the thread at hand, and nearly always a matter of microseconds. A tenant whose
//! decisions are seen to take milliseconds has its next ones made one at a time, in turn with other such tenants,
//! while another thread takes over whatever else this one had to do. Once they are short again, it is as before.

use crate::fair::Fair;
use machine::TenantId;
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};
use tokio::runtime::{Handle, RuntimeFlavor};

/// A decision that takes longer is long.
const LONG: Duration = Duration::from_millis(4);
/// This many short ones in a row, and the tenant is like any other.
const PROBATION: u32 = 32;

pub(crate) struct Heavy {
    /// How many tenants are in `tenants`, so that the usual way costs one look.
    count: AtomicUsize,
    /// How many short decisions a tenant still has to show.
    tenants: Mutex<BTreeMap<TenantId, u32>>,
    gate: Fair,
    /// False in simulations: one thread there, and nothing may depend on real time.
    has_threads: bool,
}

impl Heavy {
    pub(crate) fn new() -> Heavy {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let flavor = Handle::try_current().map(|handle| handle.runtime_flavor());
        Heavy {
            count: AtomicUsize::new(0),
            tenants: Mutex::default(),
            gate: Fair::new(cores / 2, usize::MAX),
            has_threads: matches!(flavor, Ok(RuntimeFlavor::MultiThread)),
        }
    }

    /// Makes a decision for a tenant.
    pub(crate) async fn decide<T>(&self, tenant: &TenantId, decide: impl FnOnce() -> T) -> T {
        if !self.has_threads {
            return decide();
        }
        if !self.is_marked(tenant) {
            let (answer, took) = timed(decide);
            if took > LONG {
                self.mark(tenant);
            }
            return answer;
        }
        let _place = self.gate.enter(tenant).await;
        let (answer, took) = tokio::task::block_in_place(|| timed(decide));
        if took > LONG {
            self.mark(tenant)
        } else {
            self.forgive(tenant)
        }
        answer
    }

    fn is_marked(&self, tenant: &TenantId) -> bool {
        self.count.load(Ordering::Relaxed) > 0 && self.tenants.lock().contains_key(tenant)
    }

    fn mark(&self, tenant: &TenantId) {
        if self.tenants.lock().insert(tenant.clone(), PROBATION).is_none() {
            self.count.fetch_add(1, Ordering::Relaxed);
            tracing::debug!(%tenant, "decisions take long; they are made one at a time");
        }
    }

    fn forgive(&self, tenant: &TenantId) {
        let mut tenants = self.tenants.lock();
        let Some(left) = tenants.get_mut(tenant) else { return };
        *left -= 1;
        if *left == 0 {
            tenants.remove(tenant);
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "how long a thread was busy is real time")]
fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let began = Instant::now();
    let answer = work();
    (answer, began.elapsed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    #[allow(clippy::disallowed_methods, reason = "a thread that is really busy")]
    async fn who_is_slow_is_marked_and_forgiven() {
        let (heavy, tenant) = (Heavy::new(), TenantId::new("acme").unwrap());
        heavy.decide(&tenant, || ()).await;
        assert!(!heavy.is_marked(&tenant));
        heavy.decide(&tenant, || std::thread::sleep(2 * LONG)).await;
        assert!(heavy.is_marked(&tenant));
        assert!(!heavy.is_marked(&TenantId::new("other").unwrap()));
        // A busy machine makes some of these long; then it takes a few more.
        for _ in 0..100 * PROBATION {
            heavy.decide(&tenant, || ()).await;
        }
        assert!(!heavy.is_marked(&tenant));
    }
}
