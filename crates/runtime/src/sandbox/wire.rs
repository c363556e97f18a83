//! What passes between a node and its evaluators: JSON texts, each behind its length as four bytes.
//!
//! The first text to an evaluator is [`Limits`]; then evaluations and [`Answer`]s alternate.

use machine::{Data, Fault, Time, command::ScriptRequest, expr::Evaluation};
use serde::{Deserialize, Serialize};
use std::io::{self, Read, Write};

/// What an evaluator holds itself to.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Limits {
    pub(super) memory_max_bytes: u64,
    pub(super) deadline_ms: u64,
    pub(super) evaluations_max: u32,
}

/// What an evaluator is asked.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Request {
    Expression(Evaluation),
    Script(ScriptCall),
}

/// A script with what makes every attempt of the call the same.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ScriptCall {
    pub request: ScriptRequest,
    /// The call's key: chance is drawn from it.
    pub key: String,
    /// The time the script sees.
    pub now: Time,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Answer {
    Ok(Data),
    Fault(Fault),
}

impl From<Result<Data, Fault>> for Answer {
    fn from(result: Result<Data, Fault>) -> Answer {
        result.map_or_else(Answer::Fault, Answer::Ok)
    }
}

impl From<Answer> for Result<Data, Fault> {
    fn from(answer: Answer) -> Self {
        match answer {
            Answer::Ok(data) => Ok(data),
            Answer::Fault(fault) => Err(fault),
        }
    }
}

/// `text` behind its length.
pub(super) fn frame(text: &[u8]) -> io::Result<Vec<u8>> {
    let length = u32::try_from(text.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    Ok([&length.to_le_bytes(), text].concat())
}

pub(super) fn write(to: &mut impl Write, text: &[u8]) -> io::Result<()> {
    to.write_all(&frame(text)?)?;
    to.flush()
}

/// The next text; nothing at the end of the stream.
pub(super) fn read(from: &mut impl Read) -> io::Result<Option<Vec<u8>>> {
    let mut length = [0; 4];
    match from.read_exact(&mut length) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    }
    let mut text = Vec::new();
    from.take(u64::from(u32::from_le_bytes(length))).read_to_end(&mut text)?;
    Ok(Some(text))
}
