//! Calls, faults and events: what the outside saw against what history says.

use super::{Failures, Story};
use std::collections::{BTreeMap, BTreeSet};

/// How long after an acknowledged cancellation an effect may still begin, in microseconds: a call that was already
/// on its way to the worker.
const CANCEL_LAG_MAX: i64 = 10_000;

pub(super) fn check(story: &Story<'_>, failures: &mut Failures) {
    keys(story, failures);
    faults(story, failures);
    after_cancel(story, failures);
    published(story, failures);
}

/// P5: one key per visit of a step, whatever the number of attempts, and the same input under the same key.
fn keys(story: &Story<'_>, failures: &mut Failures) {
    let mut all = BTreeSet::new();
    for ((instance, step), attempts) in &story.seen.attempts {
        if *instance != story.shown {
            continue;
        }
        let mut inputs = BTreeMap::new();
        for attempt in attempts {
            if *inputs.entry(&attempt.key).or_insert(&attempt.input) != &attempt.input {
                failures.push(format!("P5: {instance} {step} has one key for several inputs"));
            }
        }
        let keys = inputs.len();
        if let Some(visits) = story.definition.visits(step)
            && (keys > visits || (keys < visits && !story.is_cancelled()))
        {
            failures.push(format!("P5: {instance} {step} was called under {keys} keys instead of {visits}"));
        }
        if inputs.into_keys().any(|key| !all.insert(key)) {
            failures.push(format!("P5: {instance} {step} shares a key with another step"));
        }
    }
}

/// Every fault has its reason: a step that faults by itself, or an attempt that failed for good before.
fn faults(story: &Story<'_>, failures: &mut Failures) {
    let mut explained = BTreeMap::<&str, usize>::new();
    for line in
        story.lines.iter().filter(|line| matches!(line.kind.as_str(), "step.faulted" | "workflow.faulted"))
    {
        let error = &line.detail["error"];
        let step = error["instance"].as_str().unwrap_or_default();
        let own = step.rsplit('/').next().is_some_and(|name| story.definition.faults.contains(&name));
        if own
            && line.kind == "step.faulted"
            && error["title"] != "Validation Error"
            && error["status"] != 500
        {
            continue;
        }
        if step.rsplit('/').next().is_some_and(|name| story.definition.starts.contains(&name)) {
            continue;
        }
        if line.kind == "step.faulted" {
            *explained.entry(step).or_default() += 1;
        }
        let place = (story.shown.clone(), step.to_owned());
        let attempts = story.seen.attempts.get(&place).map(Vec::as_slice).unwrap_or_default();
        let failed = attempts.iter().filter(|one| one.failed && one.began <= line.landed).count();
        let faulted = explained.get(step).copied().unwrap_or(0);
        if failed < faulted.max(1) {
            failures.push(format!(
                "{} {step} {} (version {}) for the {faulted}. time, but {failed} attempts failed: {error}",
                story.shown, line.kind, line.version
            ));
        }
    }
}

/// Nothing begins once a cancellation was acknowledged.
fn after_cancel(story: &Story<'_>, failures: &mut Failures) {
    let Some(acknowledged) = story.seen.cancelled.get(&story.view.row.id) else { return };
    for ((instance, step), attempts) in &story.seen.attempts {
        let late = |began: machine::Time| began.since(*acknowledged).0 > CANCEL_LAG_MAX;
        if *instance == story.shown
            && let Some(attempt) = attempts.iter().find(|attempt| late(attempt.began))
        {
            let after = attempt.began.since(*acknowledged).0;
            failures.push(format!("{instance} {step} began {after} µs after its instance was cancelled"));
        }
    }
}

/// P6: the event of an instance that emits is published, under one id; without the step there is none.
fn published(story: &Story<'_>, failures: &mut Failures) {
    let emitted = story.lines_of("step.completed").any(|line| line.step.ends_with("/tell"));
    let ids = story.seen.published.get(&story.shown).map(Vec::as_slice).unwrap_or_default();
    if ids.is_empty() == emitted || ids.iter().any(|id| *id != ids[0]) {
        failures.push(format!("P6: {} emitted {emitted}, published {ids:?}", story.shown));
    }
}
