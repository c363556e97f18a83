//! Runs the tests of `sdk/python` and `sdk/typescript`, which start the engine's binary themselves.

use crate::{
    servers,
    shell::{self, Count},
};
use anyhow::Result;
use std::process::Command;

/// The folder under `sdk`, the program, and what it is told.
const SDKS: [(&str, &str, &[&str]); 2] = [
    ("python", "python3", &["-B", "-m", "unittest", "-v"]),
    ("typescript", "node", &["--test", "--test-reporter=tap", "tests/worker.test.js"]),
];

/// As a phase of `cargo xtask test`.
pub(crate) fn phase() -> Result<(u8, Count)> {
    servers::ensure_programs(&[("python3", "python3"), ("node", "nodejs")])?;
    let windlass = shell::binaries()?.join("windlass");
    let (mut code, mut total) = (0, Count::default());
    for (folder, program, arguments) in SDKS {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(shell::root().join("sdk").join(folder));
        command.env("WINDLASS_BIN", &windlass);
        let (found, count) = shell::run_counting(command)?;
        code = found.max(code);
        total.add(count);
    }
    Ok((code, total))
}
