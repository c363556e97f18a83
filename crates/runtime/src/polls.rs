//! When workers that are somewhere else last asked this node for deliveries, and when they began with what they were given.

use machine::{TenantId, Time};
use parking_lot::Mutex;
use std::collections::HashMap;
use uuid::Uuid;

/// Workers that are kept in mind; beyond it all are forgotten, and known again when they ask again.
const WORKERS_MAX: usize = 10_000;
/// Attempts of which the beginning is kept in mind; beyond it all are forgotten, and their leases say when they began.
const LENT_MAX: usize = 100_000;

#[derive(Default)]
pub(crate) struct Polls {
    last: Mutex<HashMap<(TenantId, String), Time>>,
    /// When an attempt at a delivery began.
    lent: Mutex<HashMap<(Uuid, u32), Time>>,
}

impl Polls {
    pub(crate) fn asked(&self, tenant: &TenantId, worker: &str, now: Time) {
        let mut last = self.last.lock();
        if last.len() >= WORKERS_MAX {
            last.clear();
        }
        last.insert((tenant.clone(), worker.to_owned()), now);
    }

    pub(crate) fn last(&self, tenant: &TenantId, worker: &str) -> Option<Time> {
        self.last.lock().get(&(tenant.clone(), worker.to_owned())).copied()
    }

    pub(crate) fn lent(&self, delivery: Uuid, attempt: u32, now: Time) {
        let mut lent = self.lent.lock();
        if lent.len() >= LENT_MAX {
            lent.clear();
        }
        lent.insert((delivery, attempt), now);
    }

    /// When the attempt that ends now began, if this node has lent it.
    pub(crate) fn ended(&self, delivery: Uuid, attempt: u32) -> Option<Time> {
        self.lent.lock().remove(&(delivery, attempt))
    }

    /// The tenant is gone.
    pub(crate) fn forget(&self, tenant: &TenantId) {
        self.last.lock().retain(|(of, _), _| of != tenant);
    }
}
