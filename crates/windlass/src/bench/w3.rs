//! W3: the workflow of W1 alone on an idle node: start to end.
//!
//! The disk's sync, which it is compared with, is timed once after every workflow: both have the same neighbours.

use super::{
    Args,
    report::{Report, percentile, resident_mib},
    setup::{Bench, Limits, elapsed, now_ms},
};
use anyhow::{Result, ensure};
use runtime::api::InstanceResult;
use std::time::Duration;

pub(super) async fn measure(bench: &Bench, args: &Args) -> Result<Report> {
    let (start_cost, unit_cost) = bench.cost_of_one().await?;
    let counted_before = bench.counted().await?;
    let _shown = Bench::progress("w3: seconds", args.seconds);
    let began = now_ms(&bench.clock);
    let (mut times, mut syncs) = (Vec::new(), bench.syncs()?);
    while now_ms(&bench.clock) - began < args.seconds as f64 * 1000.0 {
        let before = now_ms(&bench.clock);
        let start = bench.start_of("three");
        let (_, result) = bench.handle.start_and_wait(&bench.tenant, start, Duration::from_secs(10)).await?;
        ensure!(matches!(result, InstanceResult::Completed(_)), "a workflow ended as {result:?}");
        times.push(now_ms(&bench.clock) - before);
        syncs.once(&elapsed)?;
    }
    let seconds = (now_ms(&bench.clock) - began) / 1000.0;
    times.sort_by(f64::total_cmp);
    let after = bench.counted().await?;
    let counted = after.zip(counted_before).map(|(after, before)| after.per_unit(before, times.len()));
    let p50_ms = percentile(&times, 0.5);
    // One at a time: as many as fit into a second, the syncs between them left out.
    let per_second = times.len() as f64 * 1000.0 / times.iter().sum::<f64>();
    let limits = Limits { fsync_micros: syncs.p50_micros(), ..bench.limits_around().await? };
    let (resident, peak) = resident_mib();
    Ok(Report {
        workload: "w3",
        store: args.store.split(':').next().unwrap_or_default().to_owned(),
        through: "in-process",
        concurrency: 1,
        seconds,
        units: times.len() as u64,
        per_second,
        p50_ms,
        p99_ms: percentile(&times, 0.99),
        raw_limit_per_second: limits.raw_per_second,
        raw_inserts_per_unit: limits.raw_per_second / per_second,
        fsync_p50_ms: limits.fsync_micros / 1000.0,
        p50_fsyncs: p50_ms * 1000.0 / limits.fsync_micros,
        commits_per_unit: unit_cost.commits,
        rows_per_unit: unit_cost.rows,
        bytes_per_unit: unit_cost.bytes,
        rows_per_start: start_cost.rows,
        bytes_per_start: start_cost.bytes,
        rows_per_step: (unit_cost.rows - start_cost.rows) / 3.0,
        bytes_per_step: (unit_cost.bytes - start_cost.bytes) / 3.0,
        statements_per_unit: counted.map(|counted| counted.statements),
        statements_per_batch: counted.map(|counted| counted.statements_per_batch),
        commits_per_batch: counted.map(|counted| counted.commits_per_batch),
        database_rows_per_unit: counted.map(|counted| counted.rows),
        wal_bytes_per_unit: counted.map(|counted| counted.wal_bytes),
        nodes: args.nodes,
        held_snapshot: args.held_snapshot,
        stored: args.stored,
        purged_per_second: None,
        per_second_before: None,
        resident_mib: resident,
        resident_peak_mib: peak,
    })
}
