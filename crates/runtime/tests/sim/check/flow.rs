//! Steps, waits, limits and signals, as history tells them.

use super::{Failures, Line, Story};
use crate::definitions::look_up;
use machine::id;
use std::collections::BTreeMap;

pub(super) fn check(story: &Story<'_>, failures: &mut Failures) {
    steps(story, failures);
    waits(story, failures);
    limits(story, failures);
    signals(story, failures);
}

/// P4: no step completes more often than it is visited.
fn steps(story: &Story<'_>, failures: &mut Failures) {
    let mut completed = BTreeMap::<&str, usize>::new();
    for line in story.lines_of("step.completed") {
        *completed.entry(&line.step).or_default() += 1;
    }
    for (step, count) in completed {
        let Some(visits) = story.definition.visits(step) else { continue };
        if count > visits || (count < visits && !story.is_cancelled()) {
            failures.push(format!(
                "P4: {} {step} completed {count} times instead of {visits}",
                story.view.row.id
            ));
        }
    }
}

/// The last time the step was begun before the line at `position`.
fn began<'a>(story: &'a Story<'_>, step: &str, position: usize) -> Option<&'a Line> {
    story.lines[..position].iter().rfind(|line| line.kind == "step.started" && line.step == step)
}

/// P8: a wait lasts at least as long as it says: by the clocks of the nodes exactly (unless one node kept the timer
/// for a paused instance and another resumed it), by the store's within what clocks may be off.
fn waits(story: &Story<'_>, failures: &mut Failures) {
    for (position, ended) in story.lines.iter().enumerate() {
        if ended.kind == "step.completed"
            && let Some(length) = look_up(story.definition.waits, &ended.step)
        {
            not_before(story, &ended.step, position, length, failures);
        }
    }
}

/// A step times out, and what is to be done then begins, not before its limit.
fn limits(story: &Story<'_>, failures: &mut Failures) {
    for (position, faulted) in story.lines.iter().enumerate() {
        let error = &faulted.detail["error"];
        if faulted.kind == "step.faulted" && error["status"] == 408 {
            let step = error["instance"].as_str().unwrap_or_default();
            match look_up(story.definition.limits, step) {
                Some(length) => not_before(story, step, position, length, failures),
                None => failures.push(format!("{} {step} timed out without a limit", story.view.row.id)),
            }
        }
    }
}

fn not_before(story: &Story<'_>, step: &str, position: usize, length: i64, failures: &mut Failures) {
    let ended = &story.lines[position];
    let Some(began) = began(story, step, position) else {
        failures.push(format!("P8: {} {step} ended before it began", story.view.row.id));
        return;
    };
    let lasted = ended.at.since(began.at).0;
    let by_the_store = ended.landed.since(began.at).0;
    let resumed_elsewhere =
        if story.lines_of("workflow.resumed").next().is_some() { 2 * story.skew } else { 0 };
    if lasted < length - resumed_elsewhere || by_the_store < length - story.skew {
        failures.push(format!(
            "P8: {} {step} lasted only {lasted} µs of {length}, {by_the_store} by the store",
            story.view.row.id
        ));
    }
}

/// P3: an acknowledged signal is used once or said to be unmatched once, whatever the instance came to; it is kept at
/// most once before and once more at each resume. Where the definition has a use for every signal, each is used.
fn signals(story: &Story<'_>, failures: &mut Failures) {
    let kept_max = 1 + story.lines_of("workflow.resumed").count();
    let needed = !story.is_cancelled() && story.definition.name != "race";
    for (_, signal) in story.seen.signals.iter().filter(|(instance, _)| *instance == story.view.row.id) {
        let shown = id::show(id::Kind::Signal, *signal);
        let count =
            |kind| story.lines_of(kind).filter(|line| line.detail["signal"] == shown.as_str()).count();
        let (received, buffered) = (count("signal.received"), count("signal.buffered"));
        let unmatched = count("signal.unmatched");
        if received + unmatched != 1 || (received == 0 && needed) || buffered > kept_max {
            failures.push(format!(
                "P3: {} used {shown} {received} times, kept it {buffered} times, had no use for it {unmatched} times",
                story.view.row.id
            ));
        }
    }
}
