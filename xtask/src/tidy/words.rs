//! One word per idea: the words of docs/concepts.md, and none of their synonyms, in names, comments and strings.

use super::{
    Finding, Tree,
    lexer::{self, Kind},
};

/// A banned word and what to say instead.
const BANNED: &[(&str, &str)] = &[
    ("job", "instance, call or delivery"),
    ("jobs", "instances, calls or deliveries"),
    ("execution", "instance, or running"),
    ("executions", "instances"),
    ("activity", "step or call"),
    ("activities", "steps or calls"),
];

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, text) in tree.rust() {
        for token in lexer::tokens(text) {
            if !matches!(token.kind, Kind::Identifier | Kind::Comment | Kind::Text) {
                continue;
            }
            for word in words(token.text) {
                if let Some((banned, instead)) = BANNED.iter().find(|(banned, _)| *banned == word) {
                    let message = format!("the word {banned} is not ours: say {instead}");
                    findings.push(Finding::new(&file.path, token.line, banned, message));
                }
            }
        }
    }
    findings
}

/// The words of a name or a sentence, in small letters: `JobQueue`, `job_queue` and "job queue" have the same.
fn words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut after_small = false;
    for c in text.chars() {
        if !c.is_alphanumeric() || (c.is_uppercase() && after_small) {
            words.push(String::new());
        }
        if c.is_alphanumeric() {
            words.last_mut().expect("starts with one word").extend(c.to_lowercase());
        }
        after_small = c.is_lowercase();
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        check(&Tree::of(&[("crates/a/src/lib.rs", text)])).into_iter().map(|finding| finding.item).collect()
    }

    #[test]
    fn synonyms_are_found_wherever_people_read_them() {
        assert_eq!(found("struct JobQueue;"), ["job"]);
        assert_eq!(found("fn list_executions() {}"), ["executions"]);
        assert_eq!(found("/// Starts an activity.\nfn start() {}"), ["activity"]);
        assert_eq!(found("const HELP: &str = \"List jobs\";"), ["jobs"]);
    }

    #[test]
    fn parts_of_other_words_are_not() {
        assert!(found("fn executed() { jobber(inactivity) }").is_empty());
    }
}
