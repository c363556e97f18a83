//! Work for people: every task ends, once, and each act on it is one event.

use super::{Failures, Story};
use crate::seen::Seen;
use std::collections::BTreeMap;
use store::rows::{TaskEventRow, TaskRow};

/// An ended instance has no open task, and no step was answered twice, unless it was run again.
pub(super) fn check(story: &Story<'_>, failures: &mut Failures) {
    let mut completed = BTreeMap::<&str, usize>::new();
    for task in &story.tasks {
        match task.status.as_str() {
            "completed" => *completed.entry(&task.step).or_default() += 1,
            "cancelled" => {}
            status => failures.push(format!("{}: task {} is still {status}", story.shown, task.id)),
        }
    }
    let runs = 1 + story.lines_of("workflow.retried").count();
    for (step, count) in completed.iter().filter(|(_, count)| **count > runs) {
        failures.push(format!("{} {step}: {count} tasks were completed", story.shown));
    }
}

/// One event per act, numbered 1..n, the last of them the end; nobody was told "done" who did not do it.
pub(super) fn events(task: &TaskRow, events: &[TaskEventRow], seen: &Seen, failures: &mut Failures) {
    let id = task.id;
    let sequences: Vec<i64> = events.iter().map(|event| event.sequence).collect();
    if sequences != (1..=task.version).collect::<Vec<_>>() {
        failures.push(format!("task {id} is at version {}, its events are {sequences:?}", task.version));
    }
    let last = events.last().map_or("", |event| &event.kind);
    let ends = events.iter().filter(|event| matches!(event.kind.as_str(), "completed" | "cancelled")).count();
    if last != task.status || ends != 1 {
        failures.push(format!("task {id} is {}, its last event {last}, it ended {ends} times", task.status));
    }
    let mut told = BTreeMap::<(&str, &str), usize>::new();
    for (_, kind, actor) in seen.acts.iter().filter(|(acted, ..)| *acted == id) {
        *told.entry((kind, actor)).or_default() += 1;
    }
    for ((kind, actor), told) in told {
        let did = events.iter().filter(|event| event.kind == kind && event.actor == actor).count();
        if did < told {
            failures.push(format!("task {id}: {actor} was told {told} times of {kind}, {did} are recorded"));
        }
    }
}
