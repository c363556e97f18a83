//! What a measurement comes to, as a table and as JSON.

use crate::out::{Format, Out};
use anyhow::{Result, anyhow};
use serde::Serialize;

/// One measurement with the limits of the machine it was made on.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) workload: &'static str,
    pub(super) store: String,
    /// `in-process` or `http`.
    pub(super) through: &'static str,
    pub(super) concurrency: usize,
    pub(super) seconds: f64,
    pub(super) units: u64,
    pub(super) per_second: f64,
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
    /// Plain single-row inserts per second with the same settings on the same disk, before and after.
    pub(super) raw_limit_per_second: f64,
    /// Raw limit divided by `per_second`: how many plain inserts one unit costs.
    pub(super) raw_inserts_per_unit: f64,
    /// What the disk takes to sync: before and after, for w3 in between.
    pub(super) fsync_p50_ms: f64,
    /// `p50_ms` divided by `fsync_p50_ms`.
    pub(super) p50_fsyncs: f64,
    pub(super) commits_per_unit: f64,
    pub(super) rows_per_unit: f64,
    pub(super) bytes_per_unit: f64,
    pub(super) rows_per_start: f64,
    pub(super) bytes_per_start: f64,
    pub(super) rows_per_step: f64,
    pub(super) bytes_per_step: f64,
    /// What the database counted per unit; the embedded store counts nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) statements_per_unit: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) statements_per_batch: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) commits_per_batch: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) database_rows_per_unit: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) wal_bytes_per_unit: Option<f64>,
    pub(super) nodes: u64,
    /// Another connection held an old snapshot for the whole run.
    pub(super) held_snapshot: bool,
    /// Instances in the store before the measurement.
    pub(super) stored: u64,
    /// With retention: ended instances that it deleted per second beside the workload, and `per_second` of the half before,
    /// in which it deleted nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) purged_per_second: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) per_second_before: Option<f64>,
    pub(super) resident_mib: f64,
    /// Largest resident memory so far.
    pub(super) resident_peak_mib: f64,
}

pub(super) fn print(reports: &[Report], out: &Out) -> Result<()> {
    let say = |line: &str| out.line(line).map_err(|_| anyhow!("stdout is closed"));
    // JSON is one document: the report, or a list if there are several.
    if let (Format::Json, [_, _, ..]) = (out.format, reports) {
        return say(&serde_json::to_string(reports)?);
    }
    for report in reports {
        if matches!(out.format, Format::Json | Format::Jsonl) {
            say(&serde_json::to_string(report)?)?;
            continue;
        }
        let value = serde_json::to_value(report)?;
        for (name, value) in value.as_object().into_iter().flatten() {
            let shown = match value {
                serde_json::Value::Number(number) if number.is_f64() => {
                    format!("{:.3}", number.as_f64().unwrap_or_default())
                }
                serde_json::Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            say(&format!("{:<24} {shown:>14}", name.replace('_', " ")))?;
        }
        say("")?;
    }
    Ok(())
}

/// The value below which `share` of the sorted `times` lie.
pub(super) fn percentile(times: &[f64], share: f64) -> f64 {
    match times.len() {
        0 => 0.0,
        count => times[((count as f64 * share) as usize).min(count - 1)],
    }
}

/// (now, peak) resident memory of this process in MiB, where the system tells.
pub(super) fn resident_mib() -> (f64, f64) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let read = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name))?;
        line.split_whitespace().nth(1)?.parse::<f64>().ok()
    };
    (read("VmRSS:").unwrap_or(0.0) / 1024.0, read("VmHWM:").unwrap_or(0.0) / 1024.0)
}
