//! W6: many timers that come due in the same moment. The figures are how many fire per second, and what one costs: a store
//! that claims rows again and again shows it there.
//!
//! Instances wait a day; then their tenant's clock is moved, and all of them are due at once.

use super::{
    Args,
    setup::{Bench, now_ms},
};
use crate::out::{Format, Out};
use anyhow::{Result, anyhow, ensure};
use machine::time::Span;
use serde::Serialize;
use std::time::Duration;

const DAY: Span = Span::from_secs(86_400);
/// How often it is looked how far they are.
const LOOK: Duration = Duration::from_millis(50);

/// One measurement.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    workload: &'static str,
    store: String,
    nodes: u64,
    timers: u64,
    seconds: f64,
    per_second: f64,
    /// Commits and rows by the node's own count; only of the first node if there are several.
    commits_per_timer: f64,
    rows_per_timer: f64,
    /// By the database's count; the embedded store counts nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    database_rows_per_timer: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    wal_bytes_per_timer: Option<f64>,
    raw_limit_per_second: f64,
    fsync_p50_ms: f64,
}

#[allow(clippy::disallowed_methods, reason = "looks now and then in real time")]
pub(super) async fn measure(bench: &Bench, args: &Args) -> Result<Report> {
    let tenant = bench.tenant_of("timers").await?;
    let before = bench.completed(&tenant).await?;
    let timers = args.backlog;
    bench.fill_with(&tenant, "sleep", timers).await?;
    let (cost, counted) = (bench.cost(), bench.counted().await?);
    let began = now_ms(&bench.clock);
    bench.handle.advance_clock(&tenant, DAY).await?;
    while bench.completed(&tenant).await? < before + timers {
        tokio::time::sleep(LOOK).await;
    }
    let seconds = (now_ms(&bench.clock) - began) / 1000.0;
    let left = bench.handle.store().counts(Some(&tenant)).await?;
    ensure!((left.timers, left.dead_letters) == (0, 0), "timers are left: {left:?}");
    let ended = bench.completed(&tenant).await? - before;
    ensure!(ended == timers, "{timers} timers, and {ended} instances ended");
    let after = bench.counted().await?;
    let counted = after.zip(counted).map(|(after, before)| after.per_unit(before, timers as usize));
    let cost = bench.cost().minus(cost);
    let limits = bench.limits_around().await?;
    Ok(Report {
        workload: "w6",
        store: args.store.split(':').next().unwrap_or_default().to_owned(),
        nodes: args.nodes,
        timers,
        seconds,
        per_second: timers as f64 / seconds,
        commits_per_timer: cost.commits / timers as f64,
        rows_per_timer: cost.rows / timers as f64,
        database_rows_per_timer: counted.map(|counted| counted.rows),
        wal_bytes_per_timer: counted.map(|counted| counted.wal_bytes),
        raw_limit_per_second: limits.raw_per_second,
        fsync_p50_ms: limits.fsync_micros / 1000.0,
    })
}

pub(super) fn print(report: &Report, out: &Out) -> Result<()> {
    let say = |line: &str| out.line(line).map_err(|_| anyhow!("stdout is closed"));
    if matches!(out.format, Format::Json | Format::Jsonl) {
        return say(&serde_json::to_string(report)?);
    }
    say(&format!(
        "{} timers due at once: all fired once within {:.1} s, {:.0} per second",
        report.timers, report.seconds, report.per_second
    ))?;
    say(&format!("per timer: {:.2} commits, {:.2} rows", report.commits_per_timer, report.rows_per_timer))?;
    if let (Some(rows), Some(bytes)) = (report.database_rows_per_timer, report.wal_bytes_per_timer) {
        say(&format!("as the database counts: {rows:.2} rows and {bytes:.0} bytes of WAL per timer"))?;
    }
    Ok(())
}
