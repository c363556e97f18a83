//! What must hold after every seed, whatever happened in it.

use machine::{TenantId, Time, id};
use std::collections::BTreeMap;
use store::{Store, rows::HistoryRow, sqlite::Inline, views::*};
use uuid::Uuid;

/// What the outside saw.
#[derive(Default)]
pub(crate) struct Seen {
    /// (client, instance, definition) of every acknowledged start.
    pub(crate) started: Vec<(u64, Uuid, String)>,
    /// (instance, signal) of every acknowledged signal.
    pub(crate) signals: Vec<(Uuid, Uuid)>,
    /// (instance, step) → the key of every attempt.
    pub(crate) effects: BTreeMap<(String, String), Vec<String>>,
    /// Instance → ids of the events published for it.
    pub(crate) published: BTreeMap<String, Vec<Uuid>>,
}

/// One line of an instance's history.
struct Line {
    at: Time,
    kind: String,
    step: String,
    signal: Option<String>,
}

pub(crate) async fn everything(store: &Inline, tenant: &TenantId, seen: &Seen) -> Vec<String> {
    let mut failures = Vec::new();
    let page = Page { after: None, limit: PAGE_MAX };
    let all = store.instances(tenant, &InstanceFilter::default(), &page).await.expect("answers");
    for (client, instance, _) in &seen.started {
        if !all.iter().any(|view| view.row.id == *instance) {
            failures.push(format!("P1: client {client}'s acknowledged instance {instance} is lost"));
        }
    }
    let mut per_client = BTreeMap::<Vec<u8>, usize>::new();
    for view in &all {
        *per_client.entry(view.row.input.clone()).or_default() += 1;
    }
    for (input, count) in per_client.iter().filter(|(_, count)| **count > 1) {
        failures.push(format!("P2: {count} instances for {}", String::from_utf8_lossy(input)));
    }
    for view in &all {
        let rows = store.history(tenant, view.row.id, 0, 10_000).await.expect("answers");
        history(view, &rows, &mut failures);
        let lines = lines(&rows);
        steps(view, &lines, &mut failures);
        timers(view, &lines, &mut failures);
        signals(view, &lines, seen, &mut failures);
        events(view, seen, &mut failures);
        if view.row.status != "completed" || view.runtime_status != "Completed" {
            failures.push(format!("{} is {} / {}", view.row.id, view.row.status, view.runtime_status));
        }
    }
    for ((instance, step), keys) in &seen.effects {
        if keys.iter().any(|key| *key != keys[0]) {
            failures.push(format!("P5: {instance} {step} was called under several keys"));
        }
    }
    failures
}

/// P9: versions 1..n without gap, up to the snapshot's.
fn history(view: &InstanceView, rows: &[HistoryRow], failures: &mut Vec<String>) {
    let versions: Vec<i64> = rows.iter().map(|row| row.version).collect();
    let wanted: Vec<i64> = (1..=view.state_version).collect();
    if versions != wanted {
        failures.push(format!(
            "P9: {} has history versions {versions:?}, snapshot {}",
            view.row.id, view.state_version
        ));
    }
}

fn lines(rows: &[HistoryRow]) -> Vec<Line> {
    let mut lines = Vec::new();
    for row in rows {
        let events: Vec<serde_json::Value> = serde_json::from_slice(&row.events).expect("our own history");
        lines.extend(events.into_iter().map(|event| Line {
            at: row.at,
            kind: event["kind"].as_str().unwrap_or_default().to_owned(),
            step: event["step"].as_str().unwrap_or_default().to_owned(),
            signal: event["detail"]["signal"].as_str().map(str::to_owned),
        }));
    }
    lines
}

/// P4: no step completes twice (the definitions of the simulator have no loops).
fn steps(view: &InstanceView, lines: &[Line], failures: &mut Vec<String>) {
    let mut completed = BTreeMap::<&str, usize>::new();
    for line in lines.iter().filter(|line| line.kind == "step.completed") {
        *completed.entry(&line.step).or_default() += 1;
    }
    for (step, count) in completed.iter().filter(|(_, count)| **count > 1) {
        failures.push(format!("P4: {} {step} completed {count} times", view.row.id));
    }
}

/// P8: a wait lasts at least as long as it says.
fn timers(view: &InstanceView, lines: &[Line], failures: &mut Vec<String>) {
    let length = |step: &str| match step.rsplit('/').next() {
        Some("rest") if view.row.name == "limits" => 3_000_000,
        Some("rest2") if view.row.name == "steps" => 2_000_000,
        Some("rest" | "rest2" | "c") => 1_000_000,
        _ => 0,
    };
    for ended in lines.iter().filter(|line| line.kind == "step.completed" && !line.step.contains("/try/")) {
        let began = lines
            .iter()
            .rfind(|line| line.kind == "step.started" && line.step == ended.step && line.at <= ended.at);
        let lasted = began.map_or(0, |began| ended.at.since(began.at).0);
        if lasted < length(&ended.step) {
            failures.push(format!("P8: {} {} lasted only {lasted} µs", view.row.id, ended.step));
        }
    }
}

/// P3: an acknowledged signal is used once, and kept at most once before.
fn signals(view: &InstanceView, lines: &[Line], seen: &Seen, failures: &mut Vec<String>) {
    for (_, signal) in seen.signals.iter().filter(|(instance, _)| *instance == view.row.id) {
        let shown = id::show(id::Kind::Signal, *signal);
        let count = |kind: &str| {
            lines.iter().filter(|line| line.kind == kind && line.signal.as_deref() == Some(&shown)).count()
        };
        let (received, buffered) = (count("signal.received"), count("signal.buffered"));
        if received != 1 || buffered > 1 {
            failures
                .push(format!("P3: {} used {shown} {received} times, kept it {buffered} times", view.row.id));
        }
    }
}

/// P6: the event of an instance that emits is published, under one id.
fn events(view: &InstanceView, seen: &Seen, failures: &mut Vec<String>) {
    if view.row.name != "steps" {
        return;
    }
    let shown = id::show(id::Kind::Instance, view.row.id);
    let ids = seen.published.get(&shown).map(Vec::as_slice).unwrap_or_default();
    if ids.is_empty() || ids.iter().any(|id| *id != ids[0]) {
        failures.push(format!("P6: {shown} published {ids:?}"));
    }
}
