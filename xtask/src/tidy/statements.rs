//! Every `.sql` file under `crates/store` is used: named by the code, or in a folder the migrations are read from.

use super::{
    Finding, Tree,
    lexer::{self, Kind},
};

const FOLDER: &str = "crates/store/";

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut literals = Vec::new();
    for (_, text) in tree.rust().filter(|(file, _)| file.path.starts_with(FOLDER)) {
        let texts = lexer::tokens(text).into_iter().filter(|token| token.kind == Kind::Text);
        literals.extend(texts.map(|token| token.text));
    }
    let mut findings = Vec::new();
    for file in tree.files.iter().filter(|file| file.path.starts_with(FOLDER) && file.path.ends_with(".sql"))
    {
        let mut parts = file.path.rsplit('/');
        let (name, folder) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let named = |literal: &&str| literal.rsplit('/').next() == Some(name);
        // `embed_migrations!("migrations/sqlite")` takes the whole folder.
        let embedded = |literal: &&str| literal.trim_end_matches('/').rsplit('/').next() == Some(folder);
        if !literals.iter().any(|literal| named(literal) || embedded(literal)) {
            findings.push(Finding::new(
                &file.path,
                0,
                name,
                "no code in crates/store uses this file: remove it",
            ));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unused_statements_are_found() {
        let code = r#"const A: &str = include_str!("sql/load.sql"); embed_migrations!("migrations/sqlite");"#;
        let tree = Tree::of(&[
            ("crates/store/src/sqlite.rs", code),
            ("crates/store/src/sql/load.sql", ""),
            ("crates/store/src/sql/old.sql", ""),
            ("crates/store/migrations/sqlite/V1__start.sql", ""),
        ]);
        let paths: Vec<_> = check(&tree).into_iter().map(|finding| finding.path).collect();
        assert_eq!(paths, ["crates/store/src/sql/old.sql"]);
    }
}
