//! Hands events to the workers of this node.
//!
//! What a handler answers and the end of its delivery are one commit: an event that it emits is there exactly when the
//! delivery is gone. A delivery that fails comes back alone, later; one that failed for good becomes a dead letter.

pub(crate) mod once;
mod outcomes;
pub(crate) mod settle;
mod terminal;
pub(crate) mod watermarks;

use crate::{
    dead_letters,
    engine::Engine,
    finder,
    guards::{self, Blocked, Target},
    held::Hold,
    lanes::{Item, Reservation, Targeted},
    lost,
    metrics::Metrics,
    outage::Outage,
    patience::Patience,
    spans,
    subscribers::{Group, Subscriber},
    trace,
};
use futures_util::FutureExt;
use machine::{Data, TenantId, Time, time::Span};
use once::Keys;
use settle::Answers;
use sha2::{Digest, Sha256};
use std::{
    collections::{BTreeMap, HashMap},
    panic::AssertUnwindSafe,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};
use store::{
    Write,
    rows::{Claimed, DeliveryAsk, DeliveryRow, QueueKey},
};
use tracing::Instrument;
use uuid::Uuid;
use worker::{Class, Declaration, Delivery, Handled};

/// How long the pump waits when there is something due that it could not take, unless something ends before.
const NO_ROOM_WAIT: Span = Span::from_millis(200);
/// Rows with this many events or more are not read ahead.
const MANY: usize = 16;
/// How long it waits when the store does not answer.
const STORE_WAIT: Span = Span::from_millis(500);

/// A delivery in memory, with its events if this node published them.
pub(crate) struct Handed {
    pub(crate) row: DeliveryRow,
    pub(crate) events: Option<Vec<(Uuid, Data)>>,
}

impl Targeted for Handed {
    fn target(&self) -> &str {
        &self.row.worker
    }

    fn key(&self) -> QueueKey {
        self.row.key()
    }

    fn units(&self) -> usize {
        self.row.events.count()
    }
}

/// Finds deliveries that were not born on this node, until the node stops.
pub(crate) async fn run(engine: Arc<Engine>) {
    let groups = engine.subscribers.groups(MANY);
    let workers: Vec<String> = groups.iter().flat_map(|group| group.workers.clone()).collect();
    if workers.is_empty() {
        return;
    }
    let stopping = engine.tasks.stopping.clone();
    let mut outage = Outage::new("looking for deliveries");
    // From here on the re-scan of the finder says when something is due.
    engine.wake.deliveries.at(engine.now());
    while !stopping.is_cancelled() {
        let until = engine.wake.deliveries.next();
        if engine.now() < until {
            tokio::select! {
                biased;
                () = stopping.cancelled() => return,
                () = engine.wake.deliveries.sooner() => {}
                () = engine.clock.sleep_until(until) => {}
            }
            continue;
        }
        engine.wake.deliveries.reset();
        match look(&engine, &workers, &groups).await {
            Ok(()) => drop(outage.worked()),
            Err(error) => {
                engine.tasks.heed(&error);
                outage.failed(&error);
                engine.wake.deliveries.at(engine.now().after(STORE_WAIT));
            }
        }
    }
}

/// Asks first and claims only if something is due.
async fn look(engine: &Arc<Engine>, workers: &[String], groups: &[Group]) -> Result<(), store::Error> {
    let mut next = engine.store.next_delivery(workers).await?;
    let mut found = 1;
    while found > 0 && next.is_some_and(|due| due <= engine.now()) {
        found = 0;
        for group in groups {
            found += claim(engine, group).await?;
        }
        next = engine.store.next_delivery(workers).await?;
    }
    let is_due = next.is_some_and(|due| due <= engine.now());
    engine.deliveries_left.store(is_due, Ordering::Release);
    if let Some(next) = next {
        let floor = if is_due { engine.now().after(NO_ROOM_WAIT) } else { Time(0) };
        engine.wake.deliveries.at(next.max(floor));
    }
    Ok(())
}

/// Rows that may be claimed of a group.
fn room(engine: &Engine, group: &Group) -> usize {
    let queued_max = engine.options.deliveries_queued_per_tenant_max;
    let prefetch = group.workers.iter().filter_map(|worker| engine.deliveries.room_for(worker)).min();
    if prefetch == Some(0) {
        return 0;
    }
    // A row that holds many events takes as much room as many rows.
    let rows = prefetch.unwrap_or(queued_max).min(queued_max) / group.batch_max;
    let rows = if prefetch.is_none() && group.batch_max == 1 { usize::MAX } else { rows };
    engine.options.claim_max.min(rows).max(1)
}

/// Claims what is due as far as there is room. Answers how many rows it took.
async fn claim(engine: &Arc<Engine>, group: &Group) -> Result<usize, store::Error> {
    let limit = room(engine, group);
    if limit == 0 {
        return Ok(0);
    }
    let ask = DeliveryAsk {
        node: engine.node,
        now: engine.now(),
        limit,
        workers: group.workers.clone(),
        full: engine.deliveries.full(),
        full_of: vec![],
        pace: group.pace,
    };
    let mut found = 0;
    let mut no_room = BTreeMap::<TenantId, Vec<QueueKey>>::new();
    let claimed = engine.store.claim_deliveries(&ask).await?;
    let read = events_of(engine, &claimed).await;
    for Claimed { tenant, row } in claimed {
        match engine.deliveries.reserve_units(&tenant, &row.worker, row.events.count()) {
            Some(reservation) => {
                found += 1;
                let hold = engine.held.hold(&tenant, row.key());
                let events: Vec<(Uuid, Data)> =
                    row.events.iter().filter_map(|id| Some((id, read.get(&id)?.clone()))).collect();
                // Those that are not all there are read when it is their turn.
                let events = (events.len() == row.events.count()).then_some(events);
                engine.deliveries.push(tenant, Handed { row, events }, reservation, hold);
            }
            None => no_room.entry(tenant).or_default().push(row.key()),
        }
    }
    pump(engine);
    if no_room.keys().any(|tenant| engine.tenants.standing(tenant).is_parked()) {
        // The store would not have handed them out: this node has missed that they may go on.
        finder::remind(engine).await;
    }
    for (tenant, rows) in no_room {
        lost::release(engine, &tenant, &rows).await;
    }
    Ok(found)
}

/// The events of rows with few, one question per tenant. Nothing of a tenant for which that fails.
async fn events_of(engine: &Engine, claimed: &[Claimed<DeliveryRow>]) -> HashMap<Uuid, Data> {
    let mut wanted = BTreeMap::<&TenantId, Vec<Uuid>>::new();
    for Claimed { tenant, row } in claimed {
        // Many of one row are read when it is its turn, several rows beside each other.
        if row.events.count() < MANY {
            wanted.entry(tenant).or_default().extend(row.events.iter());
        }
    }
    let mut read = HashMap::new();
    for (tenant, ids) in wanted {
        if let Ok(events) = engine.store.events_of(tenant, &ids).await {
            let parsed = |bytes: &[u8]| Data::parse(bytes).unwrap_or_default();
            read.extend(events.into_iter().map(|event| (event.id, parsed(&event.event))));
        }
    }
    read
}

/// Hands out every delivery that may be handled now, unless the lease may be over.
pub(crate) fn pump(engine: &Arc<Engine>) {
    if engine.is_stopping() || !engine.may_begin() {
        // The renewal of the lease comes back here.
        return;
    }
    lost::give_back(engine, engine.deliveries.take_parked());
    while let Some(item) = engine.deliveries.next() {
        let worker = engine.subscribers.worker(&item.row.row.worker);
        let batch_max = worker.and_then(|worker| worker.on.as_ref()).map_or(1, |on| on.terms.batch_max);
        let room = batch_max.saturating_sub(item.row.units());
        let mut items = vec![item];
        if room > 0 {
            items.extend(engine.deliveries.more(&items[0].tenant, &items[0].row.row.worker, room));
        }
        let engine_of_items = engine.clone();
        engine.tasks.spawn(async move {
            let engine = engine_of_items;
            let (tenant, worker) = (items[0].tenant.clone(), items[0].row.row.worker.clone());
            handle(&engine, &tenant, &worker, items).await;
            engine.deliveries.done(&tenant, &worker);
            pump(&engine);
            freed(&engine, &tenant);
        });
    }
}

/// A tenant's lane may have room again: what was left in the backlog is looked for.
fn freed(engine: &Engine, tenant: &TenantId) {
    if engine.deliveries_left.load(Ordering::Acquire) && !engine.deliveries.full().contains(tenant) {
        engine.wake.deliveries.at(engine.now());
    }
}

/// A row and what it keeps in memory until its end is durable.
pub(crate) struct Taken {
    row: DeliveryRow,
    /// Its events with their ids, without those that are gone.
    events: Vec<(Uuid, Data)>,
    _reservation: Reservation<Handed>,
    _hold: Hold,
}

async fn handle(engine: &Arc<Engine>, tenant: &TenantId, name: &str, items: Vec<Item<Handed>>) {
    let Some(worker) = engine.subscribers.worker(name) else { return };
    let target = Target::worker(name);
    let is_retry = items.iter().all(|item| item.row.row.attempt > 0);
    let chance = || engine.entropy.unit();
    if let Err(blocked) = engine.guards.admit(tenant, &target, is_retry, engine.now(), chance) {
        return park(engine, tenant, items, blocked).await;
    }
    let began = engine.clock.steady_micros();
    let Some(taken) = with_events(engine, tenant, items).await else { return };
    let subscriber = engine.subscribers.find(tenant, name);
    let (mut mine, mut answers) = (Vec::new(), Answers::new());
    for one in &taken {
        let fatal = dead_letters::fatal(engine, one.row.taken_over);
        for delivery in deliveries_of(tenant, subscriber.as_deref(), name, one) {
            // Nothing of another tenant is handed to anybody, nor what nodes end with.
            match (&fatal, is_of(tenant, &delivery.event)) {
                (None, true) => mine.push(delivery),
                (Some(detail), true) => {
                    answers.insert(delivery.key, Handled::fail(Class::Poison, detail.clone()));
                }
                (_, false) => {
                    let answer = refused(engine, tenant, &delivery.event, name);
                    answers.insert(delivery.key, answer);
                }
            }
        }
    }
    let Some(done) = once::done_before(engine, tenant, &mine).await else { return };
    let is_done = |delivery: &Delivery| {
        delivery.domain_key.as_ref().is_some_and(|key| done.contains(&once::of_domain(key)))
    };
    let (before, mut mine): (Vec<_>, Vec<_>) = mine.into_iter().partition(is_done);
    answers.extend(before.into_iter().map(|delivery| (delivery.key, Handled::done())));
    if !watermarks::give(engine, tenant, worker, &mut mine).await {
        return;
    }
    if !engine.may_begin() {
        // Reading took so long that another node may be at them by now.
        let rows: Vec<QueueKey> = taken.iter().map(|one| one.row.key()).collect();
        lost::release(engine, tenant, &rows).await;
        engine.wake.deliveries.at(engine.now());
        return;
    }
    let traceparent = mine.first().and_then(|delivery: &Delivery| delivery.traceparent.as_deref());
    // Of the highest level: whatever a handler logs has its trace, however little is logged.
    let span = tracing::error_span!("deliver", %tenant, worker = name, events = mine.len(), traceparent);
    let handled = call(worker, &mine).instrument(span).await;
    let micros = engine.clock.steady_micros() - began;
    let well: Vec<bool> = handled.iter().map(guards::is_well).collect();
    engine.guards.record(tenant, &target, &well, engine.now());
    let handled: Vec<(Delivery, Handled)> = mine.into_iter().zip(handled).collect();
    spans::of_deliveries(engine, name, &handled, micros);
    answers.extend(handled.into_iter().map(|(delivery, answer)| (delivery.key, answer)));
    settle::settle(engine, tenant, worker, taken, (answers, Keys::knowing(done), micros)).await;
}

/// What becomes of an event that names another tenant than the one it is delivered for.
pub(crate) fn refused(engine: &Engine, tenant: &TenantId, event: &Data, worker: &str) -> Handled {
    Metrics::add(&engine.metrics.foreign_events);
    let named = event.get("tenantid").unwrap_or_default().to_text();
    tracing::error!(
        target: "security", %tenant, worker, named,
        "an event that names another tenant was not handed over"
    );
    Handled::fail(Class::Auth, "the event names another tenant")
}

/// Puts rows back for later; no attempt is counted. They are the truth: if this commit fails, they are found as they were.
async fn park(engine: &Arc<Engine>, tenant: &TenantId, items: Vec<Item<Handed>>, blocked: Blocked) {
    let Blocked { until, why } = blocked;
    let writes = items.iter().map(|item| Write::RetryDelivery {
        id: item.row.row.id,
        owner: item.row.row.owner,
        visible_at: until,
        attempt: item.row.row.attempt,
        last_error: Some(why.clone().into_bytes()),
    });
    dead_letters::commit_patiently(engine, tenant, writes.collect()).await;
    engine.wake.deliveries.at(until);
}

/// The rows with their events, read if this node does not have them. `None` if the node stops first: the rows stay for
/// another.
async fn with_events(
    engine: &Arc<Engine>,
    tenant: &TenantId,
    items: Vec<Item<Handed>>,
) -> Option<Vec<Taken>> {
    let missing = items.iter().filter(|item| item.row.events.is_none());
    let missing: Vec<Uuid> = missing.flat_map(|item| item.row.row.events.iter()).collect();
    let mut read = HashMap::with_capacity(missing.len());
    let mut patience = Patience::new();
    while !missing.is_empty() && read.is_empty() {
        match engine.store.events_of(tenant, &missing).await {
            Ok(events) => {
                let parsed = |bytes: &[u8]| Data::parse(bytes).unwrap_or_default();
                read.extend(events.into_iter().map(|event| (event.id, parsed(&event.event))));
                break;
            }
            Err(error) => {
                engine.tasks.heed(&error);
                if !patience.wait(engine).await {
                    return None;
                }
            }
        }
    }
    let taken = items.into_iter().map(|Item { row: Handed { row, events }, reservation, hold, .. }| {
        let events = events
            .unwrap_or_else(|| row.events.iter().filter_map(|id| Some((id, read.remove(&id)?))).collect());
        if events.len() < row.events.count() {
            tracing::error!(%tenant, worker = row.worker, delivery = %row.id, "events of a delivery are gone");
        }
        Taken { row, events, _reservation: reservation, _hold: hold }
    });
    Some(taken.collect())
}

/// Whether the event may be handed to a worker on behalf of the tenant: it names that tenant, or none.
pub(crate) fn is_of(tenant: &TenantId, event: &Data) -> bool {
    let named = event.get("tenantid");
    named.is_none_or(|named| named.as_str() == Some(tenant.as_str()))
}

fn deliveries_of(
    tenant: &TenantId,
    subscriber: Option<&Subscriber>,
    name: &str,
    taken: &Taken,
) -> Vec<Delivery> {
    let given = |event: &(Uuid, Data)| given(tenant, subscriber, name, taken.row.attempt + 1, event);
    taken.events.iter().map(given).collect()
}

/// An event as a worker is given it.
pub(crate) fn given(
    tenant: &TenantId,
    subscriber: Option<&Subscriber>,
    worker: &str,
    attempt: u32,
    (id, event): &(Uuid, Data),
) -> Delivery {
    let key = key_of(*id, worker);
    Delivery {
        tenant: tenant.clone(),
        attempt,
        traceparent: Some(traceparent_of(event, *id, &key)),
        correlation_id: text_of(event, "correlationid"),
        domain_key: subscriber.and_then(|one| one.domain_key(event)),
        watermarks: vec![],
        event: event.clone(),
        key,
    }
}

/// The trace context of a delivery, by its key.
pub(crate) fn traceparent_of(event: &Data, id: Uuid, key: &str) -> String {
    trace::child(text_of(event, "traceparent").as_deref(), id, key)
}

fn text_of(event: &Data, name: &str) -> Option<String> {
    event.get(name).as_ref().and_then(Data::as_str).map(str::to_owned)
}

/// The key of an event for a worker.
pub(crate) fn key_of(event: Uuid, worker: &str) -> String {
    let shown = machine::id::show(machine::id::Kind::Event, event);
    let digest = Sha256::new().chain_update(shown).chain_update(":").chain_update(worker).finalize();
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Calls the handler. Whatever it does, there is an answer for every delivery.
async fn call(worker: &Declaration, deliveries: &[Delivery]) -> Vec<Handled> {
    let Some(on) = worker.on.as_ref().filter(|_| !deliveries.is_empty()) else { return vec![] };
    let limit = Duration::from_micros(worker.timeout.0.max(0) as u64);
    let all = |handled: Handled| vec![handled; deliveries.len()];
    let handling = AssertUnwindSafe(on.handler.handle(deliveries)).catch_unwind();
    match tokio::time::timeout(limit, handling).await {
        Ok(Ok(answers)) if answers.len() == deliveries.len() => answers,
        Ok(Ok(answers)) => all(Handled::fail(
            Class::Poison,
            format!("the worker answered {} of {} deliveries", answers.len(), deliveries.len()),
        )),
        Ok(Err(_)) => all(Handled::fail(Class::Poison, "the worker panicked")),
        Err(_) => all(Handled::retry(format!("the worker took longer than {} ms", limit.as_millis()))),
    }
}
