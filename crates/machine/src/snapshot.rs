//! The stored form of a state: JSON of a fixed shape, with the columns the store shows beside it.
//!
//! The shape (`engineSchemaVersion`, `workflowState`, `businessReference`, `status`, `waiting`, `resume`,
//! `subWorkflowFrames`, `continuationBuffer`) is a contract. An unknown higher schema version is refused, and so is a member
//! or a word that this build does not know: it would be written back without it. Whoever adds one writes it only where it
//! says something, and every snapshot that does without stays readable to builds before.

use crate::{
    child::{self, Parent},
    command::{Command, Trace},
    data::Data,
    fault::Fault,
    id, newer,
    program::Program,
    saga::Closing,
    state::{
        Body, Branch, BusinessReference, Ending, Expectation, Listening, ROOT, State, Status, Wait, WaitKind,
        Wanted,
    },
    time::Time,
};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// The newest schema this build writes and the newest it reads.
pub const SCHEMA_VERSION: i64 = 1;

/// Why a stored snapshot cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SnapshotError {
    #[error("snapshot has schema version {0}, this build reads up to {SCHEMA_VERSION}")]
    TooNew(i64),
    #[error("snapshot was written by a newer build: {0}")]
    Unknown(String),
    #[error("snapshot is not readable: {0}")]
    Unreadable(String),
    #[error("snapshot contradicts its definition: {0}")]
    Inconsistent(String),
}

impl SnapshotError {
    /// True if a newer build wrote it, which may well go on from it.
    pub fn is_newer(&self) -> bool {
        matches!(self, SnapshotError::TooNew(_) | SnapshotError::Unknown(_))
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Document<'a> {
    engine_schema_version: i64,
    workflow_state: WorkflowState<'a>,
    business_reference: Option<Cow<'a, BusinessReference>>,
    status: Status,
    waiting: Option<Waiting>,
    resume: Option<Resume>,
    #[serde(default)]
    sub_workflow_frames: Vec<Data>,
    #[serde(default)]
    continuation_buffer: Cow<'a, [Command]>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WorkflowState<'a> {
    #[serde(default, skip_serializing_if = "is_untraced")]
    trace: Cow<'a, Trace>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    parent: Option<Cow<'a, Parent>>,
    started_at: Time,
    sequence: u64,
    input: Data,
    context: Data,
    branches: Cow<'a, [Branch]>,
    waits: Cow<'a, [Wait]>,
    #[serde(default, skip_serializing_if = "is_empty")]
    closings: Cow<'a, [Closing]>,
    #[serde(default, skip_serializing_if = "is_zero")]
    undone: u64,
    #[serde(default, deserialize_with = "crate::data::present", skip_serializing_if = "Option::is_none")]
    output: Option<Data>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<Cow<'a, Fault>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ending: Option<Cow<'a, Ending>>,
    #[serde(default, skip_serializing_if = "is_zero")]
    yields: u32,
}

fn is_empty(closings: &[Closing]) -> bool {
    closings.is_empty()
}

fn is_zero<T: Default + PartialEq>(number: &T) -> bool {
    *number == T::default()
}

fn is_untraced(trace: &Trace) -> bool {
    trace.is_empty()
}

/// The wait people see; agrees with the columns `WAITING_KIND/TOKEN/UNTIL_UTC`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Waiting {
    pub kind: String,
    pub token: String,
    pub until_utc: Option<String>,
}

/// Where the instance goes on; agrees with the column `RESUME_POINTER_JSON`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Resume {
    pub entry_point_kind: String,
    pub task_name: Option<String>,
    /// References of the steps the branch is inside of, outermost first.
    pub branch_path: Vec<String>,
    pub next_step_index: u32,
}

/// A state ready to be stored.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub json: Vec<u8>,
    pub waiting: Option<Waiting>,
    pub resume: Option<Resume>,
}

/// Writes `state`.
pub fn write(program: &Program, state: &State) -> Snapshot {
    let shown = state.shown_wait();
    let waiting = shown.map(|wait| Waiting {
        kind: wait.kind.word().to_owned(),
        token: wait.token.to_string(),
        until_utc: wait.until.map(Time::rfc3339),
    });
    let resume = shown.map(|wait| resume(program, state, wait));
    let document = Document {
        engine_schema_version: SCHEMA_VERSION,
        workflow_state: WorkflowState {
            trace: Cow::Borrowed(&state.trace),
            parent: state.parent.as_deref().map(Cow::Borrowed),
            started_at: state.started_at,
            sequence: state.sequence,
            input: state.input.clone(),
            context: state.context.clone(),
            branches: Cow::Borrowed(&state.branches),
            waits: Cow::Borrowed(&state.waits),
            closings: Cow::Borrowed(&state.closings),
            undone: state.undone,
            output: state.output.clone(),
            error: state.error.as_ref().map(Cow::Borrowed),
            yields: state.yields,
            ending: state.ending.as_deref().map(Cow::Borrowed),
        },
        business_reference: state.business.as_ref().map(Cow::Borrowed),
        status: state.status,
        waiting: waiting.clone(),
        resume: resume.clone(),
        sub_workflow_frames: sub_workflow_frames(state),
        continuation_buffer: Cow::Borrowed(&state.buffer),
    };
    let json = serde_json::to_vec(&document).expect("a snapshot is plain JSON");
    Snapshot { json, waiting, resume }
}

/// Reads a stored state and checks it against its definition (the pair of the assertion after every decision).
pub fn read(program: &Program, json: &[u8]) -> Result<State, SnapshotError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Version {
        engine_schema_version: i64,
    }
    let unreadable = |error: serde_json::Error| SnapshotError::Unreadable(error.to_string());
    let version: Version = serde_json::from_slice(json).map_err(unreadable)?;
    if version.engine_schema_version > SCHEMA_VERSION {
        return Err(SnapshotError::TooNew(version.engine_schema_version));
    }
    let document: Document<'_> =
        serde_json::from_slice(json).map_err(|error| match newer::says_unknown(&error) {
            true => SnapshotError::Unknown(error.to_string()),
            false => unreadable(error),
        })?;
    let inner = document.workflow_state;
    let mut state = State {
        status: document.status,
        business: document.business_reference.map(Cow::into_owned),
        trace: inner.trace.into_owned(),
        parent: inner.parent.map(|parent| Box::new(parent.into_owned())),
        started_at: inner.started_at,
        sequence: inner.sequence,
        input: inner.input,
        context: inner.context,
        branches: inner.branches.into_owned(),
        waits: inner.waits.into_owned(),
        closings: inner.closings.into_owned(),
        undone: inner.undone,
        buffer: document.continuation_buffer.into_owned(),
        output: inner.output,
        error: inner.error.map(Cow::into_owned),
        yields: inner.yields,
        ending: inner.ending.map(|ending| Box::new(ending.into_owned())),
    };
    upcast(&mut state);
    check(program, &state)?;
    Ok(state)
}

/// Listening was a wait with its expectations before it was a body of its own.
fn upcast(state: &mut State) {
    let lists = |data: &Data| data.items().map(Iterator::collect::<Vec<_>>).unwrap_or_default();
    for wait in &mut state.waits {
        let Some(expected) = wait.expect.take() else { continue };
        let correlate = |values: Data| -> Vec<Expectation> {
            let slot = |value: Data| match lists(&value).pop() {
                Some(value) => Expectation::Value(value),
                None => Expectation::First,
            };
            lists(&values).into_iter().map(slot).collect()
        };
        let wanted = lists(&expected)
            .into_iter()
            .map(|values| Wanted { correlate: correlate(values), ..Wanted::default() });
        let wanted = wanted.collect();
        let mut frames = state.branches.iter_mut().flat_map(|branch| &mut branch.frames);
        if let Some(frame) = frames.find(|frame| frame.sequence == wait.frame && frame.body == Body::Leaf) {
            frame.body = Body::Listen(Listening { wanted, ..Listening::default() });
        }
    }
}

fn check(program: &Program, state: &State) -> Result<(), SnapshotError> {
    let inconsistent = |what: &str| Err(SnapshotError::Inconsistent(what.to_owned()));
    let known = program.ir.steps.len() as u32;
    let frames = || state.branches.iter().flat_map(|branch| &branch.frames);
    if frames().any(|frame| frame.step.is_some_and(|step| step >= known)) {
        return inconsistent("a frame names a step the definition does not have");
    }
    if frames().any(|frame| frame.sequence > state.sequence)
        || state.waits.iter().any(|wait| wait.token > state.sequence)
    {
        return inconsistent("a number was used that was not handed out");
    }
    let orphan = |wait: &&Wait| {
        wait.frame != 0 && !frames().any(|frame| frame.sequence == wait.frame) && !between(state, wait)
    };
    if state.waits.iter().any(|wait| orphan(&wait)) {
        return inconsistent("a wait belongs to no frame");
    }
    if state.status == Status::Open && state.waits.is_empty() {
        return inconsistent("an open instance waits for nothing");
    }
    Ok(())
}

/// A fork branch that yielded before its first step waits without a frame of its own.
fn between(state: &State, wait: &Wait) -> bool {
    wait.kind == WaitKind::Continue && state.branch(wait.branch).is_some()
}

/// What the instance knows of the children it waits for. The waits and frames are the truth; this shows them.
fn sub_workflow_frames(state: &State) -> Vec<Data> {
    let number = |n: u64| Data::int(i64::try_from(n).unwrap_or(i64::MAX));
    let mut shown = Vec::new();
    for wait in &state.waits {
        let mut frame = vec![("waitingToken".to_owned(), Data::text(wait.token.to_string()))];
        if let Some(child) = &wait.child {
            frame.push(("instanceId".to_owned(), Data::text(id::show(id::Kind::Instance, child.instance))));
            frame.push(("workflow".to_owned(), child::to_data(&child.workflow)));
            frame.push(("onParentClose".to_owned(), child::to_data(&child.close)));
            frame.push(("started".to_owned(), Data::bool(child.started)));
        } else if wait.kind == WaitKind::Map
            && let Some(Body::Map(map)) = state.branch(wait.branch).and_then(|b| Some(&b.frames.last()?.body))
        {
            frame.push(("workflow".to_owned(), child::to_data(&map.workflow)));
            frame.push(("resultsRef".to_owned(), Data::text(id::show(id::Kind::Dataset, map.results))));
            frame.push(("total".to_owned(), map.total.map(number).unwrap_or_default()));
            for (name, value) in [
                ("cursor", map.cursor),
                ("running", map.running),
                ("succeeded", map.succeeded),
                ("failed", map.failed),
            ] {
                frame.push((name.to_owned(), number(value)));
            }
        } else {
            continue;
        }
        shown.push(Data::map(frame));
    }
    shown
}

fn resume(program: &Program, state: &State, wait: &Wait) -> Resume {
    let entry_point_kind = match wait.kind {
        WaitKind::TaskCompletion => "TaskOnComplete",
        WaitKind::Timer => "TimerDue",
        WaitKind::Retry => "RetryDue",
        WaitKind::Timeout | WaitKind::AttemptTimeout => "TimeoutDue",
        WaitKind::Call => "CallOnComplete",
        WaitKind::Event => "SignalReceived",
        WaitKind::Child | WaitKind::Map => "SubWorkflowCompleted",
        WaitKind::Continue => "InternalContinue",
    };
    let branch = state.branch(wait.branch).or_else(|| state.branch(ROOT));
    let frames = branch.map(|branch| branch.frames.as_slice()).unwrap_or_default();
    let named = frames.iter().filter_map(|frame| frame.step).map(|id| program.step(id));
    let next_step_index = frames.iter().rev().find_map(|frame| match &frame.body {
        Body::List(cursor) | Body::For { cursor, .. } => Some(cursor.at),
        Body::Try(attempt) => Some(attempt.cursor.at),
        Body::Listen(listening) if listening.iterating => Some(listening.cursor.at),
        Body::Around(around) if around.inside => Some(around.cursor.at),
        Body::Saga(saga) => Some(saga.at),
        Body::Leaf | Body::Fork { .. } | Body::Listen(_) | Body::Around(_) | Body::Map(_) => None,
    });
    Resume {
        entry_point_kind: entry_point_kind.to_owned(),
        task_name: named.clone().next_back().map(|step| step.name.clone()),
        branch_path: named.map(|step| step.reference.clone()).collect(),
        next_step_index: next_step_index.unwrap_or(0) + 1,
    }
}
