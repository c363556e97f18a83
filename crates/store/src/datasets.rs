//! Datasets: items of fan-outs and their results, kept outside the instances that work on them.

use machine::Time;
use uuid::Uuid;

/// The most items one row of a dataset holds.
pub const RUN_MAX: u64 = 1000;

/// `datasets`: one that is complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatasetRow {
    pub id: Uuid,
    pub count: u64,
    /// The instance whose step made it; `None` if it was uploaded.
    pub owner: Option<Uuid>,
    pub created_at: Time,
}

/// `dataset_items`: neighbouring items, `first` and the `count - 1` after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemsRow {
    pub dataset: Uuid,
    pub first: u64,
    /// Where rows overlap, the higher round counts.
    pub round: u32,
    /// 1 to [`RUN_MAX`].
    pub count: u64,
    /// A JSON array.
    pub items: Vec<u8>,
}
