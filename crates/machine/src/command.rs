//! What can be told to an instance, and what a decision answers.

use crate::{
    child::{Outcome, Parent, Tally},
    data::Data,
    expr::Evaluation,
    fault::Fault,
    ir::{HttpOutput, Scheme},
    state::{BusinessReference, State},
    time::Time,
};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// One thing told to an instance. Every command on every state has an answer; most late ones have an empty one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "camelCase", deny_unknown_fields)]
pub enum Command {
    Start {
        input: Data,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        business: Option<BusinessReference>,
        #[serde(default)]
        trace: Trace,
        /// Who starts it, if an instance does.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent: Option<Box<Parent>>,
    },
    /// A timer row came due.
    Timer {
        token: u64,
    },
    /// The turn before yielded.
    Continue {
        token: u64,
    },
    /// A call ended.
    CallDone {
        token: u64,
        result: Data,
    },
    CallFailed {
        token: u64,
        fault: Fault,
        /// The call will not be tried again although its worker wanted to: if nobody catches the fault, the call
        /// becomes a dead letter.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        given_up: Option<GivenUp>,
    },
    /// A person completed a task.
    TaskDone {
        token: u64,
        result: Data,
    },
    /// A message from outside: an event for `listen` steps.
    Signal {
        id: Uuid,
        /// A CloudEvent as an object.
        event: Data,
    },
    /// An event addressed to nobody, told to one wait that may want it. If it does not, the event is not kept.
    Event {
        id: Uuid,
        event: Data,
        token: u64,
    },
    /// The child that a wait stands for is there.
    ChildStarted {
        token: u64,
    },
    ChildDone {
        token: u64,
        outcome: Outcome,
    },
    /// Children of a `map` step were started or have ended.
    Items {
        token: u64,
        tally: Tally,
    },
    /// The parent no longer waits for this instance.
    ParentClosed,
    Cancel,
    Pause,
    Resume,
    /// Run the step that faulted the instance again.
    Retry,
    /// Go on in another version of the definition. It takes both versions to decide: see
    /// [`Plan::migrate`](crate::version::Plan::migrate).
    Migrate {
        version: String,
        #[serde(default)]
        mapping: crate::version::Mapping,
    },
    /// A dead letter of the instance is no more: its signal is queued again, or it was thrown away.
    LetterTaken {
        replayed: bool,
    },
    /// What stands for this wait was given up as a dead letter, and is put back.
    PutBack {
        token: u64,
    },
}

impl Command {
    /// The wait that this is the answer to.
    pub fn token(&self) -> Option<u64> {
        match self {
            Command::Timer { token }
            | Command::Continue { token }
            | Command::CallDone { token, .. }
            | Command::CallFailed { token, .. }
            | Command::TaskDone { token, .. }
            | Command::ChildDone { token, .. } => Some(*token),
            _ => None,
        }
    }
}

/// A call that was given up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GivenUp {
    pub token: u64,
    pub target: String,
    pub attempts: u32,
    /// The call's envelope, byte for byte.
    pub envelope: String,
}

/// A step of a saga that failed for good where the saga must not stop.
#[derive(Clone, Debug, PartialEq)]
pub struct Incident {
    /// The reference of the step's `undo`, or of its `do` once the saga only goes forward.
    pub step: String,
    pub attempts: u32,
    pub fault: Fault,
    /// What the step was given.
    pub input: Data,
}

/// What ties an instance to the request that began it; handed on to everything it causes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Trace {
    /// W3C trace context.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tracestate: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
    /// How many emitted events follow each other up to the one that began the instance; nothing if no event did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hops: Option<u32>,
}

impl Trace {
    pub fn is_empty(&self) -> bool {
        self.traceparent.is_none() && self.correlation_id.is_none() && self.hops.is_none()
    }
}

/// Who the decision is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    pub tenant: crate::id::TenantId,
    pub instance: Uuid,
    /// What `signal-token` makes its tokens with; `None` where there is no deployment around.
    pub origin: Option<std::sync::Arc<crate::token::Origin>>,
}

/// What follows from a command.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    pub state: State,
    /// What happened, for history. Empty together with `effects` if the command changed nothing.
    pub events: Vec<Event>,
    /// Rows to write; never calls.
    pub effects: Vec<Effect>,
}

/// Either a decision, or expressions that must first be evaluated outside.
#[derive(Clone, Debug)]
pub enum Answer {
    Decided(Box<Decision>),
    /// Nothing was decided: evaluate this, append the result to the answers, decide again.
    Needs(Box<Evaluation>),
    /// The command changes nothing (late, duplicate, or not for this state).
    Nothing,
    /// A signal nothing waits for yet, and no room to keep it: tell it again later.
    Full,
}

/// One line of history.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Event {
    /// For example `step.started`.
    pub kind: &'static str,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// Which visit of the step: the positions in the loops around it, outermost first; `~n` after the n-th jump back,
    /// `rn` in the n-th retry. `None` where nothing repeats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iteration: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<Data>,
}

/// Something to be made a row of in the same commit.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    Call(Call),
    Timer {
        token: u64,
        due_at: Time,
        signal_type: SignalType,
    },
    Task(Box<Task>),
    /// An event for the outside; `id` is derived, so that deciding twice names it the same.
    Emit {
        id: Uuid,
        event: Data,
    },
    /// The instance faulted because this call was given up.
    DeadLetter(GivenUp),
    /// The instance faulted because a saga can neither go back nor forward.
    Incident(Incident),
    /// The instance ended, and another waits for that.
    TellParent(Box<(Parent, Outcome)>),
    /// The instance no longer waits for this child.
    CloseChild {
        child: Uuid,
    },
    /// A dataset of so many items, with those that are given.
    Dataset {
        id: Uuid,
        count: u64,
        items: Vec<Data>,
    },
    /// Continue in a turn of its own.
    Continue {
        token: u64,
    },
    DropCall {
        token: u64,
    },
    DropTimer {
        token: u64,
    },
    /// The task's wait ended another way.
    CancelTask {
        token: u64,
    },
}

impl Effect {
    /// The wait that the row made by this effect stands for.
    pub fn token(&self) -> Option<u64> {
        match self {
            Effect::Call(call) => Some(call.token),
            Effect::Task(task) => Some(task.token),
            Effect::Timer { token, .. } | Effect::Continue { token } => Some(*token),
            _ => None,
        }
    }
}

/// One step handed to a worker or endpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Call {
    pub token: u64,
    /// Worker name, `http`, `openapi`, or one of the engine's own (see `child`).
    pub target: String,
    /// Stable per (tenant, instance, step, iteration).
    pub key: String,
    /// The step's reference.
    pub step: String,
    /// The version of the worker; any if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    pub input: Data,
    #[serde(default)]
    pub trace: Trace,
    /// Marks in `input` that stand for secrets; the values are put in when the call is made, and stored nowhere.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<Placeholder>,
    /// A `try` around the step has failed before, and tries again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub again: bool,
}

/// A text that stands for a secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Placeholder {
    pub mark: String,
    /// The secret's name, then the keys inside it.
    pub path: Vec<String>,
}

/// How a request proves who sends it. Credentials may hold marks of secrets, never their values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Authentication {
    pub scheme: Scheme,
    pub credentials: Credentials,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Credentials {
    /// The policy's members.
    With(Data),
    /// The secret of this name holds them.
    Secret(String),
}

/// What `Call::input` holds for the target `http`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpRequest {
    pub method: String,
    pub url: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<(String, String)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Data>,
    #[serde(default)]
    pub output: HttpOutput,
    #[serde(default)]
    pub redirect: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authentication: Option<Authentication>,
}

/// What `Call::input` holds for the target `openapi`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpenApiRequest {
    /// URL of the document that describes the operation.
    pub document: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub document_authentication: Option<Authentication>,
    pub operation: String,
    #[serde(default, skip_serializing_if = "Data::is_null")]
    pub parameters: Data,
    #[serde(default)]
    pub output: HttpOutput,
    #[serde(default)]
    pub redirect: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authentication: Option<Authentication>,
}

/// What `Call::input` holds for the target [`SCRIPT`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptRequest {
    pub code: String,
    #[serde(default)]
    pub arguments: Vec<String>,
    #[serde(default)]
    pub environment: Vec<(String, String)>,
    #[serde(default)]
    pub stdin: String,
    #[serde(default)]
    pub returned: crate::ir::Returned,
}

/// The target of `run.script` steps. No worker can have this name.
pub const SCRIPT: &str = "script:js";

/// Work for a person.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    pub id: Uuid,
    pub token: u64,
    pub step: String,
    pub title: String,
    pub assignee: Option<String>,
    pub candidate_users: Vec<String>,
    pub candidate_groups: Vec<String>,
    pub payload: Data,
    pub form: Option<Data>,
    pub priority: i64,
    pub due_at: Option<Time>,
}

/// The types of the signal envelope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SignalType {
    TaskCompleted,
    TimerDue,
    RetryDue,
    ExternalSignal,
    SubWorkflowCompleted,
    InternalContinue,
    /// Of this engine's own: from a parent to its child.
    ParentClosed,
}

/// The compact message of the signal and timer queues. Never holds a snapshot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SignalEnvelope {
    pub signal_id: Uuid,
    pub workflow_instance_id: Uuid,
    pub runtime_provider: String,
    pub signal_type: SignalType,
    /// The version the sender saw; informative, the token decides.
    pub expected_version: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_token: Option<String>,
    #[serde(default)]
    pub occurred_at_utc: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due_at_utc: Option<String>,
    #[serde(default)]
    pub payload: Data,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
}

/// The provider name every envelope and snapshot row carries.
pub const RUNTIME_PROVIDER: &str = "windlass";

/// The largest signal envelope in bytes.
pub const ENVELOPE_MAX: usize = 64 * 1024;
