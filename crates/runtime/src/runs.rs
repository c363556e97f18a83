//! Schedules of workers: a slot is an event for the worker alone, published in the commit that fires the slot.
//!
//! The id of a run derives from tenant, worker and slot; it is the event's id and its own cause, and names a trace of its
//! own. Of one worker and tenant one run at a time is handed out, and one that nobody has begun is replaced by the next.

use crate::{api::Refusal, engine::Engine, refusal, schedules, subscribers::Subscriber, trace};
use machine::{
    Data, TenantId, Time,
    id::{self, Kind},
    ir::{self, When},
    schedule,
    time::Span,
};
use std::sync::Arc;
use store::{
    Commit, Outcome, Write,
    rows::{DeliveryRow, EventRow, ScheduleRow, SlotRow},
};
use uuid::Uuid;
use worker::DUE;

/// Where schedules of workers stand among those of definitions, none of which can have this name.
pub(crate) const NAMESPACE: &str = "windlass.workers";
/// What runs are ordered by, and replaced by; keys that are read from events never look so.
const KEY: &str = "schedule";
/// How long the row of a run's event stays.
const RECORD_SPAN: Span = Span::from_secs(7 * 86_400);
/// How long a schedule waits whose worker nobody knows.
const UNKNOWN_WAIT: Span = Span::from_secs(60);

fn source(worker: &str) -> String {
    format!("windlass/schedules/{worker}")
}

/// Puts the schedule of a worker in line with what is said of it; nothing if it is so already.
pub(crate) async fn put(
    engine: &Engine,
    tenant: &TenantId,
    worker: &str,
    spec: Option<&ir::Schedule>,
) -> Result<Option<Write>, Refusal> {
    let there = engine.store.schedule(tenant, id::schedule(tenant, NAMESPACE, worker)).await;
    let there = there.map_err(refusal::of_store)?;
    let now = engine.now_of(tenant);
    let expected_version = there.as_ref().map_or(0, |row| row.row_version);
    let mut row = match (spec, there.clone()) {
        (None, None) => return Ok(None),
        (None, Some(row)) => {
            let status = "ended".to_owned();
            ScheduleRow { status, next_slot: None, due_at: None, instance: None, ..row }
        }
        (Some(spec), there) => {
            schedules::active(engine, tenant, (NAMESPACE, worker, "1.0.0"), spec, there, now)
        }
    };
    if there.as_ref() == Some(&row) {
        return Ok(None);
    }
    row.row_version = expected_version + 1;
    row.updated_at = now;
    Ok(Some(Write::PutSchedule { schedule: Box::new(row), expected_version }))
}

/// Gives every tenant the schedules of this node's own workers. Another node may do the same at the same time.
pub(crate) async fn put_all(engine: &Engine) -> Result<(), Refusal> {
    let scheduled = engine.subscribers.scheduled();
    if scheduled.is_empty() {
        return Ok(());
    }
    for tenant in engine.store.tenants().await.map_err(refusal::of_store)? {
        put_for(engine, &tenant.id, &scheduled).await?;
    }
    engine.wake.slots.at(engine.now());
    Ok(())
}

/// The same for one tenant.
pub(crate) async fn put_for(
    engine: &Engine,
    tenant: &TenantId,
    scheduled: &[Arc<Subscriber>],
) -> Result<(), Refusal> {
    for one in scheduled {
        if let Some(write) = put(engine, tenant, &one.name, one.terms.schedule.as_ref()).await? {
            let commit = Commit { tenant: tenant.clone(), writes: vec![write] };
            engine.committer.commit(commit).await.map_err(refusal::of_store)?;
        }
    }
    Ok(())
}

/// What is said of the worker's schedule, if anything is.
pub(crate) fn spec(engine: &Engine, tenant: &TenantId, worker: &str) -> Option<ir::Schedule> {
    engine.subscribers.find(tenant, worker)?.terms.schedule.clone()
}

/// Deals with the slots of one worker up to and including the next that fires.
pub(crate) async fn step(
    engine: &Arc<Engine>,
    tenant: &TenantId,
    row: &ScheduleRow,
    now: Time,
) -> Result<(), Refusal> {
    let (Some(spec), Some(next)) = (spec(engine, tenant, &row.name), row.next_slot) else {
        tracing::warn!(%tenant, worker = row.name, "the worker of a schedule is not known here");
        let later = ScheduleRow { due_at: Some(engine.now().after(UNKNOWN_WAIT)), ..row.clone() };
        return schedules::change(engine, tenant, row, later, vec![]).await.map(drop);
    };
    let plan = schedule::plan(&spec, row.anchor, next, now);
    let dealt_with = plan.fire.or(plan.passed.last().map(|passed| passed.at));
    let mut after = ScheduleRow {
        last_slot: dealt_with.or(row.last_slot),
        next_slot: plan.next,
        due_at: plan.next.map(|next| engine.real(tenant, next)),
        ..row.clone()
    };
    let slot = |at, outcome: &str, count, instance| {
        let (outcome, late) = (outcome.to_owned(), now.since(at));
        Write::Slot(SlotRow {
            schedule: row.id,
            slot: at,
            outcome,
            count,
            instance,
            late,
            at: now,
            detail: None,
        })
    };
    let mut writes: Vec<Write> =
        plan.passed.iter().map(|one| slot(one.at, one.fate.word(), one.count, None)).collect();
    if let Some(fired) = plan.fire {
        let run = id::started_by(row.id, fired);
        if matches!(spec.when, When::After(_)) {
            after.instance = Some(run);
        }
        writes.push(slot(fired, "fired", 1, Some(run)));
        writes.extend(begin(engine, tenant, &row.name, run, fired));
    }
    if schedules::change(engine, tenant, row, after, writes).await? {
        due(engine);
    }
    Ok(())
}

/// Runs a worker now, beside whatever its schedule does. Answers the run.
pub(crate) async fn trigger(
    engine: &Arc<Engine>,
    tenant: &TenantId,
    row: &ScheduleRow,
) -> Result<Uuid, Refusal> {
    let now = engine.now_of(tenant);
    let run = id::started_by(row.id, now);
    let (outcome, instance) = ("triggered".to_owned(), Some(run));
    let slot = SlotRow {
        schedule: row.id,
        slot: now,
        outcome,
        count: 1,
        instance,
        late: Span::ZERO,
        at: now,
        detail: None,
    };
    let mut writes = vec![Write::Slot(slot)];
    writes.extend(begin(engine, tenant, &row.name, run, now));
    let commit = Commit { tenant: tenant.clone(), writes };
    match engine.committer.commit(commit).await.map_err(refusal::of_store)? {
        Outcome::Committed => {
            due(engine);
            Ok(run)
        }
        other => Err(Refusal::Unavailable(format!("{other:?}"))),
    }
}

fn due(engine: &Engine) {
    engine.wake.deliveries.at(engine.now());
    engine.backlog();
}

/// The event of a run and its delivery.
fn begin(engine: &Engine, tenant: &TenantId, worker: &str, run: Uuid, slot: Time) -> [Write; 2] {
    let now = engine.now();
    let shown = id::show(Kind::Event, run);
    let text = |name: &str, value: String| (name.to_owned(), Data::text(value));
    let event = Data::map([
        text("specversion", "1.0".to_owned()),
        text("id", shown.clone()),
        text("source", source(worker)),
        text("type", DUE.to_owned()),
        text("subject", worker.to_owned()),
        text("time", slot.rfc3339()),
        text("tenantid", tenant.as_str().to_owned()),
        text("causationid", shown.clone()),
        text("traceparent", trace::child(None, run, &shown)),
        text("datacontenttype", "application/json".to_owned()),
        (
            "data".to_owned(),
            Data::map([
                text("worker", worker.to_owned()),
                text("slot", slot.rfc3339()),
                text("run", shown.clone()),
            ]),
        ),
    ]);
    let traced = trace::traced(&event);
    let event = EventRow {
        id: run,
        source: source(worker),
        event_id: shown,
        event_type: DUE.to_owned(),
        received_at: engine.now_of(tenant),
        visible_at: now,
        kept_until: None,
        expires_at: now.after(RECORD_SPAN),
        told: 0,
        taken: 0,
        started: 0,
        collected: 0,
        delivered: 1,
        emitted_by: None,
        traced: traced.clone(),
        event: event.to_bytes(),
    };
    let delivery = DeliveryRow {
        id: engine.entropy.id(now),
        worker: worker.to_owned(),
        events: [run].into_iter().collect(),
        order_key: Some(KEY.to_owned()),
        created_at: now,
        visible_at: now,
        attempt: 0,
        last_error: None,
        owner: None,
        taken_over: 0,
        traced,
    };
    let delivery = Write::Debounce { row: Box::new(delivery), key: KEY.to_owned(), until: now };
    [Write::Publish(Box::new(event)), delivery]
}

/// What the end of a run means for a schedule whose next run follows it.
pub(crate) fn follows(
    engine: &Engine,
    tenant: &TenantId,
    worker: &str,
    spec: &ir::Schedule,
    run: Uuid,
    event: &Data,
) -> Option<Write> {
    let When::After(span) = spec.when else { return None };
    let is_run = event.get("source").as_ref().and_then(Data::as_str) == Some(source(worker).as_str());
    is_run.then(|| {
        let next_slot = engine.now_of(tenant).after(span);
        let due_at = engine.real(tenant, next_slot);
        Write::ScheduleFollows {
            id: id::schedule(tenant, NAMESPACE, worker),
            instance: run,
            next_slot,
            due_at,
        }
    })
}
