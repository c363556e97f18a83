//! Dead letters: what could not be done, kept until somebody replays or discards it.

use crate::{
    app::{App, detached},
    auth::Caller,
    body::{self, Fields},
    error_groups::{self, ErrorGroup},
    filter,
    page::{self, Beginning, Cursors, Page},
    problem::{Problem, ProblemBody},
    query::{self, Named, NoParameters, Parameters},
    wire::{self, Status, Stored},
};
use axum::{Json, extract::State, http::Uri};
use machine::{
    id::{self, Kind},
    query::Subject,
};
use serde::{Deserialize, Serialize};
use store::{
    rows::{DeadLetterRow, LetterGroup},
    views::DeadLetterFilter,
};
use utoipa::ToSchema;

/// A dead letter as lists show it.
#[derive(Serialize, ToSchema)]
pub(crate) struct DeadLetter {
    id: String,
    /// signal, timer or call.
    source: String,
    /// deserialization, definition-missing, snapshot-inconsistent or retries-exhausted.
    reason: String,
    detail: String,
    /// The worker (or `http`) a given-up call or delivery was for.
    worker: Option<String>,
    instance: Option<String>,
    attempts: u32,
    /// The error group it belongs to.
    group: Option<String>,
    /// The node that gave up.
    last_node: String,
    failed_at: String,
}

/// A dead letter with what it carried.
#[derive(Serialize, ToSchema)]
pub(crate) struct DeadLetterDetail {
    #[serde(flatten)]
    letter: DeadLetter,
    /// What was in the queue, if it is JSON.
    envelope: Option<Stored>,
    /// The same as text, if it is not JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    envelope_text: Option<String>,
    /// What a replay needs besides.
    origin: Stored,
}

/// Bytes of the reason that a dead letter is discarded for.
const REASON_BYTES_MAX: usize = 1_000;
const SOURCES: &[&str] = &["signal", "timer", "call", "saga", "delivery", "event", "bus"];
const REASONS: &[&str] = &[
    "deserialization",
    "definition-missing",
    "snapshot-inconsistent",
    "retries-exhausted",
    "saga-stuck",
    "loop",
    "refused",
    "poison",
];

/// Lists dead letters, newest first.
#[utoipa::path(
    get, path = "/api/v1/dead-letters", tag = "dead letters", operation_id = "list_dead_letters",
    params(
        ("q" = Option<String>, Query, description = "a query such as `worker:mail reason:poison failed:>-1h`"),
        ("id" = Option<String>, Query, description = "the beginning of an id: `dl_0192`"),
        ("reason" = Option<String>, Query), ("source" = Option<String>, Query),
        ("worker" = Option<String>, Query, description = "only calls and deliveries to this worker, or calls to `http`"),
        ("instance" = Option<String>, Query, description = "only those of this instance"),
        ("group" = Option<String>, Query, description = "only those of this error group: `err_…`"),
        ("limit" = Option<usize>, Query, description = "1 to 200; 50 unless given"),
        ("cursor" = Option<String>, Query, description = "`next` of the page before"),
    ),
    responses((status = 200, description = "one page", body = Page<DeadLetter>))
)]
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    uri: Uri,
) -> Result<Json<Page<DeadLetter>>, Problem> {
    let parameters = Parameters::read(
        &uri,
        &[filter::Q, "id", "reason", "source", "worker", "instance", "group", "limit", "cursor"],
    )?;
    let limit = page::limit(&parameters)?;
    let cursors = Cursors::new(&caller, "dead-letters");
    let wanted = DeadLetterFilter {
        group: parameters.id("group", Kind::ErrorGroup)?,
        reason: parameters.one("reason", REASONS)?,
        source: parameters.one("source", SOURCES)?,
        instance: parameters.id("instance", Kind::Instance)?,
        worker: parameters.owned("worker"),
        conditions: filter::conditions(&app, &caller, &parameters, Subject::DeadLetters)?,
    };
    let beginning = Beginning::read(&parameters, Kind::DeadLetter)?;
    let after = beginning.after(cursors.read_id(&parameters)?);
    let page = store::views::Page { after, limit: page::rows_for(limit) };
    let mut rows = app.store().dead_letters(&caller.tenant, &wanted, &page).await?;
    rows.retain(|letter| !beginning.is_past(letter.id));
    let more = page::cut(&mut rows, limit);
    let next = rows.last().filter(|_| more).map(|row| cursors.write(row.id.as_bytes()));
    Ok(Json(Page { items: rows.iter().map(letter_of).collect(), next }))
}

/// Dead letters that failed alike.
#[derive(Serialize, ToSchema)]
pub(crate) struct DeadLetterGroup {
    /// The error group; null for letters that belong to none.
    group: Option<ErrorGroup>,
    /// How many letters there are now; the group itself also counts those that were replayed or discarded.
    letters: u64,
    first_failed: String,
    last_failed: String,
    /// The newest of them.
    newest: String,
}

/// Counts dead letters by error group, the group with the newest first.
#[utoipa::path(
    get, path = "/api/v1/dead-letters/groups", tag = "dead letters", operation_id = "list_dead_letter_groups",
    params(
        ("limit" = Option<usize>, Query, description = "1 to 200; 50 unless given"),
        ("cursor" = Option<String>, Query, description = "`next` of the page before"),
    ),
    responses((status = 200, description = "one page", body = Page<DeadLetterGroup>))
)]
pub(crate) async fn groups(
    State(app): State<App>,
    caller: Caller,
    uri: Uri,
) -> Result<Json<Page<DeadLetterGroup>>, Problem> {
    let parameters = Parameters::read(&uri, &["limit", "cursor"])?;
    let limit = page::limit(&parameters)?;
    let cursors = Cursors::new(&caller, "dead-letter-groups");
    let after = cursors.read(&parameters)?.map(|at| error_groups::read_position(&at)).transpose()?;
    let after = after.map(|(at, group)| (at, Some(group).filter(|group| !group.is_nil())));
    let mut rows = app.store().dead_letter_groups(&caller.tenant, after, page::rows_for(limit)).await?;
    let more = page::cut(&mut rows, limit);
    let position = |row: &LetterGroup| error_groups::position(row.last_at, row.group.unwrap_or_default());
    let next = rows.last().filter(|_| more).map(|row| cursors.write(&position(row)));
    let mut items = Vec::with_capacity(rows.len());
    for row in rows {
        let group = match row.group {
            Some(group) => app.store().error_group(&caller.tenant, group).await?,
            None => None,
        };
        items.push(DeadLetterGroup {
            group: group.as_ref().map(error_groups::group_of),
            letters: row.count,
            first_failed: wire::time(row.first_at),
            last_failed: wire::time(row.last_at),
            newest: id::show(Kind::DeadLetter, row.newest),
        });
    }
    Ok(Json(Page { items, next }))
}

/// Reads a dead letter with what it carried.
#[utoipa::path(
    get, path = "/api/v1/dead-letters/{id}", tag = "dead letters", operation_id = "get_dead_letter",
    params(("id" = String, Path)),
    responses(
        (status = 200, description = "the dead letter", body = DeadLetterDetail),
        (status = 404, description = "no such dead letter", body = ProblemBody),
    )
)]
pub(crate) async fn read(
    State(app): State<App>,
    caller: Caller,
    _: NoParameters,
    Named(text): Named<String>,
) -> Result<Json<DeadLetterDetail>, Problem> {
    let id = query::path_id(Kind::DeadLetter, &text)?;
    let row = app.store().dead_letter(&caller.tenant, id).await?;
    let row = row.ok_or_else(|| Problem::not_found("dead letter"))?;
    let envelope = Stored::read(&row.envelope);
    let envelope_text = envelope.is_none().then(|| String::from_utf8_lossy(&row.envelope).into_owned());
    let (letter, origin) = (letter_of(&row), Stored::of(&row.origin));
    Ok(Json(DeadLetterDetail { letter, envelope, envelope_text, origin }))
}

/// What a worker is given instead.
#[derive(Deserialize, ToSchema)]
#[allow(dead_code, reason = "describes the body; the fields are read by name")]
pub(crate) struct ReplayRequest {
    /// The `data` of the event that is delivered instead, to the same worker.
    data: Option<serde_json::Value>,
}

/// Why a dead letter is given up.
#[derive(Deserialize, ToSchema)]
#[allow(dead_code, reason = "describes the body; the fields are read by name")]
pub(crate) struct DiscardRequest {
    /// In one line; history keeps it.
    reason: Option<String>,
}

/// The body's field of that name, where the body may be empty.
fn given(body: body::Json, known: &'static [&'static str]) -> Result<Option<Fields>, Problem> {
    match body.0 {
        Some(_) => body.fields(known).map(Some),
        None => Ok(None),
    }
}

/// Puts a dead letter back where it came from, with its original keys. With `data`, the worker is given a new event with that
/// data instead, which names the first as its cause and who changed it; only for dead letters of deliveries.
#[utoipa::path(
    post, path = "/api/v1/dead-letters/{id}/replay", tag = "dead letters", operation_id = "replay_dead_letter",
    params(("id" = String, Path)),
    request_body(content = ReplayRequest, description = "optional"),
    responses(
        (status = 200, description = "it is queued again", body = Status),
        (status = 404, description = "no such dead letter, or replayed before", body = ProblemBody),
    )
)]
pub(crate) async fn replay(
    State(app): State<App>,
    caller: Caller,
    _: NoParameters,
    Named(text): Named<String>,
    body: body::Json,
) -> Result<Json<Status>, Problem> {
    let id = query::path_id(Kind::DeadLetter, &text)?;
    let data = given(body, &["data"])?.and_then(|fields| fields.value("data"));
    detached(app.answer_max(), async move {
        let Caller { tenant, actor, .. } = &caller;
        match data {
            Some(data) => app.handle.replay_changed(tenant, id, actor, data).await?,
            None => app.handle.replay_dead_letter(tenant, id, actor).await?,
        }
        Ok(())
    })
    .await?;
    Ok(Json(Status { status: "replayed".to_owned() }))
}

/// Deletes a dead letter.
#[utoipa::path(
    post, path = "/api/v1/dead-letters/{id}/discard", tag = "dead letters", operation_id = "discard_dead_letter",
    params(("id" = String, Path)),
    request_body(content = DiscardRequest, description = "optional"),
    responses(
        (status = 200, description = "it is gone", body = Status),
        (status = 404, description = "no such dead letter", body = ProblemBody),
    )
)]
pub(crate) async fn discard(
    State(app): State<App>,
    caller: Caller,
    _: NoParameters,
    Named(text): Named<String>,
    body: body::Json,
) -> Result<Json<Status>, Problem> {
    let id = query::path_id(Kind::DeadLetter, &text)?;
    let fields = given(body, &["reason"])?;
    let reason = fields.map(|fields| fields.label("reason", REASON_BYTES_MAX)).transpose()?.flatten();
    detached(app.answer_max(), async move {
        Ok(app.handle.discard_dead_letter(&caller.tenant, id, &caller.actor, reason).await?)
    })
    .await?;
    Ok(Json(Status { status: "discarded".to_owned() }))
}

fn letter_of(row: &DeadLetterRow) -> DeadLetter {
    DeadLetter {
        id: id::show(Kind::DeadLetter, row.id),
        source: row.source.clone(),
        reason: row.reason.clone(),
        detail: row.detail.clone(),
        worker: worker_of(row),
        instance: row.instance.map(|instance| id::show(Kind::Instance, instance)),
        attempts: row.attempts,
        group: row.group.map(|group| id::show(Kind::ErrorGroup, group)),
        last_node: id::show(Kind::Node, row.last_node),
        failed_at: wire::time(row.failed_at),
    }
}

fn worker_of(row: &DeadLetterRow) -> Option<String> {
    let origin: serde_json::Value = serde_json::from_slice(&row.origin).ok()?;
    origin["name"].as_str().filter(|_| ["call", "delivery"].contains(&row.source.as_str())).map(str::to_owned)
}
