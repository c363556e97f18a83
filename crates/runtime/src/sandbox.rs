//! Evaluates expressions and runs scripts in processes that can be killed.
//!
//! [`Sandbox`] keeps a few evaluator processes: this binary started again with a hidden argument, which calls
//! [`evaluator_main`]. An evaluation that runs too long, takes too much memory or overflows its stack costs that
//! process and is an `expression` fault of its step; the next evaluation starts a new process. Evaluations beyond
//! the number of processes wait, and tenants are let in one after the other.
//!
//! The meter of `machine::expr` stops most expressions first and always at the same point; the deadline is for
//! what it does not see, and for a machine under load.

mod evaluator;
mod process;
mod script;
mod wire;

pub use evaluator::evaluator_main;
pub use wire::ScriptCall;

use crate::{engine::Evaluate, fair::Fair};
use async_trait::async_trait;
use machine::{Data, Fault, TenantId, expr::Evaluation, fault::Kind};
use parking_lot::Mutex;
use process::{Failure, Process};
use std::{path::PathBuf, time::Duration};
use tokio::time::timeout;
use wire::Request;

/// How evaluator processes are started and limited.
#[derive(Clone, Debug)]
pub struct Options {
    /// The binary that calls [`evaluator_main`] when started with `args`.
    pub program: PathBuf,
    pub args: Vec<String>,
    pub processes_max: usize,
    /// Of one evaluation. The meter ends one after about half a second of work, so this strikes only what the
    /// meter does not see.
    pub deadline: Duration,
    /// Of one script; the step's own timeout may be shorter.
    pub script_deadline: Duration,
    /// How many evaluations of one tenant may wait for a process; more are put off.
    pub waiting_max: usize,
    /// What an evaluation may take beyond the memory of an idle evaluator.
    pub memory_max_bytes: u64,
    /// Length of an answer. Results are at most 1 MiB, but JSON text can be six times as long.
    pub output_max_bytes: usize,
    /// After this many evaluations a process is replaced, which returns fragmented memory.
    pub evaluations_max: u32,
}

impl Options {
    /// The defaults, with evaluators started as `program args`.
    pub fn new(program: PathBuf, args: Vec<String>) -> Options {
        Options {
            program,
            args,
            processes_max: 2,
            deadline: Duration::from_secs(3),
            script_deadline: Duration::from_secs(10),
            waiting_max: 256,
            memory_max_bytes: 256 * 1024 * 1024,
            output_max_bytes: 8 * 1024 * 1024,
            evaluations_max: 1000,
        }
    }
}

/// Two pools of evaluator processes, so that scripts do not hold up expressions; they start when first needed.
pub struct Sandbox {
    expressions: Pool,
    scripts: Pool,
}

struct Pool {
    options: Options,
    slots: Fair,
    idle: Mutex<Vec<Process>>,
    /// What the pool runs, and the kind of fault when it is stopped.
    what: &'static str,
    kind: Kind,
}

/// It never began: too many wait. Trying again later will work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotRun(pub String);

impl Sandbox {
    pub fn new(options: Options) -> Sandbox {
        let deadline = options.script_deadline;
        let scripts = Options { deadline, ..options.clone() };
        Sandbox {
            expressions: Pool::new(options, "expression", Kind::Expression),
            scripts: Pool::new(scripts, "script", Kind::Runtime),
        }
    }

    /// Evaluates in one of the processes. Dropping the future kills that process.
    pub async fn evaluate(
        &self,
        tenant: &TenantId,
        evaluation: Evaluation,
    ) -> Result<Result<Data, Fault>, NotRun> {
        self.expressions.ask(tenant, &Request::Expression(evaluation)).await
    }

    /// Runs a script in one of the processes. Dropping the future kills that process.
    pub async fn script(&self, tenant: &TenantId, call: ScriptCall) -> Result<Result<Data, Fault>, NotRun> {
        self.scripts.ask(tenant, &Request::Script(call)).await
    }
}

impl Pool {
    fn new(options: Options, what: &'static str, kind: Kind) -> Pool {
        let slots = Fair::new(options.processes_max, options.waiting_max);
        Pool { options, slots, idle: Mutex::new(Vec::new()), what, kind }
    }

    async fn ask(&self, tenant: &TenantId, request: &Request) -> Result<Result<Data, Fault>, NotRun> {
        let not_run = |why: String| format!("the {} did not run: {why}", self.what);
        let impossible = |why: String| Ok(Err(Fault::new(Kind::Runtime, not_run(why))));
        let request = match serde_json::to_vec(request) {
            Ok(request) => request,
            Err(error) => return impossible(error.to_string()),
        };
        let Ok(_slot) = self.slots.enter(tenant).await else {
            return Err(NotRun(not_run("too many of this tenant wait for the sandbox".to_owned())));
        };
        let mut process = match self.process() {
            Ok(process) => process,
            Err(error) => {
                let program = self.options.program.display();
                tracing::error!(%error, %program, "cannot start a sandbox process");
                return impossible(format!("the sandbox cannot start: {error}"));
            }
        };
        let exchanged = process.exchange(&request, self.options.output_max_bytes);
        Ok(match timeout(self.options.deadline, exchanged).await {
            Ok(Ok(answer)) => {
                if process.evaluations < self.options.evaluations_max {
                    self.idle.lock().push(process);
                }
                answer
            }
            Ok(Err(failure)) => Err(self.fault(process.end(failure).await)),
            Err(_) => Err(self.fault(process.end(Failure::Deadline).await)),
        })
    }

    /// An idle process that is still alive, or a new one.
    fn process(&self) -> std::io::Result<Process> {
        while let Some(mut process) = self.idle.lock().pop() {
            if process.is_alive() {
                return Ok(process);
            }
        }
        Process::start(&self.options)
    }

    fn fault(&self, failure: Failure) -> Fault {
        let (deadline, memory) = (self.options.deadline.as_millis(), self.options.memory_max_bytes >> 20);
        let why = match failure {
            Failure::Deadline => format!("it ran longer than {deadline} ms"),
            Failure::Memory => format!("it used more than {memory} MiB of memory"),
            Failure::Died => format!("it used more than {memory} MiB of memory or recursed too deeply"),
            Failure::Output => format!("its result is larger than {} bytes", self.options.output_max_bytes),
        };
        Fault::new(self.kind, format!("the {} was stopped: {why}", self.what))
    }
}

#[async_trait]
impl Evaluate for Sandbox {
    async fn evaluate(
        &self,
        tenant: &TenantId,
        evaluation: Evaluation,
    ) -> Result<Result<Data, Fault>, NotRun> {
        Sandbox::evaluate(self, tenant, evaluation).await
    }

    async fn script(&self, tenant: &TenantId, call: ScriptCall) -> Result<Result<Data, Fault>, NotRun> {
        Sandbox::script(self, tenant, call).await
    }
}
