//! Collecting events: which filter takes an event, and when there are enough.
//!
//! [`take`] is the one place where that is decided, for `listen` steps and for schedules that events start. What
//! evaluates the expressions of filters differs, and is a [`Judge`]. [`offer`] is what a schedule does with an event:
//! it has any number of collections under way, and one that is complete is the input of an instance.

#[cfg(test)]
mod tests;

use crate::{
    data::Data,
    decide::Stop,
    event::attribute_fits,
    expr::{Args, Evaluation},
    fault::Fault,
    ir::{Consume, EventFilter, ExprId, Read, Strategy, Template, Until},
    program::Program,
    state::{EVENTS_MAX, Expectation, Listening, Wanted},
};

/// Evaluates what filters say.
pub(crate) trait Judge {
    fn eval(&mut self, id: ExprId, dot: &Data) -> Result<Data, Stop>;

    /// A wanted value that was not computed when collecting began.
    fn wanted(&mut self, template: &Template, event: &Data) -> Result<Data, Stop>;
}

/// Offers an event. An event that ends the collecting is not part of what is collected. `false` if it is not taken.
pub(crate) fn take(
    judge: &mut dyn Judge,
    listening: &mut Listening,
    to: &Strategy,
    read: Read,
    event: &Data,
) -> Result<bool, Box<Evaluation>> {
    let Some(position) = taker(judge, &mut listening.wanted, to, event)? else { return Ok(false) };
    if let Some(position) = position.filter(|position| to.takes_one(*position)) {
        listening.wanted[position].met = true;
    }
    let ends = position.is_some_and(|position| position >= to.filters.len());
    if !ends {
        listening.items.push(read_as(read, event));
    }
    let met = |wanted: &[Wanted]| wanted.iter().all(|wanted| wanted.met);
    let (own, until) = listening.wanted.split_at(to.filters.len());
    listening.over = match (ends, &to.until) {
        (true, Some(Until::Events { consume: Consume::All, .. })) => met(until),
        (true, _) => true,
        (false, Some(_)) => false,
        (false, None) => to.consume == Consume::Any || met(own),
    };
    Ok(true)
}

/// The position of the filter that takes the event, those of `until` first; `Some(None)` if every event will do.
/// A filter that faults on an event does not take it: what somebody sends must not fault whoever listens.
fn taker(
    judge: &mut dyn Judge,
    wanted: &mut [Wanted],
    to: &Strategy,
    event: &Data,
) -> Result<Option<Option<usize>>, Box<Evaluation>> {
    let filters: Vec<&EventFilter> = to.all_filters().collect();
    let (own, all) = (to.filters.len(), filters.len());
    for position in (own..all).chain(0..own) {
        let Some(open) = wanted.get(position).filter(|wanted| !wanted.met) else { continue };
        match filter_takes(judge, filters[position], open, event) {
            Ok(None) | Err(Stop::Fault(_)) => {}
            Err(Stop::Needs(evaluation)) => return Err(evaluation),
            Ok(Some(found)) => {
                for (correlation, value) in filters[position].correlate.iter().zip(found) {
                    expect(to, wanted, &correlation.key, &Expectation::Value(value));
                }
                return Ok(Some(Some(position)));
            }
        }
    }
    Ok(to.filters.is_empty().then_some(None))
}

/// The values of the filter's correlations if it takes the event.
fn filter_takes(
    judge: &mut dyn Judge,
    filter: &EventFilter,
    wanted: &Wanted,
    event: &Data,
) -> Result<Option<Vec<Data>>, Stop> {
    for (name, template) in &filter.with {
        let found = event.get(name).unwrap_or_default();
        let computed = wanted.with.iter().find(|(of, _)| of == name).map(|(_, value)| value);
        let holds = match (template, computed) {
            (Template::Expr(id), _) if is_predicate(name, template) => judge.eval(*id, &found)?.is_true(),
            (_, Some(wanted)) => attribute_fits(wanted, &found),
            (template, None) => attribute_fits(&judge.wanted(template, event)?, &found),
        };
        if !holds {
            return Ok(None);
        }
    }
    let mut values = Vec::with_capacity(filter.correlate.len());
    for (index, correlation) in filter.correlate.iter().enumerate() {
        let found = judge.eval(correlation.from, event)?;
        let holds = match (wanted.correlate.get(index), &correlation.expect) {
            (Some(Expectation::Value(wanted)), _) => *wanted == found,
            (_, Some(expect)) => judge.wanted(expect, event)? == found,
            (_, None) => true,
        };
        if !holds {
            return Ok(None);
        }
        values.push(found);
    }
    Ok(Some(values))
}

/// Makes a value what every correlation of the same key expects that expects nothing yet.
pub(crate) fn expect(to: &Strategy, wanted: &mut [Wanted], key: &str, expectation: &Expectation) {
    for (filter, own) in to.all_filters().zip(wanted) {
        for (correlation, slot) in filter.correlate.iter().zip(&mut own.correlate) {
            if correlation.key == key && *slot == Expectation::First {
                *slot = expectation.clone();
            }
        }
    }
}

/// An expression as `data` is a condition on the data; any other attribute is compared.
pub(crate) fn is_predicate(name: &str, template: &Template) -> bool {
    name == "data" && matches!(template, Template::Expr(_))
}

fn read_as(read: Read, event: &Data) -> Data {
    let data = || event.get("data").unwrap_or_default();
    match read {
        Read::Data => data(),
        Read::Envelope => event.clone(),
        Read::Raw => event.get("data_base64").unwrap_or_else(|| Data::text(data().to_text())),
    }
}

/// What became of an event that a schedule was offered.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Offered {
    /// A collection has taken it.
    pub taken: bool,
    /// The collections under way after it, the oldest first.
    pub open: Vec<Listening>,
    /// The collection that it completed.
    pub complete: Option<Data>,
    /// How many events were in the collections that had to be given up to stay within the limit.
    pub given_up: usize,
    /// Why `until` could not be computed with the event, which is therefore not taken.
    pub failed: Option<Fault>,
}

/// Offers an event to a schedule's collections, the oldest first; one that none of them takes may begin another.
///
/// Expressions see the event and nothing else, and one that faults takes or ends nothing: an event with which `until`
/// faults is left out, so that those before and after it are not lost with it. `answers` are as in [`crate::decide()`].
pub fn offer(
    program: &Program,
    to: &Strategy,
    mut open: Vec<Listening>,
    event: &Data,
    answers: &[Result<Data, Fault>],
) -> Result<Offered, Box<Evaluation>> {
    let mut look = Look { program, answers, asked: 0 };
    // What another strategy collected is of no use to this one.
    let filters = to.all_filters().count();
    open.retain(|one| one.wanted.len() == filters);
    for position in 0..open.len() {
        if take(&mut look, &mut open[position], to, Read::Envelope, event)? {
            return settle(&mut look, to, open, position);
        }
    }
    let mut fresh = begin(to);
    // What only ends a collection does not begin one.
    if !take(&mut look, &mut fresh, to, Read::Envelope, event)? || fresh.items.is_empty() {
        return Ok(Offered { open, ..Offered::default() });
    }
    open.push(fresh);
    let last = open.len() - 1;
    settle(&mut look, to, open, last)
}

/// A collection that has nothing yet. Nothing is computed before there is an event to compute it with.
fn begin(to: &Strategy) -> Listening {
    let wanted = to.all_filters().map(|filter| Wanted {
        correlate: vec![Expectation::First; filter.correlate.len()],
        ..Wanted::default()
    });
    Listening { wanted: wanted.collect(), ..Listening::default() }
}

/// The collection at `position` has grown: is it complete, and is there room for all of them?
fn settle(
    look: &mut Look<'_>,
    to: &Strategy,
    mut open: Vec<Listening>,
    position: usize,
) -> Result<Offered, Box<Evaluation>> {
    let items = Data::array(open[position].items.iter().cloned());
    let over = open[position].over
        || match to.until {
            Some(Until::Expr(until)) => match look.eval(until, &items) {
                Ok(held) => held.is_true(),
                Err(Stop::Fault(fault)) => return Ok(without_last(open, position, fault)),
                Err(Stop::Needs(evaluation)) => return Err(evaluation),
            },
            _ => false,
        };
    let complete = over.then_some(items);
    if over {
        open.remove(position);
    }
    let mut given_up = 0;
    while !fits(&open) {
        given_up += open.remove(0).items.len();
    }
    Ok(Offered { taken: true, open, complete, given_up, failed: None })
}

/// As it was before the last event of the collection at `position`. A condition as `until` stands beside `any`, whose
/// filters remember nothing of an event but what the first one of a collection had.
fn without_last(mut open: Vec<Listening>, position: usize, fault: Fault) -> Offered {
    open[position].items.pop();
    if open[position].items.is_empty() {
        open.remove(position);
    }
    Offered { open, failed: Some(fault), ..Offered::default() }
}

fn fits(open: &[Listening]) -> bool {
    let items = || open.iter().flat_map(|one| &one.items);
    // A collection that is as large as it may be and still open would never be complete.
    items().count() < EVENTS_MAX && Data::array(items().cloned()).too_much().is_none()
}

/// Evaluates outside of any instance.
struct Look<'a> {
    program: &'a Program,
    answers: &'a [Result<Data, Fault>],
    asked: usize,
}

impl Judge for Look<'_> {
    fn eval(&mut self, id: ExprId, dot: &Data) -> Result<Data, Stop> {
        let compiled = &self.program.exprs[id as usize];
        let args = Args::default();
        if compiled.bounded
            && let Some(result) = compiled.eval(dot, &args)
        {
            return result.map_err(Stop::Fault);
        }
        let position = self.asked;
        self.asked += 1;
        match self.answers.get(position) {
            Some(answer) => answer.clone().map_err(Stop::Fault),
            None => Err(Stop::Needs(Box::new(Evaluation {
                source: compiled.source.clone(),
                local_names: compiled.local_names.clone(),
                input: dot.clone(),
                args,
            }))),
        }
    }

    fn wanted(&mut self, template: &Template, event: &Data) -> Result<Data, Stop> {
        match template {
            Template::Literal(data) => Ok(data.clone()),
            Template::Expr(id) => self.eval(*id, event),
            Template::Loose(id, text) => match self.eval(*id, event) {
                Err(Stop::Fault(_)) => Ok(Data::text(text.as_str())),
                evaluated => evaluated,
            },
            Template::Array(items) => {
                let items: Result<Vec<_>, _> = items.iter().map(|item| self.wanted(item, event)).collect();
                Ok(Data::array(items?))
            }
            Template::Object(entries) => {
                let entries: Result<Vec<_>, Stop> = entries
                    .iter()
                    .map(|(key, value)| Ok((key.clone(), self.wanted(value, event)?)))
                    .collect();
                Ok(Data::map(entries?))
            }
        }
    }
}
