//! Sagas.

use super::{Decompiler, Members, push, single};
use crate::{
    data::Data,
    ir::{Retry, SagaStep},
    language::lower::SAGA,
};

impl Decompiler<'_> {
    pub(super) fn saga(&mut self, steps: &[SagaStep], task: &mut Members) {
        let steps: Vec<Data> = steps.iter().map(|step| self.saga_step(step)).collect();
        task.push(("call".to_owned(), Data::text(SAGA)));
        task.push(("with".to_owned(), single("steps", Data::array(steps))));
    }

    fn saga_step(&mut self, step: &SagaStep) -> Data {
        let workflow = self.workflow;
        let SagaStep { name, r#do, undo, pivot, retry } = step;
        let mut members = vec![("name".to_owned(), Data::text(name.as_str()))];
        members.push(("do".to_owned(), self.function_of(*r#do)));
        push(&mut members, "undo", undo.map(|undo| self.function_of(undo)));
        let with = workflow.steps[*r#do as usize].input.as_ref();
        push(&mut members, "with", with.map(|with| self.template(with)));
        push(&mut members, "pivot", pivot.then(|| Data::bool(true)));
        push(&mut members, "retry", (*retry != Retry::of_sagas()).then(|| self.retry(retry)));
        Data::map(members)
    }
}
