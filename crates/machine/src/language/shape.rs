//! Holds a document against the upstream schema, with messages a person can act on.
//!
//! A [`Shape`] says what a value may be; the tables in `shape/` spell out the language with them. [`check`]
//! walks a document along its shapes. What it lets pass is valid under the unmodified upstream schema; names,
//! references and expressions are not looked at here but in `lower`.

mod call;
mod check;
mod document;
mod part;
mod task;
mod text;

pub(crate) use check::{check, check_task};
pub(crate) use task::kind_of;
pub(crate) use text::{span_of, unwrap_expression};

/// What a value may be.
pub(crate) enum Shape {
    /// Anything at all.
    Any,
    /// Any object.
    Object,
    /// An object with at least one member, or an expression in `${ }`.
    Members,
    Text,
    /// Text with at least one character.
    Name,
    Flag,
    /// An integer between these two, both included.
    Integer(i64, i64),
    /// One of these words.
    Word(&'static [&'static str]),
    /// An expression, bare or in `${ }`.
    Expression,
    /// An expression in `${ }`, on one line.
    Wrapped,
    /// An absolute URI, possibly with `{name}` parts.
    Uri,
    /// An absolute URI or an expression in `${ }`.
    UriOrWrapped,
    /// An RFC 3339 point in time or an expression in `${ }`.
    TimeOrWrapped,
    /// A JSON pointer or an expression in `${ }`.
    PointerOrWrapped,
    /// A host name.
    Host,
    Duration,
    /// A duration known before anything runs.
    FixedDuration,
    /// A growth factor: a number of at least 1.
    Factor,
    /// A cron expression of five fields.
    Cron,
    /// Text (a reference or an expression), or the other shape.
    TextOr(&'static Shape),
    /// An expression in `${ }`, or the other shape.
    WrappedOr(&'static Shape),
    /// An absolute URI, or the other shape.
    UriOr(&'static Shape),
    /// A reference `use: <secret>`, or the other record.
    SecretOr(&'static Record),
    List(&'static Shape),
    /// A list with at least one element.
    Items(&'static Shape),
    /// An object with free keys and values of this shape.
    Map(&'static Shape),
    Record(&'static Record),
    /// An object with one free key, whose value has this shape.
    Single(&'static Shape),
    /// When a container is removed.
    Lifetime,
    /// A list of tasks.
    Tasks,
    Task,
}

/// An object with known keys.
pub(crate) struct Record {
    pub fields: &'static [Field],
    /// Of each of these sets, exactly one key must be there.
    pub choices: &'static [&'static [&'static str]],
    /// True if other keys are welcome.
    pub open: bool,
    /// True if there must be at least one key.
    pub some: bool,
}

pub(crate) struct Field {
    pub key: &'static str,
    pub shape: Shape,
    pub required: bool,
}

const fn required(key: &'static str, shape: Shape) -> Field {
    Field { key, shape, required: true }
}

const fn optional(key: &'static str, shape: Shape) -> Field {
    Field { key, shape, required: false }
}

const fn record(fields: &'static [Field]) -> Record {
    Record { fields, choices: &[], open: false, some: false }
}

impl Record {
    /// The same record, with exactly one key out of each set.
    const fn choose(mut self, choices: &'static [&'static [&'static str]]) -> Record {
        self.choices = choices;
        self
    }

    /// The same record, with other keys welcome.
    const fn open(mut self) -> Record {
        self.open = true;
        self
    }

    /// The same record, with at least one key.
    const fn some(mut self) -> Record {
        self.some = true;
        self
    }
}
