//! API keys of a tenant: list, create, revoke. A secret is shown once, when its key is made.
//!
//! A key cannot hand out more than it has: roles that reach beyond the tenant are granted by `platform` keys only.

use crate::{
    access::Role,
    app::{App, detached},
    auth::{Caller, roles_of},
    body, code,
    page::Page,
    problem::{Problem, ProblemBody, excerpt},
    query::{self, Named, NoParameters},
    wire,
};
use axum::{Json, extract::State, http::StatusCode};
use machine::{Data, Time};
use serde::Serialize;
use store::rows::KeyRow;
use utoipa::ToSchema;

const NAME_BYTES_MAX: usize = 255;

/// A key without its secret.
#[derive(Serialize, ToSchema)]
pub(crate) struct Key {
    id: String,
    name: String,
    roles: Vec<Role>,
    /// The user it acts for.
    subject: Option<String>,
    created_at: String,
    expires_at: Option<String>,
    revoked_at: Option<String>,
}

/// A key to make.
#[derive(ToSchema)]
#[allow(dead_code, reason = "describes the body; it is read field by field")]
pub(crate) struct KeyRequest {
    /// Who or what uses it; acts are recorded under this name.
    name: String,
    roles: Vec<Role>,
    /// The user it acts for: of records it reaches what that user may. Nobody unless given.
    subject: Option<String>,
    /// Refused from then on; never unless given.
    expires_at: Option<String>,
}

/// A new key.
#[derive(Serialize, ToSchema)]
pub(crate) struct NewKey {
    id: String,
    name: String,
    roles: Vec<Role>,
    expires_at: Option<String>,
    /// The whole token to send as `Authorization: Bearer …`. It is never shown again.
    secret: String,
}

/// Lists the tenant's keys.
#[utoipa::path(
    get, path = "/api/v1/keys", tag = "access", operation_id = "list_keys",
    params(("Tenant" = Option<String>, Header, description = "another tenant, for platform keys")),
    responses((status = 200, description = "all of them", body = Page<Key>))
)]
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    _: NoParameters,
) -> Result<Json<Page<Key>>, Problem> {
    let rows = app.store().keys(&caller.tenant).await?;
    Ok(Json(Page { items: rows.into_iter().map(key_of).collect(), next: None }))
}

/// Makes a key and shows its secret this once.
#[utoipa::path(
    post, path = "/api/v1/keys", tag = "access", operation_id = "create_key",
    params(("Tenant" = Option<String>, Header, description = "another tenant, for platform keys")),
    request_body = KeyRequest,
    responses(
        (status = 201, description = "made", body = NewKey),
        (status = 403, description = "the caller may not grant these roles", body = ProblemBody),
    )
)]
pub(crate) async fn create(
    State(app): State<App>,
    caller: Caller,
    _: NoParameters,
    body: body::Json,
) -> Result<(StatusCode, Json<NewKey>), Problem> {
    let fields = body.fields(&["name", "roles", "expires_at", "subject"])?;
    let name = fields.required_label("name", NAME_BYTES_MAX)?;
    let roles = fields.items("roles", Role::ALL.len())?;
    let roles: Vec<Role> = roles.iter().map(read_role).collect::<Result<_, _>>()?;
    if roles.is_empty() {
        return Err(Problem::at(code::INVALID_VALUE, "/roles", "at least one role is needed"));
    }
    if roles.iter().any(|role| role.is_wide()) && !caller.roles.contains(&Role::Platform) {
        let detail = "only a platform key may grant roles that reach beyond the tenant";
        return Err(Problem::new(code::FORBIDDEN, detail));
    }
    let expires_at = expiry(&fields, app.options.clock.now())?;
    let subject = fields.label("subject", machine::acl::NAME_BYTES_MAX)?;
    let words: Vec<String> = roles.iter().map(|role| role.word().to_owned()).collect();
    let made = detached(app.answer_max(), {
        let name = name.clone();
        async move {
            Ok(app
                .handle
                .create_key_for(&caller.tenant, &name, &words, (expires_at, subject.as_deref()))
                .await?)
        }
    })
    .await?;
    let secret = match made.secret.starts_with("wlk_") {
        true => made.secret,
        false => format!("wlk_{}_{}", made.id, made.secret),
    };
    Ok((
        StatusCode::CREATED,
        Json(NewKey { id: made.id, name, roles, expires_at: wire::time_if(expires_at), secret }),
    ))
}

/// When the key ends: a time to come.
fn expiry(fields: &body::Fields, now: Time) -> Result<Option<Time>, Problem> {
    const TEXT_BYTES_MAX: usize = 64;
    let Some(text) = fields.text("expires_at", TEXT_BYTES_MAX)? else { return Ok(None) };
    let wrong = |why: &str| Problem::at(code::INVALID_VALUE, "/expires_at", why);
    let time = Time::parse_rfc3339(&text)
        .ok_or_else(|| wrong("this must be a time such as 2026-01-31T12:00:00Z"))?;
    if time <= now { Err(wrong("this time is past")) } else { Ok(Some(time)) }
}

fn read_role(value: &Data) -> Result<Role, Problem> {
    let word = value.as_str().unwrap_or_default();
    Role::by_word(word).ok_or_else(|| {
        let known: Vec<&str> = Role::ALL.iter().map(|role| role.word()).collect();
        Problem::at(code::INVALID_VALUE, "/roles", format!("{:?} is no role", excerpt(word)))
            .with_hint(query::nearest_hint(word, &known))
    })
}

/// Revokes a key: it is refused at once here and within 5 seconds on every node.
#[utoipa::path(
    delete, path = "/api/v1/keys/{id}", tag = "access", operation_id = "revoke_key",
    params(
        ("id" = String, Path),
        ("Tenant" = Option<String>, Header, description = "another tenant, for platform keys"),
    ),
    responses(
        (status = 204, description = "revoked"),
        (status = 404, description = "no such key", body = ProblemBody),
    )
)]
pub(crate) async fn revoke(
    State(app): State<App>,
    caller: Caller,
    _: NoParameters,
    Named(id): Named<String>,
) -> Result<StatusCode, Problem> {
    let keys = app.store().keys(&caller.tenant).await?;
    if !keys.iter().any(|key| key.id == id) {
        return Err(Problem::not_found("key"));
    }
    detached(app.answer_max(), async move {
        app.handle.revoke_key(&caller.tenant, &id).await?;
        app.keys.forget(&id);
        Ok(())
    })
    .await?;
    Ok(StatusCode::NO_CONTENT)
}

fn key_of(row: KeyRow) -> Key {
    Key {
        roles: roles_of(&row),
        created_at: wire::time(row.created_at),
        expires_at: wire::time_if(row.expires_at),
        revoked_at: wire::time_if(row.revoked_at),
        id: row.id,
        name: row.name,
        subject: row.subject,
    }
}
