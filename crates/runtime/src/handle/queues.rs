//! How much is in queues: what workers are to be given, and what is to be called.

use super::{Answer, Handle};
use crate::{
    api::{Queue, QueueDetail, Refusal},
    buses, refusal,
};
use machine::{TenantId, Time};
use std::collections::BTreeMap;
use store::rows::{QueueKind, QueueRow};

impl Handle {
    /// The tenant's queues that hold something, and those of its workers, by name.
    pub async fn queues(&self, tenant: &TenantId) -> Answer<Vec<Queue>> {
        let rows = self.engine.store.queues(Some(tenant)).await.map_err(refusal::of_store)?;
        let declared = self.declared_workers(tenant).await?.into_iter().map(|(row, _)| row.name);
        let mut all = by_name(rows, declared.chain(self.engine.subscribers.names()));
        // Buses are the operator's.
        all.retain(|queue| !buses::is_bus(&queue.name));
        Ok(all)
    }

    /// One queue of the tenant; `NotFound` if no worker has the name and nothing is in it.
    pub async fn queue(&self, tenant: &TenantId, name: &str) -> Answer<QueueDetail> {
        let queue = self.queues(tenant).await?.into_iter().find(|queue| queue.name == name);
        let callee = || self.engine.callees.worker(name, None).is_ok().then(|| Queue::empty(name));
        let queue = queue.or_else(callee).ok_or_else(|| Refusal::NotFound("queue".to_owned()))?;
        let now = self.engine.now();
        let unclaimed = self.engine.store.unclaimed(tenant, name, now).await.map_err(refusal::of_store)?;
        Ok(QueueDetail {
            queue,
            ready: unclaimed.ready,
            later: unclaimed.later,
            oldest_micros: age(unclaimed.oldest, now),
        })
    }

    /// The queues of all tenants that hold something, by name.
    pub async fn all_queues(&self) -> Answer<Vec<Queue>> {
        let rows = self.engine.store.queues(None).await.map_err(refusal::of_store)?;
        Ok(by_name(rows, self.engine.subscribers.names().into_iter()))
    }

    /// How long what is due for each of these workers has been so, in microseconds, over all tenants.
    pub async fn oldest_due(&self, workers: &[String]) -> Answer<BTreeMap<String, u64>> {
        if workers.is_empty() {
            return Ok(BTreeMap::new());
        }
        let oldest = self.engine.store.oldest(workers).await.map_err(refusal::of_store)?;
        let now = self.engine.now();
        Ok(oldest.into_iter().map(|(name, oldest)| (name, age(Some(oldest), now))).collect())
    }
}

fn age(since: Option<Time>, now: Time) -> u64 {
    since.map_or(0, |since| now.since(since).0.max(0).unsigned_abs())
}

fn by_name(rows: Vec<QueueRow>, known: impl Iterator<Item = String>) -> Vec<Queue> {
    let mut all: BTreeMap<String, Queue> = known.map(|name| (name.clone(), Queue::empty(&name))).collect();
    for row in rows {
        let queue = all.entry(row.name.clone()).or_insert_with(|| Queue::empty(&row.name));
        match row.kind {
            QueueKind::Call => queue.calls = row.depth,
            QueueKind::Delivery => queue.deliveries = row.depth,
        }
    }
    all.into_values().collect()
}
