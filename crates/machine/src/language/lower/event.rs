//! Events: `emit`, `listen` and the filters they share with schedules.

use super::{Lowering, expression::Site};
use crate::{
    event::pattern_problem,
    ir::{Consume, Correlation, EventFilter, Foreach, Kind, Read, Strategy, Template, Until},
    language::{shape::unwrap_expression, source::At},
};

impl<'t> Lowering<'t, '_> {
    pub(super) fn emit(&mut self, at: At<'_>) -> Kind {
        let with = at.get("event").and_then(|event| event.get("with"));
        for (name, at) in with.into_iter().flat_map(At::entries) {
            self.attribute_name(name, at);
        }
        let event = match with {
            Some(with) => self.template(with, Site::Body),
            None => Template::Object(Vec::new()),
        };
        Kind::Emit { event }
    }

    /// Attributes of a CloudEvent have names of small letters and digits.
    fn attribute_name(&mut self, name: &str, at: At<'_>) {
        let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        if name != "data_base64" && (name.is_empty() || !name.bytes().all(fits)) {
            let message = format!("`{name}` cannot be an attribute of an event");
            let hint = "use small letters and digits only, or put it into `data`".to_owned();
            self.error(at.key_place(), "bad-name", message, Some(hint));
        }
    }

    pub(super) fn listen(&mut self, task: At<'t>, at: At<'_>, reference: &str) -> Kind {
        let read = match at.get("read").and_then(At::text) {
            Some("envelope") => Read::Envelope,
            Some("raw") => Read::Raw,
            _ => Read::Data,
        };
        let foreach = task.get("foreach").map(|foreach| {
            let base = format!("{reference}/foreach/do");
            self.iterator(foreach, &base)
        });
        let to = at.get("to").map(|to| self.strategy(to, Site::Body)).unwrap_or_default();
        Kind::Listen { to, read, foreach }
    }

    /// Which events are consumed, and when that ends.
    pub(super) fn strategy(&mut self, to: At<'_>, site: Site) -> Strategy {
        let (filters, consume) = self.filters(to, site);
        let until = to.get("until").and_then(|until| match until.text() {
            Some(text) if is_never(text) => Some(Until::Never),
            Some(_) => self.expression(until, site).map(Until::Expr),
            None => {
                let (filters, consume) = self.filters(until, site);
                Some(Until::Events { filters, consume })
            }
        });
        Strategy { filters, consume, until }
    }

    fn filters(&mut self, to: At<'_>, site: Site) -> (Vec<EventFilter>, Consume) {
        let several = |key| to.get(key).into_iter().flat_map(At::items);
        let filters = to.get("one").into_iter().chain(several("any")).chain(several("all"));
        let filters = filters.map(|filter| self.filter(filter, site)).collect();
        (filters, if to.get("all").is_some() { Consume::All } else { Consume::Any })
    }

    fn filter(&mut self, at: At<'_>, site: Site) -> EventFilter {
        let with = at.get("with").map(|with| self.members(with, site)).unwrap_or_default();
        for (name, wanted) in
            at.get("with").into_iter().flat_map(At::entries).filter(|(name, _)| *name != "data")
        {
            let text = wanted.text().filter(|text| unwrap_expression(text).is_none());
            if let Some(problem) = text.and_then(pattern_problem) {
                let message = format!("the wanted `{name}` is not a regular expression: {problem}");
                let hint = "put a `\\` before characters that stand for themselves";
                self.error(wanted.place(), "bad-pattern", message, Some(hint.to_owned()));
            }
        }
        let mut correlate = Vec::new();
        for (key, correlation) in at.get("correlate").into_iter().flat_map(At::entries) {
            let expect = self.template_in(correlation, "expect", site);
            if let Some(from) = self.expression_in(correlation, "from", site) {
                correlate.push(Correlation { key: key.to_owned(), from, expect });
            }
        }
        EventFilter { with, correlate }
    }

    /// A `foreach`, inside which the consumed item and its index are visible.
    pub(super) fn iterator(&mut self, at: At<'t>, base: &str) -> Foreach {
        let item = self.variable(at.get("item"), "item");
        let index = self.variable(at.get("at"), "index");
        let (list, output, export) = self.with_locals(&[&item, &index], |inner| {
            let list = at.get("do").map(|list| inner.list(list, base)).unwrap_or_default();
            let output = inner.transform(at.get("output"), "as", Site::Body);
            (list, output, inner.transform(at.get("export"), "as", Site::Export))
        });
        let [output_schema, export_schema] =
            ["output", "export"].map(|key| at.get(key).and_then(|part| self.schema(part)));
        Foreach { item, at: index, list, output, export, output_schema, export_schema }
    }
}

/// True for a condition that never holds: listening goes on until something else ends it.
fn is_never(text: &str) -> bool {
    matches!(unwrap_expression(text).unwrap_or(text).trim(), "false" | "null")
}
