//! Texts with a grammar of their own: expressions in `${ }`, URIs, durations, cron expressions.

use crate::{
    language::source::{At, Sort},
    schedule::Cron,
    time::Span,
};

/// What stands between `${` and `}` if the whole text is such an expression.
pub(crate) fn unwrap_expression(text: &str) -> Option<&str> {
    text.trim().strip_prefix("${")?.strip_suffix('}').filter(|inner| !inner.is_empty())
}

/// True if the upstream schema takes the text for an expression; its pattern does not match across lines.
pub(super) fn is_wrapped(text: &str) -> bool {
    unwrap_expression(text).is_some_and(|inner| !inner.contains(['\n', '\r', '\u{2028}', '\u{2029}']))
}

/// True for `scheme://...`, which is all the upstream schema asks of a URI.
pub(super) fn is_uri(text: &str) -> bool {
    let scheme_byte = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
    text.split_once("://").is_some_and(|(scheme, _)| {
        scheme.starts_with(|first: char| first.is_ascii_alphabetic()) && scheme.bytes().all(scheme_byte)
    })
}

pub(super) fn is_host(text: &str) -> bool {
    let edge = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
    text.len() <= 63
        && edge(text.bytes().next())
        && edge(text.bytes().last())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.'))
}

/// The units of a duration object, in microseconds.
const UNITS: [(&str, i64); 5] = [
    ("days", 86_400_000_000),
    ("hours", 3_600_000_000),
    ("minutes", 60_000_000),
    ("seconds", 1_000_000),
    ("milliseconds", 1_000),
];

pub(super) fn unit_names() -> impl Iterator<Item = &'static str> {
    UNITS.iter().map(|(name, _)| *name)
}

/// The length of a duration that is not an expression. The error says what is wrong with it, after its name.
pub(crate) fn span_of(at: At<'_>) -> Result<Span, String> {
    match (at.sort(), at.text()) {
        (Sort::Text, Some(text)) => iso_8601(text),
        (Sort::Object, _) => object(at),
        _ => Err("must be a duration".to_owned()),
    }
}

fn iso_8601(text: &str) -> Result<Span, String> {
    let too_long = || format!("is longer than {} years", Span::MAX.0 / (366 * 86_400_000_000));
    if !is_iso_pattern(text) {
        return Err(format!("is not an ISO 8601 duration: `{text}`"));
    }
    let calendar = text.split('T').next().is_some_and(|date| date.contains(['Y', 'M']));
    match Span::parse_iso8601(text) {
        Some(span) => Ok(span),
        None if calendar => Err("counts in years or months, whose length depends on the calendar".to_owned()),
        None if text.contains('.') => {
            Err("has a fraction where only hours, minutes and seconds may".to_owned())
        }
        None => Err(too_long()),
    }
}

/// The upstream schema's pattern: upper case, units in order, digits before each, something after `T`.
fn is_iso_pattern(text: &str) -> bool {
    let Some(rest) = text.strip_prefix('P') else { return false };
    let (date, time) = match rest.split_once('T') {
        Some((date, time)) => (date, Some(time)),
        None => (rest, None),
    };
    !rest.is_empty()
        && is_unit_sequence(date, "YMWD")
        && time.is_none_or(|time| !time.is_empty() && is_unit_sequence(time, "HMS"))
}

fn is_unit_sequence(mut text: &str, mut units: &str) -> bool {
    while !text.is_empty() {
        let Some(end) = text.find(|c: char| c.is_ascii_alphabetic()) else { return false };
        let (number, rest) = text.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
        let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        let Some(position) = units.find(&rest[..1]) else { return false };
        if !digits(whole) || !digits(fraction) {
            return false;
        }
        units = &units[position + 1..];
        text = &rest[1..];
    }
    true
}

fn object(at: At<'_>) -> Result<Span, String> {
    let mut total: i64 = 0;
    for (key, value) in at.entries() {
        let Some((_, micros)) = UNITS.iter().find(|(unit, _)| *unit == key) else { continue };
        let amount = value.integer().ok_or_else(|| format!("needs an integer for `{key}`"))?;
        if amount < 0 {
            return Err(format!("has a negative number of {key}"));
        }
        total = amount.checked_mul(*micros).and_then(|part| total.checked_add(part)).unwrap_or(i64::MAX);
        if total > Span::MAX.0 {
            return Err("is longer than 100 years".to_owned());
        }
    }
    Ok(Span(total))
}

/// What is wrong with a cron expression of five fields, if anything.
pub(super) fn cron_fault(text: &str) -> Option<String> {
    Cron::parse(text).err()
}
