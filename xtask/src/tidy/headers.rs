//! Every Rust file opens with `//!`: its purpose, its main item, what it must not do.

use super::{Finding, Tree};

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let headless = tree.rust().filter(|(_, text)| !text.starts_with("//! "));
    let finding =
        |path: &str| Finding::new(path, 1, "header", "open the file with //! and say what it is for");
    headless.map(|(file, _)| finding(&file.path)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_header_is_found() {
        let tree = Tree::of(&[("a.rs", "//! Adds.\n"), ("b.rs", "use a;\n"), ("c.rs", ""), ("d.sql", "")]);
        let paths: Vec<_> = check(&tree).into_iter().map(|finding| finding.path).collect();
        assert_eq!(paths, ["b.rs", "c.rs"]);
    }
}
