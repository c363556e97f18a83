//! Gives back rows that this node owns but does not have in memory: a claim landed and its answer got lost, or work
//! ended without a word. No claim would ever return them while the node lives.

use crate::{dead_letters::commit_patiently, engine::Engine};
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

/// Makes rows of this node backlog.
pub(crate) async fn release(engine: &Arc<Engine>, tenant: &TenantId, rows: &[QueueKey]) {
    for part in rows.chunks(RELEASE_MAX) {
        let writes = part.iter().map(|row| Write::Release { row: *row, owner: engine.node }).collect();
        commit_patiently(engine, tenant, writes).await;
    }
}
