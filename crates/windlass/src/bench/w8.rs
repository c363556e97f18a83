//! W8: fairness. A tenant with few workflows beside one with a large backlog, and tenants with equal backlogs and with
//! different weights beside each other.
//!
//! A backlog is made by instances that wait a day, whose tenant's clock is then moved: all of them become due at once.

use super::{
    Args,
    report::percentile,
    setup::{Bench, now_ms},
};
use crate::out::{Format, Out};
use anyhow::{Result, anyhow, bail};
use machine::{TenantId, time::Span};
use runtime::api::InstanceResult;
use serde::Serialize;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// Waits a day, then the three steps of W1.
const LATER: &str = "document: { dsl: '1.0.3', namespace: bench, name: later, version: '1.0.0' }
do:
- rest: { wait: { days: 1 } }
- one: { call: 'noop:1.0.0@default' }
- two: { call: 'noop:1.0.0@default' }
- three: { call: 'noop:1.0.0@default' }
";
const DAY: Span = Span::from_secs(86_400);
/// Longer than any workflow may take here.
pub(super) const PATIENCE: Duration = Duration::from_secs(600);
/// Between two workflows of the tenant that has few.
const PACE: Duration = Duration::from_millis(20);
/// How often it is looked how far the others are.
const LOOK: Duration = Duration::from_millis(100);
/// Tenants that wait beside each other.
const RIVALS: usize = 8;
const WEIGHTS: [u32; 4] = [1, 1, 2, 4];

/// One measurement.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    workload: &'static str,
    store: String,
    /// Instances of the busy tenant, all due at once.
    backlog: u64,
    /// Workflows of the busy tenant that ended while the other was measured.
    busy_per_second: f64,
    /// Start to end of the quiet tenant's workflows, alone and beside the backlog.
    quiet_p50_ms: f64,
    quiet_p99_ms: f64,
    beside_p50_ms: f64,
    beside_p99_ms: f64,
    /// How many were measured beside the backlog.
    beside: usize,
    p99_ratio: f64,
    /// Jain's index over what equal tenants have had when half of it all is done: 1 is perfectly even, 1/n one tenant alone.
    jain_equal: f64,
    /// The same over what each has had for its weight.
    jain_weighted: f64,
    /// What each of the weighted tenants has had, by weight.
    weighted: Vec<(u32, u64)>,
}

pub(super) async fn measure(bench: &Bench, args: &Args) -> Result<Report> {
    let (busy, few) = (tenant(bench, "busy").await?, tenant(bench, "few").await?);
    let alone = paced(bench, &few, args.seconds, "w8: seconds alone").await?;
    let backlog = args.backlog;
    bench.fill_with(&busy, "later", backlog).await?;
    bench.handle.advance_clock(&busy, DAY).await?;
    let began = now_ms(&bench.clock);
    let before = bench.completed(&busy).await?;
    let beside = paced(bench, &few, args.seconds, "w8: seconds beside a backlog").await?;
    let seconds = (now_ms(&bench.clock) - began) / 1000.0;
    let done = bench.completed(&busy).await? - before;
    drain(bench, &busy, backlog).await?;
    let each = (backlog / RIVALS as u64).max(1);
    let equal = rivals(bench, "equal", &[1; RIVALS], each).await?;
    let weighted = rivals(bench, "weighted", &WEIGHTS, each).await?;
    let (quiet_p99_ms, beside_p99_ms) = (percentile(&alone, 0.99), percentile(&beside, 0.99));
    Ok(Report {
        workload: "w8",
        store: args.store.split(':').next().unwrap_or_default().to_owned(),
        backlog,
        busy_per_second: done as f64 / seconds,
        quiet_p50_ms: percentile(&alone, 0.5),
        quiet_p99_ms,
        beside_p50_ms: percentile(&beside, 0.5),
        beside_p99_ms,
        beside: beside.len(),
        p99_ratio: beside_p99_ms / quiet_p99_ms,
        jain_equal: jain(&equal),
        jain_weighted: jain(&weighted),
        weighted: weighted.iter().map(|(weight, done)| (*weight, *done)).collect(),
    })
}

async fn tenant(bench: &Bench, name: &str) -> Result<TenantId> {
    let tenant = bench.tenant_of(name).await?;
    bench.handle.deploy(&tenant, LATER.as_bytes(), machine::language::Format::Yaml, false).await?;
    Ok(tenant)
}

/// Starts one workflow after the other at an even pace, whatever the ones before take, and times each. Sorted.
pub(super) async fn paced(
    bench: &Bench,
    tenant: &TenantId,
    seconds: u64,
    what: &'static str,
) -> Result<Vec<f64>> {
    let shown = Bench::progress(what, seconds);
    let times = at_pace(seconds, || three_steps(bench, tenant)).await;
    drop(shown);
    times
}

/// One workflow of W1, from its start to its end.
pub(super) fn three_steps(bench: &Bench, tenant: &TenantId) -> impl Future<Output = Result<()>> + use<> {
    let (handle, tenant, start) = (bench.handle.clone(), tenant.clone(), bench.start_of("three"));
    async move {
        let (_, result) = handle.start_and_wait(&tenant, start, PATIENCE).await?;
        if !matches!(result, InstanceResult::Completed(_)) {
            bail!("a workflow ended as {result:?}");
        }
        Ok(())
    }
}

/// Does something at an even pace for so long, whatever the ones before take, and times each. Sorted.
#[allow(clippy::disallowed_methods, reason = "the length of a measurement is real time")]
pub(super) async fn at_pace<F>(seconds: u64, mut one: impl FnMut() -> F) -> Result<Vec<f64>>
where
    F: Future<Output = Result<()>> + Send + 'static,
{
    let over = Arc::new(AtomicBool::new(false));
    let ends = over.clone();
    let end = tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        ends.store(true, Ordering::Relaxed);
    });
    let mut running = tokio::task::JoinSet::new();
    let mut pace = tokio::time::interval(PACE);
    while !over.load(Ordering::Relaxed) {
        pace.tick().await;
        let doing = one();
        running.spawn(async move {
            let clock = runtime::clock::SystemClock;
            let began = now_ms(&clock);
            doing.await?;
            Ok::<f64, anyhow::Error>(now_ms(&clock) - began)
        });
    }
    end.await?;
    let mut times = Vec::new();
    while let Some(time) = running.join_next().await {
        times.push(time??);
    }
    times.sort_by(f64::total_cmp);
    Ok(times)
}

#[allow(clippy::disallowed_methods, reason = "looks now and then in real time")]
async fn drain(bench: &Bench, tenant: &TenantId, count: u64) -> Result<()> {
    while bench.completed(tenant).await? < count {
        tokio::time::sleep(LOOK).await;
    }
    Ok(())
}

/// Makes everything of several tenants due at once; answers each one's weight and what it has had when half of all is done.
#[allow(clippy::disallowed_methods, reason = "looks now and then in real time")]
async fn rivals(bench: &Bench, name: &str, weights: &[u32], each: u64) -> Result<Vec<(u32, u64)>> {
    let mut tenants = Vec::new();
    for (number, weight) in weights.iter().enumerate() {
        let tenant = tenant(bench, &format!("{name}-{number}")).await?;
        let change = store::TenantChange { weight: Some(*weight), ..store::TenantChange::default() };
        bench.handle.change_tenant(&tenant, change).await?;
        bench.fill_with(&tenant, "later", each).await?;
        tenants.push(tenant);
    }
    for tenant in &tenants {
        bench.handle.advance_clock(tenant, DAY).await?;
    }
    let all = each * weights.len() as u64;
    loop {
        let mut done = Vec::new();
        for (tenant, weight) in tenants.iter().zip(weights) {
            done.push((*weight, bench.completed(tenant).await?));
        }
        // With weights, the heaviest is done first; until then all of them wait.
        let half = done.iter().map(|(_, count)| count).sum::<u64>() * 2 >= all;
        if half || done.iter().any(|(_, count)| *count >= each) {
            for tenant in &tenants {
                drain(bench, tenant, each).await?;
            }
            return Ok(done);
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// (Σx)² / (n Σx²) over what each had for its weight.
fn jain(had: &[(u32, u64)]) -> f64 {
    let shares: Vec<f64> = had.iter().map(|(weight, count)| *count as f64 / f64::from(*weight)).collect();
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    if squares == 0.0 { 1.0 } else { sum * sum / (shares.len() as f64 * squares) }
}

pub(super) fn print(report: &Report, out: &Out) -> Result<()> {
    let say = |line: &str| out.line(line).map_err(|_| anyhow!("stdout is closed"));
    if matches!(out.format, Format::Json | Format::Jsonl) {
        return say(&serde_json::to_string(report)?);
    }
    say(&format!(
        "a tenant with few workflows: alone p50 {:.1} ms, p99 {:.1} ms; beside a backlog of {} p50 {:.1} ms, p99 {:.1} ms ({} measured)",
        report.quiet_p50_ms,
        report.quiet_p99_ms,
        report.backlog,
        report.beside_p50_ms,
        report.beside_p99_ms,
        report.beside
    ))?;
    say(&format!(
        "its p99 beside / alone: {:.1}; the busy tenant meanwhile: {:.0} workflows/s",
        report.p99_ratio, report.busy_per_second
    ))?;
    say(&format!(
        "Jain index over {RIVALS} equal tenants: {:.3}; by weight over {:?}: {:.3}",
        report.jain_equal, report.weighted, report.jain_weighted
    ))
}

#[cfg(test)]
mod tests {
    use super::jain;

    #[test]
    fn jains_index_is_one_for_equals_and_1_over_n_for_one_alone() {
        assert!((jain(&[(1, 5), (1, 5)]) - 1.0).abs() < 1e-9);
        assert!((jain(&[(1, 5), (1, 0), (1, 0), (1, 0)]) - 0.25).abs() < 1e-9);
        assert!((jain(&[(1, 10), (2, 20), (4, 40)]) - 1.0).abs() < 1e-9);
    }
}
