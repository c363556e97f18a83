//! How an instance comes to its end.
//!
//! An end is decided first ([`Turn::end`]) and reached as soon as nothing has to finish before it
//! ([`Turn::settle_end`]). In between the instance is *closing*: it is open, [`State::ending`](crate::State::ending)
//! says what it will come to, and the only waits left are those that must end first. Whoever has something to finish
//! keeps a wait through `drop_waits` (or makes one right after `end`) and calls `settle_end` when it is over.

use super::{Ran, Turn};
use crate::{
    command::{Command, Effect},
    data::Data,
    fault::Fault,
    saga::Act,
    state::{Ending, Status},
};

impl Turn<'_> {
    /// Decides that the instance ends. Nothing it was doing goes on; frames stay for `Retry` if it faults.
    pub(super) fn end(&mut self, ending: Ending) {
        self.drop_waits(|_| true);
        self.effects.retain(|effect| !matches!(effect, Effect::Continue { .. }));
        self.todo.clear();
        if ending.status != Status::Faulted {
            self.state.branches.clear();
        }
        // What a wait that is left stands for may have come while the instance was paused.
        let parked = std::mem::take(&mut self.state.buffer);
        self.state.waits.retain(|wait| !parked.iter().any(|command| command.token() == Some(wait.token)));
        self.state.buffer = parked;
        self.state.status = Status::Open;
        self.state.ending = Some(Box::new(ending));
        self.settle_end();
        if self.state.ending.is_some() {
            self.note("workflow.closing", None, None);
        }
    }

    /// Reaches the end that was decided, if nothing has to finish before it.
    pub(super) fn settle_end(&mut self) {
        if !self.state.waits.is_empty() {
            return;
        }
        let Some(ending) = self.state.ending.take() else { return };
        let Ending { status, output, error } = *ending;
        let (kind, detail) = match (status, &error) {
            (Status::Completed, _) => ("workflow.completed", None),
            (Status::Faulted, Some(fault)) => ("workflow.faulted", Some(fault_detail(fault))),
            (Status::Faulted, None) => ("workflow.faulted", None),
            _ => ("workflow.cancelled", None),
        };
        // A faulted instance may be run again, so it keeps what it was told.
        if status != Status::Faulted {
            self.forget_buffer();
        }
        self.note(kind, None, detail);
        match (&output, &error) {
            (Some(output), _) => self.tell_workflow("completed", &[("output", output.clone())]),
            (_, Some(error)) => self.tell_workflow("faulted", &[("error", error.to_data())]),
            _ => self.tell_workflow("cancelled", &[]),
        }
        self.state.status = status;
        self.state.output = output;
        self.state.error = error;
    }

    /// Nothing will be obeyed any more. Signals were acknowledged, so none goes without a word.
    pub(super) fn forget_buffer(&mut self) {
        for command in std::mem::take(&mut self.state.buffer) {
            if let Command::Signal { id, event } = command {
                self.note_unmatched(id, &event);
            }
        }
    }

    /// Cancels, unless that is what the instance is coming to anyway. Sagas are undone first.
    pub(super) fn cancel(&mut self) -> Ran<bool> {
        if self.state.is_cancelling() {
            return Ok(false);
        }
        match &mut self.state.ending {
            // A saga that cannot go on must not be forgotten: it is run again first.
            Some(_) if !self.state.closings.is_empty() => return Ok(false),
            Some(ending) => {
                **ending = Ending::cancelled();
                self.tell_all_steps("cancelled");
                self.state.branches.clear();
                self.note("workflow.closing", None, None);
            }
            None => {
                // What came in while paused says which steps of a saga are done.
                if self.state.status == Status::Paused && self.has_saga() {
                    self.resume()?;
                }
                if !self.state.status.is_ended() && self.state.ending.is_none() {
                    self.close(Act::Cancel {})?;
                }
            }
        }
        Ok(true)
    }
}

pub(super) fn fault_detail(fault: &Fault) -> Data {
    Data::map([("error".to_owned(), fault.to_data())])
}
