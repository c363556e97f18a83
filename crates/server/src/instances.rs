//! Instances: list and read.

use crate::{
    app::App,
    auth::Caller,
    filter,
    page::{self, Beginning, Cursors, Page},
    problem::{Problem, ProblemBody},
    query::{self, Named, NoParameters, Parameters},
    starts::is_part_name,
    wire::{self, Stored},
};
use axum::{
    Json,
    extract::State,
    http::{HeaderMap, Uri},
    response::Response,
};
use machine::{
    id::{self, Kind},
    query::Subject,
};
use serde::Serialize;
use std::collections::BTreeMap;
use store::views::{InstanceFilter, InstanceView};
use utoipa::ToSchema;

/// How many pages of rows one request may look through when a filter is applied here.
const SCANNED_PAGES_MAX: usize = 5;

/// Which definition.
#[derive(Serialize, ToSchema)]
pub(crate) struct DefinitionRef {
    namespace: String,
    name: String,
    /// The newest unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
}

/// An instance as lists show it.
#[derive(Serialize, ToSchema)]
pub(crate) struct Instance {
    id: String,
    definition: DefinitionRef,
    /// pending, running, waiting, paused, completed, faulted or cancelled.
    status: String,
    /// Business key.
    key: Option<String>,
    /// What the business key is made of.
    #[serde(skip_serializing_if = "Option::is_none")]
    parts: Option<Stored>,
    /// What it waits for, if it does.
    waiting: Option<Waiting>,
    /// Raised by every change; also the ETag.
    version: i64,
    /// The instance that started this one.
    parent: Option<Parent>,
    created_at: String,
    updated_at: String,
    ended_at: Option<String>,
}

/// Who started an instance.
#[derive(Serialize, ToSchema)]
pub(crate) struct Parent {
    id: String,
    /// Which item of a `map` step it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    item: Option<u32>,
}

/// What an instance waits for.
#[derive(Serialize, ToSchema)]
pub(crate) struct Waiting {
    /// For example timer, human-task or external-signal.
    kind: String,
    until: Option<String>,
    /// The task a person must complete.
    task: Option<String>,
}

/// An instance with its data.
#[derive(Serialize, ToSchema)]
pub(crate) struct InstanceDetail {
    #[serde(flatten)]
    instance: Instance,
    input: Stored,
    output: Option<Stored>,
    error: Option<Stored>,
    /// The exported `$context`.
    context: Option<Stored>,
    /// Where it stands, as the engine notes it.
    pointer: Option<Stored>,
    /// Calls that have not been answered yet, at most 20.
    calls: Vec<OpenCall>,
    traceparent: Option<String>,
    correlation_id: Option<String>,
    /// How many children it started, by status.
    children: BTreeMap<String, u64>,
}

/// A step that was handed to a worker or endpoint and not answered yet.
#[derive(Serialize, ToSchema)]
pub(crate) struct OpenCall {
    step: String,
    /// Name of the worker, or `http`.
    target: String,
    /// The attempt under way or to come, from 1.
    attempt: u32,
    /// When that attempt may begin.
    due_at: String,
    /// Why the attempt before failed, or why none was made.
    last_error: Option<String>,
}

fn open_call(row: store::rows::CallRow) -> OpenCall {
    let call = serde_json::from_slice::<machine::command::Call>(&row.envelope);
    OpenCall {
        step: call.map(|call| call.step).unwrap_or_default(),
        target: row.target,
        attempt: row.attempt,
        due_at: wire::time(row.visible_at),
        last_error: row.last_error.map(|text| String::from_utf8_lossy(&text).into_owned()),
    }
}

const STATUSES: &[&str] = &[
    "pending",
    "running",
    "waiting",
    "paused",
    "cancelling",
    "completed",
    "faulted",
    "cancelled",
    "suspended",
];
const FILTERS: &[&str] = &[
    filter::Q,
    "id",
    "status",
    "namespace",
    "name",
    "version",
    "key",
    "parts",
    "parent",
    "from",
    "to",
    "limit",
    "cursor",
];

/// Lists instances, newest first.
#[utoipa::path(
    get, path = "/api/v1/instances", tag = "instances", operation_id = "list_instances",
    params(
        ("q" = Option<String>, Query, description = "a query such as `status:faulted definition:order* started:>-1h`"),
        ("id" = Option<String>, Query, description = "the beginning of an id: `ins_0192`"),
        ("status" = Option<String>, Query,
            description = "comma-separated status words; `suspended` means waiting on a timer"),
        ("namespace" = Option<String>, Query), ("name" = Option<String>, Query),
        ("version" = Option<String>, Query),
        ("key" = Option<String>, Query, description = "business key"),
        ("parts" = Option<String>, Query,
            description = "parts of the business key as name:value, comma-separated; all must be equal"),
        ("parent" = Option<String>, Query, description = "id of the instance that started them"),
        ("from" = Option<String>, Query, description = "created at or after this time"),
        ("to" = Option<String>, Query, description = "created before this time"),
        ("limit" = Option<usize>, Query, description = "1 to 200; 50 unless given"),
        ("cursor" = Option<String>, Query, description = "`next` of the page before"),
    ),
    responses((status = 200, description = "one page", body = Page<Instance>))
)]
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    uri: Uri,
) -> Result<Json<Page<Instance>>, Problem> {
    let parameters = Parameters::read(&uri, FILTERS)?;
    let limit = page::limit(&parameters)?;
    let cursors = Cursors::new(&caller, "instances");
    let beginning = Beginning::read(&parameters, Kind::Instance)?;
    let after = beginning.after(cursors.read_id(&parameters)?);
    let statuses = parameters.words("status", STATUSES)?;
    let mut wanted = InstanceFilter {
        statuses: statuses.clone(),
        namespace: parameters.owned("namespace"),
        name: parameters.owned("name"),
        version: parameters.owned("version"),
        business_key: parameters.owned("key"),
        business_parts: parts(&parameters)?,
        parent: parameters.id("parent", Kind::Instance)?,
        created_from: parameters.time("from")?,
        created_to: parameters.time("to")?,
        conditions: filter::conditions(&app, &caller, &parameters, Subject::Instances)?,
    };
    // The store knows `waiting`; which of those wait on a timer is told apart here.
    let has = |word: &str| statuses.iter().any(|status| status == word);
    let suspended_only = has("suspended") && !has("waiting");
    wanted.statuses.retain(|word| word != "suspended");
    if suspended_only {
        wanted.statuses.push("waiting".to_owned());
    }
    let keep = |view: &InstanceView| !suspended_only || view.row.status != "waiting" || is_suspended(view);
    let (views, next) = scan(&app, &caller, &wanted, (after, beginning), limit, keep).await?;
    let next = next.map(|id| cursors.write(id.as_bytes()));
    Ok(Json(Page { items: views.into_iter().map(|view| instance_of(&view)).collect(), next }))
}

/// `region:eu,customer:42`: each part of the business key that must be equal.
fn parts(parameters: &Parameters) -> Result<Vec<(String, String)>, Problem> {
    let part = |text: String| match text.split_once(':') {
        Some((name, value)) if is_part_name(name) => Ok((name.to_owned(), value.to_owned())),
        _ => Err(query::invalid("parts", "this must be name:value, several separated by commas")),
    };
    parameters.list("parts").into_iter().map(part).collect()
}

fn is_suspended(view: &InstanceView) -> bool {
    view.runtime_status == "Suspended"
}

type Scanned = (Vec<InstanceView>, Option<uuid::Uuid>);

/// Reads pages until `limit` rows passed `keep`, the list ended, or enough was read for one request. A page may
/// therefore be short and still have a next one.
async fn scan(
    app: &App,
    caller: &Caller,
    filter: &InstanceFilter,
    (mut after, beginning): (Option<uuid::Uuid>, Beginning),
    limit: usize,
    keep: impl Fn(&InstanceView) -> bool,
) -> Result<Scanned, Problem> {
    let mut kept: Vec<InstanceView> = Vec::new();
    for _ in 0..SCANNED_PAGES_MAX {
        let page = store::views::Page { after, limit: page::rows_for(limit) };
        let rows = app.store().instances(&caller.tenant, filter, &page).await?;
        let is_last = rows.len() < page.limit;
        for row in rows {
            if beginning.is_past(row.row.id) {
                return Ok((kept, None));
            }
            if kept.len() == limit {
                return Ok((kept, after));
            }
            after = Some(row.row.id);
            if keep(&row) {
                kept.push(row);
            }
        }
        if is_last {
            return Ok((kept, None));
        }
        if kept.len() == limit {
            break;
        }
    }
    Ok((kept, after))
}

/// Reads an instance.
#[utoipa::path(
    get, path = "/api/v1/instances/{id}", tag = "instances", operation_id = "get_instance",
    params(("id" = String, Path), ("If-None-Match" = Option<String>, Header)),
    responses(
        (status = 200, description = "the instance; its version is the ETag", body = InstanceDetail),
        (status = 304, description = "it is still at the version of If-None-Match"),
        (status = 404, description = "no such instance", body = ProblemBody),
    )
)]
pub(crate) async fn read(
    State(app): State<App>,
    caller: Caller,
    _: NoParameters,
    headers: HeaderMap,
    Named(text): Named<String>,
) -> Result<Response, Problem> {
    const CALLS_MAX: usize = 20;
    let view = find(&app, &caller, &text).await?;
    let calls = app.store().calls(&caller.tenant, view.row.id, CALLS_MAX).await?;
    let children = app.store().children(&caller.tenant, view.row.id).await?;
    let body = InstanceDetail {
        calls: calls.into_iter().map(open_call).collect(),
        instance: instance_of(&view),
        input: Stored::of(&view.row.input),
        output: view.row.output.as_deref().map(Stored::of),
        error: view.row.error.as_deref().map(Stored::of),
        context: view.row.context.as_deref().map(Stored::of),
        pointer: view.resume_pointer_json.as_deref().map(Stored::of),
        traceparent: view.row.traceparent,
        correlation_id: view.row.correlation_id,
        children: children.into_iter().collect(),
    };
    Ok(crate::etag::answer(&headers, view.state_version, Json(body)))
}

/// The instance with the id in the path.
pub(crate) async fn find(app: &App, caller: &Caller, text: &str) -> Result<InstanceView, Problem> {
    let id = query::path_id(Kind::Instance, text)?;
    let view = app.store().instance(&caller.tenant, id).await?;
    view.ok_or_else(|| Problem::not_found("instance"))
}

/// The engine writes `HumanTask`, the API `human-task`.
fn wait_word(kind: &str) -> String {
    let mut word = String::with_capacity(kind.len() + 2);
    for (at, letter) in kind.char_indices() {
        if letter.is_uppercase() && at > 0 {
            word.push('-');
        }
        word.extend(letter.to_lowercase());
    }
    word
}

fn instance_of(view: &InstanceView) -> Instance {
    let row = &view.row;
    let waiting = view.waiting_kind.as_ref().map(|kind| Waiting {
        kind: wait_word(kind),
        until: wire::time_if(view.waiting_until),
        task: view.active_task_id.map(|task| id::show(Kind::Task, task)),
    });
    Instance {
        id: id::show(Kind::Instance, row.id),
        definition: DefinitionRef {
            namespace: row.namespace.clone(),
            name: row.name.clone(),
            version: Some(row.version.clone()),
        },
        status: row.status.clone(),
        key: row.business_key.clone(),
        parts: row.business_parts.as_deref().map(Stored::of),
        waiting,
        version: view.state_version,
        parent: row
            .parent
            .map(|parent| Parent { id: id::show(Kind::Instance, parent.instance), item: parent.item }),
        created_at: wire::time(row.created_at),
        updated_at: wire::time(row.updated_at),
        ended_at: wire::time_if(row.ended_at),
    }
}
