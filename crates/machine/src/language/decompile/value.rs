//! Expressions, templates and durations.

use super::Decompiler;
use crate::{
    data::Data,
    ir::{Delay, ExprId, Template},
    time::Span,
};

impl Decompiler<'_> {
    /// An expression where only an expression can stand: without `${ }`.
    pub(super) fn bare(&self, id: ExprId) -> Data {
        Data::text(self.workflow.exprs[id as usize].source.as_str())
    }

    /// An expression among other values.
    pub(super) fn wrapped(&self, id: ExprId) -> Data {
        Data::text(format!("${{ {} }}", self.workflow.exprs[id as usize].source))
    }

    pub(super) fn template(&self, template: &Template) -> Data {
        match template {
            Template::Literal(data) => data.clone(),
            Template::Expr(id) => self.wrapped(*id),
            Template::Loose(_, text) => Data::text(text.as_str()),
            Template::Array(items) => Data::array(items.iter().map(|item| self.template(item))),
            Template::Object(members) => self.members(members),
        }
    }

    pub(super) fn members(&self, members: &[(String, Template)]) -> Data {
        Data::map(members.iter().map(|(key, value)| (key.clone(), self.template(value))))
    }

    /// `from` or `as`, where a text is always an expression.
    pub(super) fn transform(&self, template: &Template) -> Data {
        match template {
            Template::Expr(id) => self.bare(*id),
            other => self.template(other),
        }
    }

    pub(super) fn delay(&self, delay: Delay) -> Data {
        match delay {
            Delay::Fixed(span) => duration(span),
            Delay::Expr(id) => self.wrapped(id),
        }
    }

    pub(super) fn timeout(&self, delay: Delay) -> Data {
        super::single("after", self.delay(delay))
    }
}

/// A length of time as an object; as ISO 8601 where the object has no unit small enough.
pub(super) fn duration(span: Span) -> Data {
    const UNITS: [(&str, i64); 5] = [
        ("days", 86_400_000_000),
        ("hours", 3_600_000_000),
        ("minutes", 60_000_000),
        ("seconds", 1_000_000),
        ("milliseconds", 1_000),
    ];
    let mut left = span.0;
    let mut members = Vec::new();
    for (unit, micros) in UNITS {
        let amount = left / micros;
        left %= micros;
        if amount > 0 {
            members.push((unit.to_owned(), Data::int(amount)));
        }
    }
    if left > 0 {
        return Data::text(format!("PT{}.{:06}S", span.0 / 1_000_000, span.0 % 1_000_000));
    }
    if members.is_empty() {
        members.push(("seconds".to_owned(), Data::int(0)));
    }
    Data::map(members)
}
