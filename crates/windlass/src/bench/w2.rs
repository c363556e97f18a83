//! W2: events through one worker, handed over in batches and one by one; to a worker that keeps up with its producers,
//! and to one that finds a full backlog.

use super::{
    Args,
    report::percentile,
    setup::{Bench, Counted, now_ms},
};
use crate::out::{Format, Out};
use anyhow::{Context as _, Result, anyhow};

use machine::{Data, TenantId};
use runtime::{Handle, api::Refusal, clock::SystemClock};
use serde::Serialize;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::sync::{mpsc, watch};
use worker::{Declaration, Delivery, Handled, Handler, async_trait};

/// Events handed over in one call.
const BATCH: usize = 500;
/// Producers that publish one event at a time.
const PRODUCERS: usize = 512;
/// Producers that publish in batches.
const BATCH_PRODUCERS: usize = 8;
/// Between two events when latency is measured.
const PACE: Duration = Duration::from_millis(5);
/// How often it is looked how far the worker is.
const LOOK: Duration = Duration::from_millis(2);

/// Where events end up.
pub(super) struct Sink {
    handled: AtomicU64,
    /// When an event of the latency shape was handed over, by its number.
    arrived: mpsc::UnboundedSender<(u64, f64)>,
    /// Handlers wait while it is closed.
    open: watch::Sender<bool>,
}

impl Sink {
    pub(super) fn new() -> (Arc<Sink>, mpsc::UnboundedReceiver<(u64, f64)>) {
        let (arrived, arrivals) = mpsc::unbounded_channel();
        let open = watch::Sender::new(true);
        (Arc::new(Sink { handled: AtomicU64::new(0), arrived, open }), arrivals)
    }

    /// One worker per shape.
    pub(super) fn workers(self: &Arc<Sink>) -> Vec<Declaration> {
        let counter = || Counter(self.clone());
        vec![
            Declaration::on("count-batches", ["bench.batched"], counter()).batch_max(BATCH),
            Declaration::on("count-single", ["bench.single"], counter()).concurrency_max(1024),
            Declaration::on("time", ["bench.timed"], Timer(self.clone())),
        ]
    }
}

struct Counter(Arc<Sink>);

#[async_trait]
impl Handler for Counter {
    async fn handle(&self, deliveries: &[Delivery]) -> Vec<Handled> {
        let mut open = self.0.open.subscribe();
        let _ = open.wait_for(|open| *open).await;
        self.0.handled.fetch_add(deliveries.len() as u64, Ordering::Relaxed);
        vec![Handled::done(); deliveries.len()]
    }
}

struct Timer(Arc<Sink>);

#[async_trait]
impl Handler for Timer {
    async fn handle(&self, deliveries: &[Delivery]) -> Vec<Handled> {
        for one in deliveries {
            let number = one.data().as_i64().unwrap_or_default().unsigned_abs();
            let _ = self.0.arrived.send((number, now_ms(&SystemClock)));
        }
        vec![Handled::done(); deliveries.len()]
    }
}

/// One way to publish and to be handed over.
#[derive(Debug, Serialize)]
struct Shape {
    /// Events handed over in one call.
    batch: usize,
    /// Producers publish as fast as they are answered: published and handled per second, over the whole of it.
    live_per_second: f64,
    /// The worker finds so many events in the backlog.
    prefilled: u64,
    /// Filling the backlog, while nothing is handled.
    publish_per_second: f64,
    /// Working it off.
    prefilled_per_second: f64,
    rows_per_event: f64,
    bytes_per_event: f64,
    /// What the database counted while producers and worker kept up with each other.
    #[serde(skip_serializing_if = "Option::is_none")]
    statements_per_event: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    wal_bytes_per_event: Option<f64>,
}

/// One measurement.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    workload: &'static str,
    store: String,
    batched: Shape,
    single: Shape,
    /// From the call that publishes to the handler's being called, one event at a time.
    latency_p50_ms: f64,
    latency_p99_ms: f64,
    raw_limit_per_second: f64,
    fsync_p50_ms: f64,
}

pub(super) async fn measure(bench: &mut Bench, args: &Args) -> Result<Report> {
    let timed = latency(bench, args.seconds.min(5)).await?;
    let batched = shape(bench, args, "bench.batched", BATCH).await?;
    let single = shape(bench, args, "bench.single", 1).await?;
    let limits = bench.limits_around().await?;
    Ok(Report {
        workload: "w2",
        store: args.store.split(':').next().unwrap_or_default().to_owned(),
        batched,
        single,
        latency_p50_ms: percentile(&timed, 0.5),
        latency_p99_ms: percentile(&timed, 0.99),
        raw_limit_per_second: limits.raw_per_second,
        fsync_p50_ms: limits.fsync_micros / 1000.0,
    })
}

async fn shape(bench: &Bench, args: &Args, kind: &'static str, batch: usize) -> Result<Shape> {
    let (cost, counted) = (bench.cost(), bench.counted().await?);
    let (events, live_per_second) = live(bench, args, kind, batch).await?;
    let cost = bench.cost().minus(cost);
    let after = bench.counted().await?;
    let counted = after.zip(counted).map(|(after, before)| after.per_unit(before, events as usize));
    let (publish_per_second, prefilled_per_second) = prefilled(bench, args.events, kind).await?;
    Ok(Shape {
        batch,
        live_per_second,
        prefilled: args.events,
        publish_per_second,
        prefilled_per_second,
        rows_per_event: cost.rows / events.max(1) as f64,
        bytes_per_event: cost.bytes / events.max(1) as f64,
        statements_per_event: counted.as_ref().map(|counted: &Counted| counted.statements),
        wal_bytes_per_event: counted.map(|counted| counted.wal_bytes),
    })
}

/// Producers publish until the time is over; ends when everything is handled. Answers how many events and how many a
/// second.
#[allow(clippy::disallowed_methods, reason = "the length of a measurement is real time")]
async fn live(bench: &Bench, args: &Args, kind: &'static str, batch: usize) -> Result<(u64, f64)> {
    let shown = Bench::progress("w2: seconds with live producers", args.seconds);
    let before = bench.sink.handled.load(Ordering::Relaxed);
    let began = now_ms(&bench.clock);
    let over = Arc::new(AtomicBool::new(false));
    let mut producers = tokio::task::JoinSet::new();
    let count = if batch > 1 { BATCH_PRODUCERS } else { PRODUCERS };
    for (number, handle) in bench.handles.iter().cycle().take(count).enumerate() {
        let source = format!("live/{}/{kind}/{number}", bench.number());
        let (handle, tenant, over) = (handle.clone(), bench.tenant.clone(), over.clone());
        producers.spawn(async move {
            let mut published = 0;
            while !over.load(Ordering::Relaxed) {
                publish(&handle, &tenant, &source, kind, published..published + batch as u64).await?;
                published += batch as u64;
            }
            Ok::<u64, anyhow::Error>(published)
        });
    }
    tokio::time::sleep(Duration::from_secs(args.seconds)).await;
    over.store(true, Ordering::Relaxed);
    let mut published = 0;
    while let Some(count) = producers.join_next().await {
        published += count??;
    }
    until_handled(bench, before + published).await;
    drop(shown);
    Ok((published, published as f64 / ((now_ms(&bench.clock) - began) / 1000.0)))
}

/// Publishes while the worker is held up, then lets it go. Answers events per second of both.
async fn prefilled(bench: &Bench, events: u64, kind: &'static str) -> Result<(f64, f64)> {
    use futures_util::{StreamExt, TryStreamExt, stream};
    let before = bench.sink.handled.load(Ordering::Relaxed);
    bench.sink.open.send_replace(false);
    let began = now_ms(&bench.clock);
    let source = format!("full/{}/{kind}", bench.number());
    // Published in batches in either case: this is about working it off.
    let starts = (0..events).step_by(BATCH);
    stream::iter(starts)
        .map(|first| {
            let last = (first + BATCH as u64).min(events);
            publish(&bench.handle, &bench.tenant, &source, kind, first..last)
        })
        .buffer_unordered(BATCH_PRODUCERS)
        .try_for_each(|()| async { Ok(()) })
        .await?;
    let filled = now_ms(&bench.clock);
    bench.sink.open.send_replace(true);
    until_handled(bench, before + events).await;
    let done = now_ms(&bench.clock);
    // Handled is not yet settled: the next shape begins with nothing left.
    while bench.handle.store().counts(None).await?.deliveries > 0 {
        tokio::task::yield_now().await;
    }
    let settled = now_ms(&bench.clock).max(done);
    let per_second = |millis: f64| events as f64 / (millis / 1000.0);
    Ok((per_second(filled - began), per_second(settled - filled)))
}

#[allow(clippy::disallowed_methods, reason = "looks now and then in real time")]
async fn until_handled(bench: &Bench, count: u64) {
    while bench.sink.handled.load(Ordering::Relaxed) < count {
        tokio::time::sleep(LOOK).await;
    }
}

/// Publishes the events of these numbers, all at once.
async fn publish(
    handle: &Handle,
    tenant: &TenantId,
    source: &str,
    kind: &str,
    numbers: std::ops::Range<u64>,
) -> Result<()> {
    let events: Vec<Data> = numbers.map(|number| event(source, kind, number)).collect();
    let mut left = events;
    while !left.is_empty() {
        let answers = handle.publish_many(tenant, left.clone()).await;
        let mut busy = Vec::new();
        for (event, answer) in left.into_iter().zip(answers) {
            match answer {
                Ok(_) => {}
                Err(Refusal::Busy) => busy.push(event),
                Err(refusal) => return Err(refusal.into()),
            }
        }
        left = busy;
        tokio::task::yield_now().await;
    }
    Ok(())
}

fn event(source: &str, kind: &str, number: u64) -> Data {
    Data::map([
        ("specversion".to_owned(), Data::text("1.0")),
        ("id".to_owned(), Data::text(number.to_string())),
        ("source".to_owned(), Data::text(source)),
        ("type".to_owned(), Data::text(kind)),
        ("data".to_owned(), Data::int(number.cast_signed())),
    ])
}

/// One event at an even pace, each timed from the call that publishes it until the handler is called. Sorted.
#[allow(clippy::disallowed_methods, reason = "the length of a measurement is real time")]
async fn latency(bench: &mut Bench, seconds: u64) -> Result<Vec<f64>> {
    let shown = Bench::progress("w2: seconds at low load", seconds);
    let count = seconds * 1000 / PACE.as_millis() as u64;
    let mut published = Vec::new();
    let mut pace = tokio::time::interval(PACE);
    for number in 0..count {
        pace.tick().await;
        published.push(now_ms(&bench.clock));
        let source = format!("timed/{}", bench.number());
        publish(&bench.handle, &bench.tenant, &source, "bench.timed", number..number + 1).await?;
    }
    drop(shown);
    let mut times = Vec::new();
    while times.len() < published.len() {
        let (number, at) = bench.arrivals.recv().await.context("the worker is there")?;
        times.extend(published.get(number as usize).map(|began| at - began));
    }
    times.sort_by(f64::total_cmp);
    Ok(times)
}

pub(super) fn print(report: &Report, out: &Out) -> Result<()> {
    let say = |line: &str| out.line(line).map_err(|_| anyhow!("stdout is closed"));
    if matches!(out.format, Format::Json | Format::Jsonl) {
        return say(&serde_json::to_string(report)?);
    }
    say(&format!("w2 on {}: events through one worker", report.store))?;
    for (name, shape) in [("in batches of 500", &report.batched), ("one by one", &report.single)] {
        say(&format!("  {name}"))?;
        say(&format!(
            "    live producers         {:>10.0} events/s published and handled",
            shape.live_per_second
        ))?;
        say(&format!(
            "    backlog of {:<11} {:>10.0} events/s handled",
            shape.prefilled, shape.prefilled_per_second
        ))?;
        say(&format!("    filling it             {:>10.0} events/s published", shape.publish_per_second))?;
        say(&format!(
            "    cost                   {:>10.3} rows and {:.0} bytes per event",
            shape.rows_per_event, shape.bytes_per_event
        ))?;
        if let (Some(statements), Some(wal)) = (shape.statements_per_event, shape.wal_bytes_per_event) {
            say(&format!(
                "    database               {statements:>10.3} statements and {wal:.0} bytes of log per event"
            ))?;
        }
    }
    say(&format!(
        "  publish to handler       p50 {:.2} ms, p99 {:.2} ms at low load",
        report.latency_p50_ms, report.latency_p99_ms
    ))?;
    say(&format!(
        "  machine                  {:.0} raw inserts/s, sync {:.3} ms",
        report.raw_limit_per_second, report.fsync_p50_ms
    ))
}
