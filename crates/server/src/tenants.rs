//! Tenants: list, create and change. For `platform` keys only.

use crate::{
    app::{App, detached},
    auth::Caller,
    body, code,
    page::{self, Cursors, Page},
    problem::{Problem, ProblemBody},
    query::{Named, NoParameters, Parameters},
    wire,
};
use axum::{
    Json,
    extract::State,
    http::{StatusCode, Uri},
};
use machine::TenantId;
use runtime::WEIGHT_MAX;
use serde::Serialize;
use store::rows::TenantRow;
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
    /// Where tenants wait for the same thing, one of weight 2 is given twice as much as one of weight 1.
    weight: u32,
    created_at: String,
}

/// What to change of a tenant.
#[derive(ToSchema)]
#[allow(dead_code, reason = "describes the body; it is read field by field")]
pub(crate) struct TenantChange {
    title: Option<String>,
    /// 1 to 1000.
    weight: Option<u32>,
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
    Ok(Json(Page { items: rows.into_iter().map(tenant).collect(), next }))
}

fn tenant(row: TenantRow) -> Tenant {
    Tenant {
        id: row.id.to_string(),
        title: row.title,
        status: row.status,
        weight: row.weight,
        created_at: wire::time(row.created_at),
    }
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
    detached(app.answer_max(), async move { Ok(app.handle.create_tenant(&id, &title).await?) }).await?;
    Ok((StatusCode::CREATED, Json(created)))
}

/// Changes a tenant's title or weight. A weight counts at once, for what is queued already too.
#[utoipa::path(
    patch, path = "/api/v1/tenants/{id}", tag = "access", operation_id = "change_tenant",
    params(("id" = String, Path)),
    request_body = TenantChange,
    responses(
        (status = 200, description = "as it is now", body = Tenant),
        (status = 404, description = "no such tenant", body = ProblemBody),
    )
)]
pub(crate) async fn change(
    State(app): State<App>,
    _: NoParameters,
    Named(id): Named<String>,
    body: body::Json,
) -> Result<Json<Tenant>, Problem> {
    let fields = body.fields(&["title", "weight"])?;
    let title = fields.label("title", TITLE_BYTES_MAX)?;
    let weight = weight(&fields)?;
    if title.is_none() && weight.is_none() {
        return Err(Problem::at(code::MISSING_KEY, "", "give a title or a weight"));
    }
    let id = TenantId::new(&id).map_err(|_| Problem::not_found("tenant"))?;
    let row = detached(app.answer_max(), async move {
        app.handle.change_tenant(&id, title, weight).await?;
        Ok(app.store().tenant(&id).await?)
    })
    .await?;
    row.map(|row| Json(tenant(row))).ok_or_else(|| Problem::not_found("tenant"))
}

fn weight(fields: &body::Fields) -> Result<Option<u32>, Problem> {
    let Some(value) = fields.value("weight") else { return Ok(None) };
    let weight = value.as_i64().and_then(|weight| u32::try_from(weight).ok());
    let weight = weight.filter(|weight| (1..=WEIGHT_MAX).contains(weight));
    let wrong = || {
        let detail = format!("this must be a whole number from 1 to {WEIGHT_MAX}");
        Problem::at(code::INVALID_VALUE, "/weight", detail)
    };
    weight.map(Some).ok_or_else(wrong)
}
