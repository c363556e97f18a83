//! Records: a tenant's own entities. What whoever asks may not read is not there for them.

use crate::{
    access::Permission,
    app::{App, detached},
    auth::Caller,
    body::{self, Fields},
    code, etag,
    page::{self, Cursors, Page},
    problem::{Problem, ProblemBody},
    query::{self, Named, NoParameters, Parameters},
    wire::{self, Stored},
};
use axum::{
    Json,
    extract::State,
    http::{HeaderMap, StatusCode, Uri},
    response::{IntoResponse, Response},
};
use machine::{
    Data,
    acl::{Acl, Effective, Right},
    record,
};
use runtime::api::{Asker, RecordChange, RecordDraft};
use serde::Serialize;
use std::collections::BTreeMap;
use store::records::{KeyCondition, RecordAsk, RecordView};
use utoipa::ToSchema;

const ID_BYTES_MAX: usize = record::ID_BYTES_MAX;
const KIND_BYTES_MAX: usize = 100;

/// A record to make.
#[derive(ToSchema)]
#[allow(dead_code, reason = "describes the body; it is read field by field")]
pub(crate) struct RecordRequest {
    /// A fresh one unless given.
    id: Option<String>,
    kind: String,
    parent: Option<String>,
    #[schema(value_type = Object)]
    body: serde_json::Value,
    /// `{"inherits": true, "grants": [{"to": "group:sales", "rights": ["read"], "deny": false}]}`
    #[schema(value_type = Object)]
    acl: Option<serde_json::Value>,
}

/// What to change; what is not given stays.
#[derive(ToSchema)]
#[allow(dead_code, reason = "describes the body; it is read field by field")]
pub(crate) struct RecordChangeRequest {
    /// `null` puts the record at the top.
    parent: Option<String>,
    #[schema(value_type = Object)]
    body: Option<serde_json::Value>,
    #[schema(value_type = Object)]
    acl: Option<serde_json::Value>,
}

/// A record.
#[derive(Serialize, ToSchema)]
pub(crate) struct Record {
    id: String,
    kind: String,
    parent: Option<String>,
    /// Raised by every change; starts at 1.
    version: i64,
    body: Stored,
    /// The record's own grants.
    acl: Stored,
    /// What holds for it, by user, group or role: its own grants and those it inherits.
    effective: BTreeMap<String, Holds>,
    created_at: String,
    updated_at: String,
}

/// What holds for one user, group or role.
#[derive(Serialize, ToSchema)]
pub(crate) struct Holds {
    allow: Vec<&'static str>,
    deny: Vec<&'static str>,
}

/// Who asks: the user a key acts for and all that this user is, or the roles of a key that acts for nobody.
pub(crate) async fn asker(app: &App, caller: &Caller) -> Result<Asker, Problem> {
    match &caller.subject {
        Some(user) => Ok(Asker::of(app.handle.names_of(&caller.tenant, user).await?)),
        None if caller.roles.iter().any(|role| role.allows(Permission::RecordsAll)) => Ok(Asker::of_all()),
        None => Ok(Asker::of(caller.roles.iter().map(|role| format!("role:{}", role.word())))),
    }
}

/// Lists records, by id or by a key that their kind declares.
#[utoipa::path(
    get, path = "/api/v1/records", tag = "records", operation_id = "list_records",
    params(
        ("kind" = Option<String>, Query, description = "only of this kind; needed for `filter` and `sort`"),
        ("parent" = Option<String>, Query, description = "only those below this record"),
        ("filter" = Option<String>, Query, description = "JSON: keys and what they must be, such as {\"status\": \"open\", \"total\": {\">=\": 100}}"),
        ("sort" = Option<String>, Query, description = "a key of the kind; `-` in front for the largest first"),
        ("limit" = Option<usize>, Query), ("cursor" = Option<String>, Query),
    ),
    responses((status = 200, description = "a page of what the caller may read", body = Page<Record>))
)]
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    uri: Uri,
) -> Result<Json<Page<Record>>, Problem> {
    let parameters = Parameters::read(&uri, &["kind", "parent", "filter", "sort", "limit", "cursor"])?;
    let limit = page::limit(&parameters)?;
    let kind = parameters.owned("kind");
    let sort =
        parameters.text("sort").map(|text| (text.trim_start_matches('-').to_owned(), text.starts_with('-')));
    let conditions = match parameters.text("filter") {
        Some(text) => conditions(text)?,
        None => vec![],
    };
    let named = sort.iter().map(|(name, _)| name).chain(conditions.iter().map(|one| &one.name));
    are_declared(&app, &caller, kind.as_deref(), named).await?;
    let list = format!("records {kind:?} {sort:?}");
    let cursors = Cursors::new(&caller, &list);
    let after = cursors.read(&parameters)?.map(position).transpose()?;
    let ask = RecordAsk {
        kind,
        parent: parameters.owned("parent"),
        seen_by: asker(&app, &caller).await?.list(),
        conditions,
        descending: sort.as_ref().is_some_and(|(_, descending)| *descending),
        sort: sort.map(|(name, _)| name),
        after,
        limit: page::rows_for(limit),
    };
    let mut rows = app.store().records().records(&caller.tenant, &ask).await?;
    let more = page::cut(&mut rows, limit);
    let next = rows.last().filter(|_| more).map(|last| {
        let id = last.view.row.id.as_bytes();
        cursors.write(&[&[id.len() as u8], id, &last.value].concat())
    });
    Ok(Json(Page { items: rows.into_iter().map(|listed| record_of(&listed.view)).collect(), next }))
}

/// The id and the value that a cursor stands for.
fn position(bytes: Vec<u8>) -> Result<(Vec<u8>, String), Problem> {
    let (length, rest) = bytes.split_first().ok_or_else(page::refused)?;
    let (id, value) = rest.split_at_checked(usize::from(*length)).ok_or_else(page::refused)?;
    let id = String::from_utf8(id.to_vec()).map_err(|_| page::refused())?;
    Ok((value.to_vec(), id))
}

/// Refuses keys that the kind does not declare.
async fn are_declared<'n>(
    app: &App,
    caller: &Caller,
    kind: Option<&str>,
    mut names: impl Iterator<Item = &'n String>,
) -> Result<(), Problem> {
    let Some(first) = names.next() else { return Ok(()) };
    let needs = || query::invalid("kind", "lists are filtered and sorted by keys of one kind: name it");
    let kind = kind.ok_or_else(needs)?;
    let row = app.store().records().record_kind(&caller.tenant, kind).await?;
    let row = row.ok_or_else(|| query::invalid("kind", "there is no such kind of records"))?;
    let declared = app.handle.record_keys(&row);
    let known: Vec<&str> = declared.iter().map(|key| key.name.as_str()).collect();
    match std::iter::once(first).chain(names).find(|name| !known.contains(&name.as_str())) {
        None => Ok(()),
        Some(name) => Err(query::invalid("filter", "the kind does not declare this key")
            .with_hint(query::nearest_hint(name, &known))),
    }
}

/// What the parameter `filter` asks for.
fn conditions(text: &str) -> Result<Vec<KeyCondition>, Problem> {
    let wrong = |why: &str| query::invalid("filter", why);
    let filter = Data::parse(text.as_bytes()).map_err(|error| wrong(&error.to_string()))?;
    let entries = filter.entries().ok_or_else(|| wrong("this must be a JSON object"))?;
    let key = |value: &Data| record::sortable(value).map_err(|why| wrong(&format!("a value {why}")));
    let mut conditions = Vec::with_capacity(entries.len());
    for (name, wanted) in entries {
        let mut condition = KeyCondition { name, ..KeyCondition::default() };
        let Some(bounds) = wanted.entries() else {
            let equal = key(&wanted)?;
            condition.from = Some((equal.clone(), false));
            condition.to = Some((equal, false));
            conditions.push(condition);
            continue;
        };
        for (sign, value) in bounds {
            let value = key(&value)?;
            match sign.as_str() {
                ">" => condition.from = Some((value, true)),
                ">=" => condition.from = Some((value, false)),
                "<" => condition.to = Some((value, true)),
                "<=" => condition.to = Some((value, false)),
                _ => return Err(wrong("a key is compared with >, >=, < or <=")),
            }
        }
        conditions.push(condition);
    }
    Ok(conditions)
}

/// Makes a record.
#[utoipa::path(
    post, path = "/api/v1/records", tag = "records", operation_id = "create_record",
    request_body = RecordRequest,
    responses(
        (status = 201, description = "made", body = Record),
        (status = 403, description = "the caller may not put something below that record", body = ProblemBody),
        (status = 409, description = "there is a record of that id", body = ProblemBody),
        (status = 422, description = "the body does not fit its kind", body = ProblemBody),
    )
)]
pub(crate) async fn create(
    State(app): State<App>,
    caller: Caller,
    _: NoParameters,
    body: body::Json,
) -> Result<(StatusCode, Json<Record>), Problem> {
    let fields = body.fields(&["id", "kind", "parent", "body", "acl"])?;
    let missing = || Problem::at(code::MISSING_KEY, "/body", "this key is required");
    let draft = RecordDraft {
        id: fields.text("id", ID_BYTES_MAX)?,
        kind: fields.required_text("kind", KIND_BYTES_MAX)?,
        parent: fields.text("parent", ID_BYTES_MAX)?,
        body: fields.value("body").ok_or_else(missing)?,
        acl: acl(&fields)?,
    };
    let asker = asker(&app, &caller).await?;
    let made = detached(app.answer_max(), async move {
        Ok(app.handle.create_record(&caller.tenant, &asker, draft).await?)
    })
    .await?;
    Ok((StatusCode::CREATED, Json(record_of(&made))))
}

/// The grants in a body.
fn acl(fields: &Fields) -> Result<Option<Acl>, Problem> {
    let Some(value) = fields.value("acl") else { return Ok(None) };
    let wrong = |why: String| Problem::new(code::ACL_INVALID, why);
    let acl: Acl = serde_json::from_value(value.to_json()).map_err(|error| wrong(error.to_string()))?;
    acl.problem().map_or(Ok(Some(acl)), |problem| Err(wrong(problem)))
}

/// Reads a record.
#[utoipa::path(
    get, path = "/api/v1/records/{id}", tag = "records", operation_id = "get_record",
    params(("id" = String, Path)),
    responses(
        (status = 200, description = "the record", body = Record),
        (status = 404, description = "there is none that the caller may read", body = ProblemBody),
    )
)]
pub(crate) async fn read(
    State(app): State<App>,
    caller: Caller,
    _: NoParameters,
    Named(id): Named<String>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let asker = asker(&app, &caller).await?;
    let found = app.handle.record(&caller.tenant, &asker, &id).await?;
    Ok(etag::answer(&headers, found.row.version, Json(record_of(&found))))
}

/// Changes a record: its body, its parent, its grants. Those below keep what holds for them until the change reaches them.
#[utoipa::path(
    put, path = "/api/v1/records/{id}", tag = "records", operation_id = "put_record",
    params(("id" = String, Path), ("If-Match" = Option<String>, Header)),
    request_body = RecordChangeRequest,
    responses(
        (status = 200, description = "changed", body = Record),
        (status = 403, description = "the caller may read it and no more", body = ProblemBody),
        (status = 404, description = "there is none that the caller may read", body = ProblemBody),
        (status = 409, description = "it would be below itself", body = ProblemBody),
        (status = 412, description = "it is at another version", body = ProblemBody),
        (status = 422, description = "the body does not fit its kind", body = ProblemBody),
    )
)]
pub(crate) async fn put(
    State(app): State<App>,
    caller: Caller,
    _: NoParameters,
    Named(id): Named<String>,
    headers: HeaderMap,
    body: body::Json,
) -> Result<Response, Problem> {
    let given = body.0.clone().unwrap_or_default();
    let fields = body.fields(&["body", "parent", "acl"])?;
    let change = RecordChange {
        body: fields.value("body"),
        parent: match given.get("parent") {
            None => None,
            Some(_) => Some(fields.text("parent", ID_BYTES_MAX)?),
        },
        acl: acl(&fields)?,
        version: etag::if_match(&headers)?,
    };
    let asker = asker(&app, &caller).await?;
    let changed = detached(app.answer_max(), async move {
        Ok(app.handle.change_record(&caller.tenant, &asker, &id, &change).await?)
    })
    .await?;
    Ok(etag::answer(&HeaderMap::new(), changed.row.version, Json(record_of(&changed))).into_response())
}

/// Deletes a record that has nothing below it.
#[utoipa::path(
    delete, path = "/api/v1/records/{id}", tag = "records", operation_id = "delete_record",
    params(("id" = String, Path), ("If-Match" = Option<String>, Header)),
    responses(
        (status = 204, description = "gone"),
        (status = 404, description = "there is none that the caller may read", body = ProblemBody),
        (status = 409, description = "there are records below it", body = ProblemBody),
        (status = 412, description = "it is at another version", body = ProblemBody),
    )
)]
pub(crate) async fn delete(
    State(app): State<App>,
    caller: Caller,
    _: NoParameters,
    Named(id): Named<String>,
    headers: HeaderMap,
) -> Result<StatusCode, Problem> {
    let version = etag::if_match(&headers)?;
    let asker = asker(&app, &caller).await?;
    detached(app.answer_max(), async move {
        Ok(app.handle.delete_record(&caller.tenant, &asker, &id, version).await?)
    })
    .await?;
    Ok(StatusCode::NO_CONTENT)
}

fn record_of(view: &RecordView) -> Record {
    let words = |bits: i64| {
        let rights = Right::ALL.into_iter().filter(move |right| right.bit() & bits != 0);
        rights.map(Right::word).collect()
    };
    let list = Effective::parse(&view.list).unwrap_or_default();
    let holds = |(name, entry): (String, machine::acl::Entry)| {
        (name, Holds { allow: words(entry.allow), deny: words(entry.deny) })
    };
    Record {
        id: view.row.id.clone(),
        kind: view.row.kind.clone(),
        parent: view.row.parent.clone(),
        version: view.row.version,
        body: Stored::of(&view.row.body),
        acl: Stored::of(&view.row.acl),
        effective: list.0.into_iter().map(holds).collect(),
        created_at: wire::time(view.row.created_at),
        updated_at: wire::time(view.row.updated_at),
    }
}
