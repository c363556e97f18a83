//! Tells others that something changed, after its commit is durable. Nothing here is needed for correctness.

use crate::api::{Change, InstanceResult};
use machine::{TenantId, Time};
use parking_lot::Mutex;
use std::{
    collections::HashMap,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};
use store::hint::Ended;
use tokio::sync::{broadcast, watch};
use uuid::Uuid;

/// Changes a slow reader may fall behind before it is told to start over.
const CHANGES_MAX: usize = 4096;

type Waiters = Mutex<HashMap<(TenantId, Uuid), watch::Sender<Told>>>;

/// What somebody who waits for an end is told.
#[derive(Clone, Debug, Default)]
enum Told {
    #[default]
    Nothing,
    /// Another node may have ended it.
    Look,
    Ended(InstanceResult),
}

pub(crate) struct Hub {
    /// Made for the first reader: its room is taken at once.
    changes: OnceLock<broadcast::Sender<Change>>,
    sequence: AtomicU64,
    waiters: Arc<Waiters>,
}

impl Hub {
    pub(crate) fn new() -> Hub {
        Hub { changes: OnceLock::new(), sequence: AtomicU64::new(0), waiters: Arc::default() }
    }

    pub(crate) fn subscribe(&self) -> broadcast::Receiver<Change> {
        self.changes.get_or_init(|| broadcast::channel(CHANGES_MAX).0).subscribe()
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
        let Some(changes) = self.changes.get().filter(|changes| changes.receiver_count() > 0) else { return };
        let sequence = self.sequence.fetch_add(1, Ordering::Relaxed) + 1;
        let tenant = tenant.clone();
        let _ = changes.send(Change { sequence, tenant, kind, id, status: status.to_owned(), version, at });
    }

    /// Tells of the instance's end from now on. Register first, then look, then wait.
    pub(crate) fn end_of(&self, tenant: &TenantId, instance: Uuid) -> End {
        let key = (tenant.clone(), instance);
        let mut waiters = self.waiters.lock();
        let sender = waiters.entry(key.clone()).or_insert_with(|| watch::channel(Told::Nothing).0);
        End { told: Some(sender.subscribe()), waiters: self.waiters.clone(), key }
    }

    /// Instances whose end somebody waits for.
    pub(crate) fn waited_for(&self) -> usize {
        self.waiters.lock().len()
    }

    pub(crate) fn ended(&self, tenant: &TenantId, instance: Uuid, result: impl FnOnce() -> InstanceResult) {
        let mut waiters = self.waiters.lock();
        if waiters.is_empty() {
            return;
        }
        if let Some(sender) = waiters.remove(&(tenant.clone(), instance)) {
            sender.send_replace(Told::Ended(result()));
        }
    }

    /// Another node says so: whoever waits for one of these looks for himself, unless `is_spared`.
    pub(crate) fn may_have_ended(&self, ended: &Ended, is_spared: impl Fn(&(TenantId, Uuid)) -> bool) {
        for (key, sender) in self.waiters.lock().iter() {
            if ended.may_be(key.1) && !is_spared(key) {
                sender.send_replace(Told::Look);
            }
        }
    }
}

/// Waits for an instance's end; dropped, it leaves nothing behind.
pub(crate) struct End {
    told: Option<watch::Receiver<Told>>,
    waiters: Arc<Waiters>,
    key: (TenantId, Uuid),
}

impl End {
    /// False once nobody can tell any more.
    pub(crate) fn is_open(&self) -> bool {
        self.told.as_ref().is_some_and(|told| told.has_changed().is_ok())
    }

    /// How the instance ended, once it has; `None` if it may have, and only the store knows. Then this may be asked again.
    pub(crate) async fn wait(&mut self) -> Option<InstanceResult> {
        let told = self.told.as_mut()?;
        // What was told since the last wait counts as well: it may have come after the look and before this.
        let mut is_news = told.has_changed().unwrap_or(true);
        loop {
            match &*told.borrow_and_update() {
                Told::Ended(result) => return Some(result.clone()),
                Told::Look if is_news => return None,
                Told::Look | Told::Nothing => {}
            }
            told.changed().await.ok()?;
            is_news = true;
        }
    }
}

impl Drop for End {
    fn drop(&mut self) {
        // First the receiver: the entry goes with the last one.
        self.told = None;
        let mut waiters = self.waiters.lock();
        if waiters.get(&self.key).is_some_and(|sender| sender.receiver_count() == 0) {
            waiters.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn whoever_waits_is_told_and_nothing_is_left_behind() {
        let (hub, tenant, id) = (Hub::new(), TenantId::new("acme").expect("valid"), Uuid::from_u128(1));
        let (mut one, two) = (hub.end_of(&tenant, id), hub.end_of(&tenant, id));
        drop(two);
        assert_eq!(hub.waiters.lock().len(), 1, "one still waits");
        hub.ended(&tenant, id, || InstanceResult::Cancelled);
        assert_eq!(one.wait().await, Some(InstanceResult::Cancelled));
        drop(one);
        drop(hub.end_of(&tenant, id));
        assert!(hub.waiters.lock().is_empty());
    }

    #[tokio::test]
    async fn whoever_waits_for_another_nodes_instance_is_told_to_look() {
        let (hub, tenant, id) = (Hub::new(), TenantId::new("acme").expect("valid"), Uuid::from_u128(1));
        let mut end = hub.end_of(&tenant, id);
        hub.may_have_ended(&Ended::Many, |_| false);
        assert_eq!(end.wait().await, None);
        hub.may_have_ended(&Ended::These([Uuid::from_u128(2)].into()), |_| false);
        hub.ended(&tenant, id, || InstanceResult::Cancelled);
        assert_eq!(end.wait().await, Some(InstanceResult::Cancelled));
    }
}
