//! Events: `emit`, `listen` and the filters they share with schedules.

use super::{Lowering, expression::Site};
use crate::{
    ir::{Correlation, EventFilter, Kind, Read, Template},
    language::source::At,
};

impl<'t> Lowering<'t, '_> {
    pub(super) fn emit(&mut self, at: At<'_>) -> Kind {
        let with = at.get("event").and_then(|event| event.get("with"));
        let event = match with {
            Some(with) => self.template(with, Site::Body),
            None => Template::Object(Vec::new()),
        };
        Kind::Emit { event }
    }

    pub(super) fn listen(&mut self, task: At<'t>, at: At<'_>, reference: &str) -> Kind {
        let read = match at.get("read").and_then(At::text) {
            Some("envelope") => Read::Envelope,
            Some("raw") => Read::Raw,
            _ => Read::Data,
        };
        let Some(to) = at.get("to") else { return Kind::Listen { filters: Vec::new(), read } };
        let foreach = task.get("foreach");
        if let Some(foreach) = foreach {
            let base = format!("{reference}/foreach/do");
            self.look(|dry| dry.iterator(foreach, &base));
        }
        match (to.get("one"), foreach) {
            (Some(one), None) => Kind::Listen { filters: vec![self.filter(one)], read },
            (Some(_), Some(foreach)) => {
                self.look(|dry| dry.strategy(to));
                self.unsupported(foreach.key_place(), "`listen` with `foreach`")
            }
            (None, _) => {
                self.look(|dry| dry.strategy(to));
                let what = to.entries().map(|(key, _)| key).find(|key| matches!(*key, "any" | "all"));
                self.unsupported(to.key_place(), &format!("`listen.to.{}`", what.unwrap_or("any")))
            }
        }
    }

    /// Checks every filter of a consumption strategy.
    pub(super) fn strategy(&mut self, to: At<'_>) {
        let filters = to
            .get("one")
            .into_iter()
            .chain(["any", "all"].iter().filter_map(|key| to.get(key)).flat_map(At::items));
        for filter in filters {
            self.filter(filter);
        }
        match to.get("until") {
            Some(until) if until.text().is_some() => {
                self.expression(until, Site::Body);
            }
            Some(until) => self.strategy(until),
            None => {}
        }
    }

    fn filter(&mut self, at: At<'_>) -> EventFilter {
        let with = at.get("with").map(|with| self.members(with, Site::Body)).unwrap_or_default();
        let mut correlate = Vec::new();
        for (key, correlation) in at.get("correlate").into_iter().flat_map(At::entries) {
            let expect = self.template_in(correlation, "expect", Site::Body);
            if let Some(from) = self.expression_in(correlation, "from", Site::Body) {
                correlate.push(Correlation { key: key.to_owned(), from, expect });
            }
        }
        EventFilter { with, correlate }
    }

    /// Checks a `foreach`, inside which the consumed item and its index are visible.
    pub(super) fn iterator(&mut self, at: At<'t>, base: &str) {
        let item = self.variable(at.get("item"), "item");
        let index = self.variable(at.get("at"), "index");
        self.with_locals(&[&item, &index], |inner| {
            if let Some(list) = at.get("do") {
                inner.list(list, base);
            }
            inner.transform(at.get("output"), "as", Site::Body);
            inner.transform(at.get("export"), "as", Site::Export);
        });
    }
}
