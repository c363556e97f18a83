//! How a hint is written: `mark letters id,id,…`, with q for queues, c for clocks, o for the outbox, m for many ended.

use super::{Ended, Hint};
use std::{collections::hash_map::RandomState, hash::BuildHasher};
use uuid::Uuid;

/// Words that were heard.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// This relay's own, come back.
    Own,
    Of(Hint),
}

/// Some word that no other relay has.
pub(super) fn mark() -> String {
    let word = || RandomState::new().hash_one(0);
    format!("{:016x}{:016x}", word(), word())
}

pub(super) fn write(hint: &Hint, mark: &str) -> String {
    let mut text = format!("{mark} ");
    let many = hint.ended == Ended::Many;
    for (is_set, letter) in [(hint.queues, 'q'), (hint.clocks, 'c'), (hint.outbox, 'o'), (many, 'm')] {
        text.extend(is_set.then_some(letter));
    }
    text.push(' ');
    if let Ended::These(ids) = &hint.ended {
        text += &ids.iter().map(|id| id.simple().to_string()).collect::<Vec<_>>().join(",");
    }
    text
}

/// Another program's words are as good as a hint of everything.
pub(super) fn read(words: &[u8], mark: &str) -> Heard {
    let parts = str::from_utf8(words).ok().map(|text| text.split(' ').collect::<Vec<_>>());
    let Some([from, letters, ids]) = parts.as_deref() else { return Heard::Of(Hint::everything()) };
    if *from == mark {
        return Heard::Own;
    }
    let ids = ids.split(',').filter_map(|id| Uuid::parse_str(id).ok());
    let ended = if letters.contains('m') { Ended::Many } else { Ended::These(ids.collect()) };
    let has = |letter: char| letters.contains(letter);
    Heard::Of(Hint { queues: has('q'), clocks: has('c'), outbox: has('o'), ended })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hint::NAMED_MAX;

    #[test]
    fn a_hint_is_read_as_it_was_written_except_by_its_writer() {
        let mut hint = Hint::queues();
        hint.merge(Hint::ended(Uuid::from_u128(5)));
        hint.merge(Hint::ended(Uuid::from_u128(6)));
        let clocks = Hint { clocks: true, ..Hint::default() };
        for hint in [hint, Hint::queues(), Hint::everything(), clocks, Hint::default()] {
            let text = write(&hint, "me");
            assert_eq!(read(text.as_bytes(), "you"), Heard::Of(hint));
            assert_eq!(read(text.as_bytes(), "me"), Heard::Own);
        }
        for garbage in [&b"nonsense"[..], b"a b c d", b"", b"\xff\xfe q "] {
            assert_eq!(read(garbage, "me"), Heard::Of(Hint::everything()), "{garbage:?}");
        }
    }

    #[test]
    fn the_longest_hint_fits_a_notification() {
        let mut hint = Hint::everything();
        hint.ended = Ended::default();
        for number in 0..NAMED_MAX as u128 {
            hint.merge(Hint::ended(Uuid::from_u128(u128::MAX - number)));
        }
        assert!(write(&hint, &Uuid::max().simple().to_string()).len() < 8_000);
    }
}
