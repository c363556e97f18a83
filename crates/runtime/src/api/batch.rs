//! What is asked of batches.

use machine::{Data, query::Subject, version::Mapping};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Items in a second, unless somebody says otherwise, and at most.
pub const BATCH_RATE_DEFAULT: u32 = 50;
pub const BATCH_RATE_MAX: u32 = 10_000;

/// What a batch does with each item.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "act", content = "with", rename_all = "kebab-case")]
pub enum Act {
    Cancel,
    Pause,
    Resume,
    Retry,
    Signal {
        name: String,
        data: Data,
    },
    Migrate {
        version: String,
        mapping: Mapping,
    },
    /// Puts dead letters back; with a ramp, a few first, and more only if those go well.
    Replay {
        ramp: bool,
    },
    Discard,
}

impl Act {
    /// Every word that [`Act::word`] answers.
    pub const WORDS: [&str; 8] =
        ["cancel", "pause", "resume", "retry", "signal", "migrate", "replay", "discard"];

    pub fn word(&self) -> &'static str {
        match self {
            Act::Cancel => "cancel",
            Act::Pause => "pause",
            Act::Resume => "resume",
            Act::Retry => "retry",
            Act::Signal { .. } => "signal",
            Act::Migrate { .. } => "migrate",
            Act::Replay { .. } => "replay",
            Act::Discard => "discard",
        }
    }

    /// What it acts on.
    pub fn subject(&self) -> Subject {
        match self {
            Act::Replay { .. } | Act::Discard => Subject::DeadLetters,
            _ => Subject::Instances,
        }
    }

    /// How many items each stage of its ramp has; what is left comes after the last. Empty without a ramp.
    pub fn stages(&self) -> &'static [u64] {
        match self {
            Act::Replay { ramp: true } => &[1, 10, 100],
            _ => &[],
        }
    }
}

/// A batch to be made.
#[derive(Clone, Debug)]
pub struct NewBatch {
    pub act: Act,
    pub query: String,
    /// Items in a second, 1 to [`BATCH_RATE_MAX`].
    pub rate: u32,
    pub why: Option<String>,
    /// Asking again with the same key gives the same batch.
    pub idempotency_key: Option<String>,
}

/// What a batch would act on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preview {
    pub matched: u64,
    /// There are more than were counted.
    pub more: bool,
    /// A few of them.
    pub samples: Vec<Uuid>,
}

/// What is done with a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchOrder {
    Pause,
    /// Goes on, also from failures that halted it.
    Resume,
    Cancel,
    Rate(u32),
}
