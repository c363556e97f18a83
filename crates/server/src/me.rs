//! Who the caller is, as the server sees it.

use crate::{
    access::{Access, Role},
    auth::Caller,
    problem::Problem,
    query::NoParameters,
    routes::ROUTES,
};
use axum::Json;
use serde::Serialize;
use utoipa::ToSchema;

/// The caller.
#[derive(Serialize, ToSchema)]
pub(crate) struct Me {
    tenant: String,
    /// The key's public part.
    key: String,
    /// Acts are recorded under this name.
    name: String,
    roles: Vec<Role>,
    permissions: Vec<&'static str>,
}

/// Answers whose key this is and what it allows.
#[utoipa::path(
    get, path = "/api/v1/me", tag = "access", operation_id = "get_me",
    responses((status = 200, description = "the caller", body = Me))
)]
pub(crate) async fn read(caller: Caller, _: NoParameters) -> Result<Json<Me>, Problem> {
    let mut permissions: Vec<&'static str> = ROUTES
        .iter()
        .filter(|route| matches!(route.access, Access::Needs(_)) && route.access.admits(&caller.roles))
        .map(|route| route.access.word())
        .collect();
    permissions.sort_unstable();
    permissions.dedup();
    Ok(Json(Me {
        tenant: caller.tenant.to_string(),
        key: caller.key_id,
        name: caller.actor,
        roles: caller.roles,
        permissions,
    }))
}
