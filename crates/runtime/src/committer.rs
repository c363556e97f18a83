//! The commit pipeline: many independent commits become one batch (natural group commit).
//!
//! While one batch is being made durable the next one fills: no timer, no added latency when idle, hundreds of
//! commits per fsync under load. Every commit is answered by itself.

use crate::tasks::Tasks;
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};
use store::{Commit, Error, Outcome, Store};
use tokio::sync::{Semaphore, mpsc, oneshot};
use uuid::Uuid;

type Reply = oneshot::Sender<Result<Outcome, Error>>;

/// Hands commits to the pipeline.
#[derive(Clone)]
pub(crate) struct Committer {
    queue: mpsc::Sender<(Commit, Reply)>,
    refused: Arc<AtomicBool>,
}

pub(crate) struct Pipeline {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) node: Uuid,
    pub(crate) batch_max: usize,
    pub(crate) batches_in_flight_max: usize,
    pub(crate) commits_queued_max: usize,
}

impl Committer {
    pub(crate) fn start(tasks: &Arc<Tasks>, pipeline: Pipeline) -> Committer {
        let (queue, commits) = mpsc::channel(pipeline.commits_queued_max);
        let (in_batches, refused) = (tasks.clone(), Arc::<AtomicBool>::default());
        let noted = refused.clone();
        tasks.spawn_pump(async move { drive(pipeline, commits, in_batches, noted).await });
        Committer { queue, refused }
    }

    /// True if the next commit would wait to be let in: shed what has not been acknowledged.
    pub(crate) fn is_full(&self) -> bool {
        self.queue.capacity() == 0
    }

    /// True if the store did not take the last batch, for example because its disk is full.
    pub(crate) fn is_refused(&self) -> bool {
        self.refused.load(Ordering::Relaxed)
    }

    /// The store takes rows again, as somebody else has seen.
    pub(crate) fn try_again(&self) {
        self.refused.store(false, Ordering::Relaxed);
    }

    /// Answers once the commit is durable, or says why it is not.
    pub(crate) async fn commit(&self, commit: Commit) -> Result<Outcome, Error> {
        let stopped = || Error::Unavailable("the node is stopping".to_owned());
        let (reply, answer) = oneshot::channel();
        self.queue.send((commit, reply)).await.map_err(|_| stopped())?;
        // A pipeline that died without answering leaves the outcome open.
        answer.await.unwrap_or_else(|_| Err(Error::Unknown("the commit pipeline stopped".to_owned())))
    }
}

async fn drive(
    pipeline: Pipeline,
    mut commits: mpsc::Receiver<(Commit, Reply)>,
    tasks: Arc<Tasks>,
    refused: Arc<AtomicBool>,
) {
    let slots = Arc::new(Semaphore::new(pipeline.batches_in_flight_max));
    let mut waiting = Vec::with_capacity(pipeline.batch_max);
    loop {
        let Ok(slot) = slots.clone().acquire_owned().await else { return };
        if commits.recv_many(&mut waiting, pipeline.batch_max).await == 0 {
            return;
        }
        let (batch, replies): (Vec<Commit>, Vec<Reply>) = waiting.drain(..).unzip();
        let store = pipeline.store.clone();
        let node = pipeline.node;
        let (of_batch, refused) = (tasks.clone(), refused.clone());
        tasks.spawn(async move {
            match store.commit(node, batch).await {
                Ok(outcomes) => {
                    refused.store(false, Ordering::Relaxed);
                    for (outcome, reply) in outcomes.into_iter().zip(replies) {
                        // A caller that went away does not care for the answer.
                        let _ = reply.send(Ok(outcome));
                    }
                }
                Err(error) => {
                    of_batch.heed(&error);
                    refused.store(true, Ordering::Relaxed);
                    for reply in replies {
                        let _ = reply.send(Err(error.clone()));
                    }
                }
            }
            drop(slot);
        });
    }
}
