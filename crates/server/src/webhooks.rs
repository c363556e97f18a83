//! Webhooks of a tenant: events, signed and sent to addresses of its own.

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
use runtime::api::Webhook as Said;
use serde::Serialize;
use store::rows::WorkerRow;
use utoipa::ToSchema;

/// What is said of a webhook.
#[derive(ToSchema)]
#[allow(dead_code, reason = "describes the body; the runtime checks it")]
pub(crate) struct WebhookRequest {
    /// Where messages are sent, with https.
    url: String,
    /// Types of events; one that ends with `*` is the beginning of a type.
    types: Vec<String>,
    /// Names of the secrets that sign, one or two; each is `whsec_` and 24 to 64 bytes in base64.
    secrets: Vec<String>,
    /// Attempts in all, the first included; 12 unless given.
    attempts_max: Option<u32>,
    /// Whether it is sent to; true unless given.
    enabled: Option<bool>,
}

/// A webhook.
#[derive(Serialize, ToSchema)]
pub(crate) struct Webhook {
    name: String,
    url: String,
    types: Vec<String>,
    secrets: Vec<String>,
    attempts_max: u32,
    enabled: bool,
    /// Why it is not sent to.
    disabled: Option<String>,
    version: i64,
    created_at: String,
    updated_at: String,
}

/// Lists the tenant's webhooks.
#[utoipa::path(
    get, path = "/api/v1/webhooks", tag = "workers", operation_id = "list_webhooks",
    responses((status = 200, description = "all of them, by name", body = Page<Webhook>))
)]
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    _: NoParameters,
) -> Result<Json<Page<Webhook>>, Problem> {
    let all = app.handle.webhooks(&caller.tenant).await?;
    Ok(Json(Page { items: all.into_iter().map(webhook_of).collect(), next: None }))
}

/// Makes a webhook, or changes it; one that was disabled is sent to again. Events of its types that are published from now on
/// are sent to it.
#[utoipa::path(
    put, path = "/api/v1/webhooks/{name}", tag = "workers", operation_id = "put_webhook",
    params(("name" = String, Path)),
    request_body = WebhookRequest,
    responses(
        (status = 200, description = "changed", body = Webhook),
        (status = 201, description = "made", body = Webhook),
        (status = 422, description = "the address or a secret cannot be used", body = ProblemBody),
    )
)]
pub(crate) async fn put(
    State(app): State<App>,
    caller: Caller,
    _: NoParameters,
    Named(name): Named<String>,
    body: body::Json,
) -> Result<(StatusCode, Json<Webhook>), Problem> {
    const KEYS: &[&str] = &["url", "types", "secrets", "attempts_max", "enabled"];
    let given = body.0.clone().unwrap_or_default();
    body.fields(KEYS)?;
    let mut given: serde_json::Map<String, serde_json::Value> = match given.to_json() {
        serde_json::Value::Object(given) => given.into_iter().filter(|(_, value)| !value.is_null()).collect(),
        _ => serde_json::Map::new(),
    };
    let disabled = match given.remove("enabled") {
        None | Some(serde_json::Value::Bool(true)) => None,
        Some(serde_json::Value::Bool(false)) => Some("disabled on request".to_owned()),
        Some(_) => return Err(Problem::at(code::INVALID_VALUE, "/enabled", "this must be true or false")),
    };
    let said: Said = serde_json::from_value(given.into())
        .map_err(|error| Problem::at(code::INVALID_VALUE, "", error.to_string()))?;
    let said = Said { disabled, ..said };
    let (created, found) = detached(app.answer_max(), async move {
        let created = app.handle.put_webhook(&caller.tenant, &name, &said).await?;
        let all = app.handle.webhooks(&caller.tenant).await?;
        Ok((created, all.into_iter().find(|(known, _, _)| *known == name)))
    })
    .await?;
    let found = found.ok_or_else(|| Problem::not_found("webhook"))?;
    let status = if created { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(webhook_of(found))))
}

/// Forgets a webhook. What waits for it stays until one of that name is made again.
#[utoipa::path(
    delete, path = "/api/v1/webhooks/{name}", tag = "workers", operation_id = "delete_webhook",
    params(("name" = String, Path)),
    responses(
        (status = 204, description = "forgotten"),
        (status = 404, description = "no such webhook", body = ProblemBody),
    )
)]
pub(crate) async fn delete(
    State(app): State<App>,
    caller: Caller,
    _: NoParameters,
    Named(name): Named<String>,
) -> Result<StatusCode, Problem> {
    detached(app.answer_max(), async move { Ok(app.handle.forget_webhook(&caller.tenant, &name).await?) })
        .await?;
    Ok(StatusCode::NO_CONTENT)
}

fn webhook_of((name, row, said): (String, WorkerRow, Said)) -> Webhook {
    let Said { url, types, secrets, attempts_max, disabled } = said;
    Webhook {
        name,
        url,
        types,
        secrets,
        attempts_max,
        enabled: disabled.is_none(),
        disabled,
        version: row.row_version,
        created_at: wire::time(row.created_at),
        updated_at: wire::time(row.updated_at),
    }
}
