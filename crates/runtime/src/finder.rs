//! Finds work that is not born on this node: due timers, put-back calls and signals, and what others left behind.
//!
//! It sleeps until the next due time it knows of and is woken early when something sooner is born. The slow,
//! jittered re-scan catches whatever a lost wake left behind; everything it finds passes the same guards.

use crate::{
    calls,
    dead_letters::{self, Reason},
    engine::Engine,
    event_types, events,
    lost::Suspects,
    outage::Outage,
    retention, runs, slots, subscribers,
    telling::deliver_signal,
    tenants,
    turn::{Source, Work},
};
use machine::{Command, TenantId, Time, time::Span};
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
};
use store::{
    Write,
    rows::{CallRow, Claimed, TimerRow},
};
use tokio::sync::{Notify, OwnedSemaphorePermit};

/// How long the finder waits when there is work but no room for it.
const NO_ROOM_WAIT: Span = Span::from_millis(20);
/// How long calls of a tenant that has no room stay out of sight.
const FULL_LANE_WAIT: Span = Span::from_millis(100);
/// How long it waits when the store does not answer.
const STORE_WAIT: Span = Span::from_millis(500);

/// Re-scans between two looks at what tenants may do.
const RESCANS_PER_REMINDER: u32 = 10;

/// How the rest of the node tells the finder that something becomes due.
pub(crate) struct Wake {
    queues: Alarm,
    /// For the pump of schedules.
    pub(crate) slots: Alarm,
    /// For the pump of batches.
    pub(crate) batches: Alarm,
    /// For the pump that hands down who may do what.
    pub(crate) acl: Alarm,
    /// For the pump of deliveries.
    pub(crate) deliveries: Alarm,
    /// For retention: a tenant that was deleted may go.
    pub(crate) departures: Alarm,
    /// For the sequencer of the audit trail.
    pub(crate) audit: Alarm,
    pub(crate) outbox: Notify,
}

/// The earliest time at which a pump has something to do.
pub(crate) struct Alarm {
    next: AtomicI64,
    sooner: Notify,
}

impl Alarm {
    pub(crate) fn new() -> Alarm {
        Alarm { next: AtomicI64::new(i64::MAX), sooner: Notify::new() }
    }

    /// Something becomes due at `time`.
    pub(crate) fn at(&self, time: Time) {
        if self.next.fetch_min(time.0, Ordering::SeqCst) > time.0 {
            self.sooner.notify_one();
        }
    }

    pub(crate) fn next(&self) -> Time {
        Time(self.next.load(Ordering::SeqCst))
    }

    /// Nothing is known to become due; for the pump, before it looks.
    pub(crate) fn reset(&self) {
        self.next.store(i64::MAX, Ordering::SeqCst);
    }

    /// Returns when something becomes due earlier than was known.
    pub(crate) async fn sooner(&self) {
        self.sooner.notified().await;
    }
}

impl Wake {
    pub(crate) fn new() -> Wake {
        Wake {
            queues: Alarm::new(),
            slots: Alarm::new(),
            batches: Alarm::new(),
            acl: Alarm::new(),
            deliveries: Alarm::new(),
            departures: Alarm::new(),
            audit: Alarm::new(),
            outbox: Notify::new(),
        }
    }

    /// Something in the queues becomes due at `time`.
    pub(crate) fn at(&self, time: Time) {
        self.queues.at(time);
    }

    /// All pumps look then.
    pub(crate) fn all(&self, time: Time) {
        let Wake { queues, slots, batches, acl, deliveries, departures, audit, outbox: _ } = self;
        for alarm in [queues, slots, batches, acl, deliveries, departures, audit] {
            alarm.at(time);
        }
        self.outbox();
    }

    pub(crate) fn outbox(&self) {
        self.outbox.notify_one();
    }
}

pub(crate) async fn run(engine: Arc<Engine>) {
    let mut rescan_at = engine.now();
    let mut rounds = Rounds::new(&engine);
    let mut outage = Outage::new("looking for work");
    let stopping = engine.tasks.stopping.clone();
    while !stopping.is_cancelled() {
        if let Some(period) = engine.options.rescan {
            // A clock that was put back does not put it off.
            rescan_at = rescan_at.min(engine.now().after(Span(period.0 / 5 * 6 + 1)));
        }
        let until = engine.wake.queues.next().min(rescan_at);
        if engine.now() < until {
            tokio::select! {
                biased;
                () = stopping.cancelled() => return,
                () = engine.wake.queues.sooner() => {}
                () = engine.clock.sleep_until(until) => {}
            }
            continue;
        }
        let is_rescan = engine.now() >= rescan_at;
        if is_rescan {
            rescan_at = match engine.options.rescan {
                // Jitter keeps nodes from scanning together.
                Some(period) => {
                    engine.now().after(Span((period.0 as f64 * (0.8 + 0.4 * engine.entropy.unit())) as i64))
                }
                None => Time(i64::MAX),
            };
        }
        engine.wake.queues.reset();
        engine.looking_since.store(engine.clock.steady_micros().max(1), Ordering::Relaxed);
        let looked = match is_rescan {
            true => rounds.go(&engine).await,
            false => look(&engine, None).await,
        };
        engine.looking_since.store(0, Ordering::Relaxed);
        match looked {
            Ok(()) => drop(outage.worked()),
            Err(error) => {
                engine.tasks.heed(&error);
                outage.failed(&error);
                let again_at = engine.now().after(STORE_WAIT);
                engine.wake.at(again_at);
                if is_rescan {
                    rescan_at = rescan_at.min(again_at);
                }
            }
        }
    }
}

/// The slow re-scan of everything that something may have been lost of.
struct Rounds {
    suspects: Suspects,
    /// The workers of this node that handle events.
    workers: Vec<String>,
    count: u32,
}

impl Rounds {
    fn new(engine: &Engine) -> Rounds {
        let workers = engine.subscribers.names();
        Rounds { suspects: Suspects::default(), workers, count: 0 }
    }

    /// Asks once for all pumps, and wakes those that have something to do.
    async fn go(&mut self, engine: &Arc<Engine>) -> Result<(), store::Error> {
        // Hints tell of changes, and claims read them for themselves: this is for hints that were lost.
        self.count = (self.count + 1) % RESCANS_PER_REMINDER;
        if self.count == 1 {
            remind(engine).await;
        }
        let outlook = engine.store.outlook(engine.node, engine.now(), &self.workers).await?;
        if outlook.outbox {
            engine.wake.outbox();
        }
        engine.buses.wake(engine.now());
        engine.webhooks.alarm.at(engine.now());
        if let Some(due) = outlook.slots {
            engine.wake.slots.at(due);
        }
        if let Some(due) = outlook.batches {
            engine.wake.batches.at(due);
        }
        if let Some(due) = outlook.acl {
            engine.wake.acl.at(due);
        }
        if let Some(due) = outlook.deliveries {
            engine.wake.deliveries.at(due);
        }
        if outlook.events_expired && retention::is_this_nodes(engine).await? {
            events::purge(engine).await?;
        }
        match outlook.owns {
            true => self.suspects.check(engine).await?,
            false => self.suspects = Suspects::default(),
        }
        look(engine, Some(outlook.queues)).await
    }
}

/// Reads again what the node keeps in mind of tenants.
pub(crate) async fn remind(engine: &Arc<Engine>) {
    if let Err(error) = tenants::reload(engine).await {
        engine.tasks.heed(&error);
        tracing::warn!(%error, "reading what tenants may do failed");
    }
    if let Err(error) = subscribers::reload(engine).await {
        engine.tasks.heed(&error);
        tracing::warn!(%error, "reading the workers of tenants failed");
    }
    if let Err(error) = event_types::reload(engine).await {
        engine.tasks.heed(&error);
        tracing::warn!(%error, "reading the types of events failed");
    }
    if let Err(refusal) = runs::put_all(engine).await {
        tracing::warn!(%refusal, "schedules of workers could not be put in line");
    }
}

/// Asks first and claims only if something is due: for a node with nothing to do that is one question, not five. `known`
/// is when something is due, if that was just asked.
async fn look(engine: &Arc<Engine>, known: Option<Option<Time>>) -> Result<(), store::Error> {
    let due = match known {
        Some(due) => due,
        None => engine.store.next_due().await?,
    };
    let next = match due {
        Some(due) if due <= engine.now() => {
            let found = find(engine).await?;
            let floor = if found == 0 { engine.now().after(NO_ROOM_WAIT) } else { Time(0) };
            engine.store.next_due().await?.map(|next| next.max(floor))
        }
        later => later,
    };
    if let Some(next) = next {
        engine.wake.at(next);
    }
    Ok(())
}

/// Claims what is due, as far as there is room. Answers how many rows it took.
async fn find(engine: &Arc<Engine>) -> Result<usize, store::Error> {
    let mut found = 0;
    if let Some(mut room) = room(engine) {
        let limit = room.num_permits();
        for claimed in engine.store.claim_timers(engine.node, engine.now(), limit).await? {
            found += 1;
            deliver_timer(engine, claimed, room.split(1));
        }
    }
    if let Some(mut room) = room(engine) {
        let limit = room.num_permits();
        for claimed in engine.store.claim_signals(engine.node, engine.now(), limit).await? {
            found += 1;
            deliver_signal(engine, claimed, room.split(1)).await;
        }
    }
    let full = engine.calls.full();
    let limit = engine.options.claim_max;
    let calls = engine.store.claim_calls(engine.node, engine.now(), limit, &full).await?;
    let mut unclaimed = BTreeMap::<TenantId, Vec<CallRow>>::new();
    for Claimed { tenant, row } in calls {
        match engine.calls.reserve(&tenant) {
            Some(reservation) => {
                found += 1;
                let hold = engine.held.hold(&tenant, row.key());
                engine.calls.push(tenant, row, reservation, hold);
            }
            None => unclaimed.entry(tenant).or_default().push(row),
        }
    }
    calls::pump(engine);
    if unclaimed.keys().any(|tenant| engine.tenants.standing(tenant).is_parked()) {
        // The store would not have handed them out: this node has missed that they may go on.
        remind(engine).await;
    }
    for (tenant, rows) in unclaimed {
        put_back(engine, &tenant, rows).await;
    }
    Ok(found)
}

/// Calls of a tenant that has no room become backlog again, a little later: the next claim must reach the calls of
/// others behind them.
async fn put_back(engine: &Arc<Engine>, tenant: &TenantId, calls: Vec<CallRow>) {
    let visible_at = engine.now().after(FULL_LANE_WAIT);
    let writes = calls.into_iter().map(|row| Write::RetryCall {
        instance: row.instance,
        token: row.token,
        owner: row.owner,
        visible_at,
        attempt: row.attempt,
        last_error: row.last_error,
    });
    dead_letters::commit_patiently(engine, tenant, writes.collect()).await;
    engine.wake.at(visible_at);
}

/// Room for the turns of one claim; `None` if there is none.
fn room(engine: &Engine) -> Option<OwnedSemaphorePermit> {
    let free = engine.turns.available_permits().min(engine.options.claim_max) as u32;
    engine.turns.clone().try_acquire_many_owned(free).ok().filter(|room| room.num_permits() > 0)
}

fn deliver_timer(engine: &Arc<Engine>, claimed: Claimed<TimerRow>, permit: Option<OwnedSemaphorePermit>) {
    let Claimed { tenant, row } = claimed;
    let hold = Some(engine.held.hold(&tenant, row.key()));
    let work = Work {
        guards: vec![Write::ConsumeTimer { instance: row.instance, token: row.token }],
        permit,
        hold,
        ..Work::new(tenant, row.instance, Command::Timer { token: row.token })
    };
    let fatal = dead_letters::fatal(engine, row.taken_over);
    let mut work = Work { source: Source::Timer(Box::new(row)), ..work };
    match fatal {
        Some(detail) => dead_letters::bury(engine, &mut work, Reason::Poison, &detail),
        None => slots::submit(engine, work),
    }
}
