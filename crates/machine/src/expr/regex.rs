//! Regular expressions: linear in text and pattern, and metered per search.
//!
//! The syntax is that of `regex-bites`: no look-around, no back references. A search that restarts after each
//! match can be quadratic in the text, so every restart pays for the text that is left.

use super::{
    meter::{spend, text_price},
    natives::Engine,
    value::{ValR, Value},
};
use jaq_core::{Cv, Error};
use jaq_json::Val;
use regex_bites::{Captures, Regex, RegexBuilder};
use std::cell::Cell;

/// Memory of one compiled pattern; about a thousand states.
const PATTERN_BYTES_MAX: usize = 64 * 1024;
/// Longer patterns are refused.
const SOURCE_BYTES_MAX: usize = 1000;

/// What [`parts`] answers: the matches, the text between them, or both in turn.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    Matches,
    Between,
    Both,
}

struct Flags {
    global: bool,
    skip_empty: bool,
}

/// Matches of `input` against the two variables pattern and flags: an array of matches (arrays of captures) and,
/// if wanted, of the texts between them.
pub(super) fn parts(mut cv: Cv<'_, Engine>, wanted: Wanted) -> ValR {
    let flags = cv.0.pop_var();
    let pattern = cv.0.pop_var();
    let input = cv.1;
    let Val::TStr(text) = &input.val else { return input.type_error("string") };
    let text = std::str::from_utf8(text).map_err(|_| Error::str("text is not valid UTF-8"))?;
    let (regex, flags) = compile(&pattern, &flags)?;
    let states = states_max(regex.as_str());

    let mut found = Vec::new();
    let mut characters = Characters { text, byte: 0, count: 0 };
    let (mut at, mut copied, mut empty_allowed_from) = (0, 0, 0);
    while at <= text.len() {
        spend(16 + (text.len() - at).saturating_mul(1 + states / 8))?;
        let Some(captures) = regex.captures_at(text, at) else { break };
        let Some(whole) = captures.get(0) else { break };
        at = whole.end();
        if whole.is_empty() {
            at = next_character(text, at);
            if whole.start() < empty_allowed_from || flags.skip_empty {
                continue;
            }
        }
        empty_allowed_from = whole.end() + 1;
        if wanted != Wanted::Matches {
            found.push(Value::text(&text[copied..whole.start()]));
            copied = whole.end();
        }
        if wanted != Wanted::Between {
            found.push(captures_value(&regex, &captures, &mut characters)?);
        }
        if !flags.global {
            break;
        }
    }
    if wanted != Wanted::Matches {
        found.push(Value::text(&text[copied..]));
    }
    Ok(found.into_iter().collect())
}

/// The compiled pattern; the last one of this thread is kept, for `map(test(...))`.
fn compile(pattern: &Value, flags: &Value) -> ValR<(Regex, Flags)> {
    let (Val::TStr(source), Val::TStr(letters)) = (&pattern.val, &flags.val) else {
        return Err(Error::str(format_args!("{pattern} with flags {flags} is not a regular expression")));
    };
    let source = std::str::from_utf8(source).map_err(|_| Error::str("text is not valid UTF-8"))?;
    if source.len() > SOURCE_BYTES_MAX {
        return Err(Error::str("the regular expression is too long"));
    }
    spend(8)?;
    let is_same = |(regex, of): &(Regex, Vec<u8>)| regex.as_str() == source && of[..] == letters[..];
    let (regex, letters) = match LAST.take().filter(is_same) {
        Some(last) => last,
        None => (build(source, letters)?, letters.to_vec()),
    };
    let flags = Flags { global: letters.contains(&b'g'), skip_empty: letters.contains(&b'n') };
    LAST.set(Some((regex.clone(), letters)));
    Ok((regex, flags))
}

thread_local! {
    static LAST: Cell<Option<(Regex, Vec<u8>)>> = const { Cell::new(None) };
}

fn build(pattern: &str, letters: &[u8]) -> ValR<Regex> {
    spend(100 + 2 * states_max(pattern))?;
    let mut builder = RegexBuilder::new(pattern);
    for letter in letters {
        match letter {
            b'g' | b'n' => {}
            b'i' => _ = builder.case_insensitive(true),
            b'm' => _ = builder.multi_line(true),
            b's' => _ = builder.dot_matches_new_line(true),
            b'l' => _ = builder.swap_greed(true),
            b'x' => _ = builder.ignore_whitespace(true),
            b'p' => _ = builder.multi_line(true).dot_matches_new_line(true),
            other => return Err(Error::str(format_args!("unknown regex flag {:?}", *other as char))),
        }
    }
    let built = builder.size_limit(PATTERN_BYTES_MAX).build();
    built.map_err(|e| Error::str(format_args!("not a regular expression: {e}")))
}

/// An upper estimate of the states of a pattern: its length times all its repetition counts.
fn states_max(pattern: &str) -> usize {
    let counts = pattern.split('{').skip(1).filter_map(|rest| {
        let inside = rest.split('}').next()?;
        inside.split(',').filter_map(|n| n.trim().parse::<usize>().ok()).max()
    });
    counts
        .fold(pattern.len(), |states, count| states.saturating_mul(count.max(1)))
        .min(PATTERN_BYTES_MAX / 16)
}

/// One match: an object with offset, length, text and name per capture.
fn captures_value(regex: &Regex, captures: &Captures<'_>, characters: &mut Characters<'_>) -> ValR {
    let mut values = Vec::new();
    let start = captures.get(0).map_or(0, |whole| whole.start());
    let offset = characters.count_to(start);
    for (capture, name) in captures.iter().zip(regex.capture_names()) {
        let Some(capture) = capture else { continue };
        let mut inside = Characters { text: characters.text, byte: start, count: offset };
        let text = &characters.text[capture.range()];
        spend(2 * text_price(text.len()))?;
        let fields = [
            ("offset", Value::from(inside.count_to(capture.start()))),
            ("length", Value::from(text.chars().count())),
            ("string", Value::text(text)),
        ];
        let name = name.map(|name| ("name", Value::text(name)));
        let fields = fields.into_iter().chain(name).map(|(key, value)| (Value::text(key), value));
        values.push(<Value as jaq_core::ValT>::from_map(fields)?);
    }
    Ok(values.into_iter().collect())
}

/// Turns ascending byte positions into character counts.
struct Characters<'a> {
    text: &'a str,
    byte: usize,
    count: usize,
}

impl Characters<'_> {
    fn count_to(&mut self, byte: usize) -> usize {
        if byte > self.byte {
            self.count += self.text[self.byte..byte].chars().count();
            self.byte = byte;
        }
        self.count
    }
}

fn next_character(text: &str, at: usize) -> usize {
    at + text[at..].chars().next().map_or(1, char::len_utf8)
}
