//! The shapes of a document's top level: `document`, `use`, `schedule`, `evaluate`.

use super::{
    Record,
    Shape::{self, Cron, Duration, Expression, List, Map, Name, Object, Single, Tasks, Text, TextOr, Word},
    optional,
    part::{AUTHENTICATION, ENDPOINT, ERROR, INPUT, OUTPUT, RETRY, STRATEGY, TIMEOUT},
    record, required,
};

pub(super) static ROOT: Record = record(&[
    required("document", Shape::Record(&DOCUMENT)),
    optional("input", Shape::Record(&INPUT)),
    optional("use", Shape::Record(&USE)),
    required("do", Tasks),
    optional("timeout", TextOr(&Shape::Record(&TIMEOUT))),
    optional("output", Shape::Record(&OUTPUT)),
    optional("schedule", Shape::Record(&SCHEDULE)),
    optional("evaluate", Shape::Record(&EVALUATE)),
]);

static DOCUMENT: Record = record(&[
    required("dsl", Text),
    required("namespace", Text),
    required("name", Text),
    required("version", Text),
    optional("title", Text),
    optional("summary", Text),
    optional("tags", Object),
    optional("metadata", Object),
]);

static USE: Record = record(&[
    optional("authentications", Map(&Shape::Record(&AUTHENTICATION))),
    optional("catalogs", Map(&Shape::Record(&CATALOG))),
    optional("errors", Map(&Shape::Record(&ERROR))),
    optional("extensions", List(&Single(&Shape::Record(&EXTENSION)))),
    optional("functions", Map(&Shape::Task)),
    optional("retries", Map(&Shape::Record(&RETRY))),
    optional("secrets", List(&Name)),
    optional("timeouts", Map(&Shape::Record(&TIMEOUT))),
]);

static CATALOG: Record = record(&[required("endpoint", ENDPOINT)]);

static EXTENSION: Record = record(&[
    required(
        "extend",
        Word(&[
            "call",
            "composite",
            "emit",
            "for",
            "listen",
            "raise",
            "run",
            "set",
            "switch",
            "try",
            "wait",
            "all",
        ]),
    ),
    optional("when", Expression),
    optional("before", Tasks),
    optional("after", Tasks),
]);

static SCHEDULE: Record = record(&[
    optional("every", Duration),
    optional("cron", Cron),
    optional("after", Duration),
    optional("on", Shape::Record(&STRATEGY)),
])
.choose(&[&["every", "cron", "after", "on"]]);

static EVALUATE: Record = record(&[optional("language", Name), optional("mode", Word(&["strict", "loose"]))]);
