//! What each kind of step does when it begins. One arm per kind; the longer ones live beside.

use super::{
    Turn,
    eval::{Stop, affordable},
};
use crate::{
    data::Data,
    fault::{self, Fault},
    ir::{Case, ExprId, Kind, Raise, Step, StepId, Template, Then},
    state::{Attempt, Body, Branch, Cursor, Joined, Next, Phase, WaitKind},
};

impl Turn<'_> {
    pub(super) fn begin(&mut self, branch: u32, step: &Step, input: Data) -> Result<(), Stop> {
        match &step.kind {
            Kind::Do { .. } => {
                self.top_mut(branch).body = Body::List(Cursor::default());
                self.enter_at_cursor(branch, input);
                Ok(())
            }
            Kind::Function { with, .. } => {
                let arguments = self.template(branch, with, &input)?;
                affordable(&arguments)?;
                let frame = self.top_mut(branch);
                (frame.body, frame.context) = (Body::List(Cursor::default()), Some(Data::NULL));
                self.enter_at_cursor(branch, arguments);
                Ok(())
            }
            Kind::Set { value } => {
                let output = self.template(branch, value, &input)?;
                self.done(branch, output, None)
            }
            Kind::Switch { cases } => self.switch(branch, cases, input),
            Kind::For { items, .. } => self.begin_for(branch, *items, input),
            Kind::Fork { branches, .. } => self.begin_fork(branch, branches, &input),
            Kind::Wait { delay } => {
                let until = self.now.after(self.delay(branch, *delay, &input)?);
                self.add_wait(branch, WaitKind::Timer, Some(until));
                Ok(())
            }
            Kind::Raise { error } => Err(Stop::Fault(self.raised(branch, error, &input)?)),
            Kind::Try { .. } => {
                self.top_mut(branch).body = Body::Try(Attempt {
                    retries: 0,
                    phase: Phase::Trying,
                    cursor: Cursor::default(),
                    error: None,
                });
                self.push(branch, Next::Attempt {});
                Ok(())
            }
            Kind::Emit { event } => self.emit(branch, event, &input),
            Kind::Listen { to, .. } => self.begin_listen(branch, to, &input),
            Kind::Call { call } => self.begin_call(branch, step, call, &input),
            Kind::Saga { steps } => self.begin_saga(branch, steps, input),
            Kind::Unsupported { what, .. } => Err(Stop::Fault(Fault::new(
                fault::Kind::Configuration,
                format!("{what} is not supported by this engine"),
            ))),
        }
    }

    /// The step has its raw output; the rest is the next hop.
    pub(super) fn done(&mut self, branch: u32, output: Data, then: Option<Then>) -> Result<(), Stop> {
        self.push(branch, Next::Complete { output, then });
        Ok(())
    }

    /// The first case whose condition holds; else the case without one, wherever it stands; else the step's own
    /// `then`. The output is the input.
    fn switch(&mut self, branch: u32, cases: &[Case], input: Data) -> Result<(), Stop> {
        for case in cases {
            if let Some(when) = case.when
                && self.eval(branch, when, &input)?.is_true()
            {
                return self.done(branch, input, Some(case.then));
            }
        }
        let default = cases.iter().find(|case| case.when.is_none()).map(|case| case.then);
        self.done(branch, input, default)
    }

    fn begin_for(&mut self, branch: u32, items: ExprId, input: Data) -> Result<(), Stop> {
        let items = self.eval(branch, items, &input)?;
        if items.items().is_none() {
            let detail = format!("for.in must yield an array, it yielded {}", kind_of(&items));
            return Err(Stop::Fault(Fault::new(fault::Kind::Expression, detail)));
        }
        self.top_mut(branch).body = Body::For { items, index: 0, cursor: Cursor::default() };
        self.push(branch, Next::Iterate { data: input });
        Ok(())
    }

    fn begin_fork(&mut self, branch: u32, branches: &[StepId], input: &Data) -> Result<(), Stop> {
        self.top_mut(branch).body = Body::Fork { joined: vec![Joined::Running; branches.len()] };
        if branches.is_empty() {
            return self.done(branch, Data::array([]), None);
        }
        let context = self.context(branch).clone();
        let mut entries = Vec::with_capacity(branches.len());
        for position in 0..branches.len() {
            let id = self.state.next_sequence() as u32;
            self.state.branches.push(Branch {
                id,
                fork: Some((branch, position as u32)),
                context: Some(context.clone()),
                frames: vec![],
                next: None,
            });
            entries.push((id, Next::Enter { data: input.clone() }));
        }
        self.todo.extend(entries.into_iter().rev());
        Ok(())
    }

    fn raised(&mut self, branch: u32, raise: &Raise, input: &Data) -> Result<Fault, Stop> {
        let error_type = self.text(branch, &raise.error_type, input)?;
        let mut optional = |template: &Option<Template>| match template {
            Some(template) => self.text(branch, template, input).map(Some),
            None => Ok(None),
        };
        let title = optional(&raise.title)?;
        let detail = optional(&raise.detail)?;
        let instance = optional(&raise.instance)?;
        Ok(Fault { error_type, status: raise.status, title, detail, instance })
    }
}

pub(super) fn kind_of(data: &Data) -> &'static str {
    use jaq_json::Val;
    match data.0 {
        Val::Null => "null",
        Val::Bool(_) => "a boolean",
        Val::Num(_) => "a number",
        Val::BStr(_) | Val::TStr(_) => "a text",
        Val::Arr(_) => "an array",
        Val::Obj(_) => "an object",
    }
}
