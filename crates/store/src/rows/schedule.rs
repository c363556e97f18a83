//! Rows of schedules, slots, events and subscriptions.

use super::Traced;
use machine::{Time, time::Span};
use uuid::Uuid;

/// `schedules`: when a definition starts instances by itself. One per definition name.
#[derive(Clone, Debug, PartialEq)]
pub struct ScheduleRow {
    pub id: Uuid,
    pub namespace: String,
    pub name: String,
    /// The definition version that it follows.
    pub version: String,
    /// `cron every after on`.
    pub kind: String,
    /// The cron expression, the interval, or the event types, for people.
    pub spec: String,
    pub time_zone: String,
    pub missed: String,
    /// `active paused ended`.
    pub status: String,
    /// When it became active; intervals count from here.
    pub anchor: Time,
    pub last_slot: Option<Time>,
    /// In the tenant's time.
    pub next_slot: Option<Time>,
    /// In real time.
    pub due_at: Option<Time>,
    /// The instance whose end is waited for.
    pub instance: Option<Uuid>,
    /// Raised by every change; starts at 1.
    pub row_version: i64,
    pub created_at: Time,
    pub updated_at: Time,
}

/// `schedule_slots`: what became of one slot, or of `count` slots from `slot` on.
#[derive(Clone, Debug, PartialEq)]
pub struct SlotRow {
    pub schedule: Uuid,
    pub slot: Time,
    /// `fired triggered merged skipped failed`.
    pub outcome: String,
    pub count: u64,
    pub instance: Option<Uuid>,
    /// How long after its time it was dealt with.
    pub late: Span,
    pub at: Time,
    pub detail: Option<String>,
}

/// `schedule_collections`: what a schedule has collected and not started an instance with yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CollectionRow {
    /// Raised by every change; 0 if there is no row.
    pub version: i64,
    /// As JSON; empty if there is nothing.
    pub open: Vec<u8>,
}

/// `event_types`: what the data of a type of events has to look like.
#[derive(Clone, Debug, PartialEq)]
pub struct EventTypeRow {
    pub name: String,
    /// A JSON Schema.
    pub schema: Vec<u8>,
    /// Raised by every change; starts at 1.
    pub row_version: i64,
    pub created_at: Time,
    pub updated_at: Time,
}

/// `events`: an event addressed to nobody.
#[derive(Clone, Debug, PartialEq)]
pub struct EventRow {
    pub id: Uuid,
    pub source: String,
    /// The CloudEvent's own id, unique per source.
    pub event_id: String,
    pub event_type: String,
    /// In the tenant's time.
    pub received_at: Time,
    /// When signals about it may be claimed, in real time. Not stored.
    pub visible_at: Time,
    /// Until when it is offered to listen steps that begin; `None` once something has taken it.
    pub kept_until: Option<Time>,
    pub expires_at: Time,
    /// Waits that were told about it when it came. Counted by the store.
    pub told: u64,
    /// How many of those took it.
    pub taken: u64,
    /// Instances that it started.
    pub started: u64,
    /// Schedules that collected it and had not enough yet.
    pub collected: u64,
    /// Workers and buses it was delivered to.
    pub delivered: u64,
    /// Whose it is, if an instance or a worker emitted it: those of one key are carried out in order.
    pub emitted_by: Option<String>,
    pub traced: Traced,
    /// The CloudEvent as JSON.
    pub event: Vec<u8>,
}

/// `subscriptions`: what one wait, or one schedule, wants of the events to come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubscriptionRow {
    /// `None` is any type.
    pub event_type: Option<String>,
    /// Where the event's value stands (`.data.order`), and that value as JSON; `None` is any.
    pub key: Option<(String, String)>,
}

/// Whose subscriptions they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subscriber {
    /// A wait of an instance.
    Listen {
        instance: Uuid,
        token: u64,
    },
    Schedule {
        id: Uuid,
    },
}
