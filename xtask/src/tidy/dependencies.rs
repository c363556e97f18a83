//! Every third-party dependency has its reason: one row per entry of `[workspace.dependencies]` in
//! docs/dependencies.md, no row too many, no entry that no crate uses, no version outside the root manifest.

use super::{Finding, Tree, edges};
use std::collections::BTreeMap;

const MANIFEST: &str = "Cargo.toml";
const PAGE: &str = "docs/dependencies.md";

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let declared = declared(tree.text(MANIFEST).unwrap_or_default());
    let reasons = reasons(tree.text(PAGE).unwrap_or_default());
    let mut findings = Vec::new();
    for (name, line) in &declared {
        if !reasons.contains_key(name) {
            let message =
                format!("{name} has no row in {PAGE}: say why this one and what else was looked at");
            findings.push(Finding::new(MANIFEST, *line, name, message));
        }
        let used = tree.members.iter().flat_map(|member| &member.dependencies).any(|d| d.name == *name);
        if !used {
            findings.push(Finding::new(MANIFEST, *line, name, format!("no crate uses {name}: remove it")));
        }
    }
    for (name, line) in reasons.iter().filter(|(name, _)| !declared.contains_key(*name)) {
        findings.push(Finding::new(PAGE, *line, name, format!("{name} is no dependency: remove the row")));
    }
    for member in &tree.members {
        let foreign = member.dependencies.iter().filter(|d| tree.members.iter().all(|m| m.name != d.name));
        for dependency in foreign.filter(|dependency| !declared.contains_key(&dependency.name)) {
            let message = format!("{} is not in [workspace.dependencies] of the root", dependency.name);
            findings.push(Finding::new(&edges::manifest(&member.name), 0, &dependency.name, message));
        }
    }
    findings
}

/// Third-party entries of `[workspace.dependencies]` with their lines; our own crates have a `path`.
fn declared(manifest: &str) -> BTreeMap<String, usize> {
    let mut inside = false;
    let mut declared = BTreeMap::new();
    for (at, line) in manifest.lines().enumerate() {
        if line.starts_with('[') {
            inside = line.trim() == "[workspace.dependencies]";
        } else if let Some((name, value)) = line.split_once('=').filter(|_| inside)
            && !line.starts_with('#')
            && !value.contains("path =")
        {
            declared.insert(name.trim().to_owned(), at + 1);
        }
    }
    declared
}

/// Rows of the page, with their lines: "| `name` | why | looked at |".
fn reasons(page: &str) -> BTreeMap<String, usize> {
    let name = |line: &str| Some(line.strip_prefix("| `")?.split_once('`')?.0.to_owned());
    page.lines().enumerate().filter_map(|(at, line)| Some((name(line)?, at + 1))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_and_entries_agree() {
        let manifest = "[workspace]\nresolver = \"3\"\n[workspace.dependencies]\nstore = { path = \"crates/store\" }\n\
                        # Why.\nserde = \"1\"\nrand = { version = \"0.9\" }\n[profile.dev]\ndebug = 0\n";
        let page = "| name | why |\n|---|---|\n| `serde` | everybody's |\n| `chrono` | gone |\n";
        let tree = Tree::of(&[(MANIFEST, manifest), (PAGE, page)])
            .with_member("store", &["serde", "local"])
            .with_member("server", &["store"]);
        let mut seen: Vec<_> = check(&tree).into_iter().map(|f| (f.path, f.item)).collect();
        seen.sort();
        let expected = [
            ("Cargo.toml", "rand"),
            ("Cargo.toml", "rand"),
            ("crates/store/Cargo.toml", "local"),
            ("docs/dependencies.md", "chrono"),
        ];
        assert_eq!(seen, expected.map(|(path, item)| (path.to_owned(), item.to_owned())));
    }
}
