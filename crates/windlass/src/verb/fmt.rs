//! `windlass def fmt`: lays documents out. Works without an engine.

use super::Context;
use crate::{
    failure::{Exit, Failure, Flaw, flaw_lines},
    out::Out,
};
use machine::language::{self, Format, Problem};
use std::{
    io::Read,
    path::{Path, PathBuf},
};

#[derive(clap::Args)]
#[command(after_long_help = "Examples:\n  \
    windlass def fmt my-flow.yaml\n  \
    windlass def fmt --check flows/*.yaml\n  \
    cat my-flow.yaml | windlass def fmt -")]
pub(crate) struct Args {
    /// YAML or JSON documents, written in place; - reads stdin and writes stdout
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Write nothing; exit code 1 if a document would change
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let mut failed = false;
    for file in &args.files {
        failed |= match file.as_os_str() == "-" {
            true => stdin(args.check, &context.out)?,
            false => in_place(file, args.check, &context.out)?,
        };
    }
    if failed { Err(Failure::silent(Exit::Failed)) } else { Ok(()) }
}

/// Answers true if the document is not as it should be.
fn stdin(check: bool, out: &Out) -> Result<bool, Failure> {
    let mut text = Vec::new();
    std::io::stdin().read_to_end(&mut text)?;
    let is_json = text.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{');
    match language::format(&text, if is_json { Format::Json } else { Format::Yaml }) {
        Err(problems) => Ok(told(&problems, "-", out)),
        Ok(formatted) if check => Ok(formatted.as_bytes() != text),
        Ok(formatted) => out.data(formatted.as_bytes()).map(|()| false),
    }
}

fn in_place(file: &Path, check: bool, out: &Out) -> Result<bool, Failure> {
    let shown = file.display().to_string();
    let text =
        std::fs::read(file).map_err(|error| Failure::usage(format!("cannot read {shown}: {error}")))?;
    match language::format(&text, format_of(file)) {
        Err(problems) => Ok(told(&problems, &shown, out)),
        Ok(formatted) if formatted.as_bytes() == text => Ok(false),
        Ok(_) if check => {
            out.line(&format!("{shown}\twould change"))?;
            Ok(true)
        }
        Ok(formatted) => {
            std::fs::write(file, formatted)
                .map_err(|error| Failure::failed(format!("cannot write {shown}: {error}")))?;
            out.line(&format!("{shown}\tformatted")).map(|()| false)
        }
    }
}

fn told(problems: &[Problem], file: &str, out: &Out) -> bool {
    let flaws: Vec<Flaw> = problems.iter().map(flaw).collect();
    flaw_lines(&flaws, Some(file)).iter().for_each(|line| out.note(line));
    true
}

pub(crate) fn flaw(problem: &Problem) -> Flaw {
    Flaw {
        pointer: problem.pointer.clone(),
        message: problem.message.clone(),
        line: Some(problem.line),
        column: Some(problem.column),
        hint: problem.hint.clone(),
    }
}

/// JSON by its name, YAML otherwise.
pub(crate) fn format_of(file: &Path) -> Format {
    match file.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json")) {
        true => Format::Json,
        false => Format::Yaml,
    }
}
