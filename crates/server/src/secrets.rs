//! Secrets of a tenant: set, list by name, delete. A value goes in and never comes out again.

use crate::{
    app::{App, detached},
    auth::Caller,
    body, code,
    page::Page,
    problem::{Problem, ProblemBody},
    query::{Named, NoParameters},
    wire,
};
use axum::{Json, extract::State, http::StatusCode};
use runtime::secrets::HOSTS_MAX;
use serde::Serialize;
use store::rows::SecretRow;
use utoipa::ToSchema;

/// A secret without its value.
#[derive(Serialize, ToSchema)]
pub(crate) struct Secret {
    name: String,
    /// Counts the values it has had.
    version: i64,
    /// The hosts it may be sent to; any if empty.
    hosts: Vec<String>,
    created_at: String,
    updated_at: String,
}

/// A value to keep.
#[derive(ToSchema)]
#[allow(dead_code, reason = "describes the body; it is read field by field")]
pub(crate) struct SecretRequest {
    /// Text, or an object such as `{"username": …, "password": …}`.
    value: serde_json::Value,
    /// The hosts it may be sent to, such as `api.example.com` or `*.example.com`; any if empty.
    hosts: Option<Vec<String>>,
}

/// Lists the tenant's secrets, without their values.
#[utoipa::path(
    get, path = "/api/v1/secrets", tag = "access", operation_id = "list_secrets",
    responses((status = 200, description = "all of them", body = Page<Secret>))
)]
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    _: NoParameters,
) -> Result<Json<Page<Secret>>, Problem> {
    let rows = app.store().secrets(&caller.tenant).await?;
    Ok(Json(Page { items: rows.into_iter().map(secret_of).collect(), next: None }))
}

/// Sets a secret: a new one, or another value for one that is there.
#[utoipa::path(
    put, path = "/api/v1/secrets/{name}", tag = "access", operation_id = "set_secret",
    params(("name" = String, Path)),
    request_body = SecretRequest,
    responses(
        (status = 200, description = "replaced", body = Secret),
        (status = 201, description = "made", body = Secret),
        (status = 409, description = "this server has no key to seal secrets with", body = ProblemBody),
    )
)]
pub(crate) async fn put(
    State(app): State<App>,
    caller: Caller,
    _: NoParameters,
    Named(name): Named<String>,
    body: body::Json,
) -> Result<(StatusCode, Json<Secret>), Problem> {
    let fields = body.fields(&["value", "hosts"])?;
    let value =
        fields.value("value").ok_or_else(|| Problem::at(code::MISSING_KEY, "/value", "this is needed"))?;
    let hosts = match fields.value("hosts") {
        Some(_) => fields.items("hosts", HOSTS_MAX)?,
        None => vec![],
    };
    let hosts: Option<Vec<String>> = hosts.iter().map(|host| host.as_str().map(str::to_owned)).collect();
    let hosts = hosts.ok_or_else(|| Problem::at(code::INVALID_VALUE, "/hosts", "every host must be text"))?;
    let (created, row) = detached(app.answer_max(), async move {
        let created = app.handle.put_secret(&caller.tenant, &name, &value, &hosts).await?;
        Ok((created, app.store().secret(&caller.tenant, &name).await?))
    })
    .await?;
    let row = row.ok_or_else(|| Problem::not_found("secret"))?;
    let status = if created { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(secret_of(row))))
}

/// Deletes a secret. Calls that need it fail from now on.
#[utoipa::path(
    delete, path = "/api/v1/secrets/{name}", tag = "access", operation_id = "delete_secret",
    params(("name" = String, Path)),
    responses(
        (status = 204, description = "deleted"),
        (status = 404, description = "no such secret", body = ProblemBody),
    )
)]
pub(crate) async fn delete(
    State(app): State<App>,
    caller: Caller,
    _: NoParameters,
    Named(name): Named<String>,
) -> Result<StatusCode, Problem> {
    detached(app.answer_max(), async move { Ok(app.handle.delete_secret(&caller.tenant, &name).await?) })
        .await?;
    Ok(StatusCode::NO_CONTENT)
}

fn secret_of(row: SecretRow) -> Secret {
    Secret {
        hosts: serde_json::from_slice(&row.hosts).unwrap_or_default(),
        created_at: wire::time(row.created_at),
        updated_at: wire::time(row.updated_at),
        name: row.name,
        version: row.version,
    }
}
