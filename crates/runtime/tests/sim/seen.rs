//! What the outside saw: every start, signal, effect, event, order and act, as acknowledged or as it happened.

use machine::Time;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;

/// (instance, step) as a worker is told them.
pub(crate) type Place = (String, String);

/// One attempt at a call.
pub(crate) struct Attempt {
    pub(crate) key: String,
    pub(crate) input: Value,
    pub(crate) began: Time,
    /// It ended in a way that faults the step.
    pub(crate) failed: bool,
}

#[derive(Default)]
pub(crate) struct Seen {
    /// (client, instance) of every acknowledged start.
    pub(crate) started: Vec<(u64, Uuid)>,
    /// (instance, signal) of every acknowledged signal.
    pub(crate) signals: Vec<(Uuid, Uuid)>,
    pub(crate) attempts: BTreeMap<Place, Vec<Attempt>>,
    /// Steps whose answer the store refuses.
    pub(crate) refused: BTreeSet<Place>,
    /// Instance → ids of the events published for it.
    pub(crate) published: BTreeMap<String, Vec<String>>,
    /// Instances somebody asked to cancel.
    pub(crate) cancel_asked: BTreeSet<Uuid>,
    /// Instances whose cancellation was acknowledged and waits for their sagas.
    pub(crate) cancelling: BTreeSet<Uuid>,
    /// Instances whose cancellation was acknowledged, and when.
    pub(crate) cancelled: BTreeMap<Uuid, Time>,
    /// (task, event, actor) of every acknowledged act.
    pub(crate) acts: Vec<(Uuid, &'static str, &'static str)>,
    /// The tenant with the schedule and the events did all it wanted to.
    pub(crate) beats: bool,
    /// The tenant with the workers has published all it wanted to.
    pub(crate) tallied: bool,
    /// (instance, version) → when it landed in the store.
    pub(crate) landed: BTreeMap<(Uuid, i64), Time>,
}
