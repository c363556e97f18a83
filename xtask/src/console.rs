//! `cargo xtask console`: builds the console's files anew; and as a phase of `cargo xtask test`, that those which are
//! committed are what their source makes, and that they work in a real browser.
//!
//! Nothing else here or in the product's build calls npm.

use crate::{
    servers,
    shell::{self, Count},
};
use anyhow::{Context, Result, ensure};
use std::{path::PathBuf, process::Command};

const BUILT: [&str; 3] = ["index.html", "app.js", "app.css"];
/// How often packages are asked for: a registry may be away for a moment.
const FETCHES_MAX: u32 = 3;

fn folder() -> PathBuf {
    shell::root().join("console")
}

fn tool(program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(folder());
    command
}

/// Fetches the pinned packages, checks the types, builds `console/dist`.
pub(crate) fn build() -> Result<()> {
    servers::ensure_programs(&[("node", "nodejs"), ("npm", "npm")])?;
    let fetch = || {
        shell::run(tool("npm", &["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]))
    };
    let mut fetched = fetch()?;
    for _ in 1..FETCHES_MAX {
        if fetched == 0 {
            break;
        }
        fetched = fetch()?;
    }
    ensure!(fetched == 0, "npm cannot fetch the packages of console/package-lock.json");
    for arguments in [["node_modules/typescript/bin/tsc", "--noEmit"].as_slice(), &["build.js"]] {
        ensure!(shell::run(tool("node", arguments))? == 0, "the console does not build");
    }
    Ok(())
}

fn built() -> Result<Vec<Vec<u8>>> {
    let read = |name: &&str| {
        let path = folder().join("dist").join(name);
        std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))
    };
    BUILT.iter().map(read).collect()
}

/// As a phase of `cargo xtask test`.
pub(crate) fn phase() -> Result<(u8, Count)> {
    let committed = built()?;
    build()?;
    if built()? != committed {
        eprintln!(
            "console/dist is not what console/src makes: commit what `cargo xtask console` has built now"
        );
        return Ok((1, Count::default()));
    }
    servers::ensure_programs(&[("chromium", "chromium")])?;
    let windlass = shell::binaries()?.join("windlass");
    ensure!(shell::run(tool("node", &["build.js", "--tests"]))? == 0, "the console's tests do not build");
    let (mut code, mut total) = (0, Count::default());
    for file in [".build/helpers.test.mjs", "tests/browser.test.js"] {
        let mut command = tool("node", &["--test", "--test-reporter=tap", file]);
        command.env("WINDLASS_BIN", &windlass);
        let (found, count) = shell::run_counting(command)?;
        code = found.max(code);
        total.add(count);
    }
    Ok((code, total))
}
