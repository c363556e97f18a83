//! Tenants: list, show, create, change, suspend, degrade, resume, delete, restore. For `platform` keys only.

use crate::{
    app::{App, detached},
    auth::Caller,
    body, code,
    page::{self, Cursors, Page},
    problem::{Problem, ProblemBody},
    query::{self, Named, NoParameters, Parameters},
    wire,
};
use axum::{
    Json,
    extract::State,
    http::{StatusCode, Uri},
};
use machine::{TenantId, time::Span};
use runtime::{TenantOrder, WEIGHT_MAX, tenants::GRACE_MAX};
use serde::Serialize;
use store::{
    TenantChange,
    rows::{LimitsRow, TenantRow},
};
use utoipa::ToSchema;

const ID_BYTES_MAX: usize = 63;
const TITLE_BYTES_MAX: usize = 255;
const STATUS_BYTES_MAX: usize = 20;
/// The largest limit.
const LIMIT_MAX: i64 = 1_000_000_000;
/// How long a deleted tenant can be restored, unless the request says otherwise: a week.
const GRACE_SECONDS: i64 = 7 * 86_400;
/// What a change may name.
const CHANGEABLE: [&str; 7] =
    ["title", "status", "weight", "open_max", "starts_per_second", "concurrency_max", "degraded_per_second"];

/// A tenant.
#[derive(Serialize, ToSchema)]
pub(crate) struct Tenant {
    id: String,
    title: String,
    /// active, degraded, suspended or deleted.
    status: String,
    /// Where tenants wait for the same thing, one of weight 2 is given twice as much as one of weight 1.
    weight: u32,
    /// Instances that have not ended, at most; 0 is no limit.
    open_max: u32,
    /// Starts in a second that each node takes; 0 is no limit.
    starts_per_second: u32,
    /// Calls, and calls of handlers of events, that each node makes at once; 0 is no limit.
    concurrency_max: u32,
    /// Starts and published events in a second that each node takes while the tenant is degraded.
    degraded_per_second: u32,
    /// When the rows of a deleted tenant go; until then it can be restored.
    purge_at: Option<String>,
    created_at: String,
}

/// What to change of a tenant; what is not given stays. A limit of 0 is none.
#[derive(ToSchema)]
#[allow(dead_code, reason = "describes the body; it is read field by field")]
pub(crate) struct TenantChangeRequest {
    title: Option<String>,
    /// active, degraded or suspended.
    status: Option<String>,
    /// 1 to 1000.
    weight: Option<u32>,
    open_max: Option<u32>,
    starts_per_second: Option<u32>,
    concurrency_max: Option<u32>,
    degraded_per_second: Option<u32>,
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
    let LimitsRow { open_max, starts_per_second, concurrency_max, degraded_per_second } = row.limits;
    Tenant {
        id: row.id.to_string(),
        title: row.title,
        status: row.status,
        weight: row.weight,
        open_max,
        starts_per_second,
        concurrency_max,
        degraded_per_second,
        purge_at: row.purge_at.map(wire::time),
        created_at: wire::time(row.created_at),
    }
}

/// Shows a tenant.
#[utoipa::path(
    get, path = "/api/v1/tenants/{id}", tag = "access", operation_id = "read_tenant",
    params(("id" = String, Path)),
    responses(
        (status = 200, description = "as it is now", body = Tenant),
        (status = 404, description = "no such tenant", body = ProblemBody),
    )
)]
pub(crate) async fn read(
    State(app): State<App>,
    _: NoParameters,
    Named(id): Named<String>,
) -> Result<Json<Tenant>, Problem> {
    let row = app.store().tenant(&named(&id)?).await?;
    row.map(|row| Json(tenant(row))).ok_or_else(|| Problem::not_found("tenant"))
}

fn named(id: &str) -> Result<TenantId, Problem> {
    TenantId::new(id).map_err(|_| Problem::not_found("tenant"))
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

/// Changes a tenant's title, status, weight or limits. It counts at once, for what is queued already too, on every node.
#[utoipa::path(
    patch, path = "/api/v1/tenants/{id}", tag = "access", operation_id = "change_tenant",
    params(("id" = String, Path)),
    request_body = TenantChangeRequest,
    responses(
        (status = 200, description = "as it is now", body = Tenant),
        (status = 404, description = "no such tenant", body = ProblemBody),
        (status = 409, description = "it is deleted, or the key's own", body = ProblemBody),
    )
)]
pub(crate) async fn change(
    State(app): State<App>,
    caller: Caller,
    _: NoParameters,
    Named(id): Named<String>,
    body: body::Json,
) -> Result<Json<Tenant>, Problem> {
    let fields = body.fields(&CHANGEABLE)?;
    let limit = |key: &str| -> Result<Option<u32>, Problem> {
        Ok(fields.int(key, 0..=LIMIT_MAX)?.and_then(|value| u32::try_from(value).ok()))
    };
    let weight = fields.int("weight", 1..=WEIGHT_MAX.into())?;
    let change = TenantChange {
        title: fields.label("title", TITLE_BYTES_MAX)?,
        weight: weight.and_then(|weight| u32::try_from(weight).ok()),
        open_max: limit("open_max")?,
        starts_per_second: limit("starts_per_second")?,
        concurrency_max: limit("concurrency_max")?,
        degraded_per_second: limit("degraded_per_second")?,
    };
    let order = order(&fields)?;
    if order.is_none() && change == TenantChange::default() {
        let known = CHANGEABLE.join(", ");
        return Err(Problem::at(code::MISSING_KEY, "", format!("give something to change: {known}")));
    }
    let id = named(&id)?;
    if order.is_some_and(|order| order != TenantOrder::Resume) {
        not_own(&caller, &id)?;
    }
    let row = detached(app.answer_max(), async move {
        Ok(match order {
            Some(order) => app.handle.order_tenant(&id, order, change).await?,
            None => app.handle.change_tenant(&id, change).await?,
        })
    });
    Ok(Json(tenant(row.await?)))
}

fn order(fields: &body::Fields) -> Result<Option<TenantOrder>, Problem> {
    let Some(status) = fields.text("status", STATUS_BYTES_MAX)? else { return Ok(None) };
    match status.as_str() {
        "active" => Ok(Some(TenantOrder::Resume)),
        "degraded" => Ok(Some(TenantOrder::Degrade)),
        "suspended" => Ok(Some(TenantOrder::Suspend)),
        _ => {
            let detail = "this must be active, degraded or suspended";
            Err(Problem::at(code::INVALID_VALUE, fields.place("status"), detail))
        }
    }
}

/// Whoever locked itself out could not let itself in again.
fn not_own(caller: &Caller, id: &TenantId) -> Result<(), Problem> {
    match caller.home == *id {
        true => {
            let detail = format!("the key belongs to tenant {id}; use a platform key of another tenant");
            Err(Problem::new(code::OWN_TENANT, detail))
        }
        false => Ok(()),
    }
}

/// Deletes a tenant: it does nothing from now on, and all its rows go when the time of grace is over.
#[utoipa::path(
    delete, path = "/api/v1/tenants/{id}", tag = "access", operation_id = "delete_tenant",
    params(
        ("id" = String, Path),
        ("grace_seconds" = Option<u64>, Query, description = "0 to 31536000; 604800 (a week) unless given"),
    ),
    responses(
        (status = 200, description = "deleted; purge_at says when its rows go", body = Tenant),
        (status = 404, description = "no such tenant", body = ProblemBody),
        (status = 409, description = "it is the key's own", body = ProblemBody),
    )
)]
pub(crate) async fn delete(
    State(app): State<App>,
    caller: Caller,
    uri: Uri,
    Named(id): Named<String>,
) -> Result<Json<Tenant>, Problem> {
    let parameters = Parameters::read(&uri, &["grace_seconds"])?;
    let max = GRACE_MAX.0 / 1_000_000;
    let seconds = match parameters.text("grace_seconds") {
        None => GRACE_SECONDS,
        Some(text) => text.parse().ok().filter(|seconds| (0..=max).contains(seconds)).ok_or_else(|| {
            query::invalid("grace_seconds", format!("this must be a whole number of 0 to {max}"))
        })?,
    };
    let id = named(&id)?;
    not_own(&caller, &id)?;
    let order = TenantOrder::Delete { grace: Span::from_secs(seconds) };
    let row = detached(app.answer_max(), async move {
        Ok(app.handle.order_tenant(&id, order, TenantChange::default()).await?)
    });
    Ok(Json(tenant(row.await?)))
}

/// Takes a deletion back, while the time of grace lasts: the tenant is active again, with all it had.
#[utoipa::path(
    post, path = "/api/v1/tenants/{id}/restore", tag = "access", operation_id = "restore_tenant",
    params(("id" = String, Path)),
    responses(
        (status = 200, description = "active again", body = Tenant),
        (status = 404, description = "no such tenant, or it is gone", body = ProblemBody),
        (status = 409, description = "it is not deleted", body = ProblemBody),
    )
)]
pub(crate) async fn restore(
    State(app): State<App>,
    _: NoParameters,
    Named(id): Named<String>,
    _: body::Nothing,
) -> Result<Json<Tenant>, Problem> {
    let id = named(&id)?;
    let row = detached(app.answer_max(), async move {
        Ok(app.handle.order_tenant(&id, TenantOrder::Restore, TenantChange::default()).await?)
    });
    Ok(Json(tenant(row.await?)))
}
