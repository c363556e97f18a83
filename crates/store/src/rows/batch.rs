//! Rows of batches: an act on many things as an object, and what became of each.

use machine::Time;
use uuid::Uuid;

/// `batches`: one act on all that a query finds.
#[derive(Clone, Debug, PartialEq)]
pub struct BatchRow {
    pub id: Uuid,
    /// `cancel pause resume retry signal migrate replay discard`.
    pub act: String,
    pub query: String,
    /// JSON: what the act needs besides.
    pub arguments: Vec<u8>,
    /// Who ordered it.
    pub actor: String,
    pub why: Option<String>,
    /// `running paused halted done cancelled`.
    pub status: String,
    /// Why it is halted.
    pub detail: Option<String>,
    /// Items in a second.
    pub rate: u32,
    /// The last thing that the selection has looked at.
    pub cursor: Option<Uuid>,
    /// When the last item was selected.
    pub selected_at: Option<Time>,
    /// Items that were selected.
    pub matched: u64,
    /// Items by outcome. The store counts when one is settled; what is written with a row that is there is not kept.
    pub counts: BatchCounts,
    /// Failures that somebody has seen and gone on from.
    pub forgiven: u64,
    /// When a node has something to do for it.
    pub due_at: Option<Time>,
    /// Raised by every change but the counts; starts at 1.
    pub row_version: i64,
    pub created_at: Time,
    pub updated_at: Time,
    pub ended_at: Option<Time>,
}

/// How many items of a batch came to what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BatchCounts {
    pub sent: u64,
    pub done: u64,
    pub failed: u64,
    pub skipped: u64,
}

/// What became of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ItemOutcome {
    /// Its turn has not come.
    Waiting,
    /// It was acted on, and what comes of it is not known yet.
    Sent,
    Done,
    Failed,
    /// There was nothing to do.
    Skipped,
}

impl ItemOutcome {
    pub const ALL: [ItemOutcome; 5] = [
        ItemOutcome::Waiting,
        ItemOutcome::Sent,
        ItemOutcome::Done,
        ItemOutcome::Failed,
        ItemOutcome::Skipped,
    ];

    pub fn word(self) -> &'static str {
        match self {
            ItemOutcome::Waiting => "waiting",
            ItemOutcome::Sent => "sent",
            ItemOutcome::Done => "done",
            ItemOutcome::Failed => "failed",
            ItemOutcome::Skipped => "skipped",
        }
    }

    pub fn by_word(word: &str) -> Option<ItemOutcome> {
        ItemOutcome::ALL.into_iter().find(|outcome| outcome.word() == word)
    }
}

/// `batch_items`: one thing that a batch acts on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchItemRow {
    /// The id of the instance or dead letter.
    pub item: Uuid,
    pub outcome: ItemOutcome,
    pub detail: Option<String>,
    /// When it got its outcome.
    pub at: Option<Time>,
}

/// An item of a batch gets another outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settlement {
    pub batch: Uuid,
    pub item: Uuid,
    /// The one that it has.
    pub from: ItemOutcome,
    pub to: ItemOutcome,
    pub detail: Option<String>,
    pub at: Time,
}

impl Settlement {
    /// What is added to the counts: sent, done, failed, skipped.
    pub(crate) fn added(&self) -> [i64; 4] {
        let counted = [ItemOutcome::Sent, ItemOutcome::Done, ItemOutcome::Failed, ItemOutcome::Skipped];
        counted.map(|outcome| i64::from(self.to == outcome) - i64::from(self.from == outcome))
    }
}
