//! Gives back rows that this node owns but does not have in memory: a claim landed and its answer got lost, or work
//! ended without a word. No claim would ever return them while the node lives.

use crate::{
    dead_letters::commit_patiently,
    engine::Engine,
    lanes::{Item, Targeted},
};
use machine::TenantId;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use store::{Write, rows::QueueKey};

/// Rows looked at in one go.
const OWNED_MAX: usize = 100_000;
/// Rows one commit gives back.
const RELEASE_MAX: usize = 1_000;

/// What the check before found owned and not in memory. A row counts as lost when two checks in a row find it so:
/// one that is on its way from a commit into memory is not touched.
#[derive(Default)]
pub(crate) struct Suspects(BTreeSet<(TenantId, QueueKey)>);

impl Suspects {
    pub(crate) async fn check(&mut self, engine: &Arc<Engine>) -> Result<(), store::Error> {
        let owned = engine.store.owned(engine.node, OWNED_MAX).await?;
        let unknown = owned
            .into_iter()
            .filter(|one| !engine.held.has(&one.tenant, one.row))
            .map(|one| (one.tenant, one.row));
        let mut lost = BTreeMap::<TenantId, Vec<QueueKey>>::new();
        let mut next = BTreeSet::new();
        for (tenant, row) in unknown {
            match self.0.contains(&(tenant.clone(), row)) {
                true => lost.entry(tenant).or_default().push(row),
                false => drop(next.insert((tenant, row))),
            }
        }
        self.0 = next;
        for (tenant, rows) in lost {
            tracing::warn!(%tenant, rows = rows.len(), "gives back rows it had lost sight of");
            release(engine, &tenant, &rows).await;
            engine.wake.at(engine.now());
        }
        Ok(())
    }
}

/// Makes backlog of what this node had taken on and may not do.
pub(crate) fn give_back<T: Targeted + Send + 'static>(engine: &Arc<Engine>, items: Vec<Item<T>>) {
    if items.is_empty() {
        return;
    }
    let engine_of_items = engine.clone();
    engine.tasks.spawn(async move {
        let mut rows = BTreeMap::<TenantId, Vec<QueueKey>>::new();
        for item in &items {
            rows.entry(item.tenant.clone()).or_default().push(item.row.key());
        }
        for (tenant, rows) in rows {
            release(&engine_of_items, &tenant, &rows).await;
        }
        // Held until now: nobody takes the rows for lost meanwhile.
        drop(items);
    });
}

/// Makes rows of this node backlog.
pub(crate) async fn release(engine: &Arc<Engine>, tenant: &TenantId, rows: &[QueueKey]) {
    for part in rows.chunks(RELEASE_MAX) {
        let writes = part.iter().map(|row| Write::Release { row: *row, owner: engine.node }).collect();
        commit_patiently(engine, tenant, writes).await;
    }
}
