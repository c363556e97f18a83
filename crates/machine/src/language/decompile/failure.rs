//! Errors: raising, catching, retrying.

use super::{Decompiler, Members, push, push_object, single, value::duration};
use crate::{
    data::Data,
    ir::{Backoff, Catch, Delay, ErrorFilter, Raise, Retry, StepId},
    time::Span,
};

impl Decompiler<'_> {
    pub(super) fn raise(&self, raise: &Raise) -> Data {
        let Raise { error_type, status, title, detail, instance } = raise;
        let mut error = vec![
            ("type".to_owned(), self.template(error_type)),
            ("status".to_owned(), Data::int(i64::from(*status))),
        ];
        for (key, part) in [("title", title), ("detail", detail), ("instance", instance)] {
            push(&mut error, key, part.as_ref().map(|part| self.template(part)));
        }
        Data::map(error)
    }

    pub(super) fn catch(&mut self, catch: &Catch, among: &[StepId]) -> Data {
        let Catch { with, error_as, when, except_when, retry, list, then } = catch;
        let mut members = Members::new();
        let with = filter(with);
        if !with.is_empty() {
            members.push(("errors".to_owned(), single("with", Data::map(with))));
        }
        let named = !error_as.is_empty() && error_as != "error";
        push(&mut members, "as", named.then(|| Data::text(error_as.as_str())));
        push(&mut members, "when", when.map(|id| self.bare(id)));
        push(&mut members, "exceptWhen", except_when.map(|id| self.bare(id)));
        push(&mut members, "retry", retry.as_ref().map(|retry| self.retry(retry)));
        push(&mut members, "do", list.as_ref().map(|list| self.list(list)));
        push(&mut members, "then", then.and_then(|then| self.then(then, among)));
        Data::map(members)
    }

    pub(super) fn retry(&self, retry: &Retry) -> Data {
        let Retry { when, except_when, delay, backoff, count_max, attempt_max, total_max, jitter } = retry;
        let mut members = Members::new();
        push(&mut members, "when", when.map(|id| self.bare(id)));
        push(&mut members, "exceptWhen", except_when.map(|id| self.bare(id)));
        let delay = (*delay != Delay::Fixed(Span::ZERO)).then(|| self.delay(*delay));
        push(&mut members, "delay", delay);
        push(&mut members, "backoff", growth(backoff));
        let mut attempt = Members::new();
        push(&mut attempt, "count", count_max.map(|count| Data::int(i64::from(count))));
        push(&mut attempt, "duration", attempt_max.map(|limit| self.delay(limit)));
        let mut limit = Members::new();
        push_object(&mut limit, "attempt", attempt);
        push(&mut limit, "duration", total_max.map(|limit| self.delay(limit)));
        push_object(&mut members, "limit", limit);
        let jitter = jitter.map(|(from, to)| {
            Data::map([("from".to_owned(), self.delay(from)), ("to".to_owned(), self.delay(to))])
        });
        push(&mut members, "jitter", jitter);
        Data::map(members)
    }
}

fn filter(filter: &ErrorFilter) -> Members {
    let ErrorFilter { error_type, status, instance, title, detail } = filter;
    let mut members = Members::new();
    let text = |part: &Option<String>| part.as_ref().map(|part| Data::text(part.as_str()));
    push(&mut members, "type", text(error_type));
    push(&mut members, "status", status.map(|status| Data::int(i64::from(status))));
    push(&mut members, "instance", text(instance));
    push(&mut members, "title", text(title));
    // The upstream schema's spelling.
    push(&mut members, "details", text(detail));
    members
}

/// How delays grow; nothing if they do not.
fn growth(backoff: &Backoff) -> Option<Data> {
    const FACTOR_DEFAULT: f64 = 2.0;
    match backoff {
        Backoff::Constant => None,
        Backoff::Linear => Some(single("linear", Data::object())),
        Backoff::Exponential { factor, max } => {
            let mut members = Members::new();
            let factor = (*factor != FACTOR_DEFAULT).then(|| Data::from_json((*factor).into()));
            push(&mut members, "factor", factor);
            push(&mut members, "maxDelay", max.map(duration));
            Some(single("exponential", Data::map(members)))
        }
    }
}
