//! What this node has in memory of the queue rows it owns: calls queued or being handled, signals and timers on
//! their way through a turn.
//!
//! A row's [`Hold`] travels with the work and ends with it. So the node can tell a call in its queue that it was
//! dropped, can tell whether an instance will be back in a moment, and finds rows it owns but has lost sight of.

use machine::TenantId;
use parking_lot::Mutex;
use std::{collections::HashMap, sync::Arc};
use store::rows::QueueKey;
use tokio_util::sync::CancellationToken;

type Key = (TenantId, QueueKey);

#[derive(Clone, Default)]
pub(crate) struct Held {
    rows: Arc<Mutex<HashMap<Key, Entry>>>,
}

#[derive(Default)]
struct Entry {
    /// A row may be in memory twice: found again while its first delivery is still under way.
    count: usize,
    dropped: CancellationToken,
}

/// One row in memory, until dropped.
pub(crate) struct Hold {
    held: Held,
    key: Key,
    dropped: CancellationToken,
}

impl Held {
    pub(crate) fn hold(&self, tenant: &TenantId, row: QueueKey) -> Hold {
        let key = (tenant.clone(), row);
        let mut rows = self.rows.lock();
        let entry = rows.entry(key.clone()).or_default();
        entry.count += 1;
        Hold { held: self.clone(), key, dropped: entry.dropped.clone() }
    }

    pub(crate) fn has(&self, tenant: &TenantId, row: QueueKey) -> bool {
        self.rows.lock().contains_key(&(tenant.clone(), row))
    }

    /// The row is gone from the store: whoever holds it need not begin with it, and may stop.
    pub(crate) fn drop_row(&self, tenant: &TenantId, row: QueueKey) {
        if let Some(entry) = self.rows.lock().get(&(tenant.clone(), row)) {
            entry.dropped.cancel();
        }
    }
}

impl Hold {
    pub(crate) fn is_dropped(&self) -> bool {
        self.dropped.is_cancelled()
    }

    /// Comes back once the row is gone.
    pub(crate) async fn dropped(&self) {
        self.dropped.cancelled().await;
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut rows = self.held.rows.lock();
        if let Some(entry) = rows.get_mut(&self.key) {
            entry.count -= 1;
            if entry.count == 0 {
                rows.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_held_until_its_last_hold_ends() {
        let (held, tenant) = (Held::default(), TenantId::new("acme").expect("valid"));
        let row = QueueKey::Call { instance: uuid::Uuid::from_u128(1), token: 7 };
        let (one, two) = (held.hold(&tenant, row), held.hold(&tenant, row));
        held.drop_row(&tenant, row);
        assert!(one.is_dropped() && two.is_dropped(), "both know that the row is gone");
        drop(one);
        assert!(held.has(&tenant, row));
        drop(two);
        assert!(!held.has(&tenant, row));
        assert!(!held.hold(&tenant, row).is_dropped(), "a later row of the name begins afresh");
    }
}
