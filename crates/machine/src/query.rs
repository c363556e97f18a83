//! The one query grammar: what lists are filtered by and what batches act on, in the API, the CLI and anywhere else.
//!
//! [`parse`] turns a text into [`Condition`]s that a store can look up; the text, what it is about and the time are all it
//! is given. Every condition must hold. What is wrong is told with its position.

mod fields;
mod terms;
#[cfg(test)]
mod tests;
mod values;

use crate::{id::Kind, time::Time};
use uuid::Uuid;

/// The longest query.
pub const QUERY_BYTES_MAX: usize = 1_000;
/// The most terms of a query.
pub const TERMS_MAX: usize = 20;
/// The most values that one term lists.
pub const VALUES_MAX: usize = 50;

/// What a query is about; decides which fields there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    Instances,
    DeadLetters,
    Deliveries,
    Events,
    /// What people, keys and workers did.
    Audit,
}

impl Subject {
    /// What the ids of such things look like.
    pub fn kind(self) -> Kind {
        match self {
            Subject::Instances => Kind::Instance,
            Subject::DeadLetters => Kind::DeadLetter,
            Subject::Deliveries => Kind::Delivery,
            Subject::Events => Kind::Event,
            Subject::Audit => Kind::Audit,
        }
    }

    /// The names of its fields, as people write them.
    pub fn fields(self) -> Vec<&'static str> {
        fields::of(self).iter().map(|known| known.name).collect()
    }
}

/// What a condition looks at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Field {
    Id,
    Status,
    /// Namespace, name and version together.
    Definition,
    Namespace,
    Name,
    Version,
    /// The business key, or the order key of a delivery.
    Key,
    /// A part of the business key.
    Part(String),
    Parent,
    /// What kind of thing is waited for.
    Waiting,
    /// When it came into being.
    Created,
    Ended,
    Changed,
    /// When it may be handed out.
    Due,
    /// What went wrong, in words.
    Error,
    Worker,
    Source,
    Reason,
    Instance,
    Group,
    Attempts,
    /// The type of an event.
    Type,
    /// The id that an event has from its publisher.
    Event,
    /// The trace that it belongs to.
    Trace,
    /// The correlation id that it carries.
    Correlation,
    /// The name under which somebody acted.
    Who,
    /// What was done.
    Act,
    /// What kind of thing was acted on.
    Kind,
    /// The id or name of what was acted on.
    Object,
}

/// A text that is looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pattern {
    Equal(String),
    Prefix(String),
}

/// A definition that is looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefinitionPattern {
    pub namespace: Option<Pattern>,
    pub name: Pattern,
    pub version: Option<Pattern>,
}

/// How it is looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Test {
    /// Any of these.
    Texts(Vec<Pattern>),
    /// Any of these.
    Definitions(Vec<DefinitionPattern>),
    /// Ids from the first to the second of any pair, both included.
    Ids(Vec<(Uuid, Uuid)>),
    /// The text is somewhere in it, in either case.
    Contains(String),
    /// From the first on, and before the second.
    Times(Option<Time>, Option<Time>),
    /// From the first on, and below the second.
    Numbers(Option<i64>, Option<i64>),
}

/// One thing that must hold, or must not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    pub field: Field,
    pub not: bool,
    pub test: Test,
}

/// What is wrong with a query, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("at character {at}: {message}")]
pub struct Error {
    /// Position of the character, from 1.
    pub at: usize,
    pub message: String,
    /// What to write instead.
    pub hint: Option<String>,
}

impl Error {
    fn new(at: usize, message: impl Into<String>) -> Error {
        Error { at, message: message.into(), hint: None }
    }

    fn hint(self, hint: impl Into<String>) -> Error {
        Error { hint: Some(hint.into()), ..self }
    }
}

/// Reads a query. Times that are given by their distance are reckoned from `now`. A text without a term is an empty query,
/// which everything meets.
pub fn parse(subject: Subject, text: &str, now: Time) -> Result<Vec<Condition>, Error> {
    if text.len() > QUERY_BYTES_MAX {
        return Err(Error::new(1, format!("a query has at most {QUERY_BYTES_MAX} bytes")));
    }
    let terms = terms::read(text)?;
    if let Some(term) = terms.get(TERMS_MAX) {
        return Err(Error::new(term.at, format!("a query has at most {TERMS_MAX} terms")));
    }
    let mut conditions = Vec::with_capacity(terms.len());
    let (mut is_bounded, mut searched_at) = (false, None);
    for term in terms {
        let at = term.at;
        let (condition, bounds) = values::condition(subject, term, now)?;
        is_bounded |= bounds && !condition.not;
        if matches!(condition.test, Test::Contains(_)) {
            searched_at = searched_at.or(Some(at));
        }
        conditions.push(condition);
    }
    match searched_at {
        // Without a bound it would read every row there is.
        Some(at) if !is_bounded => Err(Error::new(at, "text is searched for only within something narrower")
            .hint(format!("add one of {}", fields::bounds(subject).join(", ")))),
        _ => Ok(conditions),
    }
}
