//! Every error code that the API can answer has a section `## code` in docs/errors.md, and no section is left over.
//!
//! Codes are the kebab-case literals in a `fn code`, in a constant named `CODES`, and in `code: "…"` of crates
//! `server` and `runtime`.

use super::{
    Finding, Tree,
    lexer::{self, Kind, Token},
};
use std::collections::BTreeMap;

const PAGE: &str = "docs/errors.md";
const FOLDERS: &[&str] = &["crates/server/src/", "crates/runtime/src/"];

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let codes = codes(tree);
    let page = tree.text(PAGE).unwrap_or_default();
    let sections: BTreeMap<&str, usize> = page
        .lines()
        .enumerate()
        .filter_map(|(at, line)| Some((line.strip_prefix("## ")?.trim().trim_matches('`'), at + 1)))
        .filter(|(title, _)| is_kebab(title))
        .collect();
    let mut findings = Vec::new();
    for (code, (path, line)) in &codes {
        if !sections.contains_key(code.as_str()) {
            let message = format!("error code {code} has no section \"## {code}\" in {PAGE}");
            findings.push(Finding::new(path, *line, code, message));
        }
    }
    for (section, line) in sections {
        if !codes.contains_key(section) {
            let message = format!("no code {section} in crates server and runtime: remove the section");
            findings.push(Finding::new(PAGE, line, section, message));
        }
    }
    findings
}

/// Each code with the place it was first seen.
fn codes(tree: &Tree) -> BTreeMap<String, (String, usize)> {
    let mut codes = BTreeMap::new();
    for (file, _) in tree.rust().filter(|(file, _)| FOLDERS.iter().any(|f| file.path.starts_with(f))) {
        let tokens: Vec<_> =
            file.product_tokens().into_iter().filter(|token| token.kind != Kind::Comment).collect();
        for token in literals(&tokens) {
            if is_kebab(token.text) {
                codes.entry(token.text.to_owned()).or_insert_with(|| (file.path.clone(), token.line));
            }
        }
    }
    codes
}

/// The string literals that stand where a code stands.
fn literals<'a>(tokens: &[Token<'a>]) -> Vec<Token<'a>> {
    let mut found = Vec::new();
    for function in lexer::functions(tokens).into_iter().filter(|function| function.name == "code") {
        found.extend(&tokens[function.body.0..function.body.1]);
    }
    for (at, token) in tokens.iter().enumerate() {
        let rest = &tokens[at + 1..];
        if token.is_identifier("CODES") && at > 0 && tokens[at - 1].is_identifier("const") {
            found.extend(rest.iter().take_while(|token| !token.is_mark(";")));
        }
        if let (true, [colon, literal, ..]) = (token.is_identifier("code"), rest)
            && colon.is_mark(":")
        {
            found.push(*literal);
        }
    }
    found.retain(|token| token.kind == Kind::Text);
    found
}

fn is_kebab(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(code: &str, page: &str) -> Vec<String> {
        let tree = Tree::of(&[("crates/server/src/error.rs", code), (PAGE, page)]);
        check(&tree).into_iter().map(|finding| finding.item).collect()
    }

    #[test]
    fn codes_are_found_where_they_stand() {
        let code = r#"
            const CODES: &[(&str, u16)] = &[("not-found", 404)];
            fn code(&self) -> &str { match self { E::Busy => "busy" } }
            fn refuse() -> E { E { code: "too-deep", detail: "far-too-deep" } }
            fn other() -> &str { "not-a-code" }
        "#;
        assert_eq!(items(code, ""), ["busy", "not-found", "too-deep"]);
        assert!(items(code, "# Errors\n## How to read\n## busy\n## `not-found`\n## too-deep\n").is_empty());
    }

    #[test]
    fn left_over_sections_are_found() {
        assert_eq!(items("", "## gone\n## How to read\n"), ["gone"]);
    }
}
