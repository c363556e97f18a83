//! Decides: `(program, state, command, now) → Decision`. Pure and total.
//!
//! [`decide`] runs an instance as far as it can go without the outside world. What needs the outside becomes an
//! [`Effect`](crate::command::Effect) with a wait and a token; the answer comes back as the next command.
//! Nothing here reads a clock, draws a random number or touches a store.

mod around;
mod body;
mod call;
mod catch;
mod child;
mod close;
mod emit;
mod ending;
mod eval;
mod fail;
mod flow;
mod listen;
mod map;
mod order;
mod request;
mod saga;
mod script;
#[cfg(test)]
pub(crate) mod tests;
mod told;
mod visit;

use crate::{
    command::{Answer, Command, Decision, Effect, Event, GivenUp, Placeholder, SignalType, Subject},
    data::Data,
    expr::Evaluation,
    fault::{self, Fault},
    ir::StepId,
    program::Program,
    state::{
        Body, FUEL_PER_TURN, Next, STEPS_PER_TURN_MAX, State, Status, Wait, WaitKind, YIELDS_MAX,
        YIELDS_TOLD_MAX,
    },
    time::Time,
};
pub(crate) use eval::Stop;

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
        (None, Command::Start { input, business, trace, parent }) => {
            let state = State::new(input.clone(), business.clone(), trace.clone(), now);
            State { parent: parent.clone(), ..state }
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
        fuel_left: FUEL_PER_TURN,
        full: false,
        secrets: Vec::new(),
        untold: 0,
    };
    turn.state.yields = match command {
        Command::Continue { .. } => turn.state.yields + 1,
        _ => 0,
    };
    let outcome = if fresh { turn.start() } else { turn.obey(command) };
    match outcome.and_then(|changed| turn.run().map(|()| changed)) {
        Err(evaluation) => Answer::Needs(evaluation),
        Ok(false) if turn.full => Answer::Full,
        Ok(false) => Answer::Nothing,
        Ok(true) => {
            turn.forget_told();
            turn.tell_parent();
            turn.note_untold();
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
    /// Hops to make; last in, first out, so that one branch runs to its wait before the next.
    todo: Vec<(u32, Next)>,
    steps_left: u32,
    fuel_left: u64,
    /// The command is a signal there is no room for.
    full: bool,
    /// Marks put in for secrets while a call is being made.
    secrets: Vec<Placeholder>,
    /// Events of a long stretch without waits that are counted and not told one by one.
    untold: u64,
}

/// `Err` is an evaluation that must happen outside first; then the whole decision starts over.
type Ran<T> = Result<T, Box<Evaluation>>;

impl Turn<'_> {
    /// Obeys a command on an instance that exists. `false` means it changes nothing.
    fn obey(&mut self, command: &Command) -> Ran<bool> {
        match (self.state.status, command) {
            (Status::Open | Status::Paused, Command::Cancel) => self.cancel(),
            (Status::Open | Status::Paused, Command::ParentClosed) => self.parent_closed(),
            (Status::Open, Command::Pause) => Ok(self.pause()),
            (Status::Paused, Command::Resume) => self.resume(),
            (Status::Faulted, Command::Retry) => self.retry_failed(),
            (_, Command::LetterTaken { replayed }) => Ok(self.letter_taken(*replayed)),
            (Status::Open | Status::Paused, Command::PutBack { token }) => Ok(self.put_back(*token)),
            // A faulted instance may be run again: what is said to it meanwhile is kept.
            (Status::Faulted, Command::Signal { .. }) => Ok(self.park(command)),
            // Whoever sent it was told that it is durable: the end won the race, and history says so.
            (Status::Completed | Status::Cancelled, Command::Signal { id, event }) => {
                self.note_unmatched(*id, event);
                Ok(true)
            }
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
                Ok(self.take_wait(*token, WaitKind::Continue).map(|wait| self.go_on(wait.branch)).is_some())
            }
            Command::CallDone { token, result } => Ok(self.leaf_done(*token, WaitKind::Call, result)),
            Command::TaskDone { token, result } => {
                Ok(self.leaf_done(*token, WaitKind::TaskCompletion, result))
            }
            Command::CallFailed { token, fault, given_up } => match self.take_called(*token) {
                Some(wait) => self.call_failed(&wait, fault, given_up.as_ref()),
                None => Ok(false),
            },
            Command::ChildStarted { token } => Ok(self.child_started(*token)),
            Command::ChildDone { token, outcome } => self.child_done(*token, outcome),
            Command::Items { token, tally } => self.items(*token, tally),
            Command::Signal { id, event } => self.signal(*id, event),
            Command::Event { id, event, token } => self.told(*token, *id, event),
            _ => Ok(false),
        }
    }

    /// Ends the wait of a leaf step with its output.
    fn leaf_done(&mut self, token: u64, kind: WaitKind, result: &Data) -> bool {
        let Some(wait) = self.take_wait(token, kind) else { return false };
        self.push(wait.branch, Next::Complete { output: result.clone(), then: None });
        true
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
                let output = self.top(wait.branch).input().clone();
                self.push(wait.branch, Next::Complete { output, then: None });
            }
            WaitKind::Retry => self.push(wait.branch, Next::Attempt {}),
            _ => self.timed_out(&wait)?,
        }
        Ok(true)
    }

    fn call_failed(&mut self, wait: &Wait, fault: &Fault, given_up: Option<&GivenUp>) -> Ran<bool> {
        let was_closing = self.fault_closing().is_some();
        self.fail(wait.branch, fault.clone())?;
        // One of many items has its error among the results, and is started again with the others.
        let is_item = self.state.parent.as_ref().is_some_and(|parent| parent.item.is_some());
        let Some(call) = given_up.filter(|_| !is_item) else { return Ok(true) };
        if self.state.faults() {
            // Nobody caught it: the call waits among the dead letters for somebody to run it again.
            if !self.effects.iter().any(|effect| matches!(effect, Effect::Incident(_))) {
                self.effects.push(Effect::DeadLetter(call.clone()));
            }
        } else if let (false, Some(given_up)) = (was_closing, self.fault_closing()) {
            *given_up = Some(call.clone());
        }
        Ok(true)
    }

    fn push(&mut self, branch: u32, next: Next) {
        self.todo.push((branch, next));
    }

    /// Makes hops until every branch stands at a wait.
    fn run(&mut self) -> Ran<()> {
        while let Some((branch, next)) = self.todo.pop() {
            if self.state.status.is_ended() || self.state.branch(branch).is_none() {
                continue;
            }
            if matches!(next, Next::Enter { .. }) {
                if self.steps_left == 0 || self.fuel_left == 0 {
                    self.yield_turn(branch, next)?;
                    continue;
                }
                self.steps_left -= 1;
            }
            match self.hop(branch, next.clone()) {
                Ok(()) => {}
                Err(Stop::Needs(evaluation)) => return Err(evaluation),
                Err(Stop::Fault(fault)) => self.hop_faulted(branch, next, fault)?,
            }
        }
        Ok(())
    }

    fn hop(&mut self, branch: u32, next: Next) -> Result<(), Stop> {
        match next {
            Next::Begin {} => self.begin_workflow(),
            Next::Enter { data } => self.enter(branch, data),
            Next::Attempt {} if matches!(self.top(branch).body, Body::Map(_)) => self.map_again(branch),
            Next::Attempt {} => self.begin_attempt(branch),
            Next::Iterate { data } => self.iterate(branch, data),
            Next::Complete { output, then } => self.complete(branch, output, then),
            Next::Finish { output } => self.finish(output),
        }
    }

    /// Remembers the hop, so that `Retry` makes it again and nothing before it.
    fn hop_faulted(&mut self, branch: u32, next: Next, fault: Fault) -> Ran<()> {
        let workflows_own = matches!(next, Next::Begin {} | Next::Finish { .. });
        // A step that faulted on its way in is entered anew from its frame.
        if !matches!(next, Next::Enter { .. })
            && let Some(own) = self.state.branch_mut(branch)
        {
            own.next = Some(next);
        }
        if workflows_own {
            let instance = fault.instance.or(Some("/".to_owned()));
            return self.fault_workflow(Fault { instance, ..fault });
        }
        self.fail(branch, fault)
    }

    /// Puts the rest of a long pure stretch into a turn of its own, so that one instance cannot hold a node.
    fn yield_turn(&mut self, branch: u32, next: Next) -> Ran<()> {
        if self.state.yields >= YIELDS_MAX {
            let detail = format!(
                "more than {} steps without waiting for anything: does the flow go round for ever?",
                u64::from(YIELDS_MAX) * u64::from(STEPS_PER_TURN_MAX)
            );
            if let Some(branch) = self.state.branch_mut(branch) {
                branch.next = Some(next);
            }
            return self.fail(branch, Fault::new(fault::Kind::Runtime, detail));
        }
        let token = self.add_wait(branch, WaitKind::Continue, None);
        if let Some(branch) = self.state.branch_mut(branch) {
            branch.next = Some(next);
        }
        self.effects.push(Effect::Continue { token });
        Ok(())
    }

    /// Makes the hop a branch that yielded or faulted was about to make.
    fn go_on(&mut self, branch: u32) {
        if let Some(next) = self.state.branch_mut(branch).and_then(|branch| branch.next.take()) {
            self.push(branch, next);
        }
    }

    /// Makes a wait for the top frame of `branch` and returns its token.
    fn add_wait(&mut self, branch: u32, kind: WaitKind, until: Option<Time>) -> u64 {
        let frame = self.state.branch(branch).and_then(|b| b.frames.last()).map_or(0, |f| f.sequence);
        self.add_wait_for(branch, frame, kind, until)
    }

    fn add_wait_for(&mut self, branch: u32, frame: u64, kind: WaitKind, until: Option<Time>) -> u64 {
        let token = self.state.next_sequence();
        self.state.waits.push(Wait { token, kind, branch, frame, until, expect: None, child: None });
        if let Some(due_at) = until.filter(|_| kind.has_timer()) {
            let signal_type = match kind {
                WaitKind::Retry => SignalType::RetryDue,
                _ => SignalType::TimerDue,
            };
            self.effects.push(Effect::Timer { token, due_at, signal_type });
        }
        token
    }

    /// Takes the wait that a call stands for: the call itself, or the child it was to start.
    fn take_called(&mut self, token: u64) -> Option<Wait> {
        self.take_wait(token, WaitKind::Call).or_else(|| self.take_wait(token, WaitKind::Child))
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
            // A row that this very decision would make is not made at all.
            let made = self.effects.iter().position(|effect| effect.token() == Some(token));
            match (made, wait.kind) {
                (Some(position), _) => drop(self.effects.remove(position)),
                (None, WaitKind::Call) => self.effects.push(Effect::DropCall { token }),
                (None, WaitKind::Child) => kept.extend(self.close_child(wait)),
                (None, WaitKind::Map) => self.close_items(&wait),
                (None, WaitKind::TaskCompletion) => self.effects.push(Effect::CancelTask { token }),
                (None, kind) if kind.has_timer() => self.effects.push(Effect::DropTimer { token }),
                (None, _) => {}
            }
        }
        self.state.waits = kept;
    }

    fn note(&mut self, kind: &'static str, step: Option<StepId>, detail: Option<Data>) {
        let step = step.map(|id| self.program.step(id).reference.clone());
        self.events.push(Event { kind, step, iteration: None, detail });
    }

    /// Says how much of a long stretch was not told.
    fn note_untold(&mut self) {
        if self.untold > 0 {
            let count = Data::int(i64::try_from(self.untold).unwrap_or(i64::MAX));
            self.note("steps.untold", None, Some(Data::map([("events".to_owned(), count)])));
        }
    }

    /// Notes what happened to a step that the branch is in.
    fn note_at(&mut self, branch: u32, kind: &'static str, step: Option<StepId>, detail: Option<Data>) {
        let ordinary = matches!(kind, "step.started" | "step.completed" | "step.skipped");
        if ordinary && self.state.yields > YIELDS_TOLD_MAX {
            self.untold += 1;
            return;
        }
        let iteration = step.and_then(|id| visit::of(&self.state, branch, id));
        self.note(kind, step, detail);
        if let Some(event) = self.events.last_mut() {
            event.iteration = iteration;
        }
    }

    /// What must hold after every decision; also checked by the property test.
    fn assert_invariants(&self) {
        let state = &self.state;
        debug_assert!(
            state.status != Status::Open || !state.waits.is_empty(),
            "an open instance stands at a wait"
        );
        debug_assert!(
            !state.status.is_ended() || (state.waits.is_empty() && state.ending.is_none()),
            "an ended instance waits for nothing"
        );
        debug_assert!(
            state.waits.iter().all(|wait| wait.frame == 0 || state.branch(wait.branch).is_some()),
            "every wait belongs to a branch"
        );
        debug_assert!(
            state.closings.is_empty() || !matches!(state.status, Status::Completed | Status::Cancelled),
            "nothing is left to close in an instance that ended well"
        );
    }
}
