//! Rows of workers and of what they are given.

use machine::{TenantId, Time, time::Span};
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
    /// Of its events, where it is one of all of them.
    pub traced: Traced,
}

impl DeliveryRow {
    pub fn key(&self) -> super::QueueKey {
        super::QueueKey::Delivery { id: self.id }
    }
}

/// What an event belongs to, as lists find it. Nothing is stored where an event says nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traced {
    /// 32 hexadecimal digits; empty if there are several.
    pub trace_id: Option<String>,
    /// At most [`Traced::BYTES_MAX`]; empty if there are several.
    pub correlation_id: Option<String>,
}

impl Traced {
    /// Longer ones are not looked for.
    pub const BYTES_MAX: usize = 255;

    /// The same for things that are handed over together.
    pub fn of_all<'a>(mut all: impl Iterator<Item = &'a Traced>) -> Traced {
        let first = all.next().cloned().unwrap_or_default();
        all.fold(first, |mut together, one| {
            for (all, one) in
                [(&mut together.trace_id, &one.trace_id), (&mut together.correlation_id, &one.correlation_id)]
            {
                if all != one {
                    *all = Some(String::new());
                }
            }
            together
        })
    }

    /// What one of several is found by: by looking at its event.
    pub fn by_event(self) -> Traced {
        let looked_up = |known: Option<String>| Some(known.unwrap_or_default());
        Traced { trace_id: looked_up(self.trace_id), correlation_id: looked_up(self.correlation_id) }
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
    /// Workers that get nothing of a tenant.
    pub full_of: Vec<(TenantId, String)>,
    /// How fast each of these workers may be given rows of one tenant.
    pub pace: Option<Pace>,
}

impl DeliveryAsk {
    pub(crate) fn has_room(&self, tenant: &TenantId, worker: &str) -> bool {
        !self.full_of.iter().any(|(full, of)| full == tenant && of == worker)
    }
}

/// How fast rows of one worker and tenant are handed out, over all nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Between two rows.
    pub every: Span,
    /// Rows at once after a pause.
    pub burst: u32,
}

impl Pace {
    /// How many rows may be handed out at `now` if the next was to be at `next_at`.
    pub(crate) fn allowed(&self, next_at: Option<Time>, now: Time) -> usize {
        let next_at = next_at.unwrap_or(Time(i64::MIN));
        if next_at > now {
            return 0;
        }
        let turns = now.0.saturating_sub(next_at.0) / self.every.0.max(1);
        turns.saturating_add(1).min(self.burst.max(1).into()) as usize
    }

    /// When the next may be, after `count` were handed out at `now`. What was not used in a pause is not made up for.
    pub(crate) fn next(&self, next_at: Option<Time>, now: Time, count: usize) -> Time {
        let every = self.every.0.max(1);
        let saved = every.saturating_mul(i64::from(self.burst.max(1)) - 1);
        let from = next_at.map_or(i64::MIN, |next| next.0).max(now.0.saturating_sub(saved));
        Time(from.saturating_add(every.saturating_mul(count as i64)))
    }
}

/// `watermarks`: how far a worker has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatermarkRow {
    pub name: String,
    /// As JSON.
    pub value: Vec<u8>,
    /// Raised by every move; starts at 1.
    pub version: i64,
    pub updated_at: Time,
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
    pub pace: Option<Pace>,
    /// Rows that may be lent at the same time.
    pub lent_max: Option<usize>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pace_is_kept_and_a_pause_is_not_made_up_for() {
        let pace = Pace { every: Span(10), burst: 3 };
        assert_eq!(pace.allowed(None, Time(100)), 3);
        assert_eq!(pace.next(None, Time(100), 3), Time(110));
        assert_eq!(
            (pace.allowed(Some(Time(110)), Time(109)), pace.allowed(Some(Time(110)), Time(110))),
            (0, 1)
        );
        assert_eq!(pace.next(Some(Time(110)), Time(110), 1), Time(120));
        assert_eq!(
            (pace.allowed(Some(Time(120)), Time(131)), pace.allowed(Some(Time(120)), Time(900))),
            (2, 3)
        );
        assert_eq!(pace.next(Some(Time(120)), Time(900), 1), Time(890), "two more at once, no more");
    }
}

/// What keeps a worker from being given more of a tenant's deliveries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loans {
    /// Lent out, and not answered yet.
    pub lent: u64,
    /// When its pace allows the next, if it ever had one at a pace.
    pub next_turn: Option<Time>,
}
