//! Call steps: what is handed to a worker, an endpoint or a person.

use super::{
    Turn,
    child::Wanted,
    eval::{Stop, affordable},
};
use crate::{
    child::{Close, Until},
    command::{Call, Effect, Task},
    data::Data,
    fault::{Fault, Kind},
    id,
    ir::{self, Step},
    schema::Schema,
    state::{Body, Phase, WaitKind},
    time::Time,
    token,
};
use sha2::{Digest, Sha256};

impl Turn<'_> {
    pub(super) fn begin_call(
        &mut self,
        branch: u32,
        step: &Step,
        call: &ir::Call,
        input: &Data,
    ) -> Result<(), Stop> {
        self.secrets.clear();
        let mut version = None;
        let (target, payload) = match call {
            ir::Call::HumanTask { with } => {
                let with = self.template(branch, with, input)?;
                return self.ask_person(branch, step, &with);
            }
            ir::Call::Workflow { workflow, input: given, wait } => {
                let given = match given {
                    Some(given) => self.template(branch, given, input)?,
                    None => Data::object(),
                };
                let until = if *wait { Until::Ended } else { Until::Started };
                let wanted = Wanted {
                    workflow: workflow.clone(),
                    input: given,
                    key: None,
                    close: Close::default(),
                    until,
                };
                return self.start_child(branch, step, wanted);
            }
            ir::Call::Child { with } => {
                let with = self.template(branch, with, input)?;
                let wanted = self.wanted_child(&with)?;
                return self.start_child(branch, step, wanted);
            }
            ir::Call::Map { with } => {
                let with = self.template(branch, with, input)?;
                return self.begin_map(branch, &with);
            }
            ir::Call::Worker { name, with, version: wanted } => {
                version = wanted.clone();
                (name.clone(), self.template(branch, with, input)?)
            }
            ir::Call::SignalToken => return self.signal_token(branch, step),
            ir::Call::Script(script) => return self.begin_script(branch, step, script, input),
            ir::Call::Http(http) => ("http".to_owned(), self.http_request(branch, http, input)?),
            ir::Call::OpenApi(call) => ("openapi".to_owned(), self.openapi_request(branch, call, input)?),
        };
        affordable(&payload)?;
        let key = self.effect_key(branch, step);
        let token = self.add_wait(branch, WaitKind::Call, None);
        self.mark_begun(branch, token);
        let step = step.reference.clone();
        let (trace, secrets) = (self.state.trace.clone(), std::mem::take(&mut self.secrets));
        let (input, again) = (payload, self.is_tried_again(branch));
        let call = Call { token, target, key, step, version, input, trace, secrets, again };
        self.effects.push(Effect::Call(call));
        Ok(())
    }

    /// Whether a `try` around what the branch does has failed before.
    fn is_tried_again(&self, branch: u32) -> bool {
        let mut current = self.state.branch(branch);
        while let Some(own) = current {
            let tries = own.frames.iter().filter_map(|frame| match &frame.body {
                Body::Try(attempt) => Some(attempt),
                _ => None,
            });
            if tries.into_iter().any(|attempt| attempt.phase == Phase::Trying && attempt.retries > 0) {
                return true;
            }
            current = own.fork.and_then(|(parent, _)| self.state.branch(parent));
        }
        false
    }

    /// A call that carries no secret and asks for no version: to the engine itself, or to the sandbox.
    pub(super) fn own_call(&self, token: u64, target: &str, key: String, step: &str, input: Data) -> Effect {
        let (target, step, trace) = (target.to_owned(), step.to_owned(), self.state.trace.clone());
        Effect::Call(Call {
            token,
            target,
            key,
            step,
            version: None,
            input,
            trace,
            secrets: vec![],
            again: false,
        })
    }

    /// Gives out a token that others signal this instance with. The output is the token and its address.
    fn signal_token(&mut self, branch: u32, step: &Step) -> Result<(), Stop> {
        let Some(origin) = self.subject.origin.clone() else {
            let detail = format!("{} needs the key of a deployment", step.name);
            return Err(Stop::Fault(Fault::new(Kind::Configuration, detail)));
        };
        let sequence = self.state.next_sequence();
        let token = token::make(&origin.key, &self.subject.tenant, self.subject.instance, sequence);
        let url = format!("{}/api/v1/signals/{token}", origin.public_url);
        let output = [("token".to_owned(), Data::text(token)), ("url".to_owned(), Data::text(url))];
        self.done(branch, Data::map(output), None)
    }

    /// One key per (tenant, instance, step, iteration): the same on every attempt, retry and replay.
    pub(super) fn effect_key(&self, branch: u32, step: &Step) -> String {
        let mut hash = Sha256::new();
        hash.update(self.subject.tenant.as_str());
        hash.update(self.subject.instance.as_bytes());
        hash.update(step.reference.as_bytes());
        let mut current = self.state.branch(branch);
        while let Some(own) = current {
            for frame in own.frames.iter().rev() {
                let (index, jumps) = match &frame.body {
                    Body::List(cursor) => (0, cursor.jumps),
                    Body::For { index, cursor, .. } => (*index, cursor.jumps),
                    Body::Try(attempt) => (0, attempt.cursor.jumps),
                    Body::Listen(listening) => (listening.index, listening.cursor.jumps),
                    Body::Around(around) => {
                        // The same steps go around many others, before and after them.
                        let around_of = frame.step.map(|id| self.program.step(id).reference.as_str());
                        hash.update(around_of.unwrap_or_default());
                        (around.at * 2 + u32::from(around.done.is_some()), around.cursor.jumps)
                    }
                    // What was undone and is done again is another effect.
                    Body::Saga(saga) => ((saga.round >> 32) as u32, saga.round as u32),
                    Body::Leaf | Body::Fork { .. } => (0, 0),
                    Body::Map(map) => (map.cursor as u32, map.rounds.len() as u32),
                };
                hash.update(index.to_be_bytes());
                hash.update(jumps.to_be_bytes());
            }
            current = own.fork.and_then(|(parent, _)| self.state.branch(parent));
        }
        hash.finalize()[..16].iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Makes a task for a person; the answer is the step's output.
    fn ask_person(&mut self, branch: u32, step: &Step, with: &Data) -> Result<(), Stop> {
        let names = |key: &str| -> Vec<String> {
            match with.get(key).unwrap_or_default() {
                list if list.items().is_some() => list
                    .items()
                    .into_iter()
                    .flatten()
                    .filter_map(|item| item.as_str().map(str::to_owned))
                    .collect(),
                one => one.as_str().map(str::to_owned).into_iter().collect(),
            }
        };
        let text = |key: &str| with.get(key).and_then(|value| value.as_str().map(str::to_owned));
        let due_at = match text("dueDate") {
            None => None,
            Some(date) => Some(Time::parse_rfc3339(&date).ok_or_else(|| {
                Fault::new(Kind::Validation, format!("dueDate {date:?} is not an RFC 3339 time"))
            })?),
        };
        let form = with.get("form");
        if let Some(Err(error)) = form.as_ref().map(Schema::new) {
            let detail = format!("the form is not a usable JSON Schema: {} {error}", error.pointer);
            return Err(Stop::Fault(Fault::new(Kind::Validation, detail)));
        }
        let limit = self
            .state
            .waits
            .iter()
            .find(|wait| wait.kind == WaitKind::Timeout && wait.frame == self.top(branch).sequence)
            .and_then(|wait| wait.until);
        let token = self.add_wait(branch, WaitKind::TaskCompletion, None);
        self.effects.push(Effect::Task(Box::new(Task {
            id: id::derive(self.subject.instance, token),
            token,
            step: step.reference.clone(),
            title: text("title").unwrap_or_else(|| step.name.clone()),
            assignee: text("assignee"),
            candidate_users: names("candidateUsers"),
            candidate_groups: names("candidateGroups"),
            payload: with.get("data").unwrap_or_default(),
            form,
            priority: with.get("priority").and_then(|value| value.as_i64()).unwrap_or(0),
            due_at: due_at.or(limit),
        })));
        Ok(())
    }
}
