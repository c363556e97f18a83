//! Evaluates expressions and runs scripts in processes that can be killed.
//!
//! [`Sandbox`] keeps a few evaluator processes: this binary started again with a hidden argument, which calls
//! [`evaluator_main`]. An evaluation that runs too long, takes too much memory or overflows its stack costs that
//! process and is an `expression` fault of its step; the next evaluation starts a new process. Evaluations beyond
//! the number of processes wait, up to [`Options::wait`].
//!
//! The meter of `machine::expr` stops most expressions first and always at the same point; the deadline is for
//! what it does not see, and for a machine under load.

mod evaluator;
mod process;
mod script;
mod wire;

pub use evaluator::evaluator_main;
pub use wire::ScriptCall;

use crate::engine::Evaluate;
use async_trait::async_trait;
use machine::{Data, Fault, expr::Evaluation, fault::Kind};
use parking_lot::Mutex;
use process::{Failure, Process};
use std::{path::PathBuf, time::Duration};
use tokio::{sync::Semaphore, time::timeout};
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
    /// How long an evaluation waits for a process before it fails as busy: with two processes and evaluations at
    /// their deadline, 60 can be ahead of it.
    pub wait: Duration,
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
            deadline: Duration::from_secs(1),
            script_deadline: Duration::from_secs(10),
            wait: Duration::from_secs(30),
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
    slots: Semaphore,
    idle: Mutex<Vec<Process>>,
    /// What the pool runs, and the kind of fault when it is stopped.
    what: &'static str,
    kind: Kind,
}

/// It never began: no process could be had. Trying again later may work.
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
    pub async fn evaluate(&self, evaluation: Evaluation) -> Result<Data, Fault> {
        let answer = self.expressions.ask(&Request::Expression(evaluation)).await;
        answer.unwrap_or_else(|NotRun(why)| Err(Fault::new(Kind::Runtime, why)))
    }

    /// Runs a script in one of the processes. Dropping the future kills that process.
    pub async fn script(&self, call: ScriptCall) -> Result<Result<Data, Fault>, NotRun> {
        self.scripts.ask(&Request::Script(call)).await
    }
}

impl Pool {
    fn new(options: Options, what: &'static str, kind: Kind) -> Pool {
        let slots = Semaphore::new(options.processes_max.max(1));
        Pool { options, slots, idle: Mutex::new(Vec::new()), what, kind }
    }

    async fn ask(&self, request: &Request) -> Result<Result<Data, Fault>, NotRun> {
        let not_run = |why: String| NotRun(format!("the {} did not run: {why}", self.what));
        let request = serde_json::to_vec(request).map_err(|error| not_run(error.to_string()))?;
        let Ok(Ok(_slot)) = timeout(self.options.wait, self.slots.acquire()).await else {
            return Err(not_run("the sandbox is busy".to_owned()));
        };
        let mut process = self.process().map_err(|error| {
            tracing::error!(%error, program = %self.options.program.display(), "cannot start a sandbox process");
            not_run(format!("the sandbox cannot start: {error}"))
        })?;
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
    async fn evaluate(&self, evaluation: Evaluation) -> Result<Data, Fault> {
        Sandbox::evaluate(self, evaluation).await
    }

    async fn script(&self, call: ScriptCall) -> Result<Result<Data, Fault>, NotRun> {
        Sandbox::script(self, call).await
    }
}
