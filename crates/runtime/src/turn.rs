//! One turn: load → decide → commit. Everything a command implies lands in one commit with its cause.

use crate::{
    acting::{self, Acting},
    api::{InstanceResult, Refusal},
    children::Offspring,
    clocks,
    dead_letters::{self, Reason},
    definitions::Missing,
    engine::Engine,
    errors,
    flush::{self, HoldsUp},
    held::Hold,
    lanes::Reservation,
    metrics::Metrics,
    newer,
    patience::Patience,
    refusal, rows,
    sandbox::NotRun,
    slots::{self, Cached},
    spans, versions,
};
use futures_util::FutureExt;
use machine::{
    Answer, Command, Data, Decision, Fault, Program, State, Subject, TenantId, Time, decide,
    expr::Evaluation, id, snapshot,
};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};
use store::{Commit, Conflict, Outcome, Write};
use tokio::sync::oneshot;
use uuid::Uuid;

/// Something to tell an instance, and what to consume with it.
pub(crate) struct Work {
    pub(crate) tenant: TenantId,
    pub(crate) instance: Uuid,
    pub(crate) command: Command,
    pub(crate) source: Source,
    /// Guards that come before the snapshot: the consumed cause.
    pub(crate) guards: Vec<Write>,
    /// Written after it.
    pub(crate) also: Vec<Write>,
    /// Instances that are created with it; their rows are in `also`.
    pub(crate) offspring: Vec<Offspring>,
    /// What this was folded from: if it fails as a whole, each is tried by itself.
    pub(crate) parts: Vec<Work>,
    pub(crate) reply: Option<oneshot::Sender<Result<Turned, Refusal>>>,
    /// Held (never read) while the work is in flight, so that claims stay within their bound.
    #[allow(dead_code)]
    pub(crate) permit: Option<tokio::sync::OwnedSemaphorePermit>,
    /// Held (never read) while a failed call is not acknowledged, so that no more fail than there is room for.
    #[allow(dead_code)]
    pub(crate) room: Option<Reservation<store::rows::CallRow>>,
    /// Held (never read) while the row that caused the work is in memory.
    #[allow(dead_code)]
    pub(crate) hold: Option<Hold>,
    /// Who asked for it, for history.
    pub(crate) actor: Option<String>,
    /// The dead letter it is about, for history.
    pub(crate) letter: Option<Uuid>,
    /// Why it was asked for, for history.
    pub(crate) why: Option<String>,
    /// The version the caller has seen: at any other the work is refused as stale.
    pub(crate) expected: Option<i64>,
    pub(crate) acting: Option<Arc<Acting>>,
}

impl Work {
    /// Work that a caller asks for, without guards.
    pub(crate) fn new(tenant: TenantId, instance: Uuid, command: Command) -> Work {
        Work {
            tenant,
            instance,
            command,
            source: Source::Direct,
            guards: vec![],
            also: vec![],
            offspring: vec![],
            parts: vec![],
            reply: None,
            permit: None,
            room: None,
            hold: None,
            actor: None,
            letter: None,
            why: None,
            expected: None,
            acting: None,
        }
    }

    /// Remembers what this was folded from.
    pub(crate) fn made_of(self, parts: Vec<Work>) -> Work {
        Work { parts, ..self }
    }

    /// The call whose failure it tells of, if it does.
    fn failed_call(&self) -> Option<&store::rows::CallRow> {
        match (&self.command, &self.source) {
            (Command::CallFailed { .. }, Source::Call(row)) => Some(row),
            _ => None,
        }
    }

    /// The id of the signal that says it, if a signal does.
    fn signal_id(&self) -> Option<Uuid> {
        match (&self.command, &self.source) {
            (Command::Signal { id, .. } | Command::Event { id, .. }, _) => Some(*id),
            (_, Source::Signal(row)) => Some(row.id),
            (_, Source::Timer(row)) => Some(id::derive(row.instance, row.token)),
            (_, Source::Direct | Source::Call { .. }) => None,
        }
    }
}

/// Where work came from: decides what happens when it cannot be done.
#[derive(Clone)]
pub(crate) enum Source {
    /// A caller waits; it is told.
    Direct,
    Signal(Box<store::rows::SignalRow>),
    Timer(Box<store::rows::TimerRow>),
    Call(Box<store::rows::CallRow>),
}

/// What a turn came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Turned {
    /// False if the command changed nothing (late or duplicate).
    pub(crate) changed: bool,
    pub(crate) status: &'static str,
    pub(crate) version: i64,
}

/// Why a turn could not be finished.
enum Trouble {
    /// Somebody else moved the instance: load again.
    Lost,
    /// The commit may have landed and others went on from it: what it left for this node must be found again.
    Unsure,
    /// The cause is gone: nothing left to do.
    Gone,
    /// A guard other than cause and version did not hold.
    Refused(Refusal),
    NoInstance,
    Broken(Reason, String),
    /// A newer build wrote what this one cannot read.
    Newer(Reason, String),
    /// The store refused these rows, deciding panicked or the instance has no room: try a few times, then
    /// dead-letter.
    Poison(String),
    Store(store::Error),
    /// The node stops before there is a decision: the cause is another node's.
    Stopping,
}

/// Why there is no decision.
pub(crate) enum Undecided {
    /// The node stops.
    Stopping,
    Broken(String),
}

impl From<Undecided> for Refusal {
    fn from(undecided: Undecided) -> Refusal {
        match undecided {
            Undecided::Stopping => Refusal::Unavailable("the node is stopping".to_owned()),
            Undecided::Broken(detail) => Refusal::Conflict { code: "turn-failed", detail, existing: None },
        }
    }
}

/// The code of a refusal because an instance to be created is there already.
pub(crate) const EXISTS: &str = "exists";

/// Takes the turn and answers the state to keep for the next one.
pub(crate) async fn take(engine: &Arc<Engine>, mut work: Work, cached: Option<Cached>) -> Option<Cached> {
    let mut cached = cached;
    let mut patience = Patience::new();
    loop {
        // A panic must not leave the instance's line without its driver.
        let attempted = AssertUnwindSafe(attempt(engine, &mut work, cached.take())).catch_unwind().await;
        match attempted.unwrap_or_else(|_| Err(Trouble::Poison("the turn panicked".to_owned()))) {
            Ok((turned, cached)) => {
                if !turned.changed {
                    Metrics::add(&engine.metrics.stale);
                }
                answer(&mut work, Ok(turned));
                return cached;
            }
            Err(Trouble::Lost) => {
                Metrics::add(&engine.metrics.conflicts);
                if matches!(work.source, Source::Direct) && work.guards.iter().any(is_compare_and_set) {
                    // The caller read what it guards; it must look again.
                    answer(&mut work, Err(Refusal::Stale { current: 0 }));
                    return None;
                }
                tokio::task::yield_now().await;
            }
            Err(
                Trouble::Gone
                | Trouble::Refused(_)
                | Trouble::Broken(..)
                | Trouble::Newer(..)
                | Trouble::Poison(_),
            ) if !work.parts.is_empty() => {
                let mut cached = None;
                for part in std::mem::take(&mut work.parts) {
                    cached = Box::pin(take(engine, part, cached)).await;
                }
                return cached;
            }
            Err(Trouble::Gone) => {
                Metrics::add(&engine.metrics.stale);
                let gone = Refusal::NotFound("what was to be consumed".to_owned());
                answer(&mut work, Err(gone));
                return None;
            }
            Err(Trouble::Refused(refusal)) => {
                answer(&mut work, Err(refusal));
                return None;
            }
            Err(Trouble::Stopping) => {
                answer(&mut work, Err(Undecided::Stopping.into()));
                return None;
            }
            Err(Trouble::Store(error)) => {
                engine.tasks.heed(&error);
                tracing::warn!(%error, instance = %work.instance, "turn waits for the store");
                if matches!(work.source, Source::Direct) || !patience.wait(engine).await {
                    answer(&mut work, Err(refusal::of_store(error)));
                    return None;
                }
            }
            Err(trouble) => {
                give_up(engine, work, trouble).await;
                return None;
            }
        }
    }
}

fn is_compare_and_set(write: &Write) -> bool {
    matches!(write, Write::UpdateTask { .. })
}

fn answer(work: &mut Work, turned: Result<Turned, Refusal>) {
    if let Some(reply) = work.reply.take() {
        let _ = reply.send(turned);
    }
}

/// Tells a waiting caller, or puts the cause back, or makes it a dead letter.
async fn give_up(engine: &Arc<Engine>, mut work: Work, trouble: Trouble) {
    let refusal = match &trouble {
        Trouble::NoInstance => Refusal::NotFound("instance".to_owned()),
        Trouble::Broken(reason, detail) => {
            Refusal::Conflict { code: reason.word(), detail: detail.clone(), existing: None }
        }
        Trouble::Newer(_, detail) => Refusal::Unavailable(detail.clone()),
        Trouble::Poison(detail) => {
            Refusal::Conflict { code: "turn-failed", detail: detail.clone(), existing: None }
        }
        _ => Refusal::Unavailable("the turn did not finish".to_owned()),
    };
    answer(&mut work, Err(refusal));
    match trouble {
        Trouble::NoInstance => dead_letters::not_there(engine, &mut work).await,
        Trouble::Broken(reason, detail) => dead_letters::bury(engine, &mut work, reason, &detail),
        Trouble::Newer(reason, detail) => newer::leave(engine, &mut work, reason, &detail).await,
        Trouble::Poison(detail) => dead_letters::try_later(engine, &mut work, &detail).await,
        _ => {}
    }
}

async fn attempt(
    engine: &Arc<Engine>,
    work: &mut Work,
    cached: Option<Cached>,
) -> Result<(Turned, Option<Cached>), Trouble> {
    let (current, remembered) = match cached {
        Some(cached) => (cached, true),
        None => (load(engine, &work.tenant, work.instance).await?, false),
    };
    is_expected(work, current.version, remembered)?;
    let subject = engine.subject(&work.tenant, work.instance);
    let now = clocks::now_for(engine, &work.tenant, &work.command, &current.state).await;
    let now = now.map_err(Trouble::Store)?;
    let (program, decision) = match &work.command {
        Command::Migrate { version, mapping } => {
            let moved = versions::moved(engine, &work.tenant, &current, version, mapping).await;
            // As below: only the stored state can say no.
            moved.map_err(|refusal| if remembered { Trouble::Lost } else { Trouble::Refused(refusal) })?
        }
        command => (current.program.clone(), decide_fully(engine, &current, &subject, command, now).await?),
    };
    let Some(mut decision) = decision else {
        // Another node may have moved the instance since: only the stored state can say "nothing to do".
        return if remembered { Err(Trouble::Lost) } else { consume_only(engine, work, current).await };
    };
    if let Some(actor) = &work.actor {
        say_who(&mut decision, actor, work.letter, work.why.as_deref());
    }
    let version = current.version + 1;
    let mut commit =
        Commit { tenant: work.tenant.clone(), writes: Vec::with_capacity(work.guards.len() + 6) };
    commit.writes.extend(work.guards.iter().cloned());
    let change = rows::Change {
        engine,
        subject: &subject,
        program: &program,
        moved: program.ir.version != current.program.ir.version,
        before: Some((&current.state, current.version)),
        decision: &decision,
        signal: work.signal_id(),
        failed_call: work.failed_call(),
        now,
    };
    let born = change.write(&mut commit.writes).await.map_err(Trouble::Store)?;
    commit.writes.extend(work.also.iter().cloned());
    let state_json = born.state_json.clone();
    let holds_up = holds_up(work, &current.state).filter(|_| born.failed);
    let outcome = commit_or_defer(engine, commit, holds_up).await;
    match settle(engine, work, outcome, version, &state_json).await {
        Ok(()) => {}
        Err(Trouble::Unsure) => {
            born.put_back(engine, &work.tenant).await;
            for child in std::mem::take(&mut work.offspring) {
                child.put_back(engine).await;
            }
            return Err(Trouble::Lost);
        }
        Err(trouble) => return Err(trouble),
    }
    Metrics::add(&engine.metrics.commits);
    let Decision { state, .. } = decision;
    let turned = Turned { changed: true, status: state.status_word(), version };
    after(engine, &subject, Some(&current.state), &state, version, now);
    let kept = Cached { version, state: Arc::new(state), program };
    born.dispatch(engine, &subject);
    for child in std::mem::take(&mut work.offspring) {
        child.dispatch(engine);
    }
    Ok((turned, Some(kept)))
}

/// A failure that nobody handled is committed with others of its tenant; everything else at once.
async fn commit_or_defer(
    engine: &Arc<Engine>,
    mut commit: Commit,
    holds_up: Option<HoldsUp>,
) -> Result<Outcome, store::Error> {
    if let Some(holds_up) = holds_up {
        return flush::commit(engine, commit, holds_up).await;
    }
    errors::fold(&mut commit.writes);
    engine.metrics.cost(&commit);
    engine.committer.commit(commit).await
}

/// Whom the end of an instance with an error would hold up; `None` if it is not to wait at all, for somebody asked for
/// what led to it and did not fail.
fn holds_up(work: &Work, before: &State) -> Option<HoldsUp> {
    match (&work.source, &work.reply) {
        (Source::Direct, _) => None,
        (_, Some(_)) => Some(HoldsUp::Somebody),
        _ if before.parent.as_ref().is_some_and(|parent| parent.tell) => Some(HoldsUp::Parent),
        _ => Some(HoldsUp::Nobody),
    }
}

/// A version that is only remembered may be old: the stored one tells.
fn is_expected(work: &Work, version: i64, remembered: bool) -> Result<(), Trouble> {
    match work.expected {
        Some(expected) if expected != version && remembered => Err(Trouble::Lost),
        Some(expected) if expected != version => Err(Trouble::Refused(Refusal::Stale { current: version })),
        _ => Ok(()),
    }
}

/// What somebody ordered is in history with who did, and of which dead letter.
fn say_who(decision: &mut Decision, actor: &str, letter: Option<Uuid>, why: Option<&str>) {
    let ordered = |event: &&mut machine::command::Event| {
        event.kind.starts_with("dead-letter.") || event.kind.starts_with("workflow.")
    };
    if let Some(event) = decision.events.iter_mut().find(ordered) {
        let mut detail = event.detail.take().and_then(|detail| detail.entries()).unwrap_or_default();
        let letter = letter.map(|letter| Data::text(id::show(id::Kind::DeadLetter, letter)));
        detail.extend(letter.map(|letter| ("letter".to_owned(), letter)));
        detail.push(("by".to_owned(), Data::text(actor)));
        detail.extend(why.map(|why| ("reason".to_owned(), Data::text(why))));
        event.detail = Some(Data::map(detail));
    }
}

/// Tells others what the commit changed.
pub(crate) fn after(
    engine: &Engine,
    subject: &Subject,
    before: Option<&State>,
    state: &State,
    version: i64,
    now: Time,
) {
    let Subject { tenant, instance, .. } = subject;
    engine.hub.changed(tenant, "instance", *instance, state.status_word(), version, now);
    if ends(before, state) {
        Metrics::add(&engine.metrics.instances_ended);
        spans::of_instance(engine, subject, state, now);
        engine.hub.ended(tenant, *instance, || result_of(state));
        engine.hints.tell(store::Hint::ended(*instance));
    }
}

/// True if the instance came to an end in this very turn. An ended one may still take signals, and a retry may end
/// again at once, with another error.
pub(crate) fn ends(before: Option<&State>, state: &State) -> bool {
    let same = |before: &State| before.status == state.status && before.error == state.error;
    state.status.is_ended() && !before.is_some_and(same)
}

/// How an ended instance ended.
fn result_of(state: &State) -> InstanceResult {
    use machine::state::Status;
    match (state.status, &state.error) {
        (Status::Completed, _) => InstanceResult::Completed(state.output.clone().unwrap_or_default()),
        (Status::Faulted, Some(fault)) => InstanceResult::Faulted(fault.clone()),
        (Status::Cancelled, _) => InstanceResult::Cancelled,
        _ => InstanceResult::Pending(state.status_word().to_owned()),
    }
}

/// The command changes nothing: its cause is consumed all the same, so that it does not come again. What a caller
/// wanted changed (a task, a dead letter, an item of a batch) stays as it is.
async fn consume_only(
    engine: &Engine,
    work: &Work,
    current: Cached,
) -> Result<(Turned, Option<Cached>), Trouble> {
    let turned = Turned { changed: false, status: current.state.status_word(), version: current.version };
    let is_kept = |write: &Write| {
        is_compare_and_set(write) || matches!(write, Write::ConsumeDeadLetter { .. } | Write::SettleItem(_))
    };
    if work.guards.is_empty() || work.guards.iter().any(is_kept) {
        return Ok((turned, Some(current)));
    }
    let commit = Commit { tenant: work.tenant.clone(), writes: work.guards.clone() };
    match engine.committer.commit(commit).await {
        Ok(Outcome::Conflict(Conflict::Gone)) => Err(Trouble::Gone),
        Ok(_) => Ok((turned, Some(current))),
        Err(store::Error::Unknown(_)) => Err(Trouble::Lost),
        Err(error) => Err(Trouble::Store(error)),
    }
}

/// The stored state of an instance, for somebody who only looks at it.
pub(crate) async fn look(engine: &Engine, tenant: &TenantId, instance: Uuid) -> Result<Cached, Refusal> {
    load(engine, tenant, instance).await.map_err(|trouble| match trouble {
        Trouble::NoInstance => Refusal::NotFound("instance".to_owned()),
        Trouble::Store(error) => refusal::of_store(error),
        Trouble::Broken(reason, detail) => Refusal::Conflict { code: reason.word(), detail, existing: None },
        Trouble::Newer(_, detail) => Refusal::Unavailable(detail),
        _ => Refusal::Unavailable("the instance could not be read".to_owned()),
    })
}

async fn load(engine: &Engine, tenant: &TenantId, instance: Uuid) -> Result<Cached, Trouble> {
    let loaded = engine.store.load(tenant, instance).await.map_err(Trouble::Store)?;
    let loaded = loaded.ok_or(Trouble::NoInstance)?;
    let program = engine.definitions.exact(tenant, &loaded.namespace, &loaded.name, &loaded.version).await;
    let program = program.map_err(|missing| match missing {
        Missing::Unknown => Trouble::Broken(
            Reason::DefinitionMissing,
            format!("definition {}/{} version {} is gone", loaded.namespace, loaded.name, loaded.version),
        ),
        Missing::Unusable(detail) => Trouble::Broken(Reason::DefinitionMissing, detail),
        Missing::Newer(detail) => Trouble::Newer(Reason::DefinitionMissing, detail),
        Missing::Store(error) => Trouble::Store(error),
    })?;
    let state = snapshot::read(&program, &loaded.state_json).map_err(|error| {
        let trouble = if error.is_newer() { Trouble::Newer } else { Trouble::Broken };
        trouble(Reason::SnapshotInconsistent, error.to_string())
    })?;
    Ok(Cached { version: loaded.state_version, state: Arc::new(state), program })
}

/// Decides, having outside evaluations done in between. Nothing is committed until the decision is whole.
async fn decide_fully(
    engine: &Engine,
    current: &Cached,
    subject: &Subject,
    command: &Command,
    now: Time,
) -> Result<Option<Decision>, Trouble> {
    let decided = decide_on(engine, &current.program, subject, Some(&current.state), command, now).await;
    decided.map_err(|undecided| match undecided {
        Undecided::Stopping => Trouble::Stopping,
        Undecided::Broken(detail) => Trouble::Poison(detail),
    })
}

pub(crate) async fn decide_on(
    engine: &Engine,
    program: &Program,
    subject: &Subject,
    state: Option<&State>,
    command: &Command,
    now: Time,
) -> Result<Option<Decision>, Undecided> {
    let broken = |why: &str| Err(Undecided::Broken(why.to_owned()));
    let mut answers = Vec::new();
    loop {
        let decided =
            || catch_unwind(AssertUnwindSafe(|| decide(program, subject, state, command, now, &answers)));
        match engine.heavy.decide(&subject.tenant, decided).await {
            Ok(Answer::Decided(decision)) => return Ok(Some(*decision)),
            Ok(Answer::Nothing) => return Ok(None),
            Ok(Answer::Full) => return broken("the instance keeps as many unused signals as it may"),
            Ok(Answer::Needs(evaluation)) => match evaluated(engine, &subject.tenant, *evaluation).await {
                Some(answer) => answers.push(answer),
                None => return Err(Undecided::Stopping),
            },
            Err(_) => return broken("deciding panicked"),
        }
    }
}

/// Has the sandbox evaluate, however long it takes to be let in; `None` once the node is about to stop.
pub(crate) async fn evaluated(
    engine: &Engine,
    tenant: &TenantId,
    evaluation: Evaluation,
) -> Option<Result<Data, Fault>> {
    let mut patience = Patience::new();
    loop {
        let answer = tokio::select! {
            biased;
            () = engine.tasks.leaving.cancelled() => return None,
            answer = engine.evaluator.evaluate(tenant, evaluation.clone()) => answer,
        };
        match answer {
            Ok(answer) => return Some(answer),
            Err(NotRun(_)) if patience.wait(engine).await => {}
            Err(_) => return None,
        }
    }
}

/// Turns the store's answer into what the turn does next.
async fn settle(
    engine: &Engine,
    work: &Work,
    outcome: Result<Outcome, store::Error>,
    version: i64,
    state_json: &[u8],
) -> Result<(), Trouble> {
    match outcome {
        Ok(Outcome::Committed) => Ok(()),
        Ok(Outcome::Conflict(Conflict::Version)) => Err(Trouble::Lost),
        Ok(Outcome::Conflict(Conflict::Gone)) => Err(Trouble::Gone),
        Ok(Outcome::Conflict(conflict)) => Err(Trouble::Refused(Refusal::Conflict {
            code: if conflict == Conflict::Exists { EXISTS } else { "conflict" },
            detail: format!("{conflict:?}"),
            existing: None,
        })),
        Ok(Outcome::Rejected(detail)) => Err(Trouble::Poison(detail)),
        Err(store::Error::Unknown(_)) => read_back(engine, work, version, state_json).await,
        Err(error) => Err(Trouble::Store(error)),
    }
}

/// The commit may or may not have landed: the stored snapshot tells. Never re-run blindly.
async fn read_back(engine: &Engine, work: &Work, version: i64, state_json: &[u8]) -> Result<(), Trouble> {
    let mut patience = Patience::new();
    loop {
        match engine.store.load(&work.tenant, work.instance).await {
            Ok(Some(found)) if found.state_version == version && found.state_json == state_json => {
                return Ok(());
            }
            Ok(Some(found)) if found.state_version < version => return Err(Trouble::Lost),
            Ok(Some(_)) => return Err(Trouble::Unsure),
            Ok(None) => return Err(Trouble::NoInstance),
            Err(error) => {
                if !patience.wait(engine).await {
                    return Err(Trouble::Store(error));
                }
            }
        }
    }
}

/// Submits work that a caller waits for.
pub(crate) async fn ask(engine: &Arc<Engine>, work: Work) -> Result<Turned, Refusal> {
    let (reply, answer) = oneshot::channel();
    slots::submit(engine, Work { reply: Some(reply), acting: acting::current(), ..work });
    answer.await.unwrap_or_else(|_| Err(Refusal::Unavailable("the node stopped".to_owned())))
}
