//! The shapes of the twelve kinds of task and of what every task may carry.

use super::{
    Field, Record,
    Shape::{self, Duration, Expression, Flag, Items, List, Name, Object, Single, Tasks, Text, TextOr, Word},
    call::PROTOCOLS,
    optional,
    part::{
        ERROR, ERROR_FILTER, EVENT_EMITTED, EXPORT, INPUT, ITERATOR, OUTPUT, RESOURCE, RETRY, STRATEGY,
        TIMEOUT,
    },
    record, required,
};
use crate::language::source::At;

/// What every task may carry.
pub(super) static BASE: [Field; 7] = [
    optional("if", Expression),
    optional("input", Shape::Record(&INPUT)),
    optional("output", Shape::Record(&OUTPUT)),
    optional("export", Shape::Record(&EXPORT)),
    optional("timeout", TextOr(&Shape::Record(&TIMEOUT))),
    optional("then", Text),
    optional("metadata", Object),
];

/// A kind of task: the key that makes it one, and its own fields.
pub(crate) struct Kind {
    pub key: &'static str,
    pub fields: &'static [Field],
}

/// The kinds of task. `for` comes before `do`, which is a part of it.
pub(crate) static KINDS: [Kind; 12] = [
    Kind { key: "call", fields: &[required("call", Name), optional("with", Object)] },
    Kind { key: "for", fields: FOR_TASK },
    Kind { key: "do", fields: &[required("do", Tasks)] },
    Kind { key: "emit", fields: &[required("emit", Shape::Record(&EMIT))] },
    Kind { key: "fork", fields: &[required("fork", Shape::Record(&FORK))] },
    Kind {
        key: "listen",
        fields: &[required("listen", Shape::Record(&LISTEN)), optional("foreach", Shape::Record(&ITERATOR))],
    },
    Kind { key: "raise", fields: &[required("raise", Shape::Record(&RAISE))] },
    Kind { key: "run", fields: &[required("run", Shape::Record(&RUN))] },
    Kind { key: "set", fields: &[required("set", Shape::Members)] },
    Kind { key: "switch", fields: &[required("switch", Items(&Single(&Shape::Record(&CASE))))] },
    Kind { key: "try", fields: &[required("try", Tasks), required("catch", Shape::Record(&CATCH))] },
    Kind { key: "wait", fields: &[required("wait", Duration)] },
];

/// The only kind whose key the task has; otherwise all that it has, none or several.
pub(crate) fn kind_of(task: At<'_>) -> Result<&'static Kind, Vec<&'static Kind>> {
    let looped = task.get("for").is_some();
    let found: Vec<&Kind> =
        KINDS.iter().filter(|kind| task.get(kind.key).is_some() && !(looped && kind.key == "do")).collect();
    match found[..] {
        [kind] => Ok(kind),
        _ => Err(found),
    }
}

/// The shape of `with` for a call of this name; `None` for functions, whose arguments are their own affair.
pub(super) fn arguments(call: &str) -> Option<&'static Record> {
    PROTOCOLS.iter().find(|(protocol, _)| *protocol == call).map(|(_, record)| *record)
}

const FOR_TASK: &[Field] =
    &[required("for", Shape::Record(&FOR)), optional("while", Expression), required("do", Tasks)];

static FOR: Record = record(&[optional("each", Text), required("in", Expression), optional("at", Text)]);

static EMIT: Record = record(&[required("event", Shape::Record(&EMIT_EVENT))]);
static EMIT_EVENT: Record = record(&[required("with", Shape::Record(&EVENT_EMITTED))]);

static FORK: Record = record(&[required("branches", Tasks), optional("compete", Flag)]);

static LISTEN: Record =
    record(&[required("to", Shape::Record(&STRATEGY)), optional("read", Word(&["data", "envelope", "raw"]))]);

static RAISE: Record = record(&[required("error", TextOr(&Shape::Record(&ERROR)))]);

static CASE: Record = record(&[optional("when", Expression), required("then", Text)]);

static CATCH: Record = record(&[
    optional("errors", Shape::Record(&CATCH_ERRORS)),
    optional("as", Text),
    optional("when", Expression),
    optional("exceptWhen", Expression),
    optional("retry", TextOr(&Shape::Record(&RETRY))),
    optional("do", Tasks),
]);
static CATCH_ERRORS: Record = record(&[optional("with", Shape::Record(&ERROR_FILTER))]);

static RUN: Record = record(&[
    optional("container", Shape::Record(&CONTAINER)),
    optional("script", Shape::Record(&SCRIPT)),
    optional("shell", Shape::Record(&SHELL)),
    optional("workflow", Shape::Record(&SUB_WORKFLOW)),
    optional("await", Flag),
    optional("return", Word(&["stdout", "stderr", "code", "all", "none"])),
])
.choose(&[&["container", "script", "shell", "workflow"]]);

static CONTAINER: Record = record(&[
    required("image", Text),
    optional("name", Text),
    optional("command", Text),
    optional("ports", Object),
    optional("volumes", Object),
    optional("environment", Object),
    optional("stdin", Text),
    optional("arguments", List(&Text)),
    optional("lifetime", Shape::Lifetime),
    optional("pullPolicy", Word(&["ifNotPresent", "always", "never"])),
]);

/// `after` belongs to `cleanup: eventually`, and only to that.
pub(super) static LIFETIME: Record = record(&[required("cleanup", CLEANUP)]);
pub(super) static LIFETIME_EVENTUALLY: Record =
    record(&[required("cleanup", CLEANUP), required("after", Duration)]);
const CLEANUP: Shape = Word(&["always", "never", "eventually"]);

static SCRIPT: Record = record(&[
    required("language", Text),
    optional("code", Text),
    optional("source", Shape::Record(&RESOURCE)),
    optional("stdin", Text),
    optional("arguments", List(&Text)),
    optional("environment", Object),
])
.choose(&[&["code", "source"]]);

static SHELL: Record = record(&[
    required("command", Text),
    optional("stdin", Text),
    optional("arguments", List(&Text)),
    optional("environment", Object),
]);

static SUB_WORKFLOW: Record = record(&[
    required("namespace", Text),
    required("name", Text),
    required("version", Text),
    optional("input", Object),
]);
