//! Expressions: jq, compiled once per definition version.
//!
//! [`Compiled::new`] parses, checks every name and compiles; the check also decides whether the expression is
//! *bounded*. Bounded expressions are evaluated in process by [`Compiled::eval`]; all others, and those that turn out
//! to take milliseconds, are handed out as an [`Evaluation`] for a killable sandbox process, which calls [`Evaluation::run`].
//!
//! Both ways are metered (`meter.rs`): time and memory of an evaluation have a limit that does not depend on a
//! clock, so the same expression with the same data always ends the same way. Expressions see their input and
//! arguments and nothing else: no environment, no clock, no other inputs.

mod access;
mod check;
mod compile;
mod library;
mod meter;
mod natives;
mod order;
mod output;
mod regex;
mod rewrite;
mod secrets;
mod shortcut;
#[cfg(test)]
mod tests;
mod tree;
mod value;

use crate::{
    data::Data,
    fault::{Fault, Kind},
};
use jaq_core::{Ctx, Vars};
use jaq_json::Val;
use serde::{Deserialize, Serialize};
use std::panic::{AssertUnwindSafe, catch_unwind};
use value::Value;

pub(crate) use compile::members;

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
    /// The secrets it names, each as a path of keys.
    pub secrets: Vec<Vec<String>>,
    parts: compile::Parts,
}

// Programs are shared by all threads.
const _: () = {
    const fn is_shared<T: Send + Sync>() {}
    is_shared::<Compiled>()
};

/// What an evaluation may spend in process: 1 to 8 ms of work (measured, optimised). What needs more is evaluated
/// outside, where it holds up nobody.
const FUEL_IN_PROCESS: u64 = 60_000;
/// What it may spend in a sandbox process.
const FUEL_IN_SANDBOX: u64 = 5_000_000;
/// Stack an evaluation may need per level of its expression, and at least.
const STACK_PER_LEVEL: usize = 4 * 1024;
const STACK_MIN: usize = 768 * 1024;

impl Compiled {
    /// Compiles `source`, in which [`ARGUMENTS`] and `locals` are known as variables.
    pub fn new(source: &str, locals: &[String]) -> Result<Compiled, CompileError> {
        let globals: Vec<&str> = ARGUMENTS.into_iter().chain(locals.iter().map(String::as_str)).collect();
        let mut parts = compile::compile(source, &globals)?;
        Ok(Compiled {
            source: source.to_owned(),
            local_names: locals.to_vec(),
            bounded: parts.bounded,
            uses: std::array::from_fn(|i| parts.globals.contains(&i)),
            secrets: std::mem::take(&mut parts.secrets),
            parts,
        })
    }

    /// True if it names neither arguments nor locals: its value depends on its input alone.
    pub fn is_closed(&self) -> bool {
        self.parts.globals.is_empty()
    }

    /// Evaluates in process: no output is null, one is itself, several are an array. `None` if that takes too long
    /// here: it must be done outside. Whether it does is always the same for the same data.
    pub fn eval(&self, input: &Data, args: &Args) -> Option<Result<Data, Fault>> {
        self.eval_spending(input, args, &mut u64::MAX.clone())
    }

    /// The same, taking what it cost from `budget`; it may go below zero once, which counts as zero.
    pub fn eval_spending(&self, input: &Data, args: &Args, budget: &mut u64) -> Option<Result<Data, Fault>> {
        if let Some(shortcut) = &self.parts.shortcut
            && let Some(result) = shortcut.eval(input, |i| args.get(i))
        {
            return Some(Ok(result));
        }
        let (result, stopped) = self.interpret(input, args, FUEL_IN_PROCESS);
        *budget = budget.saturating_sub(meter::spent(FUEL_IN_PROCESS));
        (stopped != Some(meter::Stop::Work)).then_some(result)
    }

    fn interpret(&self, input: &Data, args: &Args, fuel: u64) -> (Result<Data, Fault>, Option<meter::Stop>) {
        let stack = STACK_MIN + self.parts.depth * STACK_PER_LEVEL;
        let run = || stacker::maybe_grow(stack, 2 * stack, || self.outputs(input, args));
        // The engine has a few arithmetic corners that panic; they must cost one evaluation, not the thread.
        let (outputs, stopped) = meter::with_fuel(fuel, || catch_unwind(AssertUnwindSafe(run)));
        let result = match (stopped, outputs) {
            (Some(reason), _) => Err(fault(reason.message())),
            (None, Ok(outputs)) => outputs.and_then(output::finish),
            (None, Err(_)) => Err(fault("the expression engine cannot compute this")),
        };
        (result, stopped)
    }

    fn outputs(&self, input: &Data, args: &Args) -> Result<Vec<Val>, Fault> {
        let value = |data: &Data| Value::new(data.0.clone(), value::DEPTH_IN);
        let filter = &self.parts.filter;
        let vars = Vars::new(self.parts.globals.iter().map(|i| value(args.get(*i))));
        let context = Ctx::<natives::Engine>::new(&filter.lut, vars);
        let mut outputs = Vec::new();
        for output in filter.id.run((context, value(input))) {
            match output {
                Ok(output) => outputs.push(output.val),
                Err(exception) => return Err(fault(&message(exception))),
            }
            if outputs.len() > output::OUTPUTS_MAX {
                return Err(fault(&format!("the expression has more than {} outputs", output::OUTPUTS_MAX)));
            }
        }
        Ok(outputs)
    }
}

impl Args {
    /// The value at a position: arguments first, then locals.
    fn get(&self, position: usize) -> &Data {
        const NULL: &Data = &Data::NULL;
        match self.fixed.get(position) {
            Some(data) => data,
            None => self.locals.get(position - self.fixed.len()).unwrap_or(NULL),
        }
    }
}

/// What the evaluations on this thread have spent since the last time this was asked; 60,000 are some milliseconds.
pub fn take_spent() -> u64 {
    meter::take_total()
}

impl Evaluation {
    /// Evaluates without the static bound; only ever called inside a sandbox process.
    pub fn run(&self) -> Result<Data, Fault> {
        let compiled =
            Compiled::new(&self.source, &self.local_names).map_err(|error| fault(&error.message))?;
        compiled.interpret(&self.input, &self.args, FUEL_IN_SANDBOX).0
    }
}

fn fault(detail: &str) -> Fault {
    Fault::new(Kind::Expression, detail)
}

/// The text of an uncaught error. Halting is only ever ours, and comes with a stop of the meter.
fn message(exception: jaq_core::Exn<'_, Value>) -> String {
    match exception.get_err() {
        Ok(error) => error_text(error),
        Err(_) => "the expression was stopped".to_owned(),
    }
}

/// `error("x")` is just x; an error that is an object shows as JSON.
fn error_text(error: jaq_core::Error<Value>) -> String {
    const BYTES_MAX: usize = 1000;
    let value = error.into_val();
    let text = match &value.val {
        Val::TStr(text) => String::from_utf8_lossy(text).into_owned(),
        _ => value.to_string(),
    };
    match text.char_indices().nth(BYTES_MAX) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}
