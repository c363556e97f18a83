//! Builds the engine and the binary `chaos` and runs it: real nodes on a real PostgreSQL, harmed while clients work.
//!
//! Standard output and the exit code are those of `chaos`: 0 if every check held, 1 if one failed, 2 if the run broke, 3
//! if too little happened for the run to prove anything.

use crate::{revision, servers, shell};
use anyhow::Result;
use clap::Args;
use std::{
    path::PathBuf,
    process::{Command, ExitCode},
};

/// What the phase of `cargo xtask test` harms with: every kind of fault once, and the same every time.
const PHASE: [&str; 4] = ["--seconds", "60", "--seed", "4"];

const LONGER: [&str; 4] = ["--seconds", "180", "--seed", "4"];
/// With a database that loses what it acknowledged the checks have to fail, or they see nothing.
const LYING: [&str; 5] = ["--lying-database", "--seconds", "15", "--seed", "4"];
const LYING_LONGER: [&str; 5] = ["--lying-database", "--seconds", "90", "--seed", "4"];
/// What `chaos` ends with if a check failed.
const FAILED: u8 = 1;
/// What `chaos` ends with if a run proves nothing.
const INVALID: u8 = 3;

#[derive(Args)]
pub(crate) struct Options {
    /// How long faults go on at least; longer until each kind of fault has met something
    #[arg(long, default_value_t = 60, value_name = "N")]
    seconds: u64,
    /// The same seed draws the same programs and faults; any if left out
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// How many nodes
    #[arg(long, default_value_t = 3, value_name = "N")]
    nodes: u8,
    /// What carries hints between nodes: postgres, off or redis; by the seed if left out
    #[arg(long, value_name = "WAY")]
    hints: Option<String>,
    /// Let the database acknowledge commits before they are durable: the run must fail, or the checks see nothing
    #[arg(long)]
    lying_database: bool,
    /// The binary of another version: nodes change between the two whenever they start again
    #[arg(long, value_name = "FILE")]
    other: Option<PathBuf>,
    /// Another revision of this repository, built for the run: nodes change between it and this one whenever they start
    /// again
    #[arg(long, value_name = "REV", conflicts_with_all = ["other", "check"])]
    against: Option<String>,
    /// Keep the run's folder here, whatever comes of it
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Check the folder of an earlier run again, and run nothing
    #[arg(long, value_name = "DIR")]
    check: Option<PathBuf>,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    // First: what is built last is what lies where binaries lie.
    let against = options.against.as_deref().map(revision::built).transpose()?;
    let mut command = built()?;
    command.args(["--seconds", &options.seconds.to_string(), "--nodes", &options.nodes.to_string()]);
    if let Some(seed) = options.seed {
        command.args(["--seed", &seed.to_string()]);
    }
    if let Some(hints) = &options.hints {
        command.args(["--hints", hints]);
    }
    if let Some(other) = options.other.as_ref().or(against.as_ref()) {
        command.arg("--other").arg(other);
    }
    if options.lying_database {
        command.arg("--lying-database");
    }
    for (flag, folder) in [("--keep", &options.keep), ("--check", &options.check)] {
        if let Some(folder) = folder {
            command.arg(flag).arg(folder);
        }
    }
    Ok(ExitCode::from(shell::run(command)?))
}

/// As a phase of `cargo xtask test`.
pub(crate) fn phase() -> Result<u8> {
    let code = match harmed(&PHASE)? {
        // Too little happened to prove anything, as on a machine that does much else: once more, and longer.
        INVALID => harmed(&LONGER)?,
        code => code,
    };
    if code != 0 {
        return Ok(code);
    }
    eprintln!("once more with a database that loses what it acknowledged: the checks have to fail");
    let code = match harmed(&LYING)? {
        // It may have lost nothing that anybody had been told.
        0 | INVALID => harmed(&LYING_LONGER)?,
        code => code,
    };
    if code == FAILED {
        eprintln!("that is as it must be: what the database lost was seen");
        return Ok(0);
    }
    eprintln!("what the database lost was not seen: the checks prove nothing");
    Ok(code.max(1))
}

fn harmed(arguments: &[&str]) -> Result<u8> {
    let mut command = built()?;
    command.args(arguments);
    shell::run(command)
}

/// The binary `chaos`, told where the engine's is.
fn built() -> Result<Command> {
    servers::ensure_installed()?;
    let folder = shell::binaries()?;
    let mut command = Command::new(folder.join("chaos"));
    command.arg("--windlass").arg(folder.join("windlass")).current_dir(shell::root());
    Ok(command)
}
