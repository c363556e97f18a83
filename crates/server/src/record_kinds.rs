//! Kinds of records: the JSON Schema of their bodies and the keys that lists go by.

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
use machine::record::{KEYS_MAX, KeyDeclaration};
use serde::Serialize;
use store::rows::RecordKindRow;
use utoipa::ToSchema;

/// What is said of a kind.
#[derive(ToSchema)]
#[allow(dead_code, reason = "describes the body; it is read field by field")]
pub(crate) struct RecordKindRequest {
    /// A JSON Schema that refers to nothing outside of itself; bodies may be anything without one.
    #[schema(value_type = Object)]
    schema: Option<serde_json::Value>,
    /// `[{"name": "status", "path": "/status"}]`
    #[schema(value_type = Vec<Object>)]
    keys: Option<serde_json::Value>,
}

/// A kind of records.
#[derive(Serialize, ToSchema)]
pub(crate) struct RecordKind {
    name: String,
    version: i64,
    schema: Stored,
    keys: Stored,
    created_at: String,
    updated_at: String,
}

/// Lists the kinds of records.
#[utoipa::path(
    get, path = "/api/v1/record-kinds", tag = "records", operation_id = "list_record_kinds",
    responses((status = 200, description = "all of them, by name", body = Page<RecordKind>))
)]
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    _: NoParameters,
) -> Result<Json<Page<RecordKind>>, Problem> {
    let rows = app.store().records().record_kinds(&caller.tenant).await?;
    Ok(Json(Page { items: rows.into_iter().map(kind_of).collect(), next: None }))
}

/// Reads a kind of records.
#[utoipa::path(
    get, path = "/api/v1/record-kinds/{name}", tag = "records", operation_id = "get_record_kind",
    params(("name" = String, Path)),
    responses(
        (status = 200, description = "the kind", body = RecordKind),
        (status = 404, description = "there is none of that name", body = ProblemBody),
    )
)]
pub(crate) async fn read(
    State(app): State<App>,
    caller: Caller,
    _: NoParameters,
    Named(name): Named<String>,
) -> Result<Json<RecordKind>, Problem> {
    found(&app, &caller, &name).await.map(Json)
}

/// Makes or changes a kind. Its keys stay as they are while there are records of it.
#[utoipa::path(
    put, path = "/api/v1/record-kinds/{name}", tag = "records", operation_id = "put_record_kind",
    params(("name" = String, Path)),
    request_body = RecordKindRequest,
    responses(
        (status = 200, description = "changed", body = RecordKind),
        (status = 201, description = "made", body = RecordKind),
        (status = 409, description = "there are records of it, and the keys are others", body = ProblemBody),
        (status = 422, description = "this is no schema that can be used", body = ProblemBody),
    )
)]
pub(crate) async fn put(
    State(app): State<App>,
    caller: Caller,
    _: NoParameters,
    Named(name): Named<String>,
    body: body::Json,
) -> Result<(StatusCode, Json<RecordKind>), Problem> {
    let fields = body.fields(&["schema", "keys"])?;
    let schema = fields.value("schema");
    let mut keys: Vec<KeyDeclaration> = vec![];
    if fields.value("keys").is_some() {
        let wrong = |_| Problem::at(code::INVALID_VALUE, "/keys", "a key has a `name` and a `path`");
        for item in fields.items("keys", KEYS_MAX)? {
            keys.push(serde_json::from_value(item.to_json()).map_err(wrong)?);
        }
    }
    let (created, found) = detached(app.answer_max(), async move {
        let created = app.handle.put_record_kind(&caller.tenant, &name, schema.as_ref(), &keys).await?;
        Ok((created, found(&app, &caller, &name).await?))
    })
    .await?;
    Ok((if created { StatusCode::CREATED } else { StatusCode::OK }, Json(found)))
}

/// Forgets a kind that no record is of.
#[utoipa::path(
    delete, path = "/api/v1/record-kinds/{name}", tag = "records", operation_id = "delete_record_kind",
    params(("name" = String, Path)),
    responses(
        (status = 204, description = "forgotten"),
        (status = 404, description = "there is none of that name", body = ProblemBody),
        (status = 409, description = "there are records of it", body = ProblemBody),
    )
)]
pub(crate) async fn delete(
    State(app): State<App>,
    caller: Caller,
    _: NoParameters,
    Named(name): Named<String>,
) -> Result<StatusCode, Problem> {
    detached(
        app.answer_max(),
        async move { Ok(app.handle.delete_record_kind(&caller.tenant, &name).await?) },
    )
    .await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn found(app: &App, caller: &Caller, name: &str) -> Result<RecordKind, Problem> {
    let row = app.store().records().record_kind(&caller.tenant, name).await?;
    row.map(kind_of).ok_or_else(|| Problem::not_found("record kind"))
}

fn kind_of(row: RecordKindRow) -> RecordKind {
    RecordKind {
        version: row.row_version,
        schema: row.schema.as_deref().map_or_else(Stored::null, Stored::of),
        keys: Stored::of(&row.keys),
        created_at: wire::time(row.created_at),
        updated_at: wire::time(row.updated_at),
        name: row.name,
    }
}
