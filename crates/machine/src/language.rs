//! The definition language: reads a YAML or JSON document, checks it, compiles it to the IR.

use crate::ir;
use serde::Serialize;

/// How the document is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Yaml,
    Json,
}

/// One thing wrong with (or worth a warning in) a document.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Problem {
    /// 1-based.
    pub line: u32,
    /// 1-based.
    pub column: u32,
    /// JSON pointer of the offending node.
    pub pointer: String,
    /// Stable kebab-case word, for example `unknown-key`.
    pub code: &'static str,
    pub message: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// A document that compiled.
#[derive(Clone, Debug)]
pub struct Compilation {
    pub workflow: ir::Workflow,
    pub warnings: Vec<Problem>,
    /// Features the document uses that this engine does not execute; deploying must be refused if not empty.
    pub unsupported: Vec<Problem>,
}

/// Reads, checks and compiles a document. On failure every problem found is reported, in document order.
pub fn compile(_text: &[u8], _format: Format) -> Result<Compilation, Vec<Problem>> {
    Err(vec![])
}
