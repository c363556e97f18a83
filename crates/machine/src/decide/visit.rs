//! Which visit of a step this is, for history: loops, jumps and retries make a step happen more than once.

use crate::{
    ir::StepId,
    state::{Body, Cursor, State},
};
use std::fmt::Write as _;

/// The visit of `step`, which `branch` is in. `None` where nothing around it repeats.
pub(super) fn of(state: &State, branch: u32, step: StepId) -> Option<String> {
    let mut chain = Vec::new();
    let mut at = state.branch(branch);
    while let Some(own) = at {
        chain.push(own);
        at = own.fork.and_then(|(parent, _)| state.branch(parent));
    }
    let mut text = String::new();
    let frames = chain.iter().rev().flat_map(|branch| &branch.frames);
    // The step's own frame counts what is inside it.
    for frame in frames.take_while(|frame| frame.step != Some(step)) {
        match &frame.body {
            Body::List(cursor) => jumped(&mut text, cursor),
            Body::For { index, cursor, .. } => looped(&mut text, *index, cursor),
            Body::Listen(listening) => looped(&mut text, listening.index, &listening.cursor),
            Body::Try(attempt) => {
                if attempt.retries > 0 {
                    let _ = write!(text, "r{}", attempt.retries);
                }
                jumped(&mut text, &attempt.cursor);
            }
            Body::Around(around) => jumped(&mut text, &around.cursor),
            Body::Saga(saga) if saga.round > 0 => drop(write!(text, "r{}", saga.round)),
            Body::Saga(_) | Body::Leaf | Body::Fork { .. } | Body::Map(_) => {}
        }
    }
    (!text.is_empty()).then_some(text)
}

fn looped(text: &mut String, index: u32, cursor: &Cursor) {
    if !text.is_empty() {
        text.push('.');
    }
    let _ = write!(text, "{index}");
    jumped(text, cursor);
}

fn jumped(text: &mut String, cursor: &Cursor) {
    if cursor.jumps > 0 {
        let _ = write!(text, "~{}", cursor.jumps);
    }
}
