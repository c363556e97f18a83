//! Declarations, deliveries and answers in the form in which the API has them.

use crate::{Declaration, Delivery, Emit, Handled, Missed, Move, Schedule, Terms, Watermark, When};
use machine::{Data, TenantId, time::Span};
use serde_json::{Map, Value, json};

/// What the API takes of a message and of a wait.
const MESSAGE_BYTES_MAX: usize = 4_096;
const RETRY_SECONDS_MAX: i64 = 86_400;

/// What is declared of a worker.
pub(super) fn declaration(worker: &Declaration, terms: &Terms, lease_seconds: u32) -> Value {
    let millis = |span: Span| span.as_millis();
    let mut declared = json!({
        "types": terms.types,
        "attempts_max": worker.retry.attempts_max,
        "retry_base_ms": millis(worker.retry.base),
        "retry_factor": worker.retry.factor,
        "retry_cap_ms": millis(worker.retry.cap),
        "batch_max": terms.batch_max,
        "lease_seconds": lease_seconds,
        "watermarks": terms.watermarks,
        "terminal": {
            "alert": terms.terminal.alert,
            "mark_failed": terms.terminal.mark_failed,
            "compensate": terms.terminal.compensate,
        },
    });
    let optional = [
        ("order_by", terms.order_by.as_ref().map(|path| json!(path))),
        ("key_by", terms.key_by.as_ref().map(|path| json!(path))),
        (
            "debounce",
            terms.debounce.as_ref().map(|one| {
                let (quiet_ms, wait_max_ms) = (millis(one.quiet), millis(one.wait_max));
                json!({ "by": one.by, "quiet_ms": quiet_ms, "wait_max_ms": wait_max_ms })
            }),
        ),
        (
            "rate",
            terms.rate.map(|rate| json!({ "max": rate.max, "seconds": (rate.per.0 / 1_000_000).max(1) })),
        ),
        ("schedule", terms.schedule.as_ref().map(schedule)),
        ("ignore_own", terms.ignore_own.then_some(json!(true))),
    ];
    for (name, value) in optional {
        if let Some(value) = value {
            declared[name] = value;
        }
    }
    declared
}

fn schedule(schedule: &Schedule) -> Value {
    let seconds = |span: &Span| span.0 / 1_000_000;
    let mut said = Map::new();
    match &schedule.when {
        When::Cron(cron) => said.insert("cron".to_owned(), json!(cron)),
        When::Every(span) => said.insert("every_seconds".to_owned(), json!(seconds(span))),
        When::After(span) => said.insert("after_seconds".to_owned(), json!(seconds(span))),
        When::On(_) => None,
    };
    let (missed, window) = match &schedule.missed {
        Missed::Latest => ("latest", None),
        Missed::All => ("all", None),
        Missed::Skip => ("skip", None),
        Missed::Window(span) => ("window", Some(seconds(span))),
    };
    said.insert("missed".to_owned(), json!(missed));
    if let Some(zone) = &schedule.time_zone {
        said.insert("time_zone".to_owned(), json!(zone));
    }
    if let Some(window) = window {
        said.insert("window_seconds".to_owned(), json!(window));
    }
    Value::Object(said)
}

/// A delivery as it was polled: one for each of its events.
pub(super) struct Polled {
    pub(super) id: String,
    pub(super) attempt: u32,
    pub(super) deliveries: Vec<Delivery>,
}

impl Polled {
    /// `None` if it is none: a server that is newer or broken.
    pub(super) fn read(tenant: &TenantId, item: &Value) -> Option<Polled> {
        let id = item["id"].as_str()?.to_owned();
        let attempt = u32::try_from(item["attempt"].as_u64()?).ok()?;
        let texts = |name: &str| -> Vec<Option<String>> {
            let all = item[name].as_array().cloned().unwrap_or_default();
            all.into_iter().map(|one| one.as_str().map(str::to_owned)).collect()
        };
        let (keys, domain_keys, traces) = (texts("keys"), texts("domain_keys"), texts("traceparents"));
        let marks = item["watermarks"].as_array().cloned().unwrap_or_default();
        let watermarks: Vec<Watermark> = marks
            .iter()
            .map(|mark| Watermark {
                name: mark["name"].as_str().unwrap_or_default().to_owned(),
                value: Data::from_json(mark["value"].clone()),
                version: mark["version"].as_i64().unwrap_or_default(),
            })
            .collect();
        let events = item["events"].as_array()?.iter().enumerate();
        let deliveries = events.map(|(at, event)| {
            let text = |name: &str| event[name].as_str().map(str::to_owned);
            Some(Delivery {
                tenant: tenant.clone(),
                key: keys.get(at)?.clone()?,
                domain_key: domain_keys.get(at).cloned().flatten(),
                attempt,
                // An older server says nothing of it.
                traceparent: traces.get(at).cloned().flatten().or_else(|| text("traceparent")),
                correlation_id: text("correlationid"),
                watermarks: watermarks.clone(),
                event: Data::from_json(event.clone()),
            })
        });
        Some(Polled { id, attempt, deliveries: deliveries.collect::<Option<_>>()? })
    }

    /// The verb and the body of an answer: one event is done or failed, several are answered one by one.
    pub(super) fn answer(&self, handled: &[Handled]) -> (&'static str, Value) {
        let (verb, mut body) = match handled {
            [Handled::Done(_)] => ("complete", result(&handled[0])),
            [one] => ("fail", result(one)),
            all => ("complete", json!({ "results": all.iter().map(result).collect::<Vec<_>>() })),
        };
        body["attempt"] = json!(self.attempt);
        (verb, body)
    }
}

fn result(handled: &Handled) -> Value {
    match handled {
        Handled::Done(effects) => {
            let mut emits: Vec<Value> = effects.emits.iter().map(emit).collect();
            let mut done = json!({ "emit": emits.split_off(0) });
            if !effects.moves.is_empty() {
                done["watermarks"] = effects.moves.iter().map(moved).collect();
            }
            done
        }
        Handled::Retry { failure, after } => {
            let mut failed = json!({ "class": failure.class.word(), "message": short(&failure.message) });
            if let Some(after) = after {
                let seconds = (after.0 + 999_999) / 1_000_000;
                failed["retry_after_seconds"] = json!(seconds.clamp(0, RETRY_SECONDS_MAX));
            }
            failed
        }
        Handled::Fail(failure) => {
            // What is not tried again is one of two classes, whatever else was the cause.
            let class = if failure.class == crate::Class::Poison { "poison" } else { "validation" };
            json!({ "class": class, "message": short(&failure.message) })
        }
    }
}

fn emit(emit: &Emit) -> Value {
    let mut said = json!({ "type": emit.event_type, "data": emit.data });
    if let Some(subject) = &emit.subject {
        said["subject"] = json!(subject);
    }
    if let Some(once) = &emit.once {
        said["once"] = json!(once);
    }
    said
}

fn moved(moved: &Move) -> Value {
    json!({ "name": moved.name, "value": moved.value, "version": moved.version })
}

fn short(message: &str) -> &str {
    &message[..message.floor_char_boundary(MESSAGE_BYTES_MAX)]
}
