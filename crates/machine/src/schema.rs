//! JSON Schemas of definitions and forms: compiled once, checked within a bound.
//!
//! [`Schema::new`] refuses what is not a schema, what refers to anything outside itself, and what could not be
//! bounded. [`Schema::check`] first estimates from the schema and the data what checking costs at worst, and
//! refuses data that would cost more than [`COST_MAX`]; so a definition cannot hold a node with its schema.

mod cost;
#[cfg(test)]
mod tests;

use crate::{
    data::Data,
    fault::{Fault, Kind},
};
use serde_json::Value;

/// What checking one value may cost: evaluations of a subschema, about a second at worst.
pub const COST_MAX: u64 = 20_000_000;
/// The most places that are told of data that does not fit.
pub const VIOLATIONS_MAX: usize = 20;
/// How long a message gets: it quotes the data, where anything may stand.
const MESSAGE_CHARS_MAX: usize = 200;
/// The stack that checking needs at most (measured for the deepest data in a debug build, and doubled).
const STACK_BYTES: usize = 2 * 1024 * 1024;
/// The name under which the schema is compiled; nothing else has a name.
const URL: &str = "windlass:///schema.json";

/// A compiled schema.
pub struct Schema {
    schemas: boon::Schemas,
    index: boon::SchemaIndex,
    cost: cost::Cost,
}

// Programs are shared by all threads.
const _: () = {
    const fn is_shared<T: Send + Sync>() {}
    is_shared::<Schema>()
};

/// Data, and what checking it costs at worst.
pub struct Weighed {
    json: Value,
    /// Evaluations of a subschema.
    pub cost: u64,
}

/// Why something is not a usable schema.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SchemaError {
    /// JSON pointer into the schema.
    pub pointer: String,
    pub message: String,
}

/// One place where data does not fit its schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// JSON pointer into the data; empty is the whole.
    pub path: String,
    pub message: String,
}

impl Schema {
    pub fn new(document: &Data) -> Result<Schema, SchemaError> {
        let document = document.to_json();
        let cost = cost::Cost::new(&document)?;
        let mut compiler = boon::Compiler::new();
        compiler.set_default_draft(boon::Draft::V2020_12);
        compiler.enable_format_assertions();
        compiler.use_loader(Box::new(Nowhere));
        let mut schemas = boon::Schemas::new();
        let compile = || {
            compiler.add_resource(URL, document).map_err(compile_error)?;
            compiler.compile(URL, &mut schemas).map_err(compile_error)
        };
        let index = stacker::maybe_grow(STACK_BYTES, 2 * STACK_BYTES, compile)?;
        Ok(Schema { schemas, index, cost })
    }

    /// Where the data does not fit, at most [`VIOLATIONS_MAX`] places.
    pub fn check(&self, data: &Data) -> Result<(), Vec<Violation>> {
        self.check_weighed(&self.weigh(data), COST_MAX)
    }

    /// What checking the data costs at worst.
    pub fn weigh(&self, data: &Data) -> Weighed {
        let json = data.to_json();
        Weighed { cost: self.cost.of(&json), json }
    }

    /// The same as [`Schema::check`], within another bound.
    pub fn check_weighed(&self, weighed: &Weighed, cost_max: u64) -> Result<(), Vec<Violation>> {
        let Weighed { cost, json } = weighed;
        if *cost > cost_max {
            let message = "is too large or too deep to be checked against its schema".to_owned();
            return Err(vec![Violation { path: String::new(), message }]);
        }
        let check = || match self.schemas.validate(json, self.index) {
            Ok(()) => Ok(()),
            Err(error) => {
                let mut violations = Vec::new();
                collect(&error, &mut violations);
                Err(violations)
            }
        };
        stacker::maybe_grow(STACK_BYTES, 2 * STACK_BYTES, check)
    }
}

/// The fault of data that does not fit; `what` names the data.
pub fn fault(what: &str, violations: &[Violation]) -> Fault {
    let places: Vec<String> = violations.iter().map(Violation::to_string).collect();
    Fault::new(Kind::Validation, format!("{what} does not fit its schema: {}", places.join("; ")))
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.path.as_str() {
            "" => write!(f, "it {}", self.message),
            path => write!(f, "{path} {}", self.message),
        }
    }
}

/// Schemas load nothing.
struct Nowhere;

impl boon::UrlLoader for Nowhere {
    fn load(&self, _: &str) -> Result<Value, Box<dyn std::error::Error>> {
        Err("schemas cannot refer to other documents".into())
    }
}

/// The places at the ends of the tree of errors.
fn collect(error: &boon::ValidationError<'_, '_>, into: &mut Vec<Violation>) {
    if into.len() >= VIOLATIONS_MAX {
        return;
    }
    if error.causes.is_empty() {
        let violation = Violation { path: error.instance_location.to_string(), message: message(error) };
        if !into.contains(&violation) {
            into.push(violation);
        }
    }
    error.causes.iter().for_each(|cause| collect(cause, into));
}

fn message(error: &boon::ValidationError<'_, '_>) -> String {
    let text = match &error.kind {
        boon::ErrorKind::Type { got, want } => {
            let want: Vec<String> = want.iter().map(|kind| kind.to_string()).collect();
            format!("must be {}, but is {got}", want.join(" or "))
        }
        boon::ErrorKind::Required { want } => format!("lacks {}", want.join(", ")),
        boon::ErrorKind::AdditionalProperties { got } => format!("has unknown members: {}", got.join(", ")),
        boon::ErrorKind::FalseSchema => "is not allowed".to_owned(),
        other => other.to_string(),
    };
    match text.char_indices().nth(MESSAGE_CHARS_MAX) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

fn compile_error(error: boon::CompileError) -> SchemaError {
    let within = |url: &str| url.split_once('#').map(|(_, pointer)| pointer.to_owned()).unwrap_or_default();
    match &error {
        boon::CompileError::ValidationError { src, .. } => {
            let mut places = Vec::new();
            collect(src, &mut places);
            let first = places.into_iter().next();
            let Violation { path, message } =
                first.unwrap_or(Violation { path: String::new(), message: error.to_string() });
            SchemaError { pointer: path, message }
        }
        boon::CompileError::InvalidRegex { url, regex, .. } => {
            SchemaError { pointer: within(url), message: format!("`{regex}` is not a regular expression") }
        }
        boon::CompileError::UnsupportedDraft { url } => {
            SchemaError { pointer: String::new(), message: format!("the draft `{url}` is not known") }
        }
        other => SchemaError { pointer: String::new(), message: other.to_string().replace(URL, "") },
    }
}
