//! W5: the storm. Fan-outs of several tenants in which every item fails for good, and another tenant beside them. The figures
//! are how long it takes, how many statements record the errors, and what the other tenant notices of it.

use super::{
    Args,
    report::{percentile, resident_mib},
    setup::{Bench, now_ms},
    w1::one_over_http,
    w8::{PATIENCE, at_pace, three_steps},
};
use crate::out::{Format, Out};
use anyhow::{Result, anyhow, bail};
use machine::{
    Data, TenantId,
    id::{self, Kind},
};
use runtime::api::InstanceResult;
use serde::Serialize;
use store::views::{ErrorFilter, PAGE_MAX};
use tokio::task::JoinSet;

/// The worker that always fails, and the child that calls it.
pub(super) const FAILS: &str = "fails";
pub(super) const FAIL: &str = "document: { dsl: '1.0.3', namespace: bench, name: fail, version: '1.0.0' }
do: [ { c: { call: 'fails:1.0.0@default', with: { n: '${ .n }' } } } ]
";

/// One measurement.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    workload: &'static str,
    store: String,
    items: u64,
    /// From the start of the fan-outs to their end, when every item's failure is recorded and acknowledged.
    seconds: f64,
    tenants: u64,
    /// Statements that recorded errors.
    error_writes: u64,
    /// items / 100 + seconds / 2 + tenants.
    error_writes_max: f64,
    /// Errors that are not in the store at the end.
    lost: i64,
    /// Start to end of another tenant's workflows of three steps: alone, and during the storm.
    quiet_p50_ms: f64,
    quiet_p99_ms: f64,
    other_p50_ms: f64,
    other_p99_ms: f64,
    other_p99_ratio: f64,
    /// The same through the API: two requests each.
    api_quiet_p99_ms: f64,
    api_p50_ms: f64,
    api_p99_ms: f64,
    api_p99_ratio: f64,
    /// How many were measured during the storm, either way.
    others: usize,
    rows_per_item: f64,
    commits_per_item: f64,
    resident_mib: f64,
    resident_peak_mib: f64,
}

pub(super) async fn measure(bench: &Bench, args: &Args) -> Result<Report> {
    let other = bench.tenant_of("other").await?;
    let mut tenants = Vec::new();
    for number in 0..args.tenants {
        tenants.push(bench.tenant_of(&format!("storm-{number}")).await?);
    }
    let probe = Probe::new(bench, other).await?;
    let shown = Bench::progress("w5: seconds alone", args.seconds);
    let alone = probe.seconds(bench, args.seconds).await?;
    drop(shown);
    let (each, before) = ((args.failures / args.tenants).max(1), recorded(bench, &tenants).await?);
    let items = each * args.tenants;
    let mut datasets = Vec::new();
    for tenant in &tenants {
        datasets.push(upload(bench, tenant, each).await?);
    }
    let (cost, writes) = (bench.cost(), error_writes(bench));
    let began = now_ms(&bench.clock);
    let mut storm = unleash(bench, &tenants, datasets, each);
    let over = tokio_util::sync::CancellationToken::new();
    let watched = async {
        let mut end = began;
        while let Some(ended) = storm.join_next().await {
            end = f64::max(end, ended??);
        }
        over.cancel();
        Ok::<f64, anyhow::Error>(end)
    };
    let (end, beside) = tokio::join!(watched, probe.until(bench, &over));
    let (end, beside) = (end?, beside?);
    let seconds = (end - began) / 1000.0;
    let (cost, writes) = (bench.cost().minus(cost), error_writes(bench) - writes);
    let lost = items as i64 - (recorded(bench, &tenants).await? - before) as i64;
    let ((alone, api_alone), (beside, api_beside)) = (alone, beside);
    let (quiet_p99_ms, other_p99_ms) = (percentile(&alone, 0.99), percentile(&beside, 0.99));
    let (api_quiet_p99_ms, api_p99_ms) = (percentile(&api_alone, 0.99), percentile(&api_beside, 0.99));
    let (resident, peak) = resident_mib();
    Ok(Report {
        workload: "w5",
        store: args.store.split(':').next().unwrap_or_default().to_owned(),
        items,
        seconds,
        tenants: args.tenants,
        error_writes: writes,
        error_writes_max: items as f64 / 100.0 + seconds / 2.0 + args.tenants as f64,
        lost,
        quiet_p50_ms: percentile(&alone, 0.5),
        quiet_p99_ms,
        other_p50_ms: percentile(&beside, 0.5),
        other_p99_ms,
        other_p99_ratio: other_p99_ms / quiet_p99_ms,
        api_quiet_p99_ms,
        api_p50_ms: percentile(&api_beside, 0.5),
        api_p99_ms,
        api_p99_ratio: api_p99_ms / api_quiet_p99_ms,
        others: beside.len(),
        rows_per_item: cost.rows / items as f64,
        commits_per_item: cost.commits / items as f64,
        resident_mib: resident,
        resident_peak_mib: peak,
    })
}

/// Starts every tenant's fan-out; each answers when it ended.
fn unleash(bench: &Bench, tenants: &[TenantId], datasets: Vec<String>, each: u64) -> JoinSet<Result<f64>> {
    let mut storm = JoinSet::new();
    for (tenant, dataset) in tenants.iter().cloned().zip(datasets) {
        let (handle, mut start) = (bench.handle.clone(), bench.start_of("map"));
        start.input =
            Data::map([("items".to_owned(), Data::text(dataset)), ("child".to_owned(), Data::text("fail"))]);
        storm.spawn(async move {
            let (_, result) = handle.start_and_wait(&tenant, start, PATIENCE).await?;
            let InstanceResult::Completed(output) = &result else { bail!("a fan-out ended as {result:?}") };
            let failed = output.get("failed").and_then(|failed| failed.as_i64());
            if failed != i64::try_from(each).ok() {
                bail!("not every item failed: {output:?}");
            }
            Ok(now_ms(&runtime::clock::SystemClock))
        });
    }
    storm
}

/// The other tenant: its workflows, started here and through the API, each at an even pace.
struct Probe {
    tenant: TenantId,
    client: reqwest::Client,
    base: String,
    key: String,
    serving: tokio::task::JoinHandle<Result<(), server::Error>>,
}

impl Probe {
    async fn new(bench: &Bench, tenant: TenantId) -> Result<Probe> {
        let key = bench.handle.create_key(&tenant, "probe", &["admin".to_owned()], None).await?;
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let base = format!("http://{}/api/v1", listener.local_addr()?);
        let serving = tokio::spawn(server::serve(
            listener,
            bench.handle.clone(),
            server::Options::default(),
            std::future::pending::<()>(),
        ));
        let client = reqwest::Client::builder().no_proxy().build()?;
        Ok(Probe { tenant, client, base, key: format!("wlk_{}_{}", key.id, key.secret), serving })
    }

    /// Times of so many seconds, here and through the API; sorted.
    async fn seconds(&self, bench: &Bench, seconds: u64) -> Result<(Vec<f64>, Vec<f64>)> {
        let here = at_pace(seconds, || three_steps(bench, &self.tenant));
        let through_api = at_pace(seconds, || {
            let (client, base, key) = (self.client.clone(), self.base.clone(), self.key.clone());
            async move { one_over_http(&client, &base, &key).await }
        });
        let (here, through_api) = tokio::join!(here, through_api);
        Ok((here?, through_api?))
    }

    /// The same until the storm is over.
    async fn until(
        &self,
        bench: &Bench,
        over: &tokio_util::sync::CancellationToken,
    ) -> Result<(Vec<f64>, Vec<f64>)> {
        let mut times = (Vec::new(), Vec::new());
        while !over.is_cancelled() {
            let (here, through_api) = self.seconds(bench, 1).await?;
            times.0.extend(here);
            times.1.extend(through_api);
        }
        times.0.sort_by(f64::total_cmp);
        times.1.sort_by(f64::total_cmp);
        Ok(times)
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn upload(bench: &Bench, tenant: &TenantId, count: u64) -> Result<String> {
    let mut upload = bench.handle.upload(tenant);
    for n in 0..count {
        upload.push(Data::map([("n".to_owned(), Data::int(i64::try_from(n)?))])).await?;
    }
    Ok(id::show(Kind::Dataset, upload.finish().await?.id))
}

/// Errors of the failing worker that are in the store.
async fn recorded(bench: &Bench, tenants: &[TenantId]) -> Result<u64> {
    let mut count = 0;
    for tenant in tenants {
        let filter =
            ErrorFilter { target: Some(FAILS.to_owned()), limit: PAGE_MAX, ..ErrorFilter::default() };
        let groups = bench.handle.store().error_groups(tenant, &filter).await?;
        count += groups.iter().map(|group| group.count).sum::<u64>();
    }
    Ok(count)
}

fn error_writes(bench: &Bench) -> u64 {
    let of = |handle: &runtime::Handle| {
        let metrics = handle.metrics();
        let found = metrics.iter().find(|metric| metric.name == "windlass_error_writes_total");
        found.map_or(0.0, |metric| metric.value) as u64
    };
    bench.handles.iter().map(of).sum()
}

pub(super) fn print(report: &Report, out: &Out) -> Result<()> {
    let say = |line: &str| out.line(line).map_err(|_| anyhow!("stdout is closed"));
    if matches!(out.format, Format::Json | Format::Jsonl) {
        return say(&serde_json::to_string(report)?);
    }
    say(&format!(
        "{} items of {} tenants failed in {:.1} s; {} statements recorded it (at most {:.0}), {} lost",
        report.items,
        report.tenants,
        report.seconds,
        report.error_writes,
        report.error_writes_max,
        report.lost
    ))?;
    say(&format!(
        "another tenant's workflow: alone p50 {:.1} ms, p99 {:.1} ms; meanwhile p50 {:.1} ms, p99 {:.1} ms ({:.1} times, {} measured)",
        report.quiet_p50_ms,
        report.quiet_p99_ms,
        report.other_p50_ms,
        report.other_p99_ms,
        report.other_p99_ratio,
        report.others
    ))?;
    say(&format!(
        "the same over HTTP: alone p99 {:.1} ms; meanwhile p50 {:.1} ms, p99 {:.1} ms ({:.1} times)",
        report.api_quiet_p99_ms, report.api_p50_ms, report.api_p99_ms, report.api_p99_ratio
    ))?;
    say(&format!(
        "{:.1} rows and {:.2} commits per item; resident {:.0} MiB, at most {:.0} MiB",
        report.rows_per_item, report.commits_per_item, report.resident_mib, report.resident_peak_mib
    ))
}
