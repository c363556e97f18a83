//! Harms. Proves with real nodes, a real PostgreSQL and real faults that what the engine acknowledged is never lost and
//! what it finished is not done twice: `cargo xtask chaos`.
//!
//! The way in: [`run`] sets up a cluster and harms it while clients work; [`check`] compares what they wrote down with
//! what is promised. Between the two lies a folder, so that a failed run can be checked again. `program` makes random
//! workflows whose end it reckons itself, `driver` is the clients, `nemesis` the faults, `proxy` what stands between a
//! node and the database, `sink` the outside world, `worker` one that handles events.
//!
//! Black box: it knows the engine by its binary and its API, and no crate of the product. Nothing depends on it.

mod check;
mod client;
mod clock;
mod collect;
mod database;
mod driver;
mod feed;
mod journal;
mod nemesis;
mod node;
mod program;
mod proxy;
mod record;
mod report;
mod run;
mod sink;
mod worker;

use anyhow::{Context, Result};
use clap::Parser;
use record::{Hints, Record, Settings};
use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

/// A check failed, or something did not come to an end.
const FAILED: u8 = 1;
/// Too little happened under faults for the run to prove anything.
const INVALID: u8 = 3;
/// Nothing was checked: the run itself broke.
const BROKEN: u8 = 2;

/// Harms a cluster and checks what it promised
#[derive(Parser)]
#[command(name = "cargo xtask chaos")]
struct Arguments {
    /// How long faults go on at least; longer until each kind of fault has met something
    #[arg(long, default_value_t = 60, value_name = "N")]
    seconds: u64,
    /// The same seed draws the same programs and faults; any if left out
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=9), value_name = "N")]
    nodes: u8,
    /// Instances that clients have under way at a time
    #[arg(long, default_value_t = 24, value_name = "N")]
    clients: usize,
    /// What carries hints between nodes; by the seed if left out
    #[arg(long, value_enum, value_name = "WAY")]
    hints: Option<Hints>,
    /// Let the database acknowledge commits before they are durable: the run must fail, or the checks see nothing
    #[arg(long)]
    lying_database: bool,
    /// Keep the run's folder here, whatever comes of it
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Check the folder of an earlier run again, and run nothing
    #[arg(long, value_name = "DIR")]
    check: Option<PathBuf>,
    /// The engine's binary
    #[arg(long, value_name = "FILE", required_unless_present = "check")]
    windlass: Option<PathBuf>,
    /// The binary of another version: nodes change between the two whenever they start again
    #[arg(long, value_name = "FILE")]
    other: Option<PathBuf>,
}

#[expect(clippy::print_stderr, reason = "tells people what went wrong")]
fn main() -> ExitCode {
    ran().unwrap_or_else(|error| {
        eprintln!("chaos: {error:#}");
        ExitCode::from(BROKEN)
    })
}

fn ran() -> Result<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    let runtime = tokio::runtime::Runtime::new()?;
    if arguments.next().is_some_and(|first| first == sink::ARGUMENT) {
        let file = arguments.next().context("a file for the sink")?;
        return runtime.block_on(sink::run(file.into())).map(|()| ExitCode::SUCCESS);
    }
    let arguments = Arguments::parse();
    match &arguments.check {
        Some(folder) => Ok(ExitCode::from(judged(folder, &[])?)),
        None => runtime.block_on(harmed(&arguments)),
    }
}

#[expect(clippy::print_stdout, reason = "tells people what it does")]
async fn harmed(arguments: &Arguments) -> Result<ExitCode> {
    let seed = arguments.seed.unwrap_or_else(|| clock::now_us().unsigned_abs() % 1_000_000);
    let settings = Settings {
        seed,
        seconds: arguments.seconds,
        nodes: arguments.nodes.into(),
        hints: arguments.hints.unwrap_or(Hints::of(seed)),
        lying: arguments.lying_database,
    };
    let folder = folder(arguments.keep.as_deref(), seed)?;
    println!(
        "seed {seed}: {} nodes, hints {:?}, faults for {} s; see {}",
        settings.nodes,
        settings.hints,
        settings.seconds,
        folder.display()
    );
    let windlass = arguments.windlass.as_ref().context("--windlass names the engine's binary")?;
    let found = |file: &PathBuf| file.canonicalize().with_context(|| format!("no {}", file.display()));
    let (windlass, other) = (found(windlass)?, arguments.other.as_ref().map(found).transpose()?);
    let plan = run::Plan { settings, clients: arguments.clients, windlass, other, folder: folder.clone() };
    let drained = tokio::select! {
        drained = run::run(&plan) => drained.with_context(|| format!("seed {seed}; see {}", folder.display()))?,
        _ = tokio::signal::ctrl_c() => anyhow::bail!("interrupted; see {}", folder.display()),
    };
    let code = judged(&folder, &drained.stuck)?;
    if code == 0 && arguments.keep.is_none() {
        std::fs::remove_dir_all(&folder)?;
    } else {
        println!("kept {0}; check it again: cargo xtask chaos --check {0}", folder.display());
    }
    Ok(ExitCode::from(code))
}

fn folder(keep: Option<&Path>, seed: u64) -> Result<PathBuf> {
    let folder = match keep {
        Some(folder) => folder.to_owned(),
        None => std::env::temp_dir().join(format!("windlass-chaos-{seed}-{}", std::process::id())),
    };
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    Ok(folder.canonicalize()?)
}

/// Prints the table; answers the exit code.
#[expect(clippy::print_stdout, reason = "tells people what came of it")]
fn judged(folder: &Path, stuck: &[String]) -> Result<u8> {
    let record = Record::load(folder)?;
    let verdicts = check::check(&record);
    println!("{}", report::table(&record, &verdicts));
    for one in stuck {
        println!("did not end in time: {one}");
    }
    let seed = record.settings.seed;
    let failed = verdicts.iter().filter(|verdict| !verdict.wrong.is_empty()).count();
    if failed > 0 || !stuck.is_empty() {
        println!("chaos: FAILED, seed {seed}: {failed} checks, {} not ended", stuck.len());
        return Ok(FAILED);
    }
    if let Some(why) = check::invalid(&record) {
        println!("chaos: INVALID, seed {seed}: {why}");
        return Ok(INVALID);
    }
    println!("chaos: ok, seed {seed}");
    Ok(0)
}
