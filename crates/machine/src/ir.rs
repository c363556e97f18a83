//! The intermediate representation: what the machine executes and what the store versions.
//!
//! A [`Workflow`] is a flat arena of [`Step`]s and a table of [`Expr`]essions; lists of steps are index vectors.
//! Everything is resolved: `then` targets are positions, `use.*` references are inlined, durations are numbers.
//! It is plain data; [`crate::Program`] adds the compiled expressions.

mod event;
mod schedule;
mod script;
mod stored;

use crate::{child, data::Data, time::Span};
pub use event::{Consume, Correlation, EventFilter, Foreach, Read, Strategy, Until};
pub use schedule::{Missed, Schedule, When};
pub use script::{Returned, Script};
use serde::{Deserialize, Serialize};
pub use stored::{IR_VERSION, Unread, read, version_of};

/// Index into [`Workflow::steps`].
pub type StepId = u32;
/// Index into [`Workflow::exprs`].
pub type ExprId = u32;
/// Index into [`Workflow::schemas`].
pub type SchemaId = u32;

/// One definition, compiled.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Workflow {
    /// The lowest that can execute it: see [`version_of`].
    pub ir_version: u32,
    pub dsl: String,
    pub namespace: String,
    pub name: String,
    pub version: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// The `document` object as given, for `$workflow.definition.document`.
    pub document: Data,
    /// `use` as given; kept only while a step is not executed, because such a step may refer to any of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub declared: Option<Data>,
    /// The names of secrets it may use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<String>,
    /// Transformation of the raw workflow input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Template>,
    /// JSON Schema of the raw workflow input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_schema: Option<Data>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Template>,
    /// JSON Schema of the transformed workflow output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<SchemaId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Delay>,
    /// When instances start by themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<Schedule>,
    /// The top-level `do` list.
    pub root: Vec<StepId>,
    pub steps: Vec<Step>,
    pub exprs: Vec<Expr>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub schemas: Vec<Data>,
    /// True if any text may be an expression (`evaluate.mode: loose`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub loose: bool,
    /// The whole document as data, only if an expression looks at it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub definition: Option<Data>,
    #[serde(default, skip_serializing_if = "Lifecycle::is_none")]
    pub lifecycle: Lifecycle,
}

/// Which changes of an instance are told to the outside as events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Lifecycle {
    #[default]
    None,
    /// Of the workflow as a whole.
    Workflow,
    /// Of every step too.
    All,
}

impl Lifecycle {
    fn is_none(&self) -> bool {
        *self == Lifecycle::None
    }
}

/// One expression of the definition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Expr {
    /// jq text without the `${ }` around it.
    pub source: String,
    /// Names (without `$`) of the loop and catch variables visible here, outermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub locals: Vec<String>,
}

/// One task of the language as it will be executed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    pub name: String,
    /// JSON pointer with index and name: `/do/0/tryGetPet/try/0/getPet`.
    pub reference: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<ExprId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Template>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Template>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub export: Option<Template>,
    /// JSON Schemas of the raw input, the transformed output and the exported context.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_schema: Option<SchemaId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<SchemaId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub export_schema: Option<SchemaId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Delay>,
    #[serde(default)]
    pub then: Then,
    /// `metadata` as given; nothing that is executed reads it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Data>,
    /// What `use.extensions` puts before and after the step, both in declaration order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<Extension>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<Extension>,
    /// True for the steps of an extension: `$task` is the step they extend.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub extends: bool,
    pub kind: Kind,
}

impl Step {
    /// The lists of steps inside and around, in the order of the document.
    pub fn lists(&self) -> Vec<&[StepId]> {
        let mut lists = self.kind.lists();
        lists.extend(self.before.iter().chain(&self.after).map(|extension| extension.list.as_slice()));
        lists
    }

    /// The extension that runs as number `at` before the step, or after it.
    pub fn extension(&self, after: bool, at: u32) -> Option<&Extension> {
        match after {
            false => self.before.get(at as usize),
            true => self.after.iter().rev().nth(at as usize),
        }
    }
}

/// Steps that an extension puts around another step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Extension {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<ExprId>,
    pub list: Vec<StepId>,
}

impl Workflow {
    /// The step in whose list a step stands, and which of its lists it is; none at the top.
    pub fn home(&self, id: StepId) -> Option<(StepId, usize)> {
        let owners = self.steps.iter().zip(0..);
        owners
            .filter_map(|(step, owner)| {
                Some((owner, step.lists().iter().position(|list| list.contains(&id))?))
            })
            .next()
    }
}

/// Where the flow goes after a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Then {
    #[default]
    Continue,
    /// Leave the enclosing list.
    Exit,
    /// Finish the workflow.
    End,
    /// Position in the same list.
    Goto(u32),
}

/// A value with expressions inside, evaluated once against the current data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Template {
    Literal(Data),
    Expr(ExprId),
    /// A text in loose mode: the expression's value, or the text itself if it has none.
    Loose(ExprId, String),
    Array(Vec<Template>),
    Object(Vec<(String, Template)>),
}

/// A length of time, fixed or computed (an expression that yields an ISO 8601 text or a duration object).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Delay {
    Fixed(Span),
    Expr(ExprId),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Kind {
    Do {
        list: Vec<StepId>,
    },
    Set {
        value: Template,
    },
    Switch {
        cases: Vec<Case>,
    },
    For {
        item: String,
        at: String,
        items: ExprId,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        condition: Option<ExprId>,
        list: Vec<StepId>,
    },
    Fork {
        branches: Vec<StepId>,
        compete: bool,
    },
    Wait {
        delay: Delay,
    },
    Raise {
        error: Raise,
    },
    Try {
        list: Vec<StepId>,
        catch: Catch,
    },
    Emit {
        /// The event's attributes and data as an object; `source` and `type` are always there.
        event: Template,
    },
    Listen {
        #[serde(flatten)]
        to: Strategy,
        read: Read,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        foreach: Option<Foreach>,
    },
    Call {
        call: Call,
    },
    /// The call of a custom function: its task, which has the arguments as its data and a `$context` of its own.
    Function {
        with: Template,
        task: StepId,
    },
    /// `saga:1.0.0@default`: done in order, undone in reverse if it cannot be finished.
    Saga {
        steps: Vec<SagaStep>,
    },
    /// Understood and validated, but this engine cannot execute it; deploying is refused with this text.
    Unsupported {
        what: String,
        /// The members of the task that make it what it is, as given.
        #[serde(default)]
        task: Data,
    },
}

impl Kind {
    /// The key that makes a task one of this kind.
    pub fn word(&self) -> &'static str {
        match self {
            Kind::Do { .. } => "do",
            Kind::Set { .. } => "set",
            Kind::Switch { .. } => "switch",
            Kind::For { .. } => "for",
            Kind::Fork { .. } => "fork",
            Kind::Wait { .. } => "wait",
            Kind::Raise { .. } => "raise",
            Kind::Try { .. } => "try",
            Kind::Emit { .. } => "emit",
            Kind::Listen { .. } => "listen",
            Kind::Call { call: Call::Script(_) } => "run",
            Kind::Call { .. } | Kind::Function { .. } => "call",
            Kind::Saga { .. } => "saga",
            Kind::Unsupported { .. } => "unsupported",
        }
    }

    /// The lists of steps inside, in the order of the document.
    pub fn lists(&self) -> Vec<&[StepId]> {
        match self {
            Kind::Do { list } | Kind::For { list, .. } | Kind::Fork { branches: list, .. } => vec![list],
            Kind::Try { list, catch } => {
                std::iter::once(list.as_slice()).chain(catch.list.as_deref()).collect()
            }
            Kind::Function { task, .. } => vec![std::slice::from_ref(task)],
            Kind::Listen { foreach, .. } => foreach.iter().map(|foreach| foreach.list.as_slice()).collect(),
            Kind::Saga { steps } => {
                let parts =
                    steps.iter().flat_map(|step| [std::slice::from_ref(&step.r#do), step.undo.as_slice()]);
                parts.filter(|list| !list.is_empty()).collect()
            }
            Kind::Set { .. }
            | Kind::Switch { .. }
            | Kind::Wait { .. }
            | Kind::Raise { .. }
            | Kind::Emit { .. }
            | Kind::Call { .. }
            | Kind::Unsupported { .. } => vec![],
        }
    }
}

/// The variable that holds the outputs of a saga's steps so far, by name.
pub const SAGA_STEPS: &str = "steps";
/// The variable that holds the error of a saga's step to its retry policy.
pub const SAGA_ERROR: &str = "error";

/// One step of a saga.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SagaStep {
    pub name: String,
    pub r#do: StepId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undo: Option<StepId>,
    /// Once it is done the saga only goes forward.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pivot: bool,
    /// How `undo` is tried again, and `do` once the saga only goes forward.
    pub retry: Retry,
}

/// One case of a switch, in order; the case without `when` is the default wherever it stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Case {
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<ExprId>,
    pub then: Then,
}

/// What `raise` raises.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Raise {
    pub error_type: Template,
    pub status: u16,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<Template>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<Template>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<Template>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Catch {
    #[serde(default)]
    pub with: ErrorFilter,
    /// Variable name (without `$`) that holds the error; `error` unless named.
    pub error_as: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<ExprId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub except_when: Option<ExprId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// Runs once retries are exhausted; `None` re-raises the error then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub list: Option<Vec<StepId>>,
    /// Where the flow goes after a caught error (`catch.then`), instead of the try step's own `then`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub then: Option<Then>,
}

/// Which errors a catch takes; all given members must match.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ErrorFilter {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_type: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Retry {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<ExprId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub except_when: Option<ExprId>,
    pub delay: Delay,
    pub backoff: Backoff,
    /// Retries after the first attempt; `None` is bounded by the engine's own cap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count_max: Option<u32>,
    /// Limit of one attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt_max: Option<Delay>,
    /// Limit of all attempts together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_max: Option<Delay>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter: Option<(Delay, Delay)>,
}

impl Retry {
    /// How a saga's step is tried again unless it has a policy of its own: 1, 2, 4, 8, 16 and 32 s between attempts,
    /// each of which may be several attempts of a call.
    pub fn of_sagas() -> Retry {
        Retry {
            when: None,
            except_when: None,
            delay: Delay::Fixed(Span::from_secs(1)),
            backoff: Backoff::Exponential { factor: 2.0, max: Some(Span::from_secs(60)) },
            count_max: Some(6),
            attempt_max: None,
            total_max: None,
            jitter: None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Backoff {
    Constant,
    Linear,
    /// `factor` defaults to 2; `max` caps the delay.
    Exponential {
        factor: f64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max: Option<Span>,
    },
}

/// What a `call` step calls.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Call {
    Http(Http),
    OpenApi(OpenApi),
    /// A registered worker: `name:version@default`, or a `use.functions` entry that resolves to one.
    Worker {
        name: String,
        /// Only a worker of exactly this version is called; of any if there is none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        version: Option<String>,
        with: Template,
    },
    /// `human-task:1.0.0@default`.
    HumanTask {
        with: Template,
    },
    /// `signal-token:1.0.0@default`.
    SignalToken,
    /// `run.workflow`.
    Workflow {
        workflow: child::Workflow,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        input: Option<Template>,
        /// `await`.
        wait: bool,
    },
    /// `child:1.0.0@default`.
    Child {
        with: Template,
    },
    /// `map:1.0.0@default`.
    Map {
        with: Template,
    },
    /// `run.script`: JavaScript in the sandbox.
    Script(Script),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Http {
    /// Upper case.
    pub method: String,
    /// Text with `{name}` expansions of top-level fields of the data, or an expression.
    pub endpoint: Template,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<(String, Template)>,
    /// Yields further headers as an object; given instead of `headers`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headers_from: Option<ExprId>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub query: Vec<(String, Template)>,
    /// Yields further query parameters as an object; given instead of `query`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query_from: Option<ExprId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Template>,
    #[serde(default)]
    pub output: HttpOutput,
    #[serde(default)]
    pub redirect: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authentication: Option<Authentication>,
}

/// One operation of an API that describes itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OpenApi {
    /// Where the description is: text with `{name}` expansions, or an expression.
    pub document: Template,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub document_authentication: Option<Authentication>,
    pub operation: Template,
    /// By name; what has no name of a parameter is the body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters: Option<Template>,
    #[serde(default)]
    pub output: HttpOutput,
    #[serde(default)]
    pub redirect: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authentication: Option<Authentication>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum HttpOutput {
    #[default]
    Content,
    Raw,
    Response,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Authentication {
    Basic {
        username: Template,
        password: Template,
    },
    Bearer {
        token: Template,
    },
    /// Any other scheme, with its members.
    Policy {
        scheme: Scheme,
        with: Template,
    },
    /// The secret of this name holds the members.
    Secret {
        scheme: Scheme,
        name: String,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scheme {
    Basic,
    Bearer,
    Digest,
    Oauth2,
    Oidc,
}
