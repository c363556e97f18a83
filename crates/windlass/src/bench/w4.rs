//! W4: fan-out over a dataset, one child per item. The figure is microseconds per item, and that it does not grow.

use super::{
    Args,
    report::resident_mib,
    setup::{Bench, now_ms},
};
use crate::out::{Format, Out};
use anyhow::{Result, anyhow, bail};
use clap::ValueEnum;
use machine::{
    Data,
    id::{self, Kind},
};
use runtime::api::InstanceResult;
use serde::Serialize;
use std::{collections::BTreeMap, time::Duration};

/// Longer than any fan-out may take here.
const PATIENCE: Duration = Duration::from_secs(1800);

/// What each child does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Child {
    /// One step in process.
    Pure,
    /// One durable call to a worker that does nothing.
    Call,
    /// One step that faults.
    Fault,
}

impl Child {
    fn word(self) -> &'static str {
        match self {
            Child::Pure => "pure",
            Child::Call => "call",
            Child::Fault => "fault",
        }
    }
}

/// One measurement.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    workload: &'static str,
    store: String,
    /// `pure` (one step in process), `call` (one durable step) or `fault`.
    child: &'static str,
    /// By number of items.
    us_per_item: BTreeMap<u64, f64>,
    /// An item among the most divided by one among the fewest; it must stay below 1.3.
    growth: f64,
    rows_per_item: BTreeMap<u64, f64>,
    bytes_per_item: BTreeMap<u64, f64>,
    commits_per_item: BTreeMap<u64, f64>,
    /// Resident memory after each.
    resident_mib: BTreeMap<u64, f64>,
    /// Largest resident memory so far.
    resident_peak_mib: f64,
    raw_limit_per_second: f64,
    fsync_p50_ms: f64,
}

pub(super) async fn measure(bench: &Bench, args: &Args) -> Result<Report> {
    let mut report = Report {
        workload: "w4",
        store: args.store.clone(),
        child: args.child.word(),
        us_per_item: BTreeMap::new(),
        growth: 1.0,
        rows_per_item: BTreeMap::new(),
        bytes_per_item: BTreeMap::new(),
        commits_per_item: BTreeMap::new(),
        resident_mib: BTreeMap::new(),
        resident_peak_mib: 0.0,
        raw_limit_per_second: bench.limits.raw_per_second,
        fsync_p50_ms: bench.limits.fsync_micros / 1000.0,
    };
    // The first fan-out of a process pays for what all others find warm.
    fan_out(bench, args.child, 200).await?;
    for &count in &args.items {
        if count == 0 {
            bail!("there must be items");
        }
        let before = bench.cost();
        let micros = fan_out(bench, args.child, count).await?;
        let cost = bench.cost().minus(before);
        let per_item = |value: f64| value / count as f64;
        report.us_per_item.insert(count, per_item(micros));
        report.rows_per_item.insert(count, per_item(cost.rows));
        report.bytes_per_item.insert(count, per_item(cost.bytes));
        report.commits_per_item.insert(count, per_item(cost.commits));
        let (resident, peak) = resident_mib();
        report.resident_mib.insert(count, resident);
        report.resident_peak_mib = peak;
    }
    if let (Some((_, fewest)), Some((_, most))) =
        (report.us_per_item.first_key_value(), report.us_per_item.last_key_value())
    {
        report.growth = most / fewest;
    }
    Ok(report)
}

/// Uploads `count` items and goes through them; answers the microseconds that the fan-out itself took.
async fn fan_out(bench: &Bench, child: Child, count: u64) -> Result<f64> {
    let mut upload = bench.handle.upload(&bench.tenant);
    for n in 0..count {
        let n = Data::int(i64::try_from(n)?);
        let item = Data::map([("n".to_owned(), n), ("name".to_owned(), Data::text("an item of some bytes"))]);
        upload.push(item).await?;
    }
    let dataset = upload.finish().await?;
    let mut start = bench.start_of("map");
    start.input = Data::map([
        ("items".to_owned(), Data::text(id::show(Kind::Dataset, dataset.id))),
        ("child".to_owned(), Data::text(child.word())),
    ]);
    let began = now_ms(&bench.clock);
    let (_, result) = bench.handle.start_and_wait(&bench.tenant, start, PATIENCE).await?;
    let took = now_ms(&bench.clock) - began;
    let InstanceResult::Completed(output) = &result else { bail!("the fan-out ended as {result:?}") };
    let ended = output.get(if child == Child::Fault { "failed" } else { "succeeded" });
    if ended.and_then(|ended| ended.as_i64()) != i64::try_from(count).ok() {
        bail!("not every item ended as it should: {output:?}");
    }
    Ok(took * 1000.0)
}

pub(super) fn print(report: &Report, out: &Out) -> Result<()> {
    let say = |line: &str| out.line(line).map_err(|_| anyhow!("stdout is closed"));
    if matches!(out.format, Format::Json | Format::Jsonl) {
        return say(&serde_json::to_string(report)?);
    }
    say(&format!("fan-out, child: {}", report.child))?;
    say(&format!(
        "{:>10} {:>14} {:>10} {:>12} {:>12}",
        "items", "µs per item", "rows", "bytes", "resident MiB"
    ))?;
    for (count, micros) in &report.us_per_item {
        let (rows, bytes) = (report.rows_per_item[count], report.bytes_per_item[count]);
        say(&format!(
            "{count:>10} {micros:>14.1} {rows:>10.2} {bytes:>12.0} {:>12.1}",
            report.resident_mib[count]
        ))?;
    }
    say(&format!("an item among the most / among the fewest: {:.2}", report.growth))
}
