//! What rows hold. Plain data; every row belongs to the tenant of its commit.

mod audit;
mod batch;
mod delivery;
mod error;
mod queue;
mod record;
mod schedule;

pub use audit::{AuditRow, AuditView, Seal, SealRow, Tail};
pub use batch::{BatchCounts, BatchItemRow, BatchRow, ItemOutcome, Settlement};
pub use delivery::{
    DeliveryAsk, DeliveryRow, Depth, EventIds, Loan, Loans, Pace, Traced, WatermarkRow, WorkerRow,
};
pub use error::{ErrorGroupRow, LetterGroup};
pub use queue::{QueueKind, QueueRow, Unclaimed};
pub use record::{AclListRow, AclNode, AclWorkRow, GroupRow, NewRecord, RecordKey, RecordKindRow, RecordRow};

use machine::{TenantId, Time};
pub use schedule::{
    CollectionRow, EventRow, EventTypeRow, ScheduleRow, SlotRow, Subscriber, SubscriptionRow,
};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use uuid::Uuid;

/// `wf_instances`: what products and people see of an instance.
#[derive(Clone, Debug, PartialEq)]
pub struct InstanceRow {
    pub id: Uuid,
    pub namespace: String,
    pub name: String,
    pub version: String,
    pub business_key: Option<String>,
    /// JSON object of the parts a business key is made of.
    pub business_parts: Option<Vec<u8>>,
    /// `pending running waiting paused completed faulted cancelled`.
    pub status: String,
    pub input: Vec<u8>,
    pub output: Option<Vec<u8>>,
    pub error: Option<Vec<u8>>,
    /// Product-facing state: the workflow's exported `$context`.
    pub context: Option<Vec<u8>>,
    pub traceparent: Option<String>,
    pub correlation_id: Option<String>,
    /// The instance that started this one.
    pub parent: Option<ParentRow>,
    pub created_at: Time,
    pub updated_at: Time,
    pub ended_at: Option<Time>,
}

/// Which wait of which instance started a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParentRow {
    pub instance: Uuid,
    pub token: u64,
    /// Position among the items of a `map` step.
    pub item: Option<u32>,
}

/// A change of the projection. `None` leaves a column as it is.
#[derive(Clone, Debug, PartialEq)]
pub struct InstanceChange {
    pub id: Uuid,
    pub status: String,
    pub output: Option<Vec<u8>>,
    /// `Some(None)` clears it (an operator retried a faulted instance).
    pub error: Option<Option<Vec<u8>>>,
    pub context: Option<Vec<u8>>,
    pub updated_at: Time,
    /// `Some(None)` reopens.
    pub ended_at: Option<Option<Time>>,
}

/// `wf_runtime_states`: the engine's snapshot, the truth for resuming.
#[derive(Clone, Debug, PartialEq)]
pub struct StateRow {
    pub instance: Uuid,
    /// 0 when the row is to be created.
    pub expected_version: i64,
    pub state_version: i64,
    pub snapshot_schema_version: i64,
    /// `Open`, `Suspended` (waits on a timer), `Paused`, `Completed`, `Faulted`, `Cancelled`.
    pub runtime_status: String,
    pub waiting_kind: Option<String>,
    pub waiting_token: Option<String>,
    pub waiting_until: Option<Time>,
    pub active_task_id: Option<Uuid>,
    pub resume_pointer_json: Option<Vec<u8>>,
    /// `None` leaves the one before.
    pub last_signal_id: Option<Uuid>,
    pub last_error_code: Option<String>,
    pub last_error_json: Option<Vec<u8>>,
    /// Node id.
    pub last_executed_by: Uuid,
    pub last_executed_on: Time,
    pub state_json: Vec<u8>,
}

/// What a turn loads.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadedState {
    pub state_version: i64,
    pub namespace: String,
    pub name: String,
    pub version: String,
    pub state_json: Vec<u8>,
}

/// `wf_history`: one row per commit of an instance, holding its events as a JSON array.
#[derive(Clone, Debug, PartialEq)]
pub struct HistoryRow {
    pub instance: Uuid,
    /// The state version this commit made; 1..n without gap.
    pub version: i64,
    pub at: Time,
    pub events: Vec<u8>,
}

/// `wf_signal_q`: a message to one instance.
#[derive(Clone, Debug, PartialEq)]
pub struct SignalRow {
    pub id: Uuid,
    pub instance: Uuid,
    pub signal_type: String,
    /// The compact JSON envelope.
    pub envelope: Vec<u8>,
    pub created_at: Time,
    pub visible_at: Time,
    pub attempt: u32,
    /// The node that will do it; `None` is backlog for whoever claims it.
    pub owner: Option<Uuid>,
    /// Nodes that had it and ended without giving it back. The store counts; what is written with a row is not kept.
    pub taken_over: u32,
}

/// `wf_schedule_q`: a delayed signal. One per (instance, token).
#[derive(Clone, Debug, PartialEq)]
pub struct TimerRow {
    pub instance: Uuid,
    pub token: u64,
    pub due_at: Time,
    pub envelope: Vec<u8>,
    pub attempt: u32,
    pub owner: Option<Uuid>,
    /// Nodes that had it and ended without giving it back. The store counts; what is written with a row is not kept.
    pub taken_over: u32,
}

/// `calls`: one step handed to a worker or endpoint. One per (instance, token).
#[derive(Clone, Debug, PartialEq)]
pub struct CallRow {
    pub instance: Uuid,
    pub token: u64,
    /// Worker name, `http`, or one of the engine's own.
    pub target: String,
    /// JSON of the call: key, step, input.
    pub envelope: Vec<u8>,
    pub created_at: Time,
    pub visible_at: Time,
    pub attempt: u32,
    pub last_error: Option<Vec<u8>>,
    pub owner: Option<Uuid>,
    /// Nodes that had it and ended without giving it back. The store counts; what is written with a row is not kept.
    pub taken_over: u32,
}

/// Names a row of one of the queues, inside its tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum QueueKey {
    Signal { id: Uuid },
    Timer { instance: Uuid, token: u64 },
    Call { instance: Uuid, token: u64 },
    Delivery { id: Uuid },
}

impl SignalRow {
    pub fn key(&self) -> QueueKey {
        QueueKey::Signal { id: self.id }
    }
}

impl TimerRow {
    pub fn key(&self) -> QueueKey {
        QueueKey::Timer { instance: self.instance, token: self.token }
    }
}

impl CallRow {
    pub fn key(&self) -> QueueKey {
        QueueKey::Call { instance: self.instance, token: self.token }
    }
}

/// A claimed row with the tenant it belongs to.
#[derive(Clone, Debug, PartialEq)]
pub struct Claimed<T> {
    pub tenant: TenantId,
    pub row: T,
}

/// `wf_tasks`: work for a person.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskRow {
    pub id: Uuid,
    pub instance: Uuid,
    /// The wait inside the instance that the task completes.
    pub token: u64,
    pub step: String,
    pub title: String,
    /// `open claimed completed cancelled`.
    pub status: String,
    pub assignee: Option<String>,
    /// JSON arrays of names.
    pub candidate_users: Vec<u8>,
    pub candidate_groups: Vec<u8>,
    pub payload: Vec<u8>,
    pub form: Option<Vec<u8>>,
    pub result: Option<Vec<u8>>,
    pub priority: i64,
    pub due_at: Option<Time>,
    /// Raised by every change; starts at 1.
    pub version: i64,
    pub created_at: Time,
    pub updated_at: Time,
    pub ended_at: Option<Time>,
}

/// `wf_task_events`: append-only.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskEventRow {
    pub task: Uuid,
    /// The task version the event made.
    pub sequence: i64,
    /// `created assigned released completed reassigned cancelled`.
    pub kind: String,
    pub actor: String,
    pub at: Time,
    pub detail: Vec<u8>,
}

/// `outbox`: an event for the outside, in the commit that caused it.
#[derive(Clone, Debug, PartialEq)]
pub struct OutboxRow {
    pub id: Uuid,
    /// Events of one key are published in order.
    pub key: String,
    pub event_type: String,
    pub event: Vec<u8>,
    pub created_at: Time,
}

/// What somebody who publishes asks of the outbox.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OutboxAsk {
    pub limit: usize,
    /// These get nothing now.
    pub but_tenants: Vec<TenantId>,
    /// Nothing of these keys is wanted now.
    pub but_keys: Vec<(TenantId, String)>,
}

impl OutboxAsk {
    /// Whatever there is.
    pub fn of(limit: usize) -> OutboxAsk {
        OutboxAsk { limit, ..OutboxAsk::default() }
    }
}

/// `inbox`: an idempotency record.
#[derive(Clone, Debug, PartialEq)]
pub struct InboxRow {
    /// What the key is for, e.g. `start` or `signal:<instance>`.
    pub scope: String,
    pub key: String,
    /// SHA-256 of the request.
    pub request_hash: Vec<u8>,
    /// The answer, for whoever asks again.
    pub answer: Vec<u8>,
    pub created_at: Time,
}

/// `wf_dlq`.
#[derive(Clone, Debug, PartialEq)]
pub struct DeadLetterRow {
    pub id: Uuid,
    /// `signal timer call saga delivery event bus`.
    pub source: String,
    /// `deserialization definition-missing snapshot-inconsistent retries-exhausted`.
    pub reason: String,
    pub detail: String,
    pub instance: Option<Uuid>,
    /// Byte-identical to what was in the queue.
    pub envelope: Vec<u8>,
    /// What replay needs besides the envelope: token, target, type, as JSON.
    pub origin: Vec<u8>,
    pub attempts: u32,
    /// Node id.
    pub last_node: Uuid,
    pub failed_at: Time,
    /// The error group it belongs to.
    pub group: Option<Uuid>,
}

/// `definitions`.
#[derive(Clone, Debug, PartialEq)]
pub struct DefinitionRow {
    pub namespace: String,
    pub name: String,
    pub version: String,
    pub title: Option<String>,
    /// As deployed, byte for byte.
    pub source: Vec<u8>,
    /// `application/yaml` or `application/json`.
    pub media_type: String,
    /// The IR as JSON.
    pub ir: Vec<u8>,
    pub created_at: Time,
}

/// `tenants`.
#[derive(Clone, Debug, PartialEq)]
pub struct TenantRow {
    pub id: TenantId,
    pub title: String,
    /// `active degraded suspended deleted`. The last two are parked: nothing of theirs is claimed.
    pub status: String,
    /// Where tenants wait for the same thing, one of weight 2 is given twice as much as one of weight 1.
    pub weight: u32,
    pub limits: LimitsRow,
    /// When the rows of a deleted one go.
    pub purge_at: Option<Time>,
    pub created_at: Time,
}

/// How much a tenant may do; 0 is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LimitsRow {
    /// Instances that have not ended.
    pub open_max: u32,
    pub starts_per_second: u32,
    /// Calls, and calls of handlers of events, under way at once.
    pub concurrency_max: u32,
    /// Starts and published events while the tenant is degraded; here 0 means none at all.
    pub degraded_per_second: u32,
}

/// `secrets`. Holds a value that only the runtime's keys can open.
#[derive(Clone, PartialEq)]
pub struct SecretRow {
    pub name: String,
    /// Counts the values this name has had; set by the store.
    pub version: i64,
    /// Which key sealed it.
    pub key_id: String,
    pub sealed: Vec<u8>,
    /// JSON array of the hosts it may be sent to; all if empty.
    pub hosts: Vec<u8>,
    pub created_at: Time,
    pub updated_at: Time,
}

impl std::fmt::Debug for SecretRow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SecretRow({} version {} by {})", self.name, self.version, self.key_id)
    }
}

/// `api_keys`. The secret itself is never stored.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyRow {
    /// Public part, unique over all tenants.
    pub id: String,
    pub name: String,
    /// SHA-256 of the secret.
    pub hash: Vec<u8>,
    /// JSON array of role names.
    pub roles: Vec<u8>,
    pub created_at: Time,
    pub expires_at: Option<Time>,
    pub revoked_at: Option<Time>,
    /// The user it acts for: of records it reaches what that user may.
    pub subject: Option<String>,
}

impl KeyRow {
    /// True if `secret` is the key's and the key counts at `now`. Takes equally long for every secret.
    pub fn is_opened_by(&self, secret: &str, now: Time) -> bool {
        let digest = Sha256::digest(secret.as_bytes());
        let matches: bool = digest.as_slice().ct_eq(&self.hash).into();
        matches && self.is_current(now)
    }

    /// Neither revoked nor expired.
    pub fn is_current(&self, now: Time) -> bool {
        self.revoked_at.is_none() && self.expires_at.is_none_or(|end| now < end)
    }
}
