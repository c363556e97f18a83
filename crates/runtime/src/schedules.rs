//! Schedules: which one follows a deployed definition, the pump that fires slots, and what operators do with them.
//!
//! A slot fires in one commit: the schedule's row (guarded by its version), the ledger's row (one per slot) and the
//! instance, whose id derives from schedule and slot. Any node may try; one commit lands.

use crate::{
    api::{DefinitionRef, Refusal},
    clocks,
    definitions::Missing,
    engine::Engine,
    events,
    outage::Outage,
    refusal, runs,
    starts::{self, Beginning},
};
use machine::{
    Data, Program, TenantId, Time, id,
    ir::{self, Missed, When},
    language,
    schedule::{self, Plan},
    time::Span,
};
use std::sync::Arc;
use store::{
    Commit, Outcome, Write,
    rows::{Claimed, ScheduleRow, SlotRow, Subscriber},
};
use uuid::Uuid;

/// Schedules fired at once; with more due the next batch follows at once.
const BATCH_MAX: usize = 64;
/// How long the pump waits when the store does not answer, and a schedule whose definition cannot be used.
const STORE_WAIT: Span = Span::from_millis(500);
const BROKEN_WAIT: Span = Span::from_secs(60);
/// Times a change is tried again when somebody else changed the schedule meanwhile.
const TRIES_MAX: usize = 8;

/// Sleeps until the next slot of any schedule, fires what is due, and begins again.
pub(crate) async fn run(engine: Arc<Engine>) {
    let stopping = engine.tasks.stopping.clone();
    engine.wake.slots.at(engine.now());
    let mut outage = Outage::new("looking for due schedules");
    while !stopping.is_cancelled() {
        let until = engine.wake.slots.next();
        if engine.now() < until {
            tokio::select! {
                biased;
                () = stopping.cancelled() => return,
                () = engine.wake.slots.sooner() => {}
                () = engine.clock.sleep_until(until) => {}
            }
            continue;
        }
        engine.wake.slots.reset();
        match fire_due(&engine).await {
            Ok(()) => drop(outage.worked()),
            Err(error) => {
                engine.tasks.heed(&error);
                outage.failed(&error);
                engine.wake.slots.at(engine.now().after(STORE_WAIT));
            }
        }
    }
}

async fn fire_due(engine: &Arc<Engine>) -> Result<(), store::Error> {
    match engine.store.next_slot_due().await? {
        Some(due) if due <= engine.now() => {}
        Some(later) => {
            engine.wake.slots.at(later);
            return Ok(());
        }
        None => return Ok(()),
    }
    let due = engine.store.due_schedules(engine.now(), BATCH_MAX).await?;
    let fired = due.into_iter().map(|Claimed { tenant, row }| async move {
        match step(engine, &tenant, &row).await {
            Ok(()) => false,
            Err(refusal) => {
                tracing::warn!(%tenant, schedule = %row.id, %refusal, "a schedule waits");
                true
            }
        }
    });
    let waits = futures_util::future::join_all(fired).await.contains(&true);
    if let Some(next) = engine.store.next_slot_due().await? {
        let floor = if waits { engine.now().after(STORE_WAIT) } else { Time(0) };
        engine.wake.slots.at(next.max(floor));
    }
    Ok(())
}

/// Deals with the slots of one schedule up to and including the next that fires.
async fn step(engine: &Arc<Engine>, tenant: &TenantId, row: &ScheduleRow) -> Result<(), Refusal> {
    if row.namespace == runs::NAMESPACE {
        let now = now_for(engine, tenant, row).await?;
        return runs::step(engine, tenant, row, now).await;
    }
    let program = match engine.definitions.exact(tenant, &row.namespace, &row.name, &row.version).await {
        Ok(program) => program,
        Err(Missing::Store(error)) => return Err(refusal::of_store(error)),
        // It stays due, for nodes of the build that compiled it.
        Err(Missing::Newer(detail)) => return Err(Refusal::Unavailable(detail)),
        Err(Missing::Unknown | Missing::Unusable(_)) => {
            tracing::warn!(%tenant, schedule = %row.id, "the schedule's definition cannot be used");
            let later = ScheduleRow { due_at: Some(engine.now().after(BROKEN_WAIT)), ..row.clone() };
            return settled(change(engine, tenant, row, later, vec![]).await);
        }
    };
    let (Some(spec), Some(next)) = (&program.ir.schedule, row.next_slot) else { return Ok(()) };
    let now = now_for(engine, tenant, row).await?;
    let plan = schedule::plan(spec, row.anchor, next, now);
    let fire = Fire { engine, tenant, row, program: &program, now };
    fire.go(spec, &plan).await
}

/// The tenant's time. What the store holds for due and is not: the clock was moved, and this node is about to hear of it.
async fn now_for(engine: &Engine, tenant: &TenantId, row: &ScheduleRow) -> Result<Time, Refusal> {
    if row.next_slot.is_some_and(|next| next > engine.now_of(tenant)) {
        clocks::reload(engine).await.map_err(refusal::of_store)?;
    }
    Ok(engine.now_of(tenant))
}

/// A plan about to be carried out.
struct Fire<'a> {
    engine: &'a Arc<Engine>,
    tenant: &'a TenantId,
    row: &'a ScheduleRow,
    program: &'a Arc<Program>,
    now: Time,
}

impl Fire<'_> {
    async fn go(&self, spec: &ir::Schedule, plan: &Plan) -> Result<(), Refusal> {
        let Fire { engine, tenant, row, now, .. } = *self;
        let dealt_with = plan.fire.or(plan.passed.last().map(|passed| passed.at));
        let mut after = ScheduleRow {
            last_slot: dealt_with.or(row.last_slot),
            next_slot: plan.next,
            due_at: plan.next.map(|next| engine.real(tenant, next)),
            ..row.clone()
        };
        let passed: Vec<Write> = plan
            .passed
            .iter()
            .map(|passed| self.slot(passed.at, passed.fate.word(), passed.count, None, None))
            .collect();
        let Some(slot) = plan.fire else {
            return settled(change(engine, tenant, row, after, passed).await);
        };
        let instance = id::started_by(row.id, slot);
        if matches!(spec.when, When::After(_)) {
            after.instance = Some(instance);
        }
        let failed = after.clone();
        let mut guards = vec![put(row, after, now)];
        guards.extend(passed.iter().cloned());
        guards.push(self.slot(slot, "fired", 1, Some(instance), None));
        let beginning =
            Beginning { program: self.program.clone(), id: instance, input: Data::object(), guards, now };
        match starts::begin(engine, tenant, beginning).await {
            Ok(_) => Ok(()),
            // Another node was faster, or somebody changed the schedule: look again.
            Err(Refusal::Conflict { code: "conflict" | "instance-exists", .. }) => Ok(()),
            Err(Refusal::Conflict { detail, .. } | Refusal::Invalid { detail, .. }) => {
                let mut writes = passed;
                writes.push(self.slot(slot, "failed", 1, None, Some(detail)));
                // What would follow the instance's end follows the failed slot instead.
                let next = match spec.when {
                    When::After(span) => Some(now.after(span)),
                    _ => failed.next_slot,
                };
                let due_at = next.map(|next| engine.real(tenant, next));
                let after = ScheduleRow { instance: None, next_slot: next, due_at, ..failed };
                settled(change(engine, tenant, row, after, writes).await)
            }
            Err(refusal) => Err(refusal),
        }
    }

    fn slot(
        &self,
        at: Time,
        outcome: &str,
        count: u64,
        instance: Option<Uuid>,
        detail: Option<String>,
    ) -> Write {
        Write::Slot(SlotRow {
            schedule: self.row.id,
            slot: at,
            outcome: outcome.to_owned(),
            count,
            instance,
            late: self.now.since(at),
            at: self.now,
            detail,
        })
    }
}

fn put(before: &ScheduleRow, mut after: ScheduleRow, now: Time) -> Write {
    after.row_version = before.row_version + 1;
    after.updated_at = now;
    Write::PutSchedule { schedule: Box::new(after), expected_version: before.row_version }
}

/// Commits a change of the schedule's row. `false` if somebody else changed it meanwhile.
pub(crate) async fn change(
    engine: &Arc<Engine>,
    tenant: &TenantId,
    before: &ScheduleRow,
    after: ScheduleRow,
    also: Vec<Write>,
) -> Result<bool, Refusal> {
    let due_at = after.due_at;
    let mut writes = vec![put(before, after, engine.now_of(tenant))];
    writes.extend(also);
    let committed = engine.committer.commit(Commit { tenant: tenant.clone(), writes }).await;
    match committed.map_err(refusal::of_store)? {
        Outcome::Committed => {
            if let Some(due_at) = due_at {
                engine.wake.slots.at(due_at);
            }
            Ok(true)
        }
        Outcome::Conflict(_) => Ok(false),
        Outcome::Rejected(detail) => {
            Err(Refusal::Invalid { code: "refused-by-store", detail, problems: vec![] })
        }
    }
}

/// For the pump a lost race is as good as a won one: the row is read again.
fn settled(changed: Result<bool, Refusal>) -> Result<(), Refusal> {
    changed.map(drop)
}

/// What deploying this version changes about the schedule of its name, to be written with the definition. The newest
/// version counts: an older one changes nothing, a newest one without a schedule ends it.
pub(crate) async fn deployed(
    engine: &Engine,
    tenant: &TenantId,
    program: &Program,
) -> Result<Vec<Write>, store::Error> {
    let ir = &program.ir;
    let schedule_id = id::schedule(tenant, &ir.namespace, &ir.name);
    let there = engine.store.schedule(tenant, schedule_id).await?;
    if there.is_none() && ir.schedule.is_none() {
        return Ok(vec![]);
    }
    let versions = engine.store.versions(tenant, &ir.namespace, &ir.name).await?;
    if versions.iter().any(|other| store::by_preference(&other.version, &ir.version).is_gt()) {
        return Ok(vec![]);
    }
    let now = engine.now_of(tenant);
    let expected_version = there.as_ref().map_or(0, |row| row.row_version);
    let collects_anew = match &there {
        Some(row) if row.kind == "on" => !says_the_same(engine, tenant, row, ir).await?,
        _ => false,
    };
    let mut row = match (&ir.schedule, there) {
        (None, None) => return Ok(vec![]),
        (None, Some(row)) => {
            let version = ir.version.clone();
            let status = "ended".to_owned();
            ScheduleRow { version, status, next_slot: None, due_at: None, instance: None, ..row }
        }
        (Some(spec), there) => active(
            engine,
            tenant,
            (ir.namespace.as_str(), ir.name.as_str(), ir.version.as_str()),
            spec,
            there,
            now,
        ),
    };
    row.row_version = expected_version + 1;
    row.updated_at = now;
    let (subscriber, schedule) = (Subscriber::Schedule { id: schedule_id }, Box::new(row));
    let mut writes = vec![Write::PutSchedule { schedule, expected_version }];
    let wants = events::wanted_types(program);
    writes.push(match wants.is_empty() {
        true => Write::Unsubscribe { subscriber },
        false => Write::Subscribe { subscriber, wants, now, visible_at: engine.now() },
    });
    if collects_anew {
        writes.push(Write::ResetCollection { schedule: schedule_id });
    }
    Ok(writes)
}

/// True if the version that the schedule followed so far wants the same events: what it collected stays.
async fn says_the_same(
    engine: &Engine,
    tenant: &TenantId,
    row: &ScheduleRow,
    ir: &ir::Workflow,
) -> Result<bool, store::Error> {
    match engine.definitions.exact(tenant, &row.namespace, &row.name, &row.version).await {
        Ok(before) => Ok(language::schedule(&before.ir) == language::schedule(ir)),
        Err(Missing::Store(error)) => Err(error),
        Err(Missing::Unknown | Missing::Unusable(_) | Missing::Newer(_)) => Ok(false),
    }
}

/// The row of a schedule that follows this version. One that says the same as before goes on where it was.
pub(crate) fn active(
    engine: &Engine,
    tenant: &TenantId,
    (namespace, name, version): (&str, &str, &str),
    spec: &ir::Schedule,
    there: Option<ScheduleRow>,
    now: Time,
) -> ScheduleRow {
    let fresh = ScheduleRow {
        id: id::schedule(tenant, namespace, name),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        version: version.to_owned(),
        kind: spec.kind().to_owned(),
        spec: shown(&spec.when),
        time_zone: spec.time_zone.clone().unwrap_or_else(|| "UTC".to_owned()),
        missed: shown_missed(spec.missed),
        status: "active".to_owned(),
        anchor: now,
        last_slot: None,
        next_slot: None,
        due_at: None,
        instance: None,
        row_version: 1,
        created_at: now,
        updated_at: now,
    };
    let mut row = match there {
        None => fresh,
        Some(old) => {
            let same = (&old.kind, &old.spec, &old.time_zone) == (&fresh.kind, &fresh.spec, &fresh.time_zone);
            if same && old.status != "ended" {
                return ScheduleRow { version: fresh.version, missed: fresh.missed, ..old };
            }
            let status = if old.status == "paused" { old.status } else { fresh.status };
            ScheduleRow { status, last_slot: old.last_slot, created_at: old.created_at, ..fresh }
        }
    };
    if row.status == "active" {
        row.next_slot = schedule::first(spec, now);
        row.due_at = row.next_slot.map(|next| engine.real(tenant, next));
    }
    row
}

fn shown(when: &When) -> String {
    match when {
        When::Cron(text) => text.clone(),
        When::Every(span) | When::After(span) => shown_span(*span),
        When::On(strategy) => {
            let types =
                strategy.filters.iter().flat_map(|filter| &filter.with).filter(|(name, _)| name == "type");
            let shown = types.map(|(_, value)| match value {
                ir::Template::Literal(value) => value.to_text(),
                _ => "*".to_owned(),
            });
            shown.collect::<Vec<_>>().join(", ")
        }
    }
}

fn shown_missed(missed: Missed) -> String {
    match missed {
        Missed::All => "all".to_owned(),
        Missed::Latest => "latest".to_owned(),
        Missed::Skip => "skip".to_owned(),
        Missed::Window(span) => format!("window {}", shown_span(span)),
    }
}

/// ISO 8601, exact to the millisecond.
fn shown_span(span: Span) -> String {
    let (seconds, millis) = (span.0 / 1_000_000, span.0 / 1000 % 1000);
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    let mut text = "P".to_owned();
    if days > 0 {
        text += &format!("{days}D");
    }
    let time = [(hours, "H"), (minutes, "M")]
        .iter()
        .filter(|(n, _)| *n > 0)
        .fold(String::new(), |text, (n, unit)| text + &format!("{n}{unit}"));
    let rest = match (seconds % 60, millis) {
        (0, 0) => String::new(),
        (seconds, 0) => format!("{seconds}S"),
        (seconds, millis) => format!("{seconds}.{millis:03}S"),
    };
    if !(time.is_empty() && rest.is_empty()) || days == 0 {
        text += &format!("T{time}{rest}");
    }
    text
}

/// What an operator does with a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScheduleOrder {
    Pause,
    Resume,
}

pub(crate) async fn order(
    engine: &Arc<Engine>,
    tenant: &TenantId,
    schedule: Uuid,
    order: ScheduleOrder,
) -> Result<ScheduleRow, Refusal> {
    for _ in 0..TRIES_MAX {
        let (row, spec) = known(engine, tenant, schedule).await?;
        let after = match (order, row.status.as_str()) {
            (ScheduleOrder::Pause, "paused") | (ScheduleOrder::Resume, "active") => return Ok(row),
            (_, "ended") => return Err(ended()),
            (ScheduleOrder::Pause, _) => {
                ScheduleRow { status: "paused".to_owned(), due_at: None, ..row.clone() }
            }
            (ScheduleOrder::Resume, _) => resumed(engine, tenant, spec.as_ref(), &row),
        };
        let mut shown = after.clone();
        if change(engine, tenant, &row, after, vec![]).await? {
            shown.row_version = row.row_version + 1;
            return Ok(shown);
        }
    }
    Err(Refusal::Busy)
}

/// Slots of the pause are gone; what waits for an end goes on where it was.
fn resumed(
    engine: &Engine,
    tenant: &TenantId,
    spec: Option<&ir::Schedule>,
    row: &ScheduleRow,
) -> ScheduleRow {
    let now = engine.now_of(tenant);
    let next_slot = spec.and_then(|spec| match spec.when {
        When::After(span) if row.instance.is_none() => Some(row.next_slot.unwrap_or(now.after(span))),
        When::After(_) => None,
        _ => schedule::after(spec, row.anchor, now),
    });
    let due_at = next_slot.map(|next| engine.real(tenant, next));
    ScheduleRow { status: "active".to_owned(), next_slot, due_at, ..row.clone() }
}

/// Starts an instance now, beside whatever the schedule does. Answers the instance.
pub(crate) async fn trigger(
    engine: &Arc<Engine>,
    tenant: &TenantId,
    schedule: Uuid,
) -> Result<Uuid, Refusal> {
    let (row, _) = known(engine, tenant, schedule).await?;
    if row.status == "ended" {
        return Err(ended());
    }
    if row.namespace == runs::NAMESPACE {
        return runs::trigger(engine, tenant, &row).await;
    }
    let (_, program) = load(engine, tenant, schedule).await?;
    let now = engine.now_of(tenant);
    let instance = id::started_by(schedule, now);
    let slot = SlotRow {
        schedule,
        slot: now,
        outcome: "triggered".to_owned(),
        count: 1,
        instance: Some(instance),
        late: Span::ZERO,
        at: now,
        detail: None,
    };
    let input = match program.ir.schedule.as_ref().map(|spec| &spec.when) {
        Some(When::On(_)) => Data::array([]),
        _ => Data::object(),
    };
    let beginning = Beginning { program, id: instance, input, guards: vec![Write::Slot(slot)], now };
    starts::begin(engine, tenant, beginning).await.map(|started| started.id)
}

/// A schedule and what is said of it.
async fn known(
    engine: &Engine,
    tenant: &TenantId,
    schedule: Uuid,
) -> Result<(ScheduleRow, Option<ir::Schedule>), Refusal> {
    let row = engine.store.schedule(tenant, schedule).await.map_err(refusal::of_store)?;
    match row {
        Some(row) if row.namespace == runs::NAMESPACE => {
            let spec = runs::spec(engine, tenant, &row.name);
            Ok((row, spec))
        }
        _ => load(engine, tenant, schedule).await.map(|(row, program)| (row, program.ir.schedule.clone())),
    }
}

pub(crate) async fn load(
    engine: &Engine,
    tenant: &TenantId,
    schedule: Uuid,
) -> Result<(ScheduleRow, Arc<Program>), Refusal> {
    let row = engine.store.schedule(tenant, schedule).await.map_err(refusal::of_store)?;
    let row = row.ok_or_else(|| Refusal::NotFound("schedule".to_owned()))?;
    let definition = DefinitionRef {
        namespace: row.namespace.clone(),
        name: row.name.clone(),
        version: Some(row.version.clone()),
    };
    let program = engine.definitions.resolve(tenant, &definition).await?;
    Ok((row, program))
}

/// The next times, at most `count`, of a schedule that is active.
pub(crate) async fn upcoming(
    engine: &Engine,
    tenant: &TenantId,
    schedule: Uuid,
    count: usize,
) -> Result<Vec<Time>, Refusal> {
    let (row, spec) = known(engine, tenant, schedule).await?;
    let mut times = Vec::new();
    let mut next = row.next_slot.filter(|_| row.status == "active");
    while let (Some(slot), Some(spec)) = (next.filter(|_| times.len() < count), &spec) {
        times.push(slot);
        next = schedule::after(spec, row.anchor, slot);
    }
    Ok(times)
}

fn ended() -> Refusal {
    let detail = "the newest version of the definition has no schedule".to_owned();
    Refusal::Conflict { code: "schedule-ended", detail, existing: None }
}
