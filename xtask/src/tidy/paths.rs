//! Nothing in the tree names one machine: no absolute path of somebody's folder, no registry but the public one.

use super::{Finding, Tree};

/// Beginnings of paths that exist on one machine only.
const FOLDERS: &[&str] = &["/home/", "/root/", "/Users/", "/work/", "C:\\Users\\"];
const LOCK: &str = "Cargo.lock";
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &tree.files {
        for (at, line) in file.text.as_deref().unwrap_or_default().lines().enumerate() {
            if let Some(folder) = FOLDERS.iter().find(|folder| names(line, folder)) {
                let message = format!("{folder} is a path of one machine; write it relative to the tree");
                findings.push(Finding::new(&file.path, at + 1, folder, message));
            }
            if file.path.ends_with("package-lock.json") && line.contains("\"resolved\"") {
                let message = "a lock file names no registry: take the members `resolved` away".to_owned();
                findings.push(Finding::new(&file.path, at + 1, "registry", message));
            }
            let source = line.strip_prefix("source = \"").map(|rest| rest.trim_end_matches('"'));
            if let Some(source) = source.filter(|source| file.path == LOCK && *source != REGISTRY) {
                let message = format!("{source} is not the public registry");
                findings.push(Finding::new(LOCK, at + 1, "registry", message));
            }
        }
    }
    findings
}

/// Whether the line names the folder as an absolute path. Inside a longer path or an address it is something else.
fn names(line: &str, folder: &str) -> bool {
    line.match_indices(folder).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        before.is_none_or(|c| !(c.is_alphanumeric() || "._-~}/".contains(c)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> usize {
        check(&Tree::of(&[(path, text)])).len()
    }

    #[test]
    fn paths_of_one_machine_are_found() {
        assert_eq!(found("a.md", "see /home/ann/tree and\n`/root/x`"), 2);
        assert_eq!(found("a.md", "https://example.com/home/page ~/work/x /homeland"), 0);
    }

    #[test]
    fn only_the_public_registry() {
        let other = "source = \"registry+https://mirror.example/index\"\n";
        assert_eq!(found(LOCK, other), 1);
        assert_eq!(found(LOCK, &format!("source = \"{REGISTRY}\"\n")), 0);
        assert_eq!(found("a.toml", other), 0);
        assert_eq!(found("console/package-lock.json", "\"resolved\": \"https://mirror.example/a.tgz\","), 1);
    }
}
