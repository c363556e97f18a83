//! The simulator: the real machine and the real runtime over a store that fails on purpose, in virtual time.
//!
//! `cargo xtask sim --seeds N` goes through seeds, each twice with equal trace hashes, and then through the mutants:
//! every switchable bug must be noticed. `cargo xtask sim replay SEED` prints what happened in one seed.

#![allow(clippy::print_stdout, clippy::print_stderr, clippy::disallowed_methods)] // a program with virtual time

mod beat;
mod chaos;
mod check;
mod clients;
mod definitions;
mod faults;
mod faulty;
mod leases;
mod mutants;
mod nodes;
mod outside;
mod people;
mod seen;
mod tally;
mod tenant;
mod time;
mod weeks;
mod world;

use chaos::{MUTANTS, Mutant};
use std::{
    process::ExitCode,
    sync::atomic::{AtomicU64, Ordering},
    time::Instant,
};
use world::simulate;

/// Seeds a mutant may hide in before it counts as missed.
const MUTANT_SEEDS_MAX: u64 = 4000;
/// Seeds that `--mutants` goes through with each mutant, to say in how many it is caught.
const MUTANT_SEEDS_COUNTED: u64 = 300;

const USAGE: &str = "usage: sim [--seeds N] [--first SEED] [--no-mutants | --mutants] [--unfixed] [-o json]
       sim --replay SEED [--mutant NAME] [--unfixed]";

struct Args {
    seeds: u64,
    first: u64,
    replay: Option<u64>,
    mutant: Option<Mutant>,
    json: bool,
    hunt: Hunt,
}

/// How the mutants are tried.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Hunt {
    No,
    /// Until a seed catches it.
    First,
    /// In the first [`MUTANT_SEEDS_COUNTED`] seeds, and beyond if none of them catches it.
    Count,
}

/// What came of one mutant.
struct Caught {
    mutant: Mutant,
    /// The lowest seed that is known to catch it.
    seed: Option<u64>,
    /// How many of the first seeds do, if counted.
    count: u64,
}

fn main() -> ExitCode {
    let args = match parse() {
        Ok(args) => args,
        Err(message) => {
            eprintln!("{message}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match args.replay {
        Some(seed) => replay(seed, args.mutant),
        None => go(&args),
    }
}

fn parse() -> Result<Args, String> {
    let mut args = Args { seeds: 1000, first: 1, replay: None, mutant: None, json: false, hunt: Hunt::First };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} needs a value"));
        let number = |text: String| text.parse::<u64>().map_err(|_| format!("{text:?} is not a number"));
        match word.as_str() {
            "--seeds" => args.seeds = number(value()?)?,
            "--first" => args.first = number(value()?)?,
            "--replay" => args.replay = Some(number(value()?)?),
            "--mutant" => {
                let name = value()?;
                let found = MUTANTS.into_iter().find(|mutant| format!("{mutant:?}") == name);
                args.mutant = Some(found.ok_or(format!("no mutant is called {name:?}"))?);
            }
            "--no-mutants" => args.hunt = Hunt::No,
            "--mutants" => args.hunt = Hunt::Count,
            "-o" => args.json = value()? == "json",
            other => return Err(format!("{other:?} is not understood")),
        }
    }
    Ok(args)
}

fn replay(seed: u64, mutant: Option<Mutant>) -> ExitCode {
    let verdict = simulate(seed, mutant, true);
    print!("{}", verdict.log);
    println!("trace {}", verdict.trace);
    for failure in &verdict.failures {
        println!("FAILED {failure}");
    }
    if verdict.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn go(args: &Args) -> ExitCode {
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let began = Instant::now();
    let failures = seeds(args, cores);
    let per_minute = args.seeds as f64 * 60.0 / began.elapsed().as_secs_f64();
    let per_cpu_minute = args.seeds as f64 * 60.0 / cpu_seconds().max(0.01);
    let mutants: Vec<Caught> = match args.hunt {
        Hunt::No => vec![],
        hunt => MUTANTS.into_iter().map(|mutant| chase(mutant, hunt, cores)).collect(),
    };
    let missed = mutants.iter().filter(|caught| caught.seed.is_none()).count() as u64;
    match args.json {
        true => print_json(args, failures, (per_minute, per_cpu_minute), cores, &mutants),
        false => {
            println!(
                "{} seeds, each twice: {failures} failed; {per_minute:.0} seeds per minute on {cores} cores, \
                 {per_cpu_minute:.0} per minute of one core's time",
                args.seeds
            );
            for caught in &mutants {
                print_mutant(caught, args.hunt);
            }
            let passed = args.seeds - failures + mutants.len() as u64 - missed;
            println!("{passed} passed, {} failed", failures + missed);
        }
    }
    if failures == 0 && missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn print_mutant(caught: &Caught, hunt: Hunt) {
    let Caught { mutant, seed, count } = caught;
    match seed {
        None => println!("mutant {mutant:?}: MISSED in {MUTANT_SEEDS_MAX} seeds"),
        Some(seed) if hunt == Hunt::Count => {
            let percent = *count as f64 * 100.0 / MUTANT_SEEDS_COUNTED as f64;
            println!(
                "mutant {mutant:?}: caught in {count} of {MUTANT_SEEDS_COUNTED} seeds ({percent:.1} %), first {seed}"
            );
        }
        Some(seed) => println!("mutant {mutant:?}: caught (seed {seed})"),
    }
}

/// What the process has used of processors: others may share them.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // User and system time are the 12th and 13th value after the name, in hundredths.
    let values = stat.rsplit(") ").next().unwrap_or_default();
    let ticks: f64 = values.split(' ').skip(11).take(2).filter_map(|value| value.parse::<f64>().ok()).sum();
    ticks / 100.0
}

fn print_json(
    args: &Args,
    failures: u64,
    (per_minute, per_cpu_minute): (f64, f64),
    cores: u64,
    mutants: &[Caught],
) {
    let word = |caught: &Caught| if caught.seed.is_some() { "caught" } else { "missed" };
    let name = |caught: &Caught| format!("{:?}", caught.mutant);
    let shown: serde_json::Map<_, _> = mutants.iter().map(|one| (name(one), word(one).into())).collect();
    let mut report = serde_json::json!({
        "seeds": args.seeds,
        "failures": failures,
        "seeds_per_minute": per_minute.round(),
        "cores": cores,
        "seeds_per_minute_and_core": (per_minute / cores as f64).round(),
        "seeds_per_minute_of_cpu": per_cpu_minute.round(),
        "mutants": shown,
    });
    if args.hunt == Hunt::Count {
        let counts: serde_json::Map<_, _> = mutants.iter().map(|one| (name(one), one.count.into())).collect();
        report["mutant_seeds"] = MUTANT_SEEDS_COUNTED.into();
        report["mutants_caught_in"] = counts.into();
    }
    println!("{report}");
}

/// Goes through every seed twice, on all cores.
fn seeds(args: &Args, cores: u64) -> u64 {
    let next = AtomicU64::new(args.first);
    let failed = AtomicU64::new(0);
    let end = args.first + args.seeds;
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end {
                        return;
                    }
                    let (one, two) = (simulate(seed, None, false), simulate(seed, None, false));
                    if one.trace != two.trace {
                        eprintln!("seed {seed}: the two goes differ ({} and {})", one.trace, two.trace);
                    }
                    for failure in &one.failures {
                        eprintln!("seed {seed}: {failure}");
                    }
                    if one.trace != two.trace || !one.failures.is_empty() {
                        failed.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    failed.load(Ordering::Relaxed)
}

/// Looks for seeds that notice the mutant, on all cores.
fn chase(mutant: Mutant, hunt: Hunt, cores: u64) -> Caught {
    let next = AtomicU64::new(1);
    let first = AtomicU64::new(u64::MAX);
    let count = AtomicU64::new(0);
    let counted = if hunt == Hunt::Count { MUTANT_SEEDS_COUNTED } else { 0 };
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    let found = first.load(Ordering::Relaxed) != u64::MAX;
                    if seed > MUTANT_SEEDS_MAX || (found && seed > counted) {
                        return;
                    }
                    if !simulate(seed, Some(mutant), false).failures.is_empty() {
                        first.fetch_min(seed, Ordering::Relaxed);
                        count.fetch_add(u64::from(seed <= counted), Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let seed = first.load(Ordering::Relaxed);
    Caught { mutant, seed: (seed != u64::MAX).then_some(seed), count: count.load(Ordering::Relaxed) }
}
