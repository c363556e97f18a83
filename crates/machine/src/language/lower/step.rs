//! One task: what every task may carry, then what its kind adds.

use super::{Lowering, STEPS_MAX, expression::Site, list::Targets};
use crate::{
    data::Data,
    ir::{Kind, Step, StepId, Then},
    language::{shape, source::At},
};

impl<'t> Lowering<'t, '_> {
    /// Adds the step of a task and of all tasks inside it; `None` if there are too many.
    pub(super) fn step(
        &mut self,
        name: &str,
        task: At<'t>,
        reference: String,
        targets: &Targets<'_>,
    ) -> Option<StepId> {
        let id = self.reserve(name, reference.clone(), task)?;
        let condition = self.expression_in(task, "if", Site::TaskInput);
        let input = self.transform(task.get("input"), "from", Site::TaskInput);
        let kind = as_given(self.kind(task, &reference, targets), task);
        let output = self.transform(task.get("output"), "as", Site::Body);
        let export = self.transform(task.get("export"), "as", Site::Export);
        let timeout = self.timeout(task.get("timeout"), Site::Body);
        let then = self.then(task.get("then"), targets);
        self.check_base(task, then);
        let [input_schema, output_schema, export_schema] =
            ["input", "output", "export"].map(|key| task.get(key).and_then(|part| self.schema(part)));
        let extends = self.extending;
        let step = &mut self.steps[id as usize];
        (step.input_schema, step.output_schema, step.export_schema) =
            (input_schema, output_schema, export_schema);
        step.extends = extends;
        (step.condition, step.input, step.output, step.export) = (condition, input, output, export);
        (step.timeout, step.then, step.kind) = (timeout, then, kind);
        step.metadata = task.get("metadata").map(At::to_data);
        if let Ok(kind) = shape::kind_of(task) {
            self.extend(id, kind.key);
        }
        Some(id)
    }

    /// Adds a step that does nothing yet, so that a step comes before those inside it.
    pub(super) fn reserve(&mut self, name: &str, reference: String, task: At<'_>) -> Option<StepId> {
        if self.steps.len() >= STEPS_MAX {
            let message =
                format!("the definition has more than {STEPS_MAX} steps, counting each call of a function");
            let hint = "split it into several definitions".to_owned();
            if !std::mem::replace(&mut self.full, true) {
                self.error(task.key_place(), "too-large", message, Some(hint));
            }
            return None;
        }
        self.steps.push(Step {
            name: name.to_owned(),
            reference,
            condition: None,
            input: None,
            output: None,
            export: None,
            input_schema: None,
            output_schema: None,
            export_schema: None,
            timeout: None,
            then: Then::Continue,
            metadata: None,
            before: Vec::new(),
            after: Vec::new(),
            extends: self.extending,
            kind: Kind::Do { list: Vec::new() },
        });
        Some(self.steps.len() as StepId - 1)
    }

    fn check_base(&mut self, task: At<'_>, then: Then) {
        if let (Some(_), Some(at), false) = (task.get("if"), task.get("then"), then == Then::Continue) {
            let message =
                "`then` is ignored when `if` is false: the flow goes on with the next task".to_owned();
            self.warn(at.key_place(), "if-then", message, "use `switch` if both outcomes should jump");
        }
    }

    fn kind(&mut self, task: At<'t>, reference: &str, targets: &Targets<'_>) -> Kind {
        let Ok(kind) = shape::kind_of(task) else { return Kind::Do { list: Vec::new() } };
        let Some(at) = task.get(kind.key) else { return Kind::Do { list: Vec::new() } };
        match kind.key {
            "call" => self.call(task, at, reference),
            "do" => Kind::Do { list: self.list(at, &format!("{reference}/do")) },
            "emit" => self.emit(at),
            "for" => self.r#for(task, at, reference),
            "fork" => self.fork(at, reference),
            "listen" => self.listen(task, at, reference),
            "raise" => self.raise(at),
            "run" => self.run(at),
            "set" => Kind::Set { value: self.template(at, Site::Body) },
            "switch" => self.switch(at, targets),
            "try" => self.r#try(task, at, reference, targets),
            _ => self.wait(at),
        }
    }
}

/// What is not executed keeps its part of the document, so that the definition can be written out again.
fn as_given(kind: Kind, task: At<'_>) -> Kind {
    match (kind, shape::kind_of(task)) {
        (Kind::Unsupported { what, .. }, Ok(shape)) => {
            let members = shape.fields.iter().filter_map(|field| Some((field.key, task.get(field.key)?)));
            let task = members.map(|(key, at)| (key.to_owned(), at.to_data()));
            Kind::Unsupported { what, task: Data::map(task) }
        }
        (kind, _) => kind,
    }
}
