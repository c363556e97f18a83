//! Carries what instances and workers emit out over the buses of the operator.
//!
//! What a bus is to carry is deliveries of its own, written in the commit that publishes the event: a bus that is away
//! only lets them grow, and nobody inside waits for it. Of one key the oldest alone is carried, and it is deleted once the
//! bus has confirmed it. What a bus refuses for good becomes a dead letter.

mod carrying;
pub(crate) mod inlets;
pub(crate) mod resend;

pub use inlets::Incomings;
pub use resend::Between;

use crate::{engine::Engine, finder::Alarm, subscribers};
use bus::Carrier;
use machine::{Time, time::Span};
use parking_lot::Mutex;
use std::sync::{
    Arc,
    atomic::{AtomicU64, AtomicUsize, Ordering},
};
use tokio::sync::Notify;

const STORE_WAIT: Span = Span::from_millis(500);

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
    name_of(worker).is_some()
}

/// The bus's own name, if deliveries for this worker are for one.
pub(crate) fn name_of(worker: &str) -> Option<&str> {
    worker.strip_prefix(PREFIX)
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

    /// How long it has not answered.
    fn away_for(&self, now: Time) -> Span {
        self.away.lock().as_ref().map_or(Span::ZERO, |(since, _)| now.since(*since))
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
        if let Err(error) = carrying::round(&engine, &line).await {
            engine.tasks.heed(&error);
            tracing::warn!(%error, bus = line.bus.name, "looking for events to carry failed");
            line.alarm.at(engine.now().after(STORE_WAIT));
        }
    }
}
