//! The one way to ask the runtime for something. Cheap to clone.

use crate::api::*;
use machine::{TenantId, language::Format};
use std::{sync::Arc, time::Duration};
use store::Store;
use tokio::sync::broadcast;
use uuid::Uuid;

/// Asks a running node. Every mutating method answers only after its commit is durable.
#[derive(Clone)]
pub struct Handle {
    store: Arc<dyn Store>,
}

type Answer<T> = Result<T, Refusal>;

fn later<T>() -> Answer<T> {
    Err(Refusal::Unavailable("being built".into()))
}

impl Handle {
    /// The store, for reading views.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Checks a document and, unless `dry_run`, makes it a definition version. Deploying the same bytes again is
    /// answered with `created: false`; other bytes under the same version are a conflict `version-exists`.
    pub async fn deploy(
        &self,
        _tenant: &TenantId,
        _source: &[u8],
        _format: Format,
        _dry_run: bool,
    ) -> Answer<Deployed> {
        later()
    }

    pub async fn start(&self, _tenant: &TenantId, _start: Start) -> Answer<Started> {
        later()
    }

    /// Starts many; each is answered by itself, in order.
    pub async fn start_many(&self, _tenant: &TenantId, _starts: Vec<Start>) -> Vec<Answer<Started>> {
        vec![]
    }

    pub async fn signal(&self, _tenant: &TenantId, _instance: Uuid, _signal: Signal) -> Answer<Uuid> {
        later()
    }

    /// Answers the instance's status word afterwards.
    pub async fn order(
        &self,
        _tenant: &TenantId,
        _instance: Uuid,
        _order: Order,
        _actor: &str,
    ) -> Answer<String> {
        later()
    }

    /// Waits up to `wait` for the end.
    pub async fn result(
        &self,
        _tenant: &TenantId,
        _instance: Uuid,
        _wait: Duration,
    ) -> Answer<InstanceResult> {
        later()
    }

    /// Answers the task afterwards. `if_version` is the version the caller saw, if it cares.
    pub async fn act_on_task(
        &self,
        _tenant: &TenantId,
        _task: Uuid,
        _act: TaskAct,
        _actor: &str,
        _if_version: Option<i64>,
    ) -> Answer<store::rows::TaskRow> {
        later()
    }

    /// Puts the dead letter back where it came from; a second replay is `NotFound`.
    pub async fn replay_dead_letter(&self, _tenant: &TenantId, _id: Uuid, _actor: &str) -> Answer<()> {
        later()
    }

    pub async fn discard_dead_letter(&self, _tenant: &TenantId, _id: Uuid, _actor: &str) -> Answer<()> {
        later()
    }

    pub async fn create_tenant(&self, _tenant: &TenantId, _title: &str) -> Answer<()> {
        later()
    }

    /// Makes a key; only its hash is stored.
    pub async fn create_key(&self, _tenant: &TenantId, _name: &str, _roles: &[String]) -> Answer<NewKey> {
        later()
    }

    pub async fn revoke_key(&self, _tenant: &TenantId, _key_id: &str) -> Answer<()> {
        later()
    }

    /// Changes from now on, over all tenants; a slow reader is told how many it missed.
    pub fn changes(&self) -> broadcast::Receiver<Change> {
        broadcast::channel(1).1
    }

    /// False once the node is stopping, fenced, or its store cannot be written.
    pub fn is_ready(&self) -> bool {
        false
    }

    /// Counters since start as (name, labels, value), for `/metrics`.
    pub fn metrics(&self) -> Vec<Metric> {
        vec![]
    }
}

/// One counter or gauge.
#[derive(Clone, Debug)]
pub struct Metric {
    pub name: &'static str,
    pub help: &'static str,
    /// `counter` or `gauge`.
    pub kind: &'static str,
    pub labels: Vec<(&'static str, String)>,
    pub value: f64,
}
