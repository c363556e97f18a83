//! Every error code that the API can answer has a section `## code` in docs/errors.md, and no section is left over.
//!
//! The codes are the constants of type `Code` in crates/server/src/code.rs. What crate `runtime` names in a refusal
//! (`code: "…"`) must be one of them.

use super::{
    Finding, Tree,
    lexer::{Kind, Token},
    tree::File,
};
use std::collections::BTreeMap;

const LIST: &str = "crates/server/src/code.rs";
const PAGE: &str = "docs/errors.md";
const RUNTIME: &str = "crates/runtime/src/";

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let Some(list) = tree.files.iter().find(|file| file.path == LIST) else { return vec![] };
    let codes = constants(&code_tokens(list));
    let sections = sections(tree.text(PAGE).unwrap_or_default());
    let mut findings = Vec::new();
    for (code, line) in codes.iter().filter(|(code, _)| !sections.contains_key(*code)) {
        let message = format!("error code {code} has no section \"## {code}\" in {PAGE}");
        findings.push(Finding::new(LIST, *line, code, message));
    }
    for (section, line) in sections.iter().filter(|(section, _)| !codes.contains_key(*section)) {
        let message = format!("{section} is no code of {LIST}: remove the section");
        findings.push(Finding::new(PAGE, *line, section, message));
    }
    for (file, _) in tree.rust().filter(|(file, _)| file.path.starts_with(RUNTIME)) {
        for token in named(&code_tokens(file)).filter(|token| !codes.contains_key(token.text)) {
            let message = format!("{} is no code of {LIST}: add it there and to {PAGE}", token.text);
            findings.push(Finding::new(&file.path, token.line, token.text, message));
        }
    }
    findings
}

fn code_tokens(file: &File) -> Vec<Token<'_>> {
    file.product_tokens().into_iter().filter(|token| token.kind != Kind::Comment).collect()
}

/// The first text of every `const NAME: Code = …;`, with its line.
fn constants(tokens: &[Token<'_>]) -> BTreeMap<String, usize> {
    let mut codes = BTreeMap::new();
    for (at, item) in tokens.windows(4).enumerate() {
        if item[0].is_identifier("const") && item[2].is_mark(":") && item[3].is_identifier("Code") {
            let mut value = tokens[at + 4..].iter().take_while(|token| !token.is_mark(";"));
            if let Some(word) = value.find(|token| token.kind == Kind::Text) {
                codes.insert(word.text.to_owned(), word.line);
            }
        }
    }
    codes
}

/// The texts given as `code: "…"`.
fn named<'a>(tokens: &[Token<'a>]) -> impl Iterator<Item = Token<'a>> {
    let fields = tokens.windows(3).filter(|field| field[0].is_identifier("code") && field[1].is_mark(":"));
    fields.map(|field| field[2]).filter(|value| value.kind == Kind::Text)
}

/// The sections whose title is one kebab-case word, with their lines.
fn sections(page: &str) -> BTreeMap<String, usize> {
    let title = |line: &str| Some(line.strip_prefix("## ")?.trim().trim_matches('`').to_owned());
    let is_kebab =
        |text: &str| text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
    let titles = page.lines().enumerate().filter_map(|(at, line)| Some((title(line)?, at + 1)));
    titles.filter(|(title, _)| is_kebab(title)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODES: &str = r#"
        const fn code(word: &'static str, status: u16) -> Code { Code { word, status } }
        pub const BUSY: Code = code("busy", 429);
        pub const GONE: Code =
            code("not-found", 404, "Not found");
        pub const ALL: &[Code] = &[BUSY, GONE];
    "#;

    fn items(page: &str, runtime: &str) -> Vec<String> {
        let tree = Tree::of(&[(LIST, CODES), (PAGE, page), ("crates/runtime/src/turn.rs", runtime)]);
        check(&tree).into_iter().map(|finding| finding.item).collect()
    }

    #[test]
    fn codes_and_sections_agree() {
        assert_eq!(items("", ""), ["busy", "not-found"]);
        assert!(items("# Errors\n## How to read\n## busy\n## `not-found`\n", "").is_empty());
        assert_eq!(items("## busy\n## not-found\n## left-over\n", ""), ["left-over"]);
    }

    #[test]
    fn the_runtime_names_known_codes() {
        let page = "## busy\n## not-found\n";
        assert!(items(page, r#"Refusal::Invalid { code: "busy", detail: "x-y" }"#).is_empty());
        assert_eq!(items(page, r#"Refusal::Invalid { code: "other", detail: "x" }"#), ["other"]);
    }
}
