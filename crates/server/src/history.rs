//! What happened to an instance, event by event.

use crate::{
    app::App,
    auth::Caller,
    instances,
    page::{self, Cursors, Page},
    problem::{Problem, ProblemBody},
    query::{Named, Parameters},
};
use axum::{Json, extract::State, http::Uri};
use serde::Serialize;
use serde_json::{Map, Value};
use store::rows::HistoryRow;
use utoipa::ToSchema;

/// One event. Besides these, an event has the members of its kind.
#[derive(Serialize, ToSchema)]
pub(crate) struct HistoryItem {
    /// The instance's version that the commit of this event made.
    version: i64,
    /// For example `step.started`.
    kind: String,
    /// Where in the definition, for example `/do/0/charge`.
    #[serde(skip_serializing_if = "Option::is_none")]
    step: Option<String>,
    /// Which visit of the step, where it is in a loop, was jumped back to or is tried again: positions in the loops
    /// around it such as `0.2`, `~n` after the n-th jump back, `rn` in the n-th retry.
    #[serde(skip_serializing_if = "Option::is_none")]
    iteration: Option<String>,
    time: String,
    #[serde(flatten)]
    #[schema(value_type = Object)]
    rest: Map<String, Value>,
}

/// Lists what happened, oldest first.
#[utoipa::path(
    get, path = "/api/v1/instances/{id}/history", tag = "instances", operation_id = "get_instance_history",
    params(
        ("id" = String, Path),
        ("limit" = Option<usize>, Query, description = "1 to 200; 50 unless given"),
        ("cursor" = Option<String>, Query, description = "`next` of the page before"),
    ),
    responses(
        (status = 200, description = "one page", body = Page<HistoryItem>),
        (status = 404, description = "no such instance", body = ProblemBody),
    )
)]
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    uri: Uri,
    Named(text): Named<String>,
) -> Result<Json<Page<HistoryItem>>, Problem> {
    let parameters = Parameters::read(&uri, &["limit", "cursor"])?;
    let limit = page::limit(&parameters)?;
    let view = instances::find(&app, &caller, &text).await?;
    let cursors = Cursors::new(&caller, &format!("history/{}", view.row.id));
    let from = match cursors.read(&parameters)? {
        Some(position) => Position::read(&position).ok_or_else(page::refused)?,
        None => Position { version: 1, skip: 0 },
    };
    // One row more than items are wanted: each row holds at least one event, so a further page is noticed.
    let rows =
        app.store().history(&caller.tenant, view.row.id, from.version - 1, page::rows_for(limit)).await?;
    let rows_full = rows.len() == page::rows_for(limit);
    let (items, next) = flatten(&rows, from, limit);
    let last = rows.last().filter(|_| rows_full);
    let next = next.or_else(|| last.map(|row| Position { version: row.version + 1, skip: 0 }));
    Ok(Json(Page { items, next: next.map(|position| cursors.write(&position.write())) }))
}

/// Where a page of history begins: events are paged, though one commit may hold many.
#[derive(Clone, Copy)]
struct Position {
    version: i64,
    skip: u64,
}

impl Position {
    fn write(self) -> Vec<u8> {
        [self.version.to_be_bytes(), self.skip.to_be_bytes()].concat()
    }

    fn read(bytes: &[u8]) -> Option<Position> {
        let (version, skip) = bytes.split_at_checked(8)?;
        let version = i64::from_be_bytes(version.try_into().ok()?);
        let skip = u64::from_be_bytes(skip.try_into().ok()?);
        (version >= 1).then_some(Position { version, skip })
    }
}

/// The events of `rows` from `from` on, at most `limit`, and where the next page begins if `rows` holds more.
fn flatten(rows: &[HistoryRow], from: Position, limit: usize) -> (Vec<HistoryItem>, Option<Position>) {
    let mut items = Vec::new();
    for row in rows {
        let events: Vec<Map<String, Value>> = serde_json::from_slice(&row.events).unwrap_or_default();
        let skip = if row.version == from.version { from.skip } else { 0 };
        for (at, event) in (0u64..).zip(events).skip(usize::try_from(skip).unwrap_or(usize::MAX)) {
            if items.len() == limit {
                return (items, Some(Position { version: row.version, skip: at }));
            }
            items.push(item(row, event));
        }
    }
    (items, None)
}

fn item(row: &HistoryRow, mut event: Map<String, Value>) -> HistoryItem {
    let mut text = |key: &str| match event.shift_remove(key) {
        Some(Value::String(text)) => Some(text),
        _ => None,
    };
    HistoryItem {
        version: row.version,
        kind: text("kind").unwrap_or_else(|| "unknown".to_owned()),
        step: text("step"),
        iteration: text("iteration"),
        time: text("time").unwrap_or_else(|| row.at.rfc3339()),
        rest: event,
    }
}
