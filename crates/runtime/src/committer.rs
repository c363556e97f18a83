//! The commit pipeline: many independent commits become one batch (natural group commit).
//!
//! While one batch is being made durable the next one fills: no timer, no added latency when idle, hundreds of
//! commits per fsync under load. Beside a batch in flight another is sent only when enough commits wait for it: a batch
//! costs the store nearly the same whatever its size. Every commit is answered by itself. Tenants take turns in a batch, and
//! busy ones leave room for quiet ones.

mod courtesy;
mod queue;

use crate::{acting, clock::Clock, options::Options, tasks::Tasks};
use courtesy::Courtesy;
use machine::{TenantId, time::Span};
use parking_lot::Mutex;
use queue::{May, Next, Queue};
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};
use store::{Commit, Error, Outcome, Store};
use tokio::sync::{Notify, oneshot};
use uuid::Uuid;

/// A commit with so many writes counts as one of a batch, and one with more as several: a batch takes about as long whatever
/// it is made of.
const WRITES_OF_ONE: usize = 6;

type Reply = oneshot::Sender<Result<Outcome, Error>>;

/// Hands commits to the pipeline, which ends when this is dropped and nothing waits.
pub(crate) struct Committer {
    shared: Arc<Shared>,
}

struct Shared {
    /// `None` once the pipeline is gone.
    queue: Mutex<Option<Queue<(Commit, Reply)>>>,
    /// Nothing will come any more.
    ended: AtomicBool,
    /// Something waits, a batch has ended, or nothing will come.
    changed: Notify,
    batches_in_flight: AtomicUsize,
    batches_in_flight_max: AtomicUsize,
    /// The same of all nodes together.
    batches_of_all_max: usize,
    batch_min: usize,
    refused: AtomicBool,
    clock: Arc<dyn Clock>,
}

pub(crate) struct Pipeline {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) node: Uuid,
    pub(crate) batch_max: usize,
    pub(crate) batch_min: usize,
    pub(crate) batches_in_flight_max: usize,
    pub(crate) commits_queued_max: usize,
    pub(crate) courtesy: f64,
    pub(crate) clock: Arc<dyn Clock>,
}

impl Pipeline {
    pub(crate) fn new(
        options: &Options,
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        node: Uuid,
    ) -> Pipeline {
        Pipeline {
            store,
            node,
            clock,
            courtesy: options.courtesy,
            batch_max: options.batch_max,
            batch_min: options.batch_min,
            batches_in_flight_max: options.batches_in_flight_max,
            commits_queued_max: options.commits_queued_max,
        }
    }
}

impl Committer {
    pub(crate) fn start(tasks: &Arc<Tasks>, pipeline: Pipeline) -> Committer {
        let courtesy = Courtesy::new(pipeline.courtesy);
        let queue = Mutex::new(Some(Queue::new(pipeline.commits_queued_max, courtesy)));
        let clock = pipeline.clock.clone();
        let (ended, changed, refused) = (AtomicBool::new(false), Notify::new(), AtomicBool::new(false));
        let (batches_in_flight, batch_min) = (AtomicUsize::new(0), pipeline.batch_min);
        let batches_in_flight_max = AtomicUsize::new(pipeline.batches_in_flight_max);
        let shared = Arc::new(Shared {
            queue,
            ended,
            changed,
            batches_in_flight,
            batches_in_flight_max,
            batches_of_all_max: pipeline.batches_in_flight_max,
            batch_min,
            refused,
            clock,
        });
        let (driven, in_batches) = (Driven(shared.clone()), tasks.clone());
        tasks.spawn_pump(async move { drive(pipeline, driven, in_batches).await });
        Committer { shared }
    }

    /// True if the tenant has its part of a full queue: shed what has not been acknowledged. What was acknowledged
    /// before (turns, answers of calls) waits in the queue instead of before it; their number has bounds of its own.
    pub(crate) fn is_full(&self, tenant: &TenantId) -> bool {
        self.shared.queue.lock().as_ref().is_some_and(|queue| queue.is_full(tenant))
    }

    /// How much each tenant is given where several wait; 1 for those that are not named.
    pub(crate) fn weigh(&self, weights: BTreeMap<TenantId, u32>) {
        if let Some(queue) = self.shared.queue.lock().as_mut() {
            queue.weigh(weights);
        }
    }

    /// So many nodes share the store: together they have as many batches in flight as one alone would, each one at least.
    pub(crate) fn share(&self, nodes: u32) {
        let max = self.shared.batches_of_all_max / nodes.max(1) as usize;
        self.shared.batches_in_flight_max.store(max.max(1), Ordering::Relaxed);
    }

    /// True if the store did not take the last batch, for example because its disk is full.
    pub(crate) fn is_refused(&self) -> bool {
        self.shared.refused.load(Ordering::Relaxed)
    }

    /// The store takes rows again, as somebody else has seen.
    pub(crate) fn try_again(&self) {
        self.shared.refused.store(false, Ordering::Relaxed);
    }

    /// Answers once the commit is durable, or says why it is not.
    pub(crate) async fn commit(&self, commit: Commit) -> Result<Outcome, Error> {
        let (commit, landing) = acting::signed(commit).await?;
        let outcome = self.send(commit).await;
        acting::landed(landing, &outcome);
        outcome
    }

    async fn send(&self, commit: Commit) -> Result<Outcome, Error> {
        let (reply, answer) = oneshot::channel();
        let (waiting, is_quiet) = match self.shared.queue.lock().as_mut() {
            Some(queue) => {
                let (tenant, size) = (commit.tenant.clone(), commit.writes.len() / WRITES_OF_ONE);
                let is_quiet = queue.came(&tenant, size, self.shared.clock.steady_micros());
                (queue.push(&tenant, (commit, reply), size), is_quiet)
            }
            None => return Err(Error::Unavailable("the node is stopping".to_owned())),
        };
        if waiting == 1 || waiting == self.shared.batch_min || is_quiet {
            self.shared.changed.notify_one();
        }
        // A pipeline that died without answering leaves the outcome open.
        answer.await.unwrap_or_else(|_| Err(Error::Unknown("the commit pipeline stopped".to_owned())))
    }
}

impl Drop for Committer {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::SeqCst);
        self.shared.changed.notify_one();
    }
}

/// The pipeline's end of the queue: whatever ends the pipeline, nobody waits for it any more.
struct Driven(Arc<Shared>);

impl Drop for Driven {
    fn drop(&mut self) {
        // Answers are dropped after the lock: they wake whoever waits.
        let queue = self.0.queue.lock().take();
        drop(queue);
    }
}

impl Driven {
    /// What waits, as soon as anything does and no batch is in flight, or enough does; `None` once nothing will come.
    /// With it, whether it is a batch of busy tenants that leave room for others.
    async fn next(&self, batch_max: usize) -> Option<(Vec<(Commit, Reply)>, bool)> {
        loop {
            let from = {
                let mut queue = self.0.queue.lock();
                let queue = queue.as_mut()?;
                let in_flight = self.0.batches_in_flight.load(Ordering::SeqCst);
                let max = self.0.batches_in_flight_max.load(Ordering::Relaxed);
                let may = May {
                    quiet: in_flight <= max,
                    any: in_flight < max,
                    usual: in_flight == 0 || (in_flight < max && queue.len() >= self.0.batch_min),
                };
                match queue.next(batch_max, may, self.0.clock.steady_micros()) {
                    Next::Batch { items, busy } => return Some((items, busy)),
                    Next::Later(from) if queue.len() > 0 => from,
                    Next::Later(_) if self.0.ended.load(Ordering::SeqCst) => return None,
                    Next::Later(from) => from,
                }
            };
            let pause = async {
                match from {
                    Some(from) => {
                        let micros = from.saturating_sub(self.0.clock.steady_micros());
                        let until = self.0.clock.now().after(Span(micros as i64));
                        self.0.clock.sleep_until(until).await;
                    }
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = self.0.changed.notified() => {}
                () = pause => {}
            }
        }
    }
}

/// A batch that has not been answered.
struct Flight {
    shared: Arc<Shared>,
    /// Of busy tenants that leave room for others.
    busy: bool,
}

impl Flight {
    fn begin(shared: &Arc<Shared>, busy: bool) -> Flight {
        shared.batches_in_flight.fetch_add(1, Ordering::SeqCst);
        Flight { shared: shared.clone(), busy }
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.shared.batches_in_flight.fetch_sub(1, Ordering::SeqCst);
        if self.busy
            && let Some(queue) = self.shared.queue.lock().as_mut()
        {
            queue.ended(self.shared.clock.steady_micros());
        }
        self.shared.changed.notify_one();
    }
}

async fn drive(pipeline: Pipeline, driven: Driven, tasks: Arc<Tasks>) {
    loop {
        let Some((waiting, busy)) = driven.next(pipeline.batch_max).await else { return };
        let (batch, replies): (Vec<Commit>, Vec<Reply>) = waiting.into_iter().unzip();
        let store = pipeline.store.clone();
        let node = pipeline.node;
        let (of_batch, shared) = (tasks.clone(), driven.0.clone());
        let flight = Flight::begin(&shared, busy);
        tasks.spawn(async move {
            match store.commit(node, batch).await {
                Ok(outcomes) => {
                    shared.refused.store(false, Ordering::Relaxed);
                    for (outcome, reply) in outcomes.into_iter().zip(replies) {
                        // A caller that went away does not care for the answer.
                        let _ = reply.send(Ok(outcome));
                    }
                }
                Err(error) => {
                    of_batch.heed(&error);
                    shared.refused.store(true, Ordering::Relaxed);
                    for reply in replies {
                        let _ = reply.send(Err(error.clone()));
                    }
                }
            }
            drop(flight);
        });
    }
}
