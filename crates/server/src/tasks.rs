//! Tasks: work for a person. List, read, claim, release, assign, complete.
//!
//! Every act honours `If-Match` with the version the person saw, so that two people do not overwrite each other.

use crate::{
    app::{App, detached},
    auth::Caller,
    body::{self, Nothing},
    etag,
    page::{self, Beginning, Cursors, Page},
    problem::{Problem, ProblemBody},
    query::{self, Named, NoParameters, Parameters},
    wire::{self, Stored},
};
use axum::{
    Json,
    extract::State,
    http::{HeaderMap, Uri},
    response::Response,
};
use machine::{
    Data,
    id::{self, Kind},
};
use runtime::api::TaskAct;
use serde::Serialize;
use store::{
    rows::{TaskEventRow, TaskRow},
    views::TaskFilter,
};
use utoipa::ToSchema;

/// The longest name of a person.
const NAME_BYTES_MAX: usize = 255;

/// A task.
#[derive(Serialize, ToSchema)]
pub(crate) struct Task {
    id: String,
    instance: String,
    /// Where in the definition it came from.
    step: String,
    title: String,
    /// open, claimed, completed or cancelled.
    status: String,
    assignee: Option<String>,
    candidate_users: Vec<String>,
    candidate_groups: Vec<String>,
    payload: Stored,
    form: Option<Stored>,
    result: Option<Stored>,
    priority: i64,
    due_at: Option<String>,
    /// Raised by every change; also the ETag.
    version: i64,
    created_at: String,
    updated_at: String,
    ended_at: Option<String>,
}

/// A task and what happened to it.
#[derive(Serialize, ToSchema)]
pub(crate) struct TaskDetail {
    #[serde(flatten)]
    task: Task,
    events: Vec<TaskEvent>,
}

/// Something that happened to a task.
#[derive(Serialize, ToSchema)]
pub(crate) struct TaskEvent {
    /// The task's version it made.
    version: i64,
    /// created, assigned, released, completed, reassigned or cancelled.
    kind: String,
    actor: String,
    time: String,
    detail: Stored,
}

/// To whom.
#[derive(ToSchema)]
#[allow(dead_code, reason = "describes the body; it is read field by field")]
pub(crate) struct AssignRequest {
    to: String,
}

/// With what result.
#[derive(ToSchema)]
#[allow(dead_code, reason = "describes the body; it is read field by field")]
pub(crate) struct CompleteRequest {
    /// Any JSON value; null unless given.
    result: Option<Stored>,
}

const STATUSES: &[&str] = &["open", "claimed", "completed", "cancelled"];

/// Lists tasks, newest first.
#[utoipa::path(
    get, path = "/api/v1/tasks", tag = "tasks", operation_id = "list_tasks",
    params(
        ("id" = Option<String>, Query, description = "the beginning of an id: `tsk_0192`"),
        ("status" = Option<String>, Query, description = "comma-separated: open, claimed, completed, cancelled"),
        ("assignee" = Option<String>, Query),
        ("group" = Option<String>, Query, description = "comma-separated candidate groups; any of them"),
        ("instance" = Option<String>, Query, description = "only tasks of this instance"),
        ("limit" = Option<usize>, Query, description = "1 to 200; 50 unless given"),
        ("cursor" = Option<String>, Query, description = "`next` of the page before"),
    ),
    responses((status = 200, description = "one page", body = Page<Task>))
)]
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    uri: Uri,
) -> Result<Json<Page<Task>>, Problem> {
    let known = ["id", "status", "assignee", "group", "instance", "limit", "cursor"];
    let parameters = Parameters::read(&uri, &known)?;
    let limit = page::limit(&parameters)?;
    let cursors = Cursors::new(&caller, "tasks");
    let filter = TaskFilter {
        statuses: parameters.words("status", STATUSES)?,
        assignee: parameters.owned("assignee"),
        groups: parameters.list("group"),
        instance: parameters.id("instance", Kind::Instance)?,
    };
    let beginning = Beginning::read(&parameters, Kind::Task)?;
    let after = beginning.after(cursors.read_id(&parameters)?);
    let page = store::views::Page { after, limit: page::rows_for(limit) };
    let mut rows = app.store().tasks(&caller.tenant, &filter, &page).await?;
    rows.retain(|task| !beginning.is_past(task.id));
    let more = page::cut(&mut rows, limit);
    let next = rows.last().filter(|_| more).map(|row| cursors.write(row.id.as_bytes()));
    Ok(Json(Page { items: rows.into_iter().map(task_of).collect(), next }))
}

/// Reads a task and what happened to it.
#[utoipa::path(
    get, path = "/api/v1/tasks/{id}", tag = "tasks", operation_id = "get_task",
    params(("id" = String, Path), ("If-None-Match" = Option<String>, Header)),
    responses(
        (status = 200, description = "the task; its version is the ETag", body = TaskDetail),
        (status = 304, description = "it is still at the version of If-None-Match"),
        (status = 404, description = "no such task", body = ProblemBody),
    )
)]
pub(crate) async fn read(
    State(app): State<App>,
    caller: Caller,
    _: NoParameters,
    headers: HeaderMap,
    Named(text): Named<String>,
) -> Result<Response, Problem> {
    let id = query::path_id(Kind::Task, &text)?;
    let task = app.store().task(&caller.tenant, id).await?.ok_or_else(|| Problem::not_found("task"))?;
    let events = app.store().task_events(&caller.tenant, id).await?;
    let version = task.version;
    let body = TaskDetail { task: task_of(task), events: events.into_iter().map(event_of).collect() };
    Ok(etag::answer(&headers, version, Json(body)))
}

/// Takes an open task.
#[utoipa::path(
    post, path = "/api/v1/tasks/{id}/claim", tag = "tasks", operation_id = "claim_task",
    params(("id" = String, Path), ("If-Match" = Option<String>, Header, description = "the ETag you saw")),
    responses(
        (status = 200, description = "the task afterwards", body = Task),
        (status = 404, description = "no such task", body = ProblemBody),
        (status = 409, description = "its state does not allow this", body = ProblemBody),
        (status = 412, description = "it has changed since", body = ProblemBody),
    )
)]
pub(crate) async fn claim(
    State(app): State<App>,
    caller: Caller,
    headers: HeaderMap,
    Named(text): Named<String>,
    _: Nothing,
) -> Result<Response, Problem> {
    act(app, caller, &headers, &text, TaskAct::Claim).await
}

/// Gives a claimed task back.
#[utoipa::path(
    post, path = "/api/v1/tasks/{id}/release", tag = "tasks", operation_id = "release_task",
    params(("id" = String, Path), ("If-Match" = Option<String>, Header, description = "the ETag you saw")),
    responses(
        (status = 200, description = "the task afterwards", body = Task),
        (status = 404, description = "no such task", body = ProblemBody),
        (status = 409, description = "its state does not allow this", body = ProblemBody),
        (status = 412, description = "it has changed since", body = ProblemBody),
    )
)]
pub(crate) async fn release(
    State(app): State<App>,
    caller: Caller,
    headers: HeaderMap,
    Named(text): Named<String>,
    _: Nothing,
) -> Result<Response, Problem> {
    act(app, caller, &headers, &text, TaskAct::Release).await
}

/// Gives a task to somebody.
#[utoipa::path(
    post, path = "/api/v1/tasks/{id}/assign", tag = "tasks", operation_id = "assign_task",
    params(("id" = String, Path), ("If-Match" = Option<String>, Header, description = "the ETag you saw")),
    request_body = AssignRequest,
    responses(
        (status = 200, description = "the task afterwards", body = Task),
        (status = 404, description = "no such task", body = ProblemBody),
        (status = 409, description = "its state does not allow this", body = ProblemBody),
        (status = 412, description = "it has changed since", body = ProblemBody),
    )
)]
pub(crate) async fn assign(
    State(app): State<App>,
    caller: Caller,
    headers: HeaderMap,
    Named(text): Named<String>,
    body: body::Json,
) -> Result<Response, Problem> {
    let to = body.fields(&["to"])?.required_text("to", NAME_BYTES_MAX)?;
    act(app, caller, &headers, &text, TaskAct::Assign { to }).await
}

/// Completes a task; its instance goes on with the result.
#[utoipa::path(
    post, path = "/api/v1/tasks/{id}/complete", tag = "tasks", operation_id = "complete_task",
    params(("id" = String, Path), ("If-Match" = Option<String>, Header, description = "the ETag you saw")),
    request_body = CompleteRequest,
    responses(
        (status = 200, description = "the task afterwards", body = Task),
        (status = 404, description = "no such task", body = ProblemBody),
        (status = 409, description = "its state does not allow this", body = ProblemBody),
        (status = 412, description = "it has changed since", body = ProblemBody),
        (status = 422, description = "the result does not fit the task's form", body = ProblemBody),
    )
)]
pub(crate) async fn complete(
    State(app): State<App>,
    caller: Caller,
    headers: HeaderMap,
    Named(text): Named<String>,
    body: body::Json,
) -> Result<Response, Problem> {
    let result = match body.0 {
        None => Data::NULL,
        body => body::Json(body).fields(&["result"])?.value("result").unwrap_or(Data::NULL),
    };
    act(app, caller, &headers, &text, TaskAct::Complete { result }).await
}

async fn act(
    app: App,
    caller: Caller,
    headers: &HeaderMap,
    text: &str,
    act: TaskAct,
) -> Result<Response, Problem> {
    let id = query::path_id(Kind::Task, text)?;
    let if_version = etag::if_match(headers)?;
    let task = detached(app.answer_max(), async move {
        Ok(app.handle.act_on_task(&caller.tenant, id, act, &caller.actor, if_version).await?)
    })
    .await?;
    Ok(etag::answer(&HeaderMap::new(), task.version, Json(task_of(task))))
}

fn task_of(row: TaskRow) -> Task {
    Task {
        id: id::show(Kind::Task, row.id),
        instance: id::show(Kind::Instance, row.instance),
        candidate_users: wire::names(&row.candidate_users),
        candidate_groups: wire::names(&row.candidate_groups),
        payload: Stored::of(&row.payload),
        form: row.form.as_deref().map(Stored::of),
        result: row.result.as_deref().map(Stored::of),
        due_at: wire::time_if(row.due_at),
        created_at: wire::time(row.created_at),
        updated_at: wire::time(row.updated_at),
        ended_at: wire::time_if(row.ended_at),
        step: row.step,
        title: row.title,
        status: row.status,
        assignee: row.assignee,
        priority: row.priority,
        version: row.version,
    }
}

fn event_of(row: TaskEventRow) -> TaskEvent {
    TaskEvent {
        version: row.sequence,
        kind: row.kind,
        actor: row.actor,
        time: wire::time(row.at),
        detail: Stored::of(&row.detail),
    }
}
