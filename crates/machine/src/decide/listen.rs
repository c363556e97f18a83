//! Listen steps and the signals they stand for.

use super::{Ran, Turn, eval::Stop};
use crate::{
    command::Command,
    data::Data,
    ir::{EventFilter, Kind, Read, Template},
    state::{Next, SIGNALS_MAX, Wait, WaitKind},
};
use uuid::Uuid;

impl Turn<'_> {
    /// Waits for one event. Expected correlation values are computed now, once.
    pub(super) fn begin_listen(
        &mut self,
        branch: u32,
        filters: &[EventFilter],
        input: &Data,
    ) -> Result<(), Stop> {
        let mut expected = Vec::new();
        for filter in filters {
            let mut values = Vec::new();
            for correlation in &filter.correlate {
                values.push(match &correlation.expect {
                    Some(expect) => Data::array([self.template(branch, expect, input)?]),
                    None => Data::NULL,
                });
            }
            expected.push(Data::array(values));
        }
        let token = self.add_wait(branch, WaitKind::Event, None);
        let wait = self.state.waits.last_mut().expect("just added");
        wait.expect = Some(Data::array(expected));
        self.take_early_signal(token)
    }

    /// Uses a buffered signal that came before this wait.
    fn take_early_signal(&mut self, token: u64) -> Result<(), Stop> {
        for position in 0..self.state.buffer.len() {
            let Command::Signal { id, event } = &self.state.buffer[position] else { continue };
            let (id, event) = (*id, event.clone());
            let Some(wait) = self.state.waits.iter().find(|wait| wait.token == token).cloned() else {
                return Ok(());
            };
            if self.takes(&wait, &event).map_err(Stop::Needs)? {
                self.state.buffer.remove(position);
                self.take_wait(token, WaitKind::Event);
                self.received(&wait, id, event);
                return Ok(());
            }
        }
        Ok(())
    }

    /// A signal came in: the first wait that takes it goes on; else it is kept for a later one.
    pub(super) fn signal(&mut self, id: Uuid, event: &Data) -> Ran<bool> {
        let seen = |command: &Command| matches!(command, Command::Signal { id: other, .. } if *other == id);
        if self.state.buffer.iter().any(seen) {
            return Ok(false);
        }
        let waits: Vec<Wait> =
            self.state.waits.iter().filter(|wait| wait.kind == WaitKind::Event).cloned().collect();
        for wait in waits {
            if self.takes(&wait, event)? {
                self.take_wait(wait.token, WaitKind::Event);
                self.received(&wait, id, event.clone());
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

    fn received(&mut self, wait: &Wait, signal: Uuid, event: Data) {
        let program = self.program;
        let Some(id) = self.top(wait.branch).step else { return };
        let Kind::Listen { read, .. } = &program.step(id).kind else { return };
        let output = match read {
            Read::Data => event.get("data").unwrap_or_default(),
            Read::Envelope | Read::Raw => event.clone(),
        };
        self.note("signal.received", Some(id), Some(signal_detail(signal, &event)));
        self.push(wait.branch, Next::Complete { output: Data::array([output]), then: None });
    }

    /// True if any filter of the waiting step takes the event. An expression that faults on it does not: what
    /// somebody sends must not fault whoever listens.
    fn takes(&mut self, wait: &Wait, event: &Data) -> Ran<bool> {
        let program = self.program;
        let Some(id) = self.top(wait.branch).step else { return Ok(false) };
        let Kind::Listen { filters, .. } = &program.step(id).kind else { return Ok(false) };
        let expected: Vec<Data> =
            wait.expect.as_ref().and_then(|expect| expect.items().map(Iterator::collect)).unwrap_or_default();
        for (position, filter) in filters.iter().enumerate() {
            let expected = expected.get(position).cloned().unwrap_or_default();
            match self.filter_takes(wait.branch, filter, &expected, event) {
                Ok(true) => return Ok(true),
                Ok(false) | Err(Stop::Fault(_)) => {}
                Err(Stop::Needs(evaluation)) => return Err(evaluation),
            }
        }
        Ok(false)
    }

    fn filter_takes(
        &mut self,
        branch: u32,
        filter: &EventFilter,
        expected: &Data,
        event: &Data,
    ) -> Result<bool, Stop> {
        for (name, wanted) in &filter.with {
            let found = event.get(name).unwrap_or_default();
            let holds = match wanted {
                Template::Expr(id) if name == "data" => self.eval(branch, *id, &found)?.is_true(),
                wanted => {
                    let input = self.top(branch).input().clone();
                    same_or_matching(&self.template(branch, wanted, &input)?, &found)
                }
            };
            if !holds {
                return Ok(false);
            }
        }
        for (position, correlation) in filter.correlate.iter().enumerate() {
            let found = self.eval(branch, correlation.from, event)?;
            let wanted = expected.items().and_then(|mut values| values.nth(position)).unwrap_or_default();
            // An empty slot: no `expect`, so the first value seen becomes the expectation.
            if let Some(wanted) = wanted.items().and_then(|mut values| values.next())
                && wanted != found
            {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Equal, or a text that the wanted text matches as a regular expression from end to end.
fn same_or_matching(wanted: &Data, found: &Data) -> bool {
    if wanted == found {
        return true;
    }
    let (Some(pattern), Some(text)) = (wanted.as_str(), found.as_str()) else { return false };
    if pattern.len() > PATTERN_BYTES_MAX || text.len() > PATTERN_BYTES_MAX {
        return false;
    }
    regex_bites::Regex::new(&format!("^(?:{pattern})$")).is_ok_and(|pattern| pattern.is_match(text))
}

/// The longest attribute that is looked at as a regular expression, or by one.
const PATTERN_BYTES_MAX: usize = 1024;

/// What history says of a signal.
fn signal_detail(id: Uuid, event: &Data) -> Data {
    Data::map([
        ("signal".to_owned(), Data::text(crate::id::show(crate::id::Kind::Signal, id))),
        ("type".to_owned(), event.get("type").unwrap_or_default()),
    ])
}
