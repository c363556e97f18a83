//! Is the process alive, and can it do its work?

use crate::{
    app::App,
    code,
    problem::{Flaw, Problem, ProblemBody},
};
use axum::{Json, extract::State};
use serde::Serialize;
use std::time::Duration;
use utoipa::ToSchema;

/// How long the store may take to answer a probe, if it has not just answered something else.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

/// Alive.
#[derive(Serialize, ToSchema)]
pub(crate) struct Health {
    status: &'static str,
}

/// Ready.
#[derive(Serialize, ToSchema)]
pub(crate) struct Readiness {
    ready: bool,
}

/// Answers 200 as long as the process serves.
#[utoipa::path(
    get, path = "/healthz", tag = "operations", operation_id = "get_health",
    responses((status = 200, description = "alive", body = Health))
)]
pub(crate) async fn health() -> Json<Health> {
    Json(Health { status: "ok" })
}

/// Answers 200 if this node takes work, 503 with the reasons in `errors` if it does not.
#[utoipa::path(
    get, path = "/readyz", tag = "operations", operation_id = "get_readiness",
    responses(
        (status = 200, description = "ready", body = Readiness),
        (status = 503, description = "not ready", body = ProblemBody),
    )
)]
pub(crate) async fn readiness(State(app): State<App>) -> Result<Json<Readiness>, Problem> {
    let mut reasons = Vec::new();
    if *app.stopping.borrow() {
        reasons.push("the server is stopping");
    }
    if !app.handle.is_ready() {
        reasons.push(
            "the node is stopping, was taken over, cannot write to its store, cannot look for work there, or cannot renew its lease",
        );
    }
    // Probes come every two seconds to every node; what the node knows anyway is not asked for again.
    if !app.handle.hears_store() {
        match tokio::time::timeout(PROBE_TIMEOUT, app.store().next_due()).await {
            Ok(Ok(_)) => {}
            Ok(Err(_)) => reasons.push("the store cannot be read"),
            Err(_) => reasons.push("the store does not answer"),
        }
    }
    if reasons.is_empty() {
        return Ok(Json(Readiness { ready: true }));
    }
    let mut problem = Problem::new(code::NOT_READY, reasons.join("; "));
    for reason in reasons {
        problem = problem.with_flaw(Flaw { message: reason.to_owned(), ..Flaw::default() });
    }
    Err(problem)
}
