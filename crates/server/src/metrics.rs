//! Metrics in Prometheus' text form: what the runtime counts, what the store holds, what HTTP did.
//!
//! The values are of the whole node, over all tenants, so reading them needs `metrics:read` (the role `monitor` has
//! nothing else) unless [`crate::Options::metrics_public`] opens them.

use crate::{app::App, problem::Problem, query::NoParameters};
use axum::{
    extract::State,
    http::header,
    response::{IntoResponse, Response},
};
use machine::Time;
use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, Opts, Registry, TextEncoder};
use runtime::{api::Queue, handle::Metric};
use std::{collections::BTreeMap, fmt::Write, sync::Arc, time::Duration};
use store::{feed::Horizon, records::Pending, rows::Depth, views::Counts};
use tokio::{sync::Mutex, time::Instant};

/// What HTTP did, and what the store last counted.
pub(crate) struct HttpMetrics {
    registry: Registry,
    requests: IntCounterVec,
    seconds: HistogramVec,
    counts: Mutex<Option<(Instant, Counted)>>,
    kept: Arc<Mutex<Option<Kept>>>,
}

/// What the store has counted, when that ended and how long it took.
#[derive(Clone)]
struct Kept {
    counts: Counts,
    at: Instant,
    took: Duration,
}

/// What the store was asked for.
#[derive(Clone)]
struct Counted {
    counts: Counts,
    horizon: Horizon,
    /// What waits for each bus.
    buses: Vec<(String, Option<Depth>)>,
    queues: Vec<Queue>,
    /// What is still to be handed down of who may do what.
    acl: Pending,
    /// How long what is due for a worker has been so, in microseconds.
    oldest: BTreeMap<String, u64>,
}

/// Queues that are told apart.
const QUEUES_MAX: usize = 200;
const COUNTS_LIFE: Duration = Duration::from_secs(5);
/// Counting takes this share of the time at most.
const COUNTING_SHARE: u32 = 100;
/// Nobody waits for a count that takes longer.
const COUNTING_MAX: Duration = Duration::from_millis(50);

impl HttpMetrics {
    pub(crate) fn new() -> Result<HttpMetrics, prometheus::Error> {
        let requests = IntCounterVec::new(
            Opts::new("windlass_http_requests_total", "Requests answered."),
            &["method", "route", "status"],
        )?;
        let seconds = HistogramVec::new(
            HistogramOpts::new("windlass_http_request_seconds", "Time to the answer's head.")
                .buckets(vec![0.001, 0.005, 0.02, 0.1, 0.5, 2.0, 10.0, 60.0]),
            &["method", "route"],
        )?;
        let registry = Registry::new();
        registry.register(Box::new(requests.clone()))?;
        registry.register(Box::new(seconds.clone()))?;
        Ok(HttpMetrics { registry, requests, seconds, counts: Mutex::new(None), kept: Arc::default() })
    }

    pub(crate) fn observe(&self, method: &str, route: &str, status: u16, took: Duration) {
        // Methods come from outside; only known words become labels, so their number is bounded.
        let known = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
        let method = if known.contains(&method) { method } else { "other" };
        self.requests.with_label_values(&[method, route, &status.to_string()]).inc();
        self.seconds.with_label_values(&[method, route]).observe(took.as_secs_f64());
    }
}

/// Answers all metrics of this node.
#[utoipa::path(
    get, path = "/metrics", tag = "operations", operation_id = "get_metrics",
    responses((status = 200, description = "Prometheus text", body = String, content_type = "text/plain"))
)]
pub(crate) async fn read(State(app): State<App>, _: NoParameters) -> Result<Response, Problem> {
    let mut text = String::new();
    write_runtime(&mut text, &app.handle.metrics());
    let counted = counted(&app).await?;
    write_counts(&mut text, &counted.counts);
    write_buses(&mut text, &counted.buses, app.options.clock.now());
    write_queues(&mut text, &counted.queues, &counted.oldest);
    write_acl(&mut text, &counted.acl, app.options.clock.now());
    write_horizon(&mut text, &counted.horizon);
    let http = TextEncoder::new().encode_to_string(&app.http.registry.gather());
    text.push_str(&http.map_err(Problem::internal)?);
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response())
}

/// What the store holds, at most [`COUNTS_LIFE`] old. Depths of queues are kept and cost nothing to read.
async fn counted(app: &App) -> Result<Counted, Problem> {
    let mut counts = app.http.counts.lock().await;
    if let Some((at, counted)) = &*counts
        && at.elapsed() < COUNTS_LIFE
    {
        return Ok(counted.clone());
    }
    let (mut fresh, horizon) = (rows(app).await?, app.store().horizon().await?);
    let names = app.handle.buses().into_iter().map(|bus| bus.name);
    let buses = names.zip(app.handle.bus_depths().await?).collect();
    let (queues, oldest) = queues(app).await?;
    fresh.calls = queues.iter().map(|queue| queue.calls).sum();
    let acl = app.store().records().acl_pending(None).await?;
    let fresh = Counted { counts: fresh, horizon, buses, queues, acl, oldest };
    *counts = Some((Instant::now(), fresh.clone()));
    Ok(fresh)
}

/// How many rows there are of what is not kept as a number. Counting reads a whole index, so what was counted before is answered
/// while it is young compared with how long that took, and nobody waits for a count that takes long: it goes on aside.
async fn rows(app: &App) -> Result<Counts, Problem> {
    let mut kept = app.http.kept.lock().await;
    match &*kept {
        Some(known) if known.at.elapsed() < COUNTS_LIFE.max(known.took * COUNTING_SHARE) => {
            Ok(known.counts.clone())
        }
        Some(known) if known.took > COUNTING_MAX => {
            let counts = known.counts.clone();
            // Not again before this one is done.
            *kept = Some(Kept { at: Instant::now(), ..known.clone() });
            let app = app.clone();
            tokio::spawn(async move {
                if let Ok(fresh) = count(&app).await {
                    *app.http.kept.lock().await = Some(fresh);
                }
            });
            Ok(counts)
        }
        _ => {
            let fresh = count(app).await?;
            let counts = fresh.counts.clone();
            *kept = Some(fresh);
            Ok(counts)
        }
    }
}

async fn count(app: &App) -> Result<Kept, Problem> {
    let began = Instant::now();
    let counts = app.store().counts(None).await?;
    Ok(Kept { counts, at: Instant::now(), took: began.elapsed() })
}

fn write_runtime(text: &mut String, metrics: &[Metric]) {
    let mut sorted: Vec<&Metric> = metrics.iter().collect();
    sorted.sort_by_key(|metric| metric.name);
    let mut last = "";
    for metric in sorted {
        if metric.name != last {
            head(text, metric.name, metric.help, metric.kind);
            last = metric.name;
        }
        let labels: Vec<(&str, &str)> =
            metric.labels.iter().map(|(name, value)| (*name, value.as_str())).collect();
        sample(text, metric.name, &labels, metric.value);
    }
}

fn write_counts(text: &mut String, counts: &Counts) {
    let instances = "windlass_instances";
    head(text, instances, "Instances in the store by status.", "gauge");
    for (status, number) in &counts.instances {
        sample(text, instances, &[("status", status)], *number as f64);
    }
    let depths = [
        ("windlass_signals_queued", "Signals in the queue.", counts.signals),
        ("windlass_timers_queued", "Timers not yet due or not yet done.", counts.timers),
        ("windlass_calls_queued", "Calls in the queue.", counts.calls),
        ("windlass_dead_letters", "Dead letters kept.", counts.dead_letters),
        ("windlass_outbox_queued", "Events not yet handed on.", counts.outbox),
        ("windlass_tasks_open", "Tasks that wait for a person.", counts.tasks_open),
    ];
    for (name, help, number) in depths {
        head(text, name, help, "gauge");
        sample(text, name, &[], number as f64);
    }
}

fn write_acl(text: &mut String, pending: &Pending, now: Time) {
    let lag = pending.since.map_or(0.0, |since| now.since(since).0.max(0) as f64 / 1e6);
    let (records, seconds) = ("windlass_acl_pending", "windlass_acl_lag_seconds");
    head(text, records, "Records whose children are still to be given who may do what.", "gauge");
    sample(text, records, &[], pending.records as f64);
    head(text, seconds, "How long ago the oldest change of these was made.", "gauge");
    sample(text, seconds, &[], lag);
}

fn write_buses(text: &mut String, buses: &[(String, Option<Depth>)], now: Time) {
    if buses.is_empty() {
        return;
    }
    let (waiting, oldest) = ("windlass_bus_waiting", "windlass_bus_oldest_seconds");
    head(text, waiting, "Events that wait to be carried, over all nodes.", "gauge");
    for (bus, depth) in buses {
        sample(text, waiting, &[("bus", bus)], depth.as_ref().map_or(0.0, |depth| depth.rows as f64));
    }
    head(text, oldest, "How long the oldest of them has waited.", "gauge");
    for (bus, depth) in buses {
        let age = depth.as_ref().map_or(0.0, |depth| now.since(depth.oldest).0.max(0) as f64 / 1e6);
        sample(text, oldest, &[("bus", bus)], age);
    }
}

/// The fullest queues over all tenants; those beyond the bound are one, called `other`.
async fn queues(app: &App) -> Result<(Vec<Queue>, BTreeMap<String, u64>), Problem> {
    let mut queues = app.handle.all_queues().await?;
    queues.sort_by_key(|queue| std::cmp::Reverse(queue.deliveries + queue.calls));
    let rest = queues.split_off(queues.len().min(QUEUES_MAX));
    let workers: Vec<String> =
        queues.iter().filter(|one| one.deliveries > 0).map(|one| one.name.clone()).collect();
    let oldest = app.handle.oldest_due(&workers).await?;
    if !rest.is_empty() {
        let add = |sum: Queue, one: &Queue| Queue {
            deliveries: sum.deliveries + one.deliveries,
            calls: sum.calls + one.calls,
            ..sum
        };
        queues.push(rest.iter().fold(Queue::empty("other"), add));
    }
    Ok((queues, oldest))
}

fn write_queues(text: &mut String, queues: &[Queue], oldest: &BTreeMap<String, u64>) {
    let backlog = "windlass_queue_backlog";
    head(text, backlog, "What is to be done by a worker or called, over all tenants and nodes.", "gauge");
    for Queue { name, deliveries, calls } in queues {
        for (kind, number) in [("deliveries", *deliveries), ("calls", *calls)] {
            if number > 0 || (kind == "deliveries" && *calls == 0) {
                sample(text, backlog, &[("queue", name), ("kind", kind)], number as f64);
            }
        }
    }
    let age = "windlass_queue_oldest_seconds";
    head(text, age, "How long the delivery that is due longest has been so.", "gauge");
    for Queue { name, .. } in queues {
        let micros = oldest.get(name).copied().unwrap_or_default();
        sample(text, age, &[("queue", name)], micros as f64 / 1e6);
    }
}

fn write_horizon(text: &mut String, horizon: &Horizon) {
    let transactions = "windlass_feed_horizon_transactions";
    head(text, transactions, "Transactions that the feed of events waits for, from the oldest on.", "gauge");
    sample(text, transactions, &[], horizon.transactions as f64);
    if let Some(open_for) = horizon.open_for {
        let seconds = "windlass_feed_horizon_seconds";
        head(text, seconds, "How long the oldest transaction that writes has been open.", "gauge");
        sample(text, seconds, &[], open_for.0 as f64 / 1e6);
    }
    let transactions = "windlass_oldest_snapshot_transactions";
    head(text, transactions, "Transactions since the oldest snapshot that keeps dead rows.", "gauge");
    sample(text, transactions, &[], horizon.snapshot.transactions as f64);
    if let Some(held_for) = horizon.snapshot.held_for {
        let seconds = "windlass_oldest_snapshot_seconds";
        head(text, seconds, "How long the oldest snapshot that keeps dead rows has been held.", "gauge");
        sample(text, seconds, &[], held_for.0 as f64 / 1e6);
    }
    let durable = "windlass_store_durable";
    head(text, durable, "1 if what is acknowledged survives a crash of the store, by its settings.", "gauge");
    sample(text, durable, &[], f64::from(u8::from(horizon.is_durable)));
    let synchronous = "windlass_store_synchronous";
    head(text, synchronous, "0 if there is a standby and no commit waits for one.", "gauge");
    sample(text, synchronous, &[], f64::from(u8::from(horizon.is_synchronous)));
}

fn head(text: &mut String, name: &str, help: &str, kind: &str) {
    let help = help.replace('\\', "\\\\").replace('\n', "\\n");
    // Writing to a String cannot fail.
    let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
}

fn sample(text: &mut String, name: &str, labels: &[(&str, &str)], value: f64) {
    let escape = |value: &str| value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let labels: Vec<String> =
        labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escape(value))).collect();
    let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{name}{labels} {value}");
}
