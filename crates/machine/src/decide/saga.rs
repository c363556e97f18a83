//! Sagas: steps done in order, undone in reverse.
//!
//! What makes a saga be undone is in `close`. Here is how it goes forward and back, and what becomes of a step that
//! fails where the saga must not stop: it is tried again by its policy, and then it is an incident.

use super::{
    Ran, Turn,
    eval::{Stop, affordable},
    fail::Fate,
};
use crate::{
    command::Incident,
    data::Data,
    fault::Fault,
    ir::{SagaStep, StepId},
    saga::{Done, Phase, Saga},
    state::{Body, Frame, Next},
};

impl<'a> Turn<'a> {
    pub(super) fn begin_saga(&mut self, branch: u32, steps: &[SagaStep], input: Data) -> Result<(), Stop> {
        self.top_mut(branch).body = Body::Saga(Saga {
            phase: Phase::Doing,
            at: 0,
            done: Vec::with_capacity(steps.len()),
            round: self.state.undone,
            begun: None,
            retries: 0,
            since: self.now,
            error: None,
        });
        if steps.is_empty() {
            return self.done(branch, Data::object(), None);
        }
        self.push(branch, Next::Enter { data: input });
        Ok(())
    }

    /// The steps of the saga that is the branch's innermost step; none if that is something else.
    pub(super) fn saga_steps(&self, branch: u32) -> &'a [SagaStep] {
        let top = self.state.branch(branch).and_then(|branch| branch.frames.last());
        top.and_then(|frame| frame.step).map_or(&[], |id| self.program.saga_steps(id))
    }

    /// The step of the definition that the saga is at.
    pub(super) fn saga_step(&self, branch: u32, saga: &Saga) -> Option<StepId> {
        let steps = self.saga_steps(branch);
        match saga.phase {
            Phase::Doing => steps.get(saga.at as usize).map(|step| step.r#do),
            Phase::Undoing => steps.get(saga.done.last()?.step as usize)?.undo,
            Phase::Undone | Phase::Done => None,
        }
    }

    fn top_saga(&mut self, branch: u32) -> Option<&mut Saga> {
        match &mut self.state.branch_mut(branch)?.frames.last_mut()?.body {
            Body::Saga(saga) => Some(saga),
            _ => None,
        }
    }

    /// Enters the step the saga is at: its `do` sees the saga's input, its `undo` what was done.
    pub(super) fn enter_saga_step(&mut self, branch: u32) {
        let input = self.top(branch).input().clone();
        let Some(saga) = self.top_saga(branch) else { return };
        let data = match (saga.phase, saga.done.last()) {
            (Phase::Undoing, Some(done)) => done.to_data(),
            _ => input,
        };
        self.push(branch, Next::Enter { data });
    }

    /// Something is done for the outside by the steps the branch is inside of. What undoes a step is no effect of
    /// the steps around.
    pub(super) fn mark_begun(&mut self, branch: u32, token: u64) {
        let mut current = Some(branch);
        while let Some(own) = current.and_then(|id| self.state.branch_mut(id)) {
            for frame in own.frames.iter_mut().rev() {
                match &mut frame.body {
                    Body::Saga(saga) if saga.phase == Phase::Doing => {
                        saga.begun.get_or_insert(token);
                    }
                    Body::Saga(_) => return,
                    _ => {}
                }
            }
            current = own.fork.map(|(parent, _)| parent);
        }
    }

    /// A step of the saga came to its end.
    pub(super) fn saga_step_done(&mut self, branch: u32, frame: &Frame, output: Data) -> Result<(), Stop> {
        let steps = self.saga_steps(branch);
        let now = self.now;
        let left = self.is_left(self.top(branch).sequence);
        let Some(saga) = self.top_saga(branch) else { return Ok(()) };
        (saga.retries, saga.since, saga.error) = (0, now, None);
        if saga.phase == Phase::Undoing {
            saga.done.pop();
            self.state.undone += 1;
            return self.undo_next(branch).map_err(Stop::Needs);
        }
        saga.done.push(Done { step: saga.at, input: frame.input().clone(), output, interrupted: false });
        saga.at += 1;
        saga.begun = None;
        let kept = Data::array(saga.done.iter().map(Done::to_data));
        if (saga.at as usize) < steps.len() {
            affordable(&kept)?;
            self.enter_saga_step(branch);
            return Ok(());
        }
        let output = saga.output(steps);
        if !left {
            affordable(&kept)?;
            return self.done(branch, output, None);
        }
        // It could only go forward, and the instance leaves it: what waited for this happens now.
        saga.phase = Phase::Done;
        self.close_on().map_err(Stop::Needs)
    }

    /// Begins to undo: what the saga is in the middle of ends.
    pub(super) fn undo_saga(&mut self, branch: u32, sequence: u64) -> Ran<()> {
        let own = self.state.branch(branch).map_or(&[][..], |branch| &branch.frames);
        let place = own.iter().position(|frame| frame.sequence == sequence).unwrap_or_default();
        let input = own.get(place + 1).map(|frame| frame.input().clone());
        while self.top(branch).sequence != sequence {
            self.pop_frame(branch);
        }
        let now = self.now;
        self.todo.retain(|(of, _)| *of != branch);
        if let Some(own) = self.state.branch_mut(branch) {
            own.next = None;
        }
        self.anchor(branch, sequence);
        let Some(saga) = self.top_saga(branch) else { return Ok(()) };
        if let (Some(_), Some(input)) = (saga.begun.take(), input) {
            saga.done.push(Done { step: saga.at, input, output: Data::NULL, interrupted: true });
        }
        saga.phase = Phase::Undoing;
        (saga.retries, saga.since, saga.error) = (0, now, None);
        self.note("saga.undoing", self.top(branch).step, None);
        self.undo_next(branch)
    }

    /// Undoes the last step that is done, or leaves the saga to whatever waits for it.
    fn undo_next(&mut self, branch: u32) -> Ran<()> {
        let steps = self.saga_steps(branch);
        let Some(saga) = self.top_saga(branch) else { return Ok(()) };
        while let Some(done) = saga.done.last() {
            if steps.get(done.step as usize).is_some_and(|step| step.undo.is_some()) {
                self.enter_saga_step(branch);
                return Ok(());
            }
            saga.done.pop();
        }
        saga.phase = Phase::Undone;
        self.note("saga.undone", self.top(branch).step, None);
        self.close_on()
    }

    /// A fault came to the branch's innermost step. `None` if that is no saga, or one that can be left.
    pub(super) fn stop_at_saga(&mut self, branch: u32, fault: &Fault) -> Ran<Option<Fate>> {
        let steps = self.saga_steps(branch);
        let top = self.top(branch);
        let (sequence, input) = (top.sequence, top.input().clone());
        let left = self.is_left(sequence);
        let Some(saga) = self.top_saga(branch) else { return Ok(None) };
        let undoing = saga.phase == Phase::Undoing;
        if !undoing {
            // The step at hand failed: if it was to be the pivot, there is a way back after all.
            saga.begun = None;
        }
        if !undoing && !saga.is_past_pivot(steps) {
            if left {
                self.close_on()?;
                return Ok(Some(Fate::Handled));
            }
            return Ok(None);
        }
        saga.error = Some(fault.clone());
        let (retries, since) = (saga.retries, saga.since);
        let current = if undoing { saga.done.last().map_or(saga.at, |done| done.step) } else { saga.at };
        let data = saga.done.last().filter(|_| undoing).map_or(input, Done::to_data);
        let Some(step) = steps.get(current as usize) else {
            return Ok(Some(Fate::Stuck(self.incident(None, 1, fault, data))));
        };
        let id = step.undo.filter(|_| undoing).unwrap_or(step.r#do);
        match self.wait_to_retry(branch, id, &step.retry, (retries, since), &data) {
            Ok(true) => {
                if let Some(saga) = self.top_saga(branch) {
                    saga.retries += 1;
                }
                Ok(Some(Fate::Handled))
            }
            Err(Stop::Needs(evaluation)) => Err(evaluation),
            Ok(false) | Err(Stop::Fault(_)) => {
                Ok(Some(Fate::Stuck(self.incident(Some(id), retries + 1, fault, data))))
            }
        }
    }

    fn incident(&self, id: Option<StepId>, attempts: u32, fault: &Fault, input: Data) -> Incident {
        let step = id.map(|id| self.program.step(id).reference.clone());
        Incident {
            step: step.or(fault.instance.clone()).unwrap_or_default(),
            attempts,
            fault: fault.clone(),
            input,
        }
    }
}
