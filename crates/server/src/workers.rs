//! Workers of a tenant that are somewhere else: declare them, list them, ask for their deliveries.

use crate::{
    app::{App, detached},
    auth::Caller,
    body,
    cloudevents::Form,
    code,
    page::Page,
    problem::{Problem, ProblemBody},
    query::{Named, NoParameters},
    wire::{self, Stored},
};
use axum::{Json, extract::State, http::StatusCode};
use machine::{
    Data,
    id::{self, Kind},
    newer,
};
use runtime::api::{DebounceSaid, Declared, Lent, RateSaid};
use serde::Serialize;
use std::time::Duration;
use store::rows::WorkerRow;
use utoipa::ToSchema;

/// Deliveries in one answer, and the longest wait for the first.
const DELIVERIES_MAX: i64 = 1_000;
const WAIT_MAX: i64 = 60;

/// What is said of a worker.
#[derive(ToSchema)]
#[allow(dead_code, reason = "describes the body; the runtime checks it")]
pub(crate) struct WorkerRequest {
    /// Types of events it wants; one that ends with `*` is the beginning of a type.
    types: Vec<String>,
    /// Attempts in all, the first included; 5 unless given.
    attempts_max: Option<u32>,
    /// The first wait after a failure in milliseconds, 200 unless given; each further one is `retry_factor` times as long,
    /// up to `retry_cap_ms`, and falls anywhere between nothing and that.
    retry_base_ms: Option<u64>,
    /// 2 unless given.
    retry_factor: Option<f64>,
    /// 60000 unless given.
    retry_cap_ms: Option<u64>,
    /// Events in one delivery; 1 unless given, 1000 at most.
    batch_max: Option<u32>,
    /// An attribute of the event such as `subject`, or a path such as `data.order.id`: events with the same value come one
    /// after the other.
    order_by: Option<String>,
    /// The same; of events with the same value one has an effect.
    key_by: Option<String>,
    /// How long a delivery is out of sight for others once it was asked for; 60 unless given.
    lease_seconds: Option<u32>,
    /// Deliveries that may be asked for and not answered at the same time; as many as there are unless given.
    concurrency_max: Option<u32>,
    debounce: Option<Debounce>,
    rate: Option<Rate>,
    terminal: Option<Terminal>,
    schedule: Option<Schedule>,
    /// Names of the watermarks that it reads and moves; events come one at a time then.
    watermarks: Option<Vec<String>>,
    /// What it emits itself is not delivered to it; false unless given.
    ignore_own: Option<bool>,
}

/// When a worker runs by itself: one of the first three. Each run is an event of the type `windlass.schedule.due`.
#[derive(Serialize, ToSchema)]
#[schema(as = WorkerSchedule)]
pub(crate) struct Schedule {
    /// Five fields.
    cron: Option<String>,
    every_seconds: Option<u32>,
    /// So long after the run before has ended.
    after_seconds: Option<u32>,
    /// An IANA name; UTC unless given.
    time_zone: Option<String>,
    /// What becomes of times that came while no node was up: latest unless given, all, skip, or window.
    missed: Option<String>,
    window_seconds: Option<u32>,
}

/// How far a worker has come.
#[derive(Serialize, ToSchema)]
pub(crate) struct Watermark {
    name: String,
    /// Null until it is moved for the first time.
    value: Stored,
    /// 0 until then. Whoever moves it names the version that it was given.
    version: i64,
}

/// Of events that follow each other closely the last is delivered.
#[derive(Serialize, ToSchema)]
pub(crate) struct Debounce {
    /// An attribute or a path: events with the same value are held back together; those without are not held back. All
    /// events for the worker unless given.
    by: Option<String>,
    /// It is delivered when so long no further one came.
    quiet_ms: u64,
    /// At the latest so long after the first; ten times `quiet_ms` unless given.
    wait_max_ms: Option<u64>,
}

/// How many events are handed out in a time; those beyond it wait.
#[derive(Serialize, ToSchema)]
pub(crate) struct Rate {
    max: u32,
    /// 1 unless given.
    seconds: u32,
}

/// What is done besides the dead letter when an event is given up.
#[derive(Serialize, ToSchema)]
pub(crate) struct Terminal {
    /// Emits `windlass.worker.failed`.
    alert: bool,
    /// Emits an event of this type, for whoever marks the object as failed.
    mark_failed: Option<String>,
    /// Emits an event of this type, for whoever undoes what was done before.
    compensate: Option<String>,
}

/// A worker.
#[derive(Serialize, ToSchema)]
pub(crate) struct Worker {
    name: String,
    types: Vec<String>,
    attempts_max: u32,
    retry_base_ms: u64,
    retry_factor: f64,
    retry_cap_ms: u64,
    batch_max: u32,
    order_by: Option<String>,
    key_by: Option<String>,
    lease_seconds: u32,
    concurrency_max: Option<u32>,
    debounce: Option<Debounce>,
    rate: Option<Rate>,
    terminal: Terminal,
    schedule: Option<Schedule>,
    watermarks: Vec<String>,
    ignore_own: bool,
    version: i64,
    created_at: String,
    updated_at: String,
}

/// What is asked for.
#[derive(ToSchema)]
#[allow(dead_code, reason = "describes the body; it is read field by field")]
pub(crate) struct Poll {
    /// Deliveries at most; 10 unless given, 1000 at most.
    max: Option<i64>,
    /// How long to wait for the first, in seconds; 0 unless given, 60 at most.
    wait_seconds: Option<i64>,
    /// How events are shown: cloudevent (unless given) or envelope.
    form: Option<String>,
}

/// One delivery, for whoever asked.
#[derive(Serialize, ToSchema)]
pub(crate) struct Delivery {
    id: String,
    /// Which attempt this is. Answers name it: one to an earlier attempt is refused.
    attempt: u32,
    /// Until when nobody else gets it; a heartbeat makes it longer.
    expires_at: String,
    /// CloudEvents, in their order.
    events: Vec<Stored>,
    /// For each event, a key that is the same on every attempt: use it to make effects elsewhere happen once.
    keys: Vec<String>,
    /// For each event the key of what it is about, if the worker has `key_by`: the same for all events with that value.
    #[serde(skip_serializing_if = "Option::is_none")]
    domain_keys: Option<Vec<Option<String>>>,
    /// For each event the W3C trace context of this delivery: give it to whatever you call.
    traceparents: Vec<String>,
    /// The watermarks that the worker names, as they are now.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    watermarks: Vec<Watermark>,
}

/// Deliveries; none if the time was over.
#[derive(Serialize, ToSchema)]
pub(crate) struct Deliveries {
    items: Vec<Delivery>,
}

/// Lists the workers that the tenant has declared.
#[utoipa::path(
    get, path = "/api/v1/workers", tag = "workers", operation_id = "list_workers",
    responses((status = 200, description = "all of them, by name", body = Page<Worker>))
)]
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    _: NoParameters,
) -> Result<Json<Page<Worker>>, Problem> {
    let rows = app.handle.declared_workers(&caller.tenant).await?;
    Ok(Json(Page { items: rows.into_iter().map(worker_of).collect(), next: None }))
}

/// Declares a worker, or changes what is said of it. Events of its types that are published from now on are delivered to it.
#[utoipa::path(
    put, path = "/api/v1/workers/{name}", tag = "workers", operation_id = "declare_worker",
    params(("name" = String, Path)),
    request_body = WorkerRequest,
    responses(
        (status = 200, description = "changed", body = Worker),
        (status = 201, description = "declared", body = Worker),
        (status = 409, description = "a worker of the server itself has the name", body = ProblemBody),
    )
)]
pub(crate) async fn put(
    State(app): State<App>,
    caller: Caller,
    _: NoParameters,
    Named(name): Named<String>,
    body: body::Json,
) -> Result<(StatusCode, Json<Worker>), Problem> {
    const KEYS: &[&str] = &[
        "types",
        "attempts_max",
        "retry_base_ms",
        "retry_factor",
        "retry_cap_ms",
        "batch_max",
        "order_by",
        "key_by",
        "lease_seconds",
        "concurrency_max",
        "debounce",
        "rate",
        "terminal",
        "schedule",
        "watermarks",
        "ignore_own",
    ];
    let given = body.0.clone().unwrap_or_default();
    body.fields(KEYS)?;
    let given: serde_json::Map<String, serde_json::Value> = match given.to_json() {
        serde_json::Value::Object(given) => given.into_iter().filter(|(_, value)| !value.is_null()).collect(),
        _ => serde_json::Map::new(),
    };
    let given = serde_json::Value::from(given);
    let declared: Declared = serde::Deserialize::deserialize(&given)
        .map_err(|error: serde_json::Error| Problem::at(code::INVALID_VALUE, "", error.to_string()))?;
    if let Some(pointer) = newer::unknown(&given, &serde_json::to_value(&declared).unwrap_or_default()) {
        return Err(Problem::at(code::UNKNOWN_KEY, pointer, "this key is not known here"));
    }
    let (created, found) = detached(app.answer_max(), async move {
        let created = app.handle.declare_worker(&caller.tenant, &name, &declared).await?;
        let all = app.handle.declared_workers(&caller.tenant).await?;
        Ok((created, all.into_iter().find(|(row, _)| row.name == name)))
    })
    .await?;
    let found = found.ok_or_else(|| Problem::not_found("worker"))?;
    let status = if created { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(worker_of(found))))
}

/// Forgets a worker. What was delivered to it waits until one of that name is declared again.
#[utoipa::path(
    delete, path = "/api/v1/workers/{name}", tag = "workers", operation_id = "delete_worker",
    params(("name" = String, Path)),
    responses(
        (status = 204, description = "forgotten"),
        (status = 404, description = "no such worker", body = ProblemBody),
    )
)]
pub(crate) async fn delete(
    State(app): State<App>,
    caller: Caller,
    _: NoParameters,
    Named(name): Named<String>,
) -> Result<StatusCode, Problem> {
    detached(app.answer_max(), async move { Ok(app.handle.forget_worker(&caller.tenant, &name).await?) })
        .await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Asks for deliveries of a worker, waiting for the first if there is none. Whoever asks has the worker's lease to answer.
#[utoipa::path(
    post, path = "/api/v1/workers/{name}/poll", tag = "workers", operation_id = "poll_deliveries",
    params(("name" = String, Path)),
    request_body = Poll,
    responses(
        (status = 200, description = "deliveries, or none", body = Deliveries),
        (status = 404, description = "no such worker", body = ProblemBody),
    )
)]
pub(crate) async fn poll(
    State(app): State<App>,
    caller: Caller,
    _: NoParameters,
    Named(name): Named<String>,
    body: body::Json,
) -> Result<Json<Deliveries>, Problem> {
    let fields =
        body::Json(Some(body.0.unwrap_or_else(Data::object))).fields(&["max", "wait_seconds", "form"])?;
    let max = fields.int("max", 1..=DELIVERIES_MAX)?.unwrap_or(10);
    let wait = fields.int("wait_seconds", 0..=WAIT_MAX)?.unwrap_or(0);
    let wait = Duration::from_secs(wait.unsigned_abs());
    let form = Form::read(fields.text("form", 20)?.as_deref(), "/form")?;
    let asked = app.handle.poll_deliveries(&caller.tenant, &name, max as usize, wait);
    let lent = tokio::select! {
        lent = asked => lent?,
        // A server that stops must not be held by whoever waits.
        () = app.stopped() => vec![],
    };
    Ok(Json(Deliveries { items: lent.into_iter().map(|lent| delivery_of(&name, lent, form)).collect() }))
}

fn delivery_of(worker: &str, lent: Lent, form: Form) -> Delivery {
    Delivery {
        id: id::show(Kind::Delivery, lent.id),
        attempt: lent.attempt,
        expires_at: wire::time(lent.until),
        keys: lent.events.iter().map(|(event, _)| runtime::api::delivery_key(*event, worker)).collect(),
        events: lent.events.iter().map(|(_, event)| form.show(event)).collect(),
        watermarks: lent.watermarks.iter().map(watermark_of).collect(),
        traceparents: lent.traceparents,
        domain_keys: lent.domain_keys.iter().any(Option::is_some).then_some(lent.domain_keys),
    }
}

fn watermark_of(given: &runtime::api::Watermark) -> Watermark {
    let (name, version) = (given.name.clone(), given.version);
    Watermark { name, value: Stored::of(&given.value.to_bytes()), version }
}

fn worker_of((row, said): (WorkerRow, Declared)) -> Worker {
    Worker {
        name: row.name,
        types: said.types,
        attempts_max: said.attempts_max,
        retry_base_ms: said.retry_base_ms,
        retry_factor: said.retry_factor,
        retry_cap_ms: said.retry_cap_ms,
        batch_max: said.batch_max,
        order_by: said.order_by,
        key_by: said.key_by,
        lease_seconds: said.lease_seconds,
        concurrency_max: said.concurrency_max,
        debounce: said.debounce.map(|DebounceSaid { by, quiet_ms, wait_max_ms }| Debounce {
            by,
            quiet_ms,
            wait_max_ms,
        }),
        rate: said.rate.map(|RateSaid { max, seconds }| Rate { max, seconds }),
        terminal: Terminal {
            alert: said.terminal.alert,
            mark_failed: said.terminal.mark_failed,
            compensate: said.terminal.compensate,
        },
        schedule: said.schedule.map(|said| Schedule {
            cron: said.cron,
            every_seconds: said.every_seconds,
            after_seconds: said.after_seconds,
            time_zone: said.time_zone,
            missed: said.missed,
            window_seconds: said.window_seconds,
        }),
        watermarks: said.watermarks,
        ignore_own: said.ignore_own,
        version: row.row_version,
        created_at: wire::time(row.created_at),
        updated_at: wire::time(row.updated_at),
    }
}
