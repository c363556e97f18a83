//! Tests of the definition language: a document goes in, problems or parts of the IR come out.

mod compile;
pub(crate) mod decompile;
mod format;
mod library;
mod limits;
mod meaning;
mod quality;
mod saga;
mod schedule;
mod shape;
mod source;
mod unsupported;

use super::{Compilation, Format, Problem, compile as compile_text};

/// Two lines that make a list of tasks a document: the first task stands on line 3.
const HEAD: &str = "document: { dsl: 1.0.3, namespace: test, name: tested, version: 1.0.0 }\ndo:\n";

/// A document that does these tasks.
fn tasks(tasks: &str) -> String {
    format!("{HEAD}{}\n", tasks.trim_matches('\n'))
}

fn show(problem: &Problem) -> String {
    let Problem { line, column, pointer, code, message, hint } = problem;
    let hint = hint.as_ref().map(|hint| format!(" => {hint}")).unwrap_or_default();
    format!("{line}:{column} {pointer} {code}: {message}{hint}")
}

fn show_all(problems: &[Problem]) -> String {
    problems.iter().map(show).collect::<Vec<_>>().join("\n")
}

pub(crate) fn yaml(document: &str) -> Compilation {
    let compiled = compile_text(document.as_bytes(), Format::Yaml)
        .unwrap_or_else(|problems| panic!("{}", show_all(&problems)));
    decompile::assert_comes_back(&compiled.workflow);
    format::assert_keeps(document, &compiled.workflow);
    compiled
}

fn same(found: &str, expected: &str) {
    let expected: Vec<&str> = expected.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let expected = expected.join("\n");
    assert!(found == expected, "found:\n{found}\nexpected:\n{expected}\n");
}

/// The document is refused for exactly these reasons.
#[track_caller]
fn refused(document: &str, expected: &str) {
    match compile_text(document.as_bytes(), Format::Yaml) {
        Ok(_) => panic!("the document compiles, but should not"),
        Err(problems) => same(&show_all(&problems), expected),
    }
}

/// The document compiles, with nothing to say about it.
#[track_caller]
fn accepted(document: &str) {
    let compiled = yaml(document);
    same(&show_all(&[compiled.warnings, compiled.unsupported].concat()), "");
    decompile::assert_comes_back(&compiled.workflow);
}

/// The document compiles with exactly these warnings.
#[track_caller]
fn warned(document: &str, expected: &str) {
    same(&show_all(&yaml(document).warnings), expected);
}

/// The document compiles, but uses exactly these things that are not executed.
#[track_caller]
fn not_executed(document: &str, expected: &str) {
    same(&show_all(&yaml(document).unsupported), expected);
}
