//! Datasets: taking items in, and reading them back in order.

use crate::{api::Refusal, engine::Engine, refusal, rows};
use machine::{Data, TenantId};
use std::{collections::BTreeMap, sync::Arc};
use store::{
    Commit, Outcome, Store, Write,
    datasets::{DatasetRow, ItemsRow},
};
use uuid::Uuid;

/// The largest item, as JSON.
pub const ITEM_BYTES_MAX: usize = 64 * 1024;
/// The most items of one dataset.
pub const ITEMS_MAX: u64 = 10_000_000;
/// Items kept together in one row: about what a batch of children takes at once.
const RUN_ITEMS: usize = 100;
/// The same in bytes.
const RUN_BYTES: usize = 256 * 1024;

/// A dataset on its way in. It is there for others once `finish` has answered.
pub struct Upload {
    engine: Arc<Engine>,
    tenant: TenantId,
    id: Uuid,
    count: u64,
    run: Vec<Data>,
    run_bytes: usize,
}

impl Upload {
    pub(crate) fn new(engine: Arc<Engine>, tenant: &TenantId) -> Upload {
        let id = engine.entropy.id(engine.now());
        Upload { engine, tenant: tenant.clone(), id, count: 0, run: Vec::new(), run_bytes: 0 }
    }

    /// Items taken so far.
    pub fn count(&self) -> u64 {
        self.count + self.run.len() as u64
    }

    pub async fn push(&mut self, item: Data) -> Result<(), Refusal> {
        let bytes = item.to_bytes().len();
        if bytes > ITEM_BYTES_MAX {
            let detail =
                format!("item {} has {bytes} bytes, more than the {ITEM_BYTES_MAX} allowed", self.count());
            return Err(Refusal::Invalid { code: "item-too-large", detail, problems: vec![] });
        }
        if self.count() >= ITEMS_MAX {
            let detail = format!("a dataset holds {ITEMS_MAX} items at most");
            return Err(Refusal::Invalid { code: "dataset-too-large", detail, problems: vec![] });
        }
        if !self.run.is_empty() && self.run_bytes + bytes > RUN_BYTES {
            self.write().await?;
        }
        self.run.push(item);
        self.run_bytes += bytes;
        if self.run.len() >= RUN_ITEMS {
            self.write().await?;
        }
        Ok(())
    }

    /// Answers once all of it is durable.
    pub async fn finish(mut self) -> Result<DatasetRow, Refusal> {
        if !self.run.is_empty() {
            self.write().await?;
        }
        let row = DatasetRow { id: self.id, count: self.count, owner: None, created_at: self.engine.now() };
        self.commit(Write::Dataset(row.clone())).await?;
        Ok(row)
    }

    async fn write(&mut self) -> Result<(), Refusal> {
        let (count, items) = (self.run.len() as u64, rows::to_json(&self.run));
        self.commit(Write::Items(ItemsRow { dataset: self.id, first: self.count, round: 0, count, items }))
            .await?;
        self.count += count;
        self.run.clear();
        self.run_bytes = 0;
        Ok(())
    }

    /// Writing the same again is no harm, so an unknown outcome is simply tried again, a few times.
    async fn commit(&self, write: Write) -> Result<(), Refusal> {
        let mut patience = crate::patience::Patience::new();
        loop {
            let commit = Commit { tenant: self.tenant.clone(), writes: vec![write.clone()] };
            match self.engine.committer.commit(commit).await {
                Ok(Outcome::Committed) => return Ok(()),
                Ok(Outcome::Rejected(detail)) => {
                    return Err(Refusal::Invalid { code: "refused-by-store", detail, problems: vec![] });
                }
                Err(store::Error::Unknown(_)) if patience.wait(&self.engine).await => {}
                Ok(other) => {
                    let detail = format!("{other:?}");
                    return Err(Refusal::Conflict { code: "conflict", detail, existing: None });
                }
                Err(error) => return Err(refusal::of_store(error)),
            }
        }
    }
}

/// The items `from..to` that are there, by position; where there are several, those of the latest round.
pub(crate) async fn items(
    store: &dyn Store,
    tenant: &TenantId,
    dataset: Uuid,
    from: u64,
    to: u64,
) -> Result<Vec<(u64, Data)>, store::Error> {
    let mut latest = BTreeMap::<u64, (u32, Data)>::new();
    for row in store.dataset_items(tenant, dataset, from, to).await? {
        let items: Vec<Data> = serde_json::from_slice(&row.items)
            .map_err(|error| store::Error::Unavailable(error.to_string()))?;
        for (index, item) in (row.first..).zip(items).filter(|(index, _)| (from..to).contains(index)) {
            match latest.get(&index) {
                Some((round, _)) if *round > row.round => {}
                _ => drop(latest.insert(index, (row.round, item))),
            }
        }
    }
    Ok(latest.into_iter().map(|(index, (_, item))| (index, item)).collect())
}
