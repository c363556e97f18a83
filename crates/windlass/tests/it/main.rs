//! Black-box tests: the real binary, a real store, real signals.
//!
//! [`engine`] starts and stops the binary; every other file tests one promise. Nothing waits for a fixed time: tests
//! ask the API until it answers what they wait for, or a deadline passes.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod admin;
mod batches;
mod buses;
mod canary;
mod conformance;
mod contract;
mod deploy;
mod engine;
mod errors;
mod expressions;
mod failover;
mod fsync;
mod full;
mod hints;
mod hosts;
mod intake;
mod kill;
mod moved;
mod moving;
mod nodes;
mod records;
mod reference;
mod remote;
mod retention;
mod schedules;
mod scripts;
mod serve;
mod signals;
mod standby;
mod storm;
mod telemetry;
mod tenants;
#[path = "../../../bus/tests/it/topics.rs"]
mod topics;
mod tutorial;
mod up;
mod upgrade;
mod verbs;
mod versions;

/// A file that is not named above would silently not be tested.
#[test]
fn every_file_is_named() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it");
    for entry in std::fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let module = name.trim_end_matches(".rs");
        let named = include_str!("main.rs").contains(&format!("\nmod {module};"));
        assert!(module == "main" || named, "{name} is not part of the tests");
    }
}
