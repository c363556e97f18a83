//! Workers that handle events: what they are given, what they answer, and what they want.

use crate::{Class, Failure, Terms};
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
    /// The same for every event with the same domain key, if the declaration says where that is found: hexadecimal
    /// SHA-256 of `<key>:<worker>`.
    pub domain_key: Option<String>,
    /// 1 on the first attempt.
    pub attempt: u32,
    pub traceparent: Option<String>,
    pub correlation_id: Option<String>,
    /// Those that the declaration names, as they were when the event was handed over.
    pub watermarks: Vec<Watermark>,
}

/// How far a worker has come, for one tenant.
#[derive(Clone, Debug, PartialEq)]
pub struct Watermark {
    pub name: String,
    /// Null until it is moved for the first time.
    pub value: Data,
    /// 0 until then; raised by every move.
    pub version: i64,
}

impl Watermark {
    /// Moves it on from where it is.
    pub fn to(&self, value: Data) -> Move {
        Move { name: self.name.clone(), value, version: self.version }
    }
}

/// A watermark to be moved. If somebody else has moved it meanwhile nothing of the answer is written, and the event is handed
/// over again.
#[derive(Clone, Debug, PartialEq)]
pub struct Move {
    pub name: String,
    pub value: Data,
    /// The version that it is moved from.
    pub version: i64,
}

impl Delivery {
    /// A watermark that the declaration names.
    pub fn watermark(&self, name: &str) -> Option<&Watermark> {
        self.watermarks.iter().find(|one| one.name == name)
    }

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
    /// It is done, and this follows from it.
    Done(Effects),
    /// Try again by the worker's retry policy, or after the given time (a `Retry-After`) if that is longer.
    Retry { failure: Failure, after: Option<Span> },
    /// Do not try again: it becomes a dead letter.
    Fail(Failure),
}

impl Handled {
    pub fn done() -> Handled {
        Handled::Done(Effects::default())
    }

    /// It is done, and these events follow from it.
    pub fn emit(events: impl IntoIterator<Item = Emit>) -> Handled {
        Handled::Done(Effects { emits: events.into_iter().collect(), ..Effects::default() })
    }

    pub fn retry(message: impl Into<String>) -> Handled {
        Handled::Retry { failure: Failure { class: Class::Transient, message: message.into() }, after: None }
    }

    pub fn fail(class: Class, message: impl Into<String>) -> Handled {
        Handled::Fail(Failure { class, message: message.into() })
    }
}

/// Everything that follows from an event. It is written in the commit that ends the delivery, or not at all.
#[derive(Clone, Debug, Default)]
pub struct Effects {
    pub emits: Vec<Emit>,
    /// Keys that are taken from now on, of this worker and tenant: see [`Emit::once`].
    pub claims: Vec<String>,
    /// Watermarks that move on.
    pub moves: Vec<Move>,
}

impl From<Vec<Emit>> for Effects {
    fn from(emits: Vec<Emit>) -> Effects {
        Effects { emits, ..Effects::default() }
    }
}

/// An event that a worker emits. Its id, source, time, trace and cause are set by the engine, its id so that the same
/// delivery never emits it twice.
#[derive(Clone, Debug)]
pub struct Emit {
    pub event_type: String,
    pub subject: Option<String>,
    pub data: Data,
    /// A key such as event, channel and recipient: of this worker and tenant one event with the key is emitted, whatever
    /// deliveries they come from. The record is kept as long as other idempotency keys.
    pub once: Option<String>,
}

impl Emit {
    pub fn new(event_type: impl Into<String>, data: Data) -> Emit {
        Emit { event_type: event_type.into(), subject: None, data, once: None }
    }

    pub fn subject(mut self, subject: impl Into<String>) -> Emit {
        self.subject = Some(subject.into());
        self
    }

    pub fn once(mut self, key: impl Into<String>) -> Emit {
        self.once = Some(key.into());
        self
    }
}

/// What a worker wants of events, and how they are handed to it.
#[derive(Clone)]
pub struct On {
    pub terms: Terms,
    /// Events for it that one node keeps in memory; beyond it they stay in the store.
    pub prefetch_max: Option<usize>,
    /// Events to try it with; see [`crate::Declaration::sample`].
    pub samples: Vec<Data>,
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
