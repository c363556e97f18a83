//! What extensions put before and after a step.
//!
//! Their steps change no data: the extended step gets its own input and keeps its own output. Only `then: exit` in
//! `before` gives its data as the step's output, and the step itself is not run.

use super::{Turn, eval::Stop};
use crate::{
    data::Data,
    ir::{Extension, Step, Then},
    state::{Around, Body, Cursor, Next},
};

impl Turn<'_> {
    /// Runs the step's extensions, if there are any, and then the step.
    pub(super) fn begin_extended(&mut self, branch: u32, step: &Step, input: Data) -> Result<(), Stop> {
        if step.before.is_empty() {
            return self.begin(branch, step, input);
        }
        self.top_mut(branch).body = Body::Around(Around::default());
        self.push(branch, Next::Iterate { data: Data::NULL });
        Ok(())
    }

    /// The step on top has its output. `false` if extensions come after it.
    pub(super) fn is_done(&mut self, branch: u32, step: &Step, output: &Data, then: Then) -> bool {
        let replaced = matches!(&self.top(branch).body, Body::Around(around) if around.replaced);
        if step.after.is_empty() || replaced {
            return true;
        }
        let around = Around { done: Some((output.clone(), then)), ..Around::default() };
        self.top_mut(branch).body = Body::Around(around);
        self.push(branch, Next::Iterate { data: Data::NULL });
        false
    }

    /// Goes on with the next extension of the top step that applies, or with the step.
    pub(super) fn around_on(&mut self, branch: u32) -> Result<(), Stop> {
        let program = self.program;
        let Some(id) = self.top(branch).step else { return Ok(()) };
        let step = program.step(id);
        let input = self.top(branch).input().clone();
        loop {
            let Body::Around(around) = &mut self.top_mut(branch).body else { return Ok(()) };
            around.at += u32::from(std::mem::take(&mut around.inside));
            let (extension, done) = (extension(step, around), around.done.clone());
            let Some(extension) = extension else {
                let Some((output, then)) = done else {
                    self.top_mut(branch).body = Body::Leaf;
                    return self.begin(branch, step, input);
                };
                return self.leave(branch, id, output, then);
            };
            let applies = match extension.when {
                Some(when) => self.eval(branch, when, &input)?.is_true(),
                None => true,
            };
            let Body::Around(around) = &mut self.top_mut(branch).body else { return Ok(()) };
            around.inside = true;
            around.cursor = Cursor::default();
            if applies {
                self.enter_at_cursor(branch, done.map_or(input, |(output, _)| output));
                return Ok(());
            }
        }
    }

    /// `then: exit` in a list of `before`: what it has is the output of the step.
    pub(super) fn replaces(&mut self, branch: u32, then: Then) -> bool {
        match &mut self.top_mut(branch).body {
            Body::Around(around) if around.done.is_none() && then == Then::Exit => {
                around.replaced = true;
                true
            }
            _ => false,
        }
    }
}

/// The extension an [`Around`] stands at; those after the step come in reverse.
pub(super) fn extension<'s>(step: &'s Step, around: &Around) -> Option<&'s Extension> {
    step.extension(around.done.is_some(), around.at)
}
