//! SQL is written only in `crates/store`: no string literal elsewhere holds a statement.

use super::{
    Finding, Tree,
    lexer::{self, Kind},
};

/// What makes a text in capitals a statement: a first word, and one of these words after it.
const STATEMENTS: &[(&str, &[&str])] = &[
    ("SELECT", &["FROM", "COUNT", "1"]),
    ("INSERT", &["INTO", "OR"]),
    ("UPDATE", &["SET"]),
    ("DELETE", &["FROM"]),
    ("CREATE", &["TABLE", "INDEX", "UNIQUE", "TRIGGER", "VIEW"]),
    ("DROP", &["TABLE", "INDEX", "TRIGGER", "VIEW"]),
    ("ALTER", &["TABLE"]),
    ("BEGIN", &["IMMEDIATE", "EXCLUSIVE"]),
];

/// How a statement in small letters begins. Shorter beginnings would be English.
const BEGINNINGS: &[&str] =
    &["pragma ", "select * from ", "select count(", "insert into ", "delete from wf_", "create table "];

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, text) in tree.rust().filter(|(file, _)| !file.path.starts_with("crates/store/")) {
        for token in lexer::tokens(text).into_iter().filter(|token| token.kind == Kind::Text) {
            if let Some(keyword) = statement(token.text) {
                let message = format!("{keyword} statement outside crates/store; ask the store instead");
                findings.push(Finding::new(&file.path, token.line, keyword, message));
            }
        }
    }
    findings
}

/// The first keyword of the statement in the text, if it holds one.
fn statement(text: &str) -> Option<&'static str> {
    let small = text.trim_start().to_ascii_lowercase();
    if let Some(beginning) = BEGINNINGS.iter().find(|beginning| small.starts_with(*beginning)) {
        return beginning.split(' ').next();
    }
    let words = || text.split(|c: char| !c.is_alphanumeric() && c != '_');
    let found = STATEMENTS.iter().find(|(keyword, followers)| {
        words().skip_while(|word| word != keyword).any(|word| followers.contains(&word))
    });
    found.map(|(keyword, _)| *keyword)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> usize {
        check(&Tree::of(&[(path, text)])).len()
    }

    #[test]
    fn statements_are_found_in_strings_only() {
        let path = "crates/runtime/src/turn.rs";
        assert_eq!(found(path, r#"q("SELECT id FROM wf_tasks")"#), 1);
        assert_eq!(found(path, r##"q(r#"  UPDATE a SET b = 1"#)"##), 1);
        assert_eq!(found(path, r#"q("insert into a values (1)")"#), 1);
        assert_eq!(found(path, r#"q("PRAGMA synchronous")"#), 1);
        assert_eq!(found(path, "// SELECT id FROM wf_tasks"), 0);
        assert_eq!(found("crates/store/src/sqlite.rs", r#"q("DELETE FROM a")"#), 0);
    }

    #[test]
    fn english_is_not_sql() {
        for text in [
            "select a tenant from the list",
            "update the key and set a role",
            "DELETE",
            "delete from the list",
        ] {
            assert_eq!(statement(text), None, "{text}");
        }
    }
}
