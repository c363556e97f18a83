//! Makes a term a condition: finds its field and reads its values.

use super::{
    Condition, DefinitionPattern, Error, Field, Pattern, Subject, Test,
    fields::{self, Known, Values},
    terms::{Op, Term, Text},
};
use crate::{
    id::Kind,
    language::nearest,
    time::{Span, Time},
};
use uuid::Uuid;

/// The prefix of fields that name a part of the business key.
const PART: &str = "part.";

/// The condition, and whether it narrows enough for text to be searched for.
pub(super) fn condition(subject: Subject, term: Term, now: Time) -> Result<(Condition, bool), Error> {
    let not = term.not;
    let Some(name) = &term.field else {
        let (field, test) = word(subject, &term.values[0]);
        return Ok((Condition { field, not, test }, false));
    };
    if let (Some(part), Subject::Instances) = (name.strip_prefix(PART), subject) {
        let is_name =
            |part: &str| part.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'));
        if part.is_empty() || !is_name(part) {
            return Err(Error::new(term.at, format!("{part:?} cannot be the name of a part of the key")));
        }
        let test = Test::Texts(listed(&term)?.iter().map(pattern).collect());
        return Ok((Condition { field: Field::Part(part.to_owned()), not, test }, false));
    }
    let all = fields::of(subject);
    let Some(known) = all.iter().find(|known| known.name == name) else {
        return Err(unknown(subject, &term, name));
    };
    let test = test(known, &term, now)?;
    Ok((Condition { field: known.field.clone(), not, test }, known.bounds))
}

fn unknown(subject: Subject, term: &Term, name: &str) -> Error {
    let names = subject.fields();
    let hint = match nearest(name, names.iter().copied()) {
        Some(near) => format!("did you mean {near}?"),
        None => format!("known here: {}", names.join(", ")),
    };
    Error::new(term.at + usize::from(term.not), format!("there is no field {name:?} here")).hint(hint)
}

/// A bare word is an id or its beginning if it looks so.
fn word(subject: Subject, value: &Text) -> (Field, Test) {
    let looks_so = value.text.starts_with(&format!("{}_", subject.kind().prefix()));
    match ids(subject.kind(), value) {
        Ok(range) if looks_so && !value.quoted => (Field::Id, Test::Ids(vec![range])),
        _ => (fields::of_word(subject), Test::Texts(vec![pattern(value)])),
    }
}

fn test(known: &Known, term: &Term, now: Time) -> Result<Test, Error> {
    let value = &term.values[0];
    Ok(match known.values {
        Values::Search => return search(known.name, term, value),
        Values::Words(words) => {
            let read = |value: &Text| one_of(words, known.name, value);
            Test::Texts(listed(term)?.iter().map(read).collect::<Result<_, _>>()?)
        }
        Values::Text => Test::Texts(listed(term)?.iter().map(pattern).collect()),
        Values::Trace => Test::Texts(listed(term)?.iter().map(trace).collect::<Result<_, _>>()?),
        Values::Definition => Test::Definitions(listed(term)?.iter().map(definition).collect()),
        Values::Id(kind) => {
            Test::Ids(listed(term)?.iter().map(|value| ids(kind, value)).collect::<Result<_, _>>()?)
        }
        Values::Number => {
            let number = value.text.parse::<i64>().ok().filter(|number| *number >= 0);
            let number = number.ok_or_else(|| Error::new(value.at, "this must be a whole number"))?;
            let (from, to) = range(single(term)?, number, number.saturating_add(1));
            Test::Numbers(from, to)
        }
        Values::Time => {
            let (from, to) = time(value, now)?;
            let (from, to) = range(single(term)?, from, to);
            Test::Times(from, to)
        }
        Values::Age => {
            let span = length(&value.text)
                .ok_or_else(|| Error::new(value.at, "this must be a length such as 30m, 2h or 7d"))?;
            let then = Time(now.0.saturating_sub(span.0));
            // Older is earlier.
            match term.op {
                Op::More | Op::MoreOrEqual => Test::Times(None, Some(then)),
                Op::Less | Op::LessOrEqual => Test::Times(Some(then), None),
                Op::Is | Op::Has => {
                    let hint =
                        format!("write {0}:>{1} for older, {0}:<{1} for younger", known.name, value.text);
                    return Err(Error::new(value.at, "an age is compared with").hint(hint));
                }
            }
        }
    })
}

/// The id of a trace, or the `traceparent` that has it.
fn trace(value: &Text) -> Result<Pattern, Error> {
    let id = value.text.split('-').nth(1).unwrap_or(&value.text).to_ascii_lowercase();
    match id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        true => Ok(Pattern::Equal(id)),
        false => Err(Error::new(value.at, "this must be the id of a trace: 32 hexadecimal digits")),
    }
}

fn search(name: &str, term: &Term, value: &Text) -> Result<Test, Error> {
    match term.op {
        Op::Has if value.text.is_empty() => Err(Error::new(value.at, "there is nothing to search for")),
        Op::Has => Ok(Test::Contains(value.text.clone())),
        _ => Err(Error::new(term.at, format!("{name} is searched for a text"))
            .hint(format!("write {name}~{}", value.text))),
    }
}

/// The values of a term that compares nothing.
fn listed(term: &Term) -> Result<&[Text], Error> {
    match term.op {
        Op::Is => Ok(&term.values),
        Op::Has => Err(Error::new(term.at, "only error is searched for a text")),
        _ => Err(Error::new(term.at, "only times, ages and numbers are compared with < and >")),
    }
}

/// How a term that has one value compares.
fn single(term: &Term) -> Result<Op, Error> {
    match (term.op, term.values.get(1)) {
        (Op::Has, _) => Err(Error::new(term.at, "only error is searched for a text")),
        (_, Some(second)) => Err(Error::new(second.at, "only one value may stand here")),
        (op, None) => Ok(op),
    }
}

/// From what to what, of a value that reaches from `low` to just before `high`.
fn range<T>(op: Op, low: T, high: T) -> (Option<T>, Option<T>) {
    match op {
        Op::Is | Op::Has => (Some(low), Some(high)),
        Op::Less => (None, Some(low)),
        Op::LessOrEqual => (None, Some(high)),
        Op::More => (Some(high), None),
        Op::MoreOrEqual => (Some(low), None),
    }
}

fn one_of(words: &[&[&str]], name: &str, value: &Text) -> Result<Pattern, Error> {
    let all = || words.iter().flat_map(|words| words.iter().copied());
    if all().any(|word| word == value.text) {
        return Ok(Pattern::Equal(value.text.clone()));
    }
    let hint = match nearest(&value.text, all()) {
        Some(near) => format!("did you mean {near}?"),
        None => format!("known are {}", all().collect::<Vec<_>>().join(", ")),
    };
    Err(Error::new(value.at, format!("{:?} is no {name}", value.text)).hint(hint))
}

fn pattern(value: &Text) -> Pattern {
    as_pattern(&value.text, value.quoted)
}

fn as_pattern(text: &str, quoted: bool) -> Pattern {
    match text.strip_suffix('*').filter(|_| !quoted) {
        Some(beginning) => Pattern::Prefix(beginning.to_owned()),
        None => Pattern::Equal(text.to_owned()),
    }
}

/// `name`, `namespace/name`, each perhaps with `@version`.
fn definition(value: &Text) -> DefinitionPattern {
    let read = |text: &str| as_pattern(text, value.quoted);
    let (path, version) = match value.text.split_once('@') {
        Some((path, version)) => (path, Some(read(version))),
        None => (value.text.as_str(), None),
    };
    match path.split_once('/') {
        Some((namespace, name)) => {
            DefinitionPattern { namespace: Some(read(namespace)), name: read(name), version }
        }
        None => DefinitionPattern { namespace: None, name: read(path), version },
    }
}

/// The ids that begin so.
fn ids(kind: Kind, value: &Text) -> Result<(Uuid, Uuid), Error> {
    const DIGITS: usize = 32;
    let wrong = || {
        let form = format!("this must be an id or how it begins, such as {}_0192", kind.prefix());
        Error::new(value.at, form)
    };
    let prefixed = value.text.strip_prefix(kind.prefix()).and_then(|rest| rest.strip_prefix('_'));
    let digits = prefixed.unwrap_or(&value.text).trim_end_matches('*').replace('-', "");
    let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !is_hex || digits.is_empty() || digits.len() > DIGITS {
        return Err(wrong());
    }
    let number = u128::from_str_radix(&digits, 16).map_err(|_| wrong())?;
    let open = 4 * (DIGITS - digits.len()) as u32;
    let low = number << open;
    Ok((Uuid::from_u128(low), Uuid::from_u128(low | ((1 << open) - 1))))
}

/// A point in time, or a day: from when to when it reaches.
fn time(value: &Text, now: Time) -> Result<(Time, Time), Error> {
    const DAY: Span = Span::from_secs(86_400);
    let text = value.text.as_str();
    let moment = |time: Time| (time, Time(time.0.saturating_add(1)));
    if text == "now" {
        return Ok(moment(now));
    }
    if let Some(span) = text.strip_prefix('-').and_then(length) {
        return Ok(moment(Time(now.0.saturating_sub(span.0))));
    }
    if let Some(time) = Time::parse_rfc3339(text) {
        return Ok(moment(time));
    }
    if let Some(day) = Time::parse_rfc3339(&format!("{text}T00:00:00Z")) {
        return Ok((day, day.after(DAY)));
    }
    let wrong = Error::new(value.at, "this must be a time: -2h, 2026-01-31, 2026-01-31T12:00:00Z or now");
    Err(match length(text) {
        Some(_) => wrong.hint(format!("a time in the past is -{text}; an age is age:>{text}")),
        None => wrong,
    })
}

/// `90s`, `30m`, `2h`, `7d`, `2w` or `500ms`.
fn length(text: &str) -> Option<Span> {
    let split = text.find(|letter: char| !letter.is_ascii_digit())?;
    let (number, unit) = text.split_at(split);
    let micros = match unit {
        "ms" => 1_000,
        "s" => 1_000_000,
        "m" => 60_000_000,
        "h" => 3_600_000_000,
        "d" => 86_400_000_000,
        "w" => 604_800_000_000,
        _ => return None,
    };
    let span = number.parse::<i64>().ok()?.checked_mul(micros)?;
    (span <= Span::MAX.0).then_some(Span(span))
}
