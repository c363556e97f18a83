//! Try steps: attempts, catching, backing off.

use super::{Turn, eval::Stop};
use crate::{
    data::Data,
    fault::Fault,
    ir::{Backoff, Catch, ErrorFilter, Kind, Retry, StepId},
    state::{BACKOFF_MAX, Body, Cursor, Phase, RETRIES_MAX, WaitKind},
    time::{Span, Time},
};

impl Turn<'_> {
    /// Begins (again) the `try` list of the branch's top frame.
    pub(super) fn begin_attempt(&mut self, branch: u32) -> Result<(), Stop> {
        let program = self.program;
        let frame = self.top_mut(branch);
        if let Body::Saga(_) = &frame.body {
            self.enter_saga_step(branch);
            return Ok(());
        }
        let (Body::Try(attempt), Some(id)) = (&mut frame.body, frame.step) else { return Ok(()) };
        attempt.phase = Phase::Trying;
        attempt.cursor = Cursor::default();
        let input = frame.input().clone();
        let Kind::Try { catch, .. } = &program.step(id).kind else { return Ok(()) };
        if let Some(limit) = catch.retry.as_ref().and_then(|retry| retry.attempt_max) {
            let until = self.now.after(self.delay(branch, limit, &input)?);
            self.add_wait(branch, WaitKind::AttemptTimeout, Some(until));
        }
        self.enter_at_cursor(branch, input);
        Ok(())
    }

    /// Offers a fault to the branch's top frame. `true` if it was a try step that took it.
    pub(super) fn try_catch(&mut self, branch: u32, fault: &Fault) -> Result<bool, Stop> {
        let program = self.program;
        let frame = self.top_mut(branch);
        let (Body::Try(attempt), Some(id)) = (&mut frame.body, frame.step) else { return Ok(false) };
        let Kind::Try { catch, .. } = &program.step(id).kind else { return Ok(false) };
        if attempt.phase != Phase::Trying || !matches(&catch.with, fault) {
            return Ok(false);
        }
        attempt.error = Some(fault.clone());
        let sequence = frame.sequence;
        let input = frame.input().clone();
        self.drop_waits(|wait| wait.frame == sequence && wait.kind == WaitKind::AttemptTimeout);
        if !self.applies(branch, catch.when, catch.except_when, &input)? {
            return Ok(false);
        }
        if let Some(retry) = &catch.retry
            && self.back_off(branch, retry, &input)?
        {
            return Ok(true);
        }
        Ok(self.recover(branch, catch, input))
    }

    fn applies(
        &mut self,
        branch: u32,
        when: Option<u32>,
        except_when: Option<u32>,
        input: &Data,
    ) -> Result<bool, Stop> {
        if let Some(when) = when
            && !self.eval(branch, when, input)?.is_true()
        {
            return Ok(false);
        }
        match except_when {
            Some(except) => Ok(!self.eval(branch, except, input)?.is_true()),
            None => Ok(true),
        }
    }

    /// Waits for the next attempt if the policy allows one.
    fn back_off(&mut self, branch: u32, retry: &Retry, input: &Data) -> Result<bool, Stop> {
        let frame = self.top(branch);
        let (Body::Try(attempt), Some(id)) = (&frame.body, frame.step) else { return Ok(false) };
        let tried = (attempt.retries, frame.started_at);
        if !self.wait_to_retry(branch, id, retry, tried, input)? {
            return Ok(false);
        }
        if let Body::Try(attempt) = &mut self.top_mut(branch).body {
            attempt.retries += 1;
            attempt.phase = Phase::BackingOff;
        }
        Ok(true)
    }

    /// Makes the top frame wait for another attempt at `step`, which was retried that often since then. `false` if
    /// the policy allows no more.
    pub(super) fn wait_to_retry(
        &mut self,
        branch: u32,
        step: StepId,
        retry: &Retry,
        (retries, since): (u32, Time),
        input: &Data,
    ) -> Result<bool, Stop> {
        if !self.applies(branch, retry.when, retry.except_when, input)? {
            return Ok(false);
        }
        if retries >= retry.count_max.unwrap_or(RETRIES_MAX) {
            return Ok(false);
        }
        let base = self.delay(branch, retry.delay, input)?;
        let mut wait = grow(base, &retry.backoff, retries + 1);
        if let Some((from, to)) = retry.jitter {
            let (from, to) = (self.delay(branch, from, input)?, self.delay(branch, to, input)?);
            wait = Span(wait.0.saturating_add(self.pick_between(from, to).0));
        }
        let due = self.now.after(wait);
        if let Some(total) = retry.total_max
            && due.since(since) > self.delay(branch, total, input)?
        {
            return Ok(false);
        }
        self.add_wait(branch, WaitKind::Retry, Some(due));
        let detail = Data::map([
            ("retry".to_owned(), Data::int(i64::from(retries + 1))),
            ("delayMs".to_owned(), Data::int(wait.as_millis())),
        ]);
        self.note_at(branch, "step.retried", Some(step), Some(detail));
        self.tell_step("retried", Some(step), &[]);
        Ok(true)
    }

    /// Retries are used up (or there are none): runs `catch.do`, or swallows the error if the catch asks for
    /// neither retry nor steps.
    fn recover(&mut self, branch: u32, catch: &Catch, input: Data) -> bool {
        if catch.list.is_none() && catch.retry.is_some() {
            return false;
        }
        self.note_at(branch, "step.caught", self.top(branch).step, None);
        if let Body::Try(attempt) = &mut self.top_mut(branch).body {
            attempt.phase = Phase::Catching;
            attempt.cursor = Cursor::default();
        }
        self.enter_at_cursor(branch, input);
        true
    }

    /// A point between two lengths that depends only on (instance, sequence).
    fn pick_between(&mut self, from: Span, to: Span) -> Span {
        let sequence = self.state.next_sequence();
        let id = crate::id::derive(self.subject.instance, sequence);
        let draw = u64::from_be_bytes(id.as_bytes()[8..].try_into().expect("eight bytes"));
        let width = to.0.saturating_sub(from.0).max(0) as u64;
        Span(from.0 + (draw % (width + 1)) as i64)
    }
}

fn grow(base: Span, backoff: &Backoff, attempt: u32) -> Span {
    let (length, cap) = match backoff {
        Backoff::Constant => (base.0 as f64, BACKOFF_MAX),
        Backoff::Linear => (base.0 as f64 * f64::from(attempt), BACKOFF_MAX),
        Backoff::Exponential { factor, max } => {
            (base.0 as f64 * factor.max(1.0).powi(attempt as i32 - 1), max.unwrap_or(BACKOFF_MAX))
        }
    };
    Span(length.min(cap.0.max(base.0) as f64) as i64)
}

fn matches(filter: &ErrorFilter, fault: &Fault) -> bool {
    let same = |wanted: &Option<String>, found: &Option<String>| wanted.is_none() || wanted == found;
    filter.error_type.as_ref().is_none_or(|wanted| fault.is_type(wanted))
        && filter.status.is_none_or(|wanted| wanted == fault.status)
        && same(&filter.instance, &fault.instance)
        && same(&filter.title, &fault.title)
        && same(&filter.detail, &fault.detail)
}
