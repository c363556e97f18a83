//! The overlay of one instance, from its history.

use crate::overlay::{Mark, Overlay, State};

/// One event of history that is about a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told<'h> {
    /// As history calls it, for example `step.started`.
    pub kind: &'h str,
    pub step: &'h str,
    /// When, in milliseconds; only differences count.
    pub at_ms: i64,
}

/// The marks of steps after what is told, in order. Of a step that repeats, the last visit counts.
pub fn live<'h>(history: impl IntoIterator<Item = Told<'h>>) -> Overlay {
    let mut overlay = Overlay::default();
    let mut started = std::collections::BTreeMap::new();
    for told in history {
        let mark = overlay.entry(told.step);
        let ended = |state: State, mark: &mut Mark| {
            mark.state = Some(state);
            let since = started.get(told.step).map(|start: &i64| told.at_ms.saturating_sub(*start));
            mark.duration_ms = since.and_then(|since| u64::try_from(since).ok()).or(mark.duration_ms);
        };
        match told.kind {
            "step.started" => {
                *mark = Mark { attempts: 1, ..Mark::of(State::Running) };
                started.insert(told.step, told.at_ms);
            }
            "step.retried" => {
                mark.attempts = mark.attempts.max(1) + 1;
                mark.state = Some(State::Running);
            }
            "step.completed" => ended(State::Completed, mark),
            "step.faulted" => ended(State::Faulted, mark),
            "step.cancelled" => ended(State::Cancelled, mark),
            "step.skipped" => mark.state = Some(State::Skipped),
            "saga.undone" => ended(State::Undone, mark),
            _ => {}
        }
    }
    overlay
}

impl Overlay {
    /// Marks a step that stands at a wait: for a time, a person, a message.
    pub fn waiting(&mut self, step: &str, note: Option<String>) {
        let mark = self.entry(step);
        mark.state = Some(State::Waiting);
        mark.note = note;
    }

    /// Nothing goes on while an instance is paused.
    pub fn paused(&mut self) {
        for mark in self.marks.values_mut() {
            if matches!(mark.state, Some(State::Running | State::Waiting)) {
                mark.state = Some(State::Paused);
            }
        }
    }
}
