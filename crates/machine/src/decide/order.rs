//! What operators order: pause, resume, retry. Cancelling is an `ending`.

use super::{Ran, Turn, eval::Stop};
use crate::{
    child::Tally,
    command::Command,
    data::Data,
    ir::Kind,
    saga,
    state::{Body, Listening, Next, Phase, Status, WaitKind},
};

impl Turn<'_> {
    pub(super) fn pause(&mut self) -> bool {
        self.state.status = Status::Paused;
        self.note("workflow.paused", None, None);
        self.tell_all_steps("suspended");
        self.tell_workflow("suspended", &[]);
        true
    }

    /// `false` if nothing waits for what was given up any more: it must not be done then.
    pub(super) fn put_back(&mut self, token: u64) -> bool {
        let Some(wait) = self.state.waits.iter().find(|wait| wait.token == token) else { return false };
        let step =
            self.state.branch(wait.branch).and_then(|branch| branch.frames.last()).and_then(|f| f.step);
        self.note("dead-letter.replayed", step, None);
        true
    }

    /// Whatever the instance has come to: history says what became of what was given up.
    pub(super) fn letter_taken(&mut self, replayed: bool) -> bool {
        self.note(if replayed { "dead-letter.replayed" } else { "dead-letter.discarded" }, None, None);
        true
    }

    /// Keeps what comes in while paused; it is obeyed on resume.
    pub(super) fn park(&mut self, command: &Command) -> bool {
        let answers_wait = matches!(
            command,
            Command::Timer { .. }
                | Command::Continue { .. }
                | Command::CallDone { .. }
                | Command::CallFailed { .. }
                | Command::TaskDone { .. }
                | Command::ChildStarted { .. }
                | Command::ChildDone { .. }
                | Command::Items { .. }
                | Command::Signal { .. }
                | Command::Event { .. }
        );
        // A child is started with the command that says so: only if it is still waited for.
        let needs_wait = match command {
            Command::ChildStarted { token } | Command::ChildDone { token, .. } => Some(*token),
            Command::Items { token, .. } => Some(*token),
            _ => None,
        };
        if !answers_wait || needs_wait.is_some_and(|token| !self.waits_for(token)) {
            return false;
        }
        if let Command::Items { token, tally } = command {
            return self.park_items(*token, tally);
        }
        if self.state.buffer.contains(command) {
            return false;
        }
        match command {
            Command::Signal { id, event } => self.keep_signal(*id, event),
            Command::Event { id, event, token } => self.keep_told(*token, *id, event),
            command => {
                self.state.buffer.push(command.clone());
                self.note("command.parked", None, None);
                true
            }
        }
    }

    fn waits_for(&self, token: u64) -> bool {
        self.state.waits.iter().any(|wait| wait.token == token)
    }

    /// Children that end while paused are counted together: there may be many.
    fn park_items(&mut self, token: u64, tally: &Tally) -> bool {
        let parked = self.state.buffer.iter_mut().find_map(|parked| match parked {
            Command::Items { token: of, tally } if *of == token => Some(tally),
            _ => None,
        });
        match parked {
            Some(parked) => parked.add(tally),
            None => self.state.buffer.push(Command::Items { token, tally: tally.clone() }),
        }
        self.note("command.parked", None, None);
        true
    }

    pub(super) fn resume(&mut self) -> Ran<bool> {
        self.state.status = Status::Open;
        self.note("workflow.resumed", None, None);
        self.tell_workflow("resumed", &[]);
        self.tell_all_steps("resumed");
        let (timers, answers): (Vec<Command>, Vec<Command>) = std::mem::take(&mut self.state.buffer)
            .into_iter()
            .partition(|command| matches!(command, Command::Timer { .. }));
        // Answers first: a person was told that the task is done, so no limit that passed meanwhile may undo it.
        for command in answers.into_iter().chain(timers) {
            match self.state.status {
                Status::Open => self.answer_wait(&command).map(|_| ())?,
                _ => self.state.buffer.push(command),
            }
            self.run()?;
        }
        if matches!(self.state.status, Status::Completed | Status::Cancelled) {
            self.forget_buffer();
        }
        Ok(true)
    }

    /// Makes the hop that faulted again, and every other that the fault cut off; nothing before them. Limits of the
    /// steps around begin anew.
    pub(super) fn retry_failed(&mut self) -> Ran<bool> {
        let ids: Vec<u32> = self.state.branches.iter().map(|branch| branch.id).collect();
        let hops: Vec<(u32, Next)> = ids.iter().filter_map(|id| Some((*id, self.cut_off(*id)?))).collect();
        if hops.is_empty() {
            return Ok(false);
        }
        self.state.status = Status::Open;
        let error = self.state.error.take();
        let detail = error.map(|error| Data::map([("error".to_owned(), error.to_data())]));
        self.note("workflow.retried", None, detail);
        for id in ids {
            self.limit_again(id)?;
        }
        for frame in self.state.branches.iter_mut().flat_map(|branch| &mut branch.frames) {
            if let Body::Saga(saga) = &mut frame.body {
                saga.retries = 0;
            }
        }
        for (id, hop) in &hops {
            self.note_function_again(*id, hop);
        }
        self.todo.extend(hops.into_iter().rev());
        Ok(true)
    }

    /// The task of a function is told of as the step that calls it, which is not entered again.
    fn note_function_again(&mut self, id: u32, hop: &Next) {
        let caller = self.state.branch(id).and_then(|branch| branch.frames.last());
        let caller = caller.filter(|frame| self.program.calls_function(frame)).and_then(|frame| frame.step);
        if let (Next::Enter { .. }, Some(caller)) = (hop, caller) {
            self.note_at(id, "step.started", Some(caller), None);
            self.tell_step("started", Some(caller), &[]);
        }
    }

    /// The hop a branch of a faulted instance has to make again. `None` if it only holds branches that do.
    fn cut_off(&mut self, id: u32) -> Option<Next> {
        if self.is_halted(id) {
            return None;
        }
        let steps = self.saga_steps(id);
        let branch = self.state.branch_mut(id)?;
        if let Some(next) = branch.next.take() {
            return Some(next);
        }
        match &branch.frames.last()?.body {
            Body::Leaf => branch.frames.pop().map(|frame| Next::Enter { data: frame.raw }),
            Body::Map(_) => Some(Next::Attempt {}),
            Body::Try(attempt) if attempt.phase == Phase::BackingOff => Some(Next::Attempt {}),
            Body::Listen(listening) if !listening.iterating => Some(Next::Iterate { data: Data::NULL }),
            Body::Saga(saga) => match saga.phase {
                // What was undone is done anew.
                saga::Phase::Undone => branch.frames.pop().map(|frame| Next::Enter { data: frame.raw }),
                saga::Phase::Done => Some(Next::Complete { output: saga.output(steps), then: None }),
                saga::Phase::Doing | saga::Phase::Undoing => Some(Next::Attempt {}),
            },
            _ => None,
        }
    }

    /// Arms the limits of the steps a branch is inside of, and of the workflow; those that listen go on.
    fn limit_again(&mut self, id: u32) -> Ran<()> {
        let program = self.program;
        let Some(branch) = self.state.branch(id) else { return Ok(()) };
        let hears =
            |body: &Body| matches!(body, Body::Listen(Listening { iterating: true, over: false, .. }));
        let hearing: Vec<u64> =
            branch.frames.iter().filter(|frame| hears(&frame.body)).map(|f| f.sequence).collect();
        let mut limits = Vec::new();
        let closes_all = self.state.closings.iter().any(|closing| closing.act.ends_all());
        for frame in branch.frames.iter().filter(|frame| !self.is_left(frame.sequence)) {
            let data = frame.input().clone();
            let Some(step) = frame.step.map(|step| program.step(step)) else {
                let limit = program.ir.timeout.filter(|_| !closes_all);
                limits.extend(limit.map(|limit| (0, WaitKind::Timeout, limit, data)));
                continue;
            };
            limits.extend(step.timeout.map(|limit| (frame.sequence, WaitKind::Timeout, limit, data.clone())));
            if let (Kind::Try { catch, .. }, Body::Try(attempt)) = (&step.kind, &frame.body)
                && attempt.phase == Phase::Trying
                && self.state.closings.is_empty()
                && let Some(limit) = catch.retry.as_ref().and_then(|retry| retry.attempt_max)
            {
                limits.push((frame.sequence, WaitKind::AttemptTimeout, limit, data));
            }
        }
        for sequence in hearing {
            self.add_wait_for(id, sequence, WaitKind::Event, None);
        }
        for (sequence, kind, limit, data) in limits {
            match self.delay(id, limit, &data) {
                Ok(span) => {
                    let until = self.now.after(span);
                    self.add_wait_for(id, sequence, kind, Some(until));
                }
                Err(Stop::Needs(evaluation)) => return Err(evaluation),
                // It held when the step was entered; a limit that cannot be computed any more limits nothing.
                Err(Stop::Fault(_)) => {}
            }
        }
        Ok(())
    }
}
