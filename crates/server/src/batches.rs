//! Batches: acts on all that a query finds, made, followed, paused and cancelled.

use crate::{
    access::{Access, Permission},
    app::{App, detached},
    auth::Caller,
    body::{self, Fields},
    code, filter,
    page::{self, Beginning, Cursors, Page},
    problem::{Problem, ProblemBody},
    query::{self, Named, NoParameters, Parameters},
    starts, versions,
    wire::{self, Stored},
};
use axum::{
    Json,
    extract::State,
    http::{HeaderMap, HeaderValue, StatusCode, Uri, header},
    response::{IntoResponse, Response},
};
use machine::{
    Data,
    id::{self, Kind},
    query::{QUERY_BYTES_MAX, Subject},
};
use runtime::api::{Act, BATCH_RATE_DEFAULT, BATCH_RATE_MAX, BatchOrder, NewBatch};
use serde::Serialize;
use store::{
    rows::{BatchItemRow, BatchRow, ItemOutcome},
    views::{BatchFilter, ItemAsk},
};
use utoipa::ToSchema;

const WHY_BYTES_MAX: usize = 1_000;
const STATUSES: &[&str] = &["running", "paused", "halted", "done", "cancelled"];
const OUTCOMES: &[&str] = &["waiting", "sent", "done", "failed", "skipped"];

/// A batch.
#[derive(Serialize, ToSchema)]
pub(crate) struct Batch {
    id: String,
    /// cancel, pause, resume, retry, signal or migrate for instances; replay or discard for dead letters.
    act: String,
    /// What it acts on.
    q: String,
    /// What the act needs besides.
    with: Stored,
    /// running, paused, halted, done or cancelled.
    status: String,
    /// Why it is halted, or who paused or cancelled it.
    detail: Option<String>,
    /// Items in a second.
    rate: u32,
    counts: Counts,
    /// Who ordered it.
    by: String,
    why: Option<String>,
    /// Raised by every change but the counts.
    version: i64,
    created_at: String,
    updated_at: String,
    /// When all items were found; no item is acted on before.
    selected_at: Option<String>,
    ended_at: Option<String>,
}

/// Items by what became of them.
#[derive(Serialize, ToSchema)]
pub(crate) struct Counts {
    /// All that were found.
    matched: u64,
    /// Their turn has not come.
    waiting: u64,
    /// Put back, and not known yet what comes of it.
    sent: u64,
    done: u64,
    failed: u64,
    /// There was nothing to do, or they did not meet the query any more.
    skipped: u64,
}

/// One item of a batch.
#[derive(Serialize, ToSchema)]
pub(crate) struct BatchItem {
    /// The instance or dead letter.
    id: String,
    /// waiting, sent, done, failed or skipped.
    outcome: String,
    detail: Option<String>,
    at: Option<String>,
}

/// What a batch is to do.
#[derive(ToSchema)]
#[allow(dead_code, reason = "describes the body; it is read field by field")]
pub(crate) struct BatchRequest {
    /// cancel, pause, resume, retry, signal or migrate for instances; replay or discard for dead letters.
    act: String,
    /// A query, not an empty one.
    q: String,
    /// Items in a second, 1 to 10000; 50 unless given.
    rate: Option<u32>,
    /// In one line; kept with the batch and in history.
    why: Option<String>,
    /// For signal: the type of the event.
    name: Option<String>,
    /// For signal: its data.
    data: Option<serde_json::Value>,
    /// For migrate: the version to go on in.
    version: Option<String>,
    /// For migrate: old step reference to new.
    mapping: Option<serde_json::Value>,
    /// For replay: one first, then ten, then a hundred, then the rest, each when those before went well.
    ramp: Option<bool>,
    /// Only count.
    dry_run: Option<bool>,
}

/// What a batch would act on.
#[derive(Serialize, ToSchema)]
pub(crate) struct PreviewAnswer {
    matched: u64,
    /// There are more: only so many were counted.
    more: bool,
    /// A few of them.
    samples: Vec<String>,
}

/// A batch that was made.
#[derive(Serialize, ToSchema)]
pub(crate) struct Created {
    id: String,
}

/// Lists batches, newest first.
#[utoipa::path(
    get, path = "/api/v1/batches", tag = "batches", operation_id = "list_batches",
    params(
        ("id" = Option<String>, Query, description = "the beginning of an id: `bat_0192`"),
        ("status" = Option<String>, Query, description = "running, paused, halted, done or cancelled"),
        ("act" = Option<String>, Query),
        ("limit" = Option<usize>, Query, description = "1 to 200; 50 unless given"),
        ("cursor" = Option<String>, Query, description = "`next` of the page before"),
    ),
    responses((status = 200, description = "one page", body = Page<Batch>))
)]
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    uri: Uri,
) -> Result<Json<Page<Batch>>, Problem> {
    let parameters = Parameters::read(&uri, &["id", "status", "act", "limit", "cursor"])?;
    let limit = page::limit(&parameters)?;
    let cursors = Cursors::new(&caller, "batches");
    let filter =
        BatchFilter { status: parameters.one("status", STATUSES)?, act: parameters.one("act", &Act::WORDS)? };
    let beginning = Beginning::read(&parameters, Kind::Batch)?;
    let after = beginning.after(cursors.read_id(&parameters)?);
    let page = store::views::Page { after, limit: page::rows_for(limit) };
    let mut rows = app.store().batches(&caller.tenant, &filter, &page).await?;
    rows.retain(|row| !beginning.is_past(row.id));
    let more = page::cut(&mut rows, limit);
    let next = rows.last().filter(|_| more).map(|row| cursors.write(row.id.as_bytes()));
    Ok(Json(Page { items: rows.iter().map(batch_of).collect(), next }))
}

/// Makes a batch, which begins at once; with `dry_run`, only counts what it would act on. What comes into being later is
/// not touched. `Idempotency-Key` makes the request repeatable: sent again, it answers the same batch.
#[utoipa::path(
    post, path = "/api/v1/batches", tag = "batches", operation_id = "create_batch",
    params(("Idempotency-Key" = Option<String>, Header, description = "1 to 255 visible characters")),
    request_body = BatchRequest,
    responses(
        (status = 200, description = "what it would act on, for a dry run", body = PreviewAnswer),
        (status = 202, description = "made and durable; Location names it", body = Created),
        (status = 400, description = "the query is empty or cannot be read", body = ProblemBody),
        (status = 403, description = "the key does not allow the act", body = ProblemBody),
        (status = 422, description = "the idempotency key was used for another request", body = ProblemBody),
    )
)]
pub(crate) async fn create(
    State(app): State<App>,
    caller: Caller,
    _: NoParameters,
    headers: HeaderMap,
    body: body::Json,
) -> Result<Response, Problem> {
    let fields =
        body.fields(&["act", "q", "rate", "why", "name", "data", "version", "mapping", "ramp", "dry_run"])?;
    let act = read_act(&fields)?;
    allowed(&caller, &act)?;
    let is_empty = fields.value("q").is_some_and(|q| q.as_str() == Some(""));
    let query = if is_empty { String::new() } else { fields.required_text("q", QUERY_BYTES_MAX)? };
    let now = app.handle.clock(&caller.tenant).now;
    let conditions = machine::query::parse(act.subject(), &query, now)
        .map_err(|error| filter::refused(&fields.place("q"), error))?;
    if conditions.is_empty() {
        let detail = "a batch on everything is refused: say what it acts on";
        return Err(Problem::at(code::EMPTY_QUERY, fields.place("q"), detail));
    }
    if flag(&fields, "dry_run")? {
        let found = app.handle.preview(&caller.tenant, act.subject(), &conditions).await?;
        let show = |id: &uuid::Uuid| id::show(act.subject().kind(), *id);
        let samples = found.samples.iter().map(show).collect();
        return Ok(Json(PreviewAnswer { matched: found.matched, more: found.more, samples }).into_response());
    }
    let why = fields.label("why", WHY_BYTES_MAX)?;
    if act == Act::Discard && why.is_none() {
        let detail = "what is thrown away is gone: say why";
        return Err(Problem::at(code::MISSING_KEY, fields.place("why"), detail));
    }
    let wanted = NewBatch {
        act,
        query,
        rate: rate(&fields)?.unwrap_or(BATCH_RATE_DEFAULT),
        why,
        idempotency_key: query::idempotency_key(&headers)?,
    };
    let (batch, replayed) = detached(app.answer_max(), async move {
        Ok(app.handle.create_batch(&caller.tenant, wanted, &caller.actor).await?)
    })
    .await?;
    let id = id::show(Kind::Batch, batch);
    let location = [(header::LOCATION, format!("/api/v1/batches/{id}"))];
    let mut response = (StatusCode::ACCEPTED, location, Json(Created { id })).into_response();
    if replayed {
        response.headers_mut().insert(starts::REPLAYED, HeaderValue::from_static("true"));
    }
    Ok(response)
}

/// A batch does what its maker could do one by one.
fn allowed(caller: &Caller, act: &Act) -> Result<(), Problem> {
    let needed = match act {
        Act::Signal { .. } => Permission::InstancesSignal,
        _ if act.subject() == Subject::DeadLetters => Permission::DeadLettersAct,
        _ => Permission::InstancesOrder,
    };
    match Access::Needs(needed).admits(&caller.roles) {
        true => Ok(()),
        false => {
            let detail = format!("this act needs the permission {}", needed.word());
            Err(Problem::new(code::FORBIDDEN, detail))
        }
    }
}

fn read_act(fields: &Fields) -> Result<Act, Problem> {
    let word = fields.required_label("act", 32)?;
    let act = match word.as_str() {
        "cancel" => Act::Cancel,
        "pause" => Act::Pause,
        "resume" => Act::Resume,
        "retry" => Act::Retry,
        "signal" => Act::Signal {
            name: fields.required_label("name", crate::orders::NAME_BYTES_MAX)?,
            data: fields.value("data").unwrap_or(Data::NULL),
        },
        "migrate" => Act::Migrate {
            version: fields.required_text("version", versions::VERSION_BYTES_MAX)?,
            mapping: versions::mapping(fields)?,
        },
        "replay" => Act::Replay { ramp: flag(fields, "ramp")? },
        "discard" => Act::Discard,
        _ => {
            let detail = format!("this must be one of {}", Act::WORDS.join(", "));
            let hint = query::nearest_hint(&word, &Act::WORDS);
            return Err(Problem::at(code::INVALID_VALUE, fields.place("act"), detail).with_hint(hint));
        }
    };
    let belongs: &[(&str, bool)] = &[
        ("name", matches!(act, Act::Signal { .. })),
        ("data", matches!(act, Act::Signal { .. })),
        ("version", matches!(act, Act::Migrate { .. })),
        ("mapping", matches!(act, Act::Migrate { .. })),
        ("ramp", matches!(act, Act::Replay { .. })),
    ];
    match belongs.iter().find(|(key, belongs)| !belongs && fields.value(key).is_some()) {
        Some((key, _)) => {
            let detail = format!("this does not belong to the act {word}");
            Err(Problem::at(code::INVALID_VALUE, fields.place(key), detail))
        }
        None => Ok(act),
    }
}

fn rate(fields: &Fields) -> Result<Option<u32>, Problem> {
    let rate = fields.int("rate", 1..=i64::from(BATCH_RATE_MAX))?;
    Ok(rate.and_then(|rate| u32::try_from(rate).ok()))
}

fn flag(fields: &Fields, key: &str) -> Result<bool, Problem> {
    match fields.value(key) {
        None => Ok(false),
        Some(value) if value == Data::bool(true) => Ok(true),
        Some(value) if value == Data::bool(false) => Ok(false),
        Some(_) => Err(Problem::at(code::INVALID_VALUE, fields.place(key), "this must be true or false")),
    }
}

/// Reads a batch.
#[utoipa::path(
    get, path = "/api/v1/batches/{id}", tag = "batches", operation_id = "get_batch",
    params(("id" = String, Path)),
    responses(
        (status = 200, description = "the batch", body = Batch),
        (status = 404, description = "no such batch", body = ProblemBody),
    )
)]
pub(crate) async fn read(
    State(app): State<App>,
    caller: Caller,
    _: NoParameters,
    Named(text): Named<String>,
) -> Result<Json<Batch>, Problem> {
    find(&app, &caller, &text).await.map(|row| Json(batch_of(&row)))
}

async fn find(app: &App, caller: &Caller, text: &str) -> Result<BatchRow, Problem> {
    let id = query::path_id(Kind::Batch, text)?;
    let row = app.store().batch(&caller.tenant, id).await?;
    row.ok_or_else(|| Problem::not_found("batch"))
}

/// Lists the items of a batch with what became of each, by their ids.
#[utoipa::path(
    get, path = "/api/v1/batches/{id}/items", tag = "batches", operation_id = "list_batch_items",
    params(
        ("id" = String, Path),
        ("outcome" = Option<String>, Query, description = "waiting, sent, done, failed or skipped"),
        ("limit" = Option<usize>, Query, description = "1 to 200; 50 unless given"),
        ("cursor" = Option<String>, Query, description = "`next` of the page before"),
    ),
    responses(
        (status = 200, description = "one page", body = Page<BatchItem>),
        (status = 404, description = "no such batch", body = ProblemBody),
    )
)]
pub(crate) async fn items(
    State(app): State<App>,
    caller: Caller,
    uri: Uri,
    Named(text): Named<String>,
) -> Result<Json<Page<BatchItem>>, Problem> {
    let parameters = Parameters::read(&uri, &["outcome", "limit", "cursor"])?;
    let limit = page::limit(&parameters)?;
    let row = find(&app, &caller, &text).await?;
    let cursors = Cursors::new(&caller, &format!("batch-items:{}", row.id));
    let outcome = parameters.one("outcome", OUTCOMES)?.as_deref().and_then(ItemOutcome::by_word);
    let ask = ItemAsk {
        batch: row.id,
        outcome,
        after: cursors.read_id(&parameters)?,
        limit: page::rows_for(limit),
    };
    let mut items = app.store().batch_items(&caller.tenant, &ask).await?;
    let more = page::cut(&mut items, limit);
    let next = items.last().filter(|_| more).map(|item| cursors.write(item.item.as_bytes()));
    let kind =
        if ["replay", "discard"].contains(&row.act.as_str()) { Kind::DeadLetter } else { Kind::Instance };
    Ok(Json(Page { items: items.into_iter().map(|item| item_of(kind, item)).collect(), next }))
}

/// Stops a batch after what is under way, until it is resumed.
#[utoipa::path(
    post, path = "/api/v1/batches/{id}/pause", tag = "batches", operation_id = "pause_batch",
    params(("id" = String, Path)),
    responses(
        (status = 200, description = "the batch afterwards", body = Batch),
        (status = 404, description = "no such batch", body = ProblemBody),
        (status = 409, description = "it has ended", body = ProblemBody),
    )
)]
pub(crate) async fn pause(
    State(app): State<App>,
    caller: Caller,
    _: NoParameters,
    Named(text): Named<String>,
) -> Result<Json<Batch>, Problem> {
    order(app, caller, &text, BatchOrder::Pause).await
}

/// Lets a batch go on that is paused, or halted because items failed again.
#[utoipa::path(
    post, path = "/api/v1/batches/{id}/resume", tag = "batches", operation_id = "resume_batch",
    params(("id" = String, Path)),
    responses(
        (status = 200, description = "the batch afterwards", body = Batch),
        (status = 404, description = "no such batch", body = ProblemBody),
        (status = 409, description = "it has ended", body = ProblemBody),
    )
)]
pub(crate) async fn resume(
    State(app): State<App>,
    caller: Caller,
    _: NoParameters,
    Named(text): Named<String>,
) -> Result<Json<Batch>, Problem> {
    order(app, caller, &text, BatchOrder::Resume).await
}

/// Ends a batch; what is done stays done.
#[utoipa::path(
    post, path = "/api/v1/batches/{id}/cancel", tag = "batches", operation_id = "cancel_batch",
    params(("id" = String, Path)),
    responses(
        (status = 200, description = "the batch afterwards", body = Batch),
        (status = 404, description = "no such batch", body = ProblemBody),
        (status = 409, description = "it has ended", body = ProblemBody),
    )
)]
pub(crate) async fn cancel(
    State(app): State<App>,
    caller: Caller,
    _: NoParameters,
    Named(text): Named<String>,
) -> Result<Json<Batch>, Problem> {
    order(app, caller, &text, BatchOrder::Cancel).await
}

/// What may be changed of a batch.
#[derive(ToSchema)]
#[allow(dead_code, reason = "describes the body; it is read field by field")]
pub(crate) struct BatchChange {
    /// Items in a second, 1 to 10000.
    rate: u32,
}

/// Changes how fast a batch goes.
#[utoipa::path(
    patch, path = "/api/v1/batches/{id}", tag = "batches", operation_id = "change_batch",
    params(("id" = String, Path)),
    request_body = BatchChange,
    responses(
        (status = 200, description = "the batch afterwards", body = Batch),
        (status = 404, description = "no such batch", body = ProblemBody),
        (status = 409, description = "it has ended", body = ProblemBody),
    )
)]
pub(crate) async fn change(
    State(app): State<App>,
    caller: Caller,
    _: NoParameters,
    Named(text): Named<String>,
    body: body::Json,
) -> Result<Json<Batch>, Problem> {
    let fields = body.fields(&["rate"])?;
    let missing = || Problem::at(code::MISSING_KEY, fields.place("rate"), "this is needed");
    let rate = rate(&fields)?.ok_or_else(missing)?;
    order(app, caller, &text, BatchOrder::Rate(rate)).await
}

async fn order(app: App, caller: Caller, text: &str, order: BatchOrder) -> Result<Json<Batch>, Problem> {
    let id = query::path_id(Kind::Batch, text)?;
    let answer_max = app.answer_max();
    let ordered = async move { Ok(app.handle.order_batch(&caller.tenant, id, order, &caller.actor).await?) };
    let row = detached(answer_max, ordered).await?;
    Ok(Json(batch_of(&row)))
}

fn batch_of(row: &BatchRow) -> Batch {
    let counts = row.counts;
    let settled = counts.sent + counts.done + counts.failed + counts.skipped;
    Batch {
        id: id::show(Kind::Batch, row.id),
        act: row.act.clone(),
        q: row.query.clone(),
        with: Stored::of(&row.arguments),
        status: row.status.clone(),
        detail: row.detail.clone(),
        rate: row.rate,
        counts: Counts {
            matched: row.matched,
            waiting: row.matched.saturating_sub(settled),
            sent: counts.sent,
            done: counts.done,
            failed: counts.failed,
            skipped: counts.skipped,
        },
        by: row.actor.clone(),
        why: row.why.clone(),
        version: row.row_version,
        created_at: wire::time(row.created_at),
        updated_at: wire::time(row.updated_at),
        selected_at: wire::time_if(row.selected_at),
        ended_at: wire::time_if(row.ended_at),
    }
}

fn item_of(kind: Kind, item: BatchItemRow) -> BatchItem {
    // What is followed of an item that is under way is for the engine.
    let detail = item.detail.filter(|_| item.outcome != ItemOutcome::Sent);
    BatchItem {
        id: id::show(kind, item.item),
        outcome: item.outcome.word().to_owned(),
        detail,
        at: wire::time_if(item.at),
    }
}
