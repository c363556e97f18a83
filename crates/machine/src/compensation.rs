//! What would be undone if an instance had to leave its sagas now.

use crate::{
    data::Data,
    program::Program,
    saga::{Done, Phase, Saga},
    state::{Body, State},
};

/// One step that would be undone.
#[derive(Clone, Debug, PartialEq)]
pub struct Undo {
    /// The reference of the saga.
    pub saga: String,
    /// The step's name in it.
    pub name: String,
    /// The reference of its `undo`.
    pub step: String,
    pub input: Data,
    pub output: Data,
    /// It would be cut off: nobody knows what it has done.
    pub interrupted: bool,
    /// It is being undone already.
    pub undoing: bool,
}

/// The steps that would be undone, in order: innermost saga first, last step first. Sagas in branches that run
/// side by side are undone side by side. One past its pivot has nothing to undo.
pub fn compensation(program: &Program, state: &State) -> Vec<Undo> {
    let mut undos = Vec::new();
    for branch in state.branches.iter().rev() {
        for place in (0..branch.frames.len()).rev() {
            let frame = &branch.frames[place];
            let (Body::Saga(saga), Some(id)) = (&frame.body, frame.step) else { continue };
            let steps = program.saga_steps(id);
            if saga.is_past_pivot(steps) || is_undoing(state, branch.id, place) {
                continue;
            }
            let current = branch.frames.get(place + 1).map(|frame| frame.input().clone());
            for (position, done) in would_be_done(saga, current).iter().rev().enumerate() {
                let Some(step) = steps.get(done.step as usize) else { continue };
                let Some(undo) = step.undo else { continue };
                undos.push(Undo {
                    saga: program.step(id).reference.clone(),
                    name: step.name.clone(),
                    step: program.step(undo).reference.clone(),
                    input: done.input.clone(),
                    output: done.output.clone(),
                    interrupted: done.interrupted,
                    undoing: saga.phase == Phase::Undoing && position == 0,
                });
            }
        }
    }
    undos
}

/// The steps that are done, and the one at hand if it has begun.
fn would_be_done(saga: &Saga, current: Option<Data>) -> Vec<Done> {
    let mut done = saga.done.clone();
    if let (Phase::Doing, Some(_), Some(input)) = (saga.phase, saga.begun, current) {
        done.push(Done { step: saga.at, input, output: Data::NULL, interrupted: true });
    }
    done
}

/// True if the frame belongs to the undoing of a saga around it: it has to come to its end.
fn is_undoing(state: &State, branch: u32, place: usize) -> bool {
    let mut current = state.branch(branch).map(|branch| (branch, place));
    while let Some((branch, place)) = current {
        let undoes = |body: &Body| matches!(body, Body::Saga(saga) if saga.phase == Phase::Undoing);
        if branch.frames[..place].iter().any(|frame| undoes(&frame.body)) {
            return true;
        }
        current = branch.fork.and_then(|(parent, _)| state.branch(parent)).map(|b| (b, b.frames.len()));
    }
    false
}
