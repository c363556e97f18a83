//! The feed: a tenant's events in the order of their commits, read with a cursor that skips nothing.
//!
//! Ids and times do not say in which order rows became visible: a transaction that began first may commit last, and a
//! reader that went on past its ids never sees its rows. A [`FeedCursor`] stands for a place in the order of commits, and
//! a store gives out only what nothing can come before any more.

use crate::rows::EventRow;
use machine::time::Span;
use uuid::Uuid;

/// A place in the feed of a tenant's events; the default is the beginning. Only the store that gave it understands it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct FeedCursor {
    /// Rises from commit to commit, or from transaction to transaction.
    pub commit: u64,
    /// Rises inside of a transaction.
    pub place: u64,
    pub event: Uuid,
}

/// An event and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct FeedItem {
    /// Give this to go on after the event.
    pub cursor: FeedCursor,
    pub row: EventRow,
}

/// What of the store's own state is worth an alarm: what the feed waits for, what keeps dead rows, what a commit rests on.
///
/// The feed waits for the oldest transaction that still writes. Nothing that commits after it has begun is given out before
/// it has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Horizon {
    /// Transactions that may have committed since then and are held back, itself counted; 0 if nothing is.
    pub transactions: u64,
    /// How long it has been open; 0 if nothing is held back, `None` if the store may not look at it.
    pub open_for: Option<Span>,
    /// What keeps dead rows from being cleared away.
    pub snapshot: Held,
    /// What is committed survives a crash.
    pub is_durable: bool,
    /// What is committed survives the loss of the machine as well, or there is nothing to go over to: false if there is a
    /// standby and no commit waits for one.
    pub is_synchronous: bool,
}

/// The oldest snapshot that anybody holds, whether it writes or only reads: a transaction, a prepared one, a slot or a
/// standby.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Transactions that have begun since then; 0 if none is held.
    pub transactions: u64,
    /// How long it has been held, as far as the store may look at others; 0 if none is, `None` if nobody can tell.
    pub held_for: Option<Span>,
}

impl FeedCursor {
    /// How many bytes a cursor has.
    pub const BYTES: usize = 32;

    /// The cursor as bytes, for whoever keeps it.
    pub fn to_bytes(self) -> [u8; FeedCursor::BYTES] {
        let mut bytes = [0; FeedCursor::BYTES];
        bytes[..8].copy_from_slice(&self.commit.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.place.to_be_bytes());
        bytes[16..].copy_from_slice(self.event.as_bytes());
        bytes
    }

    /// The way back; `None` for anything else.
    pub fn from_bytes(bytes: &[u8]) -> Option<FeedCursor> {
        let number = |at: usize| Some(u64::from_be_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        let event = Uuid::from_slice(bytes.get(16..)?).ok()?;
        Some(FeedCursor { commit: number(0)?, place: number(8)?, event })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_survives_being_kept() {
        let cursor = FeedCursor { commit: u64::MAX - 1, place: 7, event: Uuid::from_u128(9) };
        assert_eq!(FeedCursor::from_bytes(&cursor.to_bytes()), Some(cursor));
        for wrong in [&cursor.to_bytes()[..31], &[0; 33], &[]] {
            assert_eq!(FeedCursor::from_bytes(wrong), None);
        }
    }
}
