//! Lists, steps, and the kinds of step that direct the flow.

use super::{Decompiler, Members, push, push_object, single};
use crate::{
    data::Data,
    ir::{Case, Kind, Step, StepId, Template, Then},
};

impl Decompiler<'_> {
    /// A list of tasks.
    pub(super) fn list(&mut self, ids: &[StepId]) -> Data {
        let workflow = self.workflow;
        if self.shallow {
            return Data::array([]);
        }
        Data::array(ids.iter().map(|id| {
            let step = &workflow.steps[*id as usize];
            single(&step.name, self.task(step, ids))
        }))
    }

    /// One task of the list `among`.
    pub(super) fn task(&mut self, step: &Step, among: &[StepId]) -> Data {
        let Step {
            name: _,
            reference: _,
            condition,
            input,
            output,
            export,
            input_schema,
            output_schema,
            export_schema,
            timeout,
            then,
            metadata,
            // `use` declares the extensions.
            before: _,
            after: _,
            extends: _,
            kind,
        } = step;
        let mut task = Members::new();
        push(&mut task, "if", condition.map(|id| self.bare(id)));
        push_object(&mut task, "input", self.flow("from", input.as_ref(), self.schema(*input_schema)));
        self.kind(kind, among, &mut task);
        push_object(&mut task, "output", self.flow("as", output.as_ref(), self.schema(*output_schema)));
        push_object(&mut task, "export", self.flow("as", export.as_ref(), self.schema(*export_schema)));
        push(&mut task, "timeout", timeout.map(|timeout| self.timeout(timeout)));
        push(&mut task, "then", self.then(*then, among));
        push(&mut task, "metadata", metadata.clone());
        Data::map(task)
    }

    /// `call` of a function; the function itself is declared in `use`.
    fn function(&mut self, with: &Template, id: StepId, task: &mut Members) {
        let workflow = self.workflow;
        let function = &workflow.steps[id as usize];
        task.push(("call".to_owned(), Data::text(function.name.as_str())));
        push(task, "with", Some(self.template(with)).filter(|with| *with != Data::object()));
        if self.functions.iter().any(|(name, _)| *name == function.name) {
            return;
        }
        let position = self.functions.len();
        self.functions.push((function.name.clone(), Data::NULL));
        self.functions[position].1 = self.task(function, &[]);
    }

    /// The name of the function that a step of a saga calls.
    pub(super) fn function_of(&mut self, id: StepId) -> Data {
        let step = &self.workflow.steps[id as usize];
        let mut task = Members::new();
        self.kind(&step.kind, &[], &mut task);
        task.into_iter().find(|(key, _)| key == "call").map(|(_, name)| name).unwrap_or_default()
    }

    pub(super) fn then(&self, then: Then, among: &[StepId]) -> Option<Data> {
        match then {
            Then::Continue => None,
            Then::Exit => Some(Data::text("exit")),
            Then::End => Some(Data::text("end")),
            Then::Goto(position) => {
                let target = among.get(position as usize)?;
                Some(Data::text(self.workflow.steps[*target as usize].name.as_str()))
            }
        }
    }

    fn kind(&mut self, kind: &Kind, among: &[StepId], task: &mut Members) {
        let (key, value) = match kind {
            Kind::Do { list } => ("do", self.list(list)),
            Kind::Set { value } => ("set", self.template(value)),
            Kind::Switch { cases } => ("switch", self.switch(cases, among)),
            Kind::For { item, at, items, condition, list } => {
                let mut each = vec![("each".to_owned(), Data::text(item.as_str()))];
                push(&mut each, "at", (at != "index").then(|| Data::text(at.as_str())));
                each.push(("in".to_owned(), self.bare(*items)));
                task.push(("for".to_owned(), Data::map(each)));
                push(task, "while", condition.map(|id| self.bare(id)));
                ("do", self.list(list))
            }
            Kind::Fork { branches, compete } => {
                let mut fork = Members::new();
                push(&mut fork, "compete", compete.then(|| Data::bool(true)));
                fork.push(("branches".to_owned(), self.list(branches)));
                ("fork", Data::map(fork))
            }
            Kind::Wait { delay } => ("wait", self.delay(*delay)),
            Kind::Raise { error } => ("raise", single("error", self.raise(error))),
            Kind::Try { list, catch } => {
                task.push(("try".to_owned(), self.list(list)));
                ("catch", self.catch(catch, among))
            }
            Kind::Emit { event } => ("emit", single("event", single("with", self.template(event)))),
            Kind::Listen { to, read, foreach } => {
                task.push(("listen".to_owned(), self.listen(to, *read)));
                let foreach = foreach.as_ref().map(|foreach| self.foreach(foreach));
                return push(task, "foreach", foreach);
            }
            Kind::Call { call } => return self.call(call, task),
            Kind::Function { with, task: id } => return self.function(with, *id, task),
            Kind::Saga { steps } => return self.saga(steps, task),
            Kind::Unsupported { what: _, task: given } => {
                return task.extend(given.entries().unwrap_or_default());
            }
        };
        task.push((key.to_owned(), value));
    }

    fn switch(&self, cases: &[Case], among: &[StepId]) -> Data {
        Data::array(cases.iter().map(|Case { name, when, then }| {
            let mut case = Members::new();
            push(&mut case, "when", when.map(|id| self.bare(id)));
            let then = self.then(*then, among).unwrap_or_else(|| Data::text("continue"));
            case.push(("then".to_owned(), then));
            single(name, Data::map(case))
        }))
    }
}
