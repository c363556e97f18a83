//! Decides: `(program, state, command, now) → Decision`. Pure and total.
//!
//! [`decide`] runs an instance as far as it can go without the outside world. What needs the outside becomes an
//! [`Effect`](crate::command::Effect) with a wait and a token; the answer comes back as the next command.
//! Nothing here reads a clock, draws a random number or touches a store.

mod body;
mod call;
mod catch;
mod eval;
mod fail;
mod flow;
mod listen;
mod order;
#[cfg(test)]
mod tests;

use crate::{
    command::{Answer, Command, Decision, Effect, Event, SignalType, Subject},
    data::Data,
    expr::Evaluation,
    fault::Fault,
    ir::StepId,
    program::Program,
    state::{STEPS_PER_TURN_MAX, State, Status, Wait, WaitKind},
    time::Time,
};
use eval::Stop;

/// What follows from `command`. `answers` are the results of evaluations asked for by earlier calls with the same
/// arguments, in the order asked.
pub fn decide(
    program: &Program,
    subject: &Subject,
    state: Option<&State>,
    command: &Command,
    now: Time,
    answers: &[Result<Data, Fault>],
) -> Answer {
    let fresh = state.is_none();
    let state = match (state, command) {
        (None, Command::Start { input, business, trace }) => {
            State::new(input.clone(), business.clone(), trace.clone(), now)
        }
        (None, _) | (Some(_), Command::Start { .. }) => return Answer::Nothing,
        (Some(state), _) => state.clone(),
    };
    let mut turn = Turn {
        program,
        subject,
        now,
        answers,
        asked: 0,
        state,
        events: Vec::with_capacity(4),
        effects: Vec::with_capacity(2),
        todo: Vec::new(),
        steps_left: STEPS_PER_TURN_MAX,
    };
    let outcome = if fresh { turn.start() } else { turn.obey(command) };
    match outcome.and_then(|changed| turn.run().map(|()| changed)) {
        Err(evaluation) => Answer::Needs(evaluation),
        Ok(false) => Answer::Nothing,
        Ok(true) => {
            turn.assert_invariants();
            Answer::Decided(Box::new(Decision {
                state: turn.state,
                events: turn.events,
                effects: turn.effects,
            }))
        }
    }
}

/// One decision in the making.
struct Turn<'a> {
    program: &'a Program,
    subject: &'a Subject,
    now: Time,
    answers: &'a [Result<Data, Fault>],
    /// Outside evaluations asked for so far.
    asked: usize,
    state: State,
    events: Vec<Event>,
    effects: Vec<Effect>,
    /// Steps to enter; last in, first out, so that one branch runs to its wait before the next.
    todo: Vec<Enter>,
    steps_left: u32,
}

/// A step about to be entered by a branch.
#[derive(Clone, Debug)]
struct Enter {
    branch: u32,
    step: StepId,
    data: Data,
}

/// `Err` is an evaluation that must happen outside first; then the whole decision starts over.
type Ran<T> = Result<T, Box<Evaluation>>;

impl Turn<'_> {
    /// Obeys a command on an instance that exists. `false` means it changes nothing.
    fn obey(&mut self, command: &Command) -> Ran<bool> {
        match (self.state.status, command) {
            (Status::Open | Status::Paused, Command::Cancel) => Ok(self.cancel()),
            (Status::Open, Command::Pause) => Ok(self.pause()),
            (Status::Paused, Command::Resume) => self.resume(),
            (Status::Faulted, Command::Retry) => Ok(self.retry_failed()),
            // A faulted instance may be run again: what is said to it meanwhile is kept.
            (Status::Faulted, Command::Signal { .. }) => Ok(self.park(command)),
            (Status::Paused, command) => Ok(self.park(command)),
            (Status::Open, command) => self.answer_wait(command),
            _ => Ok(false),
        }
    }

    /// Gives an open instance something one of its waits may stand for.
    fn answer_wait(&mut self, command: &Command) -> Ran<bool> {
        match command {
            Command::Timer { token } => self.timer_due(*token),
            Command::Continue { token } => {
                Ok(self.take_wait(*token, WaitKind::Continue).map(|wait| self.go_on(&wait)).is_some())
            }
            Command::CallDone { token, result } => self.leaf_done(*token, WaitKind::Call, result),
            Command::TaskDone { token, result } => self.leaf_done(*token, WaitKind::TaskCompletion, result),
            Command::CallFailed { token, fault } => match self.take_wait(*token, WaitKind::Call) {
                Some(wait) => self.fail(wait.branch, fault.clone()).map(|()| true),
                None => Ok(false),
            },
            Command::Signal { id, event } => self.signal(*id, event),
            _ => Ok(false),
        }
    }

    /// Ends the wait of a leaf step with its output.
    fn leaf_done(&mut self, token: u64, kind: WaitKind, result: &Data) -> Ran<bool> {
        let Some(wait) = self.take_wait(token, kind) else { return Ok(false) };
        self.attempt(wait.branch, |turn| turn.complete(wait.branch, result.clone(), None))?;
        Ok(true)
    }

    fn timer_due(&mut self, token: u64) -> Ran<bool> {
        let Some(position) =
            self.state.waits.iter().position(|wait| wait.token == token && wait.kind.has_timer())
        else {
            return Ok(false);
        };
        let wait = self.state.waits.remove(position);
        match wait.kind {
            WaitKind::Timer => {
                self.attempt(wait.branch, |turn| {
                    let output = turn.top(wait.branch).input().clone();
                    turn.complete(wait.branch, output, None)
                })?;
            }
            WaitKind::Retry => self.attempt(wait.branch, |turn| turn.begin_attempt(wait.branch))?,
            _ => self.timed_out(&wait)?,
        }
        Ok(true)
    }

    /// Runs `act` for a branch; a fault it raises is handled by that branch.
    fn attempt(&mut self, branch: u32, act: impl FnOnce(&mut Self) -> Result<(), Stop>) -> Ran<()> {
        match act(self) {
            Ok(()) => Ok(()),
            Err(Stop::Needs(evaluation)) => Err(evaluation),
            Err(Stop::Fault(fault)) => self.fail(branch, fault),
        }
    }

    /// Enters steps until every branch stands at a wait.
    fn run(&mut self) -> Ran<()> {
        while let Some(enter) = self.todo.pop() {
            if self.state.status.is_ended() || self.state.branch(enter.branch).is_none() {
                continue;
            }
            if self.steps_left == 0 {
                self.yield_turn(enter);
                continue;
            }
            self.steps_left -= 1;
            let branch = enter.branch;
            self.attempt(branch, |turn| turn.enter(enter))?;
        }
        Ok(())
    }

    /// Puts the rest of a long pure stretch into a turn of its own, so that one instance cannot hold a node.
    fn yield_turn(&mut self, enter: Enter) {
        let token = self.add_wait(enter.branch, WaitKind::Continue, None);
        if let Some(branch) = self.state.branch_mut(enter.branch) {
            branch.pending = Some(enter.data);
        }
        self.effects.push(Effect::Continue { token });
    }

    /// Enters the step a yielded branch was about to enter.
    fn go_on(&mut self, wait: &Wait) {
        let pending = self.state.branch_mut(wait.branch).and_then(|branch| branch.pending.take());
        if let (Some(data), Some(step)) = (pending, self.next_step(wait.branch)) {
            self.todo.push(Enter { branch: wait.branch, step, data });
        }
    }

    /// Makes a wait for the top frame of `branch` and returns its token.
    fn add_wait(&mut self, branch: u32, kind: WaitKind, until: Option<Time>) -> u64 {
        let frame = self.state.branch(branch).and_then(|b| b.frames.last()).map_or(0, |f| f.sequence);
        self.add_wait_for(branch, frame, kind, until)
    }

    fn add_wait_for(&mut self, branch: u32, frame: u64, kind: WaitKind, until: Option<Time>) -> u64 {
        let token = self.state.next_sequence();
        self.state.waits.push(Wait { token, kind, branch, frame, until, expect: None });
        if let Some(due_at) = until.filter(|_| kind.has_timer()) {
            let signal_type = match kind {
                WaitKind::Retry => SignalType::RetryDue,
                _ => SignalType::TimerDue,
            };
            self.effects.push(Effect::Timer { token, due_at, signal_type });
        }
        token
    }

    fn take_wait(&mut self, token: u64, kind: WaitKind) -> Option<Wait> {
        let position = self.state.waits.iter().position(|wait| wait.token == token && wait.kind == kind)?;
        Some(self.state.waits.remove(position))
    }

    /// Forgets every wait `which` picks and the rows that stand for it.
    fn drop_waits(&mut self, which: impl Fn(&Wait) -> bool) {
        let mut kept = Vec::with_capacity(self.state.waits.len());
        for wait in std::mem::take(&mut self.state.waits) {
            if !which(&wait) {
                kept.push(wait);
                continue;
            }
            let token = wait.token;
            match wait.kind {
                WaitKind::Call => self.effects.push(Effect::DropCall { token }),
                WaitKind::TaskCompletion => self.effects.push(Effect::CancelTask { token }),
                kind if kind.has_timer() => self.effects.push(Effect::DropTimer { token }),
                _ => {}
            }
        }
        self.state.waits = kept;
    }

    fn note(&mut self, kind: &'static str, step: Option<StepId>, detail: Option<Data>) {
        let step = step.map(|id| self.program.step(id).reference.clone());
        self.events.push(Event { kind, step, detail });
    }

    /// What must hold after every decision; also checked by the property test.
    fn assert_invariants(&self) {
        let state = &self.state;
        debug_assert!(
            state.status != Status::Open || !state.waits.is_empty(),
            "an open instance stands at a wait"
        );
        debug_assert!(
            !state.status.is_ended() || state.waits.is_empty(),
            "an ended instance waits for nothing"
        );
        debug_assert!(
            state.waits.iter().all(|wait| wait.frame == 0 || state.branch(wait.branch).is_some()),
            "every wait belongs to a branch"
        );
    }
}
