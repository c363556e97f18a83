//! Expressions: jq, compiled once per definition version.
//!
//! [`Compiled::new`] parses and compiles; a static check decides whether the expression is *bounded*. Bounded
//! expressions are evaluated in process by [`Compiled::eval`]; all others are handed out as an [`Evaluation`]
//! for a killable sandbox process, which calls [`Evaluation::run`].

use crate::{data::Data, fault::Fault};
use serde::{Deserialize, Serialize};

/// The arguments every expression may name, in this order, followed by the locals of its place.
pub const ARGUMENTS: [&str; 8] =
    ["context", "input", "output", "secrets", "authorization", "task", "workflow", "runtime"];

/// An expression that does not compile.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct CompileError {
    pub message: String,
    /// Byte offset into the source, when known.
    pub offset: usize,
}

/// Values for the arguments and locals of one evaluation.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Args {
    /// By position in [`ARGUMENTS`]; an argument the expression does not use may be null.
    pub fixed: [Data; 8],
    pub locals: Vec<Data>,
}

/// One evaluation to be done outside this process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Evaluation {
    pub source: String,
    pub local_names: Vec<String>,
    pub input: Data,
    pub args: Args,
}

/// A compiled expression.
pub struct Compiled {
    pub source: String,
    pub local_names: Vec<String>,
    /// True if the static check bounded its time and memory.
    pub bounded: bool,
    /// Which of [`ARGUMENTS`] it mentions.
    pub uses: [bool; 8],
}

impl Compiled {
    pub fn new(_source: &str, _locals: &[String]) -> Result<Compiled, CompileError> {
        Err(CompileError { message: "expressions are being built".into(), offset: 0 })
    }

    /// Evaluates in process: no output is null, one is itself, several are an array.
    pub fn eval(&self, _input: &Data, _args: &Args) -> Result<Data, Fault> {
        Ok(Data::NULL)
    }
}

impl Evaluation {
    /// Evaluates without the static bound; only ever called inside a sandbox process.
    pub fn run(&self) -> Result<Data, Fault> {
        Ok(Data::NULL)
    }
}
