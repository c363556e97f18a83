//! `saga:1.0.0@default`: steps that are done in order and undone in reverse.
//!
//! `do` and `undo` name functions as `call` does; each becomes a step of its own, with the pointer of its name in
//! the document as its reference. What a function needs of the saga it gets as its arguments.

use super::{Lowering, expression::Site};
use crate::{
    expr,
    ir::{Kind, Retry, SAGA_ERROR, SAGA_STEPS, SagaStep, StepId, Template, Then},
    language::{names::nearest, shape::unwrap_expression, source::At},
};

/// The saga of the default catalog, as `call` names it.
pub(in crate::language) const SAGA: &str = "saga:1.0.0@default";
/// How many steps a saga may have: all that is done is kept until the saga ends.
pub(crate) const SAGA_STEPS_MAX: usize = 100;

impl<'t> Lowering<'t, '_> {
    pub(super) fn saga(&mut self, with: Option<At<'t>>, reference: &str) -> Kind {
        let list = with.and_then(|with| with.get("steps"));
        let mut steps: Vec<SagaStep> = Vec::new();
        for (index, step) in list.into_iter().flat_map(At::items).enumerate() {
            if index >= SAGA_STEPS_MAX {
                let message = format!("a saga has at most {SAGA_STEPS_MAX} steps");
                self.error(step.place(), "too-large", message, Some("split it into several".to_owned()));
                break;
            }
            let base = format!("{reference}/with/steps/{index}");
            if let Some(with) = step.get("with") {
                self.check_earlier(with, &steps);
            }
            let lowered = self.saga_step(step, &base);
            if let Some(lowered) = lowered {
                self.check_saga_step(step, &lowered, &steps);
                steps.push(lowered);
            }
        }
        Kind::Saga { steps }
    }

    fn saga_step(&mut self, step: At<'t>, base: &str) -> Option<SagaStep> {
        let name = step.get("name")?.text()?.to_owned();
        let with = self.with_locals(&[SAGA_STEPS], |inner| inner.template_in(step, "with", Site::Body));
        let forth = self.saga_call(&name, step.get("do")?, format!("{base}/do"), with)?;
        let undo = match step.get("undo") {
            Some(undo) => Some(self.saga_call(&name, undo, format!("{base}/undo"), None)?),
            None => None,
        };
        let retry = step.get("retry").and_then(|retry| {
            self.with_locals(&[SAGA_ERROR], |inner| inner.retry_or_name(retry).map(|policy| (retry, policy)))
        });
        if let Some((retry, Retry { attempt_max: Some(_), .. })) = retry {
            let message = "an attempt of a saga's step has no limit of its own".to_owned();
            let hint = "give the function's task a `timeout`".to_owned();
            self.error(retry.place(), "bad-value", message, Some(hint));
        }
        Some(SagaStep {
            name,
            r#do: forth,
            undo,
            pivot: step.get("pivot").and_then(At::flag).unwrap_or(false),
            retry: retry.map_or_else(Retry::of_sagas, |(_, policy)| policy),
        })
    }

    /// A step that calls a function with the step's input.
    fn saga_call(
        &mut self,
        name: &str,
        at: At<'t>,
        reference: String,
        with: Option<Template>,
    ) -> Option<StepId> {
        let function = at.text()?;
        let id = self.reserve(name, reference.clone(), at)?;
        let input = Template::Expr(self.everything());
        let kind = self.call_function(function, at, input, &reference);
        let step = &mut self.steps[id as usize];
        (step.input, step.kind) = (with, kind);
        self.check_saga_function(function, at, id);
        Some(id)
    }

    /// A function that ends the workflow would leave the saga half done.
    fn check_saga_function(&mut self, function: &str, at: At<'_>, first: StepId) {
        let ends = self.steps[first as usize..].iter().any(|step| {
            let elsewhere = match &step.kind {
                Kind::Switch { cases } => cases.iter().any(|case| case.then == Then::End),
                Kind::Try { catch, .. } => catch.then == Some(Then::End),
                _ => false,
            };
            step.then == Then::End || elsewhere
        });
        if ends {
            let message = format!("`{function}` ends the workflow, which would leave the saga half done");
            let hint = "use `then: exit` in functions of a saga".to_owned();
            self.error(at.place(), "end-in-saga", message, Some(hint));
        }
    }

    /// Refuses `$steps.<name>` of a step that has no output yet: it would be null for ever.
    fn check_earlier(&mut self, at: At<'_>, before: &[SagaStep]) {
        at.entries().for_each(|(_, member)| self.check_earlier(member, before));
        at.items().for_each(|item| self.check_earlier(item, before));
        let Some(text) = at.text() else { return };
        let Some(source) = unwrap_expression(text).or(self.loose.then_some(text)) else { return };
        // `source` is a slice of `text`, so its offset is the distance of their starts.
        let start = source.as_ptr() as usize - text.as_ptr() as usize;
        let names = || before.iter().map(|step| step.name.as_str());
        for (name, offset) in expr::members(source, SAGA_STEPS) {
            if names().any(|known| known == name) {
                continue;
            }
            let message = format!("`$steps.{name}` is not the output of an earlier step of this saga");
            let hint = match nearest(&name, names()) {
                Some(near) => format!("did you mean `$steps.{near}`?"),
                None if before.is_empty() => "no step comes before this one".to_owned(),
                None => format!("the steps before are {}", names().collect::<Vec<_>>().join(", ")),
            };
            self.error(at.place_in_text(start + offset), "unknown-reference", message, Some(hint));
        }
    }

    fn check_saga_step(&mut self, at: At<'_>, step: &SagaStep, before: &[SagaStep]) {
        if before.iter().any(|other| other.name == step.name) {
            let message = format!("two steps of this saga are called `{}`", step.name);
            let hint = "the saga's output names each step's output; rename one of them".to_owned();
            self.error(at.place(), "duplicate-task", message, Some(hint));
        }
        let past = before.iter().any(|other| other.pivot) || step.pivot;
        if let (true, Some(undo)) = (past, at.get("undo")) {
            let message =
                format!("`{}` is never undone: once the pivot is done, a saga only goes forward", step.name);
            self.warn(undo.key_place(), "unused-undo", message, "leave `undo` out, or move the pivot");
        }
    }

    /// The expression that yields the data as it is.
    fn everything(&mut self) -> crate::ir::ExprId {
        self.id((".".to_owned(), Vec::new()))
    }
}
