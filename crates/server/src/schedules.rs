//! Schedules: what starts by itself, what became of each slot, pause, resume, trigger.

use crate::{
    app::{App, detached},
    auth::Caller,
    body::Nothing,
    page::{self, Cursors, Page},
    problem::{Problem, ProblemBody},
    query::{self, Named, Parameters},
    wire,
};
use axum::{
    Json,
    extract::State,
    http::{StatusCode, Uri},
};
use machine::{
    Time,
    id::{self, Kind},
};
use runtime::ScheduleOrder;
use serde::Serialize;
use store::{
    rows::{ScheduleRow, SlotRow},
    views::ScheduleFilter,
};
use utoipa::ToSchema;

/// How many of the next times are shown unless asked for, and at most.
const NEXT_DEFAULT: usize = 5;
const NEXT_MAX: usize = 100;
const STATUSES: &[&str] = &["active", "paused", "ended"];

/// A schedule.
#[derive(Serialize, ToSchema)]
pub(crate) struct Schedule {
    id: String,
    namespace: String,
    name: String,
    /// The version of the definition that it follows: the newest.
    version: String,
    /// cron, every, after or on.
    kind: String,
    /// The cron expression, the interval, or the types of events.
    spec: String,
    time_zone: String,
    /// What becomes of slots that nobody could fire: all, latest, skip or window.
    missed: String,
    /// active, paused or ended.
    status: String,
    last_slot: Option<String>,
    next_slot: Option<String>,
    /// The instance whose end is waited for.
    instance: Option<String>,
    created_at: String,
    updated_at: String,
}

/// A schedule and its next times.
#[derive(Serialize, ToSchema)]
pub(crate) struct ScheduleDetail {
    #[serde(flatten)]
    schedule: Schedule,
    /// In UTC.
    next: Vec<String>,
}

/// One slot of the ledger.
#[derive(Serialize, ToSchema)]
pub(crate) struct Slot {
    slot: String,
    /// fired, triggered, merged, skipped or failed.
    outcome: String,
    /// More than 1 for that many slots from this one on.
    count: u64,
    instance: Option<String>,
    /// Milliseconds between the slot and what became of it.
    late_ms: i64,
    at: String,
    detail: Option<String>,
}

/// A started instance.
#[derive(Serialize, ToSchema)]
pub(crate) struct Triggered {
    instance: String,
}

/// Lists schedules by namespace and name.
#[utoipa::path(
    get, path = "/api/v1/schedules", tag = "schedules", operation_id = "list_schedules",
    params(
        ("namespace" = Option<String>, Query), ("name" = Option<String>, Query),
        ("status" = Option<String>, Query, description = "active, paused or ended"),
        ("limit" = Option<usize>, Query, description = "1 to 200; 50 unless given"),
        ("cursor" = Option<String>, Query, description = "`next` of the page before"),
    ),
    responses((status = 200, description = "one page", body = Page<Schedule>))
)]
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    uri: Uri,
) -> Result<Json<Page<Schedule>>, Problem> {
    let parameters = Parameters::read(&uri, &["namespace", "name", "status", "limit", "cursor"])?;
    let limit = page::limit(&parameters)?;
    let cursors = Cursors::new(&caller, "schedules");
    let after = match cursors.read(&parameters)? {
        None => None,
        Some(position) => {
            let text = String::from_utf8(position).map_err(|_| page::refused())?;
            let (namespace, name) = text.split_once('/').ok_or_else(page::refused)?;
            Some((namespace.to_owned(), name.to_owned()))
        }
    };
    let mut statuses = parameters.words("status", STATUSES)?;
    if statuses.len() > 1 {
        return Err(query::invalid("status", "only one may be given"));
    }
    let filter = ScheduleFilter {
        namespace: parameters.owned("namespace"),
        name: parameters.owned("name"),
        status: statuses.pop(),
        after,
        limit: page::rows_for(limit),
    };
    let mut rows = app.store().schedules(&caller.tenant, &filter).await?;
    let more = page::cut(&mut rows, limit);
    let last = rows.last().filter(|_| more);
    let next = last.map(|row| cursors.write(format!("{}/{}", row.namespace, row.name).as_bytes()));
    Ok(Json(Page { items: rows.iter().map(schedule_of).collect(), next }))
}

/// Reads a schedule and its next times.
#[utoipa::path(
    get, path = "/api/v1/schedules/{id}", tag = "schedules", operation_id = "get_schedule",
    params(
        ("id" = String, Path),
        ("next" = Option<usize>, Query, description = "how many of the next times; up to 100, 5 unless given"),
    ),
    responses(
        (status = 200, description = "the schedule", body = ScheduleDetail),
        (status = 404, description = "no such schedule", body = ProblemBody),
    )
)]
pub(crate) async fn read(
    State(app): State<App>,
    caller: Caller,
    uri: Uri,
    Named(text): Named<String>,
) -> Result<Json<ScheduleDetail>, Problem> {
    let parameters = Parameters::read(&uri, &["next"])?;
    let count = match parameters.text("next").map(str::parse::<usize>) {
        None => NEXT_DEFAULT,
        Some(Ok(count @ 0..=NEXT_MAX)) => count,
        Some(_) => return Err(query::invalid("next", format!("this must be a number up to {NEXT_MAX}"))),
    };
    let id = query::path_id(Kind::Schedule, &text)?;
    let row = app.store().schedule(&caller.tenant, id).await?;
    let row = row.ok_or_else(|| Problem::not_found("schedule"))?;
    let next = app.handle.upcoming(&caller.tenant, id, count).await?;
    let next = next.into_iter().map(Time::rfc3339).collect();
    Ok(Json(ScheduleDetail { schedule: schedule_of(&row), next }))
}

/// Lists what became of slots, newest first.
#[utoipa::path(
    get, path = "/api/v1/schedules/{id}/slots", tag = "schedules", operation_id = "list_slots",
    params(
        ("id" = String, Path),
        ("limit" = Option<usize>, Query, description = "1 to 200; 50 unless given"),
        ("cursor" = Option<String>, Query, description = "`next` of the page before"),
    ),
    responses(
        (status = 200, description = "one page", body = Page<Slot>),
        (status = 404, description = "no such schedule", body = ProblemBody),
    )
)]
pub(crate) async fn slots(
    State(app): State<App>,
    caller: Caller,
    uri: Uri,
    Named(text): Named<String>,
) -> Result<Json<Page<Slot>>, Problem> {
    let parameters = Parameters::read(&uri, &["limit", "cursor"])?;
    let limit = page::limit(&parameters)?;
    let id = query::path_id(Kind::Schedule, &text)?;
    let cursors = Cursors::new(&caller, &format!("slots of {id}"));
    let before = match cursors.read(&parameters)? {
        None => None,
        Some(position) => Some(Time(i64::from_be_bytes(position.try_into().map_err(|_| page::refused())?))),
    };
    if app.store().schedule(&caller.tenant, id).await?.is_none() {
        return Err(Problem::not_found("schedule"));
    }
    let mut rows = app.store().slots(&caller.tenant, id, before, page::rows_for(limit)).await?;
    let more = page::cut(&mut rows, limit);
    let next = rows.last().filter(|_| more).map(|row| cursors.write(&row.slot.0.to_be_bytes()));
    Ok(Json(Page { items: rows.iter().map(slot_of).collect(), next }))
}

/// Holds the schedule: nothing fires until it is resumed, and slots of the pause do not fire afterwards.
#[utoipa::path(
    post, path = "/api/v1/schedules/{id}/pause", tag = "schedules", operation_id = "pause_schedule",
    params(("id" = String, Path)),
    responses(
        (status = 200, description = "the schedule afterwards", body = Schedule),
        (status = 404, description = "no such schedule", body = ProblemBody),
        (status = 409, description = "it has ended", body = ProblemBody),
    )
)]
pub(crate) async fn pause(
    State(app): State<App>,
    caller: Caller,
    Named(text): Named<String>,
    _: Nothing,
) -> Result<Json<Schedule>, Problem> {
    order(app, caller, text, ScheduleOrder::Pause).await
}

/// Lets a paused schedule go on with its next slot.
#[utoipa::path(
    post, path = "/api/v1/schedules/{id}/resume", tag = "schedules", operation_id = "resume_schedule",
    params(("id" = String, Path)),
    responses(
        (status = 200, description = "the schedule afterwards", body = Schedule),
        (status = 404, description = "no such schedule", body = ProblemBody),
        (status = 409, description = "it has ended", body = ProblemBody),
    )
)]
pub(crate) async fn resume(
    State(app): State<App>,
    caller: Caller,
    Named(text): Named<String>,
    _: Nothing,
) -> Result<Json<Schedule>, Problem> {
    order(app, caller, text, ScheduleOrder::Resume).await
}

/// Starts an instance now, beside the schedule's own slots.
#[utoipa::path(
    post, path = "/api/v1/schedules/{id}/trigger", tag = "schedules", operation_id = "trigger_schedule",
    params(("id" = String, Path)),
    responses(
        (status = 201, description = "the instance that was started", body = Triggered),
        (status = 404, description = "no such schedule", body = ProblemBody),
        (status = 409, description = "it has ended", body = ProblemBody),
    )
)]
pub(crate) async fn trigger(
    State(app): State<App>,
    caller: Caller,
    Named(text): Named<String>,
    _: Nothing,
) -> Result<(StatusCode, Json<Triggered>), Problem> {
    let id = query::path_id(Kind::Schedule, &text)?;
    let instance = detached(app.answer_max(), async move {
        Ok(app.handle.trigger_schedule(&caller.tenant, id, &caller.actor).await?)
    })
    .await?;
    Ok((StatusCode::CREATED, Json(Triggered { instance: id::show(Kind::Instance, instance) })))
}

async fn order(
    app: App,
    caller: Caller,
    text: String,
    order: ScheduleOrder,
) -> Result<Json<Schedule>, Problem> {
    let id = query::path_id(Kind::Schedule, &text)?;
    let row = detached(app.answer_max(), async move {
        Ok(app.handle.order_schedule(&caller.tenant, id, order, &caller.actor).await?)
    })
    .await?;
    Ok(Json(schedule_of(&row)))
}

fn schedule_of(row: &ScheduleRow) -> Schedule {
    Schedule {
        id: id::show(Kind::Schedule, row.id),
        namespace: row.namespace.clone(),
        name: row.name.clone(),
        version: row.version.clone(),
        kind: row.kind.clone(),
        spec: row.spec.clone(),
        time_zone: row.time_zone.clone(),
        missed: row.missed.clone(),
        status: row.status.clone(),
        last_slot: wire::time_if(row.last_slot),
        next_slot: wire::time_if(row.next_slot.filter(|_| row.status == "active")),
        instance: row.instance.map(|instance| id::show(Kind::Instance, instance)),
        created_at: wire::time(row.created_at),
        updated_at: wire::time(row.updated_at),
    }
}

fn slot_of(row: &SlotRow) -> Slot {
    Slot {
        slot: wire::time(row.slot),
        outcome: row.outcome.clone(),
        count: row.count,
        instance: row.instance.map(|instance| id::show(Kind::Instance, instance)),
        late_ms: row.late.as_millis(),
        at: wire::time(row.at),
        detail: row.detail.clone(),
    }
}
