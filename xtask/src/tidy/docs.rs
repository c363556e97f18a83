//! Pages stay within their limits and their links lead somewhere in the tree.

use super::{Finding, Tree};

const LINES_MAX: &[(&str, usize)] = &[("README.md", 120), ("ARCHITECTURE.md", 250), ("STYLE.md", 150)];

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, limit) in LINES_MAX {
        let lines = tree.text(path).unwrap_or_default().lines().count();
        if lines > *limit {
            findings.push(Finding::new(path, 0, "lines", format!("{lines} lines; the limit is {limit}")));
        }
    }
    for file in tree.files.iter().filter(|file| file.path.ends_with(".md")) {
        for (at, line) in file.text.as_deref().unwrap_or_default().lines().enumerate() {
            for target in targets(line) {
                if !resolve(&file.path, target).is_some_and(|path| tree.has(&path)) {
                    let message = format!("the link to {target} leads nowhere");
                    findings.push(Finding::new(&file.path, at + 1, target, message));
                }
            }
        }
    }
    findings
}

/// The relative link targets of a line of Markdown, without fragments.
fn targets(line: &str) -> Vec<&str> {
    let ends = line.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0));
    let paths = ends.map(|target| target.split('#').next().unwrap_or_default());
    paths.filter(|target| !target.is_empty() && !target.contains("://")).collect()
}

/// A target relative to the page, as a path from the root; `None` if it leaves the tree.
fn resolve(page: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            _ => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dead_links_are_found() {
        let page = "[a](../README.md) [b](concepts.md#words) [c](gone.md) [d](https://x.y/z) [e](#here) [f](decisions/)";
        let tree = Tree::of(&[
            ("docs/errors.md", page),
            ("docs/concepts.md", ""),
            ("docs/decisions/0001.md", ""),
            ("README.md", &"\n".repeat(121)),
        ]);
        let items: Vec<_> = check(&tree).into_iter().map(|finding| finding.item).collect();
        assert_eq!(items, ["lines", "gone.md"]);
    }
}
