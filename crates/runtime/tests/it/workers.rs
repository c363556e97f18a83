//! Workers for tests: one that notes what it sees, one that gives back, one that waits for the test.

use crate::support::World;
use async_trait::async_trait;
use machine::{Data, Time, time::Span};
use parking_lot::Mutex;
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};
use worker::{Context, Declaration};

/// What a recording worker saw: context and time of every attempt.
pub(crate) type Seen = Arc<Mutex<Vec<(Context, Time)>>>;

/// A worker that notes every attempt and then does what `f` says.
pub(crate) fn recording<F>(world: &World, name: &str, f: F) -> (Declaration, Seen)
where
    F: Fn(&Context, Data) -> worker::Outcome + Send + Sync + 'static,
{
    let seen = Seen::default();
    let (noted, clock) = (seen.clone(), world.clock.clone());
    let handler = worker::from_fn(move |context: &Context, input: Data| {
        noted.lock().push((context.clone(), clock.now()));
        f(context, given(input))
    });
    (Declaration::new(name, handler), seen)
}

/// A worker that gives back what it is given.
pub(crate) fn echo(name: &str) -> Declaration {
    Declaration::new(name, worker::from_fn(|_, input| worker::Outcome::Done(given(input))))
}

/// What a call is given: the tests' definitions pass the step's data as `v`.
fn given(input: Data) -> Data {
    input.get("v").unwrap_or(input)
}

/// A worker that answers when the test lets it, one permit per attempt.
pub(crate) struct Gate {
    pub(crate) open: Arc<tokio::sync::Semaphore>,
    pub(crate) begun: Arc<AtomicU64>,
    /// Attempts under way now, and the most there ever were.
    pub(crate) within: Arc<(AtomicU64, AtomicU64)>,
}

impl Gate {
    pub(crate) fn new() -> Gate {
        let open = Arc::new(tokio::sync::Semaphore::new(0));
        Gate { open, begun: Arc::default(), within: Arc::default() }
    }

    pub(crate) fn worker(&self, name: &str) -> Declaration {
        let shared = Gate { open: self.open.clone(), begun: self.begun.clone(), within: self.within.clone() };
        Declaration::new(name, shared).timeout(Span::from_secs(100_000))
    }

    pub(crate) fn begun(&self) -> u64 {
        self.begun.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl worker::Worker for Gate {
    async fn handle(&self, _: &Context, input: Data) -> worker::Outcome {
        self.begun.fetch_add(1, Ordering::SeqCst);
        let now = self.within.0.fetch_add(1, Ordering::SeqCst) + 1;
        self.within.1.fetch_max(now, Ordering::SeqCst);
        self.open.acquire().await.unwrap().forget();
        self.within.0.fetch_sub(1, Ordering::SeqCst);
        worker::Outcome::Done(given(input))
    }
}
