//! The definition language: reads a YAML or JSON document, checks it, compiles it to the IR.
//!
//! Three passes, each reporting everything it finds: `source` reads the text into a tree that knows its
//! positions, `shape` holds it against the upstream schema, `lower` resolves names and expressions and builds
//! the IR. [`compile`] is the way in; [`decompile()`] is the way
//! back, written by [`yaml`]. Nothing here executes anything or reads anything but its argument.

mod codes;
mod decompile;
mod format;
mod library;
mod lower;
mod names;
mod report;
mod shape;
mod source;
#[cfg(test)]
pub(crate) mod tests;
pub mod yaml;

pub use codes::CODES;
pub(crate) use decompile::own;
pub use decompile::{decompile, document, schedule};
pub use format::format;
pub use library::{Library, Wanted};

use crate::ir;
pub use names::{is_label, nearest};
use report::Report;
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
    /// Where the document has scripts; deploying must be refused with these unless the operator allows scripts.
    pub scripts: Vec<Problem>,
    /// Documents elsewhere that were not in the library; deploying must be refused if not empty.
    pub wanted: Vec<Wanted>,
}

/// Reads any YAML or JSON document as data, within the limits of a definition. Keys that are numbers or booleans
/// in YAML (`200:`) are taken as written.
pub fn data(text: &[u8], format: Format) -> Result<crate::Data, Problem> {
    Ok(source::read_any(text, format)?.root().to_data())
}

/// Reads, checks and compiles a document. On failure every problem found is reported, in document order.
pub fn compile(text: &[u8], format: Format) -> Result<Compilation, Vec<Problem>> {
    compile_with(text, format, &Library::default())
}

/// The same, with the documents it refers to.
pub fn compile_with(text: &[u8], format: Format, library: &Library) -> Result<Compilation, Vec<Problem>> {
    let mut report = Report::default();
    let tree = match source::read(text, format, &mut report) {
        Ok(tree) => tree,
        Err(problem) => {
            report.error(problem);
            return Err(report.into_errors());
        }
    };
    let library = library.trees(&mut report);
    shape::check(tree.root(), &mut report);
    let workflow = lower::workflow(tree.root(), &library, &mut report);
    report.finish(workflow)
}
