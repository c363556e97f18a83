//! Runs child processes from the root of the tree.
//!
//! [`cargo`] makes a command that uses the same cargo and the same root everywhere; [`run`] passes output through;
//! [`run_counting`] does so too and also counts the tests that the output reports.

use anyhow::{Context, Result};
use std::{
    io::{BufRead, BufReader, IsTerminal, Read, Write},
    path::PathBuf,
    process::{Command, Stdio},
    thread,
};

/// The root of the tree: the folder above `xtask/`. Cargo says where that is when it runs us; a binary started by
/// hand knows where it was built.
pub(crate) fn root() -> PathBuf {
    let here = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    let here = PathBuf::from(here);
    here.parent().expect("xtask lies in a folder of the tree").to_path_buf()
}

/// A cargo command in the root of the tree. Incremental builds are off in CI: they only cost disk there.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(root());
    if std::env::var_os("CI").is_some() {
        command.env("CARGO_INCREMENTAL", "0");
    }
    command
}

/// Where cargo puts what it builds.
pub(crate) fn target() -> Result<PathBuf> {
    let metadata = capture(cargo(&["metadata", "--no-deps", "--format-version", "1"]))?;
    let metadata: serde_json::Value = serde_json::from_slice(&metadata)?;
    let folder = metadata["target_directory"].as_str().context("cargo names its target folder")?;
    Ok(PathBuf::from(folder))
}

/// Builds the binaries of the workspace and answers where they are.
pub(crate) fn binaries() -> Result<PathBuf> {
    // With the tests, so that dependencies have the features they have there and are built once.
    let code = run(cargo(&["build", "--workspace", "--bins", "--tests"]))?;
    anyhow::ensure!(code == 0, "the engine does not build");
    Ok(target()?.join("debug"))
}

/// Whether `cargo <tool> --version` works.
pub(crate) fn has_tool(tool: &str) -> bool {
    let probe = cargo(&[tool, "--version"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    probe.is_ok_and(|status| status.success())
}

/// Runs to the end with output passed through; answers the exit code (1 if ended by a signal).
pub(crate) fn run(mut command: Command) -> Result<u8> {
    let status = command.status().with_context(|| format!("cannot run {}", shown(&command)))?;
    Ok(exit_code(status.code()))
}

/// Runs to the end, captures standard output; fails if the command does.
pub(crate) fn capture(mut command: Command) -> Result<Vec<u8>> {
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot run {}", shown(&command)))?;
    anyhow::ensure!(output.status.success(), "{} failed with {}", shown(&command), output.status);
    Ok(output.stdout)
}

/// How many tests an output reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) skipped: u64,
}

impl Count {
    pub(crate) fn add(&mut self, other: Count) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }

    /// Reads one line of cargo test (`test result: …`), of nextest (`Summary … tests run: …`), of node (`# pass …`) or of
    /// Python's unittest (`Ran … tests in …`, `FAILED (failures=…)`); anything else counts nothing.
    fn of_line(line: &str) -> Count {
        let line = without_colour(line);
        let number = |before: &str| -> u64 {
            let rest = line.split_once(before).map_or("", |(_, rest)| rest);
            rest.split(|c: char| !c.is_ascii_digit())
                .next()
                .and_then(|digits| digits.parse().ok())
                .unwrap_or(0)
        };
        if line.starts_with("# pass ") || line.starts_with("# fail ") {
            return Count { passed: number("# pass "), failed: number("# fail "), skipped: 0 };
        }
        if line.starts_with("Ran ") && line.contains(" in ") {
            return Count { passed: number("Ran "), ..Count::default() };
        }
        if line.starts_with("FAILED (") {
            return Count { failed: number("failures=") + number("errors="), ..Count::default() };
        }
        let numbers = if let Some((_, rest)) = line.split_once("test result: ") {
            rest.to_owned()
        } else if line.contains("Summary [") {
            line.split_once(" run: ").map(|(_, rest)| rest.to_owned()).unwrap_or_default()
        } else {
            return Count::default();
        };
        let words: Vec<&str> =
            numbers.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
        let before = |names: &[&str]| {
            let pair = words.windows(2).find(|pair| names.contains(&pair[1]));
            pair.and_then(|pair| pair[0].parse().ok()).unwrap_or(0)
        };
        Count {
            passed: before(&["passed"]),
            failed: before(&["failed"]),
            skipped: before(&["skipped", "ignored"]),
        }
    }
}

/// Like [`run`], and counts the tests reported on either stream.
pub(crate) fn run_counting(mut command: Command) -> Result<(u8, Count)> {
    if std::io::stderr().is_terminal() {
        command.env("CARGO_TERM_COLOR", "always");
    }
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot run {}", shown(&command)))?;
    let out = child.stdout.take().expect("stdout is piped");
    let err = child.stderr.take().expect("stderr is piped");
    let reader = thread::spawn(move || pass_on(err, std::io::stderr()));
    let mut count = pass_on(out, std::io::stdout());
    count.add(reader.join().expect("the reader of stderr does not panic"));
    let status = child.wait()?;
    Ok((exit_code(status.code()), count))
}

/// Copies line by line and counts on the way. A closed reader of ours must not stop the child, so write errors
/// are dropped.
fn pass_on(from: impl Read, mut to: impl Write) -> Count {
    let mut count = Count::default();
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    while from.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
        let _ = to.write_all(&line);
        count.add(Count::of_line(&String::from_utf8_lossy(&line)));
        line.clear();
    }
    count
}

fn without_colour(line: &str) -> String {
    let mut plain = String::with_capacity(line.len());
    let mut characters = line.chars();
    while let Some(c) = characters.next() {
        if c != '\u{1b}' {
            plain.push(c);
            continue;
        }
        // An escape sequence ends at its first letter: ESC [ 1 ; 32 m.
        for c in characters.by_ref() {
            if c.is_ascii_alphabetic() {
                break;
            }
        }
    }
    plain
}

fn exit_code(code: Option<i32>) -> u8 {
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

fn shown(command: &Command) -> String {
    let mut text = command.get_program().to_string_lossy().into_owned();
    for argument in command.get_args() {
        text.push(' ');
        text.push_str(&argument.to_string_lossy());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_lines_of_every_runner() {
        let check = |line: &str, passed, failed, skipped| {
            assert_eq!(Count::of_line(line), Count { passed, failed, skipped }, "{line}");
        };
        check("test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; finished in 0.01s", 3, 0, 1);
        check("test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured", 3, 2, 0);
        check("     Summary [   0.011s] 7 tests run: 7 passed, 2 skipped", 7, 0, 2);
        check(
            "\u{1b}[32;1m     Summary\u{1b}[0m [  1.0s] 7 tests run: \u{1b}[1m5\u{1b}[0m passed, 2 failed",
            5,
            2,
            0,
        );
        check("        PASS [   0.010s] store conformance::three_passed", 0, 0, 0);
        check("test sums ... ok", 0, 0, 0);
        check("# pass 13\n", 13, 0, 0);
        check("# fail 2\n", 0, 2, 0);
        check("Ran 13 tests in 23.021s", 13, 0, 0);
        check("FAILED (failures=1, errors=11)", 0, 12, 0);
    }
}
