//! Checks the tree: `cargo xtask test`, `tidy`, `sim`, `chaos`; builds the console: `cargo xtask console`.
//!
//! The way in: [`Command`] is the list of verbs, one module each. Nothing here is needed to build or run the
//! product, and nothing here knows the product's crates except by name.

mod chaos;
mod console;
mod revision;
mod sdks;
mod servers;
mod shell;
mod sim;
mod test;
mod tidy;
mod variants;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Checks for the Windlass tree. What CI runs, anyone runs.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs everything: format check, clippy, tidy, all tests, those of nodes on PostgreSQL as well, those of the SDKs and
    /// of the console, the simulation, a short chaos.
    ///
    /// Stops at the first phase that fails and says which one it was.
    Test(test::Options),
    /// Checks the rules of STYLE.md that a tool can check.
    ///
    /// A rule may be lifted for one file by a line with a reason in xtask/tidy-allow.txt.
    Tidy(tidy::Options),
    /// Runs the seeded simulation of the runtime, or replays one seed.
    Sim(sim::Options),
    /// Harms real nodes on a real PostgreSQL while clients work, then checks what was promised.
    Chaos(chaos::Options),
    /// Builds the files of the console anew, which are committed under console/dist.
    Console,
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Test(options) => test::run(&options),
        Command::Tidy(options) => tidy::run(&options),
        Command::Sim(options) => sim::run(&options),
        Command::Chaos(options) => chaos::run(&options),
        Command::Console => console::build().map(|()| ExitCode::SUCCESS),
    };
    match outcome {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
