//! Dead letters: what could not be done, kept whole with the reason, and put back on request.

mod follow;
mod outside;
mod taking;

pub(crate) use follow::{Follow, Letters, Settled};
pub(crate) use outside::{of_emitted, of_incoming};
pub(crate) use taking::{Taking, discard, replay};

use crate::{
    engine::Engine,
    errors::Failure,
    flush::{self, HoldsUp},
    patience::Patience,
    rows,
    turn::{Source, Work},
};
use machine::{
    State, TenantId, Time,
    command::{GivenUp, Incident},
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use store::{Commit, Outcome, Write, rows::*};
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
    /// Too many emitted events follow each other.
    Loop,
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
            Reason::Loop => "loop",
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
    let Some(attempt) = attempt_of(work).map(|attempt| attempt + 1) else { return };
    // Full jitter, but never sooner than half: a signal that came before its start gets time.
    let random = 0.5 + engine.entropy.unit() / 2.0;
    let Some(delay) = engine.options.poison.delay(attempt, random) else {
        return bury(engine, work, Reason::RetriesExhausted, detail);
    };
    put_back(engine, work, engine.now().after(delay), Some(attempt), detail).await;
}

/// How often the cause was tried; `None` if it is a caller that waits.
fn attempt_of(work: &Work) -> Option<u32> {
    match &work.source {
        Source::Direct => None,
        Source::Signal(row) => Some(row.attempt),
        Source::Timer(row) => Some(row.attempt),
        Source::Call(row) => Some(row.attempt),
    }
}

/// Makes the cause backlog again from `visible_at` on, with that count of attempts or the one it has.
pub(crate) async fn put_back(
    engine: &Arc<Engine>,
    work: &Work,
    visible_at: Time,
    attempt: Option<u32>,
    detail: &str,
) {
    let Some(attempt) = attempt.or_else(|| attempt_of(work)) else { return };
    let write = match &work.source {
        Source::Direct => return,
        Source::Signal(row) => Write::RetrySignal { id: row.id, owner: row.owner, visible_at, attempt },
        Source::Timer(row) => {
            let TimerRow { instance, token, owner, .. } = **row;
            Write::RetryTimer { instance, token, owner, visible_at, attempt }
        }
        Source::Call(row) => Write::RetryCall {
            instance: row.instance,
            token: row.token,
            owner: row.owner,
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
