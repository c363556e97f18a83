//! Event filters.

use super::{Decompiler, Members, push, push_object, single};
use crate::{
    data::Data,
    ir::{Correlation, EventFilter, Read},
};

impl Decompiler<'_> {
    pub(super) fn listen(&self, filters: &[EventFilter], read: Read) -> Data {
        let one = filters.first().map(|filter| self.filter(filter)).unwrap_or_default();
        let mut listen = vec![("to".to_owned(), single("one", one))];
        let read = match read {
            Read::Data => None,
            Read::Envelope => Some(Data::text("envelope")),
            Read::Raw => Some(Data::text("raw")),
        };
        push(&mut listen, "read", read);
        Data::map(listen)
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
}
