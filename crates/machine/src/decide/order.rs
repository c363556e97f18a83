//! What operators order: cancel, pause, resume, retry.

use super::{Enter, Ran, Turn};
use crate::{
    command::Command,
    data::Data,
    state::{BUFFER_MAX, Body, Phase, ROOT, Status},
};

impl Turn<'_> {
    pub(super) fn cancel(&mut self) -> bool {
        self.end(Status::Cancelled);
        self.note("workflow.cancelled", None, None);
        true
    }

    pub(super) fn pause(&mut self) -> bool {
        self.state.status = Status::Paused;
        self.note("workflow.paused", None, None);
        true
    }

    /// Keeps what comes in while paused; it is obeyed in order on resume.
    pub(super) fn park(&mut self, command: &Command) -> bool {
        let answers_wait = matches!(
            command,
            Command::Timer { .. }
                | Command::Continue { .. }
                | Command::CallDone { .. }
                | Command::CallFailed { .. }
                | Command::TaskDone { .. }
                | Command::Signal { .. }
        );
        if !answers_wait || self.state.buffer.contains(command) || self.state.buffer.len() >= BUFFER_MAX {
            return false;
        }
        self.state.buffer.push(command.clone());
        self.note("command.parked", None, None);
        true
    }

    pub(super) fn resume(&mut self) -> Ran<bool> {
        self.state.status = Status::Open;
        self.note("workflow.resumed", None, None);
        for command in std::mem::take(&mut self.state.buffer) {
            match self.state.status {
                Status::Open => self.answer_wait(&command).map(|_| ())?,
                _ => self.state.buffer.push(command),
            }
            self.run()?;
        }
        Ok(true)
    }

    /// Runs the faulted step again, and every other step that was interrupted by the fault.
    pub(super) fn retry_failed(&mut self) -> bool {
        let error = self.state.error.take();
        self.state.failed_branch = None;
        self.state.status = Status::Open;
        let detail = error.map(|error| Data::map([("error".to_owned(), error.to_data())]));
        self.note("workflow.retried", None, detail);
        let ids: Vec<u32> = self.state.branches.iter().map(|branch| branch.id).collect();
        let mut entries: Vec<Enter> = ids.into_iter().filter_map(|id| self.reenter(id)).collect();
        if entries.is_empty() {
            // The end of the workflow itself faulted from inside a nested list: begin its list again.
            self.state.branches.retain(|branch| branch.id == ROOT);
            self.state.branches[0].frames.truncate(1);
            let data = self.state.branches[0].frames[0].raw.clone();
            entries.extend(self.restart_root(ROOT, data));
        }
        self.todo.extend(entries.into_iter().rev());
        true
    }

    /// What a branch of a faulted instance has to enter again: the step it was about to enter, or the step that
    /// was cut off. `None` if it only holds branches that do.
    fn reenter(&mut self, id: u32) -> Option<Enter> {
        if let Some(data) = self.state.branch_mut(id)?.pending.take() {
            return self.next_step(id).map(|step| Enter { branch: id, step, data });
        }
        let top = self.state.branch(id)?.frames.last()?;
        let cut_off = match &top.body {
            Body::Leaf => true,
            Body::Fork { .. } => !self.has_children(id),
            Body::Try(attempt) if attempt.phase == Phase::BackingOff => true,
            // Its list is done: its own arithmetic faulted on the way out.
            Body::List(_) | Body::For { .. } | Body::Try(_) => self.next_step(id).is_none(),
        };
        if !cut_off {
            return None;
        }
        if top.step.is_none() {
            let data = top.raw.clone();
            return self.restart_root(id, data);
        }
        let frame = self.state.branch_mut(id)?.frames.pop()?;
        Some(Enter { branch: id, step: frame.step?, data: frame.raw })
    }

    fn has_children(&self, branch: u32) -> bool {
        self.state.branches.iter().any(|other| other.fork.is_some_and(|(of, _)| of == branch))
    }

    /// The workflow's own `output.as` faulted: its list runs again from the top.
    fn restart_root(&mut self, branch: u32, data: Data) -> Option<Enter> {
        let frame = self.top_mut(branch);
        if let Body::List(cursor) = &mut frame.body {
            cursor.at = 0;
            cursor.jumps += 1;
        }
        let data = frame.input.clone().unwrap_or(data);
        self.next_step(branch).map(|step| Enter { branch, step, data })
    }
}
