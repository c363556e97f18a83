//! Leaving a part of the instance, or all of it, with sagas inside.
//!
//! [`Turn::close`] tries what is to happen. If that would end a frame of an unsettled saga, it is taken back and put
//! off as a [`Closing`]: what it would end stands still, the sagas in it are settled, innermost first, and then it
//! is tried again. Where there is no saga it simply happens.

use super::{Ran, Turn};
use crate::{
    command::{Effect, Event, GivenUp},
    ir::SagaStep,
    saga::{Act, Closing, Cut, Phase, Saga},
    state::{Body, Ending, Next, State, WaitKind},
};
use std::collections::HashSet;

/// What a decision has come to, to go back to.
pub(super) struct Kept {
    state: State,
    effects: Vec<Effect>,
    events: Vec<Event>,
    todo: Vec<(u32, Next)>,
}

/// A saga's frame: its branch, its place there, its sequence.
type Place = (u32, usize, u64);

impl Turn<'_> {
    pub(super) fn kept(&self) -> Kept {
        Kept {
            state: self.state.clone(),
            effects: self.effects.clone(),
            events: self.events.clone(),
            todo: self.todo.clone(),
        }
    }

    pub(super) fn put_back_to(&mut self, kept: Kept) {
        self.state = kept.state;
        self.effects = kept.effects;
        self.events = kept.events;
        self.todo = kept.todo;
    }

    pub(super) fn has_saga(&self) -> bool {
        self.sagas().next().is_some()
    }

    fn sagas(&self) -> impl Iterator<Item = (Place, &Saga)> {
        self.state.branches.iter().flat_map(|branch| {
            branch.frames.iter().enumerate().filter_map(|(place, frame)| match &frame.body {
                Body::Saga(saga) => Some(((branch.id, place, frame.sequence), saga)),
                _ => None,
            })
        })
    }

    /// Does what ends frames, once the sagas among them are settled.
    pub(super) fn close(&mut self, act: Act) -> Ran<()> {
        if !self.has_saga() {
            return self.perform(act);
        }
        let before = self.kept();
        self.perform(act.clone())?;
        let all = act.ends_all();
        let stays: HashSet<u64> = match all {
            true => HashSet::new(),
            false => self.state.branches.iter().flat_map(|b| &b.frames).map(|f| f.sequence).collect(),
        };
        let branches: Vec<u32> = (before.state.branches.iter().map(|branch| branch.id))
            .filter(|id| all || self.state.branch(*id).is_none())
            .collect();
        let waits: HashSet<u64> = self.state.waits.iter().map(|wait| wait.token).collect();
        let frames = before.state.branches.iter().flat_map(|branch| &branch.frames);
        let frames: Vec<u64> = frames.map(|f| f.sequence).filter(|f| !stays.contains(f)).collect();
        let mut closing = Closing { act, frames, branches };
        let after = self.kept();
        self.put_back_to(before);
        self.forget_unmade(&closing);
        if let Act::Fail { branch, cut, .. } = closing.act {
            self.forget_failed_step(branch, cut, |frame| closing.frames.contains(&frame));
        }
        self.spare_sheltered(&mut closing);
        if self.unsettled(&closing).is_empty() {
            self.put_back_to(after);
            return Ok(());
        }
        self.put_off(closing, &waits);
        self.close_on()
    }

    fn perform(&mut self, act: Act) -> Ran<()> {
        match act {
            Act::Fail { branch, cut, fault } => return self.go_outwards(branch, cut, fault),
            Act::Win { branch, output } => self.win(branch, output),
            Act::Finish { output } => {
                self.state.closings.clear();
                self.end(Ending::completed(output));
            }
            Act::Fault { fault, given_up } => {
                self.state.closings.clear();
                self.stop(fault);
                self.effects.extend(given_up.map(Effect::DeadLetter));
            }
            Act::Cancel {} => {
                self.state.closings.clear();
                self.tell_all_steps("cancelled");
                self.end(Ending::cancelled());
            }
        }
        Ok(())
    }

    /// A call that this very decision would make is not made, so its step has not begun.
    fn forget_unmade(&mut self, closing: &Closing) {
        let made: HashSet<u64> = (self.effects.iter())
            .filter_map(|effect| matches!(effect, Effect::Call(_)).then(|| effect.token())?)
            .collect();
        let sagas = self.sagas().filter(|((_, _, frame), saga)| {
            closing.frames.contains(frame) && saga.begun.is_some_and(|token| made.contains(&token))
        });
        let unmade: Vec<Place> = sagas.map(|(place, _)| place).collect();
        for place in unmade {
            if !self.is_sheltered(place.0, Some(place.2), closing)
                && let Some(saga) = self.saga_mut(place)
            {
                saga.begun = None;
            }
        }
    }

    /// The step of a saga that faulted by itself is not done: it is undone only if a call of it is still under way.
    pub(super) fn forget_failed_step(&mut self, branch: u32, cut: Cut, ends: impl Fn(u64) -> bool) {
        let from = match cut {
            Cut::Nothing => None,
            Cut::Inside(frame) | Cut::With(frame) => Some(frame),
        };
        let sagas: Vec<Place> = self.sagas().map(|(place, _)| place).collect();
        for place in sagas.into_iter().filter(|place| ends(place.2)) {
            let under_way = self.state.waits.iter();
            let mut under_way = under_way.filter(|wait| is_under_way(wait.kind));
            let calls = under_way.any(|wait| self.is_inside(wait.branch, Some(wait.frame), place));
            if !calls
                && self.is_inside(branch, from, place)
                && let Some(saga) = self.saga_mut(place)
                && saga.phase == Phase::Doing
            {
                saga.begun = None;
            }
        }
    }

    /// True if the frame of that sequence (the innermost of the branch if none is named) is inside the saga.
    fn is_inside(&self, branch: u32, frame: Option<u64>, (owner, place, _): Place) -> bool {
        let mut at = (branch, frame);
        while let Some(own) = self.state.branch(at.0) {
            if own.id == owner {
                let position = match at.1 {
                    Some(frame) => own.frames.iter().position(|other| other.sequence == frame),
                    None => own.frames.len().checked_sub(1),
                };
                return position.is_some_and(|position| position > place);
            }
            let Some((parent, _)) = own.fork else { return false };
            // A fork is the innermost frame of its branch.
            at = (parent, None);
        }
        false
    }

    fn saga_mut(&mut self, (branch, place, _): Place) -> Option<&mut Saga> {
        match &mut self.state.branch_mut(branch)?.frames.get_mut(place)?.body {
            Body::Saga(saga) => Some(saga),
            _ => None,
        }
    }

    /// True if the saga is being undone, or only goes forward.
    fn is_busy(&self, (branch, place, _): Place, saga: &Saga) -> bool {
        saga.phase == Phase::Undoing || saga.is_past_pivot(self.steps_at(branch, place))
    }

    fn steps_at(&self, branch: u32, place: usize) -> &[SagaStep] {
        let frame = self.state.branch(branch).and_then(|branch| branch.frames.get(place));
        frame.and_then(|frame| frame.step).map_or(&[], |id| self.program.saga_steps(id))
    }

    /// The sagas the closing has to settle.
    fn unsettled(&self, closing: &Closing) -> Vec<Place> {
        let own = |place: &Place, saga: &Saga| closing.frames.contains(&place.2) && saga.is_unsettled();
        self.sagas().filter(|(place, saga)| own(place, saga)).map(|(place, _)| place).collect()
    }

    /// What is inside a saga at work is that saga's own affair.
    fn spare_sheltered(&self, closing: &mut Closing) {
        let all = self.state.branches.iter();
        let all = all.flat_map(|branch| branch.frames.iter().map(|frame| (branch.id, frame.sequence)));
        let spared: HashSet<u64> = all
            .filter(|(branch, frame)| self.is_sheltered(*branch, Some(*frame), closing))
            .map(|(_, frame)| frame)
            .collect();
        closing.frames.retain(|frame| !spared.contains(frame));
    }

    /// True if the frame is inside a saga at work that the closing waits for.
    fn is_sheltered(&self, branch: u32, frame: Option<u64>, closing: &Closing) -> bool {
        self.sagas().any(|(place, saga)| {
            closing.frames.contains(&place.2)
                && self.is_busy(place, saga)
                && self.is_inside(branch, frame, place)
        })
    }

    /// Remembers the closing and makes everything it ends stand still.
    fn put_off(&mut self, closing: Closing, waits: &HashSet<u64>) {
        if closing.act == (Act::Cancel {}) {
            self.note("workflow.cancelling", None, None);
        }
        let mut olds = std::mem::take(&mut self.state.closings);
        let there: HashSet<u64> =
            self.state.branches.iter().flat_map(|b| &b.frames).map(|frame| frame.sequence).collect();
        olds.iter_mut().for_each(|old| old.frames.retain(|frame| there.contains(frame)));
        // The wider closing does what the narrower one would have done.
        olds.retain(|old| !old.frames.iter().all(|frame| closing.frames.contains(frame)));
        let busy: Vec<u64> = self
            .sagas()
            .filter(|(place, saga)| self.is_busy(*place, saga))
            .map(|(place, _)| place.2)
            .collect();
        let ended: HashSet<u64> = (self.state.waits.iter())
            .filter(|wait| !waits.contains(&wait.token) || closing.frames.contains(&wait.frame))
            .filter(|wait| wait.frame == 0 || !self.is_sheltered(wait.branch, Some(wait.frame), &closing))
            .filter(|wait| wait.kind.is_limit() || !busy.contains(&wait.frame))
            .map(|wait| wait.token)
            .collect();
        self.drop_waits(|wait| ended.contains(&wait.token));
        self.state.closings = olds;
        self.state.closings.push(closing);
        for (branch, next) in std::mem::take(&mut self.todo) {
            match self.is_halted(branch) {
                true => self.state.branch_mut(branch).expect("a halted branch is there").next = Some(next),
                false => self.todo.push((branch, next)),
            }
        }
    }

    /// True if the frame ends with something that is put off.
    pub(super) fn is_left(&self, frame: u64) -> bool {
        self.state.closings.iter().any(|closing| closing.frames.contains(&frame))
    }

    /// True if the branch stands still until something that is put off happens.
    pub(super) fn is_halted(&self, branch: u32) -> bool {
        let Some(own) = self.state.branch(branch) else { return false };
        let top = own.frames.last().map(|frame| frame.sequence);
        self.state.closings.iter().any(|closing| {
            let ends = match top {
                Some(top) => closing.frames.contains(&top),
                None => closing.branches.contains(&branch),
            };
            let at_work = self.sagas().any(|(place, saga)| Some(place.2) == top && self.is_busy(place, saga));
            ends && !at_work && !self.is_sheltered(branch, top, closing)
        })
    }

    /// Goes on with what is put off: undoes the innermost sagas, and lets happen what waits for none.
    pub(super) fn close_on(&mut self) -> Ran<()> {
        let mut index = 0;
        while let Some(closing) = self.state.closings.get(index) {
            let open = self.unsettled(closing);
            let holds = |outer: Place| open.iter().any(|inner| self.is_inside(inner.0, Some(inner.2), outer));
            let idle = |place: &Place| {
                self.sagas().any(|(other, saga)| other == *place && !self.is_busy(other, saga))
            };
            match open.iter().copied().find(|place| idle(place) && !holds(*place)) {
                Some(place) => self.undo_saga(place.0, place.2)?,
                None if open.is_empty() => {
                    let closing = self.state.closings.remove(index);
                    self.close(closing.act)?;
                    index = 0;
                }
                None => index += 1,
            }
        }
        Ok(())
    }

    /// A fault that came from inside the saga goes on from the saga.
    pub(super) fn anchor(&mut self, branch: u32, frame: u64) {
        let there: HashSet<u64> =
            self.state.branches.iter().flat_map(|b| &b.frames).map(|frame| frame.sequence).collect();
        let branches: HashSet<u32> = self.state.branches.iter().map(|branch| branch.id).collect();
        for closing in &mut self.state.closings {
            if !closing.frames.contains(&frame) {
                continue;
            }
            if let Act::Fail { branch: from, cut, .. } = &mut closing.act {
                let gone = match cut {
                    Cut::Nothing => !branches.contains(from),
                    Cut::Inside(frame) | Cut::With(frame) => !there.contains(frame),
                };
                if gone {
                    (*from, *cut) = (branch, Cut::Inside(frame));
                }
            }
        }
    }

    /// Where the call that will fault the instance is remembered until it does.
    pub(super) fn fault_closing(&mut self) -> Option<&mut Option<GivenUp>> {
        self.state.closings.iter_mut().find_map(|closing| match &mut closing.act {
            Act::Fault { given_up, .. } => Some(given_up),
            _ => None,
        })
    }
}

/// True for waits that stand for something outside which may have an effect.
fn is_under_way(kind: WaitKind) -> bool {
    matches!(kind, WaitKind::Call | WaitKind::Child | WaitKind::Map)
}
