//! `[retention]`: how long what has ended is kept.

use crate::verb;
use machine::time::Span;
use runtime::retention::KEYS_MIN;
use serde::{Deserialize, Serialize};

/// Keeps for ever.
const NEVER: &str = "never";
const CENTURY: Span = Span::from_secs(36_500 * 86_400);

/// Lengths such as `30d` or `12h` after which it is deleted, or `never`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Retention {
    /// Completed and cancelled instances.
    pub(crate) ended: String,
    /// Faulted ones, unless a dead letter of theirs is open.
    pub(crate) faulted: String,
    /// Idempotency keys of starts.
    pub(crate) keys: String,
    /// Entries of the audit trail.
    pub(crate) audit: String,
    /// How often to look.
    pub(crate) every: String,
}

impl Default for Retention {
    fn default() -> Retention {
        let runtime::retention::Retention { ended, faulted, keys, every } = Default::default();
        let kept = |span: Option<Span>| span.map_or(NEVER.to_owned(), show);
        let audit = NEVER.to_owned();
        Retention { ended: kept(ended), faulted: kept(faulted), keys: kept(keys), audit, every: show(every) }
    }
}

impl Retention {
    /// What the runtime is told, or every flaw with its name.
    pub(super) fn settings(&self) -> Result<runtime::retention::Retention, Vec<String>> {
        let second = Span::from_secs(1);
        let ended = kept("ended", &self.ended, second);
        let faulted = kept("faulted", &self.faulted, second);
        let keys = kept("keys", &self.keys, KEYS_MIN);
        let every = within("every", &self.every, second);
        match (ended, faulted, keys, every, self.audit()) {
            (Ok(ended), Ok(faulted), Ok(keys), Ok(every), Ok(_)) => {
                Ok(runtime::retention::Retention { ended, faulted, keys, every })
            }
            (ended, faulted, keys, every, audit) => {
                let flaws = [ended.err(), faulted.err(), keys.err(), audit.err(), every.err()];
                Err(flaws.into_iter().flatten().collect())
            }
        }
    }
}

impl Retention {
    /// How long entries of the audit trail are kept.
    pub(super) fn audit(&self) -> Result<Option<Span>, String> {
        kept("audit", &self.audit, Span::from_secs(1))
    }
}

fn kept(name: &str, text: &str, least: Span) -> Result<Option<Span>, String> {
    if text == NEVER {
        return Ok(None);
    }
    within(name, text, least).map(Some)
}

fn within(name: &str, text: &str, least: Span) -> Result<Span, String> {
    let wrong = |why: &str| format!("retention.{name} is {text:?}; {why}");
    // A number alone would be seconds, and somebody means days by it: what that deletes does not come back.
    let has_unit = text.ends_with(|c: char| c.is_ascii_alphabetic());
    let length = verb::duration(text).ok().filter(|_| has_unit);
    let length = length.ok_or_else(|| wrong("it must be a length with its unit, such as 90s, 12h or 30d"))?;
    let span = Span(i64::try_from(length.as_micros()).unwrap_or(i64::MAX));
    match span < least || span > CENTURY {
        true => Err(wrong(&format!("it must be {} to {}", show(least), show(CENTURY)))),
        false => Ok(span),
    }
}

/// The span in the largest unit that holds it exactly.
fn show(span: Span) -> String {
    let seconds = span.0 / 1_000_000;
    let (unit, length) = [("d", 86_400), ("h", 3600), ("m", 60)]
        .into_iter()
        .find(|(_, length)| seconds >= *length && seconds % length == 0)
        .unwrap_or(("s", 1));
    format!("{}{unit}", seconds / length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_those_of_the_runtime() {
        let default = Retention::default();
        assert_eq!(default.settings(), Ok(runtime::retention::Retention::default()));
        assert_eq!(
            [default.ended, default.faulted, default.keys, default.every],
            ["30d", "180d", "7d", "1h"]
        );
    }

    #[test]
    fn what_is_never_deleted_has_no_length() {
        let kept = Retention { ended: "never".to_owned(), keys: "never".to_owned(), ..Retention::default() };
        let settings = kept.settings().unwrap();
        assert_eq!((settings.ended, settings.keys), (None, None));
    }
}
