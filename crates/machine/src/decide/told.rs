//! Events addressed to nobody, told to one wait: taken now, kept while the step is busy with another, or not wanted.
//!
//! They are never kept for waits to come: whoever published them keeps them for that.

use super::{Ran, Turn};
use crate::{
    command::Command,
    data::Data,
    ir::Kind,
    state::{Next, SIGNALS_MAX, WaitKind},
};
use uuid::Uuid;

impl Turn<'_> {
    /// Offers the event to the wait. `false` if the wait is gone or does not want it.
    pub(super) fn told(&mut self, token: u64, id: Uuid, event: &Data) -> Ran<bool> {
        let program = self.program;
        let wait = self.state.waits.iter().find(|wait| wait.token == token && wait.kind == WaitKind::Event);
        let Some(wait) = wait.cloned() else { return Ok(false) };
        let top = self.top(wait.branch);
        let Some(step) = top.step.filter(|_| top.sequence == wait.frame) else {
            // An iteration over an earlier event goes on.
            return Ok(self.keep_told(token, id, event));
        };
        let Kind::Listen { to, .. } = &program.step(step).kind else { return Ok(false) };
        let takes = self.consume(wait.branch, step, to, id, event)?;
        if takes {
            self.push(wait.branch, Next::Iterate { data: Data::NULL });
        }
        Ok(takes)
    }

    /// Keeps an event for a wait that cannot take it now. `false` if it is kept already or there is no room.
    pub(super) fn keep_told(&mut self, token: u64, id: Uuid, event: &Data) -> bool {
        let command = Command::Event { id, event: event.clone(), token };
        let kept = |kept: &&Command| matches!(kept, Command::Signal { .. } | Command::Event { .. });
        if self.state.buffer.contains(&command) {
            return false;
        }
        self.full = self.state.buffer.iter().filter(kept).count() >= SIGNALS_MAX;
        if !self.full {
            self.state.buffer.push(command);
        }
        !self.full
    }

    /// The buffered message at `position`, if the listen step on top of `branch` may take it.
    pub(super) fn heard(&self, branch: u32, position: usize) -> Option<(Uuid, Data)> {
        match &self.state.buffer[position] {
            Command::Signal { id, event } => Some((*id, event.clone())),
            Command::Event { id, event, token } => {
                let frame = self.top(branch).sequence;
                let own = self.state.waits.iter().any(|wait| wait.token == *token && wait.frame == frame);
                own.then(|| (*id, event.clone()))
            }
            _ => None,
        }
    }

    /// Forgets kept events whose wait is gone.
    pub(super) fn forget_told(&mut self) {
        let waits = &self.state.waits;
        let waited = |token: u64| waits.iter().any(|wait| wait.token == token);
        self.state.buffer.retain(|kept| match kept {
            Command::Event { token, .. } => waited(*token),
            _ => true,
        });
    }
}
