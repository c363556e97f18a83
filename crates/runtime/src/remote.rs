//! Workers of a tenant that are somewhere else: declared once, they ask for deliveries, and answer with the number of the
//! attempt as their claim.
//!
//! A delivery that was asked for is out of sight until its time is over, and stays nobody's: whoever does not answer or
//! say that it goes on loses it, and an answer to an attempt that is not the last is refused.

use crate::{
    api::{Declared, Lent, Refusal},
    deliveries::{
        self, once,
        settle::{Settled, Settling},
        watermarks,
    },
    engine::Engine,
    guards::{self, Blocked, Target},
    newer, refusal, runs, spans, subscribers,
};
use machine::{Data, TenantId, Time, time::Span};
use std::{collections::HashMap, sync::Arc, time::Duration};
use store::{
    Commit, Conflict, Hint, Outcome, Write,
    rows::{DeliveryRow, Loan, WorkerRow},
};
use uuid::Uuid;
use worker::{Delivery, Handled};

/// How often who waits looks again, whatever it is told.
const LOOK_EVERY: Span = Span::from_secs(5);
/// The same while something is due that cannot be handed out yet.
const BLOCKED_LOOK_EVERY: Span = Span::from_millis(500);
/// Tries to declare a worker that somebody else changes at the same time.
const TRIES_MAX: usize = 8;

/// Makes or changes a worker. `true` if it is new.
pub(crate) async fn declare(
    engine: &Engine,
    tenant: &TenantId,
    name: &str,
    declared: &Declared,
) -> Result<bool, Refusal> {
    if let Some(detail) = problem(name, declared) {
        return Err(Refusal::Invalid { code: "invalid-value", detail, problems: vec![] });
    }
    if engine.subscribers.worker(name).is_some() {
        let detail = format!("`{name}` is a worker of the server itself; take another name");
        return Err(Refusal::Conflict { code: "worker-exists", detail, existing: None });
    }
    for _ in 0..TRIES_MAX {
        let before = find(engine, tenant, name).await?;
        let (now, expected_version) = (engine.now(), before.as_ref().map_or(0, |row| row.row_version));
        let row = WorkerRow {
            name: name.to_owned(),
            declaration: newer::rewritten(before.as_ref(), declared),
            row_version: expected_version + 1,
            created_at: before.map_or(now, |row| row.created_at),
            updated_at: now,
        };
        let mut writes = vec![Write::PutWorker { row, expected_version }];
        writes.extend(runs::put(engine, tenant, name, declared.terms().schedule.as_ref()).await?);
        match commit(engine, tenant, writes).await? {
            Outcome::Conflict(Conflict::Version) => {}
            Outcome::Committed => {
                changed(engine).await?;
                engine.wake.slots.at(engine.now());
                return Ok(expected_version == 0);
            }
            other => return Err(Refusal::Unavailable(format!("{other:?}"))),
        }
    }
    Err(Refusal::Busy)
}

/// What is wrong with a name, if anything.
pub(crate) fn name_problem(name: &str) -> Option<String> {
    let is_name = (1..=100).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    (!is_name).then(|| "a name has 1 to 100 letters, digits, `-`, `_` or `.`".to_owned())
}

/// What is wrong with the types of events that are wanted, if anything.
pub(crate) fn types_problem(types: &[String]) -> Option<String> {
    let is_type = |kind: &String| {
        (1..=1024).contains(&kind.len()) && !kind.trim_end_matches('*').contains('*') && !kind.ends_with("**")
    };
    match () {
        () if !(1..=100).contains(&types.len()) => Some("`types` names 1 to 100 types of events".to_owned()),
        () if !types.iter().all(is_type) => {
            Some("a type has 1 to 1024 bytes, and a `*` only at its end".to_owned())
        }
        () => None,
    }
}

/// What is wrong with a declaration, if anything.
fn problem(name: &str, declared: &Declared) -> Option<String> {
    name_problem(name).or_else(|| declared.problem())
}

pub(crate) async fn find(
    engine: &Engine,
    tenant: &TenantId,
    name: &str,
) -> Result<Option<WorkerRow>, Refusal> {
    let all = engine.store.workers().await.map_err(refusal::of_store)?;
    Ok(all.into_iter().find(|one| one.tenant == *tenant && one.row.name == name).map(|one| one.row))
}

/// The workers that a tenant has declared.
pub(crate) async fn declared(
    engine: &Engine,
    tenant: &TenantId,
) -> Result<Vec<(WorkerRow, Declared)>, Refusal> {
    let all = engine.store.workers().await.map_err(refusal::of_store)?;
    let own = all.into_iter().filter(|one| one.tenant == *tenant).map(|one| one.row);
    let own = own.filter(|row| crate::webhooks::name_of(&row.name).is_none());
    Ok(own.filter_map(|row| Some((row.clone(), serde_json::from_slice(&row.declaration).ok()?))).collect())
}

/// Events of its types are not delivered to it from now on. What was delivered waits for a worker of that name.
pub(crate) async fn forget(engine: &Engine, tenant: &TenantId, name: &str) -> Result<(), Refusal> {
    let mut writes = vec![Write::DeleteWorker { name: name.to_owned() }];
    writes.extend(runs::put(engine, tenant, name, None).await?);
    match commit(engine, tenant, writes).await? {
        Outcome::Committed => changed(engine).await,
        Outcome::Conflict(Conflict::Gone) => Err(Refusal::NotFound("worker".to_owned())),
        other => Err(Refusal::Unavailable(format!("{other:?}"))),
    }
}

pub(crate) async fn changed(engine: &Engine) -> Result<(), Refusal> {
    subscribers::reload(engine).await.map_err(refusal::of_store)?;
    engine.hints.tell(Hint { clocks: true, ..Hint::default() });
    Ok(())
}

pub(crate) async fn commit(
    engine: &Engine,
    tenant: &TenantId,
    writes: Vec<Write>,
) -> Result<Outcome, Refusal> {
    let commit = Commit { tenant: tenant.clone(), writes };
    engine.committer.commit(commit).await.map_err(refusal::of_store)
}

/// Deliveries for a worker, waiting for the first if there is none. Nothing when the time is over.
pub(crate) async fn poll(
    engine: &Arc<Engine>,
    tenant: &TenantId,
    name: &str,
    limit: usize,
    wait: Duration,
) -> Result<Vec<Lent>, Refusal> {
    let unknown = || Refusal::NotFound(format!("worker `{name}`"));
    let declared = engine.subscribers.declared(tenant, name).ok_or_else(unknown)?;
    let until = engine.now().after(Span::from_millis(i64::try_from(wait.as_millis()).unwrap_or(i64::MAX)));
    loop {
        // Before looking: what comes between the look and the wait is heard.
        let told = engine.polled.notified();
        let now = engine.now();
        engine.polls.asked(tenant, name, now);
        let loan = Loan {
            worker: name.to_owned(),
            now,
            until: now.after(Span::from_secs(declared.lease_seconds.into())),
            limit,
            pace: subscribers::pace(&declared.terms()),
            lent_max: declared.concurrency_max.map(|max| max as usize),
        };
        let (loan, blocked_until) = within_breaker(engine, tenant, loan);
        let lent = match blocked_until {
            None => engine.store.lend(tenant, &loan).await.map_err(refusal::of_store)?,
            Some(_) => vec![],
        };
        let lent = within_budget(engine, tenant, name, lent).await?;
        let lent = without_exhausted(engine, tenant, &declared, lent).await?;
        let lent = with_events(engine, tenant, name, lent).await?;
        let lent = without_foreign(engine, tenant, name, lent).await?;
        let lent = without_done(engine, tenant, lent).await?;
        if !lent.is_empty() || now >= until {
            lent.iter().for_each(|one| engine.polls.lent(one.id, one.attempt, now));
            return Ok(lent);
        }
        let due = engine.store.next_delivery(&[name.to_owned()]).await.map_err(refusal::of_store)?;
        let look_at = match due {
            // What is due and was not lent waits for another of its key, or is another tenant's.
            Some(due) if due <= now => now.after(BLOCKED_LOOK_EVERY),
            Some(due) => due.min(now.after(LOOK_EVERY)),
            None => now.after(LOOK_EVERY),
        };
        let look_at = blocked_until.unwrap_or(look_at).max(now.after(Span::from_millis(1))).min(until);
        tokio::select! {
            biased;
            () = engine.tasks.stopping.cancelled() => return Ok(vec![]),
            () = told => {}
            () = engine.clock.sleep_until(look_at) => {}
        }
    }
}

/// While the worker's breaker is open nothing is lent; when a probe is due, one.
fn within_breaker(engine: &Engine, tenant: &TenantId, loan: Loan) -> (Loan, Option<Time>) {
    let state = engine.guards.state(tenant, &Target::worker(&loan.worker));
    match state.map(|state| (state.word, state.until)) {
        Some(("open", Some(until))) if loan.now < until => (loan, Some(until)),
        Some(("open", _)) => (Loan { limit: 1, ..loan }, None),
        Some(("half-open", _)) => {
            let later = loan.now.after(BLOCKED_LOOK_EVERY);
            (loan, Some(later))
        }
        _ => (loan, None),
    }
}

/// Those that may be attempted now: what is lent while the breaker is half open is its probe, and a retry for which the
/// budget has nothing left goes back for later, its attempt not counted.
async fn within_budget(
    engine: &Arc<Engine>,
    tenant: &TenantId,
    name: &str,
    lent: Vec<DeliveryRow>,
) -> Result<Vec<DeliveryRow>, Refusal> {
    let (target, now) = (Target::worker(name), engine.now());
    let (mut rest, mut writes) = (Vec::with_capacity(lent.len()), Vec::new());
    for row in lent {
        // It was counted when it was lent.
        let is_retry = row.attempt > 1;
        let Err(blocked) = engine.guards.admit(tenant, &target, is_retry, now, || engine.entropy.unit())
        else {
            rest.push(row);
            continue;
        };
        let Blocked { until, why } = blocked;
        writes.push(Write::ExtendDelivery { id: row.id, attempt: row.attempt, visible_at: until });
        writes.push(Write::RetryDelivery {
            id: row.id,
            owner: None,
            visible_at: until,
            attempt: row.attempt - 1,
            last_error: Some(why.into_bytes()),
        });
    }
    if !writes.is_empty() {
        // Nobody else has them yet; if this fails they come back when their time is over.
        commit(engine, tenant, writes).await?;
    }
    Ok(rest)
}

/// Those that may be tried once more. A delivery whose last attempt was never answered is given up.
async fn without_exhausted(
    engine: &Arc<Engine>,
    tenant: &TenantId,
    declared: &Declared,
    lent: Vec<DeliveryRow>,
) -> Result<Vec<DeliveryRow>, Refusal> {
    let is_exhausted = |row: &DeliveryRow| row.attempt > declared.attempts_max;
    let (exhausted, rest): (Vec<_>, Vec<_>) = lent.into_iter().partition(is_exhausted);
    for row in exhausted {
        let unanswered = vec![Handled::retry("the worker did not answer in time")];
        match end(engine, tenant, (row.id, row.attempt), unanswered).await {
            Ok(()) | Err(Refusal::Conflict { .. }) => {}
            Err(refusal) => return Err(refusal),
        }
    }
    Ok(rest)
}

async fn with_events(
    engine: &Engine,
    tenant: &TenantId,
    worker: &str,
    lent: Vec<DeliveryRow>,
) -> Result<Vec<Lent>, Refusal> {
    let ids: Vec<Uuid> = lent.iter().flat_map(|row| row.events.iter()).collect();
    if ids.is_empty() {
        return Ok(vec![]);
    }
    let subscriber = engine.subscribers.find(tenant, worker);
    let domain_key = |event: &[u8]| {
        let subscriber = subscriber.as_ref().filter(|one| one.terms.key_by.is_some())?;
        subscriber.domain_key(&Data::parse(event).ok()?)
    };
    let names = subscriber.as_ref().map(|one| one.terms.watermarks.as_slice()).unwrap_or_default();
    let watermarks = watermarks::read(engine, tenant, worker, names).await.map_err(refusal::of_store)?;
    let events = engine.store.events_of(tenant, &ids).await.map_err(refusal::of_store)?;
    let events: HashMap<Uuid, Vec<u8>> = events.into_iter().map(|row| (row.id, row.event)).collect();
    let of_row = |row: DeliveryRow| {
        let events: Vec<(Uuid, Vec<u8>)> =
            row.events.iter().filter_map(|id| Some((id, events.get(&id)?.clone()))).collect();
        let domain_keys = events.iter().map(|(_, event)| domain_key(event)).collect();
        let watermarks = watermarks.clone();
        let traceparent = |(id, event): &(Uuid, Vec<u8>)| {
            deliveries::traceparent_of(
                &Data::parse(event).unwrap_or_default(),
                *id,
                &deliveries::key_of(*id, worker),
            )
        };
        let traceparents = events.iter().map(traceparent).collect();
        Lent {
            events,
            domain_keys,
            traceparents,
            watermarks,
            id: row.id,
            attempt: row.attempt,
            until: row.visible_at,
        }
    };
    Ok(lent.into_iter().map(of_row).collect())
}

/// Those whose events may be handed over. One that names another tenant is given up, and others of its delivery come again
/// without it.
async fn without_foreign(
    engine: &Arc<Engine>,
    tenant: &TenantId,
    worker: &str,
    lent: Vec<Lent>,
) -> Result<Vec<Lent>, Refusal> {
    let mut rest = Vec::with_capacity(lent.len());
    for one in lent {
        let events: Vec<Data> =
            one.events.iter().map(|(_, event)| Data::parse(event).unwrap_or_default()).collect();
        if events.iter().all(|event| deliveries::is_of(tenant, event)) {
            rest.push(one);
            continue;
        }
        let answers = events.iter().map(|event| match deliveries::is_of(tenant, event) {
            true => Handled::retry("it came with an event that names another tenant"),
            false => deliveries::refused(engine, tenant, event, worker),
        });
        match end(engine, tenant, (one.id, one.attempt), answers.collect()).await {
            Ok(()) | Err(Refusal::Conflict { .. }) => {}
            Err(refusal) => return Err(refusal),
        }
    }
    Ok(rest)
}

/// Those that still are to be done. What another event with the same domain key was first at is ended here.
async fn without_done(
    engine: &Arc<Engine>,
    tenant: &TenantId,
    lent: Vec<Lent>,
) -> Result<Vec<Lent>, Refusal> {
    let keys = lent.iter().flat_map(|one| one.domain_keys.iter().flatten());
    let keys: Vec<String> = keys.map(|key| once::of_domain(key)).collect();
    let taken = once::taken(engine, tenant, &keys).await.map_err(refusal::of_store)?;
    // An event with a domain key has a delivery of its own.
    let is_done = |one: &Lent| match one.domain_keys.as_slice() {
        [Some(key)] => taken.contains(&once::of_domain(key)),
        _ => false,
    };
    let (done, rest): (Vec<_>, Vec<_>) = lent.into_iter().partition(is_done);
    for one in done {
        match end(engine, tenant, (one.id, one.attempt), vec![Handled::done()]).await {
            Ok(()) | Err(Refusal::Conflict { .. }) => {}
            Err(refusal) => return Err(refusal),
        }
    }
    Ok(rest)
}

fn gone() -> Refusal {
    let detail = "the delivery is not yours any more: it is done, or its time was over and another has it";
    Refusal::Conflict { code: "delivery-lost", detail: detail.to_owned(), existing: None }
}

/// Settles an attempt: one answer for all events, or one for each.
pub(crate) async fn answer(
    engine: &Arc<Engine>,
    tenant: &TenantId,
    attempt: (Uuid, u32),
    answers: Vec<Handled>,
) -> Result<(), Refusal> {
    settle(engine, tenant, attempt, answers, true).await
}

/// The same for one that no worker has seen.
async fn end(
    engine: &Arc<Engine>,
    tenant: &TenantId,
    attempt: (Uuid, u32),
    answers: Vec<Handled>,
) -> Result<(), Refusal> {
    settle(engine, tenant, attempt, answers, false).await
}

async fn settle(
    engine: &Arc<Engine>,
    tenant: &TenantId,
    (delivery, attempt): (Uuid, u32),
    answers: Vec<Handled>,
    is_handled: bool,
) -> Result<(), Refusal> {
    let row = engine.store.delivery(tenant, delivery).await.map_err(refusal::of_store)?;
    let row = row.filter(|row| row.attempt == attempt && attempt > 0).ok_or_else(gone)?;
    let ids: Vec<Uuid> = row.events.iter().collect();
    if answers.len() != 1 && answers.len() != ids.len() {
        let detail = format!("{} answers for {} events; give one, or one for each", answers.len(), ids.len());
        return Err(Refusal::Invalid { code: "invalid-value", detail, problems: vec![] });
    }
    let events = engine.store.events_of(tenant, &ids).await.map_err(refusal::of_store)?;
    let events: Vec<(Uuid, Data)> =
        events.into_iter().map(|event| (event.id, Data::parse(&event.event).unwrap_or_default())).collect();
    let of = |at: usize| match (answers.as_slice(), at) {
        // What follows from all of them together is emitted once.
        ([Handled::Done(_)], 1..) => Handled::done(),
        ([one], _) => one.clone(),
        (each, at) => each[at].clone(),
    };
    let keyed = ids.iter().enumerate().map(|(at, id)| (deliveries::key_of(*id, &row.worker), of(at)));
    let keyed: HashMap<String, Handled> = keyed.collect();
    let declared = engine.subscribers.declared(tenant, &row.worker).unwrap_or_default();
    let micros = if is_handled { took(engine, &row, &declared) } else { 0 };
    let spanned = if is_handled { handled(engine, tenant, &row, &events, &keyed) } else { vec![] };
    let retry = declared.retry();
    let settling = Settling::of_lent(engine, tenant, &row.worker, &retry);
    let well: Vec<bool> = answers.iter().map(guards::is_well).collect();
    match settling.settle_one(&row, &events, keyed, micros).await {
        Ok(Settled::Done) => {
            spans::of_deliveries(engine, &row.worker, &spanned, micros);
            engine.guards.record(tenant, &Target::worker(&row.worker), &well, engine.now());
            Ok(())
        }
        Ok(Settled::Late) => Err(gone()),
        Ok(Settled::Moved) => {
            let detail = "a watermark was moved meanwhile; nothing was written, and the delivery comes again";
            Err(Refusal::Conflict { code: "watermark-moved", detail: detail.to_owned(), existing: None })
        }
        Err(error) => Err(refusal::of_store(error)),
    }
}

/// How long the attempt took. Where another node lent it, what its lease says: a heartbeat makes that shorter than it was.
fn took(engine: &Engine, row: &DeliveryRow, declared: &Declared) -> u64 {
    let now = engine.now();
    let lease = Span::from_secs(declared.lease_seconds.into());
    let began = engine.polls.ended(row.id, row.attempt);
    let began = began.unwrap_or(Time(row.visible_at.0 - lease.0)).max(row.created_at);
    now.since(began).0.max(0).unsigned_abs()
}

/// The events as a handler of this node would have been given them, with what became of them.
fn handled(
    engine: &Engine,
    tenant: &TenantId,
    row: &DeliveryRow,
    events: &[(Uuid, Data)],
    answers: &HashMap<String, Handled>,
) -> Vec<(Delivery, Handled)> {
    if !engine.spans.wants() {
        return vec![];
    }
    let given = events.iter().map(|event| deliveries::given(tenant, None, &row.worker, row.attempt, event));
    given.filter_map(|given| Some((given.clone(), answers.get(&given.key)?.clone()))).collect()
}

/// The worker goes on: nobody else gets the delivery for so long from now. Answers until when.
pub(crate) async fn heartbeat(
    engine: &Engine,
    tenant: &TenantId,
    (delivery, attempt): (Uuid, u32),
    seconds: u32,
) -> Result<Time, Refusal> {
    let visible_at = engine.now().after(Span::from_secs(seconds.into()));
    let write = Write::ExtendDelivery { id: delivery, attempt, visible_at };
    match commit(engine, tenant, vec![write]).await? {
        Outcome::Committed => Ok(visible_at),
        Outcome::Conflict(_) => Err(gone()),
        Outcome::Rejected(detail) => Err(Refusal::Unavailable(detail)),
    }
}
