//! Compiled definitions, kept per version. A version never changes, so an entry never goes stale.

use crate::{
    api::{DefinitionRef, Refusal},
    lanes::CallQueue,
};
use machine::{
    Program, TenantId,
    ir::{self, Lifecycle},
    language::Problem,
};
use parking_lot::Mutex;
use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};
use store::Store;

/// Programs kept in memory; the oldest make room.
const PROGRAMS_MAX: usize = 1024;

type Key = (TenantId, String, String, String);

pub(crate) struct Definitions {
    store: Arc<dyn Store>,
    cache: Mutex<Cache>,
    /// What the operator wants told of every instance.
    lifecycle: Lifecycle,
}

#[derive(Default)]
struct Cache {
    programs: HashMap<Key, Arc<Program>>,
    /// Oldest first.
    order: VecDeque<Key>,
}

/// Why a program cannot be had.
pub(crate) enum Missing {
    /// Not deployed.
    Unknown,
    /// Stored, but this build cannot execute it.
    Unusable(String),
    Store(store::Error),
}

impl Definitions {
    pub(crate) fn new(store: Arc<dyn Store>, lifecycle: Lifecycle) -> Definitions {
        Definitions { store, cache: Mutex::default(), lifecycle }
    }

    /// The program of an exact version.
    pub(crate) async fn exact(
        &self,
        tenant: &TenantId,
        namespace: &str,
        name: &str,
        version: &str,
    ) -> Result<Arc<Program>, Missing> {
        let key = (tenant.clone(), namespace.to_owned(), name.to_owned(), version.to_owned());
        if let Some(program) = self.cache.lock().programs.get(&key) {
            return Ok(program.clone());
        }
        let row =
            self.store.definition(tenant, namespace, name, Some(version)).await.map_err(Missing::Store)?;
        let row = row.ok_or(Missing::Unknown)?;
        let mut program = load(&row.ir).map_err(Missing::Unusable)?;
        program.lifecycle = program.lifecycle.max(self.lifecycle);
        let program = Arc::new(program);
        self.remember(key, program.clone());
        Ok(program)
    }

    /// The program a start names; the newest version if it names none.
    pub(crate) async fn resolve(
        &self,
        tenant: &TenantId,
        wanted: &DefinitionRef,
    ) -> Result<Arc<Program>, Refusal> {
        let found = match &wanted.version {
            Some(version) => self.exact(tenant, &wanted.namespace, &wanted.name, version).await,
            None => self.newest(tenant, wanted).await,
        };
        found.map_err(|missing| match missing {
            Missing::Unknown => {
                let version = wanted.version.as_deref().map(|v| format!(" version {v}")).unwrap_or_default();
                Refusal::NotFound(format!("definition {}/{}{version}", wanted.namespace, wanted.name))
            }
            Missing::Unusable(detail) => {
                Refusal::Conflict { code: "definition-unusable", detail, existing: None }
            }
            Missing::Store(error) => crate::refusal::of_store(error),
        })
    }

    pub(crate) async fn newest(
        &self,
        tenant: &TenantId,
        wanted: &DefinitionRef,
    ) -> Result<Arc<Program>, Missing> {
        let row = self.store.definition(tenant, &wanted.namespace, &wanted.name, None).await;
        let row = row.map_err(Missing::Store)?.ok_or(Missing::Unknown)?;
        self.exact(tenant, &row.namespace, &row.name, &row.version).await
    }

    fn remember(&self, key: Key, program: Arc<Program>) {
        let mut cache = self.cache.lock();
        let Cache { programs, order } = &mut *cache;
        if programs.insert(key.clone(), program).is_none() {
            order.push_back(key);
        }
        while programs.len() > PROGRAMS_MAX {
            let Some(oldest) = order.pop_front() else { break };
            programs.remove(&oldest);
        }
    }
}

/// Reads a stored IR and compiles its expressions.
fn load(ir: &[u8]) -> Result<Program, String> {
    let workflow: ir::Workflow = serde_json::from_slice(ir).map_err(|error| error.to_string())?;
    if workflow.ir_version > ir::IR_VERSION {
        return Err(format!(
            "the definition was compiled by a newer build (IR {}, this build reads {})",
            workflow.ir_version,
            ir::IR_VERSION
        ));
    }
    Program::new(workflow).map_err(|error| error.to_string())
}

/// The word of the warning.
const NO_WORKER: &str = "no-worker";

/// Warnings about workers that the definition calls and this node does not have.
pub(crate) fn unserved(calls: &CallQueue, workflow: &ir::Workflow) -> Vec<Problem> {
    let mut warnings: Vec<Problem> = Vec::new();
    for step in &workflow.steps {
        let ir::Kind::Call { call: ir::Call::Worker { name, .. } } = &step.kind else { continue };
        if calls.worker(name).is_some() {
            continue;
        }
        let message = format!("no worker named `{name}` is registered on this node");
        if warnings.iter().any(|warning| warning.message == message) {
            continue;
        }
        warnings.push(Problem {
            line: 1,
            column: 1,
            pointer: step.reference.clone(),
            code: NO_WORKER,
            message,
            hint: Some("calls wait until a node with that worker is there".to_owned()),
        });
    }
    warnings
}
