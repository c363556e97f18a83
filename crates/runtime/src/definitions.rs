//! Compiled definitions, kept per version. A version never changes, so an entry never goes stale.

use crate::{
    api::{DefinitionRef, Refusal},
    callees::Callees,
};
use machine::{
    Program, TenantId,
    ir::{self, Lifecycle, Unread},
    language::Problem,
};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};
use store::Store;

/// Programs kept in memory; the oldest make room.
const PROGRAMS_MAX: usize = 1024;

type Key = (TenantId, String, String, String);

/// Compiled definitions by their content: tenants that deployed the same text share one program, and so may the nodes
/// of one process.
#[derive(Clone, Default)]
pub struct Programs(Arc<Mutex<HashMap<Content, Arc<Program>>>>);

/// What is told of instances at least, and the hash of the IR.
type Content = (Lifecycle, [u8; 32]);

impl Programs {
    /// The program of a stored IR that tells at least so much of its instances.
    fn of(&self, ir: &[u8], lifecycle: Lifecycle) -> Result<Arc<Program>, Missing> {
        let key = (lifecycle, Sha256::digest(ir).into());
        if let Some(program) = self.0.lock().get(&key) {
            return Ok(program.clone());
        }
        let mut program = load(ir)?;
        program.lifecycle = program.lifecycle.max(lifecycle);
        let program = Arc::new(program);
        let mut programs = self.0.lock();
        if programs.len() >= PROGRAMS_MAX {
            programs.retain(|_, program| Arc::strong_count(program) > 1);
        }
        if programs.len() < PROGRAMS_MAX {
            programs.insert(key, program.clone());
        }
        Ok(program)
    }
}

pub(crate) struct Definitions {
    store: Arc<dyn Store>,
    cache: Mutex<Cache>,
    shared: Programs,
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
    /// Stored, but no build can execute it.
    Unusable(String),
    /// Stored by a newer build, of which there may be nodes.
    Newer(String),
    Store(store::Error),
}

impl Definitions {
    pub(crate) fn new(store: Arc<dyn Store>, shared: Programs, lifecycle: Lifecycle) -> Definitions {
        Definitions { store, cache: Mutex::default(), shared, lifecycle }
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
        let program = self.shared.of(&row.ir, self.lifecycle)?;
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
            Missing::Newer(detail) => Refusal::Unavailable(detail),
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

    /// A tenant is gone; one that comes under its name has definitions of its own.
    pub(crate) fn forget(&self, tenant: &TenantId) {
        let mut cache = self.cache.lock();
        cache.programs.retain(|(of, _, _, _), _| of != tenant);
        cache.order.retain(|(of, _, _, _)| of != tenant);
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
fn load(stored: &[u8]) -> Result<Program, Missing> {
    let workflow = ir::read(stored).map_err(|unread| match unread {
        Unread::Newer(_) => Missing::Newer(unread.to_string()),
        Unread::Broken(_) => Missing::Unusable(unread.to_string()),
    })?;
    Program::new(workflow).map_err(|error| Missing::Unusable(error.to_string()))
}

/// The word of the warning.
const NO_WORKER: &str = "no-worker";

/// Warnings about workers that the definition calls and this node does not have.
pub(crate) fn unserved(callees: &Callees, workflow: &ir::Workflow) -> Vec<Problem> {
    let mut warnings: Vec<Problem> = Vec::new();
    for step in &workflow.steps {
        let ir::Kind::Call { call: ir::Call::Worker { name, version, .. } } = &step.kind else { continue };
        let Err(message) = callees.worker(name, version.as_deref()) else { continue };
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
