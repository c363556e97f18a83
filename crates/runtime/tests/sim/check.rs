//! What must hold after every seed, whatever happened in it. The numbers are those of the published promises.
//!
//! A seed comes here only once every queue is empty: no signal, timer, call, dead letter or event is left, so no row
//! can belong to a node that is gone.

mod beat;
mod effects;
mod expect;
mod flow;
mod kin;
mod saga;
mod tally;
mod tasks;

use super::{
    definitions::{self, Definition},
    seen::Seen,
    world::World,
};
use machine::{Time, id};
use serde_json::Value;
use std::collections::BTreeMap;
use store::{
    Store,
    rows::{HistoryRow, TaskRow},
    views::*,
};

/// One line of an instance's history.
struct Line {
    version: i64,
    /// What the node took the time to be.
    at: Time,
    /// When it landed in the store.
    landed: Time,
    kind: String,
    step: String,
    detail: Value,
}

/// One instance with all that is known of it.
struct Story<'a> {
    view: &'a InstanceView,
    definition: &'static Definition,
    /// Its id as workers and history see it.
    shown: String,
    lines: Vec<Line>,
    tasks: Vec<&'a TaskRow>,
    seen: &'a Seen,
    /// Microseconds that clocks may be off.
    skew: i64,
}

impl Story<'_> {
    fn is_cancelled(&self) -> bool {
        self.view.row.status == "cancelled"
    }

    fn lines_of(&self, kind: &str) -> impl Iterator<Item = &Line> {
        self.lines.iter().filter(move |line| line.kind == kind)
    }
}

/// What was found wrong.
type Failures = Vec<String>;

pub(crate) async fn everything(world: &World) -> Failures {
    let mut failures = Failures::new();
    let (store, tenant) = (&world.store, &world.tenant);
    let seen = &std::mem::take(&mut *world.seen.lock());
    let page = Page { after: None, limit: PAGE_MAX };
    let all = store.instances(tenant, &InstanceFilter::default(), &page).await.expect("answers");
    let people = store.tasks(tenant, &TaskFilter::default(), &page).await.expect("answers");
    let counts = store.counts(Some(tenant)).await.expect("answers");
    let (children, own): (Vec<_>, Vec<_>) = all.iter().partition(|view| view.row.parent.is_some());
    starts(&own, seen, &mut failures);
    conservation(&own, &counts, seen, &mut failures);
    kin::check(&own, &children, &mut failures);
    for view in &all {
        let rows = store.history(tenant, view.row.id, 0, 10_000).await.expect("answers");
        versions(view, &rows, &mut failures);
        let story = Story {
            view,
            definition: definitions::named(&view.row.name),
            shown: id::show(id::Kind::Instance, view.row.id),
            lines: lines(&rows, seen),
            tasks: people.iter().filter(|task| task.instance == view.row.id).collect(),
            seen,
            skew: i64::from(world.chaos.levels.skew) * 1000,
        };
        if view.row.parent.is_some() && view.row.status == "faulted" {
            // Its parent was told and went on without it.
            effects::check(&story, &mut failures);
            continue;
        }
        end(&story, &mut failures);
        flow::check(&story, &mut failures);
        effects::check(&story, &mut failures);
        tasks::check(&story, &mut failures);
        saga::check(&story, &mut failures);
        if !story.is_cancelled() {
            expect::check(&story, &mut failures);
        }
    }
    if seen.beats {
        beat::check(world, &mut failures).await;
    }
    if seen.tallied {
        tally::check(world, &mut failures).await;
    }
    for task in &people {
        let events = store.task_events(tenant, task.id).await.expect("answers");
        tasks::events(task, &events, seen, &mut failures);
    }
    failures
}

/// P1, P2: an acknowledged start is there, and there once.
fn starts(all: &[&InstanceView], seen: &Seen, failures: &mut Failures) {
    for (client, instance) in &seen.started {
        if !all.iter().any(|view| view.row.id == *instance) {
            failures.push(format!("P1: client {client}'s acknowledged instance {instance} is lost"));
        }
    }
    let mut per_client = BTreeMap::<&[u8], usize>::new();
    for view in all {
        *per_client.entry(&view.row.input).or_default() += 1;
    }
    for (input, count) in per_client.iter().filter(|(_, count)| **count > 1) {
        failures.push(format!("P2: {count} instances for {}", String::from_utf8_lossy(input)));
    }
}

/// P11: what was accepted has completed or was cancelled, and the counts say so too.
fn conservation(all: &[&InstanceView], counts: &Counts, seen: &Seen, failures: &mut Failures) {
    let of = |status: &str| all.iter().filter(|view| view.row.status == status).count() as u64;
    let (completed, cancelled) = (of("completed"), of("cancelled"));
    let accepted = seen.started.len() as u64;
    if accepted != completed + cancelled || accepted != all.len() as u64 {
        failures.push(format!("P11: {accepted} accepted, but {:?}", counts.instances));
    }
    if counts.tasks_open != 0 {
        failures.push(format!("{} tasks are open though every instance has ended", counts.tasks_open));
    }
}

/// P9: versions 1..n without gap, up to the snapshot's.
fn versions(view: &InstanceView, rows: &[HistoryRow], failures: &mut Failures) {
    let versions: Vec<i64> = rows.iter().map(|row| row.version).collect();
    let wanted: Vec<i64> = (1..=view.state_version).collect();
    if versions != wanted {
        let version = view.state_version;
        failures.push(format!("P9: {} has history versions {versions:?}, snapshot {version}", view.row.id));
    }
}

fn lines(rows: &[HistoryRow], seen: &Seen) -> Vec<Line> {
    let mut lines = Vec::new();
    for row in rows {
        let events: Vec<Value> = serde_json::from_slice(&row.events).expect("our own history");
        lines.extend(events.into_iter().map(|mut event| Line {
            version: row.version,
            at: row.at,
            landed: seen.landed.get(&(row.instance, row.version)).copied().unwrap_or(row.at),
            kind: event["kind"].as_str().unwrap_or_default().to_owned(),
            step: event["step"].as_str().unwrap_or_default().to_owned(),
            detail: event["detail"].take(),
        }));
    }
    lines
}

/// The instance ended as it had to, and history says so, once and at its end.
fn end(story: &Story<'_>, failures: &mut Failures) {
    let view = story.view;
    let (id, status) = (view.row.id, view.row.status.as_str());
    let acknowledged = story.seen.cancelled.contains_key(&id) || story.seen.cancelling.contains(&id);
    let wanted = match story.is_cancelled() {
        true => ("Cancelled", "workflow.cancelled"),
        false => ("Completed", "workflow.completed"),
    };
    if view.runtime_status != wanted.0 || view.row.ended_at.is_none() {
        failures.push(format!("{id} is {status} / {}", view.runtime_status));
    }
    if story.is_cancelled() && view.row.parent.is_none() && !story.seen.cancel_asked.contains(&id) {
        failures.push(format!("{id} is cancelled though nobody asked"));
    }
    if !story.is_cancelled() && acknowledged {
        failures.push(format!("{id} is {status} though its cancellation was acknowledged"));
    }
    let ends = ["workflow.completed", "workflow.cancelled"];
    let ended = story.lines.iter().filter(|line| ends.contains(&line.kind.as_str())).count();
    // A signal that lost the race against the end is told afterwards, and dead letters outlive their instance.
    let is_late = |kind: &str| kind == "signal.unmatched" || kind.starts_with("dead-letter.");
    let last = story.lines.iter().rfind(|line| !is_late(&line.kind)).map_or("", |line| &line.kind);
    if ended != 1 || last != wanted.1 {
        failures.push(format!("{id} is {status}, but its history ends {ended} times, at last with {last}"));
    }
}
