//! Builds the engine of another revision, in a worktree of its own that is gone afterwards.
//!
//! Both share the folder that cargo builds into, so that what they depend on is built once. The binary is copied out of
//! it, because the next build of this tree puts its own in that place.

use crate::shell;
use anyhow::{Context, Result};
use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// The engine's binary of this revision; built once.
pub(crate) fn built(revision: &str) -> Result<PathBuf> {
    let commit = commit(revision)?;
    let target = shell::target()?;
    let folder = target.join("against");
    let binary = folder.join(format!("windlass-{commit}"));
    if binary.exists() {
        return Ok(binary);
    }
    std::fs::create_dir_all(&folder)?;
    let tree = folder.join(&commit);
    let tree_shown = tree.to_string_lossy().into_owned();
    // What an earlier build that was broken off left behind.
    let _ = git(&["worktree", "remove", "--force", &tree_shown]);
    git(&["worktree", "add", "--detach", &tree_shown, &commit])?;
    let made = build(&tree, &target, &binary);
    git(&["worktree", "remove", "--force", &tree_shown])?;
    made.map(|()| binary)
}

fn build(tree: &Path, target: &Path, binary: &Path) -> Result<()> {
    let mut cargo = shell::cargo(&["build", "--package", "windlass", "--bin", "windlass"]);
    cargo.current_dir(tree).env("CARGO_TARGET_DIR", target);
    anyhow::ensure!(shell::run(cargo)? == 0, "that revision does not build");
    std::fs::copy(target.join("debug/windlass"), binary).context("the binary that was built")?;
    Ok(())
}

/// The full name of a revision.
fn commit(revision: &str) -> Result<String> {
    let wanted = format!("{revision}^{{commit}}");
    let found = git(&["rev-parse", "--verify", "--end-of-options", &wanted])?;
    Ok(String::from_utf8(found)?.trim().to_owned())
}

fn git(arguments: &[&str]) -> Result<Vec<u8>> {
    let mut command = Command::new("git");
    command.args(arguments).current_dir(shell::root());
    shell::capture(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revision_that_is_not_there_is_refused() {
        assert!(commit("no-such-revision").is_err());
        assert!(commit("--help").is_err());
    }

    #[test]
    fn a_revision_has_one_full_name() {
        let full = commit("HEAD").unwrap();
        assert_eq!((full.len(), commit(&full[..12]).unwrap()), (40, full));
    }
}
