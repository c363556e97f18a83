//! Who wants events: the workers of this node, and those that tenants have declared for themselves.
//!
//! The store knows the declared ones; a node keeps them in mind and reads them again when it is told that one changed,
//! and now and then.

use crate::{api::Declared, engine::Engine};
use machine::{Data, TenantId, correlation};
use parking_lot::RwLock;
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};
use worker::Declaration;

/// A worker as publishing sees it.
#[derive(Debug)]
pub(crate) struct Subscriber {
    pub(crate) name: String,
    types: Vec<String>,
    pub(crate) batch_max: usize,
    /// `.data.order.id`
    order_by: Option<String>,
    /// This node has it.
    pub(crate) is_here: bool,
    /// What its tenant says of it, if it is somewhere else.
    declared: Option<Declared>,
}

impl Subscriber {
    fn wants(&self, event_type: &str) -> bool {
        self.types.iter().any(|wanted| match wanted.strip_suffix('*') {
            Some(beginning) => event_type.starts_with(beginning),
            None => wanted == event_type,
        })
    }

    /// The key that the event comes in order by, if it has one.
    pub(crate) fn order_key(&self, event: &Data) -> Option<String> {
        correlation::look_up(self.order_by.as_deref()?, event)
    }
}

/// Where the index of waits would look for it: a path begins with a dot.
fn path(order_by: &str) -> String {
    format!(".{}", order_by.trim_start_matches('.'))
}

pub(crate) struct Subscribers {
    /// Of every tenant.
    here: Vec<Arc<Subscriber>>,
    workers: BTreeMap<String, Declaration>,
    declared: RwLock<HashMap<TenantId, Vec<Arc<Subscriber>>>>,
}

impl Subscribers {
    pub(crate) fn new(workers: &[Declaration]) -> Subscribers {
        let mut by_name = BTreeMap::new();
        for worker in workers.iter().filter(|worker| worker.on.is_some()) {
            by_name.insert(worker.name.clone(), worker.clone());
        }
        let here = by_name.values().filter_map(|worker: &Declaration| {
            let on = worker.on.as_ref()?;
            Some(Arc::new(Subscriber {
                name: worker.name.clone(),
                types: on.types.clone(),
                batch_max: on.batch_max,
                order_by: on.order_by.as_deref().map(path),
                is_here: true,
                declared: None,
            }))
        });
        Subscribers { here: here.collect(), workers: by_name, declared: RwLock::default() }
    }

    /// The workers of this node that handle events: those that are given few at once, and those that are given many.
    pub(crate) fn names(&self, many: usize) -> (Vec<String>, Vec<String>) {
        let (few, many): (Vec<_>, Vec<_>) = self.here.iter().partition(|one| one.batch_max < many);
        let names = |these: Vec<&Arc<Subscriber>>| these.into_iter().map(|one| one.name.clone()).collect();
        (names(few), names(many))
    }

    pub(crate) fn worker(&self, name: &str) -> Option<&Declaration> {
        self.workers.get(name)
    }

    /// The most events that any worker of this node is given at once.
    pub(crate) fn batch_max(&self) -> usize {
        self.here.iter().map(|one| one.batch_max).max().unwrap_or(1).max(1)
    }

    /// How many calls of a worker's handler may be made at once.
    pub(crate) fn caps(&self) -> BTreeMap<String, usize> {
        self.workers.iter().map(|(name, worker)| (name.clone(), worker.concurrency_max)).collect()
    }

    /// What a tenant says of a worker of its own.
    pub(crate) fn declared(&self, tenant: &TenantId, name: &str) -> Option<Declared> {
        let declared = self.declared.read();
        declared.get(tenant)?.iter().find(|one| one.name == name)?.declared.clone()
    }

    /// The key that the event comes in order by to a worker.
    pub(crate) fn order_key(&self, tenant: &TenantId, worker: &str, event: &Data) -> Option<String> {
        let declared = self.declared.read();
        let declared = declared.get(tenant).map(Vec::as_slice).unwrap_or_default();
        self.here.iter().chain(declared).find(|one| one.name == worker)?.order_key(event)
    }

    /// Everybody who wants events of the type.
    pub(crate) fn wanting(&self, tenant: &TenantId, event_type: &str) -> Vec<Arc<Subscriber>> {
        let declared = self.declared.read();
        let declared = declared.get(tenant).map(Vec::as_slice).unwrap_or_default();
        let wants = |one: &&Arc<Subscriber>| one.wants(event_type);
        self.here.iter().chain(declared).filter(wants).cloned().collect()
    }
}

/// Reads the declared workers of all tenants.
pub(crate) async fn reload(engine: &Engine) -> Result<(), store::Error> {
    let mut declared = HashMap::<TenantId, Vec<Arc<Subscriber>>>::new();
    for one in engine.store.workers().await? {
        let Ok(said) = serde_json::from_slice::<Declared>(&one.row.declaration) else {
            tracing::error!(tenant = %one.tenant, worker = one.row.name, "a declared worker cannot be read");
            continue;
        };
        declared.entry(one.tenant).or_default().push(Arc::new(Subscriber {
            name: one.row.name,
            types: said.types.clone(),
            batch_max: said.batch_max as usize,
            order_by: said.order_by.as_deref().map(path),
            is_here: false,
            declared: Some(said),
        }));
    }
    *engine.subscribers.declared.write() = declared;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn subscriber(types: &[&str], order_by: Option<&str>) -> Subscriber {
        Subscriber {
            name: "mail".to_owned(),
            types: types.iter().map(|kind| (*kind).to_owned()).collect(),
            batch_max: 1,
            order_by: order_by.map(path),
            is_here: true,
            declared: None,
        }
    }

    #[test]
    fn types_are_exact_or_begin_so() {
        let both = subscriber(&["order.created", "user.*"], None);
        for wanted in ["order.created", "user.", "user.left"] {
            assert!(both.wants(wanted), "{wanted}");
        }
        for other in ["order.created.late", "order", "use", ""] {
            assert!(!both.wants(other), "{other}");
        }
        assert!(subscriber(&["*"], None).wants("anything"));
    }

    #[test]
    fn an_order_key_is_an_attribute_or_a_path() {
        let event = Data::from_json(json!({ "subject": "o-1", "data": { "order": { "id": 7 } } }));
        let key = |order_by: &str| subscriber(&[], Some(order_by)).order_key(&event);
        assert_eq!(key("subject").as_deref(), Some("\"o-1\""));
        assert_eq!(key("data.order.id").as_deref(), Some("7"));
        assert_eq!(key(".data.order.id").as_deref(), Some("7"));
        assert_eq!(key("data.nothing"), None);
        assert_eq!(subscriber(&[], None).order_key(&event), None);
    }
}
