//! Pictures: a definition as a graph, two versions of it as one, an instance as its definition with what has happened.
//!
//! `Accept` or `format` says in which form; the layout is the same in all of them.

use crate::{
    app::App,
    auth::Caller,
    code, instances,
    problem::{Problem, ProblemBody},
    query::{Named, Parameters, invalid},
    wire::Stored,
};
use axum::{
    Json,
    extract::State,
    http::{HeaderMap, Uri, header},
    response::{IntoResponse, Response},
};
use machine::Time;
use render::{Direction, Graph, Overlay, Theme, Told};
use runtime::api::DefinitionRef;
use serde_json::{Map, Value};
use store::views::InstanceView;

/// How many commits of an instance are looked at; what came after them is not in the picture.
const COMMITS_MAX: usize = 5000;
const COMMITS_PAGE: usize = 500;
const FORMATS: &[(&str, &str)] = &[
    ("json", "application/json"),
    ("svg", "image/svg+xml"),
    ("png", "image/png"),
    ("mermaid", "text/vnd.mermaid"),
    ("elk", "application/vnd.elk+json"),
];
const WISHES: &[&str] = &["format", "direction", "theme", "scale", "from"];

/// Draws a version; with `from`, what changed since that version.
#[utoipa::path(
    get, path = "/api/v1/definitions/{namespace}/{name}/versions/{version}/graph", tag = "definitions",
    operation_id = "get_definition_graph",
    params(
        ("namespace" = String, Path), ("name" = String, Path), ("version" = String, Path),
        ("from" = Option<String>, Query, description = "an older version: both in one, with what changed marked"),
        ("format" = Option<String>, Query, description = "json, svg, png, mermaid or elk; what Accept says unless given"),
        ("direction" = Option<String>, Query, description = "left-right, or top-bottom"),
        ("theme" = Option<String>, Query, description = "auto, light or dark"),
        ("scale" = Option<u32>, Query, description = "pixels of a PNG for one unit, 1 to 4; 2 unless given"),
    ),
    responses(
        (status = 200, description = "the picture", content(
            (Stored = "application/json"), (String = "image/svg+xml"), (Vec<u8> = "image/png"),
            (String = "text/vnd.mermaid"), (Stored = "application/vnd.elk+json"))),
        (status = 404, description = "no such version", body = ProblemBody),
    )
)]
pub(crate) async fn definition(
    State(app): State<App>,
    caller: Caller,
    uri: Uri,
    headers: HeaderMap,
    Named((namespace, name, version)): Named<(String, String, String)>,
) -> Result<Response, Problem> {
    let parameters = Parameters::read(&uri, WISHES)?;
    let wish = Wish::read(&parameters, &headers)?;
    let of = |version: String| DefinitionRef {
        namespace: namespace.clone(),
        name: name.clone(),
        version: Some(version),
    };
    let program = app.handle.program(&caller.tenant, &of(version)).await?;
    let (graph, overlay) = match parameters.owned("from") {
        None => (render::graph(&program.ir), Overlay::default()),
        Some(from) => {
            let older = app.handle.program(&caller.tenant, &of(from)).await?;
            let both = render::diff(&older.ir, &program.ir);
            (both.graph, both.overlay)
        }
    };
    drawn(graph, overlay, wish).await
}

/// Draws an instance: its definition, and where its steps stand.
#[utoipa::path(
    get, path = "/api/v1/instances/{id}/graph", tag = "instances", operation_id = "get_instance_graph",
    params(
        ("id" = String, Path),
        ("format" = Option<String>, Query, description = "json, svg, png, mermaid or elk; what Accept says unless given"),
        ("direction" = Option<String>, Query, description = "left-right, or top-bottom"),
        ("theme" = Option<String>, Query, description = "auto, light or dark"),
        ("scale" = Option<u32>, Query, description = "pixels of a PNG for one unit, 1 to 4; 2 unless given"),
    ),
    responses(
        (status = 200, description = "the picture", content(
            (Stored = "application/json"), (String = "image/svg+xml"), (Vec<u8> = "image/png"),
            (String = "text/vnd.mermaid"), (Stored = "application/vnd.elk+json"))),
        (status = 404, description = "no such instance", body = ProblemBody),
    )
)]
pub(crate) async fn instance(
    State(app): State<App>,
    caller: Caller,
    uri: Uri,
    headers: HeaderMap,
    Named(text): Named<String>,
) -> Result<Response, Problem> {
    let wish = Wish::read(&Parameters::read(&uri, &WISHES[..WISHES.len() - 1])?, &headers)?;
    let view = instances::find(&app, &caller, &text).await?;
    let definition = DefinitionRef {
        namespace: view.row.namespace.clone(),
        name: view.row.name.clone(),
        version: Some(view.row.version.clone()),
    };
    let program = app.handle.program(&caller.tenant, &definition).await?;
    let overlay = overlay(&app, &caller, &view).await?;
    drawn(render::graph(&program.ir), overlay, wish).await
}

/// In which form a picture is wanted.
#[derive(Clone, Copy)]
struct Wish {
    format: &'static str,
    direction: Direction,
    theme: Theme,
    scale: u32,
}

impl Wish {
    fn read(parameters: &Parameters, headers: &HeaderMap) -> Result<Wish, Problem> {
        let words: Vec<&str> = FORMATS.iter().map(|(word, _)| *word).collect();
        let named = parameters.one("format", &words)?;
        let format = match named {
            Some(named) => words.iter().find(|word| **word == named).copied(),
            None => accepted(headers),
        };
        let direction = match parameters.one("direction", &["left-right", "top-bottom"])?.as_deref() {
            Some("top-bottom") => Direction::TopBottom,
            _ => Direction::LeftRight,
        };
        let theme = match parameters.one("theme", &["auto", "light", "dark"])?.as_deref() {
            Some("light") => Theme::Light,
            Some("dark") => Theme::Dark,
            _ => Theme::Auto,
        };
        let scale = match parameters.text("scale").map(str::parse::<u32>) {
            None => 2,
            Some(Ok(scale)) if (1..=render::SCALE_MAX).contains(&scale) => scale,
            Some(_) => return Err(invalid("scale", format!("this must be 1 to {}", render::SCALE_MAX))),
        };
        Ok(Wish { format: format.unwrap_or("json"), direction, theme, scale })
    }
}

/// The first form that the client names; none if it takes anything.
fn accepted(headers: &HeaderMap) -> Option<&'static str> {
    let accept = headers.get(header::ACCEPT)?.to_str().ok()?;
    let wanted = accept.split(',').filter_map(|part| part.split(';').next()).map(str::trim);
    wanted
        .filter_map(|wanted| FORMATS.iter().find(|(_, media)| *media == wanted))
        .map(|(word, _)| *word)
        .next()
}

/// Lays out and writes; in a thread of its own, since large pictures take a while.
async fn drawn(graph: Graph, overlay: Overlay, wish: Wish) -> Result<Response, Problem> {
    tokio::task::spawn_blocking(move || picture(&graph, &overlay, wish)).await.map_err(Problem::internal)?
}

fn picture(graph: &Graph, overlay: &Overlay, wish: Wish) -> Result<Response, Problem> {
    let media = FORMATS.iter().find(|(word, _)| *word == wish.format).map_or("", |(_, media)| *media);
    let headers = [(header::CONTENT_TYPE, media), (header::VARY, "accept")];
    let options = render::Options { direction: wish.direction, ..render::Options::default() };
    let drawing = || render::layout(graph, &options);
    Ok(match wish.format {
        "svg" => (headers, render::svg(&drawing(), overlay, wish.theme)).into_response(),
        "png" => {
            let too_large = |error: render::TooLarge| Problem::new(code::ITEM_TOO_LARGE, error.to_string());
            let png = render::png(&drawing(), overlay, wish.theme, wish.scale).map_err(too_large)?;
            (headers, png).into_response()
        }
        "mermaid" => (headers, render::mermaid(graph, wish.direction)).into_response(),
        "elk" => (headers, render::elk(graph, wish.direction).to_string()).into_response(),
        _ => ([(header::VARY, "accept")], Json(render::json(&drawing(), overlay))).into_response(),
    })
}

/// Where the steps of an instance stand: what has happened, and what is waited for now.
async fn overlay(app: &App, caller: &Caller, view: &InstanceView) -> Result<Overlay, Problem> {
    let events = events(app, caller, view).await?;
    let told = events
        .iter()
        .filter_map(|(kind, step, at)| Some(Told { kind, step: step.as_deref()?, at_ms: at.0 / 1000 }));
    let mut overlay = render::live(told);
    if view.row.ended_at.is_none() {
        // Picked up and queued is not running; a call that is being made is.
        const UNDER_WAY: &[&str] = &["time-limit", "lent", "polling", "turn"];
        let explanation = app.handle.explain(&caller.tenant, view.row.id).await?;
        for reason in explanation.reasons.into_iter().filter(|reason| !UNDER_WAY.contains(&reason.kind)) {
            if let Some(step) = reason.step {
                overlay.waiting(&step, Some(reason.text));
            }
        }
    }
    if view.row.status == "paused" {
        overlay.paused();
    }
    Ok(overlay)
}

type Event = (String, Option<String>, Time);

async fn events(app: &App, caller: &Caller, view: &InstanceView) -> Result<Vec<Event>, Problem> {
    let (mut found, mut after) = (Vec::new(), 0);
    for _ in 0..COMMITS_MAX / COMMITS_PAGE {
        let rows = app.store().history(&caller.tenant, view.row.id, after, COMMITS_PAGE).await?;
        let is_last = rows.len() < COMMITS_PAGE;
        after = rows.last().map_or(after, |row| row.version);
        for row in rows {
            let events: Vec<Map<String, Value>> = serde_json::from_slice(&row.events).unwrap_or_default();
            let text = |event: &Map<String, Value>, key: &str| event.get(key)?.as_str().map(str::to_owned);
            found.extend(events.iter().map(|event| {
                let time = text(event, "time").and_then(|time| Time::parse_rfc3339(&time));
                (text(event, "kind").unwrap_or_default(), text(event, "step"), time.unwrap_or(row.at))
            }));
        }
        if is_last {
            break;
        }
    }
    Ok(found)
}
