//! Collects problems while a document is read, checked and compiled.
//!
//! [`Report`] keeps errors, warnings and unsupported features apart, in document order, each once, and never
//! more than [`PROBLEMS_MAX`] of each: a document can be wrong in a million places.

use super::{Compilation, Problem, Wanted, codes};
use crate::ir;

/// How long a message or hint gets: they quote the document, where anything may stand.
const MESSAGE_CHARS_MAX: usize = 400;
/// How many problems of one sort are reported for one document.
pub(crate) const PROBLEMS_MAX: usize = 100;

#[derive(Default)]
pub(crate) struct Report {
    errors: Vec<Problem>,
    warnings: Vec<Problem>,
    unsupported: Vec<Problem>,
    scripts: Vec<Problem>,
    wanted: Vec<Wanted>,
}

/// Where in the document something is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Place {
    pub line: u32,
    pub column: u32,
    pub pointer: String,
}

impl Problem {
    /// Something wrong with data instead of a document: it has a pointer, but no line.
    pub fn of_data(pointer: String, message: String) -> Problem {
        Problem { line: 0, column: 0, pointer, code: "schema", message: readable(&message), hint: None }
    }

    pub(crate) fn new(place: Place, code: &'static str, message: impl Into<String>) -> Problem {
        debug_assert!(codes::is_known(code), "{code} is not among the codes");
        let Place { line, column, pointer } = place;
        Problem { line, column, pointer, code, message: readable(&message.into()), hint: None }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Problem {
        self.hint = Some(readable(&hint.into()));
        self
    }

    /// Adds the hint if there is one.
    pub(crate) fn maybe_hint(self, hint: Option<String>) -> Problem {
        match hint {
            Some(hint) => self.hint(hint),
            None => self,
        }
    }
}

impl Report {
    /// The document cannot be accepted.
    pub(crate) fn error(&mut self, problem: Problem) {
        push(&mut self.errors, problem);
    }

    /// The document means something else than it seems to.
    pub(crate) fn warn(&mut self, problem: Problem) {
        push(&mut self.warnings, problem);
    }

    /// The document is right, but this engine does not execute `what`.
    pub(crate) fn unsupported(&mut self, place: Place, what: &str) {
        let problem = Problem::new(place, "unsupported", format!("this engine does not support {what} yet"));
        push(&mut self.unsupported, problem);
    }

    /// The document is right, but this engine does not do that for tenants; no setting changes it.
    pub(crate) fn refused(&mut self, place: Place, message: &str, hint: &str) {
        let problem = Problem::new(place, "configuration", message).hint(hint);
        push(&mut self.unsupported, problem);
    }

    /// The document has a script, which the operator may not allow.
    pub(crate) fn script(&mut self, place: Place) {
        let problem =
            Problem::new(place, "configuration", "the operator of this engine does not allow scripts").hint(
                "do it in an expression or a worker, or have scripts allowed: `[scripts] allow = true`",
            );
        push(&mut self.scripts, problem);
    }

    /// The document refers to another one, which has not been fetched.
    pub(crate) fn wanted(&mut self, wanted: Wanted) {
        if self.wanted.len() < PROBLEMS_MAX && !self.wanted.iter().any(|known| known.url == wanted.url) {
            self.wanted.push(wanted);
        }
    }

    /// True if further errors would not be told: there is no point in looking for their remedies.
    pub(crate) fn is_full(&self) -> bool {
        self.errors.len() >= PROBLEMS_MAX
    }

    /// What is not executed is told along with what is wrong, so that nobody has to come back for it.
    pub(crate) fn into_errors(mut self) -> Vec<Problem> {
        self.errors.append(&mut self.unsupported);
        in_order(self.errors)
    }

    /// The compilation, unless there were errors.
    pub(crate) fn finish(self, workflow: ir::Workflow) -> Result<Compilation, Vec<Problem>> {
        if !self.errors.is_empty() {
            return Err(self.into_errors());
        }
        let (warnings, unsupported) = (in_order(self.warnings), in_order(self.unsupported));
        let (scripts, wanted) = (in_order(self.scripts), self.wanted);
        Ok(Compilation { workflow, warnings, unsupported, scripts, wanted })
    }
}

/// The text on one line, and not longer than a person reads.
fn readable(text: &str) -> String {
    let line = text.chars().map(|character| if character.is_control() { ' ' } else { character });
    let mut line: String = line.take(MESSAGE_CHARS_MAX + 1).collect();
    if let Some((end, _)) = line.char_indices().nth(MESSAGE_CHARS_MAX) {
        line.truncate(end);
        line += "...";
    }
    line
}

/// A definition that is inlined in several places is checked in each; its problems are told once.
fn push(problems: &mut Vec<Problem>, problem: Problem) {
    if problems.len() < PROBLEMS_MAX && !problems.contains(&problem) {
        problems.push(problem);
    }
}

fn in_order(mut problems: Vec<Problem>) -> Vec<Problem> {
    problems.sort_by_key(|problem| (problem.line, problem.column));
    problems
}
