//! Who wants events: the workers of this node, and those that tenants have declared for themselves.
//!
//! The store knows the declared ones; a node keeps them in mind and reads them again when it is told that one changed,
//! and now and then.

use crate::{
    api::{Declared, Webhook},
    buses::{self, Bus},
    engine::Engine,
    webhooks,
};
use machine::{Data, TenantId, correlation};
use parking_lot::RwLock;
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
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
    /// It is a bus: it carries what is emitted inside, in the order of who emits.
    pub(crate) is_bus: bool,
    /// This node has it.
    pub(crate) is_here: bool,
    /// What its tenant says of it, if it is somewhere else.
    declared: Option<Declared>,
    /// What its tenant says of it, if it is an address.
    webhook: Option<Webhook>,
}

impl Subscriber {
    fn wants(&self, event_type: &str) -> bool {
        is_wanted(&self.types, event_type)
    }

    /// The key that the event comes in order by, if it has one.
    pub(crate) fn order_key(&self, event: &Data, emitted_by: Option<&str>) -> Option<String> {
        if self.is_bus {
            return emitted_by.map(str::to_owned);
        }
        correlation::look_up(self.order_by.as_deref()?, event)
    }
}

/// Whether one of these types is meant; one that ends with `*` is the beginning of a type.
pub(crate) fn is_wanted(types: &[String], event_type: &str) -> bool {
    types.iter().any(|wanted| match wanted.strip_suffix('*') {
        Some(beginning) => event_type.starts_with(beginning),
        None => wanted == event_type,
    })
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
    pub(crate) fn new(workers: &[Declaration], buses: &[Bus]) -> Subscribers {
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
                is_bus: false,
                is_here: true,
                declared: None,
                webhook: None,
            }))
        });
        let buses = buses.iter().map(|bus| {
            Arc::new(Subscriber {
                name: buses::worker_of(&bus.name),
                types: bus.types.clone(),
                batch_max: 1,
                order_by: None,
                is_bus: true,
                is_here: false,
                declared: None,
                webhook: None,
            })
        });
        Subscribers { here: here.chain(buses).collect(), workers: by_name, declared: RwLock::default() }
    }

    /// The workers of this node that handle events: those that are given few at once, and those that are given many.
    pub(crate) fn names(&self, many: usize) -> (Vec<String>, Vec<String>) {
        let handled = self.here.iter().filter(|one| one.is_here);
        let (few, many): (Vec<_>, Vec<_>) = handled.partition(|one| one.batch_max < many);
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

    /// What deliveries for addresses of tenants say that they are for, each once.
    pub(crate) fn webhooks(&self) -> Vec<String> {
        let declared = self.declared.read();
        let all = declared.values().flatten().filter(|one| one.webhook.is_some());
        let names: BTreeSet<String> = all.map(|one| one.name.clone()).collect();
        names.into_iter().collect()
    }

    /// What a tenant says of an address.
    pub(crate) fn webhook(&self, tenant: &TenantId, worker: &str) -> Option<Webhook> {
        let declared = self.declared.read();
        declared.get(tenant)?.iter().find(|one| one.name == worker)?.webhook.clone()
    }

    /// The key that the event comes in order by to a worker.
    pub(crate) fn order_key(
        &self,
        tenant: &TenantId,
        worker: &str,
        event: &Data,
        emitted_by: Option<&str>,
    ) -> Option<String> {
        let declared = self.declared.read();
        let declared = declared.get(tenant).map(Vec::as_slice).unwrap_or_default();
        self.here.iter().chain(declared).find(|one| one.name == worker)?.order_key(event, emitted_by)
    }

    /// Everybody who wants events of the type.
    pub(crate) fn wanting(&self, tenant: &TenantId, event_type: &str) -> Vec<Arc<Subscriber>> {
        let declared = self.declared.read();
        let declared = declared.get(tenant).map(Vec::as_slice).unwrap_or_default();
        let wants = |one: &&Arc<Subscriber>| one.wants(event_type);
        self.here.iter().chain(declared).filter(wants).cloned().collect()
    }
}

/// An address that events are sent to, unless it is disabled.
fn webhook_of(name: String, said: &[u8]) -> Option<Arc<Subscriber>> {
    let Ok(said) = serde_json::from_slice::<Webhook>(said) else {
        tracing::error!(webhook = name, "a webhook cannot be read");
        return None;
    };
    if said.disabled.is_some() {
        return None;
    }
    Some(Arc::new(Subscriber {
        name,
        types: said.types.clone(),
        batch_max: 1,
        order_by: None,
        is_bus: false,
        is_here: false,
        declared: None,
        webhook: Some(said),
    }))
}

/// Reads the declared workers of all tenants.
pub(crate) async fn reload(engine: &Engine) -> Result<(), store::Error> {
    let mut declared = HashMap::<TenantId, Vec<Arc<Subscriber>>>::new();
    for one in engine.store.workers().await? {
        if webhooks::name_of(&one.row.name).is_some() {
            declared.entry(one.tenant).or_default().extend(webhook_of(one.row.name, &one.row.declaration));
            continue;
        }
        let Ok(said) = serde_json::from_slice::<Declared>(&one.row.declaration) else {
            tracing::error!(tenant = %one.tenant, worker = one.row.name, "a declared worker cannot be read");
            continue;
        };
        declared.entry(one.tenant).or_default().push(Arc::new(Subscriber {
            name: one.row.name,
            types: said.types.clone(),
            batch_max: said.batch_max as usize,
            order_by: said.order_by.as_deref().map(path),
            is_bus: false,
            is_here: false,
            declared: Some(said),
            webhook: None,
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
            is_bus: false,
            is_here: true,
            declared: None,
            webhook: None,
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
        let key = |order_by: &str| subscriber(&[], Some(order_by)).order_key(&event, None);
        assert_eq!(key("subject").as_deref(), Some("\"o-1\""));
        assert_eq!(key("data.order.id").as_deref(), Some("7"));
        assert_eq!(key(".data.order.id").as_deref(), Some("7"));
        assert_eq!(key("data.nothing"), None);
        assert_eq!(subscriber(&[], None).order_key(&event, None), None);
    }
}
