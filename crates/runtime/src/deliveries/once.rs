//! What a worker does once for a key: the records that say so, written in the commit of the effect, and looked up before a
//! delivery is handed out again.

use crate::{engine::Engine, patience::Patience};
use machine::{TenantId, Time};
use sha2::{Digest, Sha256};
use std::{collections::HashSet, sync::Arc};
use store::{Write, rows::InboxRow};
use worker::Delivery;

/// Whose keys these are, among the idempotency records.
const SCOPE: &str = "worker";

/// A domain key as handlers are given it.
pub(crate) fn domain_key(value: &str, worker: &str) -> String {
    let digest = Sha256::new().chain_update(value).chain_update(":").chain_update(worker).finalize();
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The record of a domain key.
pub(crate) fn of_domain(key: &str) -> String {
    format!("domain:{key}")
}

/// The record of a key that the handler named.
pub(crate) fn of_claim(key: &str, worker: &str) -> String {
    format!("once:{}", domain_key(key, worker))
}

/// Keys as far as a commit knows of them.
#[derive(Clone, Default)]
pub(crate) struct Keys {
    /// Taken before.
    known: HashSet<String>,
    /// Taken by this commit.
    taking: HashSet<String>,
}

impl Keys {
    pub(crate) fn knowing(known: impl IntoIterator<Item = String>) -> Keys {
        Keys { known: known.into_iter().collect(), taking: HashSet::new() }
    }

    /// Takes a key with the commit. `false` if it is taken.
    pub(crate) fn claim(&mut self, key: String, now: Time, writes: &mut Vec<Write>) -> bool {
        if self.known.contains(&key) || !self.taking.insert(key.clone()) {
            return false;
        }
        writes.push(Write::ClaimKey(InboxRow {
            scope: SCOPE.to_owned(),
            key,
            request_hash: vec![],
            answer: vec![],
            created_at: now,
        }));
        true
    }

    /// The commit lost to somebody who took one of its keys: finds out which, and begins anew.
    pub(crate) async fn learn(&mut self, engine: &Engine, tenant: &TenantId) -> Result<(), store::Error> {
        let asked: Vec<String> = self.taking.iter().cloned().collect();
        self.known.extend(engine.store.taken(tenant, SCOPE, &asked).await?);
        self.begin();
        Ok(())
    }

    pub(crate) fn begin(&mut self) {
        self.taking.clear();
    }
}

/// Records of domain keys that were dealt with before, of those that these deliveries have. `None` if the node stops first.
pub(crate) async fn done_before(
    engine: &Arc<Engine>,
    tenant: &TenantId,
    deliveries: &[Delivery],
) -> Option<HashSet<String>> {
    let keys = deliveries.iter().filter_map(|one| one.domain_key.as_deref()).map(of_domain);
    let keys: Vec<String> = keys.collect();
    let mut patience = Patience::new();
    while !keys.is_empty() {
        match engine.store.taken(tenant, SCOPE, &keys).await {
            Ok(taken) => return Some(taken.into_iter().collect()),
            Err(error) => {
                engine.tasks.heed(&error);
                if !patience.wait(engine).await {
                    return None;
                }
            }
        }
    }
    Some(HashSet::new())
}

/// The same for who does not wait.
pub(crate) async fn taken(
    engine: &Engine,
    tenant: &TenantId,
    keys: &[String],
) -> Result<HashSet<String>, store::Error> {
    if keys.is_empty() {
        return Ok(HashSet::new());
    }
    Ok(engine.store.taken(tenant, SCOPE, keys).await?.into_iter().collect())
}
