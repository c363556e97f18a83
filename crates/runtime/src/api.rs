//! What callers of the runtime ask and what they are answered. No behaviour lives here.

mod batch;
mod declared;
mod record;

pub use batch::{Act, BATCH_RATE_DEFAULT, BATCH_RATE_MAX, BatchOrder, NewBatch, Preview};
pub use declared::{DebounceSaid, Declared, RateSaid, ScheduleSaid, TerminalSaid};
use machine::{
    Data, Fault, Time,
    language::Problem,
    version::{Fit, Mapping, Need},
};
pub use record::{AclExplanation, AclStep, Asker, RecordChange, RecordDraft};
use uuid::Uuid;
pub use worker::{Class, Effects, Emit, Failure, Handled, Move, Watermark};

/// Why the runtime refuses. Each variant is one thing the caller can do about it.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Refusal {
    /// Nothing of that name in this tenant.
    #[error("{0} not found")]
    NotFound(String),
    /// The request is wrong in itself. `code` is a stable kebab-case word.
    #[error("{detail}")]
    Invalid { code: &'static str, detail: String, problems: Vec<Problem> },
    /// The object's state does not allow it.
    #[error("{detail}")]
    Conflict { code: &'static str, detail: String, existing: Option<Uuid> },
    /// The idempotency key was used with another request.
    #[error("the idempotency key was used before with a different request")]
    KeyReused,
    /// `If-Match` names another version.
    #[error("the object changed: it is at version {current}")]
    Stale { current: i64 },
    /// Whoever asks may not. `code` is a stable kebab-case word.
    #[error("{detail}")]
    Forbidden { code: &'static str, detail: String },
    /// The tenant does nothing now: an operator has to resume it. `code` is a stable kebab-case word.
    #[error("{detail}")]
    Parked { code: &'static str, detail: String },
    /// A limit of the tenant is reached: come back after so long.
    #[error("{detail}")]
    Limited { code: &'static str, detail: String, after: machine::time::Span },
    /// Shed before acknowledging: come back later.
    #[error("too much work is queued; retry later")]
    Busy,
    /// The disk is full: writes are refused, reads work.
    #[error("the store has no room left")]
    Full,
    /// The store cannot be reached, or the node is stopping.
    #[error("unavailable: {0}")]
    Unavailable(String),
}

/// A definition's name; the newest version when `version` is `None`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefinitionRef {
    pub namespace: String,
    pub name: String,
    pub version: Option<String>,
}

/// What deploying or validating found.
#[derive(Clone, Debug)]
pub struct Deployed {
    pub namespace: String,
    pub name: String,
    pub version: String,
    pub warnings: Vec<Problem>,
    /// False if exactly this document was deployed before.
    pub created: bool,
}

/// One start.
#[derive(Clone, Debug)]
pub struct Start {
    pub definition: DefinitionRef,
    pub input: Data,
    /// At most one open instance per key.
    pub business_key: Option<String>,
    /// What the key is made of, by name; instances can be found by each part.
    pub business_parts: Vec<(String, String)>,
    /// Asking again with the same key gives the same instance.
    pub idempotency_key: Option<String>,
    pub traceparent: Option<String>,
    /// Goes with `traceparent`, as it came.
    pub tracestate: Option<String>,
    pub correlation_id: Option<String>,
    /// The caller's own choice of id; a fresh one otherwise.
    pub id: Option<Uuid>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Started {
    pub id: Uuid,
    /// True if an earlier request with the same idempotency key started it.
    pub replayed: bool,
}

/// One message to an instance. It is an event of type `name` to the instance's `listen` steps.
#[derive(Clone, Debug)]
pub struct Signal {
    pub name: String,
    pub data: Data,
    /// Sender's id: sending again with the same id has no second effect.
    pub id: Option<Uuid>,
}

/// An event that was published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    pub id: Uuid,
    /// True if it was published before: nothing happened now.
    pub replayed: bool,
    /// Instances that it started.
    pub started: Vec<Uuid>,
}

/// What an operator can tell an instance to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Cancel,
    Pause,
    Resume,
    /// Run the faulted step again.
    Retry,
}

/// How an instance ended, or that it goes on.
#[derive(Clone, Debug, PartialEq)]
pub enum InstanceResult {
    Completed(Data),
    Faulted(Fault),
    Cancelled,
    /// Status word of now.
    Pending(String),
}

/// What a person does with a task.
#[derive(Clone, Debug)]
pub enum TaskAct {
    Claim,
    Release,
    Assign { to: String },
    Complete { result: Data },
}

/// A change other parts may want to show; sent after its commit is durable.
#[derive(Clone, Debug)]
pub struct Change {
    /// Rises by one per change of this process.
    pub sequence: u64,
    pub tenant: machine::TenantId,
    /// `instance`, `task` or `dead-letter`.
    pub kind: &'static str,
    pub id: Uuid,
    /// Status word after the change.
    pub status: String,
    pub version: i64,
    pub at: Time,
}

/// A new API key; the secret is shown this once.
#[derive(Clone, Debug)]
pub struct NewKey {
    pub id: String,
    pub secret: String,
}

/// To which version an instance shall go.
#[derive(Clone, Debug, Default)]
pub struct Migration {
    pub version: String,
    pub mapping: Mapping,
    /// Only say whether it would work.
    pub dry_run: bool,
    /// Refused as stale if the instance is not at this state version.
    pub expected: Option<i64>,
}

/// Which instances shall go: live ones of this definition, of any other version or of `from` only.
#[derive(Clone, Debug, Default)]
pub struct MigrationFilter {
    pub namespace: String,
    pub name: String,
    pub from: Option<String>,
    /// Where to go on: `next` of the answer before.
    pub after: Option<Uuid>,
    pub limit: usize,
}

/// What became of many moves.
#[derive(Clone, Debug, Default)]
pub struct Moves {
    pub moved: u64,
    pub refused: u64,
    /// Some of those refused, and why.
    pub examples: Vec<(Uuid, String)>,
    pub next: Option<Uuid>,
}

/// How the live instances of other versions would fare in a version.
#[derive(Clone, Debug, Default)]
pub struct Preflight {
    pub checked: u64,
    pub safe: u64,
    pub needs_mapping: u64,
    pub breaks: u64,
    /// Version, what needs a word, and how many instances need it.
    pub needs: Vec<(String, Need, u64)>,
    /// Version, why instances break, and how many.
    pub reasons: Vec<(String, String, u64)>,
    pub examples: Vec<Unfit>,
    pub next: Option<Uuid>,
}

/// An instance that does not fit as it is.
#[derive(Clone, Debug)]
pub struct Unfit {
    pub id: Uuid,
    pub version: String,
    pub fit: Fit,
}

/// A tenant's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DevClock {
    pub now: Time,
    /// How far it is ahead of the real one.
    pub ahead: machine::time::Span,
    /// True if it may be moved here.
    pub enabled: bool,
}

/// What a tenant says of an address that events are sent to.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct Webhook {
    pub url: String,
    /// Types of events; one that ends with `*` is the beginning of a type.
    pub types: Vec<String>,
    /// Names of the secrets that sign.
    pub secrets: Vec<String>,
    /// Attempts in all, the first included.
    pub attempts_max: u32,
    /// Why nothing is sent to it, if so.
    pub disabled: Option<String>,
}

impl Default for Webhook {
    fn default() -> Webhook {
        Webhook { url: String::new(), types: vec![], secrets: vec![], attempts_max: 12, disabled: None }
    }
}

/// What is to be done by one worker, or called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queue {
    /// The worker or target.
    pub name: String,
    /// Rows, those under way counted.
    pub deliveries: u64,
    pub calls: u64,
}

impl Queue {
    pub fn empty(name: &str) -> Queue {
        Queue { name: name.to_owned(), deliveries: 0, calls: 0 }
    }
}

/// One queue, and what of it nobody has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueDetail {
    pub queue: Queue,
    /// Deliveries that are due; counted up to a bound.
    pub ready: u64,
    /// Those that are not due yet, or that a worker has polled; counted up to a bound.
    pub later: u64,
    /// How long the one that is due longest has been so.
    pub oldest_micros: u64,
}

/// What a tenant says of a type of events.
#[derive(Clone, Debug, PartialEq)]
pub struct EventType {
    pub name: String,
    /// The JSON Schema that data of the type has to fit.
    pub schema: Data,
    /// Raised by every change; starts at 1.
    pub version: i64,
    pub created_at: Time,
    pub updated_at: Time,
}

/// The key of an event for a worker, the same on every attempt.
pub fn delivery_key(event: Uuid, worker: &str) -> String {
    crate::deliveries::key_of(event, worker)
}

/// A delivery that a worker somewhere else has asked for.
#[derive(Clone, Debug)]
pub struct Lent {
    pub id: Uuid,
    /// Which attempt this is; whoever answers names it.
    pub attempt: u32,
    /// Until when nobody else gets it.
    pub until: Time,
    /// Their ids and CloudEvents.
    pub events: Vec<(Uuid, Vec<u8>)>,
    /// For each event its domain key, if the worker has one.
    pub domain_keys: Vec<Option<String>>,
    /// For each event the trace context of this delivery.
    pub traceparents: Vec<String>,
    /// How far the worker has come, as far as it names watermarks.
    pub watermarks: Vec<Watermark>,
}
