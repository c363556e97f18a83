//! What is shown on a drawing besides the definition: states of an instance, figures of many, what changed.
//!
//! Marks are found by the reference of a step, which is what history calls it, or by the id of a node or group.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Marks by step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Overlay {
    pub marks: BTreeMap<String, Mark>,
    /// By the ids of an edge's ends.
    pub edges: BTreeMap<(String, String), Change>,
}

/// What is known of one step.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Mark {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<State>,
    /// How often it was tried; shown from the second on.
    #[serde(skip_serializing_if = "is_zero")]
    pub attempts: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// How much of something it has, from 0 (none) to 100 (the most of all).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heat: Option<Heat>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<Change>,
    /// A few words for people, such as the error or what is waited for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// Where a step stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    Running,
    Waiting,
    Paused,
    Completed,
    Skipped,
    Faulted,
    Cancelled,
    /// Done, and taken back.
    Undone,
}

impl State {
    pub fn word(self) -> &'static str {
        match self {
            State::Running => "running",
            State::Waiting => "waiting",
            State::Paused => "paused",
            State::Completed => "completed",
            State::Skipped => "skipped",
            State::Faulted => "faulted",
            State::Cancelled => "cancelled",
            State::Undone => "undone",
        }
    }
}

/// One figure of many instances, made comparable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Heat {
    pub of: Measure,
    /// At most [`HEAT_MAX`].
    pub level: u8,
}

/// The hottest.
pub const HEAT_MAX: u8 = 100;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    Latency,
    Failures,
}

impl Measure {
    pub fn word(self) -> &'static str {
        match self {
            Measure::Latency => "latency",
            Measure::Failures => "failures",
        }
    }
}

/// What became of a step between two versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    Added,
    Removed,
    Changed,
}

impl Change {
    pub fn word(self) -> &'static str {
        match self {
            Change::Added => "added",
            Change::Removed => "removed",
            Change::Changed => "changed",
        }
    }
}

impl Overlay {
    /// The mark of a node or group: by its id, or by its step.
    pub fn mark(&self, id: &str, step: Option<&str>) -> Option<&Mark> {
        self.marks.get(id).or_else(|| self.marks.get(step?))
    }

    /// The mark of a step, made if there is none.
    pub fn entry(&mut self, step: &str) -> &mut Mark {
        self.marks.entry(step.to_owned()).or_default()
    }

    /// A heat map: each step's figure against the largest.
    pub fn heat<'a>(of: Measure, figures: impl IntoIterator<Item = (&'a str, u64)>) -> Overlay {
        let figures: Vec<(&str, u64)> = figures.into_iter().collect();
        let most = figures.iter().map(|(_, figure)| *figure).max().unwrap_or(0).max(1);
        let mut overlay = Overlay::default();
        for (step, figure) in figures {
            let level = (u128::from(figure) * u128::from(HEAT_MAX) / u128::from(most)) as u8;
            overlay.entry(step).heat = Some(Heat { of, level });
        }
        overlay
    }
}

impl Mark {
    pub fn of(state: State) -> Mark {
        Mark { state: Some(state), ..Mark::default() }
    }

    /// The state and the figures in words, for those who do not see the picture.
    pub fn words(&self) -> Vec<String> {
        let attempts = (self.attempts > 1).then(|| format!("{} attempts", self.attempts));
        let heat = self.heat.map(|heat| format!("{} {}% of the highest", heat.of.word(), heat.level));
        let parts = [
            self.change.map(|change| change.word().to_owned()),
            self.state.map(|state| state.word().to_owned()),
            attempts,
            self.duration_ms.map(duration),
            heat,
            self.note.clone(),
        ];
        parts.into_iter().flatten().collect()
    }

    /// What is written beside the badge.
    pub(crate) fn figures(&self) -> Option<String> {
        let attempts = (self.attempts > 1).then(|| format!("×{}", self.attempts));
        let parts: Vec<String> = attempts.into_iter().chain(self.duration_ms.map(duration)).collect();
        (!parts.is_empty()).then(|| parts.join(" · "))
    }
}

/// A duration in at most two units.
pub(crate) fn duration(ms: u64) -> String {
    match ms {
        0..1000 => format!("{ms} ms"),
        1000..60_000 => format!("{}.{} s", ms / 1000, ms % 1000 / 100),
        _ => {
            crate::flow::span(machine::time::Span::from_millis(i64::try_from(ms).unwrap_or(i64::MAX / 1000)))
        }
    }
}
