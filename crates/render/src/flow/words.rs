//! What a step does, in a few words.

use machine::{
    Data,
    ir::{Call, Catch, Consume, Delay, ErrorFilter, EventFilter, ExprId, Kind, Schedule, Step, Strategy},
    ir::{Template, When, Workflow},
    time::Span,
};

/// At most so many names are listed.
const NAMES_MAX: usize = 4;

/// What stands below a step's name; nothing where the name has to do.
pub(super) fn step(workflow: &Workflow, step: &Step) -> Option<String> {
    match &step.kind {
        Kind::Set { value } => set(value),
        Kind::Wait { delay } => Some(format!("for {}", self::delay(workflow, *delay))),
        Kind::Raise { error } => {
            let title = error.title.as_ref().or(Some(&error.error_type));
            let title = title.map(|title| last_segment(&template(workflow, title)).to_owned());
            Some(format!("{} {}", error.status, title.unwrap_or_default()))
        }
        Kind::Emit { event } => {
            Some(member(workflow, event, "type").unwrap_or_else(|| "an event".to_owned()))
        }
        Kind::Listen { to, foreach, .. } => {
            let each = if foreach.is_some() { "for each " } else { "" };
            Some(format!("{each}{}", strategy(workflow, to)))
        }
        Kind::For { item, items, .. } => Some(format!("each {item} in {}", expr(workflow, *items))),
        Kind::Fork { compete, .. } => Some(if *compete { "first wins" } else { "side by side" }.to_owned()),
        Kind::Try { catch, .. } => retry(workflow, catch),
        Kind::Saga { .. } => Some("saga".to_owned()),
        Kind::Unsupported { what, .. } => Some(what.clone()),
        Kind::Call { call } => self::call(workflow, call),
        Kind::Do { .. } | Kind::Switch { .. } | Kind::Function { .. } => None,
    }
}

fn call(workflow: &Workflow, call: &Call) -> Option<String> {
    Some(match call {
        Call::Http(http) => format!("{} {}", http.method, address(&template(workflow, &http.endpoint))),
        Call::OpenApi(api) => format!("openapi {}", template(workflow, &api.operation)),
        Call::Worker { name, version, .. } => match version {
            Some(version) => format!("{name} {version}"),
            None => name.clone(),
        },
        Call::HumanTask { with } => task(workflow, with),
        Call::SignalToken => "signal token".to_owned(),
        Call::Workflow { workflow: child, wait, .. } => {
            let left = if *wait { "" } else { ", not awaited" };
            format!("{}/{} {}{left}", child.namespace, child.name, child.version)
        }
        Call::Child { with } => child(workflow, with),
        Call::Map { with } => match member(workflow, with, "items") {
            Some(items) => format!("map over {items}"),
            None => "map".to_owned(),
        },
        Call::Script(_) => "JavaScript".to_owned(),
    })
}

/// Whom a task is for.
fn task(workflow: &Workflow, with: &Template) -> String {
    let groups = member(workflow, with, "candidateGroups");
    let who = member(workflow, with, "assignee").or(groups);
    match who.or_else(|| member(workflow, with, "title")) {
        Some(who) => format!("task: {who}"),
        None => "task".to_owned(),
    }
}

/// The definition that a child is an instance of.
pub(super) fn child(workflow: &Workflow, with: &Template) -> String {
    let part = |name: &str| inner(with, "workflow").and_then(|found| member(workflow, &found, name));
    match (part("namespace"), part("name")) {
        (Some(namespace), Some(name)) => {
            format!("{namespace}/{name} {}", part("version").unwrap_or_default()).trim_end().to_owned()
        }
        (_, Some(name)) => name,
        _ => "another definition".to_owned(),
    }
}

/// How many children go at once.
pub(super) fn pace(workflow: &Workflow, with: &Template) -> Option<String> {
    member(workflow, with, "concurrency").map(|concurrency| format!("{concurrency} at once"))
}

fn set(value: &Template) -> Option<String> {
    let names = match value {
        Template::Object(members) => members.iter().map(|(name, _)| name.clone()).collect(),
        Template::Literal(data) => data.entries()?.into_iter().map(|(name, _)| name).collect(),
        _ => return None,
    };
    Some(listed(names))
}

fn listed(names: Vec<String>) -> String {
    let more = if names.len() > NAMES_MAX { ", …" } else { "" };
    format!("{}{more}", names.iter().take(NAMES_MAX).cloned().collect::<Vec<_>>().join(", "))
}

/// When a definition starts by itself.
pub(super) fn schedule(workflow: &Workflow, schedule: &Schedule) -> String {
    match &schedule.when {
        When::Cron(cron) => format!("cron {cron}"),
        When::Every(span) => format!("every {}", self::span(*span)),
        When::After(span) => format!("{} after the end", self::span(*span)),
        When::On(strategy) => format!("on {}", self::strategy(workflow, strategy)),
    }
}

fn strategy(workflow: &Workflow, strategy: &Strategy) -> String {
    let name = |filter: &EventFilter| {
        let found = ["type", "source", "id"].iter().find_map(|wanted| {
            filter.with.iter().find(|(name, _)| name == wanted).map(|(_, value)| template(workflow, value))
        });
        found.unwrap_or_else(|| "an event".to_owned())
    };
    let names: Vec<String> = strategy.filters.iter().map(name).collect();
    match (strategy.consume, names.len()) {
        (_, 0) => "any event".to_owned(),
        (_, 1) => names.concat(),
        (Consume::Any, _) => format!("any of {}", listed(names)),
        (Consume::All, _) => format!("all of {}", listed(names)),
    }
}

fn retry(workflow: &Workflow, catch: &Catch) -> Option<String> {
    let retry = catch.retry.as_ref()?;
    let often = retry.count_max.map_or_else(String::new, |count| format!(" ×{count}"));
    Some(format!("retry{often} after {}", delay(workflow, retry.delay)))
}

/// What a handler wants to know of an error besides its kind.
pub(super) fn handler(workflow: &Workflow, catch: &Catch) -> Vec<String> {
    let when = catch.when.map(|when| format!("when {}", expr(workflow, when)));
    let except = catch.except_when.map(|when| format!("except when {}", expr(workflow, when)));
    when.into_iter().chain(except).collect()
}

/// Which errors are caught.
pub(super) fn errors(with: &ErrorFilter) -> String {
    let kind = with.error_type.as_deref().map(|kind| last_segment(kind).to_owned());
    let status = with.status.map(|status| status.to_string());
    let known: Vec<String> = kind.into_iter().chain(status).chain(with.title.clone()).collect();
    if known.is_empty() { "error".to_owned() } else { known.join(" ") }
}

/// When a step is done at all, and how long it may take.
pub(super) fn around(
    workflow: &Workflow,
    condition: Option<ExprId>,
    timeout: Option<Delay>,
) -> Option<String> {
    let condition = condition.map(|condition| format!("if {}", expr(workflow, condition)));
    let timeout = timeout.map(|timeout| format!("at most {}", delay(workflow, timeout)));
    let known: Vec<String> = timeout.into_iter().chain(condition).collect();
    (!known.is_empty()).then(|| known.join(", "))
}

/// An expression as written.
pub(super) fn expr(workflow: &Workflow, id: ExprId) -> String {
    workflow.exprs.get(id as usize).map_or_else(String::new, |expr| crate::text::line(&expr.source))
}

fn delay(workflow: &Workflow, delay: Delay) -> String {
    match delay {
        Delay::Fixed(span) => self::span(span),
        Delay::Expr(id) => expr(workflow, id),
    }
}

/// A length of time in its two largest units.
pub(crate) fn span(span: Span) -> String {
    const UNITS: [(i64, &str); 5] =
        [(86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"), (1, "ms")];
    let mut left = span.as_millis();
    let mut parts = Vec::new();
    for (unit, name) in UNITS {
        if left >= unit && parts.len() < 2 {
            parts.push(format!("{} {name}", left / unit));
        }
        left %= unit;
    }
    if parts.is_empty() { "0 s".to_owned() } else { parts.join(" ") }
}

/// A template as a text: what is literal as it is, expressions as written.
fn template(workflow: &Workflow, template: &Template) -> String {
    match template {
        Template::Literal(data) => plain(data),
        Template::Expr(id) => expr(workflow, *id),
        Template::Loose(_, text) => text.clone(),
        Template::Array(items) => {
            items.iter().map(|item| self::template(workflow, item)).collect::<Vec<_>>().join(", ")
        }
        Template::Object(members) => listed(members.iter().map(|(name, _)| name.clone()).collect()),
    }
}

fn plain(data: &Data) -> String {
    match data.items() {
        Some(items) => items.map(|item| item.to_text()).collect::<Vec<_>>().join(", "),
        None => data.to_text(),
    }
}

/// A member of a template that is an object.
fn inner(template: &Template, name: &str) -> Option<Template> {
    match template {
        Template::Object(members) => {
            members.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone())
        }
        Template::Literal(data) => data.get(name).map(Template::Literal),
        _ => None,
    }
}

fn member(workflow: &Workflow, template: &Template, name: &str) -> Option<String> {
    inner(template, name).map(|value| self::template(workflow, &value)).filter(|text| !text.is_empty())
}

/// An endpoint without its scheme.
fn address(endpoint: &str) -> String {
    endpoint.split_once("://").map_or(endpoint, |(_, rest)| rest).to_owned()
}

fn last_segment(uri: &str) -> &str {
    match uri.contains("://") {
        true => uri.trim_end_matches('/').rsplit('/').next().unwrap_or(uri),
        false => uri,
    }
}
