//! Error groups: what failed for good, by what is alike.

use crate::{
    app::App,
    auth::Caller,
    page::{self, Cursors, Page},
    problem::{Problem, ProblemBody},
    query::{self, Named, NoParameters, Parameters},
    wire::{self, Stored},
};
use axum::{Json, extract::State, http::Uri};
use machine::{
    Time,
    id::{self, Kind},
};
use serde::Serialize;
use store::{rows::ErrorGroupRow, views::ErrorFilter};
use utoipa::ToSchema;
use uuid::Uuid;

/// Failures that are alike.
#[derive(Serialize, ToSchema)]
pub(crate) struct ErrorGroup {
    /// The same for all that are alike.
    pub(crate) id: String,
    /// call, delivery, signal, timer, saga or workflow.
    pub(crate) source: String,
    /// The worker or endpoint that failed, the type of the signal, or the definition.
    pub(crate) worker: String,
    /// How it failed: transient, rate-limited, auth, validation or poison for deliveries, the error's type for steps, the
    /// reason for others.
    pub(crate) class: String,
    /// The definition and the step that failed, where there is one.
    pub(crate) step: Option<String>,
    /// Of the last failure; words with digits in them are shown as `#`.
    pub(crate) message: String,
    pub(crate) count: u64,
    pub(crate) first_seen: String,
    pub(crate) last_seen: String,
}

/// A group with samples.
#[derive(Serialize, ToSchema)]
pub(crate) struct ErrorGroupDetail {
    #[serde(flatten)]
    group: ErrorGroup,
    /// One of the first failures.
    first: Stored,
    /// A few of the last.
    samples: Stored,
}

/// Lists error groups, those seen last first.
#[utoipa::path(
    get, path = "/api/v1/errors", tag = "errors", operation_id = "list_errors",
    params(
        ("worker" = Option<String>, Query, description = "only of this worker, endpoint or definition"),
        ("class" = Option<String>, Query, description = "only of this class"),
        ("limit" = Option<usize>, Query, description = "1 to 200; 50 unless given"),
        ("cursor" = Option<String>, Query, description = "`next` of the page before"),
    ),
    responses((status = 200, description = "one page", body = Page<ErrorGroup>))
)]
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    uri: Uri,
) -> Result<Json<Page<ErrorGroup>>, Problem> {
    let parameters = Parameters::read(&uri, &["worker", "class", "limit", "cursor"])?;
    let limit = page::limit(&parameters)?;
    let cursors = Cursors::new(&caller, "errors");
    let after = cursors.read(&parameters)?.map(|position| read_position(&position)).transpose()?;
    let filter = ErrorFilter {
        target: parameters.owned("worker"),
        class: parameters.owned("class"),
        after,
        limit: page::rows_for(limit),
    };
    let mut rows = app.store().error_groups(&caller.tenant, &filter).await?;
    let more = page::cut(&mut rows, limit);
    let next = rows.last().filter(|_| more).map(|row| cursors.write(&position(row.last_at, row.id)));
    Ok(Json(Page { items: rows.iter().map(group_of).collect(), next }))
}

/// Reads a group with samples of its failures.
#[utoipa::path(
    get, path = "/api/v1/errors/{id}", tag = "errors", operation_id = "get_error",
    params(("id" = String, Path)),
    responses(
        (status = 200, description = "the group", body = ErrorGroupDetail),
        (status = 404, description = "no such group", body = ProblemBody),
    )
)]
pub(crate) async fn read(
    State(app): State<App>,
    caller: Caller,
    _: NoParameters,
    Named(text): Named<String>,
) -> Result<Json<ErrorGroupDetail>, Problem> {
    let id = query::path_id(Kind::ErrorGroup, &text)?;
    let row = app.store().error_group(&caller.tenant, id).await?;
    let row = row.ok_or_else(|| Problem::not_found("error group"))?;
    let (first, samples) = (Stored::of(&row.first_sample), Stored::of(&row.samples));
    Ok(Json(ErrorGroupDetail { group: group_of(&row), first, samples }))
}

pub(crate) fn group_of(row: &ErrorGroupRow) -> ErrorGroup {
    ErrorGroup {
        id: id::show(Kind::ErrorGroup, row.id),
        source: row.source.clone(),
        worker: row.target.clone(),
        class: row.class.clone(),
        step: row.step.clone(),
        message: row.message.clone(),
        count: row.count,
        first_seen: wire::time(row.first_at),
        last_seen: wire::time(row.last_at),
    }
}

/// Where a page by time and id ends.
pub(crate) fn position(at: Time, id: Uuid) -> Vec<u8> {
    [at.0.to_be_bytes().as_slice(), id.as_bytes()].concat()
}

pub(crate) fn read_position(bytes: &[u8]) -> Result<(Time, Uuid), Problem> {
    let (at, id) = bytes.split_at_checked(8).ok_or_else(page::refused)?;
    let at = i64::from_be_bytes(at.try_into().map_err(|_| page::refused())?);
    Ok((Time(at), Uuid::from_slice(id).map_err(|_| page::refused())?))
}
