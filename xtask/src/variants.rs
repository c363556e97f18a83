//! The same tests once more: nodes and the API on the other store with hints of which every second is lost, all tests of
//! nodes with doubled hints, and those in which hints play a part on the other store with hints that are whole or late. Without the variable there are no hints, as in all other phases.
//! The harness reads the variables; the product knows nothing of them.

use crate::{
    servers,
    shell::{self, Count},
};
use anyhow::Result;
use std::process::Command;

const STORE: (&str, &str) = ("WINDLASS_TEST_STORE", "postgres");
const HINTS: &str = "WINDLASS_TEST_HINTS";
/// What becomes of hints where every test is run.
const LOST: &str = "lost";
const DOUBLED: &str = "doubled";
/// What becomes of them where those of [`MODULES`] are run on PostgreSQL.
const FATES: [&str; 2] = ["whole", "late"];
/// And where all are run that way.
const ALL_FATES: [&str; 4] = ["off", "whole", DOUBLED, "late"];
/// The packages that have tests of nodes.
const PACKAGES: [&str; 2] = ["runtime", "server"];
const TRIALS: &str = "conforms::";
/// Tests of the runtime in which work goes from node to node, waits to be found, or is told of.
const MODULES: [&str; 18] = [
    "batches::",
    "buses::",
    "children::",
    "collections::",
    "deliveries::",
    "events::",
    "fanout::",
    "hints::",
    "nodes::",
    "outages::",
    "outbox::",
    "restart::",
    "runs::",
    "schedules::",
    "signals::",
    "stop::",
    "tenants::",
    "timers::",
];

/// All tests of the runtime and of the server, on PostgreSQL and with every second hint lost. Not those that put workers on trial: each of them is dozens of
/// worlds, and nothing in them is about the store.
pub(crate) fn on_postgres() -> Result<(u8, Count)> {
    let server = servers::start()?;
    let mut command = tests(&PACKAGES, &[], Some(TRIALS));
    command.env(scratch::VARIABLE, server.url()).env(STORE.0, STORE.1).env(HINTS, LOST);
    say(&[STORE, (HINTS, LOST)]);
    shell::run_counting(command)
}

/// All tests of the runtime with doubled hints, and those in which hints play a part, or all of them, on PostgreSQL with every
/// other fate of hints.
pub(crate) fn hints(all: bool) -> Result<(u8, Count)> {
    let server = servers::start()?;
    let mut doubled = tests(&["runtime"], &[], Some(TRIALS));
    doubled.env(scratch::VARIABLE, server.url()).env(HINTS, DOUBLED);
    say(&[(HINTS, DOUBLED)]);
    let (mut worst, mut total) = shell::run_counting(doubled)?;
    let fates = if all { &ALL_FATES[..] } else { &FATES[..] };
    for &fate in fates {
        let mut command = match all {
            true => tests(&PACKAGES, &[], Some(TRIALS)),
            false => tests(&["runtime"], &MODULES, None),
        };
        command.env(scratch::VARIABLE, server.url()).env(STORE.0, STORE.1).env(HINTS, fate);
        say(&[STORE, (HINTS, fate)]);
        let (code, count) = shell::run_counting(command)?;
        worst = worst.max(code);
        total.add(count);
    }
    Ok((worst, total))
}

fn say(variables: &[(&str, &str)]) {
    let words: Vec<String> = variables.iter().map(|(name, value)| format!("{name}={value}")).collect();
    eprintln!("{}", words.join(" "));
}

/// The integration tests of these packages, or of them those whose names are like this, but for those like that.
fn tests(packages: &[&str], names: &[&str], but: Option<&str>) -> Command {
    if shell::has_tool("nextest") {
        let filter = filter(packages, names, but);
        return shell::cargo(&["nextest", "run", "--workspace", "--no-fail-fast", "-E", &filter]);
    }
    let mut command = shell::cargo(&["test", "--no-fail-fast", "--test", "it"]);
    command.args(packages.iter().flat_map(|package| ["--package", package]));
    command.arg("--").args(names).args(but.into_iter().flat_map(|but| ["--skip", but]));
    command
}

/// The same in the language of nextest.
fn filter(packages: &[&str], names: &[&str], but: Option<&str>) -> String {
    let any = |what: &str, of: &[&str]| {
        let each: Vec<String> = of.iter().map(|one| format!("{what}({one})")).collect();
        each.join(" | ")
    };
    let packages = format!("binary(it) & ({})", any("package", packages));
    let named = if names.is_empty() { String::new() } else { format!(" & ({})", any("test", names)) };
    let but = but.map_or(String::new(), |but| format!(" - test({but})"));
    packages + &named + &but
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_names_packages_and_tests() {
        assert_eq!(filter(&["a", "b"], &[], None), "binary(it) & (package(a) | package(b))");
        assert_eq!(
            filter(&["a"], &["c::"], Some("d::")),
            "binary(it) & (package(a)) & (test(c::)) - test(d::)"
        );
    }
}
