//! Specifications of the state machine, as documents with what must come of them.

mod children;
mod events;
mod extensions;
mod faults;
mod flow;
mod functions;
mod listen;
mod maps;
mod orders;
mod reach;
mod retries;
mod saga;
mod schemas;
mod scripts;
mod secrets;
mod told;
mod visits;
mod waits;

use crate::{
    Answer, Command, Data, Decision, Effect, Program, State, Subject, TenantId, Time,
    child::Outcome,
    command::Trace,
    decide::decide,
    fault::Fault,
    language::{self, Format},
    snapshot,
    state::Status,
};
use uuid::Uuid;

/// An instance driven by hand: time stands still until told, calls are answered when told.
pub(crate) struct Bench {
    pub(crate) program: Program,
    pub(crate) subject: Subject,
    pub(crate) state: Option<State>,
    pub(crate) now: Time,
    pub(crate) events: Vec<String>,
    /// The same with their iteration.
    pub(crate) visits: Vec<String>,
    pub(crate) calls: Vec<crate::command::Call>,
    pub(crate) timers: Vec<(u64, Time)>,
    pub(crate) tasks: Vec<crate::command::Task>,
    pub(crate) emitted: Vec<Data>,
    pub(crate) continues: Vec<u64>,
    /// Tokens of calls that became dead letters.
    pub(crate) given_up: Vec<u64>,
    /// What the parent was told.
    pub(crate) told: Vec<Outcome>,
    pub(crate) closed: Vec<Uuid>,
    /// (count, items written) of every dataset.
    pub(crate) datasets: Vec<(u64, usize)>,
    pub(crate) incidents: Vec<crate::command::Incident>,
}

pub(crate) fn data(json: &str) -> Data {
    Data::parse(json.as_bytes()).unwrap_or_else(|error| panic!("{json}: {error}"))
}

/// A definition whose `do` list (and other root keys) is `body`.
pub(crate) fn bench(body: &str) -> Bench {
    let text = format!(
        "document: {{ dsl: '1.0.3', namespace: test, name: spec, version: '1.0.0' }}\n{}\n",
        unindent(body)
    );
    let compiled = language::compile(text.as_bytes(), Format::Yaml)
        .unwrap_or_else(|problems| panic!("{text}\ndoes not compile: {problems:#?}"));
    assert!(compiled.unsupported.is_empty(), "{:?}", compiled.unsupported);
    language::tests::decompile::assert_comes_back(&compiled.workflow);
    Bench {
        program: Program::new(compiled.workflow).unwrap(),
        subject: Subject {
            tenant: TenantId::new("acme").unwrap(),
            instance: Uuid::from_u128(7),
            origin: None,
        },
        state: None,
        now: Time(1_000_000_000),
        events: vec![],
        visits: vec![],
        calls: vec![],
        timers: vec![],
        tasks: vec![],
        emitted: vec![],
        continues: vec![],
        given_up: vec![],
        told: vec![],
        closed: vec![],
        datasets: vec![],
        incidents: vec![],
    }
}

fn unindent(body: &str) -> String {
    let depth = body
        .lines()
        .filter(|line| !line.trim().is_empty())
        .map(|line| line.len() - line.trim_start().len())
        .min()
        .unwrap_or(0);
    body.lines().map(|line| line.get(depth..).unwrap_or("")).collect::<Vec<_>>().join("\n")
}

impl Bench {
    /// Tells the instance something. `false` if it changed nothing.
    pub(crate) fn tell(&mut self, command: Command) -> bool {
        let mut answers = Vec::new();
        let decision = loop {
            let state = self.state.as_ref();
            match decide(&self.program, &self.subject, state, &command, self.now, &answers) {
                Answer::Decided(decision) => break *decision,
                Answer::Nothing | Answer::Full => return false,
                Answer::Needs(evaluation) => answers.push(evaluation.run()),
            }
        };
        self.accept(decision);
        true
    }

    pub(crate) fn accept(&mut self, decision: Decision) {
        let Decision { state, events, effects } = decision;
        for event in events {
            let step = event.step.as_deref().and_then(|step| step.rsplit('/').next()).unwrap_or("");
            self.events.push(format!("{} {step}", event.kind).trim().to_owned());
            self.visits.push(format!("{} {step} {}", event.kind, event.iteration.unwrap_or_default()));
        }
        for effect in effects {
            match effect {
                Effect::Call(call) => self.calls.push(call),
                Effect::Timer { token, due_at, .. } => self.timers.push((token, due_at)),
                Effect::Task(task) => self.tasks.push(*task),
                Effect::Emit { event, .. } => self.emitted.push(event),
                Effect::DeadLetter(call) => self.given_up.push(call.token),
                Effect::TellParent(told) => self.told.push(told.1),
                Effect::CloseChild { child } => self.closed.push(child),
                Effect::Dataset { count, items, .. } => self.datasets.push((count, items.len())),
                Effect::Incident(incident) => self.incidents.push(incident),
                Effect::Continue { token } => self.continues.push(token),
                Effect::DropCall { token } => self.calls.retain(|call| call.token != token),
                Effect::DropTimer { token } => self.timers.retain(|timer| timer.0 != token),
                Effect::CancelTask { token } => self.tasks.retain(|task| task.token != token),
            }
        }
        // Storing and loading loses nothing.
        let stored = snapshot::write(&self.program, &state);
        let loaded = snapshot::read(&self.program, &stored.json).expect("a fresh snapshot reads");
        assert!(loaded == state, "does not survive storing: {}", String::from_utf8_lossy(&stored.json));
        self.state = Some(state);
    }

    pub(crate) fn start(mut self, input: &str) -> Bench {
        let command =
            Command::Start { input: data(input), business: None, trace: Trace::default(), parent: None };
        assert!(self.tell(command));
        self
    }

    /// Answers the oldest open call.
    pub(crate) fn done(&mut self, result: &str) -> &mut Bench {
        let call = self.calls.remove(0);
        assert!(self.tell(Command::CallDone { token: call.token, result: data(result) }));
        self
    }

    pub(crate) fn failed(&mut self, status: u16) -> &mut Bench {
        let call = self.calls.remove(0);
        let mut fault = Fault::new(crate::fault::Kind::Communication, "no answer");
        fault.status = status;
        assert!(self.tell(Command::CallFailed { token: call.token, fault, given_up: None }));
        self
    }

    /// Lets the earliest timer come due.
    pub(crate) fn tick(&mut self) -> &mut Bench {
        self.timers.sort_by_key(|timer| timer.1);
        let (token, due) = self.timers.remove(0);
        self.now = self.now.max(due);
        assert!(self.tell(Command::Timer { token }));
        self
    }

    pub(crate) fn signal(&mut self, name: &str, payload: &str) -> bool {
        let sequence = self.events.len() as u128 + 1;
        let event = Data::map([("type".to_owned(), Data::text(name)), ("data".to_owned(), data(payload))]);
        self.tell(Command::Signal { id: Uuid::from_u128(sequence), event })
    }

    pub(crate) fn state(&self) -> &State {
        self.state.as_ref().expect("started")
    }

    #[track_caller]
    pub(crate) fn completes_with(&self, output: &str) {
        let state = self.state();
        assert_eq!(state.status, Status::Completed, "{:?}", state.error);
        assert_eq!(state.output, Some(data(output)));
    }

    #[track_caller]
    pub(crate) fn faults_with(&self, error_type: &str, status: u16, instance: &str) {
        let state = self.state();
        assert_eq!(state.status, Status::Faulted);
        let fault = state.error.as_ref().expect("a faulted instance has an error");
        assert!(fault.error_type.ends_with(error_type), "{fault:?}");
        assert_eq!((fault.status, fault.instance.as_deref()), (status, Some(instance)), "{fault:?}");
    }
}

/// Runs a definition that needs nothing from outside and checks its output.
#[track_caller]
pub(crate) fn check(body: &str, input: &str, output: &str) {
    bench(body).start(input).completes_with(output);
}
