//! Checks of single values: texts, numbers, words, expressions, durations.

use super::Checker;
use crate::language::{
    Problem,
    names::nearest,
    shape::text::{cron_fault, is_wrapped, span_of, unit_names, unwrap_expression},
    source::{At, Sort},
};

impl Checker<'_> {
    pub(super) fn members(&mut self, at: At<'_>) {
        if at.sort() == Sort::Object && at.entries().next().is_none() {
            self.bad(at, format!("{} must not be empty", at.label()), None);
        } else if let Some(text) = at.text() {
            if unwrap_expression(text).is_some() {
                return;
            }
            let message = format!("{} must be an object or an expression in ${{ }}, but is text", at.label());
            self.report.error(
                Problem::new(at.place(), "wrong-type", message)
                    .hint("wrap the expression: `${ <expression> }`"),
            );
        } else {
            self.sort(at, Sort::Object, "an object");
        }
    }

    pub(super) fn text(&mut self, at: At<'_>, wanted: &str, fits: impl Fn(&str) -> bool) {
        match at.text() {
            None if wanted == "text" || at.sort() == Sort::Object || at.sort() == Sort::List => {
                self.wrong(at, wanted)
            }
            None => self.wrong(at, &format!("text: {wanted}")),
            Some("") => self.bad(at, format!("{} must not be empty", at.label()), None),
            Some(text) if !fits(text) => {
                self.bad(at, format!("{} must be {wanted}, but is `{}`", at.label(), shorten(text)), None);
            }
            Some(_) => {}
        }
    }

    pub(super) fn wrapped_or_text(&mut self, at: At<'_>, wanted: &str, fits: impl Fn(&str) -> bool) {
        match at.text().is_some_and(|text| unwrap_expression(text).is_some()) {
            true => self.wrapped(at),
            false => self.text(at, wanted, fits),
        }
    }

    pub(super) fn wrapped(&mut self, at: At<'_>) {
        let Some(text) = at.text() else { return self.wrong(at, "an expression in ${ }") };
        if unwrap_expression(text).is_none() {
            let message = format!("{} must be an expression in ${{ }}", at.label());
            self.bad(at, message, Some("wrap it: `${ <expression> }`".to_owned()));
        } else if !is_wrapped(text) {
            let message = format!("the expression in {} spans several lines", at.label());
            self.bad(at, message, Some("write it on one line, or fold it with `>-`".to_owned()));
        }
    }

    pub(super) fn integer(&mut self, at: At<'_>, low: i64, high: i64) {
        let Some(number) = at.integer() else { return self.wrong(at, "an integer") };
        if !(low..=high).contains(&number) {
            self.bad(at, format!("{} must be from {low} to {high}, but is {number}", at.label()), None);
        }
    }

    pub(super) fn word(&mut self, at: At<'_>, words: &'static [&'static str]) {
        let all = words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ");
        let Some(text) = at.text() else { return self.wrong(at, &format!("one of {all}")) };
        if !words.contains(&text) {
            let message = format!("{} cannot be `{}`; it is one of {all}", at.label(), shorten(text));
            let hint = nearest(text, words.iter().copied()).map(|word| format!("did you mean `{word}`?"));
            self.bad(at, message, hint);
        }
    }

    pub(super) fn duration(&mut self, at: At<'_>, may_compute: bool) {
        if at.text().is_some_and(|text| unwrap_expression(text).is_some()) {
            match may_compute {
                true => return self.wrapped(at),
                false => return self.bad(at, format!("{} cannot be an expression", at.label()), None),
            }
        }
        let mut fault = span_of(at).err();
        for (key, value) in at.entries() {
            if !unit_names().any(|unit| unit == key) {
                self.unknown_key(value, unit_names());
                fault = None;
            }
        }
        if at.sort() == Sort::Object && at.entries().next().is_none() {
            fault = Some("names no unit".to_owned());
        }
        if let Some(fault) = fault {
            let hint = "write an object such as `{ minutes: 5 }`, or ISO 8601 such as PT5M";
            let message = format!("{} {fault}", at.label());
            self.report.error(Problem::new(at.place(), "bad-duration", message).hint(hint));
        }
    }

    pub(super) fn factor(&mut self, at: At<'_>) {
        let factor = at.number().and_then(|number| number.to_json().as_f64());
        match factor {
            None => self.wrong(at, "a number"),
            Some(factor) if factor >= 1.0 => {}
            Some(factor) => self.bad(at, format!("{} must be at least 1, but is {factor}", at.label()), None),
        }
    }

    pub(super) fn cron(&mut self, at: At<'_>) {
        let Some(text) = at.text() else { return self.wrong(at, "text") };
        if let Some(fault) = cron_fault(text) {
            let hint = "write minute, hour, day of month, month and day of week, such as `0 8 * * 1-5`";
            let message = format!("the cron expression `{}` {fault}", shorten(text));
            self.report.error(Problem::new(at.place(), "bad-cron", message).hint(hint));
        }
    }
}

/// A text short enough for a message.
pub(super) fn shorten(text: &str) -> String {
    const CHARS_MAX: usize = 60;
    match text.char_indices().nth(CHARS_MAX) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}
