//! What a `listen` step (or a schedule) waits for.

use super::{ExprId, SchemaId, StepId, Template};
use serde::{Deserialize, Serialize};

/// How many events are consumed, and which.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Strategy {
    /// None takes every event (`any: []`).
    pub filters: Vec<EventFilter>,
    #[serde(default)]
    pub consume: Consume,
    /// When to stop consuming; only with [`Consume::Any`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Until>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Consume {
    /// One event that any of the filters takes.
    #[default]
    Any,
    /// One event for each filter.
    All,
}

/// What ends the consumption of `any` events.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Until {
    /// Nothing does: the events are not kept.
    Never,
    /// A condition on the array of what was consumed so far.
    Expr(ExprId),
    /// Further events, which are not part of the output.
    Events { filters: Vec<EventFilter>, consume: Consume },
}

/// One event filter of a strategy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EventFilter {
    /// Attribute name → wanted value; texts may be regular expressions, `data` may be a predicate expression.
    pub with: Vec<(String, Template)>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub correlate: Vec<Correlation>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Correlation {
    pub key: String,
    pub from: ExprId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect: Option<Template>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Read {
    #[default]
    Data,
    Envelope,
    /// The data as text.
    Raw,
}

/// What is done with each consumed event, in order, while listening goes on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Foreach {
    pub item: String,
    pub at: String,
    pub list: Vec<StepId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Template>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub export: Option<Template>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<SchemaId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub export_schema: Option<SchemaId>,
}
