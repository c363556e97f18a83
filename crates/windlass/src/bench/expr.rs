//! Expressions: what a condition costs when its program is compiled and its data is in memory, as in a turn.

use super::report::percentile;
use crate::out::{Format, Out};
use anyhow::{Context, Result, anyhow, ensure};
use machine::{
    Data,
    expr::{Args, Compiled},
};
use runtime::clock::{Clock, SystemClock};
use serde::Serialize;

/// A condition, its data and what it must come to.
const CONDITION: &str = ".order.total > 100 and $context.approved";
const INPUT: &str = r#"{"order":{"id":"o-1001","total":840,"currency":"EUR","customer":{"id":"c-17","name":"Example Ltd",
    "address":{"street":"Long Street 1","city":"Somewhere","zip":"12345","country":"XX"}},
    "lines":[{"sku":"winch","quantity":2,"unitPrice":420},{"sku":"rope","quantity":10,"unitPrice":3},
             {"sku":"hook","quantity":4,"unitPrice":7},{"sku":"drum","quantity":1,"unitPrice":99}]},
    "requestedBy":"ada","requestedAt":"2026-01-31T12:00:00Z","channel":"web","notes":"please deliver before noon"}"#;
const CONTEXT: &str = r#"{"approved":true,"approver":"bob","limits":{"amount":1000}}"#;
/// Evaluations between two looks at the clock, which tells microseconds.
const ROUND: u32 = 1000;

/// What was measured.
#[derive(Serialize)]
struct Report {
    workload: &'static str,
    expression: &'static str,
    evaluations: u64,
    seconds: f64,
    us_p50: f64,
    us_p99: f64,
    /// Compiling the expression, which happens once for a definition version.
    compile_us: f64,
}

/// Measures for `seconds` and prints.
pub(super) fn measure(seconds: u64, out: &Out) -> Result<()> {
    let read = |text: &str| Data::parse(text.as_bytes()).map_err(|error| anyhow!("{error}"));
    let (input, mut args) = (read(INPUT)?, Args::default());
    args.fixed[0] = read(CONTEXT)?;
    let clock = SystemClock;
    let began = clock.steady_micros();
    let compiled = Compiled::new(CONDITION, &[]).map_err(|error| anyhow!("{error}"))?;
    let compile_us = (clock.steady_micros() - began) as f64;
    let evaluate =
        || compiled.eval(&input, &args).context("it takes too long")?.map_err(|fault| anyhow!("{fault:?}"));
    ensure!(evaluate()? == Data::bool(true), "the condition does not hold");
    let mut rounds = Vec::new();
    let began = clock.steady_micros();
    while clock.steady_micros() - began < seconds * 1_000_000 {
        let before = clock.steady_micros();
        for _ in 0..ROUND {
            std::hint::black_box(evaluate()?);
        }
        rounds.push((clock.steady_micros() - before) as f64 / f64::from(ROUND));
    }
    let took = (clock.steady_micros() - began) as f64 / 1e6;
    rounds.sort_by(f64::total_cmp);
    let report = Report {
        workload: "expr",
        expression: CONDITION,
        evaluations: rounds.len() as u64 * u64::from(ROUND),
        seconds: took,
        us_p50: percentile(&rounds, 0.5),
        us_p99: percentile(&rounds, 0.99),
        compile_us,
    };
    print(&report, out)
}

fn print(report: &Report, out: &Out) -> Result<()> {
    let say = |line: &str| out.line(line).map_err(|_| anyhow!("stdout is closed"));
    if matches!(out.format, Format::Json | Format::Jsonl) {
        return say(&serde_json::to_string(report)?);
    }
    say(&format!("{:<24} {}", "expression", report.expression))?;
    let figures = [("us p50", report.us_p50), ("us p99", report.us_p99), ("compile us", report.compile_us)];
    figures.iter().try_for_each(|(name, figure)| say(&format!("{name:<24} {figure:>14.3}")))
}
