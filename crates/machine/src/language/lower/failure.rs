//! Errors: raising, catching, retrying.

use super::{Lowering, expression::Site, list::Targets};
use crate::{
    data::Data,
    fault,
    ir::{Backoff, Catch, Delay, ErrorFilter, Kind, Raise, Retry, Template},
    language::{
        shape::{span_of, unwrap_expression},
        source::{At, Sort},
    },
    time::Span,
};
use std::collections::HashSet;

impl<'t> Lowering<'t, '_> {
    pub(super) fn raise(&mut self, at: At<'_>) -> Kind {
        let error = at.get("error").and_then(|error| match error.text() {
            Some(name) => self.used("errors", name, error),
            None => Some(error),
        });
        match error {
            Some(error) => Kind::Raise { error: self.raised(error) },
            None => Kind::Do { list: Vec::new() },
        }
    }

    /// An error as it will be raised.
    pub(super) fn raised(&mut self, error: At<'_>) -> Raise {
        let unknown = || Template::Literal(Data::text(format!("{}runtime", fault::TYPE_BASE)));
        Raise {
            error_type: self.template_in(error, "type", Site::Body).unwrap_or_else(unknown),
            status: status(error).unwrap_or_default(),
            title: self.template_in(error, "title", Site::Body),
            detail: self.template_in(error, "detail", Site::Body),
            instance: self.template_in(error, "instance", Site::Body),
        }
    }

    pub(super) fn r#try(
        &mut self,
        task: At<'t>,
        at: At<'t>,
        reference: &str,
        _targets: &Targets<'_>,
    ) -> Kind {
        let list = self.list(at, &format!("{reference}/try"));
        let Some(catch) = task.get("catch").filter(|catch| catch.sort() == Sort::Object) else {
            return Kind::Try { list, catch: Catch::default() };
        };
        let with = catch.get("errors").and_then(|errors| errors.get("with"));
        let error_as = self.variable(catch.get("as"), "error");
        let with = with.map(|with| self.error_filter(with, &error_as)).unwrap_or_default();
        let catch = self.with_locals(&[&error_as.clone()], |inner| Catch {
            with,
            error_as,
            when: inner.expression_in(catch, "when", Site::Body),
            except_when: inner.expression_in(catch, "exceptWhen", Site::Body),
            retry: catch.get("retry").and_then(|retry| inner.retry_or_name(retry)),
            list: catch.get("do").map(|list| inner.list(list, &format!("{reference}/catch/do"))),
            then: None,
        });
        Kind::Try { list, catch }
    }

    /// The standard compares errors with static values here; what is computed belongs into `when`.
    fn error_filter(&mut self, with: At<'_>, error: &str) -> ErrorFilter {
        for (key, value) in with.entries() {
            if let Some(expression) = value.text().and_then(unwrap_expression) {
                let message = format!("the wanted `{key}` of an error cannot be an expression");
                let member = if key == "details" { "detail" } else { key };
                let hint = format!("compare in `catch.when`: `${error}.{member} == ({})`", expression.trim());
                self.error(value.place(), "static-only", message, Some(hint));
            }
        }
        let text = |key| with.get(key).and_then(At::text).map(str::to_owned);
        ErrorFilter {
            error_type: text("type"),
            status: status(with),
            instance: text("instance"),
            title: text("title"),
            detail: text("detail").or_else(|| text("details")),
        }
    }

    pub(super) fn retry_or_name(&mut self, at: At<'_>) -> Option<Retry> {
        match at.text() {
            Some(name) => self.used("retries", name, at).map(|retry| self.retry(retry)),
            None => Some(self.retry(at)),
        }
    }

    /// Checks the declared retry policies; they see the error under its default name.
    pub(super) fn check_retries(&mut self, declared: At<'_>) {
        let mut used = HashSet::new();
        collect_retries(self.root, &mut used);
        let policies = declared.get("retries").into_iter().flat_map(At::entries);
        let unused: Vec<At<'_>> =
            policies.filter(|(name, _)| !used.contains(name)).map(|(_, retry)| retry).collect();
        for retry in unused {
            self.look(|dry| {
                dry.with_locals(&["error"], |inner| {
                    inner.retry(retry);
                });
            });
        }
    }

    fn retry(&mut self, at: At<'_>) -> Retry {
        let limit = at.get("limit");
        let attempt = limit.and_then(|limit| limit.get("attempt"));
        let count = attempt.and_then(|attempt| attempt.get("count")).and_then(At::integer);
        let jitter = at.get("jitter").and_then(|jitter| {
            let from = self.delay_in(jitter, "from", Site::Body);
            Some((jitter, from?, self.delay_in(jitter, "to", Site::Body)?))
        });
        if let Some((jitter, Delay::Fixed(from), Delay::Fixed(to))) = jitter
            && from > to
        {
            let message = "`jitter` starts after it ends: `from` is longer than `to`".to_owned();
            self.error(jitter.place(), "bad-duration", message, Some("swap the two".to_owned()));
        }
        Retry {
            when: self.expression_in(at, "when", Site::Body),
            except_when: self.expression_in(at, "exceptWhen", Site::Body),
            delay: self.delay_in(at, "delay", Site::Body).unwrap_or(Delay::Fixed(Span::ZERO)),
            backoff: at.get("backoff").map(backoff).unwrap_or(Backoff::Constant),
            count_max: count.and_then(|count| u32::try_from(count).ok()),
            attempt_max: attempt.and_then(|attempt| self.delay_in(attempt, "duration", Site::Body)),
            total_max: limit.and_then(|limit| self.delay_in(limit, "duration", Site::Body)),
            jitter: jitter.map(|(_, from, to)| (from, to)),
        }
    }
}

fn status(at: At<'_>) -> Option<u16> {
    at.get("status").and_then(At::integer).and_then(|status| u16::try_from(status).ok())
}

fn backoff(at: At<'_>) -> Backoff {
    const FACTOR_DEFAULT: f64 = 2.0;
    match (at.get("exponential"), at.get("linear")) {
        (Some(exponential), _) => Backoff::Exponential {
            factor: exponential
                .get("factor")
                .and_then(|factor| factor.number()?.to_json().as_f64())
                .unwrap_or(FACTOR_DEFAULT),
            max: exponential.get("maxDelay").and_then(|max| span_of(max).ok()),
        },
        (None, Some(_)) => Backoff::Linear,
        (None, None) => Backoff::Constant,
    }
}

/// The policies that some `catch.retry` names.
fn collect_retries<'t>(at: At<'t>, names: &mut HashSet<&'t str>) {
    for (key, value) in at.entries() {
        if let Some(name) = value.text().filter(|_| key == "retry") {
            names.insert(name);
        }
        collect_retries(value, names);
    }
    at.items().for_each(|item| collect_retries(item, names));
}
