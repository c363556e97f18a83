//! Who wants events: the workers of this node, and those that tenants have declared for themselves.
//!
//! The store knows the declared ones; a node keeps them in mind and reads them again when it is told that one changed,
//! and now and then.

use crate::{
    api::{Declared, Webhook},
    buses::{self, Bus},
    deliveries::once,
    engine::Engine,
    webhooks,
};
use machine::{Data, TenantId, correlation, time::Span};
use parking_lot::RwLock;
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};
use store::rows::{EventRow, Pace};
use worker::{Declaration, Terms, path};

/// A worker as publishing sees it.
#[derive(Debug)]
pub(crate) struct Subscriber {
    pub(crate) name: String,
    pub(crate) terms: Terms,
    /// `.data.order.id`
    order_by: Option<String>,
    key_by: Option<String>,
    debounce_by: Option<String>,
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
    fn new(name: String, terms: Terms, declared: Option<Declared>) -> Subscriber {
        let debounce_by = terms.debounce.as_ref().and_then(|debounce| debounce.by.as_deref()).map(path);
        Subscriber {
            name,
            order_by: terms.order_by.as_deref().map(path),
            key_by: terms.key_by.as_deref().map(path),
            debounce_by,
            terms,
            is_bus: false,
            is_here: declared.is_none(),
            declared,
            webhook: None,
        }
    }

    /// Whether the event is kept from it: what it emitted itself, if it ignores that.
    pub(crate) fn ignores(&self, row: &EventRow) -> bool {
        self.terms.ignore_own && row.emitted_by.is_some() && row.source == source_of(&self.name)
    }

    fn wants(&self, event_type: &str) -> bool {
        is_wanted(&self.terms.types, event_type)
    }

    /// The key that the event comes in order by, if it has one.
    pub(crate) fn order_key(&self, event: &Data, emitted_by: Option<&str>) -> Option<String> {
        if self.is_bus {
            return emitted_by.map(str::to_owned);
        }
        correlation::look_up(self.order_by.as_deref()?, event)
    }

    /// The key of which one event has an effect, in the form that handlers are given.
    pub(crate) fn domain_key(&self, event: &Data) -> Option<String> {
        let value = correlation::look_up(self.key_by.as_deref()?, event)?;
        Some(once::domain_key(&value, &self.name))
    }

    /// The key of which the last event is delivered, if the event is held back at all.
    pub(crate) fn debounce_key(&self, event: &Data) -> Option<String> {
        self.terms.debounce.as_ref()?;
        match &self.debounce_by {
            Some(path) => correlation::look_up(path, event),
            None => Some(String::new()),
        }
    }
}

/// The source of what a worker emits.
pub(crate) fn source_of(worker: &str) -> String {
    format!("windlass/workers/{worker}")
}

/// Whether one of these types is meant; one that ends with `*` is the beginning of a type.
pub(crate) fn is_wanted(types: &[String], event_type: &str) -> bool {
    types.iter().any(|wanted| match wanted.strip_suffix('*') {
        Some(beginning) => event_type.starts_with(beginning),
        None => wanted == event_type,
    })
}

/// Workers whose deliveries are asked for together.
pub(crate) struct Group {
    pub(crate) workers: Vec<String>,
    /// The most events that a row of theirs holds.
    pub(crate) batch_max: usize,
    pub(crate) pace: Option<Pace>,
}

/// How fast rows are handed out; each holds one event.
pub(crate) fn pace(terms: &Terms) -> Option<Pace> {
    terms.rate.map(|rate| Pace { every: rate.every(), burst: rate.burst() })
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
            let terms = worker.on.as_ref()?.terms.clone();
            Some(Arc::new(Subscriber::new(worker.name.clone(), terms, None)))
        });
        let buses = buses.iter().map(|bus| {
            let (name, terms) = (buses::worker_of(&bus.name), Terms::new(bus.types.iter().cloned()));
            Arc::new(Subscriber { is_bus: true, is_here: false, ..Subscriber::new(name, terms, None) })
        });
        Subscribers { here: here.chain(buses).collect(), workers: by_name, declared: RwLock::default() }
    }

    /// The workers of this node that handle events, by how deliveries of theirs are asked for.
    pub(crate) fn groups(&self, many: usize) -> Vec<Group> {
        let is_bounded =
            |one: &Subscriber| one.terms.rate.is_some() || self.prefetch_max(&one.name).is_some();
        let (bounded, free): (Vec<_>, Vec<_>) =
            self.here.iter().filter(|one| one.is_here).partition(|one| is_bounded(one));
        let (few, many): (Vec<_>, Vec<_>) = free.into_iter().partition(|one| one.terms.batch_max < many);
        let of = |these: Vec<&Arc<Subscriber>>, batch_max: usize| Group {
            workers: these.into_iter().map(|one| one.name.clone()).collect(),
            batch_max,
            pace: None,
        };
        let alone = bounded.into_iter().map(|one| Group {
            workers: vec![one.name.clone()],
            batch_max: one.terms.batch_max,
            pace: pace(&one.terms),
        });
        let groups = [of(few, 1), of(many, self.batch_max())].into_iter().chain(alone);
        groups.filter(|group| !group.workers.is_empty()).collect()
    }

    /// Their names.
    pub(crate) fn names(&self) -> Vec<String> {
        self.here.iter().filter(|one| one.is_here).map(|one| one.name.clone()).collect()
    }

    fn prefetch_max(&self, name: &str) -> Option<usize> {
        self.workers.get(name)?.on.as_ref()?.prefetch_max
    }

    /// How many events of a worker may be kept in memory, where that is bounded.
    pub(crate) fn prefetch(&self) -> BTreeMap<String, usize> {
        let bounded = |name: &String| Some((name.clone(), self.prefetch_max(name)?));
        self.workers.keys().filter_map(bounded).collect()
    }

    /// The workers of this node that run by themselves.
    pub(crate) fn scheduled(&self) -> Vec<Arc<Subscriber>> {
        self.here.iter().filter(|one| one.terms.schedule.is_some()).cloned().collect()
    }

    pub(crate) fn worker(&self, name: &str) -> Option<&Declaration> {
        self.workers.get(name)
    }

    /// The most events that any worker of this node is given at once.
    pub(crate) fn batch_max(&self) -> usize {
        self.here.iter().map(|one| one.terms.batch_max).max().unwrap_or(1).max(1)
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

    /// The worker as publishing sees it, of this node or of the tenant.
    pub(crate) fn find(&self, tenant: &TenantId, worker: &str) -> Option<Arc<Subscriber>> {
        let declared = self.declared.read();
        let declared = declared.get(tenant).map(Vec::as_slice).unwrap_or_default();
        self.here.iter().chain(declared).find(|one| one.name == worker).cloned()
    }

    /// The key that the event comes in order by to a worker.
    pub(crate) fn order_key(
        &self,
        tenant: &TenantId,
        worker: &str,
        event: &Data,
        emitted_by: Option<&str>,
    ) -> Option<String> {
        self.find(tenant, worker)?.order_key(event, emitted_by)
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

    /// Everybody who wants events of the type.
    pub(crate) fn wanting(&self, tenant: &TenantId, event_type: &str) -> Vec<Arc<Subscriber>> {
        let declared = self.declared.read();
        let declared = declared.get(tenant).map(Vec::as_slice).unwrap_or_default();
        let wants = |one: &&Arc<Subscriber>| one.wants(event_type);
        self.here.iter().chain(declared).filter(wants).cloned().collect()
    }

    /// The longest that any worker goes on trying.
    pub(crate) fn retry_longest(&self) -> Span {
        let here = self.workers.values().map(|worker| worker.retry.longest());
        let declared = self.declared.read();
        let declared =
            declared.values().flatten().filter_map(|one| Some(one.declared.as_ref()?.retry().longest()));
        here.chain(declared).max().unwrap_or(Span::ZERO)
    }

    /// Types that anybody wants, at most `limit`.
    pub(crate) fn wanted_types(&self, tenant: &TenantId, limit: usize) -> Vec<String> {
        let declared = self.declared.read();
        let declared = declared.get(tenant).map(Vec::as_slice).unwrap_or_default();
        let types: BTreeSet<&String> =
            self.here.iter().chain(declared).flat_map(|one| &one.terms.types).collect();
        types.into_iter().take(limit).cloned().collect()
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
    let terms = Terms::new(said.types.iter().cloned());
    let subscriber = Subscriber::new(name, terms, None);
    Some(Arc::new(Subscriber { is_here: false, webhook: Some(said), ..subscriber }))
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
        let subscriber = Subscriber::new(one.row.name, said.terms(), Some(said));
        declared.entry(one.tenant).or_default().push(Arc::new(subscriber));
    }
    *engine.subscribers.declared.write() = declared;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn subscriber(types: &[&str], order_by: Option<&str>) -> Subscriber {
        let terms = Terms { order_by: order_by.map(str::to_owned), ..Terms::new(types.iter().copied()) };
        Subscriber::new("mail".to_owned(), terms, None)
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
