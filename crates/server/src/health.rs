//! Is the process alive, and can it do its work?

use crate::{app::App, problem::Problem};
use axum::{
    Json,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde::Serialize;
use std::time::Duration;
use utoipa::ToSchema;

/// How long the store may take to answer a probe.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

/// Alive.
#[derive(Serialize, ToSchema)]
pub(crate) struct Health {
    status: &'static str,
}

/// Ready or not.
#[derive(Serialize, ToSchema)]
pub(crate) struct Readiness {
    ready: bool,
    /// Why not.
    reasons: Vec<&'static str>,
}

/// Answers 200 as long as the process serves.
#[utoipa::path(
    get, path = "/healthz", tag = "operations", operation_id = "get_health",
    responses((status = 200, description = "alive", body = Health))
)]
pub(crate) async fn health() -> Json<Health> {
    Json(Health { status: "ok" })
}

/// Answers 200 if this node takes work, 503 with the reasons if it does not.
#[utoipa::path(
    get, path = "/readyz", tag = "operations", operation_id = "get_readiness",
    responses(
        (status = 200, description = "ready", body = Readiness),
        (status = 503, description = "not ready", body = Readiness),
    )
)]
pub(crate) async fn readiness(State(app): State<App>) -> Result<Response, Problem> {
    let mut reasons = Vec::new();
    if *app.stopping.borrow() {
        reasons.push("the server is stopping");
    }
    if !app.handle.is_ready() {
        reasons.push("the node is stopping, was taken over, or cannot write to its store");
    }
    match tokio::time::timeout(PROBE_TIMEOUT, app.store().next_due()).await {
        Ok(Ok(_)) => {}
        Ok(Err(_)) => reasons.push("the store cannot be read"),
        Err(_) => reasons.push("the store does not answer"),
    }
    let status = if reasons.is_empty() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    Ok((status, Json(Readiness { ready: reasons.is_empty(), reasons })).into_response())
}
