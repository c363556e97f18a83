//! `cargo xtask tidy`: the rules of STYLE.md that a tool can check.
//!
//! The way in: [`RULES`] is the list; each rule is one function in one file, from the [`Tree`] to [`Finding`]s, with
//! its own tests on snippets. [`allow`] lifts findings by lines that carry a reason.

mod allow;
mod blobs;
mod dependencies;
mod deploy;
mod docs;
mod edges;
mod errors;
mod headers;
mod length;
mod lexer;
mod paths;
mod purity;
mod sql;
mod statements;
mod todo;
mod tree;
mod words;

use anyhow::Result;
use clap::Args;
use std::process::ExitCode;
use tree::Tree;

#[derive(Args)]
pub(crate) struct Options {
    /// Print the rules and stop
    #[arg(long)]
    list: bool,
}

/// One thing that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    path: String,
    /// 1-based; 0 if the finding is about the whole file.
    line: usize,
    /// What in the file it is about (a function, a word); an allow-list line may name it.
    item: String,
    message: String,
}

impl Finding {
    fn new(path: &str, line: usize, item: &str, message: impl Into<String>) -> Finding {
        Finding { path: path.into(), line, item: item.into(), message: message.into() }
    }
}

struct Rule {
    name: &'static str,
    about: &'static str,
    check: fn(&Tree) -> Vec<Finding>,
}

const RULES: &[Rule] = &[
    Rule { name: "edges", about: "crates depend on each other only one way", check: edges::check },
    Rule { name: "purity", about: "machine names no clock, randomness, tokio, files", check: purity::check },
    Rule { name: "sql", about: "SQL is written only in crates/store", check: sql::check },
    Rule { name: "headers", about: "every .rs file opens with //!", check: headers::check },
    Rule { name: "words", about: "one word per idea: no banned synonyms", check: words::check },
    Rule { name: "length", about: "files up to 600 lines, functions up to 70", check: length::check },
    Rule { name: "todo", about: "no reminder without an issue number", check: todo::check },
    Rule { name: "errors", about: "every error code has a section in docs/errors.md", check: errors::check },
    Rule { name: "statements", about: "every .sql file is used", check: statements::check },
    Rule { name: "blobs", about: "no file above 256 kB", check: blobs::check },
    Rule { name: "dependencies", about: "every dependency has its reason", check: dependencies::check },
    Rule { name: "paths", about: "no path or registry of one machine", check: paths::check },
    Rule { name: "deploy", about: "files of deploy/ name only what is there", check: deploy::check },
    Rule { name: "docs", about: "pages within their limits, links that lead somewhere", check: docs::check },
];

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    if options.list {
        for rule in RULES {
            println!("{:<13} {}", rule.name, rule.about);
        }
        return Ok(ExitCode::SUCCESS);
    }
    Ok(if check_and_print()? { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Checks the tree and prints what it found; true if it is tidy.
pub(crate) fn check_and_print() -> Result<bool> {
    let tree = Tree::load()?;
    let findings = check(&tree);
    for (rule, Finding { path, line, message, .. }) in &findings {
        match line {
            0 => println!("{path}: {rule}: {message}"),
            _ => println!("{path}:{line}: {rule}: {message}"),
        }
    }
    let (rules, files) = (RULES.len(), tree.files.len());
    match findings.len() {
        0 => println!("tidy: {rules} rules hold over {files} files"),
        count => println!("tidy: {count} findings in {files} files"),
    }
    Ok(findings.is_empty())
}

/// All findings that no line of the allow-list lifts, and the lines of the list that lift nothing.
fn check(tree: &Tree) -> Vec<(&'static str, Finding)> {
    let mut list = allow::List::read(tree);
    let mut findings = Vec::new();
    for rule in RULES {
        let mut found = (rule.check)(tree);
        found.sort();
        let kept = found.into_iter().filter(|finding| !list.lifts(rule.name, finding));
        findings.extend(kept.map(|finding| (rule.name, finding)));
    }
    findings.extend(list.complaints().into_iter().map(|finding| ("allow", finding)));
    findings
}
