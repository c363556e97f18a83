//! What the rules look at: the files git knows or would add, and the members of the workspace.
//!
//! Tests build a [`Tree`] from snippets with [`Tree::of`]; only [`Tree::load`] touches the disk.

use super::lexer::{self, Token};
use crate::shell;
use anyhow::{Context, Result};
use std::{fs, io::ErrorKind, process::Command};

#[derive(Default)]
pub(crate) struct Tree {
    pub(crate) files: Vec<File>,
    pub(crate) members: Vec<Member>,
}

pub(crate) struct File {
    /// From the root, with forward slashes.
    pub(crate) path: String,
    pub(crate) bytes: u64,
    /// `None` if the file is not UTF-8.
    pub(crate) text: Option<String>,
}

/// A crate of the workspace.
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) dependencies: Vec<Dependency>,
}

pub(crate) struct Dependency {
    pub(crate) name: String,
    /// True if only tests need it.
    pub(crate) dev: bool,
}

impl Tree {
    pub(crate) fn load() -> Result<Tree> {
        let mut git = Command::new("git");
        git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]).current_dir(shell::root());
        let listing = shell::capture(git).context("tidy reads the file list from git")?;
        let mut files = Vec::new();
        for path in String::from_utf8(listing)?.split('\0').filter(|path| !path.is_empty()) {
            match fs::read(shell::root().join(path)) {
                Ok(bytes) => files.push(File::new(path, bytes)),
                // Deleted, or a link to nowhere: nothing to check.
                Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::IsADirectory) => {}
                Err(error) => return Err(error).with_context(|| format!("cannot read {path}")),
            }
        }
        let metadata = shell::capture(shell::cargo(&["metadata", "--no-deps", "--format-version", "1"]))?;
        Ok(Tree { files, members: members(&serde_json::from_slice(&metadata)?) })
    }

    /// The file's text; `None` if there is no such file.
    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.files.iter().find(|file| file.path == path)?.text.as_deref()
    }

    pub(crate) fn rust(&self) -> impl Iterator<Item = (&File, &str)> {
        let files = self.files.iter().filter(|file| file.path.ends_with(".rs"));
        files.filter_map(|file| Some((file, file.text.as_deref()?)))
    }

    pub(crate) fn has(&self, path: &str) -> bool {
        let folder = format!("{}/", path.trim_end_matches('/'));
        self.files.iter().any(|file| file.path == path || file.path.starts_with(&folder))
    }
}

impl File {
    fn new(path: &str, bytes: Vec<u8>) -> File {
        File { path: path.into(), bytes: bytes.len() as u64, text: String::from_utf8(bytes).ok() }
    }

    /// Whether the whole file is test code.
    pub(crate) fn is_test(&self) -> bool {
        self.path.ends_with("/tests.rs") || self.path.split('/').any(|part| part == "tests")
    }

    /// The tokens of a Rust file without its test modules; nothing if the whole file is test code.
    pub(crate) fn product_tokens(&self) -> Vec<Token<'_>> {
        match &self.text {
            Some(text) if !self.is_test() => lexer::without_tests(lexer::tokens(text)),
            _ => vec![],
        }
    }
}

fn members(metadata: &serde_json::Value) -> Vec<Member> {
    let list = |value: &serde_json::Value| value.as_array().cloned().unwrap_or_default();
    let word = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let dependency = |value: &serde_json::Value| Dependency {
        name: word(&value["name"]),
        dev: value["kind"].as_str() == Some("dev"),
    };
    let member = |value: &serde_json::Value| Member {
        name: word(&value["name"]),
        dependencies: list(&value["dependencies"]).iter().map(dependency).collect(),
    };
    list(&metadata["packages"]).iter().map(member).collect()
}

#[cfg(test)]
impl Tree {
    /// A tree of snippets.
    pub(crate) fn of(files: &[(&str, &str)]) -> Tree {
        let files = files.iter().map(|(path, text)| File::new(path, text.as_bytes().to_vec())).collect();
        Tree { files, members: vec![] }
    }

    /// Adds a member; a dependency that begins with `dev:` is one of its tests.
    pub(crate) fn with_member(mut self, name: &str, dependencies: &[&str]) -> Tree {
        let dependency = |written: &&str| match written.strip_prefix("dev:") {
            Some(name) => Dependency { name: name.into(), dev: true },
            None => Dependency { name: (*written).into(), dev: false },
        };
        let dependencies = dependencies.iter().map(dependency).collect();
        self.members.push(Member { name: name.into(), dependencies });
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_come_from_metadata() {
        let metadata = serde_json::json!({"packages": [{"name": "store", "dependencies": [
            {"name": "machine", "kind": null}, {"name": "tempfile", "kind": "dev"}]}]});
        let members = members(&metadata);
        let seen: Vec<_> = members[0].dependencies.iter().map(|d| (d.name.as_str(), d.dev)).collect();
        assert_eq!(members[0].name, "store");
        assert_eq!(seen, [("machine", false), ("tempfile", true)]);
    }

    #[test]
    fn test_files_are_known_by_name() {
        let is_test = |path: &str| File::new(path, vec![]).is_test();
        assert!(is_test("crates/store/src/sqlite/tests.rs"));
        assert!(is_test("crates/runtime/tests/sim/main.rs"));
        assert!(!is_test("crates/runtime/src/attests.rs"));
    }
}
