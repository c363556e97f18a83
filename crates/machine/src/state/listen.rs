//! What a listen step has consumed, what it still wants, and what an index outside needs to know of that.

use super::{Body, Cursor, State, Wait, WaitKind};
use crate::{
    data::Data,
    event::is_pattern,
    ir::{Consume, EventFilter, Kind, Strategy, Template, Until},
    program::Program,
};
use serde::{Deserialize, Serialize};

/// The most events one listen step consumes and keeps. With `until: false` they are not kept, and there is no limit.
pub const EVENTS_MAX: usize = 1000;

/// A listen step's progress.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Listening {
    /// By filter: those of the strategy, then those of its `until`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub wanted: Vec<Wanted>,
    /// What was consumed, as it is read, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub items: Vec<Data>,
    /// How many were consumed before those in `items` and are not kept.
    #[serde(skip_serializing_if = "is_zero")]
    pub dropped: u32,
    /// The iteration that is being made, or comes next.
    #[serde(skip_serializing_if = "is_zero")]
    pub index: u32,
    /// What the iterations came to.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub outputs: Vec<Data>,
    /// True while the steps of `foreach` run for the item at `index`.
    #[serde(skip_serializing_if = "is_false")]
    pub iterating: bool,
    pub cursor: Cursor,
    /// No more events are consumed.
    #[serde(skip_serializing_if = "is_false")]
    pub over: bool,
}

impl Listening {
    /// The item of the current iteration.
    pub fn item(&self) -> Option<&Data> {
        self.items.get(self.index.checked_sub(self.dropped)? as usize)
    }
}

/// What one filter wants, as computed when listening began.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Wanted {
    /// The attributes whose wanted values are not literal.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub with: Vec<(String, Data)>,
    /// By position of the filter's correlations.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub correlate: Vec<Expectation>,
    /// The filter has had its event, and takes one only.
    #[serde(skip_serializing_if = "is_false")]
    pub met: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Expectation {
    /// The first value seen becomes the expectation.
    First,
    Value(Data),
}

/// What one filter of a listening instance waits for, as far as an index outside can use it. An event that an
/// instance takes fits at least one of its interests; the machine decides which of the others it takes.
#[derive(Clone, Debug, PartialEq)]
pub struct Interest {
    /// `None` if any type may do (the filter names none, or a pattern).
    pub event_type: Option<String>,
    pub key: Option<Key>,
}

/// A correlation whose value is known.
#[derive(Clone, Debug, PartialEq)]
pub struct Key {
    /// jq text that reads the value from an event. It names neither arguments nor variables.
    pub from: String,
    pub value: Data,
}

impl State {
    /// What the instance waits for, over all its listening steps.
    pub fn interests(&self, program: &Program) -> Vec<Interest> {
        let events = self.waits.iter().filter(|wait| wait.kind == WaitKind::Event);
        events.flat_map(|wait| wait.interests(program, self)).collect()
    }

    /// The listen step that a wait stands for.
    pub fn listening<'p>(&self, program: &'p Program, wait: &Wait) -> Option<(&Listening, &'p Strategy)> {
        let frames = &self.branch(wait.branch)?.frames;
        let frame = frames.iter().find(|frame| frame.sequence == wait.frame)?;
        match (&frame.body, &program.step(frame.step?).kind) {
            (Body::Listen(listening), Kind::Listen { to, .. }) => Some((listening, to)),
            _ => None,
        }
    }
}

impl Wait {
    /// What a wait for events waits for; nothing for any other wait.
    pub fn interests(&self, program: &Program, state: &State) -> Vec<Interest> {
        let Some((listening, to)) = state.listening(program, self) else { return Vec::new() };
        let mut interests = Vec::new();
        if to.filters.is_empty() {
            interests.push(Interest { event_type: None, key: None });
        }
        for (filter, wanted) in to.all_filters().zip(&listening.wanted).filter(|(_, wanted)| !wanted.met) {
            let interest = Interest {
                event_type: literal_type(filter, wanted),
                key: known_key(program, filter, wanted),
            };
            if !interests.contains(&interest) {
                interests.push(interest);
            }
        }
        interests
    }
}

impl Strategy {
    /// The filters of the strategy, then those of its `until`.
    pub fn all_filters(&self) -> impl Iterator<Item = &EventFilter> {
        let until = match &self.until {
            Some(Until::Events { filters, .. }) => filters.as_slice(),
            _ => &[],
        };
        self.filters.iter().chain(until)
    }

    /// True if the filter at this position (in [`Strategy::all_filters`]) takes one event only.
    pub fn takes_one(&self, position: usize) -> bool {
        match &self.until {
            Some(Until::Events { consume, .. }) if position >= self.filters.len() => *consume == Consume::All,
            _ => self.consume == Consume::All,
        }
    }
}

fn literal_type(filter: &EventFilter, wanted: &Wanted) -> Option<String> {
    let computed = wanted.with.iter().find(|(name, _)| name == "type").map(|(_, value)| value);
    let literal = filter.with.iter().find_map(|(name, value)| match value {
        Template::Literal(value) if name == "type" => Some(value),
        _ => None,
    });
    let text = computed.or(literal)?.as_str()?;
    (!is_pattern(text)).then(|| text.to_owned())
}

fn known_key(program: &Program, filter: &EventFilter, wanted: &Wanted) -> Option<Key> {
    filter.correlate.iter().zip(&wanted.correlate).find_map(|(correlation, expectation)| {
        let from = &program.exprs[correlation.from as usize];
        match expectation {
            Expectation::Value(value) if from.is_closed() => {
                Some(Key { from: from.source.clone(), value: value.clone() })
            }
            _ => None,
        }
    })
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

fn is_false(flag: &bool) -> bool {
    !flag
}
