//! What a tenant says of types of events: the JSON Schema that their data has to fit.

use crate::{
    app::{App, detached},
    auth::Caller,
    body, code,
    page::Page,
    problem::{Problem, ProblemBody},
    query::{Named, NoParameters},
    wire::{self, Stored},
};
use axum::{Json, extract::State, http::StatusCode};
use runtime::api::EventType as Said;
use serde::Serialize;
use utoipa::ToSchema;

/// What is said of a type.
#[derive(ToSchema)]
#[allow(dead_code, reason = "describes the body; the runtime checks it")]
pub(crate) struct EventTypeRequest {
    /// A JSON Schema (draft 2020-12 unless `$schema` says otherwise) that refers to nothing outside of itself.
    #[schema(value_type = Object)]
    schema: serde_json::Value,
}

/// A type of events that has a schema.
#[derive(Serialize, ToSchema)]
pub(crate) struct EventType {
    #[serde(rename = "type")]
    name: String,
    /// Raised by every change; starts at 1.
    version: i64,
    created_at: String,
    updated_at: String,
}

/// A type of events and its schema.
#[derive(Serialize, ToSchema)]
pub(crate) struct EventTypeDetail {
    #[serde(flatten)]
    row: EventType,
    schema: Stored,
}

/// Lists the types of events that have a schema.
#[utoipa::path(
    get, path = "/api/v1/event-types", tag = "events", operation_id = "list_event_types",
    responses((status = 200, description = "all of them, by name", body = Page<EventType>))
)]
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    _: NoParameters,
) -> Result<Json<Page<EventType>>, Problem> {
    let all = app.handle.event_types(&caller.tenant).await?;
    Ok(Json(Page { items: all.iter().map(event_type_of).collect(), next: None }))
}

/// Reads the schema of a type of events.
#[utoipa::path(
    get, path = "/api/v1/event-types/{type}", tag = "events", operation_id = "get_event_type",
    params(("type" = String, Path)),
    responses(
        (status = 200, description = "the type", body = EventTypeDetail),
        (status = 404, description = "it has no schema", body = ProblemBody),
    )
)]
pub(crate) async fn read(
    State(app): State<App>,
    caller: Caller,
    _: NoParameters,
    Named(name): Named<String>,
) -> Result<Json<EventTypeDetail>, Problem> {
    found(&app, &caller, &name).await.map(Json)
}

/// Sets the schema of a type of events: what is published of it from now on is refused if its data does not fit. Events that
/// were published before stay as they are.
#[utoipa::path(
    put, path = "/api/v1/event-types/{type}", tag = "events", operation_id = "put_event_type",
    params(("type" = String, Path)),
    request_body = EventTypeRequest,
    responses(
        (status = 200, description = "changed", body = EventTypeDetail),
        (status = 201, description = "set", body = EventTypeDetail),
        (status = 422, description = "this is no schema that can be used", body = ProblemBody),
    )
)]
pub(crate) async fn put(
    State(app): State<App>,
    caller: Caller,
    _: NoParameters,
    Named(name): Named<String>,
    body: body::Json,
) -> Result<(StatusCode, Json<EventTypeDetail>), Problem> {
    let given = body.0.clone().unwrap_or_default();
    body.fields(&["schema"])?;
    let missing = || Problem::at(code::MISSING_KEY, "/schema", "this is required");
    let schema = given.get("schema").ok_or_else(missing)?;
    let (created, found) = detached(app.answer_max(), async move {
        let created = app.handle.put_event_type(&caller.tenant, &name, &schema).await?;
        Ok((created, found(&app, &caller, &name).await?))
    })
    .await?;
    Ok((if created { StatusCode::CREATED } else { StatusCode::OK }, Json(found)))
}

/// Forgets the schema of a type of events: its data may be anything again.
#[utoipa::path(
    delete, path = "/api/v1/event-types/{type}", tag = "events", operation_id = "delete_event_type",
    params(("type" = String, Path)),
    responses(
        (status = 204, description = "forgotten"),
        (status = 404, description = "it has no schema", body = ProblemBody),
    )
)]
pub(crate) async fn delete(
    State(app): State<App>,
    caller: Caller,
    _: NoParameters,
    Named(name): Named<String>,
) -> Result<StatusCode, Problem> {
    detached(app.answer_max(), async move { Ok(app.handle.forget_event_type(&caller.tenant, &name).await?) })
        .await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn found(app: &App, caller: &Caller, name: &str) -> Result<EventTypeDetail, Problem> {
    let all = app.handle.event_types(&caller.tenant).await?;
    let said = all.into_iter().find(|one| one.name == name);
    let said = said.ok_or_else(|| Problem::not_found("event type"))?;
    Ok(EventTypeDetail { row: event_type_of(&said), schema: Stored::of(&said.schema.to_bytes()) })
}

fn event_type_of(said: &Said) -> EventType {
    EventType {
        name: said.name.clone(),
        version: said.version,
        created_at: wire::time(said.created_at),
        updated_at: wire::time(said.updated_at),
    }
}
