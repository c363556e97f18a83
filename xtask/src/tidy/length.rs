//! Files and functions stay short enough to read at one go. Test code is exempt.

use super::{Finding, Tree, lexer};

const FILE_LINES_MAX: usize = 600;
const FUNCTION_LINES_MAX: usize = 70;

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, text) in tree.rust().filter(|(file, _)| !file.is_test()) {
        let lines = text.lines().count();
        if lines > FILE_LINES_MAX {
            let message = format!("{lines} lines; split it (limit {FILE_LINES_MAX}, aim for 300)");
            findings.push(Finding::new(&file.path, 0, "file", message));
        }
        for function in lexer::functions(&file.product_tokens()) {
            let lines = function.last_line - function.first_line + 1;
            if lines > FUNCTION_LINES_MAX {
                let message = format!("fn {} has {lines} lines (limit {FUNCTION_LINES_MAX})", function.name);
                findings.push(Finding::new(&file.path, function.first_line, function.name, message));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        check(&Tree::of(&[(path, text)])).into_iter().map(|finding| finding.item).collect()
    }

    #[test]
    fn limits_hold_to_the_line() {
        let function = |lines: usize| format!("fn long() {{\n{}}}\n", "x();\n".repeat(lines - 2));
        assert!(found("a.rs", &function(FUNCTION_LINES_MAX)).is_empty());
        assert_eq!(found("a.rs", &function(FUNCTION_LINES_MAX + 1)), ["long"]);
        assert!(found("a.rs", &"use x;\n".repeat(FILE_LINES_MAX)).is_empty());
        assert_eq!(found("a.rs", &"use x;\n".repeat(FILE_LINES_MAX + 1)), ["file"]);
    }

    #[test]
    fn tests_are_exempt() {
        let long = format!("fn long() {{\n{}}}\n", "x();\n".repeat(100));
        assert!(found("src/tests.rs", &long).is_empty());
        assert!(found("tests/it/main.rs", &long).is_empty());
        assert!(found("a.rs", &format!("#[cfg(test)]\nmod tests {{\n{long}}}\n")).is_empty());
    }
}
