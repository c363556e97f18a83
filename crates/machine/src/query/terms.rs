//! Cuts a query into its terms: `field:value`, `field:a,b`, `field:>value`, `field~text`, words, each perhaps after a `-`.

use super::{Error, VALUES_MAX};
use std::{iter::Peekable, str::Chars};

/// How the value follows the field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    /// `:`
    Is,
    /// `~`
    Has,
    Less,
    LessOrEqual,
    More,
    MoreOrEqual,
}

/// A value and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Text {
    pub(super) at: usize,
    pub(super) text: String,
    /// What stands in quotes is meant as it is.
    pub(super) quoted: bool,
}

/// One term.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Term {
    pub(super) at: usize,
    pub(super) not: bool,
    /// None for a bare word.
    pub(super) field: Option<String>,
    pub(super) op: Op,
    pub(super) values: Vec<Text>,
}

/// Reads all terms.
pub(super) fn read(query: &str) -> Result<Vec<Term>, Error> {
    let mut reader = Reader { letters: query.chars().peekable(), at: 1 };
    let mut terms = Vec::new();
    loop {
        while reader.next_if(char::is_whitespace).is_some() {}
        if reader.peek().is_none() {
            return Ok(terms);
        }
        terms.push(reader.term()?);
    }
}

struct Reader<'a> {
    letters: Peekable<Chars<'a>>,
    /// Position of the next letter, from 1.
    at: usize,
}

fn is_name(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, '_' | '.' | '-')
}

impl Reader<'_> {
    fn peek(&mut self) -> Option<char> {
        self.letters.peek().copied()
    }

    fn next_if(&mut self, is_wanted: impl Fn(char) -> bool) -> Option<char> {
        let next = self.letters.next_if(|letter| is_wanted(*letter))?;
        self.at += 1;
        Some(next)
    }

    fn term(&mut self) -> Result<Term, Error> {
        let at = self.at;
        let not = self.next_if(|letter| letter == '-').is_some();
        if self.peek() == Some('"') {
            let values = vec![self.value()?];
            return Ok(Term { at, not, field: None, op: Op::Is, values });
        }
        let named_at = self.at;
        let mut name = String::new();
        while let Some(letter) = self.next_if(is_name) {
            name.push(letter);
        }
        let Some(op) = self.op() else {
            // No field: all up to the next space is a word.
            while let Some(letter) = self.next_if(|letter| !letter.is_whitespace()) {
                name.push(letter);
            }
            if name.is_empty() {
                return Err(Error::new(at, "a word or field:value is missing here"));
            }
            let values = vec![Text { at: named_at, text: name, quoted: false }];
            return Ok(Term { at, not, field: None, op: Op::Is, values });
        };
        if name.is_empty() {
            return Err(Error::new(named_at, "the name of a field is missing before this"));
        }
        let mut values = vec![self.value()?];
        while self.next_if(|letter| letter == ',').is_some() {
            if values.len() == VALUES_MAX {
                return Err(Error::new(self.at, format!("a term lists at most {VALUES_MAX} values")));
            }
            values.push(self.value()?);
        }
        if let (true, Some(second)) = (op != Op::Is, values.get(1)) {
            return Err(Error::new(second.at, "only one value can be compared with"));
        }
        Ok(Term { at, not, field: Some(name), op, values })
    }

    /// `:`, `:>`, `>`, and so on.
    fn op(&mut self) -> Option<Op> {
        if self.next_if(|letter| letter == '~').is_some() {
            return Some(Op::Has);
        }
        let is_plain = self.next_if(|letter| letter == ':').is_some();
        let Some(sign) = self.next_if(|letter| matches!(letter, '<' | '>')) else {
            return is_plain.then_some(Op::Is);
        };
        let or_equal = self.next_if(|letter| letter == '=').is_some();
        Some(match (sign, or_equal) {
            ('<', false) => Op::Less,
            ('<', true) => Op::LessOrEqual,
            (_, false) => Op::More,
            (_, true) => Op::MoreOrEqual,
        })
    }

    fn value(&mut self) -> Result<Text, Error> {
        let at = self.at;
        let mut text = String::new();
        if self.next_if(|letter| letter == '"').is_none() {
            while let Some(letter) = self.next_if(|letter| !letter.is_whitespace() && letter != ',') {
                text.push(letter);
            }
            return match text.is_empty() {
                true => Err(Error::new(at, "a value is missing here").hint("an empty text is written \"\"")),
                false => Ok(Text { at, text, quoted: false }),
            };
        }
        loop {
            match self.next_if(|_| true) {
                Some('"') => return Ok(Text { at, text, quoted: true }),
                Some('\\') => match self.next_if(|letter| matches!(letter, '"' | '\\')) {
                    Some(letter) => text.push(letter),
                    None => return Err(Error::new(self.at, "in quotes, \\ stands before \" or \\ only")),
                },
                Some(letter) => text.push(letter),
                None => return Err(Error::new(at, "the quotes that begin here do not end")),
            }
        }
    }
}
