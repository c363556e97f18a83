//! How much is in queues: for people, and for whatever scales workers by it.

use crate::{
    app::App,
    auth::Caller,
    page::Page,
    problem::{Problem, ProblemBody},
    query::{Named, NoParameters},
};
use axum::{Json, extract::State};
use runtime::api::Queue as Held;
use serde::Serialize;
use utoipa::ToSchema;

/// What is to be done by one worker.
#[derive(Serialize, ToSchema)]
pub(crate) struct Queue {
    /// The worker or target.
    name: String,
    /// Everything that is not done yet, what is under way included: deliveries and calls.
    backlog: u64,
    deliveries: u64,
    calls: u64,
}

/// One queue, for `metrics-api` of KEDA: `valueLocation` is `backlog`, `ready` or `oldest_seconds`.
#[derive(Serialize, ToSchema)]
pub(crate) struct QueueDetail {
    #[serde(flatten)]
    queue: Queue,
    /// Deliveries that are due and that nobody has; counted up to 10,000.
    ready: u64,
    /// Deliveries that nobody has and that are not due yet, or that a worker has polled; counted up to 10,000.
    later: u64,
    /// How long the delivery that is due longest has been so.
    oldest_seconds: f64,
}

/// One queue over all tenants.
#[derive(Serialize, ToSchema)]
pub(crate) struct WholeQueue {
    #[serde(flatten)]
    queue: Queue,
    /// How long the delivery that is due longest has been so, of tenants that are not suspended.
    oldest_seconds: f64,
}

fn queue_of(held: &Held) -> Queue {
    let Held { name, deliveries, calls } = held;
    Queue { name: name.clone(), backlog: deliveries + calls, deliveries: *deliveries, calls: *calls }
}

/// Lists the tenant's queues: those of its workers, and whatever else holds something.
#[utoipa::path(
    get, path = "/api/v1/queues", tag = "workers", operation_id = "list_queues",
    responses((status = 200, description = "all of them, by name", body = Page<Queue>))
)]
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    _: NoParameters,
) -> Result<Json<Page<Queue>>, Problem> {
    let all = app.handle.queues(&caller.tenant).await?;
    Ok(Json(Page { items: all.iter().map(queue_of).collect(), next: None }))
}

/// Says how much one of the tenant's workers has to do. The numbers are kept, not counted: asking often costs little.
#[utoipa::path(
    get, path = "/api/v1/queues/{name}", tag = "workers", operation_id = "read_queue",
    params(("name" = String, Path)),
    responses(
        (status = 200, description = "as it is now", body = QueueDetail),
        (status = 404, description = "no worker has this name, and nothing waits for it", body = ProblemBody),
    )
)]
pub(crate) async fn read(
    State(app): State<App>,
    caller: Caller,
    _: NoParameters,
    Named(name): Named<String>,
) -> Result<Json<QueueDetail>, Problem> {
    let found = app.handle.queue(&caller.tenant, &name).await?;
    Ok(Json(QueueDetail {
        queue: queue_of(&found.queue),
        ready: found.ready,
        later: found.later,
        oldest_seconds: found.oldest_micros as f64 / 1e6,
    }))
}

/// Says how much a worker has to do for all tenants together. Needs what `/metrics` needs.
#[utoipa::path(
    get, path = "/metrics/queues/{name}", tag = "operations", operation_id = "get_whole_queue",
    params(("name" = String, Path)),
    responses((status = 200, description = "as it is now; nothing waits for a name that nobody has", body = WholeQueue))
)]
pub(crate) async fn whole(
    State(app): State<App>,
    _: NoParameters,
    Named(name): Named<String>,
) -> Result<Json<WholeQueue>, Problem> {
    let held = app.handle.all_queues().await?.into_iter().find(|queue| queue.name == name);
    let held = held.unwrap_or_else(|| Held::empty(&name));
    let oldest = app.handle.oldest_due(std::slice::from_ref(&name)).await?;
    let micros = oldest.get(&name).copied().unwrap_or_default();
    Ok(Json(WholeQueue { queue: queue_of(&held), oldest_seconds: micros as f64 / 1e6 }))
}
