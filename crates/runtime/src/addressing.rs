//! From events to deliveries: who wants them, what is handed over together, and what this node does itself.

use crate::{
    buses,
    deliveries::{self, Handed},
    engine::Engine,
    lanes::Reservation,
    subscribers::Subscriber,
    webhooks,
};
use machine::{Data, TenantId, Time};
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};
use store::{
    Write,
    rows::{DeliveryRow, EventRow, Traced},
};

/// Deliveries to be, in the commit that publishes their events.
#[derive(Default)]
pub(crate) struct Addressed {
    /// The node does these itself: they are born claimed.
    own: Vec<(Handed, Reservation<Handed>)>,
    /// For whoever claims them.
    backlog: Vec<DeliveryRow>,
    /// Of these the last of a key is delivered, later.
    held_back: Vec<HeldBack>,
}

struct HeldBack {
    row: DeliveryRow,
    key: String,
    until: Time,
}

/// Finds out who wants these events, and notes in their rows that they are taken.
pub(crate) fn address(engine: &Engine, tenant: &TenantId, events: &mut [(EventRow, Data)]) -> Addressed {
    let mut wanting = HashMap::<String, Vec<Arc<Subscriber>>>::new();
    let mut by_worker = BTreeMap::<String, (Arc<Subscriber>, Vec<usize>)>::new();
    for (at, (row, _)) in events.iter_mut().enumerate() {
        let subscribers = wanting
            .entry(row.event_type.clone())
            .or_insert_with(|| engine.subscribers.wanting(tenant, &row.event_type));
        // What others publish is not carried out: it came from there, or whoever published it knows where it goes.
        let is_for = |one: &&Arc<Subscriber>| !one.ignores(row) && (!one.is_bus || row.emitted_by.is_some());
        let subscribers: Vec<_> = subscribers.iter().filter(is_for).collect();
        row.delivered = subscribers.len() as u64;
        // Whoever begins to listen may still want what is only carried out.
        if subscribers.iter().any(|one| !one.is_bus) {
            row.kept_until = None;
        }
        for one in subscribers {
            by_worker.entry(one.name.clone()).or_insert_with(|| (one.clone(), vec![])).1.push(at);
        }
    }
    let mut addressed = Addressed::default();
    for (subscriber, wanted) in by_worker.into_values() {
        let mut rest = Vec::new();
        for at in wanted {
            if !addressed.alone(engine, tenant, &subscriber, at, events) {
                rest.push(at);
            }
        }
        for together in rest.chunks(subscriber.terms.batch_max.max(1)) {
            let row = row(engine, &subscriber, together, None, events);
            addressed.add(engine, tenant, &subscriber, row, together, events);
        }
    }
    addressed
}

fn row(
    engine: &Engine,
    subscriber: &Subscriber,
    together: &[usize],
    order_key: Option<String>,
    events: &[(EventRow, Data)],
) -> DeliveryRow {
    let now = engine.now();
    DeliveryRow {
        id: engine.entropy.id(now),
        worker: subscriber.name.clone(),
        events: together.iter().map(|at| events[*at].0.id).collect(),
        order_key,
        created_at: now,
        visible_at: now,
        attempt: 0,
        last_error: None,
        owner: None,
        taken_over: 0,
        traced: Traced::of_all(together.iter().map(|at| &events[*at].0.traced)),
    }
}

impl Addressed {
    /// What is held back, comes in order, at a pace or once per key has a row of its own. `false` if nothing of that is so.
    fn alone(
        &mut self,
        engine: &Engine,
        tenant: &TenantId,
        subscriber: &Subscriber,
        at: usize,
        events: &[(EventRow, Data)],
    ) -> bool {
        let event = &events[at].1;
        let order_key = subscriber.order_key(event, events[at].0.emitted_by.as_deref());
        let is_ordered = order_key.is_some();
        let mut row = row(engine, subscriber, &[at], order_key, events);
        if let (Some(debounce), Some(key)) = (&subscriber.terms.debounce, subscriber.debounce_key(event)) {
            let until = row.created_at.after(debounce.wait_max);
            row.visible_at = row.created_at.after(debounce.quiet);
            self.hold_back(HeldBack { row, key, until });
        } else if is_ordered || subscriber.terms.rate.is_some() {
            self.backlog.push(row);
        } else if subscriber.domain_key(event).is_some() {
            self.add(engine, tenant, subscriber, row, &[at], events);
        } else {
            return false;
        }
        true
    }

    /// Of those that are published together the last counts too.
    fn hold_back(&mut self, held_back: HeldBack) {
        self.held_back
            .retain(|other| (&other.row.worker, &other.key) != (&held_back.row.worker, &held_back.key));
        self.held_back.push(held_back);
    }

    /// The node does it itself if it has the worker and room for it.
    fn add(
        &mut self,
        engine: &Engine,
        tenant: &TenantId,
        subscriber: &Subscriber,
        mut row: DeliveryRow,
        together: &[usize],
        events: &[(EventRow, Data)],
    ) {
        let room = subscriber
            .is_here
            .then(|| engine.deliveries.reserve_units(tenant, &subscriber.name, together.len()));
        match room.flatten() {
            Some(reservation) => {
                row.owner = Some(engine.node);
                let events = together.iter().map(|at| (events[*at].0.id, events[*at].1.clone())).collect();
                self.own.push((Handed { row, events: Some(events) }, reservation));
            }
            None => self.backlog.push(row),
        }
    }

    pub(crate) fn write(&self, writes: &mut Vec<Write>) {
        let own = self.own.iter().map(|(handed, _)| &handed.row);
        writes.extend(own.chain(&self.backlog).map(|row| Write::Delivery(Box::new(row.clone()))));
        writes.extend(self.held_back.iter().map(|HeldBack { row, key, until }| Write::Debounce {
            row: Box::new(row.clone()),
            key: key.clone(),
            until: *until,
        }));
    }

    /// What is carried out has pumps of its own.
    fn wake_carriers(&self, engine: &Engine) {
        if self.backlog.iter().any(|row| buses::is_bus(&row.worker)) {
            engine.buses.wake(engine.now());
        }
        if self.backlog.iter().any(|row| webhooks::name_of(&row.worker).is_some()) {
            engine.webhooks.alarm.at(engine.now());
        }
    }

    /// The commit is durable: this node's own go to its lanes, the others are for whoever finds them.
    pub(crate) fn dispatch(self, engine: &Arc<Engine>, tenant: &TenantId) {
        let rows = self.backlog.iter().chain(self.held_back.iter().map(|one| &one.row));
        if let Some(due) = rows.map(|row| row.visible_at).min() {
            engine.wake.deliveries.at(due);
            self.wake_carriers(engine);
            engine.backlog();
        }
        if self.own.is_empty() {
            return;
        }
        for (handed, reservation) in self.own {
            let hold = engine.held.hold(tenant, handed.row.key());
            engine.deliveries.push(tenant.clone(), handed, reservation, hold);
        }
        deliveries::pump(engine);
    }
}
