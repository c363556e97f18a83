//! How an instance ended, waiting for the end if asked to.

use crate::{
    app::App,
    auth::Caller,
    problem::{Problem, ProblemBody},
    query::{self, Named, NoParameters},
    wire::{Status, Stored},
};
use axum::{
    Json,
    extract::State,
    http::{HeaderMap, HeaderName, StatusCode},
    response::{IntoResponse, Response},
};
use machine::id::Kind;
use runtime::api::InstanceResult;
use serde::Serialize;
use std::time::Duration;
use utoipa::ToSchema;

/// The longest wait of one request.
const WAIT_SECONDS_MAX: u64 = 60;

/// How it ended.
#[derive(Serialize, ToSchema)]
pub(crate) struct ResultBody {
    /// completed, faulted or cancelled.
    status: String,
    output: Option<Stored>,
    /// The error object of the definition language (RFC 7807).
    error: Option<Stored>,
}

/// Answers the result; with `Prefer: wait=N` holds the request up to N seconds (60 at most) until there is one.
#[utoipa::path(
    get, path = "/api/v1/instances/{id}/result", tag = "instances", operation_id = "get_instance_result",
    params(("id" = String, Path), ("Prefer" = Option<String>, Header, description = "wait=N, N up to 60")),
    responses(
        (status = 200, description = "it has ended", body = ResultBody),
        (status = 202, description = "it goes on; the status word of now", body = Status),
        (status = 404, description = "no such instance", body = ProblemBody),
    )
)]
pub(crate) async fn read(
    State(app): State<App>,
    caller: Caller,
    _: NoParameters,
    headers: HeaderMap,
    Named(text): Named<String>,
) -> Result<Response, Problem> {
    let id = query::path_id(Kind::Instance, &text)?;
    let wait = wait(&headers);
    let handle = app.handle.clone();
    let result = tokio::select! {
        result = handle.result(&caller.tenant, id, Duration::from_secs(wait.unwrap_or(0))) => result?,
        // A server that stops must not be held by whoever waits.
        () = app.stopped() => handle.result(&caller.tenant, id, Duration::ZERO).await?,
    };
    let mut response = match result {
        InstanceResult::Completed(output) => ended("completed", Some(Stored::of(&output.to_bytes())), None),
        InstanceResult::Faulted(fault) => {
            ended("faulted", None, Some(Stored::of(&fault.to_data().to_bytes())))
        }
        InstanceResult::Cancelled => ended("cancelled", None, None),
        InstanceResult::Pending(status) => (StatusCode::ACCEPTED, Json(Status { status })).into_response(),
    };
    if let Some(applied) = wait.and_then(|seconds| format!("wait={seconds}").parse().ok()) {
        response.headers_mut().insert(HeaderName::from_static("preference-applied"), applied);
    }
    Ok(response)
}

fn ended(status: &str, output: Option<Stored>, error: Option<Stored>) -> Response {
    Json(ResultBody { status: status.to_owned(), output, error }).into_response()
}

/// Seconds that the client prefers to wait. A preference that is not understood is ignored (RFC 7240).
fn wait(headers: &HeaderMap) -> Option<u64> {
    let values = headers.get_all("prefer").into_iter().filter_map(|value| value.to_str().ok());
    let mut preferences = values.flat_map(|value| value.split([',', ';']));
    let seconds = preferences.find_map(|preference| preference.trim().strip_prefix("wait="))?;
    seconds.trim_matches('"').parse::<u64>().ok().map(|seconds| seconds.min(WAIT_SECONDS_MAX))
}
