//! Evaluates templates and expressions against the frame a branch stands in.

use super::Turn;
use crate::{
    data::Data,
    expr::{Args, Compiled, Evaluation},
    fault::{Fault, Kind},
    ir::{Delay, ExprId, SAGA_ERROR, SAGA_STEPS, Template},
    state::{Body, Frame},
    time::{Span, Time},
};

/// Why an evaluation gave no value.
pub(crate) enum Stop {
    Fault(Fault),
    Needs(Box<Evaluation>),
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Stop {
        Stop::Fault(fault)
    }
}

impl Turn<'_> {
    pub(super) fn eval(&mut self, branch: u32, id: ExprId, dot: &Data) -> Result<Data, Stop> {
        self.eval_with(branch, id, dot, None)
    }

    /// Evaluates in process if the expression is bounded and short, else takes the next answer from outside.
    pub(super) fn eval_with(
        &mut self,
        branch: u32,
        id: ExprId,
        dot: &Data,
        output: Option<&Data>,
    ) -> Result<Data, Stop> {
        let program = self.program;
        let compiled = &program.exprs[id as usize];
        let mut args = self.args(branch, compiled, output);
        if compiled.uses[3] {
            args.fixed[3] = self.placeholders(compiled, dot);
        }
        if compiled.bounded
            && let Some(result) = compiled.eval_spending(dot, &args, &mut self.fuel_left)
        {
            return result.map_err(Stop::Fault);
        }
        let position = self.asked;
        self.asked += 1;
        match self.answers.get(position) {
            Some(Ok(value)) => Ok(value.clone()),
            Some(Err(fault)) => Err(Stop::Fault(fault.clone())),
            None => Err(Stop::Needs(Box::new(Evaluation {
                source: compiled.source.clone(),
                local_names: compiled.local_names.clone(),
                input: dot.clone(),
                args,
            }))),
        }
    }

    pub(super) fn template(&mut self, branch: u32, template: &Template, dot: &Data) -> Result<Data, Stop> {
        self.template_with(branch, template, dot, None)
    }

    pub(super) fn template_with(
        &mut self,
        branch: u32,
        template: &Template,
        dot: &Data,
        output: Option<&Data>,
    ) -> Result<Data, Stop> {
        match template {
            Template::Literal(data) => Ok(data.clone()),
            Template::Expr(id) => self.eval_with(branch, *id, dot, output),
            Template::Loose(id, text) => match self.eval_with(branch, *id, dot, output) {
                Err(Stop::Fault(_)) => Ok(Data::text(text.as_str())),
                evaluated => evaluated,
            },
            Template::Array(items) => {
                let items: Result<Vec<_>, _> =
                    items.iter().map(|item| self.template_with(branch, item, dot, output)).collect();
                Ok(Data::array(items?))
            }
            Template::Object(entries) => {
                let entries: Result<Vec<_>, Stop> = entries
                    .iter()
                    .map(|(key, value)| Ok((key.clone(), self.template_with(branch, value, dot, output)?)))
                    .collect();
                Ok(Data::map(entries?))
            }
        }
    }

    /// A template that must yield a text.
    pub(super) fn text(&mut self, branch: u32, template: &Template, dot: &Data) -> Result<String, Stop> {
        self.template(branch, template, dot).map(|value| value.to_text())
    }

    /// The length of `delay`; an expression may yield an ISO 8601 text or a duration object.
    pub(super) fn delay(&mut self, branch: u32, delay: Delay, dot: &Data) -> Result<Span, Stop> {
        let id = match delay {
            Delay::Fixed(span) => return Ok(span),
            Delay::Expr(id) => id,
        };
        let value = self.eval(branch, id, dot)?;
        let span = match value.as_str() {
            Some(text) => Span::parse_iso8601(text),
            None => duration_object(&value),
        };
        span.ok_or_else(|| {
            Stop::Fault(Fault::new(
                Kind::Expression,
                format!(
                    "{value:?} is not a duration; use ISO 8601 text or an object of days to milliseconds"
                ),
            ))
        })
    }

    fn args(&self, branch: u32, compiled: &Compiled, output: Option<&Data>) -> Args {
        let mut args = Args::default();
        let uses = &compiled.uses;
        if uses[0] {
            args.fixed[0] = self.context(branch).clone();
        }
        let frame = self.state.branch(branch).and_then(|branch| branch.frames.last());
        if let (true, Some(frame)) = (uses[1], frame) {
            args.fixed[1] = frame.input().clone();
        }
        if uses[2] {
            args.fixed[2] = output.cloned().unwrap_or_default();
        }
        if uses[5] {
            args.fixed[5] = self.task_argument(branch, output);
        }
        if uses[6] {
            args.fixed[6] = self.workflow_argument();
        }
        if uses[7] {
            args.fixed[7] = self.runtime_argument();
        }
        args.locals = compiled.local_names.iter().map(|name| self.local(branch, name)).collect();
        args
    }

    /// The step the branch is in; for the steps of an extension the one it extends.
    fn task_argument(&self, branch: u32, output: Option<&Data>) -> Data {
        let mut own = self.state.branch(branch);
        let mut frames = std::iter::from_fn(|| {
            let current = own?;
            own = current.fork.and_then(|(parent, _)| self.state.branch(parent));
            Some(current.frames.iter().rev())
        });
        let mut steps =
            frames.by_ref().flatten().filter_map(|frame| Some((frame, self.program.step(frame.step?))));
        let Some((frame, step)) = steps.find(|(_, step)| !step.extends) else {
            return Data::NULL;
        };
        let definition = self.program.ir.definition.as_ref();
        let definition = definition.and_then(|root| root.pointer(&step.reference)).unwrap_or_default();
        let with = definition.get("with").map(|with| ("with".to_owned(), with));
        Data::map(
            [
                ("definition".to_owned(), definition),
                ("name".to_owned(), Data::text(step.name.as_str())),
                ("reference".to_owned(), Data::text(step.reference.as_str())),
                ("input".to_owned(), frame.raw.clone()),
                ("output".to_owned(), output.cloned().unwrap_or_default()),
                ("startedAt".to_owned(), time_argument(frame.started_at)),
            ]
            .into_iter()
            .chain(with),
        )
    }

    fn workflow_argument(&self) -> Data {
        let only_document = || Data::map([("document".to_owned(), self.program.ir.document.clone())]);
        Data::map([
            ("id".to_owned(), Data::text(crate::id::show(crate::id::Kind::Instance, self.subject.instance))),
            ("definition".to_owned(), self.program.ir.definition.clone().unwrap_or_else(only_document)),
            ("input".to_owned(), self.state.input.clone()),
            ("startedAt".to_owned(), time_argument(self.state.started_at)),
        ])
    }

    fn runtime_argument(&self) -> Data {
        let tenant = Data::map([("tenant".to_owned(), Data::text(self.subject.tenant.as_str()))]);
        Data::map([
            ("name".to_owned(), Data::text(crate::command::RUNTIME_PROVIDER)),
            ("version".to_owned(), Data::text(env!("CARGO_PKG_VERSION"))),
            ("metadata".to_owned(), tenant),
        ])
    }

    /// The innermost loop or catch variable of that name, looking outwards through forks.
    fn local(&self, branch: u32, name: &str) -> Data {
        let mut branch = self.state.branch(branch);
        while let Some(current) = branch {
            if let Some(value) = current.frames.iter().rev().find_map(|frame| self.local_of(frame, name)) {
                return value;
            }
            branch = current.fork.and_then(|(parent, _)| self.state.branch(parent));
        }
        Data::NULL
    }

    fn local_of(&self, frame: &Frame, name: &str) -> Option<Data> {
        use crate::ir::Kind;
        match (&frame.body, &self.program.step(frame.step?).kind) {
            (Body::For { items, index, .. }, Kind::For { item, at, .. }) => {
                if name == item {
                    items.items()?.nth(*index as usize)
                } else {
                    (name == at).then(|| Data::int(i64::from(*index)))
                }
            }
            (Body::Listen(listening), Kind::Listen { foreach: Some(foreach), .. }) if listening.iterating => {
                if name == foreach.item {
                    listening.item().cloned()
                } else {
                    (name == foreach.at).then(|| Data::int(i64::from(listening.index)))
                }
            }
            (Body::Try(attempt), Kind::Try { catch, .. }) if name == catch.error_as => {
                attempt.error.as_ref().map(Fault::to_data)
            }
            (Body::Saga(saga), Kind::Saga { steps }) => match name {
                SAGA_STEPS => Some(saga.output(steps)),
                SAGA_ERROR => saga.error.as_ref().map(Fault::to_data),
                _ => None,
            },
            _ => None,
        }
    }

    /// `$context` where the branch stands: of the innermost function it is in, else the branch's own.
    pub(super) fn context(&self, branch: u32) -> &Data {
        let branch = self.state.branch(branch);
        let function =
            branch.and_then(|branch| branch.frames.iter().rev().find_map(|frame| frame.context.as_ref()));
        function.or_else(|| branch?.context.as_ref()).unwrap_or(&self.state.context)
    }

    pub(super) fn set_context(&mut self, branch: u32, context: Data) {
        let Some(own) = self.state.branch_mut(branch) else { return self.state.context = context };
        match own.frames.iter_mut().rev().find_map(|frame| frame.context.as_mut()) {
            Some(function) => *function = context,
            None if own.fork.is_some() => own.context = Some(context),
            None => self.state.context = context,
        }
    }
}

/// Refuses data that is too much to keep: it would be written with every snapshot.
pub(super) fn affordable(data: &Data) -> Result<(), Stop> {
    match data.too_much() {
        None => Ok(()),
        Some(why) => Err(Stop::Fault(Fault::new(Kind::Runtime, format!("the data is {why}")))),
    }
}

fn time_argument(time: Time) -> Data {
    Data::map([
        ("iso8601".to_owned(), Data::text(time.rfc3339())),
        (
            "epoch".to_owned(),
            Data::map([
                ("seconds".to_owned(), Data::int(time.0.div_euclid(1_000_000))),
                ("milliseconds".to_owned(), Data::int(time.0.div_euclid(1000))),
            ]),
        ),
    ])
}

fn duration_object(value: &Data) -> Option<Span> {
    let mut micros: i64 = 0;
    for (key, amount) in value.entries()? {
        let unit: i64 = match key.as_str() {
            "days" => 86_400_000_000,
            "hours" => 3_600_000_000,
            "minutes" => 60_000_000,
            "seconds" => 1_000_000,
            "milliseconds" => 1000,
            _ => return None,
        };
        micros = micros.checked_add(amount.as_i64()?.checked_mul(unit)?)?;
    }
    (0..=Span::MAX.0).contains(&micros).then_some(Span(micros))
}
