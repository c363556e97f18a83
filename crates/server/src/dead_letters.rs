//! Dead letters: what could not be done, kept until somebody replays or discards it.

use crate::{
    app::{App, detached},
    auth::Caller,
    body::Nothing,
    page::{self, Beginning, Cursors, Page},
    problem::{Problem, ProblemBody},
    query::{self, Named, NoParameters, Parameters},
    wire::{self, Status, Stored},
};
use axum::{Json, extract::State, http::Uri};
use machine::id::{self, Kind};
use serde::Serialize;
use store::{rows::DeadLetterRow, views::DeadLetterFilter};
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

const SOURCES: &[&str] = &["signal", "timer", "call", "saga", "delivery", "event", "bus"];
const REASONS: &[&str] = &[
    "deserialization",
    "definition-missing",
    "snapshot-inconsistent",
    "retries-exhausted",
    "saga-stuck",
    "refused",
    "poison",
];

/// Lists dead letters, newest first.
#[utoipa::path(
    get, path = "/api/v1/dead-letters", tag = "dead letters", operation_id = "list_dead_letters",
    params(
        ("id" = Option<String>, Query, description = "the beginning of an id: `dl_0192`"),
        ("reason" = Option<String>, Query), ("source" = Option<String>, Query),
        ("worker" = Option<String>, Query, description = "only calls and deliveries to this worker, or calls to `http`"),
        ("instance" = Option<String>, Query, description = "only those of this instance"),
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
    let parameters =
        Parameters::read(&uri, &["id", "reason", "source", "worker", "instance", "limit", "cursor"])?;
    let limit = page::limit(&parameters)?;
    let cursors = Cursors::new(&caller, "dead-letters");
    let filter = DeadLetterFilter {
        reason: one(&parameters, "reason", REASONS)?,
        source: one(&parameters, "source", SOURCES)?,
        instance: parameters.id("instance", Kind::Instance)?,
        worker: parameters.owned("worker"),
    };
    let beginning = Beginning::read(&parameters, Kind::DeadLetter)?;
    let after = beginning.after(cursors.read_id(&parameters)?);
    let page = store::views::Page { after, limit: page::rows_for(limit) };
    let mut rows = app.store().dead_letters(&caller.tenant, &filter, &page).await?;
    rows.retain(|letter| !beginning.is_past(letter.id));
    let more = page::cut(&mut rows, limit);
    let next = rows.last().filter(|_| more).map(|row| cursors.write(row.id.as_bytes()));
    Ok(Json(Page { items: rows.iter().map(letter_of).collect(), next }))
}

fn one(parameters: &Parameters, name: &str, known: &[&str]) -> Result<Option<String>, Problem> {
    let mut words = parameters.words(name, known)?;
    match words.len() {
        0 | 1 => Ok(words.pop()),
        _ => Err(query::invalid(name, "only one may be given")),
    }
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

/// Puts a dead letter back where it came from, with its original keys.
#[utoipa::path(
    post, path = "/api/v1/dead-letters/{id}/replay", tag = "dead letters", operation_id = "replay_dead_letter",
    params(("id" = String, Path)),
    responses(
        (status = 200, description = "it is queued again", body = Status),
        (status = 404, description = "no such dead letter, or replayed before", body = ProblemBody),
    )
)]
pub(crate) async fn replay(
    State(app): State<App>,
    caller: Caller,
    Named(text): Named<String>,
    _: Nothing,
) -> Result<Json<Status>, Problem> {
    let id = query::path_id(Kind::DeadLetter, &text)?;
    detached(app.answer_max(), async move {
        Ok(app.handle.replay_dead_letter(&caller.tenant, id, &caller.actor).await?)
    })
    .await?;
    Ok(Json(Status { status: "replayed".to_owned() }))
}

/// Deletes a dead letter.
#[utoipa::path(
    post, path = "/api/v1/dead-letters/{id}/discard", tag = "dead letters", operation_id = "discard_dead_letter",
    params(("id" = String, Path)),
    responses(
        (status = 200, description = "it is gone", body = Status),
        (status = 404, description = "no such dead letter", body = ProblemBody),
    )
)]
pub(crate) async fn discard(
    State(app): State<App>,
    caller: Caller,
    Named(text): Named<String>,
    _: Nothing,
) -> Result<Json<Status>, Problem> {
    let id = query::path_id(Kind::DeadLetter, &text)?;
    detached(app.answer_max(), async move {
        Ok(app.handle.discard_dead_letter(&caller.tenant, id, &caller.actor).await?)
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
        last_node: id::show(Kind::Node, row.last_node),
        failed_at: wire::time(row.failed_at),
    }
}

fn worker_of(row: &DeadLetterRow) -> Option<String> {
    let origin: serde_json::Value = serde_json::from_slice(&row.origin).ok()?;
    origin["name"].as_str().filter(|_| ["call", "delivery"].contains(&row.source.as_str())).map(str::to_owned)
}
