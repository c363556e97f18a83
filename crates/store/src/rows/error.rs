//! Rows of what failed for good.

use machine::Time;
use uuid::Uuid;

/// `error_groups`: failures that are alike, or what is to be added to such a group.
#[derive(Clone, Debug, PartialEq)]
pub struct ErrorGroupRow {
    /// The fingerprint: the same for all that are alike.
    pub id: Uuid,
    /// `call delivery signal timer saga workflow`.
    pub source: String,
    /// The worker or endpoint, the type of the signal, or the definition.
    pub target: String,
    pub class: String,
    /// The definition and the step that failed, where there is one.
    pub step: Option<String>,
    /// Of the newest, without what differs from one to the next.
    pub message: String,
    /// How many; what is written is added to what is there.
    pub count: u64,
    pub first_at: Time,
    pub last_at: Time,
    /// JSON: one of the first; it stays.
    pub first_sample: Vec<u8>,
    /// JSON: a list of a few of the last; they replace those before.
    pub samples: Vec<u8>,
}

/// Dead letters of one error group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LetterGroup {
    /// None for letters from before there were groups.
    pub group: Option<Uuid>,
    pub count: u64,
    pub first_at: Time,
    pub last_at: Time,
    /// The newest of them.
    pub newest: Uuid,
}
