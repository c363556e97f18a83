//! Carries what instances and workers emit out over the buses of the operator.
//!
//! What a bus is to carry is deliveries of its own, written in the commit that publishes the event: a bus that is away
//! only lets them grow, and nobody inside waits for it. Of one key the oldest alone is carried, and it is deleted once the
//! bus has confirmed it. What a bus refuses for good becomes a dead letter.

pub(crate) mod inlets;
pub(crate) mod resend;

pub use inlets::Incomings;
pub use resend::Between;

use crate::{
    deliveries::{self, settle::Settling},
    engine::Engine,
    finder::Alarm,
    held::Hold,
    patience::Patience,
    subscribers,
};
use bus::{Carried, Carrier, Parcel};
use machine::{Data, TenantId, Time, id, retry::RetryPolicy, time::Span};
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};
use store::rows::{Claimed, DeliveryAsk, DeliveryRow, EventRow};
use tokio::sync::Notify;
use uuid::Uuid;
use worker::{Class, Failure, Handled};

/// Events that are carried together, and the most that is in memory of one bus.
const TOGETHER_MAX: usize = 512;
/// How long the pump waits when something is due that it may not take yet: another node carries what comes before it.
const BLOCKED_WAIT: Span = Span::from_millis(200);
const STORE_WAIT: Span = Span::from_millis(500);
/// The wait after a bus did not answer; it doubles up to the last.
const AWAY_WAIT: Span = Span::from_millis(100);
const AWAY_WAIT_MAX: Span = Span::from_secs(15);
/// An event that fails while others are carried is tried again for ever, later and later.
const RETRY: RetryPolicy =
    RetryPolicy { attempts_max: u32::MAX, base: Span::from_secs(1), factor: 2.0, cap: Span::from_secs(60) };

const PREFIX: &str = "bus:";

/// A bus as the operator set it up.
#[derive(Clone)]
pub struct Bus {
    pub name: String,
    /// Types of events that go out over it; one that ends with `*` is the beginning of a type.
    pub types: Vec<String>,
    pub carrier: Arc<dyn Carrier>,
    /// What comes in over it, if anything does.
    pub incomings: Option<Incomings>,
}

/// What a node knows of a bus.
#[derive(Clone, Debug)]
pub struct BusState {
    pub name: String,
    pub place: String,
    pub types: Vec<String>,
    /// Since when it does not answer this node, and what was said last.
    pub away: Option<(Time, String)>,
    /// Events that this node has had confirmed, and that were refused for good.
    pub carried: u64,
    pub refused: u64,
    /// Places of tenants that this node hears.
    pub subscriptions: usize,
}

/// The buses of a node.
pub(crate) struct Buses {
    lines: Vec<Arc<Line>>,
    /// Tells that there may be other tenants.
    pub(crate) tenants: Notify,
}

/// A bus and how it is doing.
pub(crate) struct Line {
    bus: Bus,
    /// What its deliveries say that they are for.
    pub(crate) worker: String,
    alarm: Alarm,
    away: Mutex<Option<(Time, String)>>,
    carried: AtomicU64,
    refused: AtomicU64,
    /// Subscriptions to what comes in.
    subscriptions: Arc<AtomicUsize>,
}

/// What deliveries of the bus of that name say that they are for. No worker's name has a colon.
pub fn worker_of(bus: &str) -> String {
    format!("{PREFIX}{bus}")
}

/// Whether deliveries for this worker are for a bus.
pub(crate) fn is_bus(worker: &str) -> bool {
    worker.starts_with(PREFIX)
}

impl Buses {
    pub(crate) fn new(buses: Vec<Bus>, now: Time) -> Buses {
        let line = |bus: Bus| {
            let line = Line {
                worker: worker_of(&bus.name),
                bus,
                alarm: Alarm::new(),
                away: Mutex::default(),
                carried: AtomicU64::new(0),
                refused: AtomicU64::new(0),
                subscriptions: Arc::default(),
            };
            line.alarm.at(now);
            Arc::new(line)
        };
        Buses { lines: buses.into_iter().map(line).collect(), tenants: Notify::new() }
    }

    pub(crate) fn lines(&self) -> impl Iterator<Item = &Arc<Line>> {
        self.lines.iter()
    }

    /// There may be something to carry.
    pub(crate) fn wake(&self, now: Time) {
        self.lines.iter().for_each(|line| line.alarm.at(now));
    }

    pub(crate) fn states(&self) -> Vec<BusState> {
        self.lines.iter().map(|line| line.state()).collect()
    }
}

/// Counts a subscription until dropped.
pub(crate) struct Subscription(Arc<AtomicUsize>);

impl Drop for Subscription {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Line {
    pub(crate) fn subscribed(&self) -> Subscription {
        self.subscriptions.fetch_add(1, Ordering::Relaxed);
        Subscription(self.subscriptions.clone())
    }

    pub(crate) fn name(&self) -> &str {
        &self.bus.name
    }

    /// Whether events of the type go out over it.
    fn wants(&self, event_type: &str) -> bool {
        subscribers::is_wanted(&self.bus.types, event_type)
    }

    fn state(&self) -> BusState {
        BusState {
            name: self.bus.name.clone(),
            place: self.bus.carrier.place(),
            types: self.bus.types.clone(),
            away: self.away.lock().clone(),
            carried: self.carried.load(Ordering::Relaxed),
            refused: self.refused.load(Ordering::Relaxed),
            subscriptions: self.subscriptions.load(Ordering::Relaxed),
        }
    }

    /// Says once that it is away, and once that it is back.
    fn answered(&self, failure: Option<&str>, now: Time) {
        let mut away = self.away.lock();
        match (away.as_mut(), failure) {
            (None, Some(detail)) => {
                let (bus, place) = (&self.bus.name, self.bus.carrier.place());
                tracing::warn!(bus, place, detail, "a bus does not take events; they wait");
                *away = Some((now, detail.to_owned()));
            }
            (Some((_, last)), Some(detail)) => detail.clone_into(last),
            (Some((since, _)), None) => {
                let seconds = now.since(*since).0 / 1_000_000;
                tracing::info!(bus = self.bus.name, seconds, "a bus takes events again");
                *away = None;
            }
            (None, None) => {}
        }
    }
}

/// An event on its way, and the row that says so.
struct Carrying {
    tenant: TenantId,
    row: DeliveryRow,
    events: Vec<(Uuid, Data)>,
    parcel: Option<Parcel>,
    _hold: Hold,
}

/// Carries until the node stops.
pub(crate) async fn run(engine: Arc<Engine>, line: Arc<Line>) {
    let stopping = engine.tasks.stopping.clone();
    while !stopping.is_cancelled() {
        let until = line.alarm.next();
        if engine.now() < until {
            tokio::select! {
                biased;
                () = stopping.cancelled() => return,
                () = line.alarm.sooner() => {}
                () = engine.clock.sleep_until(until) => {}
            }
            continue;
        }
        line.alarm.reset();
        if let Err(error) = round(&engine, &line).await {
            engine.tasks.heed(&error);
            tracing::warn!(%error, bus = line.bus.name, "looking for events to carry failed");
            line.alarm.at(engine.now().after(STORE_WAIT));
        }
    }
}

/// Carries everything that is due.
async fn round(engine: &Arc<Engine>, line: &Line) -> Result<(), store::Error> {
    let workers = vec![line.worker.clone()];
    loop {
        // A node with nothing to carry asks one question.
        let next = engine.store.next_delivery(&workers).await?;
        let Some(next) = next else { return Ok(()) };
        if next > engine.now() {
            line.alarm.at(next);
            return Ok(());
        }
        let ask = DeliveryAsk {
            node: engine.node,
            now: engine.now(),
            limit: TOGETHER_MAX,
            workers: workers.clone(),
            full: vec![],
            pace: None,
        };
        let claimed = engine.store.claim_deliveries(&ask).await?;
        if claimed.is_empty() {
            line.alarm.at(engine.now().after(BLOCKED_WAIT));
            return Ok(());
        }
        let Some(carrying) = with_events(engine, claimed).await else { return Ok(()) };
        if !carry(engine, line, carrying).await {
            return Ok(());
        }
    }
}

/// What was claimed, with its events. `None` if the node stops first.
async fn with_events(engine: &Arc<Engine>, claimed: Vec<Claimed<DeliveryRow>>) -> Option<Vec<Carrying>> {
    let held: Vec<_> = claimed
        .into_iter()
        .map(|Claimed { tenant, row }| (engine.held.hold(&tenant, row.key()), tenant, row))
        .collect();
    let mut wanted = BTreeMap::<&TenantId, Vec<Uuid>>::new();
    for (_, tenant, row) in &held {
        wanted.entry(tenant).or_default().extend(row.events.iter());
    }
    let mut read = HashMap::<Uuid, EventRow>::new();
    for (tenant, ids) in wanted {
        let mut patience = Patience::new();
        loop {
            match engine.store.events_of(tenant, &ids).await {
                Ok(events) => break read.extend(events.into_iter().map(|event| (event.id, event))),
                Err(error) => {
                    engine.tasks.heed(&error);
                    if !patience.wait(engine).await {
                        return None;
                    }
                }
            }
        }
    }
    let carrying = held.into_iter().map(|(hold, tenant, row)| {
        // A bus is given events one by one.
        let event = row.events.iter().next().and_then(|id| read.remove(&id));
        let parcel = event.as_ref().map(|event| Parcel {
            tenant: tenant.clone(),
            id: id::show(id::Kind::Event, event.id),
            key: event.emitted_by.clone(),
            event_type: event.event_type.clone(),
            event: event.event.clone(),
        });
        let events = event.into_iter().map(|event| (event.id, Data::parse(&event.event).unwrap_or_default()));
        Carrying { events: events.collect(), tenant, row, parcel, _hold: hold }
    });
    Some(carrying.collect())
}

/// Carries until everything is settled, however long the bus is away. `false` if the node stops: its rows are given
/// back when it leaves.
async fn carry(engine: &Arc<Engine>, line: &Line, mut carrying: Vec<Carrying>) -> bool {
    let stopping = engine.tasks.stopping.clone();
    let mut wait = AWAY_WAIT;
    loop {
        let parcels: Vec<Parcel> = carrying.iter().filter_map(|one| one.parcel.clone()).collect();
        let began = engine.clock.steady_micros();
        let answers = tokio::select! {
            biased;
            () = stopping.cancelled() => return false,
            answers = line.bus.carrier.carry(&parcels) => answers,
        };
        let micros = engine.clock.steady_micros() - began;
        let failure = answers.iter().find_map(|answer| match answer {
            Carried::Failed(detail) => Some(detail.clone()),
            _ => None,
        });
        let all_failed =
            !answers.is_empty() && answers.iter().all(|answer| matches!(answer, Carried::Failed(_)));
        line.answered(failure.as_deref().filter(|_| all_failed), engine.now());
        if !all_failed {
            settle(engine, line, std::mem::take(&mut carrying), answers, micros).await;
            return !stopping.is_cancelled();
        }
        // Half of it at least, so that nodes that failed together do not come back together.
        let pause = Span((wait.0 as f64 * (0.5 + engine.entropy.unit() / 2.0)) as i64);
        wait = Span((wait.0 * 2).min(AWAY_WAIT_MAX.0));
        let until = engine.now().after(pause);
        tokio::select! {
            biased;
            () = stopping.cancelled() => return false,
            () = engine.clock.sleep_until(until) => {}
        }
    }
}

/// Makes durable what the bus answered, one commit per tenant.
async fn settle(
    engine: &Arc<Engine>,
    line: &Line,
    carrying: Vec<Carrying>,
    answers: Vec<Carried>,
    micros: u64,
) {
    let mut answers = answers.into_iter();
    let mut handled = HashMap::<String, Handled>::new();
    let mut by_tenant = BTreeMap::<&TenantId, Vec<_>>::new();
    for one in &carrying {
        // An event that is gone has no parcel, and its row nothing to wait for.
        let answer = one.parcel.as_ref().and_then(|_| answers.next());
        if let (Some((event, _)), Some(answer)) = (one.events.first(), answer) {
            handled.insert(deliveries::key_of(*event, &line.worker), line.handled(answer));
        }
        by_tenant.entry(&one.tenant).or_default().push((&one.row, one.events.as_slice()));
    }
    for (tenant, rows) in by_tenant {
        let settling = Settling::of_own(engine, tenant, &line.worker, &RETRY);
        settling.settle_all(&rows, &handled, micros).await;
    }
}

impl Line {
    fn handled(&self, answer: Carried) -> Handled {
        match answer {
            Carried::Confirmed => {
                self.carried.fetch_add(1, Ordering::Relaxed);
                Handled::done()
            }
            Carried::Refused(why) => {
                self.refused.fetch_add(1, Ordering::Relaxed);
                Handled::Fail(Failure { class: Class::Validation, message: why })
            }
            Carried::Failed(why) => Handled::retry(why),
        }
    }
}
