//! Deliveries that are not done yet: list and show.

use crate::{
    app::App,
    auth::Caller,
    filter,
    page::{self, Cursors, Page},
    problem::{Problem, ProblemBody},
    query::{self, Named, NoParameters, Parameters},
    wire,
};
use axum::{Json, extract::State, http::Uri};
use machine::{
    id::{self, Kind},
    query::Subject,
};
use serde::Serialize;
use store::{rows::DeliveryRow, views::DeliveryFilter};
use utoipa::ToSchema;
use uuid::Uuid;

/// A delivery that is not done yet.
#[derive(Serialize, ToSchema)]
pub(crate) struct OpenDelivery {
    id: String,
    worker: String,
    /// The events that it holds.
    events: Vec<String>,
    /// Those of one worker and key come one after the other.
    order_key: Option<String>,
    /// Attempts that were made.
    attempts: u32,
    /// It is handed out from then on; if it is with a worker that polled it, until when.
    visible_at: String,
    created_at: String,
    last_error: Option<String>,
}

fn delivery(row: DeliveryRow) -> OpenDelivery {
    OpenDelivery {
        id: id::show(Kind::Delivery, row.id),
        events: row.events.iter().map(|event| id::show(Kind::Event, event)).collect(),
        worker: row.worker,
        order_key: row.order_key,
        attempts: row.attempt,
        visible_at: wire::time(row.visible_at),
        created_at: wire::time(row.created_at),
        last_error: row.last_error.map(|error| String::from_utf8_lossy(&error).into_owned()),
    }
}

/// Lists deliveries that are not done yet, oldest first.
#[utoipa::path(
    get, path = "/api/v1/deliveries", tag = "workers", operation_id = "list_deliveries",
    params(
        ("q" = Option<String>, Query, description = "a query such as `worker:mail attempts:>3`"),
        ("worker" = Option<String>, Query, description = "those of this worker only"),
        ("limit" = Option<usize>, Query, description = "1 to 200; 50 unless given"),
        ("cursor" = Option<String>, Query, description = "`next` of the page before"),
    ),
    responses((status = 200, description = "one page", body = Page<OpenDelivery>))
)]
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    uri: Uri,
) -> Result<Json<Page<OpenDelivery>>, Problem> {
    let parameters = Parameters::read(&uri, &[filter::Q, "worker", "limit", "cursor"])?;
    let limit = page::limit(&parameters)?;
    let cursors = Cursors::new(&caller, "deliveries");
    let after = cursors.read(&parameters)?.and_then(|bytes| Uuid::from_slice(&bytes).ok());
    let conditions = filter::conditions(&app, &caller, &parameters, Subject::Deliveries)?;
    let wanted = DeliveryFilter { worker: parameters.owned("worker"), conditions };
    let rows = app.store().deliveries(&caller.tenant, &wanted, after, limit).await?;
    let next = rows.last().filter(|_| rows.len() == limit).map(|row| cursors.write(row.id.as_bytes()));
    Ok(Json(Page { items: rows.into_iter().map(delivery).collect(), next }))
}

/// Shows a delivery that is not done yet.
#[utoipa::path(
    get, path = "/api/v1/deliveries/{id}", tag = "workers", operation_id = "read_delivery",
    params(("id" = String, Path)),
    responses(
        (status = 200, description = "as it is now", body = OpenDelivery),
        (status = 404, description = "it is done, a dead letter, or never was", body = ProblemBody),
    )
)]
pub(crate) async fn read(
    State(app): State<App>,
    caller: Caller,
    _: NoParameters,
    Named(text): Named<String>,
) -> Result<Json<OpenDelivery>, Problem> {
    let id = query::path_id(Kind::Delivery, &text)?;
    let row = app.store().delivery(&caller.tenant, id).await?;
    row.map(|row| Json(delivery(row))).ok_or_else(|| Problem::not_found("delivery"))
}
