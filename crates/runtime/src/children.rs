//! Instances that instances start: answers the calls `@child`, and brings the rows of new instances into the commit
//! of whoever starts them.
//!
//! A child is created by the commit that takes the call's row from the parent's queue and tells the parent: it is
//! there once, or the parent no longer wants it and it is never there.

use crate::{
    api::{DefinitionRef, Refusal},
    calls, dead_letters,
    definitions::Missing,
    engine::Engine,
    fanout,
    held::Hold,
    metrics::Metrics,
    rows::{self, Born},
    slots::{self, Cached},
    turn::{self, Source, Undecided, Work},
    unbegun::{self, Unbegun},
};
use futures_util::FutureExt;
use machine::{
    Command, Data, Effect, Fault, Program, State, Subject, TenantId, Time,
    child::{self, Outcome, Parent, StartCall, Workflow},
    command::{Call, Trace},
    fault::Kind,
    id,
    newer::says_unknown,
    state::BusinessReference,
    time::Span,
};
use std::{panic::AssertUnwindSafe, sync::Arc};
use store::{Write, rows::CallRow};
use uuid::Uuid;

/// How long a call of the engine's own waits before it is looked at again when the store does not answer.
const STORE_WAIT: Span = Span::from_millis(200);
/// A call of the engine's own that cannot be answered yet is tried again after this part of its age, and after this at most.
const AGAIN_PART: i64 = 8;
const AGAIN_MAX: Span = Span::from_secs(30);

/// A new instance whose rows are in somebody else's commit.
pub(crate) struct Offspring {
    subject: Subject,
    program: Arc<Program>,
    state: State,
    born: Born,
    now: Time,
}

impl Offspring {
    /// The commit is durable: the new instance goes on by itself.
    pub(crate) fn dispatch(self, engine: &Arc<Engine>) {
        let Offspring { subject, program, state, born, now } = self;
        Metrics::add(&engine.metrics.instances_started);
        turn::after(engine, &subject, None, &state, 1, now);
        if born.brings_back() {
            let key = (subject.tenant.clone(), subject.instance);
            engine.slots.keep(key, Cached { version: 1, state: Arc::new(state), program });
        }
        born.dispatch(engine, &subject);
    }

    /// Nobody knows whether the commit landed.
    pub(crate) async fn put_back(self, engine: &Arc<Engine>) {
        self.born.put_back(engine, &self.subject.tenant).await;
    }
}

/// One instance about to be started by another.
pub(crate) struct Conception<'a> {
    pub(crate) tenant: &'a TenantId,
    pub(crate) id: Uuid,
    pub(crate) program: &'a Arc<Program>,
    pub(crate) input: Data,
    pub(crate) key: Option<String>,
    pub(crate) trace: &'a Trace,
    pub(crate) parent: Parent,
}

impl Conception<'_> {
    /// Decides the start and adds its rows to `writes`. An instance that ends at once has its outcome beside it: the
    /// commit that creates it can say so too.
    pub(crate) async fn write(
        self,
        engine: &Arc<Engine>,
        writes: &mut Vec<Write>,
    ) -> Result<(Offspring, Option<Outcome>), Stop> {
        let now = engine.now_of(self.tenant);
        let subject = engine.subject(self.tenant, self.id);
        let command = Command::Start {
            input: self.input,
            business: self.key.map(|key| BusinessReference { key, parts: Data::object() }),
            trace: self.trace.clone(),
            parent: Some(Box::new(self.parent)),
        };
        let decided = turn::decide_on(engine, self.program, &subject, None, &command, now).await;
        let mut decision = decided
            .map_err(|undecided| match undecided {
                Undecided::Stopping => Stop::Again("the node is stopping".to_owned()),
                Undecided::Broken(detail) => Stop::Fault(Fault::new(Kind::Runtime, detail)),
            })?
            .expect("a start of a fresh instance always decides");
        let mut outcome = None;
        decision.effects.retain_mut(|effect| match effect {
            Effect::TellParent(told) => {
                outcome = Some(told.1.clone());
                false
            }
            _ => true,
        });
        let change = rows::Change {
            engine,
            subject: &subject,
            program: self.program,
            before: None,
            decision: &decision,
            signal: None,
            failed_call: None,
            moved: false,
            now,
        };
        let born = change.write(writes).await?;
        let offspring =
            Offspring { subject, program: self.program.clone(), state: decision.state, born, now };
        Ok((offspring, outcome))
    }
}

/// Why the engine's own call is not answered.
pub(crate) enum Stop {
    /// The step faults with this.
    Fault(Fault),
    /// Look again later.
    Again(String),
    /// It is not this node's to answer.
    Unbegun(Unbegun),
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Stop {
        Stop::Fault(fault)
    }
}

impl From<store::Error> for Stop {
    fn from(error: store::Error) -> Stop {
        Stop::Again(error.to_string())
    }
}

/// What a call of the engine's own comes to.
pub(crate) enum Answer {
    /// The instance is told this, in one commit with the rest.
    Tell { command: Box<Command>, also: Vec<Write>, offspring: Vec<Offspring> },
    /// Nobody waits for it.
    Done,
}

pub(crate) fn is_own(target: &str) -> bool {
    [child::START, child::START_ITEMS, child::CLOSE_ITEMS, child::RESULTS].contains(&target)
}

/// Answers a call of the engine's own.
pub(crate) async fn handle(engine: &Arc<Engine>, tenant: &TenantId, row: &CallRow, call: &Call, hold: Hold) {
    let answer = async {
        match row.target.as_str() {
            child::START => start(engine, tenant, row, call).await,
            child::START_ITEMS => fanout::start(engine, tenant, row, call).await,
            child::CLOSE_ITEMS => fanout::close(engine, tenant, row, call).await,
            _ => fanout::results(engine, tenant, row, call).await,
        }
    };
    let panicked = || Err(Stop::Fault(Fault::new(Kind::Runtime, "starting a child panicked")));
    match AssertUnwindSafe(answer).catch_unwind().await.unwrap_or_else(|_| panicked()) {
        Ok(Answer::Tell { command, also, offspring }) => {
            let work = Work { also, offspring, ..work(tenant, row, *command) };
            // Whatever else becomes of it, the turn sees to the row.
            if let Err(Refusal::Conflict { code: turn::EXISTS, .. }) =
                turn::ask(engine, Work { hold: Some(hold), ..work }).await
            {
                let detail = "an open instance has the id that was asked for";
                fail(engine, tenant, row, Fault::new(Kind::Validation, detail));
            }
        }
        Ok(Answer::Done) => {
            let write = Write::ConsumeCall { instance: row.instance, token: row.token };
            dead_letters::commit_patiently(engine, tenant, vec![write]).await;
            drop(hold);
        }
        Err(Stop::Fault(fault)) => {
            fail(engine, tenant, row, fault);
            drop(hold);
        }
        Err(Stop::Unbegun(unbegun)) => unbegun::put_back(engine, tenant, row, unbegun, hold).await,
        Err(Stop::Again(why)) => {
            // The longer it has waited already the longer it may wait: what it waits for may take hours.
            let age = engine.now().since(row.created_at);
            let wait = Span(age.0 / AGAIN_PART).clamp(STORE_WAIT, AGAIN_MAX);
            calls::try_again(engine, tenant, row, wait, row.attempt, why).await;
            drop(hold);
        }
    }
}

fn fail(engine: &Arc<Engine>, tenant: &TenantId, row: &CallRow, fault: Fault) {
    let command = Command::CallFailed { token: row.token, fault, given_up: None };
    let hold = Some(engine.held.hold(tenant, row.key()));
    slots::submit(engine, Work { hold, ..work(tenant, row, command) });
}

fn work(tenant: &TenantId, row: &CallRow, command: Command) -> Work {
    Work {
        guards: vec![Write::ConsumeCall { instance: row.instance, token: row.token }],
        source: Source::Call(Box::new(row.clone())),
        ..Work::new(tenant.clone(), row.instance, command)
    }
}

/// What the call holds.
pub(crate) fn read<T: serde::de::DeserializeOwned>(call: &Call) -> Result<T, Stop> {
    unbegun::read(call, "a call of the engine").map_err(|stop| match stop {
        unbegun::Stop::Fault(fault) => Stop::Fault(fault),
        unbegun::Stop::Unbegun(unbegun) => Stop::Unbegun(unbegun),
    })
}

/// The program of the definition that a step names.
pub(crate) async fn program_of(
    engine: &Engine,
    tenant: &TenantId,
    workflow: &Workflow,
) -> Result<Arc<Program>, Stop> {
    let Workflow { namespace, name, version } = workflow;
    let found = match version.as_str() {
        "latest" => {
            let wanted = DefinitionRef { namespace: namespace.clone(), name: name.clone(), version: None };
            engine.definitions.newest(tenant, &wanted).await
        }
        version => engine.definitions.exact(tenant, namespace, name, version).await,
    };
    found.map_err(|missing| match missing {
        Missing::Unknown => {
            let detail = format!("definition {namespace}/{name} version {version} is not deployed");
            Stop::Fault(Fault::new(Kind::Configuration, detail))
        }
        // Nodes of the build that compiled it can start it; the parent waits for one.
        Missing::Newer(detail) => Stop::Again(detail),
        Missing::Unusable(detail) => Stop::Fault(Fault::new(Kind::Configuration, detail)),
        Missing::Store(error) => error.into(),
    })
}

async fn start(engine: &Arc<Engine>, tenant: &TenantId, row: &CallRow, call: &Call) -> Result<Answer, Stop> {
    let StartCall { workflow, input, parent, key } = read(call)?;
    let program = program_of(engine, tenant, &workflow).await?;
    let conception = Conception {
        tenant,
        id: id::derive(row.instance, row.token),
        program: &program,
        input,
        key,
        trace: &call.trace,
        parent,
    };
    let mut also = Vec::with_capacity(6);
    let (offspring, outcome) = conception.write(engine, &mut also).await?;
    let command = match outcome {
        Some(outcome) => Command::ChildDone { token: row.token, outcome },
        None => Command::ChildStarted { token: row.token },
    };
    Ok(Answer::Tell { command: Box::new(command), also, offspring: vec![offspring] })
}

/// How a child ended, as its row tells: for ends that are too large for a signal. What is wrong with the row, if a newer
/// build wrote it.
pub(crate) async fn outcome_of(
    engine: &Engine,
    tenant: &TenantId,
    child: Uuid,
) -> Result<Result<Outcome, serde_json::Error>, store::Error> {
    let view = engine.store.instance(tenant, child).await?;
    let Some(view) = view else { return Ok(Ok(Outcome::Cancelled {})) };
    Ok(Ok(match view.row.status.as_str() {
        "completed" => {
            let output = view.row.output.and_then(|bytes| serde_json::from_slice(&bytes).ok());
            Outcome::Completed { output: output.unwrap_or_default() }
        }
        "cancelled" => Outcome::Cancelled {},
        _ => {
            let error = match view.row.error.map(|bytes| serde_json::from_slice(&bytes)) {
                Some(Err(error)) if says_unknown(&error) => return Ok(Err(error)),
                error => error.and_then(Result::ok),
            };
            let unknown = || Fault::new(Kind::Runtime, "the child's error was not recorded");
            Outcome::Faulted { error: error.unwrap_or_else(unknown) }
        }
    }))
}
