//! Is told to act. What a worker author sees: [`Worker`], [`Context`], [`Outcome`] for calls, [`Handler`], [`Delivery`],
//! [`Handled`] for events, and [`Declaration`]; [`remote::Remote`] for workers outside of any node.
//!
//! A worker is declared once: its name, its retry policy, its bounds and its handler. The runtime gives every
//! worker the same wiring (tenant, stable key, retry with back-off, dead letters). A worker never sees the runtime
//! or the store.

mod event;
pub mod remote;
mod terms;

use machine::{Data, TenantId, time::Span};
use std::sync::Arc;

pub use async_trait::async_trait;
pub use event::{Delivery, Effects, Emit, Handled, Handler, Move, On, Watermark, each};
pub use machine::ir::{Missed, Schedule, When};
pub use machine::retry::RetryPolicy;
pub use terms::{ALERT, DUE, Debounce, Rate, Terminal, Terms, path};

/// Handles calls. Called at least once per call; `context.key` is the same on every attempt, so use it to make
/// outside effects happen once.
#[async_trait]
pub trait Worker: Send + Sync + 'static {
    async fn handle(&self, context: &Context, input: Data) -> Outcome;
}

/// What the worker is told about the call.
#[derive(Clone, Debug)]
pub struct Context {
    pub tenant: TenantId,
    /// The instance's id as the API shows it.
    pub instance: String,
    /// Reference of the step, e.g. `/do/0/charge`.
    pub step: String,
    /// Stable over attempts, restarts, nodes and replays: one key per (tenant, instance, step, iteration).
    pub key: String,
    /// 1 on the first attempt.
    pub attempt: u32,
    pub traceparent: Option<String>,
    pub correlation_id: Option<String>,
}

/// How an attempt ended.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// The step's output.
    Done(Data),
    /// Try again by the worker's retry policy, or after the given time (a `Retry-After`) if that is longer.
    Retry { failure: Failure, after: Option<Span> },
    /// Do not try again: the step faults with this.
    Fail(Failure),
}

/// Why an attempt failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub class: Class,
    pub message: String,
}

/// What kind of failure it was; decides which error the workflow sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    Transient,
    RateLimited,
    Auth,
    Validation,
    Poison,
}

impl Class {
    pub fn word(self) -> &'static str {
        match self {
            Class::Transient => "transient",
            Class::RateLimited => "rate-limited",
            Class::Auth => "auth",
            Class::Validation => "validation",
            Class::Poison => "poison",
        }
    }
}

impl Outcome {
    pub fn retry(message: impl Into<String>) -> Outcome {
        Outcome::Retry { failure: Failure { class: Class::Transient, message: message.into() }, after: None }
    }

    pub fn fail(class: Class, message: impl Into<String>) -> Outcome {
        Outcome::Fail(Failure { class, message: message.into() })
    }
}

/// How much longer each wait between attempts may be than the one before.
pub const FACTOR_MAX: f64 = 100.0;

/// A worker with everything the runtime needs to know about it.
#[derive(Clone)]
pub struct Declaration {
    /// What definitions call it: the part before `:version@catalog`.
    pub name: String,
    /// A call runs on exactly the version it names; several versions of a worker may be registered.
    pub version: String,
    pub retry: RetryPolicy,
    /// Attempts running at once on one node.
    pub concurrency_max: usize,
    /// An attempt that takes longer counts as failed.
    pub timeout: Span,
    pub worker: Arc<dyn Worker>,
    /// The events it handles, if any.
    pub on: Option<On>,
}

impl Declaration {
    /// A declaration of version 1.0.0 with the default policy: 5 attempts, 256 at once, 60 s each.
    pub fn new(name: impl Into<String>, worker: impl Worker) -> Declaration {
        Declaration {
            name: name.into(),
            version: "1.0.0".to_owned(),
            retry: RetryPolicy::default(),
            concurrency_max: 256,
            timeout: Span::from_secs(60),
            worker: Arc::new(worker),
            on: None,
        }
    }

    /// A worker that handles events of these types, one at a time, with the same default policy. A type that ends with
    /// `*` is the beginning of a type.
    pub fn on<T: Into<String>>(
        name: impl Into<String>,
        types: impl IntoIterator<Item = T>,
        handler: impl Handler,
    ) -> Declaration {
        let handler = Arc::new(handler);
        let on = On { terms: Terms::new(types), prefetch_max: None, samples: vec![], handler };
        let not_callable =
            from_fn(|_, _| Outcome::fail(Class::Validation, "this worker handles events; no step calls it"));
        Declaration { on: Some(on), ..Declaration::new(name, not_callable) }
    }

    /// Changes how events are handed to it; nothing for a worker that handles calls.
    fn terms(mut self, change: impl FnOnce(&mut Terms)) -> Declaration {
        if let Some(on) = &mut self.on {
            change(&mut on.terms);
        }
        self
    }

    /// Events handed over in one call.
    pub fn batch_max(self, batch_max: usize) -> Declaration {
        self.terms(|terms| terms.batch_max = batch_max.max(1))
    }

    /// Where the order key of an event is found; see [`Terms::order_by`].
    pub fn order_by(self, path: impl Into<String>) -> Declaration {
        self.terms(|terms| terms.order_by = Some(path.into()))
    }

    /// Where the domain key of an event is found; see [`Terms::key_by`].
    pub fn key_by(self, path: impl Into<String>) -> Declaration {
        self.terms(|terms| terms.key_by = Some(path.into()))
    }

    pub fn debounce(self, debounce: Debounce) -> Declaration {
        self.terms(|terms| terms.debounce = Some(debounce))
    }

    /// So many events of one tenant in the time.
    pub fn rate(self, max: u32, per: Span) -> Declaration {
        self.terms(|terms| terms.rate = Some(Rate { max, per }))
    }

    /// What is done besides the dead letter when an event is given up.
    pub fn terminal(self, terminal: Terminal) -> Declaration {
        self.terms(|terms| terms.terminal = terminal)
    }

    /// When it runs by itself, for each tenant; see [`Terms::schedule`].
    pub fn schedule(self, when: When) -> Declaration {
        let schedule = Schedule { when, time_zone: None, missed: Missed::default() };
        self.terms(|terms| terms.schedule = Some(schedule))
    }

    /// In which IANA zone its cron expression is read; UTC otherwise.
    pub fn time_zone(self, zone: impl Into<String>) -> Declaration {
        self.scheduled(|schedule| schedule.time_zone = Some(zone.into()))
    }

    /// What becomes of times that came while no node was up; the latest is made up for otherwise.
    pub fn missed(self, missed: Missed) -> Declaration {
        self.scheduled(|schedule| schedule.missed = missed)
    }

    fn scheduled(self, change: impl FnOnce(&mut Schedule)) -> Declaration {
        self.terms(|terms| {
            if let Some(schedule) = &mut terms.schedule {
                change(schedule);
            }
        })
    }

    /// Watermarks that it reads and moves; see [`Delivery::watermark`].
    pub fn watermarks<T: Into<String>>(self, names: impl IntoIterator<Item = T>) -> Declaration {
        self.terms(|terms| terms.watermarks = names.into_iter().map(Into::into).collect())
    }

    /// What it emits itself is not delivered to it.
    pub fn ignore_own(self) -> Declaration {
        self.terms(|terms| terms.ignore_own = true)
    }

    /// An event that shows what it does, without id and source: the conformance suite publishes it.
    pub fn sample(mut self, event: Data) -> Declaration {
        if let Some(on) = &mut self.on {
            on.samples.push(event);
        }
        self
    }

    /// Events for it that one node keeps in memory.
    pub fn prefetch_max(mut self, prefetch_max: usize) -> Declaration {
        if let Some(on) = &mut self.on {
            on.prefetch_max = Some(prefetch_max.max(1));
        }
        self
    }

    /// What is wrong with it, if anything.
    pub fn problem(&self) -> Option<String> {
        let RetryPolicy { attempts_max, base, factor, cap } = self.retry;
        let problem = match () {
            () if self.name.is_empty() => Some("a worker has a name".to_owned()),
            () if attempts_max == 0 => Some("a worker has one attempt at least".to_owned()),
            () if base.0 < 0 || cap.0 < 0 || !(1.0..=FACTOR_MAX).contains(&factor) => Some(format!(
                "waits between attempts are not negative, and grow by a factor of 1 to {FACTOR_MAX}"
            )),
            () => self.on.as_ref().and_then(|on| on.terms.problem()),
        };
        problem.map(|problem| format!("worker `{}`: {problem}", self.name))
    }

    pub fn version(mut self, version: impl Into<String>) -> Declaration {
        self.version = version.into();
        self
    }

    pub fn retry(mut self, retry: RetryPolicy) -> Declaration {
        self.retry = retry;
        self
    }

    pub fn concurrency_max(mut self, concurrency_max: usize) -> Declaration {
        self.concurrency_max = concurrency_max.max(1);
        self
    }

    pub fn timeout(mut self, timeout: Span) -> Declaration {
        self.timeout = timeout;
        self
    }
}

/// Makes a worker of a plain function that needs no waiting.
pub fn from_fn<F>(f: F) -> impl Worker
where
    F: Fn(&Context, Data) -> Outcome + Send + Sync + 'static,
{
    FromFn(f)
}

struct FromFn<F>(F);

#[async_trait]
impl<F> Worker for FromFn<F>
where
    F: Fn(&Context, Data) -> Outcome + Send + Sync + 'static,
{
    async fn handle(&self, context: &Context, input: Data) -> Outcome {
        (self.0)(context, input)
    }
}
