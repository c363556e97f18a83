//! Listening: strategies, filters, and what is done with each event.

use super::{Decompiler, Members, push, push_object};
use crate::{
    data::Data,
    ir::{Consume, Correlation, EventFilter, Foreach, Read, Strategy, Until},
};

impl Decompiler<'_> {
    pub(super) fn listen(&self, to: &Strategy, read: Read) -> Data {
        let mut listen = vec![("to".to_owned(), self.strategy(to))];
        let read = match read {
            Read::Data => None,
            Read::Envelope => Some(Data::text("envelope")),
            Read::Raw => Some(Data::text("raw")),
        };
        push(&mut listen, "read", read);
        Data::map(listen)
    }

    pub(super) fn strategy(&self, strategy: &Strategy) -> Data {
        let Strategy { filters, consume, until } = strategy;
        let until = until.as_ref().map(|until| match until {
            Until::Never => Data::text("false"),
            Until::Expr(id) => self.bare(*id),
            Until::Events { filters, consume } => Data::map([self.consumed(filters, *consume, true)]),
        });
        let mut members = vec![self.consumed(filters, *consume, until.is_none())];
        push(&mut members, "until", until);
        Data::map(members)
    }

    /// `one`, `any` or `all`; `until` goes with `any` only.
    fn consumed(&self, filters: &[EventFilter], consume: Consume, may_be_one: bool) -> (String, Data) {
        let all = || Data::array(filters.iter().map(|filter| self.filter(filter)));
        let (key, value) = match (filters, consume) {
            ([one], Consume::Any) if may_be_one => ("one", self.filter(one)),
            (_, Consume::Any) => ("any", all()),
            (_, Consume::All) => ("all", all()),
        };
        (key.to_owned(), value)
    }

    fn filter(&self, filter: &EventFilter) -> Data {
        let EventFilter { with, correlate } = filter;
        let mut members = vec![("with".to_owned(), self.members(with))];
        let mut all = Members::new();
        for Correlation { key, from, expect } in correlate {
            let mut correlation = vec![("from".to_owned(), self.bare(*from))];
            push(&mut correlation, "expect", expect.as_ref().map(|expect| self.template(expect)));
            all.push((key.clone(), Data::map(correlation)));
        }
        push_object(&mut members, "correlate", all);
        Data::map(members)
    }

    pub(super) fn foreach(&mut self, foreach: &Foreach) -> Data {
        let Foreach { item, at, list, output, export, output_schema, export_schema } = foreach;
        let mut members = vec![("item".to_owned(), Data::text(item.as_str()))];
        push(&mut members, "at", (at != "index").then(|| Data::text(at.as_str())));
        push(&mut members, "do", (!list.is_empty()).then(|| self.list(list)));
        push_object(&mut members, "output", self.flow("as", output.as_ref(), self.schema(*output_schema)));
        push_object(&mut members, "export", self.flow("as", export.as_ref(), self.schema(*export_schema)));
        Data::map(members)
    }
}
