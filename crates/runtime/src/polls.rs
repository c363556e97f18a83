//! When workers that are somewhere else last asked this node for deliveries.

use machine::{TenantId, Time};
use parking_lot::Mutex;
use std::collections::HashMap;

/// Workers that are kept in mind; beyond it all are forgotten, and known again when they ask again.
const WORKERS_MAX: usize = 10_000;

#[derive(Default)]
pub(crate) struct Polls {
    last: Mutex<HashMap<(TenantId, String), Time>>,
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

    /// The tenant is gone.
    pub(crate) fn forget(&self, tenant: &TenantId) {
        self.last.lock().retain(|(of, _), _| of != tenant);
    }
}
