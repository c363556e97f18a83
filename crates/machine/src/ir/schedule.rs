//! When a definition starts instances by itself.

use super::Strategy;
use crate::time::Span;
use serde::{Deserialize, Serialize};

/// `schedule` of a document, with what `document.metadata.windlass` says about it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Schedule {
    pub when: When,
    /// IANA name of the time zone that a cron expression is read in; UTC unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
    #[serde(default)]
    pub missed: Missed,
}

/// What makes a schedule fire.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum When {
    /// A cron expression of five fields.
    Cron(String),
    /// Again and again, whether or not the instance before has ended.
    Every(Span),
    /// This long after the instance before has ended.
    After(Span),
    /// Events: whenever as many have come as the strategy wants, they are the input, as an array.
    On(Strategy),
}

/// What becomes of slots that came while nobody could fire them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Missed {
    /// Each fires, late.
    All,
    /// The latest fires, those before it are merged into it.
    #[default]
    Latest,
    /// None fires.
    Skip,
    /// Those missed by no more than this fire, older ones do not.
    Window(Span),
}

impl Schedule {
    /// `cron`, `every`, `after` or `on`.
    pub fn kind(&self) -> &'static str {
        match self.when {
            When::Cron(_) => "cron",
            When::Every(_) => "every",
            When::After(_) => "after",
            When::On(_) => "on",
        }
    }
}
