//! Who may do what with records: groups of people, why somebody may or may not, and how far changes have come.

use crate::{
    access::Permission,
    app::{App, detached},
    auth::Caller,
    body, code,
    page::Page,
    problem::{Problem, ProblemBody},
    query::{Named, NoParameters, Parameters},
    records::asker,
    wire,
};
use axum::{
    Json,
    extract::State,
    http::{StatusCode, Uri},
};
use machine::acl::Right;
use serde::Serialize;
use std::collections::BTreeSet;
use store::rows::{AclWorkRow, GroupRow};
use utoipa::ToSchema;

const MEMBERS_MAX: usize = 10_000;
const WORKS_SHOWN_MAX: usize = 100;

/// Who is in a group, and which roles they have by it.
#[derive(ToSchema)]
#[allow(dead_code, reason = "describes the body; it is read field by field")]
pub(crate) struct GroupRequest {
    members: Vec<String>,
    roles: Option<Vec<String>>,
}

/// A group of users.
#[derive(Serialize, ToSchema)]
pub(crate) struct Group {
    name: String,
    members: Vec<String>,
    roles: Vec<String>,
    version: i64,
    updated_at: String,
}

/// Why somebody may do something with a record, or may not.
#[derive(Serialize, ToSchema)]
pub(crate) struct Explanation {
    record: String,
    right: &'static str,
    /// All that the user is.
    names: Vec<String>,
    allowed: bool,
    /// `allowed`, `denied` or `nothing-said`.
    verdict: &'static str,
    /// Of all names, the one that decides, and the record whose grant that is.
    decided_by: Option<String>,
    decided_at: Option<String>,
    /// The record and those above it, nearest first, with the grants to any of the names.
    path: Vec<Step>,
    /// What will hold once changes above have been handed down, if that is something else.
    becomes: Option<bool>,
}

/// What one record of the path says.
#[derive(Serialize, ToSchema)]
pub(crate) struct Step {
    record: String,
    inherits: bool,
    #[schema(value_type = Vec<Object>)]
    grants: Vec<serde_json::Value>,
}

/// How far changes of who may do what have been handed down.
#[derive(Serialize, ToSchema)]
pub(crate) struct Propagation {
    /// True while records still have what held before.
    pending: bool,
    /// Records whose children are still to be given what holds for them.
    records: u64,
    /// Those of them where somebody loses something; they go first.
    revoking: u64,
    failed: u64,
    /// How long ago the oldest change that is not through was made.
    lag_ms: Option<i64>,
    /// What is still to be done, what failed first; at most 100.
    work: Vec<Work>,
}

/// A record whose children are still to be given what holds for them.
#[derive(Serialize, ToSchema)]
pub(crate) struct Work {
    record: String,
    /// Where the change was made.
    root: String,
    revokes: bool,
    level: i64,
    since: String,
    attempt: u32,
    error: Option<String>,
}

/// Lists the groups.
#[utoipa::path(
    get, path = "/api/v1/groups", tag = "records", operation_id = "list_groups",
    params(("member" = Option<String>, Query, description = "only those that this user is in")),
    responses((status = 200, description = "all of them, by name", body = Page<Group>))
)]
pub(crate) async fn groups(
    State(app): State<App>,
    caller: Caller,
    uri: Uri,
) -> Result<Json<Page<Group>>, Problem> {
    let parameters = Parameters::read(&uri, &["member"])?;
    let rows = app.store().records().groups(&caller.tenant, parameters.text("member")).await?;
    Ok(Json(Page { items: rows.into_iter().map(group_of).collect(), next: None }))
}

/// Makes or replaces a group. What its members may do changes at once.
#[utoipa::path(
    put, path = "/api/v1/groups/{name}", tag = "records", operation_id = "put_group",
    params(("name" = String, Path)),
    request_body = GroupRequest,
    responses((status = 200, description = "changed", body = Group), (status = 201, description = "made", body = Group))
)]
pub(crate) async fn put_group(
    State(app): State<App>,
    caller: Caller,
    _: NoParameters,
    Named(name): Named<String>,
    body: body::Json,
) -> Result<(StatusCode, Json<Group>), Problem> {
    let fields = body.fields(&["members", "roles"])?;
    let names = |key: &str| -> Result<BTreeSet<String>, Problem> {
        let text = |value: &machine::Data| value.as_str().map(str::to_owned);
        let all: Option<_> = fields.items(key, MEMBERS_MAX)?.iter().map(text).collect();
        all.ok_or_else(|| Problem::at(code::INVALID_VALUE, format!("/{key}"), "these must be names"))
    };
    let members = names("members")?;
    let roles = if fields.value("roles").is_some() { names("roles")? } else { BTreeSet::new() };
    let (created, row) = detached(app.answer_max(), async move {
        let created = app.handle.put_group(&caller.tenant, &name, &members, &roles).await?;
        Ok((created, app.store().records().group(&caller.tenant, &name).await?))
    })
    .await?;
    let row = row.ok_or_else(|| Problem::not_found("group"))?;
    Ok((if created { StatusCode::CREATED } else { StatusCode::OK }, Json(group_of(row))))
}

/// Deletes a group: nobody is in it any more.
#[utoipa::path(
    delete, path = "/api/v1/groups/{name}", tag = "records", operation_id = "delete_group",
    params(("name" = String, Path)),
    responses((status = 204, description = "gone"), (status = 404, description = "no such group", body = ProblemBody))
)]
pub(crate) async fn delete_group(
    State(app): State<App>,
    caller: Caller,
    _: NoParameters,
    Named(name): Named<String>,
) -> Result<StatusCode, Problem> {
    detached(app.answer_max(), async move { Ok(app.handle.delete_group(&caller.tenant, &name).await?) })
        .await?;
    Ok(StatusCode::NO_CONTENT)
}

fn group_of(row: GroupRow) -> Group {
    Group {
        name: row.name,
        members: row.members,
        roles: row.roles,
        version: row.row_version,
        updated_at: wire::time(row.updated_at),
    }
}

/// Says why a user may do something with a record, or may not.
#[utoipa::path(
    get, path = "/api/v1/records/{id}/explain", tag = "records", operation_id = "explain_acl",
    params(
        ("id" = String, Path),
        ("user" = Option<String>, Query, description = "whose rights; the caller's own unless given"),
        ("right" = Option<String>, Query, description = "read, write or share; read unless given"),
    ),
    responses(
        (status = 200, description = "why", body = Explanation),
        (status = 404, description = "there is no record that the caller may read", body = ProblemBody),
    )
)]
pub(crate) async fn explain(
    State(app): State<App>,
    caller: Caller,
    Named(id): Named<String>,
    uri: Uri,
) -> Result<Json<Explanation>, Problem> {
    let parameters = Parameters::read(&uri, &["user", "right"])?;
    let right = parameters.one("right", &["read", "write", "share"])?;
    let right = right.as_deref().and_then(Right::by_word).unwrap_or(Right::Read);
    // Whoever may not read the record learns nothing about it.
    let asker = asker(&app, &caller).await?;
    app.handle.record(&caller.tenant, &asker, &id).await?;
    let names = match parameters.text("user") {
        Some(user) => Some(app.handle.names_of(&caller.tenant, user).await?),
        None => asker.names,
    };
    let by_key = names.is_none();
    let mut why = app.handle.explain_acl(&caller.tenant, &id, &names.unwrap_or_default(), right).await?;
    if by_key {
        (why.allowed, why.verdict, why.becomes) = (true, "allowed", None);
        why.decided_by = Some(Permission::RecordsAll.word().to_owned());
    }
    let shown = |grant: &machine::acl::Grant| serde_json::to_value(grant).unwrap_or_default();
    Ok(Json(Explanation {
        record: why.record,
        right: why.right.word(),
        names: why.names,
        allowed: why.allowed,
        verdict: why.verdict,
        decided_by: why.decided_by,
        decided_at: why.decided_at,
        path: why
            .path
            .into_iter()
            .map(|step| Step {
                record: step.record,
                inherits: step.inherits,
                grants: step.grants.iter().map(shown).collect(),
            })
            .collect(),
        becomes: why.becomes,
    }))
}

/// Says how far changes of who may do what have been handed down.
#[utoipa::path(
    get, path = "/api/v1/acl/propagation", tag = "records", operation_id = "get_acl_propagation",
    responses((status = 200, description = "how far", body = Propagation))
)]
pub(crate) async fn propagation(
    State(app): State<App>,
    caller: Caller,
    _: NoParameters,
) -> Result<Json<Propagation>, Problem> {
    let pending = app.store().records().acl_pending(Some(&caller.tenant)).await?;
    let rows = app.store().records().acl_work(&caller.tenant, WORKS_SHOWN_MAX).await?;
    let lag = |since: machine::Time| app.options.clock.now().since(since).0.max(0) / 1000;
    Ok(Json(Propagation {
        pending: pending.records > 0,
        records: pending.records,
        revoking: pending.revoking,
        failed: pending.failed,
        lag_ms: pending.since.map(lag),
        work: rows.into_iter().map(work_of).collect(),
    }))
}

fn work_of(row: AclWorkRow) -> Work {
    Work {
        record: row.record,
        root: row.root,
        revokes: row.revokes,
        level: row.level,
        since: wire::time(row.since),
        attempt: row.attempt,
        error: row.error,
    }
}
