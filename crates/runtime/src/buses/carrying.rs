//! Carries a page of what is due: hands it to the bus, settles what that answers, and gives back the rest.

use super::Line;
use crate::{
    dead_letters,
    deliveries::{self, settle::Settling},
    engine::Engine,
    held::Hold,
    lost,
    patience::Patience,
};
use bus::{Carried, Parcel};
use machine::{Data, TenantId, id, retry::RetryPolicy, time::Span};
use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, atomic::Ordering},
};
use store::rows::{Claimed, DeliveryAsk, DeliveryRow, EventRow, QueueKey};
use uuid::Uuid;
use worker::{Class, Failure, Handled};

/// Events that are carried together, and the most that is in memory of one bus.
const TOGETHER_MAX: usize = 512;
/// How long the pump waits when something is due that it may not take yet: another node carries what comes before it.
const BLOCKED_WAIT: Span = Span::from_millis(200);
/// The first wait after a bus did not answer, and the longest.
const AWAY_WAIT: Span = Span::from_millis(100);
const AWAY_WAIT_MAX: Span = Span::from_secs(15);
/// An event that fails while others are carried is tried again for ever, later and later.
const RETRY: RetryPolicy =
    RetryPolicy { attempts_max: u32::MAX, base: Span::from_secs(1), factor: 2.0, cap: Span::from_secs(60) };

/// An event on its way, and the row that says so.
struct Carrying {
    tenant: TenantId,
    row: DeliveryRow,
    events: Vec<(Uuid, Data)>,
    load: Load,
    _hold: Hold,
}

/// What is done with it.
enum Load {
    Carried(Parcel),
    /// It may not go out.
    Kept(Handled),
    /// The event is gone, and its row has nothing to wait for.
    Gone,
}

impl Load {
    /// Nothing of another tenant goes anywhere, nor what nodes end with.
    fn of(engine: &Engine, tenant: &TenantId, row: &DeliveryRow, event: &EventRow, data: &Data) -> Load {
        if !deliveries::is_of(tenant, data) {
            return Load::Kept(deliveries::refused(engine, tenant, data, &row.worker));
        }
        if let Some(detail) = dead_letters::fatal(engine, row.taken_over) {
            return Load::Kept(Handled::fail(Class::Poison, detail));
        }
        Load::Carried(Parcel {
            tenant: tenant.clone(),
            id: id::show(id::Kind::Event, event.id),
            key: event.emitted_by.clone(),
            event_type: event.event_type.clone(),
            event: event.event.clone(),
        })
    }

    fn parcel(&self) -> Option<&Parcel> {
        match self {
            Load::Carried(parcel) => Some(parcel),
            Load::Kept(_) | Load::Gone => None,
        }
    }
}

/// Carries everything that is due.
pub(super) async fn round(engine: &Arc<Engine>, line: &Line) -> Result<(), store::Error> {
    let workers = vec![line.worker.clone()];
    loop {
        if !engine.may_begin() {
            // The lease may be over: what is due may be another's by now.
            line.alarm.at(engine.now().after(BLOCKED_WAIT));
            return Ok(());
        }
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
            full_of: vec![],
            pace: None,
        };
        let claimed = engine.store.claim_deliveries(&ask).await?;
        if claimed.is_empty() {
            line.alarm.at(engine.now().after(BLOCKED_WAIT));
            return Ok(());
        }
        let Some(carrying) = with_events(engine, claimed).await else { return Ok(()) };
        if !engine.may_begin() {
            // Reading took too long.
            give_back(engine, &carrying).await;
            continue;
        }
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
        let event = event.map(|event| (Data::parse(&event.event).unwrap_or_default(), event));
        let load = event.as_ref().map(|(data, event)| Load::of(engine, &tenant, &row, event, data));
        let events = event.map(|(data, event)| (event.id, data)).into_iter().collect();
        Carrying { events, tenant, row, load: load.unwrap_or(Load::Gone), _hold: hold }
    });
    Some(carrying.collect())
}

/// Carries once, and settles what the bus has answered. What it has not is backlog again after a wait, so that the next
/// look finds others beside it: nobody waits for a bus that is away for one tenant only. `false` if the node stops: its
/// rows are given back when it leaves.
async fn carry(engine: &Arc<Engine>, line: &Line, carrying: Vec<Carrying>) -> bool {
    let stopping = engine.tasks.stopping.clone();
    let parcels: Vec<Parcel> = carrying.iter().filter_map(|one| one.load.parcel()).cloned().collect();
    let began = engine.clock.steady_micros();
    let answers = tokio::select! {
        biased;
        () = stopping.cancelled() => return false,
        answers = line.bus.carrier.carry(&parcels) => answers,
    };
    let micros = engine.clock.steady_micros() - began;
    // One that takes some is there, whatever it says of the others.
    let is_there = answers.iter().any(|answer| !matches!(answer, Carried::Away(_)));
    let silence = answers.iter().find_map(|answer| match answer {
        Carried::Away(detail) if !is_there => Some(detail.clone()),
        _ => None,
    });
    if !answers.is_empty() {
        line.answered(silence.as_deref(), engine.now());
    }
    let (open, answered): (Vec<_>, Vec<_>) =
        carrying.into_iter().partition(|one| silence.is_some() && one.load.parcel().is_some());
    settle(engine, line, answered, answers, micros).await;
    if open.is_empty() {
        return !stopping.is_cancelled();
    }
    // As long again as it has been away, and half of that at least, so that nodes that failed together do not come back
    // together.
    let away = line.away_for(engine.now()).clamp(AWAY_WAIT, AWAY_WAIT_MAX);
    let until = engine.now().after(Span((away.0 as f64 * (0.5 + engine.entropy.unit() / 2.0)) as i64));
    tokio::select! {
        biased;
        () = stopping.cancelled() => return false,
        () = engine.clock.sleep_until(until) => {}
    }
    give_back(engine, &open).await;
    !stopping.is_cancelled()
}

/// Makes backlog of what was not carried.
async fn give_back(engine: &Arc<Engine>, open: &[Carrying]) {
    let mut rows = BTreeMap::<&TenantId, Vec<QueueKey>>::new();
    for one in open {
        rows.entry(&one.tenant).or_default().push(one.row.key());
    }
    for (tenant, rows) in rows {
        lost::release(engine, tenant, &rows).await;
    }
}

/// Makes durable what became of them, one commit per tenant. The answers are those for what was carried.
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
        let answer = match &one.load {
            Load::Carried(_) => answers.next().map(|answer| line.handled(answer)),
            Load::Kept(why) => Some(why.clone()),
            Load::Gone => None,
        };
        if let (Some((event, _)), Some(answer)) = (one.events.first(), answer) {
            handled.insert(deliveries::key_of(*event, &line.worker), answer);
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
            Carried::Failed(why) | Carried::Away(why) => Handled::retry(why),
        }
    }
}
