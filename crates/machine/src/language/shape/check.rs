//! Walks a document along its shapes and reports where it does not fit: objects, lists and tasks here, single
//! values in `check/single.rs`.

mod single;

use super::{
    Field, Record, Shape,
    document::ROOT,
    part::SECRET,
    task::{BASE, KINDS, LIFETIME, LIFETIME_EVENTUALLY, arguments, kind_of},
    text::{is_host, is_uri, unwrap_expression},
};
use crate::{
    language::{
        Problem,
        names::nearest,
        report::Report,
        source::{At, Sort},
    },
    time::Time,
};

const URI: &str = "a URI such as https://example.com/path";

/// Reports everything about the document that the upstream schema (or our stricter reading) forbids.
pub(crate) fn check(root: At<'_>, report: &mut Report) {
    Checker { report }.record(root, &ROOT);
}

/// The same for a task that is a document of its own.
pub(crate) fn check_task(root: At<'_>, report: &mut Report) {
    Checker { report }.shape(root, &Shape::Task);
}

struct Checker<'r> {
    report: &'r mut Report,
}

impl Checker<'_> {
    fn shape(&mut self, at: At<'_>, shape: &Shape) {
        match shape {
            Shape::Any => {}
            Shape::Object => self.sort(at, Sort::Object, "an object"),
            Shape::Members => self.members(at),
            Shape::Text => self.sort(at, Sort::Text, "text"),
            Shape::Name => self.text(at, "text", |text| !text.is_empty()),
            Shape::Flag => self.sort(at, Sort::Bool, "true or false"),
            Shape::Integer(low, high) => self.integer(at, *low, *high),
            Shape::Word(words) => self.word(at, words),
            Shape::Expression => self.text(at, "an expression", |text| !text.trim().is_empty()),
            Shape::Wrapped => self.wrapped(at),
            Shape::Uri => self.text(at, URI, is_uri),
            Shape::UriOrWrapped => self.wrapped_or_text(at, URI, is_uri),
            Shape::TimeOrWrapped => {
                let is_time = |text: &str| Time::parse_rfc3339(text).is_some();
                self.wrapped_or_text(at, "a time such as 2026-01-31T12:00:00Z", is_time);
            }
            Shape::PointerOrWrapped => {
                let is_pointer = |text: &str| text.is_empty() || text.starts_with('/');
                self.wrapped_or_text(at, "a JSON pointer such as /do/0/name", is_pointer);
            }
            Shape::Host => self.text(at, "a host name", is_host),
            Shape::Duration => self.duration(at, true),
            Shape::FixedDuration => self.duration(at, false),
            Shape::Factor => self.factor(at),
            Shape::Cron => self.cron(at),
            Shape::TextOr(_) if at.sort() == Sort::Text => {}
            Shape::WrappedOr(_) if at.text().is_some_and(|text| unwrap_expression(text).is_some()) => {
                self.wrapped(at)
            }
            Shape::UriOr(_) if at.text().is_some() => self.wrapped_or_text(at, URI, is_uri),
            Shape::TextOr(other) | Shape::WrappedOr(other) | Shape::UriOr(other) => self.shape(at, other),
            Shape::SecretOr(_) if at.get("use").is_some() => self.record(at, &SECRET),
            Shape::SecretOr(record) | Shape::Record(record) => self.record(at, record),
            Shape::List(item) => self.list(at, item, false),
            Shape::Items(item) => self.list(at, item, true),
            Shape::Map(value) => self.map(at, value),
            Shape::Single(value) => self.single(at, value),
            Shape::Lifetime => self.lifetime(at),
            Shape::Tasks => self.tasks(at),
            Shape::Task => self.task(at),
        }
    }

    fn wrong(&mut self, at: At<'_>, wanted: &str) {
        let found = match at.sort() {
            Sort::Null => "nothing",
            Sort::Bool => "a boolean",
            Sort::Number => "a number",
            Sort::Text => "text",
            Sort::List => "a list",
            Sort::Object => "an object",
        };
        let message = format!("{} must be {wanted}, but is {found}", at.label());
        let quotable = matches!(at.sort(), Sort::Bool | Sort::Number) && wanted.starts_with("text");
        let hint = quotable.then(|| "put the value in quotes".to_owned());
        self.report.error(Problem::new(at.place(), "wrong-type", message).maybe_hint(hint));
    }

    fn bad(&mut self, at: At<'_>, message: String, hint: Option<String>) {
        self.report.error(Problem::new(at.place(), "bad-value", message).maybe_hint(hint));
    }

    fn sort(&mut self, at: At<'_>, sort: Sort, wanted: &str) {
        if at.sort() != sort {
            self.wrong(at, wanted);
        }
    }

    fn list(&mut self, at: At<'_>, item: &Shape, some: bool) {
        self.sort(at, Sort::List, "a list");
        if some {
            self.not_empty(at);
        }
        at.items().for_each(|element| self.shape(element, item));
    }

    fn not_empty(&mut self, at: At<'_>) {
        if at.sort() == Sort::List && at.items().len() == 0 {
            let message = format!("{} is an empty list", at.label());
            self.report
                .error(Problem::new(at.place(), "empty-list", message).hint("add at least one element"));
        }
    }

    fn map(&mut self, at: At<'_>, value: &Shape) {
        self.sort(at, Sort::Object, "an object");
        at.entries().for_each(|(_, member)| self.shape(member, value));
    }

    /// An object with one free key: a named element of an ordered list.
    fn single(&mut self, at: At<'_>, value: &Shape) {
        if at.sort() != Sort::Object {
            return self.wrong(at, "an object with one key, its name");
        }
        match at.entries().count() {
            1 => at.entries().for_each(|(_, member)| self.shape(member, value)),
            count => {
                let message = format!("{} must have exactly one key, its name, but has {count}", at.label());
                let hint = "indent what belongs to the name by two more spaces";
                self.report.error(Problem::new(at.place(), "bad-item", message).hint(hint));
            }
        }
    }

    fn lifetime(&mut self, at: At<'_>) {
        match at.get("cleanup").and_then(At::text) {
            Some("eventually") => self.record(at, &LIFETIME_EVENTUALLY),
            _ => self.record(at, &LIFETIME),
        }
    }

    fn tasks(&mut self, at: At<'_>) {
        self.list(at, &Shape::Single(&Shape::Task), true);
    }

    fn task(&mut self, at: At<'_>) {
        if at.sort() != Sort::Object {
            return self.wrong(at, "a task, that is an object");
        }
        let keys = || KINDS.iter().map(|kind| kind.key);
        match kind_of(at) {
            Ok(kind) => {
                self.fields(at, &[&BASE, kind.fields], false);
                if kind.key == "call" {
                    self.arguments(at);
                }
            }
            Err(found) if found.is_empty() => {
                let typo = at.entries().find_map(|(key, _)| nearest(key, keys()).map(|kind| (key, kind)));
                let hint = match typo {
                    Some((key, kind)) => format!("did you mean `{kind}` instead of `{key}`?"),
                    None => format!(
                        "add one of {}",
                        keys().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ")
                    ),
                };
                let message = format!("the task {} does not say what to do", at.label());
                self.report.error(Problem::new(at.key_place(), "bad-task", message).hint(hint));
            }
            Err(found) => {
                let kinds =
                    found.iter().map(|kind| format!("`{}`", kind.key)).collect::<Vec<_>>().join(" and ");
                let message = format!("the task {} has {kinds}, but a task does one thing", at.label());
                let problem = Problem::new(at.key_place(), "bad-task", message);
                self.report.error(problem.hint("split it into several tasks"));
            }
        }
    }

    /// `with` of a call, whose shape depends on what is called.
    fn arguments(&mut self, task: At<'_>) {
        let Some(record) = task.get("call").and_then(At::text).and_then(arguments) else { return };
        match task.get("with") {
            Some(with) if with.sort() == Sort::Object => self.record(with, record),
            Some(_) => {}
            None => self.missing(task, "with"),
        }
    }

    fn record(&mut self, at: At<'_>, record: &Record) {
        if at.sort() != Sort::Object {
            return self.wrong(at, "an object");
        }
        self.fields(at, &[record.fields], record.open);
        if record.some && at.entries().next().is_none() {
            self.bad(at, format!("{} must not be empty", at.label()), None);
        }
        for choice in record.choices {
            let found: Vec<&str> = choice.iter().copied().filter(|key| at.get(key).is_some()).collect();
            let names = |keys: &[&str], glue| {
                keys.iter().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(glue)
            };
            let message = match found.len() {
                1 => continue,
                0 => format!("{} needs one of {}", at.label(), names(choice, ", ")),
                _ => format!("{} has {}, but takes only one of them", at.label(), names(&found, " and ")),
            };
            let (code, hint) = match found.is_empty() {
                true => ("missing-key", "add one of them"),
                false => ("conflicting-keys", "keep one and remove the others"),
            };
            self.report.error(Problem::new(at.place(), code, message).hint(hint));
        }
        if at.get("until").is_some_and(|_| at.get("one").is_some() || at.get("all").is_some()) {
            self.bad(
                at,
                "`until` goes with `any` only".to_owned(),
                Some("remove it, or use `any`".to_owned()),
            );
        }
    }

    fn fields(&mut self, at: At<'_>, groups: &[&'static [Field]], open: bool) {
        let known = || groups.iter().flat_map(|fields| fields.iter());
        for (key, value) in at.entries() {
            match known().find(|field| field.key == key) {
                Some(field) => self.shape(value, &field.shape),
                None if open => {}
                None => self.unknown_key(value, known().map(|field| field.key)),
            }
        }
        for field in known().filter(|field| field.required && at.get(field.key).is_none()) {
            self.missing(at, field.key);
        }
    }

    fn missing(&mut self, at: At<'_>, key: &str) {
        let message = format!("{} needs `{key}`", at.label());
        self.report.error(Problem::new(at.place(), "missing-key", message).hint(format!("add `{key}:`")));
    }

    fn unknown_key<'k>(&mut self, at: At<'_>, known: impl Iterator<Item = &'k str>) {
        if self.report.is_full() {
            return;
        }
        let known: Vec<&str> = known.collect();
        let key = at.key().unwrap_or_default();
        let hint = match nearest(key, known.iter().copied()) {
            _ if BASE.iter().any(|field| field.key == key) => {
                format!("`{key}` belongs to the task itself; move it up")
            }
            Some(word) => format!("did you mean `{word}`?"),
            None if known.is_empty() => "nothing may stand here".to_owned(),
            None => format!("known here: {}", known.join(", ")),
        };
        let message = format!("`{}` is not known here", single::shorten(key));
        self.report.error(Problem::new(at.key_place(), "unknown-key", message).hint(hint));
    }
}
