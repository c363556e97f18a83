//! `machine` decides and does nothing else: its product code names no clock, randomness, tokio, files, network or
//! environment, and its manifest has no dependency that would bring them.
//!
//! Test code is free to read files. SQL is the business of [`super::sql`].

use super::{
    Finding, Tree, edges,
    lexer::{Kind, Token},
};

const CRATE: &str = "machine";

/// Names that mean the outside world wherever they stand. Files come from `std::fs`, which is found below.
const NAMES: &[&str] = &[
    "SystemTime",
    "Instant",
    "tokio",
    "rand",
    "getrandom",
    "fastrand",
    "reqwest",
    "hyper",
    "rusqlite",
    "fs",
    "OpenOptions",
    "TcpStream",
    "TcpListener",
    "UdpSocket",
    "RandomState",
];

/// Functions that read a clock or draw randomness: forbidden after `::`.
const FUNCTIONS: &[&str] = &["now", "now_v1", "now_v6", "now_v7", "new_v4", "from_os_rng", "from_entropy"];

/// Modules of `std` that are the outside world.
const STD_MODULES: &[&str] = &["fs", "net", "process", "env", "os"];

/// Dependencies that would bring the outside world; a name stands for its family (`tokio` for `tokio-util`).
const DEPENDENCIES: &[&str] = &[
    "tokio",
    "rand",
    "rand_core",
    "getrandom",
    "fastrand",
    "rusqlite",
    "refinery",
    "reqwest",
    "hyper",
    "axum",
    "tempfile",
    "rustix",
    "libc",
    "futures",
    "async",
];

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let folder = format!("crates/{CRATE}/src/");
    for (file, _) in tree.rust().filter(|(file, _)| file.path.starts_with(&folder)) {
        let tokens: Vec<_> =
            file.product_tokens().into_iter().filter(|token| token.kind != Kind::Comment).collect();
        for at in 0..tokens.len() {
            if let Some(name) = outside(&tokens, at) {
                let message = format!("{CRATE} names {name}; hand it in as a value instead");
                findings.push(Finding::new(&file.path, tokens[at].line, &name, message));
            }
        }
    }
    let members = tree.members.iter().filter(|member| member.name == CRATE);
    for dependency in members.flat_map(|member| &member.dependencies).filter(|dependency| !dependency.dev) {
        let family = |name: &&&str| {
            dependency.name.strip_prefix(**name).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        };
        if DEPENDENCIES.iter().any(|name| family(&name)) {
            let message = format!("{CRATE} must not depend on {}", dependency.name);
            findings.push(Finding::new(&edges::manifest(CRATE), 0, &dependency.name, message));
        }
    }
    findings
}

/// What of the outside world the token at `at` names, if anything.
fn outside(tokens: &[Token<'_>], at: usize) -> Option<String> {
    let token = tokens[at];
    if token.kind != Kind::Identifier {
        return None;
    }
    let after_path = |end: usize| end >= 2 && tokens[end - 1].is_mark(":") && tokens[end - 2].is_mark(":");
    if NAMES.contains(&token.text) {
        // A field or a method of that name is our own.
        let ours = at > 0 && tokens[at - 1].is_mark(".");
        return (!ours).then(|| token.text.to_owned());
    }
    if FUNCTIONS.contains(&token.text) && after_path(at) {
        return Some(format!("::{}", token.text));
    }
    if token.text == "std" {
        return std_module(&tokens[at + 1..]).map(|module| format!("std::{module}"));
    }
    None
}

/// The first forbidden module in what follows `std`: `::fs…` or `::{…, fs…}`.
fn std_module<'a>(rest: &[Token<'a>]) -> Option<&'a str> {
    let [first, second, third, ..] = rest else { return None };
    if !(first.is_mark(":") && second.is_mark(":")) {
        return None;
    }
    let forbidden = |token: &Token<'a>| {
        (token.kind == Kind::Identifier && STD_MODULES.contains(&token.text)).then_some(token.text)
    };
    if !third.is_mark("{") {
        return forbidden(third);
    }
    let mut depth = 0usize;
    for pair in rest[2..].windows(2) {
        depth = match pair[0].text {
            "{" => depth + 1,
            "}" if depth == 1 => return None,
            "}" => depth - 1,
            _ => depth,
        };
        let starts_entry = pair[0].is_mark("{") || pair[0].is_mark(",");
        if depth == 1 && starts_entry && forbidden(&pair[1]).is_some() {
            return forbidden(&pair[1]);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(text: &str) -> Vec<String> {
        let tree = Tree::of(&[("crates/machine/src/decide.rs", text)]);
        check(&tree).into_iter().map(|finding| finding.item).collect()
    }

    #[test]
    fn the_outside_world_is_found() {
        assert_eq!(named("use std::time::SystemTime;"), ["SystemTime"]);
        assert_eq!(named("let t = jiff::Timestamp::now();"), ["::now"]);
        assert_eq!(named("let id = Uuid::now_v7();"), ["::now_v7"]);
        assert_eq!(named("use std::{collections::{BTreeMap, btree_map}, env, sync::Arc};"), ["std::env"]);
        assert_eq!(named("std::process::exit(1)"), ["std::process"]);
        assert_eq!(named("use tokio::sync::mpsc;"), ["tokio"]);
        assert_eq!(named("let f = std::fs::File::open(path);").first().map(String::as_str), Some("std::fs"));
    }

    #[test]
    fn our_own_words_are_not() {
        assert!(named("fn decide(now: Time) { let env = Env::new(now); env.process(); }").is_empty());
        assert!(
            named("//! No tokio, no SystemTime.\nconst DENIED: &[&str] = &[\"now\", \"env\"];").is_empty()
        );
        assert!(named("use std::{fmt, collections::{self, env}};").is_empty());
        assert!(named("#[cfg(test)] mod tests { use std::fs; }").is_empty());
        let other = Tree::of(&[("crates/store/src/lib.rs", "use tokio::fs;")]);
        assert!(check(&other).is_empty());
    }

    #[test]
    fn the_manifest_counts_too() {
        let tree =
            Tree::default().with_member("machine", &["tokio-util", "serde", "dev:tempfile", "randomize"]);
        let names: Vec<_> = check(&tree).into_iter().map(|finding| finding.item).collect();
        assert_eq!(names, ["tokio-util"]);
    }
}
