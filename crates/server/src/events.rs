//! Events addressed to nobody: publish, list, read.

use crate::{
    app::{App, detached},
    auth::Caller,
    cloudevents::{CloudEvents, Form},
    code, event_lines, filter,
    page::{self, Cursors, Page},
    problem::{Flaw, Problem, ProblemBody},
    query::{self, Named, Parameters},
    wire::{self, Stored},
};
use axum::{
    Json,
    extract::{FromRequest, Request, State},
    http::{StatusCode, Uri},
    response::{IntoResponse, Response},
};
use machine::{
    id::{self, Kind},
    query::Subject,
};
use runtime::api::Published;
use serde::Serialize;
use store::{rows::EventRow, views::EventFilter};
use utoipa::ToSchema;

/// Events in one request.
const EVENTS_MAX: usize = 10_000;
/// Places that are told of events that are refused.
const FLAWS_MAX: usize = 100;

/// A CloudEvent 1.0 in its JSON form; other attributes are kept. An envelope (`eventId`, `eventType`, `payload`) is taken
/// for the CloudEvent that it stands for.
#[derive(ToSchema)]
#[allow(dead_code, reason = "describes the body; the runtime checks it")]
pub(crate) struct CloudEvent {
    /// 1.0
    specversion: String,
    /// Unique per source: publishing the same again has no second effect.
    id: String,
    source: String,
    #[schema(rename = "type")]
    event_type: String,
    data: Option<Stored>,
}

/// An event that was published.
#[derive(Serialize, ToSchema)]
pub(crate) struct Accepted {
    id: String,
    /// True if it was published before.
    replayed: bool,
    /// Instances that it started.
    started: Vec<String>,
}

/// What came of the events of one request, in their order.
#[derive(Serialize, ToSchema)]
pub(crate) struct AcceptedEvents {
    items: Vec<Accepted>,
}

/// An event as lists show it.
#[derive(Serialize, ToSchema)]
pub(crate) struct Event {
    id: String,
    source: String,
    event_id: String,
    #[serde(rename = "type")]
    event_type: String,
    received_at: String,
    /// Waits that were told about it when it came.
    told: u64,
    /// How many of those took it.
    taken: u64,
    /// Instances that it started.
    started: u64,
    /// Workers it was delivered to.
    delivered: u64,
    /// Until when it is offered to listen steps that begin; null once something has taken it.
    kept_until: Option<String>,
}

/// An event, what became of it, and itself.
#[derive(Serialize, ToSchema)]
pub(crate) struct EventDetail {
    #[serde(flatten)]
    row: Event,
    /// What matched, or why nothing did, in words.
    verdict: String,
    /// Workers, webhooks (`webhook:…`) and buses (`bus:…`) that want its type now.
    workers: Vec<String>,
    event: Stored,
}

/// Publishes an event, or up to 10,000 as an array; one alone may also come in binary mode, its attributes in `ce-` headers
/// and its data as the body. Any number comes as `application/x-ndjson`, one on each line: every line is answered by a line,
/// while the next ones are still being sent, and the last line counts them. Every `listen` step of the tenant that matches is told,
/// schedules with `on` start, and what nothing takes is offered to `listen` steps that begin within a day.
#[utoipa::path(
    post, path = "/api/v1/events", tag = "events", operation_id = "publish_events",
    params(("answers" = Option<String>, Query, description = "of events on lines: `refused` has only those answered that are refused")),
    request_body(content = CloudEvent, description = "a CloudEvent, an array of them, or one on each line"),
    responses(
        (status = 200, description = "what came of each line", body = event_lines::LineAnswer, content_type = "application/x-ndjson"),
        (status = 202, description = "accepted and durable", body = AcceptedEvents),
        (status = 413, description = "an event is too large", body = ProblemBody),
        (status = 422, description = "an event is not a CloudEvent, or its data does not fit the schema of its type; `errors` says which are refused, all others of the request were accepted", body = ProblemBody),
    )
)]
pub(crate) async fn publish(
    State(app): State<App>,
    caller: Caller,
    request: Request,
) -> Result<Response, Problem> {
    if event_lines::are_sent(request.headers()) {
        return event_lines::publish(app, caller, request);
    }
    Parameters::read(request.uri(), &[])?;
    let CloudEvents(events) = CloudEvents::from_request(request, &app).await?;
    if events.is_empty() || events.len() > EVENTS_MAX {
        let detail = format!("{} events; 1 to {EVENTS_MAX} are allowed", events.len());
        return Err(Problem::at(code::TOO_MANY_ITEMS, "", detail));
    }
    let published =
        detached(app.answer_max(), async move { Ok(app.handle.publish_many(&caller.tenant, events).await) })
            .await?;
    let count = published.len();
    let (mut items, mut refused) = (Vec::with_capacity(count), vec![]);
    for (at, one) in published.into_iter().enumerate() {
        match one {
            Ok(one) => items.push(accepted(&one)),
            Err(refusal) => refused.push((at, Problem::from(refusal))),
        }
    }
    match refused.is_empty() {
        true => Ok((StatusCode::ACCEPTED, Json(AcceptedEvents { items })).into_response()),
        false => Err(refusal_of(refused, count)),
    }
}

/// The first refusal of a request, with the places of all of them: `/3/data/order` is in the fourth event given.
fn refusal_of(refused: Vec<(usize, Problem)>, count: usize) -> Problem {
    let number = refused.len();
    let mut flaws = vec![];
    let mut first = None;
    for (at, mut problem) in refused {
        let own = std::mem::take(&mut problem.errors);
        let whole =
            Flaw { message: problem.detail.clone(), code: Some(problem.code.word), ..Flaw::default() };
        let own = if own.is_empty() { vec![whole] } else { own };
        flaws.extend(own.into_iter().map(|flaw| Flaw { pointer: format!("/{at}{}", flaw.pointer), ..flaw }));
        first.get_or_insert((at, problem));
    }
    flaws.truncate(FLAWS_MAX);
    let (at, mut problem) = first.expect("a request that is refused has a refusal");
    if count > 1 {
        let rest = count - number;
        problem.detail = format!(
            "{number} of {count} events are refused, {rest} were accepted; event /{at}: {}",
            problem.detail
        );
    }
    problem.errors = flaws;
    problem
}

fn accepted(published: &Published) -> Accepted {
    Accepted {
        id: id::show(Kind::Event, published.id),
        replayed: published.replayed,
        started: published.started.iter().map(|instance| id::show(Kind::Instance, *instance)).collect(),
    }
}

/// Lists events, newest first.
#[utoipa::path(
    get, path = "/api/v1/events", tag = "events", operation_id = "list_events",
    params(
        ("q" = Option<String>, Query, description = "a query: docs/queries.md"),
        ("type" = Option<String>, Query), ("source" = Option<String>, Query),
        ("limit" = Option<usize>, Query, description = "1 to 200; 50 unless given"),
        ("cursor" = Option<String>, Query, description = "`next` of the page before"),
    ),
    responses((status = 200, description = "one page", body = Page<Event>))
)]
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    uri: Uri,
) -> Result<Json<Page<Event>>, Problem> {
    let parameters = Parameters::read(&uri, &[filter::Q, "type", "source", "limit", "cursor"])?;
    let limit = page::limit(&parameters)?;
    let cursors = Cursors::new(&caller, "events");
    let filter = EventFilter {
        event_type: parameters.owned("type"),
        source: parameters.owned("source"),
        conditions: filter::conditions(&app, &caller, &parameters, Subject::Events)?,
    };
    let page = store::views::Page { after: cursors.read_id(&parameters)?, limit: page::rows_for(limit) };
    let mut rows = app.store().events(&caller.tenant, &filter, &page).await?;
    let more = page::cut(&mut rows, limit);
    let next = rows.last().filter(|_| more).map(|row| cursors.write(row.id.as_bytes()));
    Ok(Json(Page { items: rows.iter().map(event_of).collect(), next }))
}

/// Reads an event and what became of it.
#[utoipa::path(
    get, path = "/api/v1/events/{id}", tag = "events", operation_id = "get_event",
    params(
        ("id" = String, Path),
        ("form" = Option<String>, Query, description = "how `event` is shown: cloudevent (unless given) or envelope"),
    ),
    responses(
        (status = 200, description = "the event", body = EventDetail),
        (status = 404, description = "no such event", body = ProblemBody),
    )
)]
pub(crate) async fn read(
    State(app): State<App>,
    caller: Caller,
    uri: Uri,
    Named(text): Named<String>,
) -> Result<Json<EventDetail>, Problem> {
    let parameters = Parameters::read(&uri, &["form"])?;
    let form = Form::read(parameters.text("form"), "form")?;
    let id = query::path_id(Kind::Event, &text)?;
    let row = app.store().event(&caller.tenant, id).await?;
    let row = row.ok_or_else(|| Problem::not_found("event"))?;
    Ok(Json(detail(&app, &caller, &row, form)))
}

/// Reads an event by what its publisher called it: its source and id.
#[utoipa::path(
    get, path = "/api/v1/events/by-name", tag = "events", operation_id = "get_event_by_name",
    params(
        ("source" = String, Query), ("id" = String, Query),
        ("form" = Option<String>, Query, description = "how `event` is shown: cloudevent (unless given) or envelope"),
    ),
    responses(
        (status = 200, description = "the event", body = EventDetail),
        (status = 404, description = "no such event is here: none was published, or longer ago than events are kept", body = ProblemBody),
    )
)]
pub(crate) async fn read_by_name(
    State(app): State<App>,
    caller: Caller,
    uri: Uri,
) -> Result<Json<EventDetail>, Problem> {
    let parameters = Parameters::read(&uri, &["source", "id", "form"])?;
    let form = Form::read(parameters.text("form"), "form")?;
    let needed = |name: &'static str| {
        parameters.text(name).ok_or_else(|| query::invalid(name, "the event's source and id are needed"))
    };
    let row = app.store().event_of(&caller.tenant, needed("source")?, needed("id")?).await?;
    let row = row.ok_or_else(|| Problem::not_found("event"))?;
    Ok(Json(detail(&app, &caller, &row, form)))
}

fn detail(app: &App, caller: &Caller, row: &EventRow, form: Form) -> EventDetail {
    let (workers, wanted) = app.handle.wanting(&caller.tenant, &row.event_type);
    let verdict = verdict(row, app.handle.clock(&caller.tenant).now, &workers, &wanted);
    EventDetail { row: event_of(row), verdict, workers, event: form.show(&row.event) }
}

/// What a row says of its event, with the workers that want its type now and, if there are none, some types that are wanted.
fn verdict(row: &EventRow, now: machine::Time, workers: &[String], wanted: &[String]) -> String {
    let EventRow { told, taken, started, collected, delivered, .. } = row;
    let mut parts = Vec::new();
    if *started > 0 {
        parts.push(format!("it started {started} instances"));
    }
    if *collected > 0 {
        parts.push(format!("{collected} schedules collected it and wait for more"));
    }
    match (told, taken) {
        (0, _) => parts.push("no listen step waited for this type and key".to_owned()),
        (told, 0) => parts.push(format!("{told} listen steps were told, and none has taken it")),
        (told, taken) => parts.push(format!("{told} listen steps were told, {taken} took it")),
    }
    parts.push(match delivered {
        0 if !workers.is_empty() => {
            format!("no worker wanted this type when it came; {} does now", workers.join(", "))
        }
        0 if wanted.is_empty() => "no worker wants this type, nor any other".to_owned(),
        0 => format!("no worker wants this type; wanted are {}", wanted.join(", ")),
        1 => "it was delivered to 1 worker".to_owned(),
        count => format!("it was delivered to {count} workers"),
    });
    if let Some(until) = row.kept_until {
        parts.push(match until > now {
            true => format!("it is offered to listen steps that begin until {}", wire::time(until)),
            false => format!("it was offered to listen steps that began until {}", wire::time(until)),
        });
    }
    parts.join("; ")
}

pub(crate) fn event_of(row: &EventRow) -> Event {
    Event {
        id: id::show(Kind::Event, row.id),
        source: row.source.clone(),
        event_id: row.event_id.clone(),
        event_type: row.event_type.clone(),
        received_at: wire::time(row.received_at),
        told: row.told,
        taken: row.taken,
        started: row.started,
        delivered: row.delivered,
        kept_until: wire::time_if(row.kept_until),
    }
}
