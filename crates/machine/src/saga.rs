//! What an instance remembers of a saga it is inside of, and of what it will leave once its sagas are undone.
//!
//! A saga's steps are done in order. If the saga cannot be finished, the steps that are done are undone, the last
//! one first. [`Closing`] is the reason for that, kept until it can happen: nothing leaves a saga before the saga is
//! *settled*, that is undone, or done to its end where it can only go forward.

use crate::{command::GivenUp, data::Data, fault::Fault, ir::SagaStep, time::Time};
use serde::{Deserialize, Serialize};

/// The progress of a saga step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Saga {
    pub phase: Phase,
    /// The step to be done.
    pub at: u32,
    /// The steps that are done and not undone, in order.
    pub done: Vec<Done>,
    /// What had been undone in the instance when the saga began: a step done again later is another effect.
    #[serde(default)]
    pub round: u64,
    /// The first call of the step at `at`: from then on it may have had an effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begun: Option<u64>,
    /// A step that must not stop here was tried again that often, since then, because of this.
    #[serde(default)]
    pub retries: u32,
    pub since: Time,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Fault>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Phase {
    Doing,
    Undoing,
    Undone,
    /// Done to its end, although the instance leaves it.
    Done,
}

/// A step that is done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Done {
    pub step: u32,
    pub input: Data,
    pub output: Data,
    /// It was cut off after it had begun, so that nobody knows what it did.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interrupted: bool,
}

impl Saga {
    /// Name → output of the steps that are done.
    pub fn output(&self, steps: &[SagaStep]) -> Data {
        Data::map(
            self.done
                .iter()
                .filter_map(|done| Some((steps.get(done.step as usize)?.name.clone(), done.output.clone()))),
        )
    }

    /// True if it only goes forward: the pivot is done, or is being done and nobody knows how it ends.
    pub fn is_past_pivot(&self, steps: &[SagaStep]) -> bool {
        let pivot = |step: u32| steps.get(step as usize).is_some_and(|step| step.pivot);
        self.phase == Phase::Doing
            && (self.done.iter().any(|done| pivot(done.step)) || self.begun.is_some() && pivot(self.at))
    }

    /// True if the instance must not leave it as it is.
    pub fn is_unsettled(&self) -> bool {
        match self.phase {
            Phase::Doing => !self.done.is_empty() || self.begun.is_some(),
            Phase::Undoing => true,
            Phase::Undone | Phase::Done => false,
        }
    }
}

impl Done {
    /// What the step's `undo` is given.
    pub fn to_data(&self) -> Data {
        let mut entries =
            vec![("input".to_owned(), self.input.clone()), ("output".to_owned(), self.output.clone())];
        if self.interrupted {
            entries.push(("interrupted".to_owned(), Data::bool(true)));
        }
        Data::map(entries)
    }
}

/// Something that ends frames with unsettled sagas among them. It happens once they are settled.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Closing {
    pub act: Act,
    /// The frames that end with it; meanwhile they stand still, but for the sagas being settled.
    pub frames: Vec<u64>,
    /// The branches that end with it.
    pub branches: Vec<u32>,
}

/// What happens in the end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "act", rename_all = "camelCase", deny_unknown_fields)]
pub enum Act {
    /// A fault goes outwards.
    Fail {
        branch: u32,
        cut: Cut,
        fault: Fault,
    },
    /// The branch wins its fork.
    Win {
        branch: u32,
        output: Data,
    },
    /// The workflow ends with this output.
    Finish {
        output: Data,
    },
    /// The workflow faults.
    Fault {
        fault: Fault,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        given_up: Option<GivenUp>,
    },
    Cancel {},
}

impl Act {
    /// True if it ends the instance, and with it every frame.
    pub fn ends_all(&self) -> bool {
        matches!(self, Act::Finish { .. } | Act::Fault { .. } | Act::Cancel {})
    }
}

/// What ends before a fault goes outwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Cut {
    Nothing,
    /// Everything inside the frame of that sequence.
    Inside(u64),
    /// The frame too.
    With(u64),
}
