//! The tenant's clock, for trying definitions with long waits. Moving it is refused unless the node allows it.

use crate::{
    app::{App, detached},
    auth::Caller,
    body, code,
    problem::{Problem, ProblemBody},
    query::NoParameters,
    wire,
};
use axum::{Json, extract::State};
use machine::{Time, time::Span};
use runtime::api::DevClock;
use serde::Serialize;
use utoipa::ToSchema;

const TEXT_BYTES_MAX: usize = 64;

/// A tenant's clock.
#[derive(Serialize, ToSchema)]
pub(crate) struct Clock {
    now: String,
    /// Milliseconds that it is ahead of the real one.
    ahead_ms: i64,
    /// True if it may be moved here.
    enabled: bool,
}

/// How far to move the clock: one of both.
#[derive(ToSchema)]
#[allow(dead_code, reason = "describes the body; it is read field by field")]
pub(crate) struct ClockRequest {
    /// An ISO 8601 duration such as P3D.
    by: Option<String>,
    /// A time in the future such as 2027-01-31T12:00:00Z.
    to: Option<String>,
}

/// Reads the tenant's clock.
#[utoipa::path(
    get, path = "/api/v1/dev/clock", tag = "operations", operation_id = "get_clock",
    responses((status = 200, description = "the clock", body = Clock))
)]
pub(crate) async fn read(State(app): State<App>, caller: Caller, _: NoParameters) -> Json<Clock> {
    Json(clock_of(app.handle.clock(&caller.tenant)))
}

/// Moves the tenant's clock forward: timers, retries, limits and schedules become due as if the time had passed.
#[utoipa::path(
    post, path = "/api/v1/dev/clock", tag = "operations", operation_id = "advance_clock",
    request_body = ClockRequest,
    responses(
        (status = 200, description = "the clock afterwards", body = Clock),
        (status = 409, description = "not allowed on this node", body = ProblemBody),
        (status = 422, description = "it would go back, or too far", body = ProblemBody),
    )
)]
pub(crate) async fn advance(
    State(app): State<App>,
    caller: Caller,
    _: NoParameters,
    body: body::Json,
) -> Result<Json<Clock>, Problem> {
    let fields = body.fields(&["by", "to"])?;
    let wrong = |key: &str, what: &str| Problem::at(code::INVALID_VALUE, format!("/{key}"), what.to_owned());
    let by = match (fields.text("by", TEXT_BYTES_MAX)?, fields.text("to", TEXT_BYTES_MAX)?) {
        (Some(by), None) => Span::parse_iso8601(&by)
            .ok_or_else(|| wrong("by", "this must be an ISO 8601 duration such as P3D"))?,
        (None, Some(to)) => {
            let to = Time::parse_rfc3339(&to)
                .ok_or_else(|| wrong("to", "this must be a time such as 2027-01-31T12:00:00Z"))?;
            to.since(app.handle.clock(&caller.tenant).now)
        }
        _ => return Err(wrong("by", "give either `by` or `to`")),
    };
    let moved =
        detached(app.answer_max(), async move { Ok(app.handle.advance_clock(&caller.tenant, by).await?) })
            .await?;
    Ok(Json(clock_of(moved)))
}

fn clock_of(clock: DevClock) -> Clock {
    Clock { now: wire::time(clock.now), ahead_ms: clock.ahead.as_millis(), enabled: clock.enabled }
}
