//! R16: a saga is done to its end or not at all, in history and outside.

use super::{Failures, Story};
use crate::seen::Attempt;
use machine::Time;

/// How long after the undoing began a call that was already on its way may begin, in microseconds.
const LAG_MAX: i64 = 10_000;

pub(super) fn check(story: &Story<'_>, failures: &mut Failures) {
    let steps = story.definition.saga_steps();
    if steps > 0 {
        let completed = order(story, steps, failures);
        outside(story, steps, completed, failures);
    }
}

/// The position of a saga's step, and whether it is undone, by its reference.
fn part(reference: &str) -> Option<(usize, bool)> {
    let (position, what) = reference.split_once("/with/steps/")?.1.split_once('/')?;
    Some((position.parse().ok()?, what == "undo"))
}

/// Steps are done in order and undone in reverse; in the end all are done or none is. Answers whether all are.
fn order(story: &Story<'_>, steps: usize, failures: &mut Failures) -> bool {
    let mut done: Vec<usize> = Vec::new();
    for line in &story.lines {
        let wrong = match (line.kind.as_str(), part(&line.step)) {
            ("step.completed", Some((position, false))) => {
                done.push(position);
                position + 1 != done.len()
            }
            // One that was cut off is undone too, though it never completed.
            ("step.completed", Some((position, true))) if position == done.len() => false,
            ("step.completed", Some((position, true))) => done.pop() != Some(position),
            ("saga.undone", _) => !done.is_empty(),
            ("step.completed", None) if line.step.ends_with("/s") => done.len() != steps,
            _ => false,
        };
        if wrong {
            failures.push(format!(
                "R16: {} {} {} (version {}) with {done:?} done",
                story.shown, line.kind, line.step, line.version
            ));
            return false;
        }
    }
    if !done.is_empty() && done.len() != steps {
        failures.push(format!("R16: {} ended with {done:?} done of {steps}", story.shown));
    }
    done.len() == steps
}

/// What the outside saw: every effect that may have happened was undone afterwards, but for those of a saga that was
/// done to its end.
fn outside(story: &Story<'_>, steps: usize, completed: bool, failures: &mut Failures) {
    for position in 0..steps {
        let of = |what: &str| -> Vec<&Attempt> {
            let attempts = story.seen.attempts.iter();
            let suffix = format!("/with/steps/{position}/{what}");
            let own =
                attempts.filter(|((instance, step), _)| *instance == story.shown && step.ends_with(&suffix));
            own.flat_map(|(_, attempts)| attempts).collect()
        };
        let (does, undoes) = (of("do"), of("undo"));
        // By key: the last attempt says whether it may have had its effect.
        let mut last: Vec<&Attempt> = Vec::new();
        for attempt in does {
            last.retain(|other| other.key != attempt.key);
            last.push(attempt);
        }
        let open: Vec<Time> = last
            .iter()
            .filter(|attempt| !attempt.failed)
            .map(|attempt| attempt.began)
            .filter(|began| !undoes.iter().any(|undo| !undo.failed && undo.began.0 + LAG_MAX >= began.0))
            .collect();
        let wanted = usize::from(completed);
        if open.len() != wanted {
            failures.push(format!(
                "R16: {} step {position} has {} effects that stay instead of {wanted}",
                story.shown,
                open.len()
            ));
        }
    }
}
