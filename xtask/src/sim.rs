//! Builds and runs the simulator: the test target `sim` of crate `runtime`, which has a `main` of its own.
//!
//! Standard output and the exit code are the simulator's; cargo's own lines go to standard error, so that `-o json`
//! gives JSON and nothing else.

use crate::shell;
use anyhow::Result;
use clap::{Args, Subcommand, ValueEnum};
use std::process::{Command, ExitCode};

/// Seeds that a plain `cargo xtask sim` runs.
const SEEDS: u64 = 2000;

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Options {
    #[command(subcommand)]
    verb: Option<Verb>,
    #[command(flatten)]
    campaign: Campaign,
}

#[derive(Args)]
struct Campaign {
    /// How many seeds to run, each twice, before the seeded bugs are tried
    #[arg(long, default_value_t = SEEDS, value_name = "N")]
    seeds: u64,
    /// Say of each seeded bug in how many of the first seeds it is caught
    #[arg(long)]
    mutants: bool,
    #[command(flatten)]
    shared: Shared,
}

#[derive(Args)]
struct Shared {
    /// Form of the report on standard output
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
    /// Build with optimisation: slow to build, fast to run; worth it above some thousand seeds
    #[arg(long)]
    release: bool,
}

#[derive(Subcommand)]
enum Verb {
    /// Runs one seed again and prints its whole trace.
    Replay {
        /// The seed, as a failing campaign printed it
        seed: u64,
        #[command(flatten)]
        shared: Shared,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    Text,
    Json,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let command = match &options.verb {
        None => {
            let mut command = command(("--seeds", options.campaign.seeds), &options.campaign.shared);
            if options.campaign.mutants {
                command.arg("--mutants");
            }
            command
        }
        Some(Verb::Replay { seed, shared }) => command(("--replay", *seed), shared),
    };
    Ok(ExitCode::from(shell::run(command)?))
}

/// The simulation as a phase of `cargo xtask test`.
pub(crate) fn campaign(seeds: u64) -> Command {
    command(("--seeds", seeds), &Shared { output: Output::Text, release: false })
}

fn command((flag, value): (&str, u64), shared: &Shared) -> Command {
    // The whole workspace, so that dependencies have the features they have in the other tests and are built once.
    let mut command = shell::cargo(&["test", "--workspace", "--test", "sim"]);
    if shared.release {
        command.arg("--release");
    }
    command.args(["--", flag, &value.to_string()]);
    if shared.output == Output::Json {
        command.args(["-o", "json"]);
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(command: &Command) -> String {
        let arguments: Vec<_> = command.get_args().map(|a| a.to_string_lossy()).collect();
        arguments.join(" ")
    }

    #[test]
    fn arguments_reach_the_simulator() {
        let json = Shared { output: Output::Json, release: true };
        assert_eq!(
            arguments(&command(("--replay", 7), &json)),
            "test --workspace --test sim --release -- --replay 7 -o json"
        );
        assert_eq!(arguments(&campaign(400)), "test --workspace --test sim -- --seeds 400");
    }
}
