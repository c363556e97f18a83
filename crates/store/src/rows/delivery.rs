//! Rows of workers and of what they are given.

use machine::{TenantId, Time};
use uuid::Uuid;

/// `workers`: a worker of a tenant that handles events.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkerRow {
    pub name: String,
    /// JSON: what it wants and how it is treated.
    pub declaration: Vec<u8>,
    /// Raised by every change; starts at 1.
    pub row_version: i64,
    pub created_at: Time,
    pub updated_at: Time,
}

/// `deliveries`: events for one worker. What was published together is handed over together; one that fails comes back
/// as a row of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct DeliveryRow {
    pub id: Uuid,
    pub worker: String,
    /// In their order.
    pub events: EventIds,
    /// Of one worker and key one row at a time is handed out, in the order in which they came.
    pub order_key: Option<String>,
    pub created_at: Time,
    pub visible_at: Time,
    /// Attempts that were made.
    pub attempt: u32,
    pub last_error: Option<Vec<u8>>,
    pub owner: Option<Uuid>,
    /// Nodes that had it and ended without giving it back. The store counts; what is written with a row is not kept.
    pub taken_over: u32,
}

impl DeliveryRow {
    pub fn key(&self) -> super::QueueKey {
        super::QueueKey::Delivery { id: self.id }
    }
}

/// Ids of events as they are stored: sixteen bytes each, one after the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventIds(Vec<u8>);

impl EventIds {
    pub(crate) fn new(bytes: Vec<u8>) -> EventIds {
        EventIds(bytes)
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub fn iter(&self) -> impl Iterator<Item = Uuid> + '_ {
        self.0.as_chunks::<16>().0.iter().map(|id| Uuid::from_bytes(*id))
    }

    pub fn count(&self) -> usize {
        self.0.len() / 16
    }
}

impl FromIterator<Uuid> for EventIds {
    fn from_iter<T: IntoIterator<Item = Uuid>>(ids: T) -> EventIds {
        EventIds(ids.into_iter().flat_map(|id| *id.as_bytes()).collect())
    }
}

/// What a node asks of the backlog of deliveries.
#[derive(Clone, Debug)]
pub struct DeliveryAsk {
    pub node: Uuid,
    pub now: Time,
    /// Rows at most.
    pub limit: usize,
    /// The workers that the node has: rows of others are left alone.
    pub workers: Vec<String>,
    /// Tenants that get nothing.
    pub full: Vec<TenantId>,
}

/// What waits for a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Depth {
    pub worker: String,
    /// Deliveries, those under way counted.
    pub rows: u64,
    /// When the oldest was made.
    pub oldest: Time,
}

/// What a worker outside of any node asks for.
#[derive(Clone, Debug)]
pub struct Loan {
    pub worker: String,
    pub now: Time,
    /// Until when nobody else gets them.
    pub until: Time,
    /// Rows at most.
    pub limit: usize,
}
