//! No reminder without an issue number: `TODO(#12): …` is fine, a bare one is forgotten.

use super::{
    Finding, Tree,
    lexer::{self, Kind},
    tree::File,
};

const MARKS: &[&str] = &["TODO", "FIXME", "XXX"];

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &tree.files {
        for (line, comment) in comments(file) {
            if let Some(mark) = bare_mark(comment) {
                let message = format!("{mark} without an issue number: write {mark}(#12), or do it");
                findings.push(Finding::new(&file.path, line, mark, message));
            }
        }
    }
    findings
}

/// The lines of a file that are comments, with their numbers. Markdown has none: it may speak about reminders.
fn comments(file: &File) -> Vec<(usize, &str)> {
    let Some(text) = file.text.as_deref() else { return vec![] };
    let after = |sign: &'static str| {
        let lines = text.lines().enumerate();
        lines.filter_map(move |(at, line)| Some((at + 1, &line[line.find(sign)?..]))).collect()
    };
    match file.path.rsplit('.').next() {
        Some("rs") => {
            let comments = lexer::tokens(text).into_iter().filter(|token| token.kind == Kind::Comment);
            comments.map(|token| (token.line, token.text)).collect()
        }
        Some("sql") => after("--"),
        Some("toml" | "yaml" | "yml" | "sh") => after("#"),
        _ if file.path.starts_with(".ci/") => after("#"),
        _ => vec![],
    }
}

fn bare_mark(comment: &str) -> Option<&'static str> {
    let word = |mark: &&&'static str| {
        comment.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == **mark)
    };
    let mark = MARKS.iter().find(|mark| word(mark))?;
    let numbered = comment
        .split_once(&format!("{mark}(#"))
        .is_some_and(|(_, rest)| rest.starts_with(|c: char| c.is_ascii_digit()));
    (!numbered).then_some(mark)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> usize {
        check(&Tree::of(&[(path, text)])).len()
    }

    #[test]
    fn bare_marks_in_comments_are_found() {
        assert_eq!(
            found(
                "a.rs",
                "// TODO later
let x = \"TODO\";\n// TODO(#4): then\n/* FIXME */"
            ),
            2
        );
        assert_eq!(found("a.sql", "SELECT 1; -- TODO index"), 1);
        assert_eq!(found("a.toml", "a = 1 # XXX"), 1);
        assert_eq!(found("a.md", "No TODO stays."), 0);
        assert_eq!(found("a.rs", "fn todo_list() {} // TODOS"), 0);
    }
}
