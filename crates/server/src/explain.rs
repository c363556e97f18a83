//! Why an instance or a delivery does not go on.

use crate::{
    app::App,
    auth::Caller,
    problem::{Problem, ProblemBody},
    query::{self, Named, NoParameters},
    wire,
};
use axum::{Json, extract::State};
use machine::id::{self, Kind};
use runtime::explain;
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

/// Why something does not go on.
#[derive(Serialize, ToSchema)]
pub(crate) struct Explanation {
    /// One sentence.
    summary: String,
    /// What holds all of it comes first.
    reasons: Vec<Reason>,
}

/// One reason; what does not apply is left out.
#[derive(Serialize, ToSchema)]
pub(crate) struct Reason {
    /// tenant, paused, cancelling, timer, retry, time-limit, task, event, child, children, held, queued, limit, no-worker,
    /// breaker, order, lent, polling, dead-letter, ended, broken or turn.
    kind: &'static str,
    text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    step: Option<String>,
    /// When it should go on by itself, or will be given up.
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<String>,
    /// The node that has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    task: Option<String>,
    /// Another instance that is waited for.
    #[serde(skip_serializing_if = "Option::is_none")]
    instance: Option<String>,
    /// Another delivery that comes first.
    #[serde(skip_serializing_if = "Option::is_none")]
    delivery: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dead_letter: Option<String>,
    /// The worker or endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
    /// The attempt that is under way or comes next.
    #[serde(skip_serializing_if = "Option::is_none")]
    attempt: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempts_max: Option<u32>,
    /// How many of the same queue come before it, up to 10000.
    #[serde(skip_serializing_if = "Option::is_none")]
    ahead: Option<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    event_types: Vec<String>,
}

fn shown(explanation: explain::Explanation) -> Json<Explanation> {
    let reasons = explanation.reasons.into_iter().map(reason).collect();
    Json(Explanation { summary: explanation.summary, reasons })
}

fn reason(reason: explain::Reason) -> Reason {
    let show = |kind: Kind, id: Option<Uuid>| id.map(|id| id::show(kind, id));
    Reason {
        kind: reason.kind,
        text: reason.text,
        step: reason.step,
        until: wire::time_if(reason.until),
        node: show(Kind::Node, reason.node),
        task: show(Kind::Task, reason.task),
        instance: show(Kind::Instance, reason.instance),
        delivery: show(Kind::Delivery, reason.delivery),
        dead_letter: show(Kind::DeadLetter, reason.dead_letter),
        target: reason.target,
        attempt: reason.attempt,
        attempts_max: reason.attempts_max,
        ahead: reason.ahead,
        event_types: reason.event_types,
    }
}

/// Says why an instance does not go on: what it waits for, who holds it, what is in its way, and when it should go on.
#[utoipa::path(
    get, path = "/api/v1/instances/{id}/explain", tag = "instances", operation_id = "explain_instance",
    params(("id" = String, Path)),
    responses(
        (status = 200, description = "a sentence and its reasons", body = Explanation),
        (status = 404, description = "no such instance", body = ProblemBody),
    )
)]
pub(crate) async fn instance(
    State(app): State<App>,
    caller: Caller,
    _: NoParameters,
    Named(text): Named<String>,
) -> Result<Json<Explanation>, Problem> {
    let id = query::path_id(Kind::Instance, &text)?;
    Ok(shown(app.handle.explain(&caller.tenant, id).await?))
}

/// Says why a delivery is not done yet.
#[utoipa::path(
    get, path = "/api/v1/deliveries/{id}/explain", tag = "workers", operation_id = "explain_delivery",
    params(("id" = String, Path)),
    responses(
        (status = 200, description = "a sentence and its reasons", body = Explanation),
        (status = 404, description = "it is done, a dead letter, or never was", body = ProblemBody),
    )
)]
pub(crate) async fn delivery(
    State(app): State<App>,
    caller: Caller,
    _: NoParameters,
    Named(text): Named<String>,
) -> Result<Json<Explanation>, Problem> {
    let id = query::path_id(Kind::Delivery, &text)?;
    Ok(shown(app.handle.explain_delivery(&caller.tenant, id).await?))
}
