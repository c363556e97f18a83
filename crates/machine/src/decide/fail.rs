//! Faults: looking outwards for a catch, joining forks, and faulting the instance when nobody catches.

use super::{Ran, Turn, ending::fault_detail, eval::Stop};
use crate::{
    command::{Effect, Incident},
    data::Data,
    fault::{Fault, Kind},
    ir,
    saga::{Act, Cut},
    state::{Body, Ending, Joined, Next, Wait, WaitKind},
};

/// What became of a fault.
pub(super) enum Fate {
    Handled,
    Uncaught(Fault),
    /// It stops at a saga that must not be left and cannot go on.
    Stuck(Incident),
}

impl Turn<'_> {
    /// A step of `branch` faulted. Unwinds to the nearest catch; if there is none the instance faults and keeps
    /// its frames, so that an operator can run the faulted step again.
    pub(super) fn fail(&mut self, branch: u32, fault: Fault) -> Ran<()> {
        self.fail_from(branch, Cut::Nothing, fault)
    }

    /// A limit was reached: the frame it bounds ends, with all inside it.
    pub(super) fn timed_out(&mut self, wait: &Wait) -> Ran<()> {
        let step = self.frame_step(wait.branch, wait.frame);
        let what = match (step, wait.kind) {
            (None, _) => "the workflow",
            (Some(_), WaitKind::AttemptTimeout) => "an attempt",
            (Some(_), _) => "the step",
        };
        let mut fault = Fault::new(Kind::Timeout, format!("{what} took longer than its limit"));
        fault.instance = Some(step.map_or("/".to_owned(), |id| self.program.step(id).reference.clone()));
        match (wait.frame, wait.kind) {
            (0, _) => self.fault_workflow(fault),
            // The try frame itself stays: its own catch takes the fault.
            (frame, WaitKind::AttemptTimeout) => self.fail_from(wait.branch, Cut::Inside(frame), fault),
            (frame, _) => self.fail_from(wait.branch, Cut::With(frame), fault),
        }
    }

    fn top_sequence(&self, branch: u32) -> Option<u64> {
        self.state.branch(branch)?.frames.last().map(|frame| frame.sequence)
    }

    fn frame_step(&self, branch: u32, sequence: u64) -> Option<ir::StepId> {
        let branch = self.state.branch(branch)?;
        branch.frames.iter().find(|frame| frame.sequence == sequence)?.step
    }

    fn fail_from(&mut self, branch: u32, cut: Cut, mut fault: Fault) -> Ran<()> {
        let at = self.state.branch(branch).and_then(|branch| branch.frames.last()?.step);
        if fault.instance.is_none() {
            fault.instance = at.map(|id| self.program.step(id).reference.clone());
        }
        self.note_at(branch, "step.faulted", at, Some(fault_detail(&fault)));
        self.tell_step("faulted", at, &[("error", fault.to_data())]);
        self.close(Act::Fail { branch, cut, fault })
    }

    /// Unwinds; what nobody catches faults the workflow where it stands.
    pub(super) fn go_outwards(&mut self, branch: u32, cut: Cut, fault: Fault) -> Ran<()> {
        let before = self.kept();
        match self.unwind(branch, cut, fault)? {
            Fate::Handled => Ok(()),
            Fate::Uncaught(fault) => {
                self.put_back_to(before);
                self.forget_failed_step(branch, cut, |_| true);
                self.fault_workflow(fault)
            }
            Fate::Stuck(incident) => {
                self.put_back_to(before);
                self.stop(incident.fault.clone());
                self.effects.push(Effect::Incident(incident));
                Ok(())
            }
        }
    }

    /// Pops frames outwards until something takes the fault.
    fn unwind(&mut self, mut branch: u32, cut: Cut, mut fault: Fault) -> Ran<Fate> {
        let faulted = self.state.branch(branch).and_then(|branch| branch.frames.last()?.step);
        if let Cut::Inside(sequence) | Cut::With(sequence) = cut {
            while self.top_sequence(branch).is_some_and(|top| top != sequence) {
                let cancelled = self.left(branch, faulted);
                self.tell_step("cancelled", cancelled, &[]);
            }
            if let Cut::With(_) = cut {
                self.left(branch, faulted);
            }
        }
        loop {
            let Some(own) = self.state.branch_mut(branch) else { return Ok(Fate::Handled) };
            // A hop that was put off belongs to a step that ends now.
            own.next = None;
            let Some(top) = own.frames.last() else {
                match self.branch_failed(branch, fault) {
                    None => return Ok(Fate::Handled),
                    Some((parent, outward)) => {
                        self.left(parent, faulted);
                        branch = parent;
                        fault = outward;
                        continue;
                    }
                }
            };
            if top.step.is_none() {
                return Ok(Fate::Uncaught(fault));
            }
            if let Some(fate) = self.stop_at_saga(branch, &fault)? {
                return Ok(fate);
            }
            match self.try_catch(branch, &fault) {
                Ok(true) => return Ok(Fate::Handled),
                Ok(false) => {}
                Err(Stop::Needs(evaluation)) => return Err(evaluation),
                Err(Stop::Fault(other)) => fault = self.located(branch, other),
            }
            self.left(branch, faulted);
        }
    }

    /// Leaves the branch's top step because of a fault; unless that was its own, history says that it ended.
    fn left(&mut self, branch: u32, faulted: Option<ir::StepId>) -> Option<ir::StepId> {
        let step = self.state.branch(branch).and_then(|branch| branch.frames.last()?.step);
        let own = step.map(|id| match self.program.step(id).kind {
            ir::Kind::Function { task, .. } if faulted == Some(task) => task,
            _ => id,
        });
        if own.is_some() && own != faulted && !self.is_function_task(branch) {
            self.note_at(branch, "step.cancelled", step, None);
        }
        self.pop_frame(branch);
        step
    }

    /// The fault with the reference of the branch's top step, unless it has one.
    fn located(&self, branch: u32, mut fault: Fault) -> Fault {
        if fault.instance.is_none() {
            let step = self.state.branch(branch).and_then(|branch| branch.frames.last()?.step);
            fault.instance = step.map(|id| self.program.step(id).reference.clone());
        }
        fault
    }

    /// A fork branch failed. Answers the parent branch and the fault to go on with, or `None` if a competing
    /// branch may still win.
    fn branch_failed(&mut self, branch: u32, fault: Fault) -> Option<(u32, Fault)> {
        let (parent, position) = self.state.branch(branch)?.fork?;
        self.remove_branch(branch);
        let compete = self.fork_competes(parent);
        let Body::Fork { joined } = &mut self.top_mut(parent).body else { return Some((parent, fault)) };
        joined[position as usize] = Joined::Failed { fault: fault.clone() };
        if compete && joined.iter().any(|branch| matches!(branch, Joined::Running)) {
            return None;
        }
        Some((parent, fault))
    }

    pub(super) fn fork_competes(&self, parent: u32) -> bool {
        let step = self.top(parent).step.map(|id| &self.program.step(id).kind);
        matches!(step, Some(ir::Kind::Fork { compete: true, .. }))
    }

    /// A fork branch came to its end.
    pub(super) fn branch_done(&mut self, branch: u32, output: Data) -> Ran<()> {
        let Some((parent, position)) = self.state.branch(branch).and_then(|branch| branch.fork) else {
            return Ok(());
        };
        if self.fork_competes(parent) {
            return self.close(Act::Win { branch, output });
        }
        let context = self.context(branch).clone();
        self.remove_branch(branch);
        let Body::Fork { joined } = &mut self.top_mut(parent).body else { return Ok(()) };
        joined[position as usize] = Joined::Done { output, context };
        let mut outputs = Vec::with_capacity(joined.len());
        let mut contexts = Vec::with_capacity(joined.len());
        for branch in joined.iter() {
            let Joined::Done { output, context } = branch else { return Ok(()) };
            outputs.push(output.clone());
            contexts.push(context.clone());
        }
        let merged = merge_contexts(self.context(parent).clone(), contexts);
        self.set_context(parent, merged);
        self.push(parent, Next::Complete { output: Data::array(outputs), then: None });
        Ok(())
    }

    /// The branch was the first of its fork to end: the others end too.
    pub(super) fn win(&mut self, branch: u32, output: Data) {
        let Some((parent, _)) = self.state.branch(branch).and_then(|branch| branch.fork) else { return };
        let context = self.context(branch).clone();
        self.cancel_children(parent);
        self.set_context(parent, context);
        self.push(parent, Next::Complete { output, then: None });
    }

    pub(super) fn cancel_children(&mut self, parent: u32) {
        let children: Vec<u32> = self
            .state
            .branches
            .iter()
            .filter(|branch| branch.fork.is_some_and(|(of, _)| of == parent))
            .map(|branch| branch.id)
            .collect();
        for child in children {
            self.remove_branch(child);
        }
    }

    fn remove_branch(&mut self, branch: u32) {
        self.cancel_children(branch);
        self.tell_steps("cancelled", branch);
        self.drop_waits(|wait| wait.branch == branch);
        self.todo.retain(|(of, _)| *of != branch);
        self.state.branches.retain(|other| other.id != branch);
    }

    /// The instance faults, after its sagas are undone.
    pub(super) fn fault_workflow(&mut self, fault: Fault) -> Ran<()> {
        self.close(Act::Fault { fault, given_up: None })
    }

    /// The instance stops where it stands. Frames stay for `Retry`; hops that were about to be made are remembered.
    pub(super) fn stop(&mut self, fault: Fault) {
        for (branch, next) in std::mem::take(&mut self.todo) {
            if let Some(branch) = self.state.branch_mut(branch) {
                branch.next = Some(next);
            }
        }
        self.end(Ending::faulted(fault));
    }
}

/// Each branch worked on its own copy: what a branch changed wins over what was there, later branches over earlier.
fn merge_contexts(base: Data, contexts: Vec<Data>) -> Data {
    let mut merged = base.clone();
    for context in contexts {
        if context == base {
            continue;
        }
        merged = match (merged.entries(), context.entries()) {
            (Some(mut entries), Some(changed)) => {
                for (key, value) in changed {
                    if base.get(&key).as_ref() == Some(&value) {
                        continue;
                    }
                    match entries.iter_mut().find(|(name, _)| *name == key) {
                        Some(entry) => entry.1 = value,
                        None => entries.push((key, value)),
                    }
                }
                Data::map(entries)
            }
            _ => context,
        };
    }
    merged
}
