//! What workers somewhere else say of the deliveries they asked for: done, failed, still at it.

use crate::{
    app::{App, detached},
    auth::Caller,
    body::{self, Fields},
    code,
    problem::{Problem, ProblemBody},
    query::{self, Named, NoParameters},
    wire,
};
use axum::{Json, extract::State, http::StatusCode};
use machine::{Data, id::Kind, time::Span};
use runtime::api::{Class, Effects, Emit, Failure, Handled, Move};
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

/// The longest message of a failure, and the most events one answer emits.
const MESSAGE_BYTES_MAX: usize = 4_096;
const EMITS_MAX: usize = 100;
const MOVES_MAX: usize = 16;
const RESULTS_MAX: usize = 1_000;
const SECONDS_MAX: i64 = 86_400;
const CLASSES: &[Class] =
    &[Class::Transient, Class::RateLimited, Class::Auth, Class::Validation, Class::Poison];

/// An event that follows.
#[derive(ToSchema)]
#[allow(dead_code, reason = "describes the body; it is read field by field")]
pub(crate) struct EmitRequest {
    #[schema(rename = "type")]
    event_type: String,
    subject: Option<String>,
    data: Option<serde_json::Value>,
    /// Of this worker one event with the key is emitted, whatever deliveries they come from.
    once: Option<String>,
}

/// The delivery is done.
#[derive(ToSchema)]
#[allow(dead_code, reason = "describes the body; it is read field by field")]
pub(crate) struct Completion {
    /// The attempt that the delivery came with.
    attempt: u32,
    /// Events that follow from it; published in the same commit.
    emit: Option<Vec<EmitRequest>>,
    /// Watermarks that move on, in the same commit.
    watermarks: Option<Vec<MoveRequest>>,
    /// For a delivery of several events: one for each, in their order, each with `emit` or with `class`, `message`
    /// and `retry_after_seconds` if that event failed.
    results: Option<Vec<serde_json::Value>>,
}

/// A watermark that moves on.
#[derive(ToSchema)]
#[allow(dead_code, reason = "describes the body; it is read field by field")]
pub(crate) struct MoveRequest {
    name: String,
    value: Option<serde_json::Value>,
    /// The version that the delivery came with; if it is another by now nothing is written and the answer is refused.
    version: i64,
}

/// The attempt failed.
#[derive(ToSchema)]
#[allow(dead_code, reason = "describes the body; it is read field by field")]
pub(crate) struct FailureRequest {
    /// The attempt that the delivery came with.
    attempt: u32,
    /// transient, rate-limited and auth are tried again by the worker's policy; validation and poison become a dead
    /// letter at once.
    class: String,
    message: String,
    /// Not before so many seconds.
    retry_after_seconds: Option<i64>,
}

/// The worker goes on.
#[derive(ToSchema)]
#[allow(dead_code, reason = "describes the body; it is read field by field")]
pub(crate) struct Heartbeat {
    attempt: u32,
    /// Nobody else gets the delivery for so long from now; 60 unless given.
    seconds: Option<i64>,
}

/// How long it has now.
#[derive(Serialize, ToSchema)]
pub(crate) struct Extended {
    expires_at: String,
}

/// Ends a delivery. What it emits and its end are one commit.
#[utoipa::path(
    post, path = "/api/v1/deliveries/{id}/complete", tag = "workers", operation_id = "complete_delivery",
    params(("id" = String, Path)),
    request_body = Completion,
    responses(
        (status = 204, description = "done"),
        (status = 409, description = "it is not the caller's any more: drop it and go on", body = ProblemBody),
    )
)]
pub(crate) async fn complete(
    State(app): State<App>,
    caller: Caller,
    _: NoParameters,
    Named(text): Named<String>,
    body: body::Json,
) -> Result<StatusCode, Problem> {
    let fields = body.fields(&["attempt", "emit", "watermarks", "results"])?;
    let answers = match fields.value("results") {
        None => vec![Handled::Done(effects(&fields)?)],
        Some(_) if fields.value("emit").is_some() => {
            let detail = "give `emit` here or in each of `results`, not both";
            return Err(Problem::at(code::INVALID_VALUE, fields.place("emit"), detail));
        }
        Some(_) => {
            let results = fields.items("results", RESULTS_MAX)?;
            results.iter().enumerate().map(|(at, one)| result(at, one)).collect::<Result<_, _>>()?
        }
    };
    answer(app, caller, &text, &fields, answers).await
}

/// Says that an attempt failed: the delivery comes again later, or becomes a dead letter.
#[utoipa::path(
    post, path = "/api/v1/deliveries/{id}/fail", tag = "workers", operation_id = "fail_delivery",
    params(("id" = String, Path)),
    request_body = FailureRequest,
    responses(
        (status = 204, description = "noted"),
        (status = 409, description = "it is not the caller's any more: drop it and go on", body = ProblemBody),
    )
)]
pub(crate) async fn fail(
    State(app): State<App>,
    caller: Caller,
    _: NoParameters,
    Named(text): Named<String>,
    body: body::Json,
) -> Result<StatusCode, Problem> {
    let fields = body.fields(&["attempt", "class", "message", "retry_after_seconds"])?;
    let failed = failure(&fields)?;
    answer(app, caller, &text, &fields, vec![failed]).await
}

/// Says that the worker is still at it.
#[utoipa::path(
    post, path = "/api/v1/deliveries/{id}/heartbeat", tag = "workers", operation_id = "extend_delivery",
    params(("id" = String, Path)),
    request_body = Heartbeat,
    responses(
        (status = 200, description = "it has longer", body = Extended),
        (status = 409, description = "it is not the caller's any more: drop it and go on", body = ProblemBody),
    )
)]
pub(crate) async fn heartbeat(
    State(app): State<App>,
    caller: Caller,
    _: NoParameters,
    Named(text): Named<String>,
    body: body::Json,
) -> Result<Json<Extended>, Problem> {
    let id = query::path_id(Kind::Delivery, &text)?;
    let fields = body.fields(&["attempt", "seconds"])?;
    let attempt = attempt(&fields)?;
    let seconds = fields.int("seconds", 1..=SECONDS_MAX)?.unwrap_or(60) as u32;
    let until = detached(app.answer_max(), async move {
        Ok(app.handle.extend_delivery(&caller.tenant, id, attempt, seconds).await?)
    })
    .await?;
    Ok(Json(Extended { expires_at: wire::time(until) }))
}

async fn answer(
    app: App,
    caller: Caller,
    text: &str,
    fields: &Fields,
    answers: Vec<Handled>,
) -> Result<StatusCode, Problem> {
    let id: Uuid = query::path_id(Kind::Delivery, text)?;
    let attempt = attempt(fields)?;
    detached(app.answer_max(), async move {
        Ok(app.handle.answer_delivery(&caller.tenant, id, attempt, answers).await?)
    })
    .await?;
    Ok(StatusCode::NO_CONTENT)
}

fn attempt(fields: &Fields) -> Result<u32, Problem> {
    let attempt = fields.int("attempt", 1..=i64::from(u32::MAX))?;
    let missing = || Problem::at(code::MISSING_KEY, fields.place("attempt"), "this key is required");
    Ok(attempt.ok_or_else(missing)? as u32)
}

/// One of the results of a delivery of several events.
fn result(at: usize, one: &Data) -> Result<Handled, Problem> {
    let known = &["emit", "watermarks", "class", "message", "retry_after_seconds"];
    let fields = Fields::new(one, &format!("/results/{at}"), known)?;
    match fields.value("class") {
        Some(_) => failure(&fields),
        None => Ok(Handled::Done(effects(&fields)?)),
    }
}

fn failure(fields: &Fields) -> Result<Handled, Problem> {
    let word = fields.required_text("class", 100)?;
    let class = CLASSES.iter().copied().find(|class| class.word() == word).ok_or_else(|| {
        let detail = "this must be transient, rate-limited, auth, validation or poison";
        Problem::at(code::INVALID_VALUE, fields.place("class"), detail)
    })?;
    let message = fields.required_text("message", MESSAGE_BYTES_MAX)?;
    let after = fields.int("retry_after_seconds", 0..=SECONDS_MAX)?.map(Span::from_secs);
    let failure = Failure { class, message };
    Ok(match class {
        Class::Validation | Class::Poison => Handled::Fail(failure),
        Class::Transient | Class::RateLimited | Class::Auth => Handled::Retry { failure, after },
    })
}

fn effects(fields: &Fields) -> Result<Effects, Problem> {
    Ok(Effects { emits: emits(fields)?, moves: moves(fields)?, ..Effects::default() })
}

fn moves(fields: &Fields) -> Result<Vec<Move>, Problem> {
    if fields.value("watermarks").is_none() {
        return Ok(vec![]);
    }
    let to = |(at, one): (usize, &Data)| {
        let place = format!("{}/{at}", fields.place("watermarks"));
        let fields = Fields::new(one, &place, &["name", "value", "version"])?;
        let missing = || Problem::at(code::MISSING_KEY, fields.place("version"), "this key is required");
        Ok(Move {
            name: fields.required_label("name", 100)?,
            value: fields.value("value").unwrap_or_default(),
            version: fields.int("version", 0..=i64::MAX - 1)?.ok_or_else(missing)?,
        })
    };
    fields.items("watermarks", MOVES_MAX)?.iter().enumerate().map(to).collect()
}

fn emits(fields: &Fields) -> Result<Vec<Emit>, Problem> {
    if fields.value("emit").is_none() {
        return Ok(vec![]);
    }
    let emit = |(at, one): (usize, &Data)| {
        let place = format!("{}/{at}", fields.place("emit"));
        let fields = Fields::new(one, &place, &["type", "subject", "data", "once"])?;
        Ok(Emit {
            event_type: fields.required_label("type", 1024)?,
            subject: fields.label("subject", 1024)?,
            data: fields.value("data").unwrap_or_default(),
            once: fields.label("once", 1024)?,
        })
    };
    fields.items("emit", EMITS_MAX)?.iter().enumerate().map(emit).collect()
}
