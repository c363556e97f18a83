//! Tells others that something changed, after its commit is durable. Nothing here is needed for correctness.

use crate::api::{Change, InstanceResult};
use machine::{TenantId, Time};
use parking_lot::Mutex;
use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};
use tokio::sync::{broadcast, watch};
use uuid::Uuid;

/// Changes a slow reader may fall behind before it is told to start over.
const CHANGES_MAX: usize = 4096;

type EndSender = Arc<watch::Sender<Option<InstanceResult>>>;

pub(crate) struct Hub {
    changes: broadcast::Sender<Change>,
    sequence: AtomicU64,
    waiters: Mutex<HashMap<(TenantId, Uuid), EndSender>>,
}

impl Hub {
    pub(crate) fn new() -> Hub {
        Hub {
            changes: broadcast::channel(CHANGES_MAX).0,
            sequence: AtomicU64::new(0),
            waiters: Mutex::new(HashMap::new()),
        }
    }

    pub(crate) fn subscribe(&self) -> broadcast::Receiver<Change> {
        self.changes.subscribe()
    }

    pub(crate) fn changed(
        &self,
        tenant: &TenantId,
        kind: &'static str,
        id: Uuid,
        status: &str,
        version: i64,
        at: Time,
    ) {
        if self.changes.receiver_count() == 0 {
            return;
        }
        let sequence = self.sequence.fetch_add(1, Ordering::Relaxed) + 1;
        let tenant = tenant.clone();
        let _ =
            self.changes.send(Change { sequence, tenant, kind, id, status: status.to_owned(), version, at });
    }

    /// Tells of the instance's end from now on. Register first, then look, then wait.
    pub(crate) fn end_of(
        &self,
        tenant: &TenantId,
        instance: Uuid,
    ) -> watch::Receiver<Option<InstanceResult>> {
        let mut waiters = self.waiters.lock();
        let sender =
            waiters.entry((tenant.clone(), instance)).or_insert_with(|| Arc::new(watch::channel(None).0));
        sender.subscribe()
    }

    pub(crate) fn ended(&self, tenant: &TenantId, instance: Uuid, result: impl FnOnce() -> InstanceResult) {
        let mut waiters = self.waiters.lock();
        if waiters.is_empty() {
            return;
        }
        if let Some(sender) = waiters.remove(&(tenant.clone(), instance)) {
            sender.send_replace(Some(result()));
        }
    }

    /// Forgets an instance nobody waits for any more.
    pub(crate) fn forget(&self, tenant: &TenantId, instance: Uuid) {
        let mut waiters = self.waiters.lock();
        let key = (tenant.clone(), instance);
        if waiters.get(&key).is_some_and(|sender| sender.receiver_count() == 0) {
            waiters.remove(&key);
        }
    }
}
