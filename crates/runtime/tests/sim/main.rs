//! The simulator: the real machine and the real runtime over a store that fails on purpose, in virtual time.
//!
//! `cargo xtask sim --seeds N` goes through seeds, each twice with equal trace hashes, and then through the mutants:
//! every switchable bug must be noticed. `cargo xtask sim replay SEED` prints what happened in one seed.

#![allow(clippy::print_stdout, clippy::print_stderr, clippy::disallowed_methods)] // a program with virtual time

mod chaos;
mod check;
mod faulty;
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

struct Args {
    seeds: u64,
    first: u64,
    replay: Option<u64>,
    mutant: Option<Mutant>,
    json: bool,
    mutants: bool,
}

fn main() -> ExitCode {
    let args = match parse() {
        Ok(args) => args,
        Err(message) => {
            eprintln!(
                "{message}\nusage: sim [--seeds N] [--first SEED] [--replay SEED [--mutant NAME]] [--no-mutants] [-o json]"
            );
            return ExitCode::from(2);
        }
    };
    match args.replay {
        Some(seed) => replay(seed, args.mutant),
        None => go(&args),
    }
}

fn parse() -> Result<Args, String> {
    let mut args = Args { seeds: 1000, first: 1, replay: None, mutant: None, json: false, mutants: true };
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
            "--no-mutants" => args.mutants = false,
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
    let minutes = began.elapsed().as_secs_f64() / 60.0;
    let per_minute = args.seeds as f64 / minutes;
    let mutants = if args.mutants { hunt(cores) } else { vec![] };
    let missed = mutants.iter().filter(|(_, seed)| seed.is_none()).count();
    if args.json {
        let shown: serde_json::Map<_, _> = mutants
            .iter()
            .map(|(mutant, seed)| {
                (format!("{mutant:?}"), if seed.is_some() { "caught" } else { "missed" }.into())
            })
            .collect();
        let report = serde_json::json!({
            "seeds": args.seeds,
            "failures": failures,
            "seeds_per_minute": per_minute.round(),
            "cores": cores,
            "seeds_per_minute_and_core": (per_minute / cores as f64).round(),
            "mutants": shown,
        });
        println!("{report}");
    } else {
        println!(
            "{} seeds, each twice: {failures} failed; {per_minute:.0} seeds per minute on {cores} cores",
            args.seeds
        );
        for (mutant, seed) in &mutants {
            match seed {
                Some(seed) => println!("mutant {mutant:?}: caught (seed {seed})"),
                None => println!("mutant {mutant:?}: MISSED in {MUTANT_SEEDS_MAX} seeds"),
            }
        }
        println!(
            "{} passed, {} failed",
            args.seeds - failures + (mutants.len() - missed) as u64,
            failures + missed as u64
        );
    }
    if failures == 0 && missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
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

/// For each mutant, the first seed that notices it.
fn hunt(cores: u64) -> Vec<(Mutant, Option<u64>)> {
    MUTANTS
        .into_iter()
        .map(|mutant| {
            let next = AtomicU64::new(1);
            let caught = AtomicU64::new(u64::MAX);
            std::thread::scope(|scope| {
                for _ in 0..cores {
                    scope.spawn(|| {
                        loop {
                            let seed = next.fetch_add(1, Ordering::Relaxed);
                            if seed > MUTANT_SEEDS_MAX || caught.load(Ordering::Relaxed) != u64::MAX {
                                return;
                            }
                            if !simulate(seed, Some(mutant), false).failures.is_empty() {
                                caught.fetch_min(seed, Ordering::Relaxed);
                            }
                        }
                    });
                }
            });
            let seed = caught.load(Ordering::Relaxed);
            (mutant, (seed != u64::MAX).then_some(seed))
        })
        .collect()
}
