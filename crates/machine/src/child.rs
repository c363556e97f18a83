//! Instances that an instance starts: what ties a child to its parent, what each tells the other, and what the calls
//! that start children hold. Plain data; `decide::child` and `decide::map` decide with it.

use crate::{data::Data, fault::Fault};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// How deep instances may start instances: one that starts itself ends with a fault.
pub const NESTING_MAX: u32 = 64;
/// The most items a `map` step takes as an array, and the most results it answers with; beyond it, by reference.
pub const INLINE_ITEMS_MAX: usize = 1000;
/// The same in bytes of JSON.
pub const INLINE_BYTES_MAX: usize = 256 * 1024;
/// The most children of one `map` step that are under way at once.
pub const CONCURRENCY_MAX: u64 = 10_000;
/// The most children one commit starts.
pub const BATCH_MAX: u64 = 1000;
/// Batches of one `map` step that are being started at once.
pub const STARTING_MAX: usize = 4;
/// How often the failed items of one `map` step may be started again.
pub const ROUNDS_MAX: usize = 100;

/// Targets of the calls that the engine itself answers. No worker has such a name.
pub const START: &str = "@child";
pub const START_ITEMS: &str = "@map";
pub const CLOSE_ITEMS: &str = "@map-close";
pub const RESULTS: &str = "@map-results";

/// The definition a child is an instance of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workflow {
    pub namespace: String,
    pub name: String,
    /// `latest` is the newest.
    pub version: String,
}

/// What becomes of a child when its parent no longer waits for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Close {
    #[default]
    Cancel,
    Abandon,
    /// It goes on, and the parent does not end before it.
    Wait,
}

impl Close {
    pub fn parse(word: &str) -> Option<Close> {
        match word {
            "cancel" => Some(Close::Cancel),
            "abandon" => Some(Close::Abandon),
            "wait" => Some(Close::Wait),
            _ => None,
        }
    }
}

/// What a child knows of its parent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parent {
    pub instance: Uuid,
    /// The parent's wait that stands for the child.
    pub token: u64,
    /// 1 for the child of an instance nobody's child is.
    pub depth: u32,
    /// False if the parent does not want to hear of the child's end, or has heard.
    pub tell: bool,
    /// Which item of a `map` step the child is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<Item>,
}

/// One item of a `map` step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Item {
    pub index: u32,
    /// The dataset that takes the result.
    pub results: Uuid,
    /// Results of a later round stand in for those of earlier ones.
    pub round: u32,
}

/// How a child ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "camelCase", deny_unknown_fields)]
pub enum Outcome {
    Completed { output: Data },
    Faulted { error: Fault },
    // In braces, as other words without members are: without them, members that are not known would pass unseen.
    Cancelled {},
}

impl Outcome {
    /// The fault of the step that waited; `instance` is left for that step to fill in.
    pub fn fault(&self) -> Option<Fault> {
        match self {
            Outcome::Completed { .. } => None,
            Outcome::Faulted { error } => Some(Fault { instance: None, ..error.clone() }),
            Outcome::Cancelled {} => {
                Some(Fault::new(crate::fault::Kind::Runtime, "the child instance was cancelled"))
            }
        }
    }
}

/// What became of some children of a `map` step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tally {
    pub succeeded: u64,
    pub failed: u64,
    /// The error of one that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<Fault>,
    /// How many items there are, from whoever starts the first of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
}

impl Tally {
    pub fn count(&mut self, outcome: &Outcome) {
        match outcome.fault() {
            None => self.succeeded += 1,
            Some(fault) => {
                self.failed += 1;
                self.fault.get_or_insert(fault);
            }
        }
    }

    pub fn add(&mut self, other: &Tally) {
        self.succeeded += other.succeeded;
        self.failed += other.failed;
        self.fault = self.fault.take().or_else(|| other.fault.clone());
        self.total = self.total.or(other.total);
    }
}

/// A `map` step under way. Its size does not depend on how many items there are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Map {
    pub workflow: Workflow,
    pub items: Uuid,
    pub results: Uuid,
    /// Known once the first batch was looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
    /// The first item that has not been handed out.
    pub cursor: u64,
    pub running: u64,
    pub succeeded: u64,
    pub failed: u64,
    pub concurrency: u64,
    pub batch: u64,
    /// Failed items beyond this fault the step.
    pub tolerated: u64,
    /// Tokens of the waits of all rounds; the last is the present one.
    pub rounds: Vec<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<Fault>,
}

/// What a call to [`START`] holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StartCall {
    pub workflow: Workflow,
    pub input: Data,
    pub parent: Parent,
    /// The child's business key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// What a call to [`START_ITEMS`] holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StartItemsCall {
    pub workflow: Workflow,
    pub items: Uuid,
    pub first: u64,
    pub count: u64,
    pub depth: u32,
    pub results: Uuid,
    /// Tokens of the map's waits, the present one last.
    pub rounds: Vec<u64>,
}

/// What a call to [`CLOSE_ITEMS`] holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CloseItemsCall {
    /// Of the wait whose children are to be cancelled.
    pub token: u64,
}

/// What a call to [`RESULTS`] holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResultsCall {
    pub results: Uuid,
    pub total: u64,
    pub output: Data,
}

/// A call's input from one of the structs above.
pub fn to_data(call: &impl Serialize) -> Data {
    Data::from_json(serde_json::to_value(call).expect("a call is plain JSON"))
}

/// What a wait for a child knows of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Awaited {
    pub instance: Uuid,
    pub workflow: Workflow,
    pub close: Close,
    /// The child is there.
    #[serde(default)]
    pub started: bool,
    /// What happens once it has started.
    pub until: Until,
}

/// How long a step waits for the child it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Until {
    /// Until it ends.
    Ended,
    /// Until it has started; the output is the step's input.
    Started,
    /// Until it has started; the output is the child's id.
    Detached,
    /// As before, and then this instance completes.
    Continued,
}
