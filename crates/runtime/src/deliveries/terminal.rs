//! What is told besides the dead letter when an event is given up, in the same commit.

use machine::{
    Data,
    command::ENVELOPE_MAX,
    id::{self, Kind},
};
use uuid::Uuid;
use worker::{Emit, Terminal};

/// The event's own data goes along up to this size, so that what is told is never too large to be published.
const DATA_BYTES_MAX: usize = ENVELOPE_MAX / 2;

/// Why an event was given up.
pub(super) struct GivenUp<'a> {
    pub(super) worker: &'a str,
    pub(super) letter: Uuid,
    pub(super) event: Uuid,
    pub(super) reason: &'a str,
    pub(super) detail: &'a str,
    pub(super) attempts: u32,
}

/// The events to emit, in order.
pub(super) fn emits(terminal: &Terminal, cause: &Data, given_up: &GivenUp<'_>) -> Vec<Emit> {
    terminal.types().map(|kind| emit(kind, cause, given_up)).collect()
}

fn emit(kind: &str, cause: &Data, given_up: &GivenUp<'_>) -> Emit {
    let named = ["id", "source", "type", "subject"];
    let named = named.into_iter().filter_map(|name| Some((name.to_owned(), cause.get(name)?)));
    let mut entries = vec![
        ("worker".to_owned(), Data::text(given_up.worker)),
        ("reason".to_owned(), Data::text(given_up.reason)),
        ("detail".to_owned(), Data::text(given_up.detail)),
        ("attempts".to_owned(), Data::int(given_up.attempts.into())),
        ("dead_letter".to_owned(), Data::text(id::show(Kind::DeadLetter, given_up.letter))),
        ("event_id".to_owned(), Data::text(id::show(Kind::Event, given_up.event))),
        ("event".to_owned(), Data::map(named)),
    ];
    if let Some(data) = cause.get("data").filter(|data| data.to_bytes().len() <= DATA_BYTES_MAX) {
        entries.push(("data".to_owned(), data));
    }
    let subject = cause.get("subject").as_ref().and_then(Data::as_str).map(str::to_owned);
    Emit { event_type: kind.to_owned(), subject, data: Data::map(entries), once: None }
}
