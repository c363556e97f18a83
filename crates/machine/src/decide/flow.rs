//! The flow between steps: entering, completing, advancing along lists, ending the workflow.

use super::{
    Ran, Turn,
    eval::{Stop, affordable},
};
use crate::{
    data::Data,
    ir::{Kind, SchemaId, StepId, Then},
    saga::Act,
    schema,
    state::{Body, Branch, Cursor, Frame, Next, Phase, ROOT, WaitKind},
};

impl Turn<'_> {
    /// Begins the instance.
    pub(super) fn start(&mut self) -> Ran<bool> {
        self.note("workflow.started", None, None);
        self.tell_workflow("started", &[]);
        self.state.branches.push(Branch { id: ROOT, fork: None, context: None, frames: vec![], next: None });
        let sequence = self.state.next_sequence();
        let frame = Frame {
            step: None,
            sequence,
            started_at: self.now,
            raw: self.state.input.clone(),
            input: None,
            context: None,
            body: Body::List(Cursor::default()),
        };
        self.state.branches[0].frames.push(frame);
        self.push(ROOT, Next::Begin {});
        Ok(true)
    }

    /// The workflow's own input and limit, then its first step.
    pub(super) fn begin_workflow(&mut self) -> Result<(), Stop> {
        let program = self.program;
        let mut data = self.state.input.clone();
        if let Some(schema) = &program.input_schema {
            schema.check(&data).map_err(|violations| schema::fault("the workflow's input", &violations))?;
        }
        if let Some(from) = &program.ir.input {
            data = self.template(ROOT, from, &data)?;
            affordable(&data)?;
            self.top_mut(ROOT).input = Some(data.clone());
        }
        if let Some(limit) = program.ir.timeout {
            let until = self.now.after(self.delay(ROOT, limit, &data)?);
            self.add_wait_for(ROOT, 0, WaitKind::Timeout, Some(until));
        }
        self.enter_at_cursor(ROOT, data);
        Ok(())
    }

    pub(super) fn top(&self, branch: u32) -> &Frame {
        self.state
            .branch(branch)
            .and_then(|branch| branch.frames.last())
            .expect("callers hold a branch with a frame")
    }

    pub(super) fn top_mut(&mut self, branch: u32) -> &mut Frame {
        self.state
            .branch_mut(branch)
            .and_then(|branch| branch.frames.last_mut())
            .expect("callers hold a branch with a frame")
    }

    /// Enters one step: condition, input, limit, then its body.
    pub(super) fn enter(&mut self, branch: u32, data: Data) -> Result<(), Stop> {
        let Some(id) = self.next_step(branch) else { return Ok(()) };
        let program = self.program;
        let step = program.step(id);
        let sequence = self.state.next_sequence();
        let frame = Frame {
            step: Some(id),
            sequence,
            started_at: self.now,
            raw: data.clone(),
            input: None,
            context: None,
            body: Body::Leaf,
        };
        self.state.branch_mut(branch).expect("run checked it").frames.push(frame);
        if let Some(condition) = step.condition
            && !self.eval(branch, condition, &data)?.is_true()
        {
            self.note_at(branch, "step.skipped", Some(id), None);
            self.pop_frame(branch);
            return self.advance(branch, data, Then::Continue);
        }
        self.fits(step.input_schema, "the input", &data)?;
        let input = match &step.input {
            None => data,
            Some(from) => {
                let input = self.template(branch, from, &data)?;
                affordable(&input)?;
                self.top_mut(branch).input = Some(input.clone());
                input
            }
        };
        if !self.is_function_task(branch) {
            self.note_at(branch, "step.started", Some(id), None);
            self.tell_step("created", Some(id), &[]);
            self.tell_step("started", Some(id), &[]);
        }
        if let Some(limit) = step.timeout {
            let until = self.now.after(self.delay(branch, limit, &input)?);
            self.add_wait(branch, WaitKind::Timeout, Some(until));
        }
        self.begin_extended(branch, step, input)
    }

    /// Ends the branch's top step with its raw output.
    pub(super) fn complete(&mut self, branch: u32, output: Data, then: Option<Then>) -> Result<(), Stop> {
        let Some(id) = self.top(branch).step else {
            self.push(ROOT, Next::Finish { output });
            return Ok(());
        };
        let program = self.program;
        let step = program.step(id);
        // The function has come to its end: what follows is the caller's.
        self.top_mut(branch).context = None;
        let output = match &step.output {
            None => output,
            Some(template) => self.template_with(branch, template, &output, None)?,
        };
        affordable(&output)?;
        self.fits(step.output_schema, "the output", &output)?;
        if let Some(template) = &step.export {
            let context = self.template_with(branch, template, &output, Some(&output))?;
            affordable(&context)?;
            self.fits(step.export_schema, "the exported context", &context)?;
            self.set_context(branch, context);
        }
        let then = then.unwrap_or(step.then);
        match self.is_done(branch, step, &output, then) {
            true => self.leave(branch, id, output, then),
            false => Ok(()),
        }
    }

    /// Leaves the top step, which has come to its end.
    pub(super) fn leave(&mut self, branch: u32, id: StepId, output: Data, then: Then) -> Result<(), Stop> {
        let step = self.program.step(id);
        let detail = matches!(step.kind, Kind::Call { .. } | Kind::Function { .. } | Kind::Listen { .. })
            .then(|| Data::map([("output".to_owned(), output.clone())]));
        if !self.is_function_task(branch) {
            self.note_at(branch, "step.completed", Some(id), detail);
            self.tell_step("completed", Some(id), &[("output", output.clone())]);
        }
        let frame = self.pop_frame(branch).expect("it is the frame whose step ended");
        if self.state.branch(branch).is_some_and(|own| matches!(own.top_body(), Some(Body::Saga(_)))) {
            return self.saga_step_done(branch, &frame, output);
        }
        self.advance(branch, output, then)
    }

    /// True if the top step is the task of a function: the step that calls it stands for both, under the same
    /// reference.
    pub(super) fn is_function_task(&self, branch: u32) -> bool {
        let frames = self.state.branch(branch).map(|branch| branch.frames.as_slice()).unwrap_or_default();
        matches!(frames, [.., caller, _] if self.program.calls_function(caller))
    }

    /// Holds data against a schema of the definition.
    pub(super) fn fits(&self, schema: Option<SchemaId>, what: &str, data: &Data) -> Result<(), Stop> {
        let Some(schema) = schema else { return Ok(()) };
        let checked = self.program.schemas[schema as usize].check(data);
        checked.map_err(|violations| Stop::Fault(schema::fault(what, &violations)))
    }

    /// Leaves the top frame, forgetting its waits and the branches it forked.
    pub(super) fn pop_frame(&mut self, branch: u32) -> Option<Frame> {
        let frame = self.state.branch_mut(branch)?.frames.pop()?;
        if matches!(frame.body, Body::Fork { .. }) {
            self.cancel_children(branch);
        }
        let sequence = frame.sequence;
        if self.state.waits.iter().any(|wait| wait.frame == sequence) {
            self.drop_waits(|wait| wait.frame == sequence);
        }
        Some(frame)
    }

    /// Goes on after a step of the branch's current list.
    pub(super) fn advance(&mut self, branch: u32, data: Data, then: Then) -> Result<(), Stop> {
        if then == Then::End {
            self.push(ROOT, Next::Finish { output: data });
            return Ok(());
        }
        if self.state.branch(branch).is_none_or(|branch| branch.frames.is_empty()) {
            return self.branch_done(branch, data).map_err(Stop::Needs);
        }
        if self.replaces(branch, then) {
            self.push(branch, Next::Complete { output: data, then: None });
            return Ok(());
        }
        let length = self.list(branch).len() as u32;
        let cursor = cursor_mut(&mut self.top_mut(branch).body);
        match then {
            Then::Continue => cursor.at += 1,
            Then::Exit | Then::End => cursor.at = length,
            Then::Goto(position) => {
                cursor.jumps += u32::from(position <= cursor.at);
                cursor.at = position;
            }
        }
        self.enter_at_cursor(branch, data);
        Ok(())
    }

    /// Enters the step the cursor stands at, or ends the list.
    pub(super) fn enter_at_cursor(&mut self, branch: u32, data: Data) {
        match self.next_step(branch) {
            Some(_) => self.push(branch, Next::Enter { data }),
            None => self.list_done(branch, data),
        }
    }

    /// The step the branch would enter next: at the top frame's cursor, or the fork branch's own step.
    pub(super) fn next_step(&self, branch: u32) -> Option<StepId> {
        let own = self.state.branch(branch)?;
        if own.frames.is_empty() {
            let (parent, position) = own.fork?;
            return match &self.program.step(self.top(parent).step?).kind {
                Kind::Fork { branches, .. } => branches.get(position as usize).copied(),
                _ => None,
            };
        }
        let at = match &self.top(branch).body {
            Body::List(cursor) | Body::For { cursor, .. } => cursor.at,
            Body::Try(attempt) => attempt.cursor.at,
            Body::Listen(listening) if listening.iterating => listening.cursor.at,
            Body::Around(around) if around.inside => around.cursor.at,
            Body::Saga(saga) => return self.saga_step(branch, saga),
            Body::Leaf | Body::Fork { .. } | Body::Listen(_) | Body::Around(_) | Body::Map(_) => return None,
        };
        self.list(branch).get(at as usize).copied()
    }

    /// The list the branch's top frame goes through.
    fn list(&self, branch: u32) -> &[StepId] {
        let frame = self.top(branch);
        self.program.list(frame.step, &frame.body)
    }

    /// The top frame's list came to its end.
    fn list_done(&mut self, branch: u32, data: Data) {
        let program = self.program;
        let frame = self.top_mut(branch);
        let then = match &mut frame.body {
            Body::For { index, cursor, .. } => {
                *index += 1;
                *cursor = Cursor::default();
                return self.push(branch, Next::Iterate { data });
            }
            Body::Listen(_) | Body::Around(_) => return self.push(branch, Next::Iterate { data }),
            Body::Try(attempt) => {
                let caught = std::mem::replace(&mut attempt.phase, Phase::Done) == Phase::Catching;
                frame.step.filter(|_| caught).and_then(|id| match &program.step(id).kind {
                    Kind::Try { catch, .. } => catch.then,
                    _ => None,
                })
            }
            _ => None,
        };
        self.push(branch, Next::Complete { output: data, then });
    }

    /// Begins the `for` iteration at the frame's index, or ends the loop; goes on listening.
    pub(super) fn iterate(&mut self, branch: u32, data: Data) -> Result<(), Stop> {
        let program = self.program;
        let frame = self.top(branch);
        match (&frame.body, frame.step) {
            (Body::Listen(_), _) => return self.listen_on(branch, data),
            (Body::Around(_), _) => return self.around_on(branch),
            // The step's own beginning faulted after its extensions, and is tried again.
            (Body::Leaf, Some(id)) => return self.begin(branch, program.step(id), frame.input().clone()),
            _ => {}
        }
        let (Body::For { items, index, .. }, Some(id)) = (&frame.body, frame.step) else { return Ok(()) };
        let Kind::For { condition, .. } = &program.step(id).kind else { return Ok(()) };
        let mut goes_on = (*index as usize) < items.len();
        if let (true, Some(condition)) = (goes_on, condition) {
            goes_on = self.eval(branch, *condition, &data)?.is_true();
        }
        match goes_on {
            true => self.enter_at_cursor(branch, data),
            false => self.push(branch, Next::Complete { output: data, then: None }),
        }
        Ok(())
    }

    /// Ends the workflow with its raw output.
    pub(super) fn finish(&mut self, output: Data) -> Result<(), Stop> {
        let program = self.program;
        // `end` may come from inside a function; the workflow's output sees the workflow's own context.
        if let Some(root) = self.state.branch_mut(ROOT) {
            root.frames.iter_mut().for_each(|frame| frame.context = None);
        }
        let output = match &program.ir.output {
            None => output,
            Some(template) => self.template(ROOT, template, &output)?,
        };
        affordable(&output)?;
        self.fits(program.ir.output_schema, "the workflow's output", &output)?;
        self.close(Act::Finish { output }).map_err(Stop::Needs)
    }
}

fn cursor_mut(body: &mut Body) -> &mut Cursor {
    match body {
        Body::List(cursor) | Body::For { cursor, .. } => cursor,
        Body::Try(attempt) => &mut attempt.cursor,
        Body::Listen(listening) => &mut listening.cursor,
        Body::Around(around) => &mut around.cursor,
        Body::Leaf | Body::Fork { .. } | Body::Map(_) | Body::Saga(_) => {
            unreachable!("only frames with lists hold a child step")
        }
    }
}
