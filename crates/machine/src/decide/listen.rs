//! Listen steps: what they want, which events they consume, and the iterations over those.
//!
//! A listen step takes one event at a time, in the order they came. While the steps of its `foreach` run for one
//! event, others stay in the instance's buffer, where signals wait that came before their time.

use super::{
    Ran, Turn,
    eval::{Stop, affordable},
};
use crate::{
    collect::{self, Judge, expect, is_predicate},
    command::Command,
    data::Data,
    fault::{Fault, Kind as FaultKind},
    ir::{Consume, EventFilter, ExprId, Foreach, Kind, StepId, Strategy, Template, Until},
    state::{Body, Cursor, EVENTS_MAX, Expectation, Listening, Next, SIGNALS_MAX, Wait, WaitKind, Wanted},
};
use uuid::Uuid;

impl Turn<'_> {
    /// Begins to listen. What is wanted is computed now, once.
    pub(super) fn begin_listen(&mut self, branch: u32, to: &Strategy, input: &Data) -> Result<(), Stop> {
        let filters = to.all_filters().map(|filter| self.wanted(branch, filter, input));
        let mut wanted = filters.collect::<Result<Vec<_>, Stop>>()?;
        // A key that one filter expects something of is expected by all of the same key.
        for (filter, own) in to.all_filters().zip(wanted.clone()) {
            for (correlation, expectation) in filter.correlate.iter().zip(own.correlate) {
                expect(to, &mut wanted, &correlation.key, &expectation);
            }
        }
        let over = to.consume == Consume::All && to.filters.is_empty();
        self.top_mut(branch).body = Body::Listen(Listening { wanted, over, ..Listening::default() });
        self.tell_workflow("correlation-started", &[]);
        self.push(branch, Next::Iterate { data: Data::NULL });
        Ok(())
    }

    fn wanted(&mut self, branch: u32, filter: &EventFilter, input: &Data) -> Result<Wanted, Stop> {
        let mut wanted = Wanted::default();
        for (name, template) in &filter.with {
            if !matches!(template, Template::Literal(_)) && !is_predicate(name, template) {
                wanted.with.push((name.clone(), self.template(branch, template, input)?));
            }
        }
        for correlation in &filter.correlate {
            wanted.correlate.push(match &correlation.expect {
                Some(expect) => Expectation::Value(self.template(branch, expect, input)?),
                None => Expectation::First,
            });
        }
        Ok(wanted)
    }

    /// Goes on with the listen step on top: ends the iteration that came to `data`, begins the next one, takes the
    /// next event that is already there, stands and waits for one, or completes.
    pub(super) fn listen_on(&mut self, branch: u32, data: Data) -> Result<(), Stop> {
        let program = self.program;
        let Some(id) = self.top(branch).step else { return Ok(()) };
        let Kind::Listen { to, foreach, .. } = &program.step(id).kind else { return Ok(()) };
        if let (true, Some(foreach)) = (self.listening(branch).iterating, foreach) {
            self.end_iteration(branch, to, foreach, data)?;
        }
        loop {
            if self.has_next(branch) {
                self.look_back(branch, to)?;
                let listening = self.listening_mut(branch);
                if foreach.is_some() {
                    (listening.iterating, listening.cursor) = (true, Cursor::default());
                    let item = listening.item().cloned().unwrap_or_default();
                    self.stand(branch);
                    self.enter_at_cursor(branch, item);
                    return Ok(());
                }
                listening.index += 1;
                drop_gone_through(listening, to);
            }
            if self.listening(branch).over {
                let keys = correlation_keys(to, self.listening(branch));
                self.tell_workflow("correlation-completed", &[("correlationKeys", keys)]);
                let listening = self.listening_mut(branch);
                let output = if foreach.is_some() { &mut listening.outputs } else { &mut listening.items };
                let output = Data::array(std::mem::take(output));
                return self.done(branch, output, None);
            }
            if !self.take_early_signal(branch, id, to).map_err(Stop::Needs)? {
                self.stand(branch);
                return Ok(());
            }
        }
    }

    /// The wait for events is there as long as listening goes on, also during iterations.
    fn stand(&mut self, branch: u32) {
        let (frame, over) = (self.top(branch).sequence, self.listening(branch).over);
        let stands = |wait: &Wait| wait.frame == frame && wait.kind == WaitKind::Event;
        match (over, self.state.waits.iter().any(stands)) {
            (false, false) => _ = self.add_wait(branch, WaitKind::Event, None),
            (true, true) => self.drop_waits(stands),
            _ => {}
        }
    }

    /// True if an event was consumed that nothing was done with yet.
    fn has_next(&self, branch: u32) -> bool {
        let listening = self.listening(branch);
        listening.dropped as usize + listening.items.len() > listening.index as usize
    }

    /// An event was consumed: is it the last one?
    fn look_back(&mut self, branch: u32, to: &Strategy) -> Result<(), Stop> {
        let listening = self.listening(branch);
        let consumed = Data::array(listening.items.iter().cloned());
        affordable(&Data::array(listening.items.iter().chain(&listening.outputs).cloned()))?;
        if let Some(Until::Expr(until)) = to.until
            && self.eval(branch, until, &consumed)?.is_true()
        {
            self.listening_mut(branch).over = true;
        }
        if consumed.len() >= EVENTS_MAX && !self.listening(branch).over {
            let detail = format!("the step consumed {EVENTS_MAX} events and did not come to its end");
            return Err(Stop::Fault(Fault::new(FaultKind::Runtime, detail)));
        }
        Ok(())
    }

    fn end_iteration(
        &mut self,
        branch: u32,
        to: &Strategy,
        foreach: &Foreach,
        output: Data,
    ) -> Result<(), Stop> {
        let output = match &foreach.output {
            None => output,
            Some(template) => self.template(branch, template, &output)?,
        };
        self.fits(foreach.output_schema, "the output of an iteration", &output)?;
        if let Some(template) = &foreach.export {
            let context = self.template_with(branch, template, &output, Some(&output))?;
            affordable(&context)?;
            self.fits(foreach.export_schema, "the exported context", &context)?;
            self.set_context(branch, context);
        }
        let listening = self.listening_mut(branch);
        listening.index += 1;
        listening.iterating = false;
        if to.until != Some(Until::Never) {
            listening.outputs.push(output);
        }
        drop_gone_through(listening, to);
        Ok(())
    }

    /// Takes the first buffered signal that the step takes. `false` if there is none.
    fn take_early_signal(&mut self, branch: u32, step: StepId, to: &Strategy) -> Ran<bool> {
        let mut position = 0;
        while position < self.state.buffer.len() {
            let Some((id, event)) = self.heard(branch, position) else {
                position += 1;
                continue;
            };
            if self.consume(branch, step, to, id, &event)? {
                self.state.buffer.remove(position);
                return Ok(true);
            }
            // An event that was told to this wait alone, and is not wanted, is nobody's.
            match self.state.buffer[position] {
                Command::Event { .. } => drop(self.state.buffer.remove(position)),
                _ => position += 1,
            }
        }
        Ok(false)
    }

    /// A signal came in: the first wait that takes it goes on; else it is kept for a later one.
    pub(super) fn signal(&mut self, id: Uuid, event: &Data) -> Ran<bool> {
        let seen = |command: &Command| matches!(command, Command::Signal { id: other, .. } if *other == id);
        if self.state.buffer.iter().any(seen) {
            return Ok(false);
        }
        let program = self.program;
        let waits: Vec<Wait> =
            self.state.waits.iter().filter(|wait| wait.kind == WaitKind::Event).cloned().collect();
        for wait in waits {
            let top = self.top(wait.branch);
            let Some(step) = top.step.filter(|_| top.sequence == wait.frame) else { continue };
            let Kind::Listen { to, .. } = &program.step(step).kind else { continue };
            if self.consume(wait.branch, step, to, id, event)? {
                self.push(wait.branch, Next::Iterate { data: Data::NULL });
                return Ok(true);
            }
        }
        Ok(self.keep_signal(id, event))
    }

    /// Keeps a signal nobody waits for yet. `false` if there is no room: it must be told again later.
    pub(super) fn keep_signal(&mut self, id: Uuid, event: &Data) -> bool {
        let kept = self.state.buffer.iter().filter(|kept| matches!(kept, Command::Signal { .. })).count();
        self.full = kept >= SIGNALS_MAX;
        if self.full {
            return false;
        }
        self.state.buffer.push(Command::Signal { id, event: event.clone() });
        self.note("signal.buffered", None, Some(signal_detail(id, event)));
        true
    }

    /// Says of a signal that nothing of the instance will ever use it.
    pub(super) fn note_unmatched(&mut self, id: Uuid, event: &Data) {
        self.note("signal.unmatched", None, Some(signal_detail(id, event)));
    }

    /// Offers an event to the listen step on top.
    pub(super) fn consume(
        &mut self,
        branch: u32,
        step: StepId,
        to: &Strategy,
        id: Uuid,
        event: &Data,
    ) -> Ran<bool> {
        let Kind::Listen { read, .. } = &self.program.step(step).kind else { return Ok(false) };
        let mut listening = std::mem::take(self.listening_mut(branch));
        let taken = collect::take(&mut Standing { turn: self, branch }, &mut listening, to, *read, event);
        *self.listening_mut(branch) = listening;
        let taken = taken?;
        if taken {
            self.note("signal.received", Some(step), Some(signal_detail(id, event)));
        }
        Ok(taken)
    }

    fn listening(&self, branch: u32) -> &Listening {
        match &self.top(branch).body {
            Body::Listen(listening) => listening,
            _ => unreachable!("callers hold a branch whose top step listens"),
        }
    }

    fn listening_mut(&mut self, branch: u32) -> &mut Listening {
        match &mut self.top_mut(branch).body {
            Body::Listen(listening) => listening,
            _ => unreachable!("callers hold a branch whose top step listens"),
        }
    }
}

/// The listen step that a branch stands in, as what its filters are evaluated in.
struct Standing<'a, 't> {
    turn: &'a mut Turn<'t>,
    branch: u32,
}

impl Judge for Standing<'_, '_> {
    fn eval(&mut self, id: ExprId, dot: &Data) -> Result<Data, Stop> {
        self.turn.eval(self.branch, id, dot)
    }

    fn wanted(&mut self, template: &Template, _: &Data) -> Result<Data, Stop> {
        let input = self.turn.top(self.branch).input().clone();
        self.turn.template(self.branch, template, &input)
    }
}

/// What the events had in common.
fn correlation_keys(to: &Strategy, listening: &Listening) -> Data {
    let mut keys: Vec<(String, Data)> = Vec::new();
    for (filter, wanted) in to.all_filters().zip(&listening.wanted) {
        for (correlation, expectation) in filter.correlate.iter().zip(&wanted.correlate) {
            if let Expectation::Value(value) = expectation
                && !keys.iter().any(|(key, _)| *key == correlation.key)
            {
                keys.push((correlation.key.clone(), value.clone()));
            }
        }
    }
    Data::map(keys)
}

/// With `until: false` nothing will ever look back at what was consumed.
fn drop_gone_through(listening: &mut Listening, to: &Strategy) {
    if to.until == Some(Until::Never) {
        listening.dropped = listening.index;
        listening.items.clear();
    }
}

/// What history says of a signal.
fn signal_detail(id: Uuid, event: &Data) -> Data {
    Data::map([
        ("signal".to_owned(), Data::text(crate::id::show(crate::id::Kind::Signal, id))),
        ("type".to_owned(), event.get("type").unwrap_or_default()),
    ])
}
