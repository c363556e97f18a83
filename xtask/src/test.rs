//! `cargo xtask test`: the phases in order, the time each took, one clear line when one fails.
//!
//! The last line has the form of cargo's own `test result:` and sums up every test that ran.

use crate::{
    chaos, console, sdks, servers,
    shell::{self, Count},
    sim, tidy, variants,
};
use anyhow::{Result, bail};
use clap::Args;
use std::{
    process::{Command, ExitCode},
    time::{Duration, Instant},
};

/// Seeds of the simulation phase: enough to meet every fault and to catch every seeded bug, quick without
/// optimisation.
const SEEDS: u64 = 400;

#[derive(Args)]
pub(crate) struct Options {
    /// Seeds of the simulation phase
    #[arg(long, env = "WINDLASS_SIM_SEEDS", default_value_t = SEEDS, value_name = "N")]
    seeds: u64,
    /// Run only these phases (repeatable or comma-separated)
    #[arg(long, value_enum, value_delimiter = ',', value_name = "PHASE")]
    only: Vec<Phase>,
    /// Let the phase `hints` run every test of nodes and of the API with every fate of hints: an hour more
    #[arg(long)]
    all_hints: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Phase {
    Format,
    Clippy,
    Tidy,
    Tests,
    Postgres,
    Hints,
    DocTests,
    Sdks,
    Console,
    Simulation,
    Chaos,
}

impl Phase {
    const ALL: [Phase; 11] = [
        Phase::Format,
        Phase::Clippy,
        Phase::Tidy,
        Phase::Tests,
        Phase::Postgres,
        Phase::Hints,
        Phase::DocTests,
        Phase::Sdks,
        Phase::Console,
        Phase::Simulation,
        Phase::Chaos,
    ];

    fn name(self) -> &'static str {
        match self {
            Phase::Format => "format",
            Phase::Clippy => "clippy",
            Phase::Tidy => "tidy",
            Phase::Tests => "tests",
            Phase::Postgres => "postgres",
            Phase::Hints => "hints",
            Phase::DocTests => "doc tests",
            Phase::Sdks => "sdks",
            Phase::Console => "console",
            Phase::Simulation => "simulation",
            Phase::Chaos => "chaos",
        }
    }

    /// What to do when the phase fails.
    fn remedy(self) -> &'static str {
        match self {
            Phase::Format => "run: cargo fmt --all",
            Phase::Clippy => "fix the warnings above; allow one only with a reason",
            Phase::Tidy => "fix the findings above, or lift one with a reason in xtask/tidy-allow.txt",
            Phase::Tests | Phase::DocTests | Phase::Sdks => "see the failing tests above",
            Phase::Console => "see above; cargo xtask console builds console/dist anew",
            Phase::Postgres | Phase::Hints => "run one alone with the variables printed above",
            Phase::Simulation => "replay the failing seed: cargo xtask sim replay SEED",
            Phase::Chaos => "look at the folder it kept; check it again: cargo xtask chaos --check DIR",
        }
    }
}

struct Done {
    phase: Phase,
    took: Duration,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    require_tools()?;
    let started = now();
    let mut total = Count::default();
    let mut done = Vec::new();
    for phase in Phase::ALL {
        if !options.only.is_empty() && !options.only.contains(&phase) {
            continue;
        }
        eprintln!("==> {}", phase.name());
        let phase_started = now();
        let (code, count) = perform(phase, options)?;
        done.push(Done { phase, took: phase_started.elapsed() });
        total.add(count);
        if code != 0 {
            print_summary(&done, true);
            println!("failed in phase {}: {}", phase.name(), phase.remedy());
            println!("{}", result_line("FAILED", Count { failed: total.failed.max(1), ..total }, started));
            return Ok(ExitCode::FAILURE);
        }
    }
    print_summary(&done, false);
    println!("{}", result_line("ok", total, started));
    Ok(ExitCode::SUCCESS)
}

fn perform(phase: Phase, options: &Options) -> Result<(u8, Count)> {
    let uncounted = |code: u8| (code, Count::default());
    Ok(match phase {
        Phase::Format => uncounted(shell::run(shell::cargo(&["fmt", "--all", "--check"]))?),
        Phase::Clippy => {
            // The simulator is not among all targets: a plain test run does not take it along.
            let lint = |what: &[&str]| {
                shell::run(shell::cargo(
                    &[&["clippy", "--workspace"], what, &["--", "-D", "warnings"]].concat(),
                ))
            };
            uncounted(lint(&["--all-targets"])?.max(lint(&["--test", "sim"])?))
        }
        Phase::Tidy => uncounted(u8::from(!tidy::check_and_print()?)),
        Phase::Tests => {
            let postgres = servers::start()?;
            let mut command = tests_command()?;
            command.env(scratch::VARIABLE, postgres.url());
            shell::run_counting(command)?
        }
        Phase::Postgres => variants::on_postgres()?,
        Phase::Hints => variants::hints(options.all_hints)?,
        Phase::DocTests => shell::run_counting(shell::cargo(&["test", "--quiet", "--workspace", "--doc"]))?,
        Phase::Sdks => sdks::phase()?,
        Phase::Console => console::phase()?,
        Phase::Simulation => uncounted(shell::run(sim::campaign(options.seeds))?),
        Phase::Chaos => uncounted(chaos::phase()?),
    })
}

fn tests_command() -> Result<Command> {
    if !shell::has_tool("nextest") {
        eprintln!("cargo-nextest is not installed: using cargo test, which is slower");
        return Ok(shell::cargo(&["test", "--workspace", "--no-fail-fast", "--lib", "--bins", "--tests"]));
    }
    let mut command = shell::cargo(&["nextest", "run", "--workspace", "--no-fail-fast"]);
    let metadata = shell::capture(shell::cargo(&["metadata", "--no-deps", "--format-version", "1"]))?;
    if runs_with_tests(&serde_json::from_slice(&metadata)?, "runtime", "sim") {
        // The simulator has a phase and arguments of its own.
        command.args(["-E", "not (package(runtime) and binary(sim))"]);
    }
    Ok(command)
}

/// Whether the test target is one that a plain test run takes along. nextest refuses a filter that names another.
fn runs_with_tests(metadata: &serde_json::Value, package: &str, target: &str) -> bool {
    let list = |value: &serde_json::Value| value.as_array().cloned().unwrap_or_default();
    let packages = list(&metadata["packages"]).into_iter().filter(|found| found["name"] == package);
    packages
        .flat_map(|package| list(&package["targets"]))
        .any(|found| found["name"] == target && found["kind"][0] == "test" && found["test"] == true)
}

fn require_tools() -> Result<()> {
    for (tool, component) in [("fmt", "rustfmt"), ("clippy", "clippy")] {
        if !shell::has_tool(tool) {
            bail!("cargo {tool} is not installed; run: rustup component add {component}");
        }
    }
    Ok(())
}

fn print_summary(done: &[Done], last_failed: bool) {
    println!();
    for (index, Done { phase, took }) in done.iter().enumerate() {
        let word = if last_failed && index + 1 == done.len() { "FAILED" } else { "ok" };
        println!("{:<12} {:<6} {:>7.1} s", phase.name(), word, took.as_secs_f64());
    }
}

fn result_line(word: &str, count: Count, started: Instant) -> String {
    let Count { passed, failed, skipped } = count;
    let seconds = started.elapsed().as_secs_f64();
    format!(
        "test result: {word}. {passed} passed; {failed} failed; {skipped} ignored; finished in {seconds:.2}s"
    )
}

#[expect(
    clippy::disallowed_methods,
    reason = "measures how long phases take; nothing of the product runs here"
)]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_simulator_is_filtered_only_where_it_would_run() {
        let metadata = |test: bool| {
            serde_json::json!({"packages": [{"name": "runtime", "targets": [
                {"name": "runtime", "kind": ["lib"], "test": true},
                {"name": "sim", "kind": ["test"], "test": test}]}]})
        };
        assert!(runs_with_tests(&metadata(true), "runtime", "sim"));
        assert!(!runs_with_tests(&metadata(false), "runtime", "sim"));
        assert!(!runs_with_tests(&metadata(true), "runtime", "it"));
    }
}
