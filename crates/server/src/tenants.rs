//! Tenants: list and create. For `platform` keys only.

use crate::{
    app::{App, detached},
    auth::Caller,
    body, code,
    page::{self, Cursors, Page},
    problem::{Problem, ProblemBody},
    query::{NoParameters, Parameters},
    wire,
};
use axum::{
    Json,
    extract::State,
    http::{StatusCode, Uri},
};
use machine::TenantId;
use serde::Serialize;
use utoipa::ToSchema;

const ID_BYTES_MAX: usize = 63;
const TITLE_BYTES_MAX: usize = 255;

/// A tenant.
#[derive(Serialize, ToSchema)]
pub(crate) struct Tenant {
    id: String,
    title: String,
    /// active or suspended.
    status: String,
    created_at: String,
}

/// A tenant to create.
#[derive(ToSchema)]
#[allow(dead_code, reason = "describes the body; it is read field by field")]
pub(crate) struct TenantRequest {
    /// 1 to 63 of a-z, 0-9 and '-'.
    id: String,
    /// The id unless given.
    title: Option<String>,
}

/// A created tenant.
#[derive(Serialize, ToSchema)]
pub(crate) struct CreatedTenant {
    id: String,
    title: String,
}

/// Lists tenants by id.
#[utoipa::path(
    get, path = "/api/v1/tenants", tag = "access", operation_id = "list_tenants",
    params(
        ("limit" = Option<usize>, Query, description = "1 to 200; 50 unless given"),
        ("cursor" = Option<String>, Query, description = "`next` of the page before"),
    ),
    responses((status = 200, description = "one page", body = Page<Tenant>))
)]
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    uri: Uri,
) -> Result<Json<Page<Tenant>>, Problem> {
    let parameters = Parameters::read(&uri, &["limit", "cursor"])?;
    let limit = page::limit(&parameters)?;
    let cursors = Cursors::new(&caller, "tenants");
    let after = cursors.read(&parameters)?.unwrap_or_default();
    let mut rows = app.store().tenants().await?;
    rows.sort_by(|a, b| a.id.cmp(&b.id));
    rows.retain(|row| row.id.as_str().as_bytes() > after.as_slice());
    let more = rows.len() > limit;
    rows.truncate(limit);
    let next = rows.last().filter(|_| more).map(|row| cursors.write(row.id.as_str().as_bytes()));
    let items = rows.into_iter().map(|row| Tenant {
        id: row.id.to_string(),
        title: row.title,
        status: row.status,
        created_at: wire::time(row.created_at),
    });
    Ok(Json(Page { items: items.collect(), next }))
}

/// Creates a tenant.
#[utoipa::path(
    post, path = "/api/v1/tenants", tag = "access", operation_id = "create_tenant",
    request_body = TenantRequest,
    responses(
        (status = 201, description = "created", body = CreatedTenant),
        (status = 409, description = "it exists", body = ProblemBody),
    )
)]
pub(crate) async fn create(
    State(app): State<App>,
    _: NoParameters,
    body: body::Json,
) -> Result<(StatusCode, Json<CreatedTenant>), Problem> {
    let fields = body.fields(&["id", "title"])?;
    let text = fields.required_text("id", ID_BYTES_MAX)?;
    let title = fields.label("title", TITLE_BYTES_MAX)?.unwrap_or_else(|| text.clone());
    let id =
        TenantId::new(&text).map_err(|error| Problem::at(code::INVALID_VALUE, "/id", error.to_string()))?;
    let created = CreatedTenant { id: text, title: title.clone() };
    detached(async move { Ok(app.handle.create_tenant(&id, &title).await?) }).await?;
    Ok((StatusCode::CREATED, Json(created)))
}
