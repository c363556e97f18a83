//! How much is in a queue.

use machine::Time;

/// What a queue holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum QueueKind {
    /// Calls to a target.
    Call,
    /// Deliveries for a worker.
    Delivery,
}

impl QueueKind {
    pub fn word(self) -> &'static str {
        match self {
            QueueKind::Call => "call",
            QueueKind::Delivery => "delivery",
        }
    }

    pub(crate) fn of_word(word: &str) -> Option<QueueKind> {
        [QueueKind::Call, QueueKind::Delivery].into_iter().find(|kind| kind.word() == word)
    }
}

/// How many rows a queue holds, those under way counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueRow {
    pub kind: QueueKind,
    /// The target or worker.
    pub name: String,
    pub depth: u64,
}

/// What of the deliveries for a worker nobody has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unclaimed {
    /// Due now; counted up to [`crate::views::AHEAD_MAX`].
    pub ready: u64,
    /// Not due yet, or lent out; counted up to the same.
    pub later: u64,
    /// When the one that has been due longest became so, or the first will.
    pub oldest: Option<Time>,
}
