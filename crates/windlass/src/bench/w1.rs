//! W1: workflows of three durable no-op steps, closed loop at high concurrency.

use super::{
    Args,
    report::{Report, percentile, resident_mib},
    setup::{Bench, now_ms},
};
use anyhow::{Context, Result, bail};
use runtime::api::InstanceResult;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// Longer than any workflow may take here.
const PATIENCE: Duration = Duration::from_secs(60);

pub(super) async fn measure(bench: &Bench, args: &Args) -> Result<Report> {
    let (start_cost, unit_cost) = bench.cost_of_one().await?;
    // Until the first half is over nothing is old enough to be deleted.
    let per_second_before = match args.retention {
        true => {
            let (times, seconds) = load(bench, args).await?;
            Some(times.len() as f64 / seconds)
        }
        false => None,
    };
    let (before, purged) = (bench.counted().await?, bench.purged());
    let (mut times, seconds) = load(bench, args).await?;
    let purged_per_second = args.retention.then(|| (bench.purged() - purged) / seconds);
    times.sort_by(f64::total_cmp);
    let after = bench.counted().await?;
    let counted = after.zip(before).map(|(after, before)| after.per_unit(before, times.len()));
    let per_second = times.len() as f64 / seconds;
    let (resident, peak) = resident_mib();
    let limits = bench.limits_around().await?;
    let p50_ms = percentile(&times, 0.5);
    Ok(Report {
        workload: "w1",
        store: args.store.split(':').next().unwrap_or_default().to_owned(),
        through: if args.http.is_some() { "http" } else { "in-process" },
        concurrency: args.http.unwrap_or(args.concurrency),
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
        purged_per_second,
        per_second_before,
        resident_mib: resident,
        resident_peak_mib: peak,
    })
}

/// How long each workflow took, and all of them together in seconds.
async fn load(bench: &Bench, args: &Args) -> Result<(Vec<f64>, f64)> {
    let began = now_ms(&bench.clock);
    let times = match args.http {
        None => in_process(bench, args).await?,
        Some(connections) => over_http(bench, args, connections).await?,
    };
    Ok((times, (now_ms(&bench.clock) - began) / 1000.0))
}

/// Each of `concurrency` loops starts a workflow, waits for its end, and starts the next.
async fn in_process(bench: &Bench, args: &Args) -> Result<Vec<f64>> {
    let stop = Arc::new(AtomicBool::new(false));
    let mut loops = tokio::task::JoinSet::new();
    for handle in bench.handles.iter().cycle().take(args.concurrency) {
        let (handle, tenant) = (handle.clone(), bench.tenant.clone());
        let (start, stop) = (bench.start_of("three"), stop.clone());
        loops.spawn(async move {
            let clock = runtime::clock::SystemClock;
            let mut times = Vec::new();
            while !stop.load(Ordering::Relaxed) {
                let began = now_ms(&clock);
                let (_, result) = handle.start_and_wait(&tenant, start.clone(), PATIENCE).await?;
                if !matches!(result, InstanceResult::Completed(_)) {
                    bail!("a workflow ended as {result:?}");
                }
                times.push(now_ms(&clock) - began);
            }
            Ok(times)
        });
    }
    finish(loops, stop, args.seconds).await
}

/// The same over HTTP: one request to start, one that waits for the result.
async fn over_http(bench: &Bench, args: &Args, connections: usize) -> Result<Vec<f64>> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let base = format!("http://{}/api/v1", listener.local_addr()?);
    let serving = tokio::spawn(server::serve(
        listener,
        bench.handle.clone(),
        server::Options::default(),
        std::future::pending::<()>(),
    ));
    let stop = Arc::new(AtomicBool::new(false));
    let mut loops = tokio::task::JoinSet::new();
    for _ in 0..connections {
        let client = reqwest::Client::builder().no_proxy().pool_max_idle_per_host(1).build()?;
        let (base, key, stop) = (base.clone(), bench.key.clone(), stop.clone());
        loops.spawn(async move {
            let clock = runtime::clock::SystemClock;
            let mut times = Vec::new();
            while !stop.load(Ordering::Relaxed) {
                let began = now_ms(&clock);
                one_over_http(&client, &base, &key).await?;
                times.push(now_ms(&clock) - began);
            }
            Ok(times)
        });
    }
    let times = finish(loops, stop, args.seconds).await;
    serving.abort();
    times
}

pub(super) async fn one_over_http(client: &reqwest::Client, base: &str, key: &str) -> Result<()> {
    const BODY: &str = r#"{"definition":{"namespace":"bench","name":"three","version":"1.0.0"},"input":{}}"#;
    let started = client
        .post(format!("{base}/instances"))
        .bearer_auth(key)
        .header("content-type", "application/json")
        .body(BODY)
        .send()
        .await?
        .error_for_status()?;
    let started: serde_json::Value = serde_json::from_slice(&started.bytes().await?)?;
    let id = started["id"].as_str().context("the answer has no id")?;
    let result = client
        .get(format!("{base}/instances/{id}/result"))
        .bearer_auth(key)
        .header("prefer", "wait=30")
        .send()
        .await?
        .error_for_status()?;
    let result: serde_json::Value = serde_json::from_slice(&result.bytes().await?)?;
    anyhow::ensure!(result["status"] == "completed", "a workflow ended as {result}");
    Ok(())
}

#[allow(clippy::disallowed_methods, reason = "the length of a measurement is real time")]
async fn finish(
    mut loops: tokio::task::JoinSet<Result<Vec<f64>>>,
    stop: Arc<AtomicBool>,
    seconds: u64,
) -> Result<Vec<f64>> {
    let shown = Bench::progress("w1: seconds", seconds);
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    drop(shown);
    stop.store(true, Ordering::Relaxed);
    let mut all = Vec::new();
    while let Some(times) = loops.join_next().await {
        all.extend(times??);
    }
    Ok(all)
}
