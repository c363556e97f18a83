//! Which fields things have, and what may be said of each.

use super::{Field, Subject};
use crate::{
    id::Kind,
    state::{ENDED_WORDS, OPEN_WORDS},
};

/// What the values of a field are.
#[derive(Clone, Copy, Debug)]
pub(super) enum Values {
    /// Any of these words.
    Words(&'static [&'static [&'static str]]),
    /// Any text, or its beginning with `*`.
    Text,
    Definition,
    /// An id, or its beginning.
    Id(Kind),
    Time,
    /// How long ago the time of the field was.
    Age,
    Number,
    /// The id of a trace.
    Trace,
    /// Text that is searched for.
    Search,
}

/// A field by its name.
pub(super) struct Known {
    pub(super) name: &'static str,
    pub(super) field: Field,
    pub(super) values: Values,
    /// It narrows enough for text to be searched for in what is left.
    pub(super) bounds: bool,
}

const fn known(name: &'static str, field: Field, values: Values) -> Known {
    Known { name, field, values, bounds: false }
}

const fn bound(name: &'static str, field: Field, values: Values) -> Known {
    Known { name, field, values, bounds: true }
}

/// What an instance may wait for, as the API names it.
pub(super) const WAITS: &[&str] = &[
    "timer",
    "retry",
    "timeout",
    "attempt-timeout",
    "call",
    "task-completion",
    "event",
    "child",
    "map",
    "continue",
];
const SOURCES: &[&str] = &["signal", "timer", "call", "saga", "delivery", "event", "bus"];
const REASONS: &[&str] = &[
    "deserialization",
    "definition-missing",
    "snapshot-inconsistent",
    "retries-exhausted",
    "saga-stuck",
    "refused",
    "poison",
    "loop",
];

static INSTANCES: &[Known] = &[
    known("id", Field::Id, Values::Id(Kind::Instance)),
    bound("status", Field::Status, Values::Words(&[&OPEN_WORDS, &ENDED_WORDS])),
    known("definition", Field::Definition, Values::Definition),
    known("namespace", Field::Namespace, Values::Text),
    known("name", Field::Name, Values::Text),
    known("version", Field::Version, Values::Text),
    known("key", Field::Key, Values::Text),
    bound("parent", Field::Parent, Values::Id(Kind::Instance)),
    known("waiting", Field::Waiting, Values::Words(&[WAITS])),
    known("worker", Field::Worker, Values::Text),
    bound("trace", Field::Trace, Values::Trace),
    bound("correlation", Field::Correlation, Values::Text),
    bound("started", Field::Created, Values::Time),
    bound("ended", Field::Ended, Values::Time),
    bound("changed", Field::Changed, Values::Time),
    bound("age", Field::Created, Values::Age),
    known("error", Field::Error, Values::Search),
];

static DEAD_LETTERS: &[Known] = &[
    known("id", Field::Id, Values::Id(Kind::DeadLetter)),
    bound("source", Field::Source, Values::Words(&[SOURCES])),
    bound("reason", Field::Reason, Values::Words(&[REASONS])),
    bound("worker", Field::Worker, Values::Text),
    bound("instance", Field::Instance, Values::Id(Kind::Instance)),
    bound("group", Field::Group, Values::Id(Kind::ErrorGroup)),
    known("attempts", Field::Attempts, Values::Number),
    bound("failed", Field::Created, Values::Time),
    bound("age", Field::Created, Values::Age),
    known("error", Field::Error, Values::Search),
];

static DELIVERIES: &[Known] = &[
    known("id", Field::Id, Values::Id(Kind::Delivery)),
    bound("worker", Field::Worker, Values::Text),
    known("key", Field::Key, Values::Text),
    known("attempts", Field::Attempts, Values::Number),
    bound("trace", Field::Trace, Values::Trace),
    bound("correlation", Field::Correlation, Values::Text),
    bound("created", Field::Created, Values::Time),
    bound("due", Field::Due, Values::Time),
    bound("age", Field::Created, Values::Age),
    known("error", Field::Error, Values::Search),
];

static EVENTS: &[Known] = &[
    known("id", Field::Id, Values::Id(Kind::Event)),
    known("type", Field::Type, Values::Text),
    known("source", Field::Source, Values::Text),
    known("event", Field::Event, Values::Text),
    bound("trace", Field::Trace, Values::Trace),
    bound("correlation", Field::Correlation, Values::Text),
    bound("received", Field::Created, Values::Time),
    bound("age", Field::Created, Values::Age),
];

static AUDIT: &[Known] = &[
    known("id", Field::Id, Values::Id(Kind::Audit)),
    known("who", Field::Who, Values::Text),
    known("key", Field::Key, Values::Text),
    known("act", Field::Act, Values::Text),
    known("kind", Field::Kind, Values::Text),
    bound("object", Field::Object, Values::Text),
    bound("at", Field::Created, Values::Time),
    bound("age", Field::Created, Values::Age),
];

pub(super) fn of(subject: Subject) -> &'static [Known] {
    match subject {
        Subject::Instances => INSTANCES,
        Subject::DeadLetters => DEAD_LETTERS,
        Subject::Deliveries => DELIVERIES,
        Subject::Events => EVENTS,
        Subject::Audit => AUDIT,
    }
}

/// What a bare word that is no id stands for.
pub(super) fn of_word(subject: Subject) -> Field {
    match subject {
        Subject::Instances => Field::Key,
        Subject::DeadLetters | Subject::Deliveries => Field::Worker,
        Subject::Events => Field::Event,
        Subject::Audit => Field::Object,
    }
}

/// The names of the fields that narrow enough for a search.
pub(super) fn bounds(subject: Subject) -> Vec<&'static str> {
    of(subject).iter().filter(|known| known.bounds).map(|known| known.name).collect()
}
