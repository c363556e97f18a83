//! Decisions that take long, kept off the threads that everything else runs on.
//!
//! Deciding is plain computing on the thread at hand, and nearly always a matter of microseconds. A tenant whose
//! expressions are seen to take milliseconds has its next decisions made one at a time, in turn with other such
//! tenants, while another thread takes over whatever else this one had to do. Once they are short again, it is as
//! before. What an expression takes is counted and not timed: a thread that had to wait for its turn was not slow.

use crate::fair::Fair;
use machine::{TenantId, expr};
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicUsize, Ordering},
};
use tokio::runtime::{Handle, RuntimeFlavor};

/// A decision whose expressions spend more is long: from here on it is milliseconds.
const LONG: u64 = 30_000;
/// This many short ones in a row, and the tenant is like any other.
const PROBATION: u32 = 32;

pub(crate) struct Heavy {
    /// How many tenants are in `tenants`, so that the usual way costs one look.
    count: AtomicUsize,
    /// How many short decisions a tenant still has to show.
    tenants: Mutex<BTreeMap<TenantId, u32>>,
    gate: Fair,
    /// False in simulations: there is one thread, and nobody to hold up.
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
            let (answer, spent) = counted(decide);
            if spent > LONG {
                self.mark(tenant);
            }
            return answer;
        }
        let _place = self.gate.enter(tenant).await;
        let (answer, spent) = tokio::task::block_in_place(|| counted(decide));
        if spent > LONG {
            self.mark(tenant)
        } else {
            self.forgive(tenant)
        }
        answer
    }

    /// Does what is known to take long.
    pub(crate) async fn alone<T>(&self, tenant: &TenantId, work: impl FnOnce() -> T) -> T {
        if !self.has_threads {
            return work();
        }
        let _place = self.gate.enter(tenant).await;
        tokio::task::block_in_place(work)
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

/// Decides, and says what its expressions spent.
fn counted<T>(decide: impl FnOnce() -> T) -> (T, u64) {
    expr::take_spent();
    let answer = decide();
    (answer, expr::take_spent())
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::{Data, expr::Compiled};

    fn evaluate(source: &str) {
        let compiled = Compiled::new(source, &[]).unwrap();
        drop(compiled.eval(&Data::NULL, &expr::Args::default()));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn who_computes_long_is_marked_and_forgiven() {
        let (heavy, tenant) = (Heavy::new(), TenantId::new("acme").unwrap());
        heavy.decide(&tenant, || evaluate("1 + 1")).await;
        assert!(!heavy.is_marked(&tenant));
        heavy
            .decide(&tenant, || evaluate("[range(100)] | [.[] as $a | .[] as $b | .[] as $c | 1] | add"))
            .await;
        assert!(heavy.is_marked(&tenant));
        assert!(!heavy.is_marked(&TenantId::new("other").unwrap()));
        for _ in 0..PROBATION {
            assert!(heavy.is_marked(&tenant));
            heavy.decide(&tenant, || evaluate("1 + 1")).await;
        }
        assert!(!heavy.is_marked(&tenant));
    }
}
