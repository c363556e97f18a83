//! What is recorded of a failure that nobody handled: the group it belongs to, and a sample of it.
//!
//! Failures are alike if the same target failed with the same class at the same step, or, where there is no step, with
//! the same message but for numbers and names. Says nothing of when the record is written: that is `flush`.

use crate::rows::{self, Change};
use machine::{Effect, Fault, Time, fault, id, state::Status};
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use store::{
    Write,
    rows::{CallRow, ErrorGroupRow},
};
use uuid::Uuid;

/// Samples that one write leaves in a group.
const SAMPLES_MAX: u64 = 3;
/// Characters of a group's message, and of a sample's.
const MESSAGE_MAX: usize = 200;
const SAMPLE_MESSAGE_MAX: usize = 2_000;

/// One failure.
#[derive(Default)]
pub(crate) struct Failure {
    pub(crate) source: &'static str,
    /// The worker or endpoint, the type of the signal, or the definition.
    pub(crate) target: String,
    pub(crate) class: String,
    /// The definition and the step, if a step failed.
    pub(crate) step: Option<String>,
    pub(crate) message: String,
    pub(crate) instance: Option<Uuid>,
    pub(crate) event: Option<Uuid>,
    pub(crate) attempts: u32,
    pub(crate) at: Time,
}

#[derive(Serialize)]
struct Sample<'a> {
    at: String,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    instance: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    event: Option<String>,
    #[serde(skip_serializing_if = "is_zero")]
    attempts: u32,
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

impl Failure {
    /// The fingerprint: the same for all that are alike.
    pub(crate) fn group(&self) -> Uuid {
        let alike = match &self.step {
            Some(step) => step.clone(),
            None => normalised(&self.message),
        };
        let mut hash = Sha256::new();
        for part in [self.source, &self.target, &self.class, &alike] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part.as_bytes());
        }
        let digest: [u8; 32] = hash.finalize().into();
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&digest[..16]);
        uuid::Builder::from_custom_bytes(bytes).into_uuid()
    }

    /// What is written of it.
    pub(crate) fn row(self) -> ErrorGroupRow {
        let id = self.group();
        let sample = Sample {
            at: self.at.rfc3339(),
            message: cut(&self.message, SAMPLE_MESSAGE_MAX),
            instance: self.instance.map(|instance| id::show(id::Kind::Instance, instance)),
            event: self.event.map(|event| id::show(id::Kind::Event, event)),
            attempts: self.attempts,
        };
        let first_sample = rows::to_json(&sample);
        ErrorGroupRow {
            id,
            source: self.source.to_owned(),
            class: fault::storable(self.class),
            message: fault::storable(normalised(&self.message)),
            target: fault::storable(self.target),
            step: self.step.map(fault::storable),
            count: 1,
            first_at: self.at,
            last_at: self.at,
            samples: [b"[", first_sample.as_slice(), b"]"].concat(),
            first_sample,
        }
    }
}

/// The failures that a decision leaves behind: an incident of a saga, and the end of the instance with an error.
pub(crate) fn of(change: &Change<'_>) -> Vec<Failure> {
    let mut failures = Vec::new();
    let (mut given_up, state) = (None, &change.decision.state);
    for effect in &change.decision.effects {
        match effect {
            Effect::Incident(incident) => {
                let failure = of_step(change, &incident.fault, Some(&incident.step));
                failures.push(Failure { source: "saga", attempts: incident.attempts, ..failure });
            }
            Effect::DeadLetter(call) => given_up = Some((call.target.as_str(), call.attempts)),
            _ => {}
        }
    }
    let ends = crate::turn::ends(change.before.map(|(state, _)| state), state);
    if let (true, Status::Faulted, Some(fault)) = (ends, state.status, &state.error) {
        let failed = |row: &CallRow| (row.target.clone(), row.attempt);
        let call = given_up.map(|(target, attempts)| (target.to_owned(), attempts));
        let failure = of_step(change, fault, fault.instance.as_deref());
        failures.push(match call.or_else(|| change.failed_call.map(failed)) {
            Some((target, attempts)) => Failure { source: "call", target, attempts, ..failure },
            None => failure,
        });
    }
    failures
}

fn of_step(change: &Change<'_>, fault: &Fault, step: Option<&str>) -> Failure {
    let ir = &change.program.ir;
    let definition = format!("{}/{}", ir.namespace, ir.name);
    let text = fault.detail.as_deref().or(fault.title.as_deref()).unwrap_or(&fault.error_type);
    let class = fault.error_type.strip_prefix(fault::TYPE_BASE).unwrap_or(&fault.error_type);
    Failure {
        source: "workflow",
        class: cut(class, MESSAGE_MAX).to_owned(),
        step: step.map(|step| format!("{definition}{step}")),
        target: definition,
        message: text.to_owned(),
        instance: Some(change.subject.instance),
        at: change.now,
        ..Failure::default()
    }
}

/// Makes one write of all that is recorded in a commit, the last one. Answers how many errors it records.
pub(crate) fn fold(writes: &mut Vec<Write>) -> u64 {
    let mut groups = BTreeMap::<Uuid, ErrorGroupRow>::new();
    let mut count = 0;
    for write in writes.extract_if(.., |write| matches!(write, Write::Errors(_))) {
        let Write::Errors(rows) = write else { continue };
        for row in rows {
            count += row.count;
            match groups.get_mut(&row.id) {
                Some(group) => join(group, row),
                None => drop(groups.insert(row.id, row)),
            }
        }
    }
    if !groups.is_empty() {
        writes.push(Write::Errors(groups.into_values().collect()));
    }
    count
}

/// How many errors these writes record.
pub(crate) fn count(writes: &[Write]) -> u64 {
    let of_write = |write: &Write| match write {
        Write::Errors(rows) => rows.iter().map(|row| row.count).sum(),
        _ => 0,
    };
    writes.iter().map(of_write).sum()
}

fn join(group: &mut ErrorGroupRow, row: ErrorGroupRow) {
    // A write's list has as many samples as it counts, up to the most.
    if group.count.min(SAMPLES_MAX) + row.count.min(SAMPLES_MAX) <= SAMPLES_MAX {
        group.samples.pop();
        group.samples.push(b',');
        group.samples.extend(&row.samples[1..]);
    }
    group.count += row.count;
    if row.first_at < group.first_at {
        (group.first_at, group.first_sample) = (row.first_at, row.first_sample);
    }
    if row.last_at >= group.last_at {
        (group.last_at, group.message) = (row.last_at, row.message);
    }
}

/// The message without what differs from one failure to the next: a word that holds a digit becomes `#`.
fn normalised(message: &str) -> String {
    let mut normal = String::new();
    let is_of_word = |letter: char| letter.is_alphanumeric() || letter == '-' || letter == '_';
    let mut rest = cut(message, SAMPLE_MESSAGE_MAX);
    while let Some(first) = rest.chars().next() {
        let end = match is_of_word(first) {
            true => rest.find(|letter| !is_of_word(letter)).unwrap_or(rest.len()),
            false => first.len_utf8(),
        };
        let (word, after) = rest.split_at(end);
        normal += if word.contains(|letter: char| letter.is_numeric()) { "#" } else { word };
        rest = after;
    }
    cut(&normal, MESSAGE_MAX).to_owned()
}

/// At most so many characters.
fn cut(text: &str, max: usize) -> &str {
    text.char_indices().nth(max).map_or(text, |(end, _)| &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(message: &str) -> Failure {
        Failure {
            source: "delivery",
            target: "mail".into(),
            class: "transient".into(),
            message: message.into(),
            at: Time(7),
            ..Failure::default()
        }
    }

    #[test]
    fn a_message_is_alike_but_for_numbers_and_names() {
        let group = |message: &str| failure(message).group();
        assert_eq!(group("order o-17 of 2026-11-17 is away"), group("order o-4 of 2026-01-02 is away"));
        assert_ne!(group("order o-17 is away"), group("order o-17 is late"));
        assert_eq!(normalised("a1b2-c3: it took 5000 ms"), "#: it took # ms");
        let at_step = |message: &str| Failure { step: Some("shop/order/do/0".into()), ..failure(message) };
        assert_eq!(at_step("one").group(), at_step("another").group(), "the step says enough");
        let other = Failure { class: "poison".into(), ..at_step("one") };
        assert_ne!(other.group(), at_step("one").group());
    }

    #[test]
    fn what_is_alike_becomes_one_row_with_a_few_samples() {
        let mut writes: Vec<Write> =
            (0..9).map(|n| Write::Errors(vec![failure(&format!("order {n} is away")).row()])).collect();
        writes.insert(3, Write::EventTaken { id: Uuid::from_u128(1) });
        writes.push(Write::Errors(vec![failure("something else").row()]));
        assert_eq!(count(&writes), 10);
        assert_eq!(fold(&mut writes), 10);
        let [Write::EventTaken { .. }, Write::Errors(rows)] = writes.as_slice() else { panic!("{writes:?}") };
        let away = rows.iter().find(|row| row.count == 9).expect("one group of nine");
        assert_eq!((rows.len(), away.message.as_str()), (2, "order # is away"));
        let samples: Vec<serde_json::Value> = serde_json::from_slice(&away.samples).expect("JSON");
        assert_eq!(samples.len(), 3);
        assert_eq!(samples[2]["message"], "order 2 is away");
    }

    #[test]
    fn long_messages_are_cut_between_characters() {
        let row = failure(&"ü".repeat(5_000)).row();
        assert_eq!(row.message.chars().count(), MESSAGE_MAX);
        let sample: serde_json::Value = serde_json::from_slice(&row.first_sample).expect("JSON");
        assert_eq!(sample["message"].as_str().map(|text| text.chars().count()), Some(SAMPLE_MESSAGE_MAX));
    }
}
