//! What people read: filters, pages and counts. Reads only.

use machine::{
    Time,
    query::{Condition, Field, Pattern, Test},
    time::Span,
};
use std::borrow::Cow;
use uuid::Uuid;

/// The most rows one page may hold.
pub const PAGE_MAX: usize = 200;

/// Where a page begins and how long it is. Pages run newest first.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// Last id of the page before, exclusive.
    pub after: Option<Uuid>,
    /// 1 to [`PAGE_MAX`].
    pub limit: usize,
}

impl Page {
    /// The limit, held to 1 and [`PAGE_MAX`].
    pub fn rows(&self) -> usize {
        self.limit.clamp(1, PAGE_MAX)
    }
}

/// Which instances to list; every given member must match.
#[derive(Clone, Debug, Default)]
pub struct InstanceFilter {
    pub statuses: Vec<String>,
    pub namespace: Option<String>,
    pub name: Option<String>,
    pub version: Option<String>,
    pub business_key: Option<String>,
    /// Parts of the business key, all of which must be equal.
    pub business_parts: Vec<(String, String)>,
    /// The instance that started them.
    pub parent: Option<Uuid>,
    pub created_from: Option<Time>,
    /// Exclusive.
    pub created_to: Option<Time>,
    /// What else must hold.
    pub conditions: Vec<Condition>,
}

impl InstanceFilter {
    /// The same, with what the conditions say of status and parent in the members that name an index.
    pub(crate) fn narrowed(&self) -> Cow<'_, InstanceFilter> {
        let mut narrow = Cow::Borrowed(self);
        for condition in self.conditions.iter().filter(|condition| !condition.not) {
            match (&condition.field, &condition.test) {
                (Field::Status, Test::Texts(words)) if narrow.statuses.is_empty() => {
                    let word = |pattern: &Pattern| match pattern {
                        Pattern::Equal(word) | Pattern::Prefix(word) => word.clone(),
                    };
                    narrow.to_mut().statuses = words.iter().map(word).collect();
                }
                (Field::Parent, Test::Ids(ranges)) if narrow.parent.is_none() => {
                    if let [(low, high)] = ranges[..]
                        && low == high
                    {
                        narrow.to_mut().parent = Some(low);
                    }
                }
                _ => {}
            }
        }
        narrow
    }
}

/// Which definitions to list, by namespace and name.
#[derive(Clone, Debug, Default)]
pub struct DefinitionFilter {
    pub namespace: Option<String>,
    /// Last (namespace, name) of the page before, exclusive.
    pub after: Option<(String, String)>,
    /// 1 to [`PAGE_MAX`].
    pub limit: usize,
}

/// A version of a definition without its text and IR.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefinitionSummary {
    pub namespace: String,
    pub name: String,
    pub version: String,
    pub title: Option<String>,
    pub media_type: String,
    pub created_at: Time,
}

/// Which tasks to list.
#[derive(Clone, Debug, Default)]
pub struct TaskFilter {
    pub statuses: Vec<String>,
    pub assignee: Option<String>,
    /// Tasks whose candidate groups hold any of these.
    pub groups: Vec<String>,
    pub instance: Option<Uuid>,
}

/// Which dead letters to list.
#[derive(Clone, Debug, Default)]
pub struct DeadLetterFilter {
    pub reason: Option<String>,
    pub source: Option<String>,
    pub instance: Option<Uuid>,
    /// Only calls to this worker (or `http`).
    pub worker: Option<String>,
    /// Only those of this error group.
    pub group: Option<Uuid>,
    /// What else must hold.
    pub conditions: Vec<Condition>,
}

/// Which error groups to list, those seen last first.
#[derive(Clone, Debug, Default)]
pub struct ErrorFilter {
    /// The worker or endpoint that failed.
    pub target: Option<String>,
    pub class: Option<String>,
    /// Time and id of the last of the page before, exclusive.
    pub after: Option<(Time, Uuid)>,
    /// 1 to [`PAGE_MAX`].
    pub limit: usize,
}

/// An instance with what its snapshot says about now.
#[derive(Clone, Debug)]
pub struct InstanceView {
    pub row: crate::rows::InstanceRow,
    pub state_version: i64,
    pub runtime_status: String,
    pub snapshot_schema_version: i64,
    pub waiting_kind: Option<String>,
    pub waiting_token: Option<String>,
    pub waiting_until: Option<Time>,
    pub active_task_id: Option<Uuid>,
    /// The resume pointer as JSON: which step it stands at.
    pub resume_pointer_json: Option<Vec<u8>>,
    pub last_signal_id: Option<Uuid>,
    pub last_error_code: Option<String>,
    pub last_error_json: Option<Vec<u8>>,
    pub last_executed_by: Uuid,
    pub last_executed_on: Time,
}

/// Depths and counts for metrics and conservation checks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// (status, number of instances).
    pub instances: Vec<(String, u64)>,
    pub signals: u64,
    pub timers: u64,
    pub calls: u64,
    /// Rows; what was published together is one until it fails.
    pub deliveries: u64,
    pub dead_letters: u64,
    pub outbox: u64,
    pub tasks_open: u64,
}

/// The most instances that one call of [`crate::Store::purge`] looks at.
pub const PURGE_MAX: usize = 200;

/// Where a page of ended instances stopped: when the last one ended, and its id.
pub type PurgeMark = (Time, Uuid);

/// What may be deleted.
#[derive(Clone, Copy, Debug)]
pub struct Purge {
    /// Completed and cancelled instances that ended before this.
    pub ended_before: Time,
    /// Faulted ones.
    pub faulted_before: Time,
    /// Idempotency keys of starts and of workers that were made before this.
    pub keys_before: Time,
    /// Those of workers stay longer while the tenant has a delivery, or a dead letter of one, that may be of an event which came
    /// within this time of the key:
    pub keys_kept: Span,
    /// a dead letter is so much younger than its event at most.
    pub retry_longest: Span,
    /// Instances after this one, oldest end first.
    pub after: Option<PurgeMark>,
    /// Instances to look at, and keys to delete, at most; [`PURGE_MAX`] if it is more.
    pub limit: usize,
}

/// What was deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Purged {
    pub instances: u64,
    pub keys: u64,
    /// Records of what became of due times.
    pub slots: u64,
    /// Rows of batches that ended, and of their items.
    pub batches: u64,
    /// Where to go on; `None` once every instance was looked at.
    pub next: Option<PurgeMark>,
}

/// What one call of [`crate::Store::purge_tenant`] did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TenantPurged {
    pub tenant: machine::TenantId,
    pub rows: u64,
    /// Nothing of it is left.
    pub gone: bool,
}

/// Which schedules to list, by namespace and name.
#[derive(Clone, Debug, Default)]
pub struct ScheduleFilter {
    pub namespace: Option<String>,
    pub name: Option<String>,
    pub status: Option<String>,
    /// Last (namespace, name) of the page before, exclusive.
    pub after: Option<(String, String)>,
    /// 1 to [`PAGE_MAX`].
    pub limit: usize,
}

/// Which batches to list.
#[derive(Clone, Debug, Default)]
pub struct BatchFilter {
    pub status: Option<String>,
    pub act: Option<String>,
}

/// Which items of a batch to list, by their ids.
#[derive(Clone, Debug)]
pub struct ItemAsk {
    pub batch: Uuid,
    pub outcome: Option<crate::rows::ItemOutcome>,
    /// Last item of the page before, exclusive.
    pub after: Option<Uuid>,
    /// 1 to [`PAGE_MAX`].
    pub limit: usize,
}

/// Which events to list.
#[derive(Clone, Debug, Default)]
pub struct EventFilter {
    pub event_type: Option<String>,
    pub source: Option<String>,
    /// What else must hold.
    pub conditions: Vec<Condition>,
}

/// The most rows that [`crate::Store::place`] counts.
pub const AHEAD_MAX: u64 = 10_000;

/// Where a queue row stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The node that has it.
    pub owner: Option<Uuid>,
    /// Calls, or deliveries for the same worker, of the same tenant that nobody has and that became visible earlier; counted
    /// up to [`AHEAD_MAX`].
    pub ahead: u64,
    /// The delivery of the same order key that comes first.
    pub behind: Option<Uuid>,
    /// A worker that asked for the delivery has it, unless its time is over.
    pub lent: bool,
}

/// Which deliveries to list.
#[derive(Clone, Debug, Default)]
pub struct DeliveryFilter {
    pub worker: Option<String>,
    /// What else must hold.
    pub conditions: Vec<Condition>,
}
