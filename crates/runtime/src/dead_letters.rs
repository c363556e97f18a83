//! Dead letters: what could not be done, kept whole with the reason, and put back on request.

mod outside;

pub(crate) use outside::{of_emitted, of_incoming};

use crate::{
    api::Refusal,
    engine::Engine,
    errors::Failure,
    events,
    flush::{self, HoldsUp},
    patience::Patience,
    refusal, rows,
    turn::{self, Source, Work},
};
use machine::{
    Command, Data, State, TenantId, Time,
    command::{GivenUp, Incident},
    id,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use store::{Commit, Conflict, Outcome, Write, rows::*};
use uuid::Uuid;

/// What dead letters of deliveries say they come from.
const DELIVERY: &str = "delivery";

/// Why something was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    Deserialization,
    DefinitionMissing,
    SnapshotInconsistent,
    RetriesExhausted,
    SagaStuck,
    /// The worker said that trying again is of no use.
    Refused,
    Poison,
}

impl Reason {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Reason::Deserialization => "deserialization",
            Reason::DefinitionMissing => "definition-missing",
            Reason::SnapshotInconsistent => "snapshot-inconsistent",
            Reason::RetriesExhausted => "retries-exhausted",
            Reason::SagaStuck => "saga-stuck",
            Reason::Refused => "refused",
            Reason::Poison => "poison",
        }
    }
}

/// What putting a dead letter back needs besides its envelope.
#[derive(Serialize, Deserialize, Default)]
struct Origin {
    #[serde(default)]
    token: u64,
    /// Signal type or call target.
    #[serde(default)]
    name: String,
    #[serde(default)]
    id: Uuid,
    /// The call ended with its instance: replay runs the instance's faulted step again.
    #[serde(default)]
    faulted: bool,
}

/// The dead letter of a call that was given up and thereby faulted its instance.
pub(crate) fn of_call(
    engine: &Engine,
    (call, group): (&GivenUp, Option<Uuid>),
    instance: Uuid,
    state: &State,
    now: Time,
) -> Write {
    let detail = state.error.as_ref().and_then(|fault| fault.detail.clone()).unwrap_or_default();
    let origin = Origin { token: call.token, name: call.target.clone(), id: Uuid::nil(), faulted: true };
    Write::DeadLetter(Box::new(DeadLetterRow {
        id: engine.entropy.id(now),
        source: "call".to_owned(),
        reason: Reason::RetriesExhausted.word().to_owned(),
        detail,
        instance: Some(instance),
        envelope: call.envelope.clone().into_bytes(),
        origin: rows::to_json(&origin),
        attempts: call.attempts,
        last_node: engine.node,
        failed_at: now,
        group,
    }))
}

/// The dead letter of a saga that can neither go back nor forward. Putting it back runs the step again.
pub(crate) fn of_incident(
    engine: &Engine,
    (incident, group): (&Incident, Option<Uuid>),
    instance: Uuid,
    now: Time,
) -> Write {
    #[derive(Serialize)]
    struct Envelope<'a> {
        step: &'a str,
        input: &'a machine::Data,
        error: &'a machine::Fault,
    }
    let Incident { step, attempts, fault, input } = incident;
    let detail = fault.detail.as_deref().or(fault.title.as_deref()).unwrap_or(&fault.error_type);
    let origin = Origin { name: step.clone(), faulted: true, ..Origin::default() };
    Write::DeadLetter(Box::new(DeadLetterRow {
        id: engine.entropy.id(now),
        source: "saga".to_owned(),
        reason: Reason::SagaStuck.word().to_owned(),
        detail: format!("{step} failed {attempts} times: {detail}"),
        instance: Some(instance),
        envelope: rows::to_json(&Envelope { step, input, error: fault }),
        origin: rows::to_json(&origin),
        attempts: *attempts,
        last_node: engine.node,
        failed_at: now,
        group,
    }))
}

/// An event that its worker was given in vain.
pub(crate) struct Undelivered<'a> {
    pub(crate) letter: Uuid,
    pub(crate) event: Uuid,
    pub(crate) envelope: Vec<u8>,
    pub(crate) worker: &'a str,
    pub(crate) attempts: u32,
    pub(crate) group: Uuid,
}

/// The dead letter of a delivery. Putting it back delivers the event again.
pub(crate) fn of_delivery(
    engine: &Engine,
    given_up: Undelivered<'_>,
    reason: Reason,
    detail: String,
    now: Time,
) -> Write {
    let Undelivered { letter, event, envelope, worker, attempts, group } = given_up;
    let origin = Origin { name: worker.to_owned(), id: event, ..Origin::default() };
    Write::DeadLetter(Box::new(DeadLetterRow {
        id: letter,
        source: DELIVERY.to_owned(),
        reason: reason.word().to_owned(),
        detail,
        instance: None,
        envelope,
        origin: rows::to_json(&origin),
        attempts,
        last_node: engine.node,
        failed_at: now,
        group: Some(group),
    }))
}

/// Delivers the event of a dead letter again. An event that is gone by now comes back with it; one with other data is an
/// event of its own, which says where it comes from.
async fn redeliver(
    engine: &Arc<Engine>,
    tenant: &TenantId,
    letter: DeadLetterRow,
    mut origin: Origin,
    changed: Option<Changed<'_>>,
) -> Result<(), Refusal> {
    let now = engine.now();
    let mut writes = vec![Write::ConsumeDeadLetter { id: letter.id }];
    let mut event = Data::parse(&letter.envelope).unwrap_or_default();
    if let Some(changed) = changed {
        event = changed.event(&event, origin.id, letter.id);
        origin.id = engine.entropy.id(now);
    }
    let there = engine.store.event(tenant, origin.id).await.map_err(refusal::of_store)?;
    let emitted_by = there.as_ref().and_then(|there| there.emitted_by.as_deref());
    let order_key = engine.subscribers.order_key(tenant, &origin.name, &event, emitted_by);
    // As old as its event, which stays as long as something of its age is waited for.
    let created_at = there.as_ref().map_or(now, |there| there.received_at.min(now));
    if there.is_none() {
        let (mut row, _) = events::read(engine, tenant, event, now)?;
        (row.id, row.kept_until, row.delivered) = (origin.id, None, 1);
        writes.push(Write::Publish(Box::new(row)));
    }
    writes.push(Write::Delivery(Box::new(DeliveryRow {
        id: engine.entropy.id(now),
        worker: origin.name,
        events: [origin.id].into_iter().collect(),
        order_key,
        created_at,
        visible_at: now,
        attempt: 0,
        last_error: None,
        owner: None,
        taken_over: 0,
    })));
    consume(engine, tenant, writes).await?;
    engine.wake.deliveries.at(engine.now());
    engine.buses.wake(engine.now());
    engine.webhooks.alarm.at(engine.now());
    engine.backlog();
    Ok(())
}

/// Why a row that this many nodes ended with is not to be touched again, if it is not.
pub(crate) fn fatal(engine: &Engine, taken_over: u32) -> Option<String> {
    (taken_over >= engine.options.taken_over_max)
        .then(|| format!("{taken_over} nodes ended while they had it; what it leads to may have ended them"))
}

/// Moves the work's cause to the dead letters, with the next flush. Nobody waits for it.
pub(crate) fn bury(engine: &Arc<Engine>, work: &mut Work, reason: Reason, detail: &str) {
    let now = engine.now();
    let (source, envelope, origin, attempts) = match &work.source {
        Source::Direct => return,
        Source::Signal(row) => (
            "signal",
            row.envelope.clone(),
            Origin { id: row.id, name: row.signal_type.clone(), ..Origin::default() },
            row.attempt,
        ),
        Source::Timer(row) => {
            ("timer", row.envelope.clone(), Origin { token: row.token, ..Origin::default() }, row.attempt)
        }
        Source::Call(row) => (
            "call",
            row.envelope.clone(),
            Origin { token: row.token, name: row.target.clone(), ..Origin::default() },
            row.attempt,
        ),
    };
    let failure = Failure {
        source,
        target: origin.name.clone(),
        class: reason.word().to_owned(),
        message: detail.to_owned(),
        instance: Some(work.instance),
        attempts,
        at: now,
        ..Failure::default()
    };
    let id = engine.entropy.id(now);
    let mut writes = work.guards.clone();
    writes.push(Write::DeadLetter(Box::new(DeadLetterRow {
        id,
        source: source.to_owned(),
        reason: reason.word().to_owned(),
        detail: detail.to_owned(),
        instance: Some(work.instance),
        envelope,
        origin: rows::to_json(&origin),
        attempts,
        last_node: engine.node,
        failed_at: now,
        group: Some(failure.group()),
    })));
    writes.push(Write::Errors(vec![failure.row()]));
    tracing::warn!(tenant = %work.tenant, instance = %work.instance, source, reason = reason.word(), detail, "dead letter");
    let (owned, tenant) = (engine.clone(), work.tenant.clone());
    let kept = (work.hold.take(), work.permit.take());
    engine.tasks.spawn(async move {
        if flush_patiently(&owned, &tenant, writes, HoldsUp::Nobody).await {
            owned.hub.changed(&tenant, "dead-letter", id, reason.word(), 1, now);
        }
        drop(kept);
    });
}

/// Commits with the next flush, waiting for the store as long as it takes. `true` if it landed now.
pub(crate) async fn flush_patiently(
    engine: &Arc<Engine>,
    tenant: &TenantId,
    writes: Vec<Write>,
    holds_up: HoldsUp,
) -> bool {
    let mut patience = Patience::new();
    loop {
        let commit = Commit { tenant: tenant.clone(), writes: writes.clone() };
        if let Ok(outcome) = flush::commit(engine, commit, holds_up).await {
            return outcome == Outcome::Committed;
        }
        if !patience.wait(engine).await {
            return false;
        }
    }
}

/// The instance is not there (yet). A signal is kept for it; timers and calls of nobody are dropped.
pub(crate) async fn not_there(engine: &Arc<Engine>, work: &mut Work) {
    match &work.source {
        // The parent or child it is for is gone for good: nobody signals one before it is there.
        Source::Signal(row)
            if matches!(row.signal_type.as_str(), "SubWorkflowCompleted" | "ParentClosed") =>
        {
            commit_patiently(engine, &work.tenant, work.guards.clone()).await;
        }
        Source::Signal(_) => try_later(engine, work, "no such instance").await,
        Source::Direct => {}
        Source::Timer(_) | Source::Call(_) => {
            commit_patiently(engine, &work.tenant, work.guards.clone()).await;
        }
    }
}

/// Puts the cause back with a later time, or buries it when it was tried often enough.
pub(crate) async fn try_later(engine: &Arc<Engine>, work: &mut Work, detail: &str) {
    let attempt = match &work.source {
        Source::Direct => return,
        Source::Signal(row) => row.attempt,
        Source::Timer(row) => row.attempt,
        Source::Call(row) => row.attempt,
    } + 1;
    // Full jitter, but never sooner than half: a signal that came before its start gets time.
    let random = 0.5 + engine.entropy.unit() / 2.0;
    let Some(delay) = engine.options.poison.delay(attempt, random) else {
        return bury(engine, work, Reason::RetriesExhausted, detail);
    };
    let visible_at = engine.now().after(delay);
    let write = match &work.source {
        Source::Direct => return,
        Source::Signal(row) => Write::RetrySignal { id: row.id, visible_at, attempt },
        Source::Timer(row) => {
            Write::RetryTimer { instance: row.instance, token: row.token, visible_at, attempt }
        }
        Source::Call(row) => Write::RetryCall {
            instance: row.instance,
            token: row.token,
            visible_at,
            attempt,
            last_error: Some(detail.as_bytes().to_vec()),
        },
    };
    commit_patiently(engine, &work.tenant, vec![write]).await;
    engine.wake.at(visible_at);
}

/// Commits, waiting for the store as long as it takes. `true` if it landed now.
pub(crate) async fn commit_patiently(engine: &Arc<Engine>, tenant: &TenantId, writes: Vec<Write>) -> bool {
    let mut patience = Patience::new();
    loop {
        let commit = Commit { tenant: tenant.clone(), writes: writes.clone() };
        if let Ok(outcome) = engine.committer.commit(commit).await {
            return outcome == Outcome::Committed;
        }
        if !patience.wait(engine).await {
            return false;
        }
    }
}

/// An event as it is delivered instead of the one that failed.
pub(crate) struct Changed<'a> {
    pub(crate) data: Data,
    pub(crate) actor: &'a str,
}

impl Changed<'_> {
    /// The same event with other data, under an id of its own, with what it comes from and who changed it.
    fn event(&self, event: &Data, original: Uuid, letter: Uuid) -> Data {
        let mut entries = event.entries().unwrap_or_default();
        let own = ["id", "data", "data_base64", "causationid", "changedby"];
        entries.retain(|(name, _)| !own.contains(&name.as_str()));
        let id = event.get("id").map(|id| id.to_text()).unwrap_or_default();
        entries.extend([
            ("id".to_owned(), Data::text(format!("{id}~{}", letter.simple()))),
            ("causationid".to_owned(), Data::text(id::show(id::Kind::Event, original))),
            ("changedby".to_owned(), Data::text(self.actor)),
            ("data".to_owned(), self.data.clone()),
        ]);
        Data::map(entries)
    }
}

/// Puts a dead letter back where it came from, a delivery's with other data if so wanted. The letter is consumed in the
/// same commit, so that pressing twice has one effect.
pub(crate) async fn replay(
    engine: &Arc<Engine>,
    tenant: &TenantId,
    id: Uuid,
    actor: &str,
    data: Option<Data>,
) -> Result<(), Refusal> {
    let missing = || Refusal::NotFound("dead letter".to_owned());
    let row = engine.store.dead_letter(tenant, id).await.map_err(refusal::of_store)?.ok_or_else(missing)?;
    let origin: Origin = serde_json::from_slice(&row.origin).unwrap_or_default();
    if row.source == DELIVERY {
        let changed = data.map(|data| Changed { data, actor });
        return redeliver(engine, tenant, row, origin, changed).await;
    }
    if data.is_some() {
        let detail =
            format!("only what a worker was given can be changed; this is a dead letter of a {}", row.source);
        return Err(Refusal::Invalid { code: "invalid-value", detail, problems: vec![] });
    }
    if [outside::INCOMING, outside::EMITTED].contains(&row.source.as_str()) {
        return outside::replay(engine, tenant, row, origin).await;
    }
    let guard = Write::ConsumeDeadLetter { id };
    let instance = row.instance.unwrap_or_default();
    let now = engine.now();
    // A signal finds out itself whether its instance still wants it; a call has an effect before anybody asks.
    let (command, back) = match row.source.as_str() {
        _ if origin.faulted => (Command::Retry, vec![]),
        "timer" => {
            (Command::PutBack { token: origin.token }, vec![Write::Timer(timer_of(row, &origin, now))])
        }
        "call" => (Command::PutBack { token: origin.token }, vec![Write::Call(call_of(row, origin, now))]),
        _ => {
            let signal = Write::Signal(signal_of(row, origin, now));
            take(engine, tenant, (id, instance), vec![signal], (actor, None)).await?;
            engine.backlog();
            return Ok(());
        }
    };
    let work = Work {
        guards: vec![guard],
        also: back,
        actor: Some(actor.to_owned()),
        letter: Some(id),
        ..Work::new(tenant.clone(), instance, command)
    };
    match turn::ask(engine, work).await {
        Ok(turned) if turned.changed => {
            engine.backlog();
            Ok(())
        }
        Ok(turned) => match engine.store.dead_letter(tenant, id).await.map_err(refusal::of_store)? {
            None => Err(missing()),
            Some(_) => Err(Refusal::Conflict {
                code: "not-allowed-now",
                detail: format!(
                    "the instance is {} and does not wait for this any more; discard the dead letter",
                    turned.status
                ),
                existing: None,
            }),
        },
        Err(Refusal::NotFound(_)) => Err(missing()),
        Err(refusal) => Err(refusal),
    }
}

fn timer_of(row: DeadLetterRow, origin: &Origin, now: Time) -> TimerRow {
    let instance = row.instance.unwrap_or_default();
    TimerRow {
        instance,
        token: origin.token,
        due_at: now,
        envelope: row.envelope,
        attempt: 0,
        owner: None,
        taken_over: 0,
    }
}

fn call_of(row: DeadLetterRow, origin: Origin, now: Time) -> CallRow {
    CallRow {
        instance: row.instance.unwrap_or_default(),
        token: origin.token,
        target: origin.name,
        envelope: row.envelope,
        created_at: now,
        visible_at: now,
        attempt: 1,
        last_error: None,
        owner: None,
        taken_over: 0,
    }
}

fn signal_of(row: DeadLetterRow, origin: Origin, now: Time) -> SignalRow {
    SignalRow {
        id: origin.id,
        instance: row.instance.unwrap_or_default(),
        signal_type: origin.name,
        envelope: row.envelope,
        created_at: now,
        visible_at: now,
        attempt: 0,
        owner: None,
        taken_over: 0,
    }
}

/// Throws a dead letter away.
pub(crate) async fn discard(
    engine: &Arc<Engine>,
    tenant: &TenantId,
    id: Uuid,
    actor: &str,
    reason: Option<String>,
) -> Result<(), Refusal> {
    let row = engine.store.dead_letter(tenant, id).await.map_err(refusal::of_store)?;
    let row = row.ok_or_else(|| Refusal::NotFound("dead letter".to_owned()))?;
    take(engine, tenant, (id, row.instance.unwrap_or_default()), vec![], (actor, reason)).await
}

/// Consumes a letter; what is put `back` instead, and what the instance's history says of it, are in the same commit.
/// Without an instance that can be read there is no history to write in, and only the log tells.
async fn take(
    engine: &Arc<Engine>,
    tenant: &TenantId,
    (id, instance): (Uuid, Uuid),
    back: Vec<Write>,
    (actor, why): (&str, Option<String>),
) -> Result<(), Refusal> {
    let guard = Write::ConsumeDeadLetter { id };
    let command = Command::LetterTaken { replayed: !back.is_empty() };
    let work = Work {
        guards: vec![guard.clone()],
        also: back.clone(),
        actor: Some(actor.to_owned()),
        letter: Some(id),
        why,
        ..Work::new(tenant.clone(), instance, command)
    };
    let unreadable = [Reason::DefinitionMissing.word(), Reason::SnapshotInconsistent.word()];
    match turn::ask(engine, work).await {
        Ok(_) => Ok(()),
        // Either the letter or the instance is gone; the letter's own guard tells which.
        Err(Refusal::NotFound(_)) => consume(engine, tenant, [vec![guard], back].concat()).await,
        Err(Refusal::Conflict { code, .. }) if unreadable.contains(&code) => {
            consume(engine, tenant, [vec![guard], back].concat()).await
        }
        Err(refusal) => Err(refusal),
    }
}

async fn consume(engine: &Arc<Engine>, tenant: &TenantId, writes: Vec<Write>) -> Result<(), Refusal> {
    let commit = Commit { tenant: tenant.clone(), writes };
    match engine.committer.commit(commit).await {
        Ok(Outcome::Committed) => Ok(()),
        Ok(Outcome::Conflict(Conflict::Gone)) => Err(Refusal::NotFound("dead letter".to_owned())),
        Ok(other) => {
            Err(Refusal::Conflict { code: "conflict", detail: format!("{other:?}"), existing: None })
        }
        Err(error) => Err(refusal::of_store(error)),
    }
}
