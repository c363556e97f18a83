//! Workers that handle events: what they are given, what they answer, and what they want.

use crate::{Class, Failure};
use async_trait::async_trait;
use machine::{Data, TenantId, time::Span};
use std::sync::Arc;

/// Handles events. Called at least once per event; what it answers and the end of the delivery are one commit, so the
/// events it emits are there exactly once. For effects elsewhere use [`Delivery::key`].
#[async_trait]
pub trait Handler: Send + Sync + 'static {
    /// Answers for every delivery, in their order. There is one, or as many as the declaration's `batch_max` allows.
    async fn handle(&self, deliveries: &[Delivery]) -> Vec<Handled>;
}

/// One event for one worker.
#[derive(Clone, Debug)]
pub struct Delivery {
    pub tenant: TenantId,
    /// The CloudEvent, whole.
    pub event: Data,
    /// Stable over attempts, restarts, nodes and replays: hexadecimal SHA-256 of `<id of the event>:<worker>`.
    pub key: String,
    /// 1 on the first attempt.
    pub attempt: u32,
    pub traceparent: Option<String>,
    pub correlation_id: Option<String>,
}

impl Delivery {
    /// An attribute of the event that is a text.
    pub fn attribute(&self, name: &str) -> Option<String> {
        self.event.get(name).as_ref().and_then(Data::as_str).map(str::to_owned)
    }

    /// What the event carries; null if nothing.
    pub fn data(&self) -> Data {
        self.event.get("data").unwrap_or_default()
    }
}

/// How an attempt at one delivery ended.
#[derive(Clone, Debug)]
pub enum Handled {
    /// It is done, and these events follow from it.
    Done(Vec<Emit>),
    /// Try again by the worker's retry policy, or after the given time (a `Retry-After`) if that is longer.
    Retry { failure: Failure, after: Option<Span> },
    /// Do not try again: it becomes a dead letter.
    Fail(Failure),
}

impl Handled {
    pub fn done() -> Handled {
        Handled::Done(Vec::new())
    }

    pub fn retry(message: impl Into<String>) -> Handled {
        Handled::Retry { failure: Failure { class: Class::Transient, message: message.into() }, after: None }
    }

    pub fn fail(class: Class, message: impl Into<String>) -> Handled {
        Handled::Fail(Failure { class, message: message.into() })
    }
}

/// An event that a worker emits. Its id, source, time, trace and cause are set by the engine, its id so that the same
/// delivery never emits it twice.
#[derive(Clone, Debug)]
pub struct Emit {
    pub event_type: String,
    pub subject: Option<String>,
    pub data: Data,
}

/// What a worker wants of events, and how they are handed to it.
#[derive(Clone)]
pub struct On {
    /// Types; one that ends with `*` is the beginning of a type.
    pub types: Vec<String>,
    /// Events handed over in one call.
    pub batch_max: usize,
    /// Where the order key is found: an attribute, or a path into the data such as `data.order.id`. Events with the same
    /// key come one after the other; without one, or where it is not found, in any order.
    pub order_by: Option<String>,
    pub handler: Arc<dyn Handler>,
}

/// Makes a handler of a plain function over one event that needs no waiting.
pub fn each<F>(f: F) -> impl Handler
where
    F: Fn(&Delivery) -> Handled + Send + Sync + 'static,
{
    Each(f)
}

struct Each<F>(F);

#[async_trait]
impl<F> Handler for Each<F>
where
    F: Fn(&Delivery) -> Handled + Send + Sync + 'static,
{
    async fn handle(&self, deliveries: &[Delivery]) -> Vec<Handled> {
        deliveries.iter().map(&self.0).collect()
    }
}
