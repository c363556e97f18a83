//! The buses that events go out over: how they are doing, and carrying again what one has lost. For `platform` keys only.

use crate::{
    app::{App, detached},
    body, code,
    page::Page,
    problem::{Problem, ProblemBody},
    query::{Named, NoParameters},
    wire,
};
use axum::{Json, extract::State};
use machine::{TenantId, Time};
use runtime::buses::{Between, BusState};
use serde::Serialize;
use store::rows::Depth;
use utoipa::ToSchema;

const TIME_BYTES_MAX: usize = 64;
const ID_BYTES_MAX: usize = 63;

/// A bus.
#[derive(Serialize, ToSchema)]
pub(crate) struct Bus {
    name: String,
    /// The server, without user and password.
    place: String,
    /// Types of events that go out over it.
    types: Vec<String>,
    /// `up`, or `away` if it did not take what this node carried last.
    status: String,
    away_since: Option<String>,
    /// What was said last while it is away.
    error: Option<String>,
    /// Events that wait, over all tenants and nodes.
    waiting: u64,
    /// When the oldest of them came.
    oldest_at: Option<String>,
    /// Events that it has confirmed to this node since that started.
    carried: u64,
    /// Events that it has refused for good: they are dead letters.
    refused: u64,
    /// Places of tenants that this node hears.
    subscriptions: usize,
}

/// What to carry again.
#[derive(ToSchema)]
#[allow(dead_code, reason = "describes the body; it is read field by field")]
pub(crate) struct Resend {
    /// From when on.
    since: String,
    /// Until when; now unless given.
    until: Option<String>,
    /// Of which tenant; all unless given.
    tenant: Option<String>,
}

/// What is carried again.
#[derive(Serialize, ToSchema)]
pub(crate) struct Resent {
    /// How many events.
    events: u64,
}

/// Lists the buses.
#[utoipa::path(
    get, path = "/api/v1/buses", tag = "operations", operation_id = "list_buses",
    responses((status = 200, description = "all of them", body = Page<Bus>))
)]
pub(crate) async fn list(State(app): State<App>, _: NoParameters) -> Result<Json<Page<Bus>>, Problem> {
    Ok(Json(Page { items: all(&app).await?, next: None }))
}

/// Answers one bus.
#[utoipa::path(
    get, path = "/api/v1/buses/{name}", tag = "operations", operation_id = "get_bus",
    params(("name" = String, Path)),
    responses(
        (status = 200, description = "the bus", body = Bus),
        (status = 404, description = "no such bus", body = ProblemBody),
    )
)]
pub(crate) async fn read(
    State(app): State<App>,
    _: NoParameters,
    Named(name): Named<String>,
) -> Result<Json<Bus>, Problem> {
    let found = all(&app).await?.into_iter().find(|bus| bus.name == name);
    found.map(Json).ok_or_else(|| Problem::not_found("bus"))
}

/// Carries again what was emitted since a time, for a bus that has lost it. Events keep their ids.
#[utoipa::path(
    post, path = "/api/v1/buses/{name}/resend", tag = "operations", operation_id = "resend_events",
    params(("name" = String, Path)),
    request_body = Resend,
    responses(
        (status = 200, description = "they wait to be carried", body = Resent),
        (status = 404, description = "no such bus or tenant", body = ProblemBody),
    )
)]
pub(crate) async fn resend(
    State(app): State<App>,
    _: NoParameters,
    Named(name): Named<String>,
    body: body::Json,
) -> Result<Json<Resent>, Problem> {
    let fields = body.fields(&["since", "until", "tenant"])?;
    let since = time(&fields, "since")?.ok_or_else(|| {
        Problem::at(code::MISSING_KEY, "/since", "say from when on, such as 2026-01-31T12:00:00Z")
    })?;
    let between = Between { since, until: time(&fields, "until")? };
    let tenant = match fields.text("tenant", ID_BYTES_MAX)? {
        Some(text) => Some(TenantId::new(&text).map_err(|_| Problem::not_found("tenant"))?),
        None => None,
    };
    let events =
        detached(
            app.answer_max(),
            async move { Ok(app.handle.resend(&name, tenant.as_ref(), between).await?) },
        );
    Ok(Json(Resent { events: events.await? }))
}

fn time(fields: &body::Fields, name: &str) -> Result<Option<Time>, Problem> {
    let Some(text) = fields.text(name, TIME_BYTES_MAX)? else { return Ok(None) };
    let wrong = || {
        let detail = "this must be a time such as 2026-01-31T12:00:00Z";
        Problem::at(code::INVALID_VALUE, format!("/{name}"), detail)
    };
    Time::parse_rfc3339(&text).map(Some).ok_or_else(wrong)
}

async fn all(app: &App) -> Result<Vec<Bus>, Problem> {
    let depths = app.handle.bus_depths().await?;
    Ok(app.handle.buses().into_iter().zip(depths).map(bus_of).collect())
}

fn bus_of((state, depth): (BusState, Option<Depth>)) -> Bus {
    let BusState { name, place, types, away, carried, refused, subscriptions } = state;
    let status = if away.is_some() { "away" } else { "up" };
    let (away_since, error) = away.unzip();
    Bus {
        name,
        place,
        types,
        status: status.to_owned(),
        away_since: wire::time_if(away_since),
        error,
        waiting: depth.as_ref().map_or(0, |depth| depth.rows),
        oldest_at: depth.map(|depth| wire::time(depth.oldest)),
        carried,
        refused,
        subscriptions,
    }
}
