//! Breakers of endpoints and workers: list, and let a probe through. Each node has its own; these are those of the node
//! that is asked.

use crate::{
    app::App,
    auth::Caller,
    body,
    page::Page,
    problem::{Problem, ProblemBody},
    query::{Named, NoParameters},
    wire,
};
use axum::{Json, extract::State};
use runtime::guards::ShownBreaker;
use serde::Serialize;
use utoipa::ToSchema;

/// A breaker.
#[derive(Serialize, ToSchema)]
pub(crate) struct Breaker {
    /// `host:port` of an endpoint, or the name of a worker.
    target: String,
    /// endpoint or worker.
    kind: &'static str,
    /// closed, open or half-open.
    state: &'static str,
    /// When an open one lets a probe through.
    until: Option<String>,
    /// Within its window, about.
    attempts: u32,
    failures: u32,
}

fn breaker(shown: ShownBreaker) -> Breaker {
    Breaker {
        target: shown.target,
        kind: shown.kind.word(),
        state: shown.state.word,
        until: wire::time_if(shown.state.until),
        attempts: shown.state.attempts,
        failures: shown.state.failures,
    }
}

/// Lists the breakers of endpoints and workers that have failed, as the node that is asked knows them.
#[utoipa::path(
    get, path = "/api/v1/breakers", tag = "workers", operation_id = "list_breakers",
    responses((status = 200, description = "all of them", body = Page<Breaker>))
)]
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    _: NoParameters,
) -> Result<Json<Page<Breaker>>, Problem> {
    let all = app.handle.breakers(&caller.tenant);
    Ok(Json(Page { items: all.into_iter().map(breaker).collect(), next: None }))
}

/// Lets the next attempt through as a probe, whatever is left of the breaker's pause.
#[utoipa::path(
    post, path = "/api/v1/breakers/{target}/probe", tag = "workers", operation_id = "probe_breaker",
    params(("target" = String, Path)),
    responses(
        (status = 200, description = "as it is now", body = Breaker),
        (status = 404, description = "no such breaker on this node", body = ProblemBody),
    )
)]
pub(crate) async fn probe(
    State(app): State<App>,
    caller: Caller,
    _: NoParameters,
    Named(target): Named<String>,
    _: body::Nothing,
) -> Result<Json<Breaker>, Problem> {
    if app.handle.breakers(&caller.tenant).iter().any(|known| known.target == target) {
        app.handle.note_act(&caller.tenant).await?;
    }
    Ok(Json(breaker(app.handle.probe(&caller.tenant, &target, &caller.actor)?)))
}
