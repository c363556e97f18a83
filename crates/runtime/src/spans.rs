//! Spans: what a node did, when, and within which trace, for whoever collects them.
//!
//! One trace goes through everything that follows from each other: event, delivery, the event it emits, the instance that
//! starts, its calls. Ids derive from ids and keys that are stored, so every node names the same span the same way and
//! nothing has to be kept for it.

use crate::{api::Class, deliveries::key_of, engine::Engine, trace};
use machine::{Data, State, Subject, TenantId, Time, command::Call, id};
use store::rows::{CallRow, EventRow};
use uuid::Uuid;
use worker::{Delivery, Failure, Handled};

/// What somebody did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// 32 hexadecimal digits.
    pub trace: String,
    /// 16 hexadecimal digits, as is `parent`.
    pub id: String,
    pub parent: Option<String>,
    pub name: String,
    pub kind: Kind,
    pub began: Time,
    pub ended: Time,
    pub attributes: Vec<(&'static str, String)>,
    /// Why it failed, if it did.
    pub failure: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Internal,
    /// Something outside was asked.
    Client,
    /// An event was taken in.
    Producer,
    /// An event was handled.
    Consumer,
}

/// Collects spans. Never waits: what there is no room for is dropped.
pub trait Spans: Send + Sync + 'static {
    /// False if it is not worth the while to make any.
    fn wants(&self) -> bool;
    fn record(&self, span: Span);
}

/// Collects nothing.
pub struct NoSpans;

impl Spans for NoSpans {
    fn wants(&self) -> bool {
        false
    }

    fn record(&self, _: Span) {}
}

/// An attempt at a call. The first is the span that the called one was told of, those after it are beneath it.
pub(crate) fn of_call(
    engine: &Engine,
    tenant: &TenantId,
    row: &CallRow,
    call: &Call,
    (micros, failure): (u64, Option<String>),
) {
    let Some(told) = told(engine, call.trace.traceparent.as_deref()) else { return };
    let (id, parent) = match row.attempt {
        0 | 1 => (told.span, trace::span(&row.instance.simple().to_string())),
        attempt => (trace::span(&format!("{}:{attempt}", call.key)), told.span),
    };
    let attributes = vec![
        ("windlass.tenant", tenant.as_str().to_owned()),
        ("windlass.instance", id::show(id::Kind::Instance, row.instance)),
        ("windlass.step", call.step.clone()),
        ("windlass.attempt", row.attempt.to_string()),
    ];
    let ended = engine.now();
    engine.spans.record(Span {
        trace: told.trace,
        id,
        parent: Some(parent),
        name: format!("call {}", row.target),
        kind: Kind::Client,
        began: before(ended, micros),
        ended,
        attributes,
        failure,
    });
}

/// Deliveries that were handled together, a span for each.
pub(crate) fn of_deliveries(engine: &Engine, worker: &str, handled: &[(Delivery, Handled)], micros: u64) {
    if !engine.spans.wants() {
        return;
    }
    let ended = engine.now();
    for (delivery, answer) in handled {
        let Some(told) = told(engine, delivery.traceparent.as_deref()) else { continue };
        let text = |name: &str| delivery.attribute(name).unwrap_or_default();
        let id = match delivery.attempt {
            0 | 1 => told.span.clone(),
            attempt => trace::span(&format!("{}:{attempt}", delivery.key)),
        };
        let failure = match answer {
            Handled::Done(..) => None,
            Handled::Retry { failure, .. } | Handled::Fail(failure) => Some(said(failure)),
        };
        engine.spans.record(Span {
            trace: told.trace,
            parent: Some(if delivery.attempt > 1 {
                told.span
            } else {
                event_span(&text("source"), &text("id"))
            }),
            id,
            name: format!("deliver {worker}"),
            kind: Kind::Consumer,
            began: before(ended, micros),
            ended,
            attributes: vec![
                ("windlass.tenant", delivery.tenant.as_str().to_owned()),
                ("windlass.worker", worker.to_owned()),
                ("windlass.attempt", delivery.attempt.to_string()),
                ("cloudevents.event_type", text("type")),
                ("cloudevents.event_id", text("id")),
            ],
            failure,
        });
    }
}

/// An event that was published.
pub(crate) fn of_event(engine: &Engine, tenant: &TenantId, row: &EventRow) {
    if !engine.spans.wants() {
        return;
    }
    let event = Data::parse(&row.event).unwrap_or_default();
    let given = event.get("traceparent");
    let given = given.as_ref().and_then(Data::as_str);
    // As a delivery of it would be told.
    let told_of = trace::child(given, row.id, &key_of(row.id, ""));
    let Some(told) = told(engine, Some(&told_of)) else { return };
    engine.spans.record(Span {
        trace: told.trace,
        id: event_span(&row.source, &row.event_id),
        parent: given.and_then(trace::read).map(|parent| parent.span),
        name: format!("publish {}", row.event_type),
        kind: Kind::Producer,
        began: row.received_at,
        ended: engine.now().max(row.received_at),
        attributes: vec![
            ("windlass.tenant", tenant.as_str().to_owned()),
            ("cloudevents.event_source", row.source.clone()),
            ("cloudevents.event_type", row.event_type.clone()),
            ("cloudevents.event_id", row.event_id.clone()),
        ],
        failure: None,
    });
}

/// An instance that came to its end.
pub(crate) fn of_instance(engine: &Engine, subject: &Subject, state: &State, now: Time) {
    if !engine.spans.wants() {
        return;
    }
    let instance: Uuid = subject.instance;
    let given = state.trace.traceparent.as_deref();
    let key = instance.simple().to_string();
    let Some(told) = told(engine, Some(&trace::child(given, instance, &key))) else { return };
    engine.spans.record(Span {
        trace: told.trace,
        id: told.span,
        parent: given.and_then(trace::read).map(|parent| parent.span),
        name: "instance".to_owned(),
        kind: Kind::Internal,
        began: state.started_at,
        ended: now,
        attributes: vec![
            ("windlass.tenant", subject.tenant.as_str().to_owned()),
            ("windlass.instance", id::show(id::Kind::Instance, instance)),
            ("windlass.status", state.status_word().to_owned()),
        ],
        failure: state.error.as_ref().map(|fault| fault.error_type.clone()),
    });
}

/// Every node that publishes, or delivers, the event names its span so.
fn event_span(source: &str, event_id: &str) -> String {
    trace::span(&format!("{source}\n{event_id}"))
}

/// What a `traceparent` says, if somebody wants spans and its trace is to be kept.
fn told(engine: &Engine, traceparent: Option<&str>) -> Option<trace::Place> {
    let wanted = engine.spans.wants();
    traceparent.filter(|_| wanted).and_then(trace::read).filter(|place| place.is_sampled)
}

fn before(ended: Time, micros: u64) -> Time {
    Time(ended.0 - i64::try_from(micros).unwrap_or(0))
}

fn said(Failure { class, message }: &Failure) -> String {
    let class: &Class = class;
    format!("{}: {message}", class.word())
}
