//! The store a node runs on: one writer thread, reader threads, and a queue before each.
//!
//! **Natural group commit.** While the writer makes one transaction durable, calls queue up; then it takes all that
//! wait and makes them one transaction. No timer, no delay when idle, hundreds of commits per sync under load.

use super::{
    apply::Batch,
    core::Core,
    host::Host,
    lock::{self, Lock},
    pool::Pool,
    read::Read,
};
use crate::{
    commit::Outcome,
    port::{Error, Result, Store},
};
use std::{path::Path, sync::Arc, thread::JoinHandle};
use tokio::sync::{mpsc, oneshot};

/// Calls that may wait for the writer; the next one waits to be let in.
const QUEUE_MAX: usize = 4_096;
/// The most commits in one transaction; beyond this the sync is shared so widely that only latency grows.
const FOLD_MAX: usize = 2_048;

/// The SQLite store.
pub struct Sqlite {
    // Readers close before the writer: the last connection to close moves the WAL into the file and removes it.
    pool: Option<Pool>,
    queue: Option<mpsc::Sender<Request>>,
    writer: Option<JoinHandle<()>>,
}

/// What the writer is asked to do.
enum Request {
    Apply(Batch, oneshot::Sender<Result<Vec<Outcome>>>),
    Work(Box<dyn FnOnce(&mut Core) + Send>),
}

impl Sqlite {
    /// Opens or creates the file at `path`. Only one process at a time may have it open; whatever an earlier one
    /// left unfinished is backlog from the start.
    pub fn open(path: impl AsRef<Path>) -> Result<Sqlite> {
        let path = path.as_ref();
        let mut lock = lock::acquire(path)?;
        let mut core = Core::open(path)?;
        lock.database_is_made()?;
        let rows = core.adopt_all()?;
        if rows > 0 {
            tracing::info!(rows, "work that an earlier process left is backlog");
        }
        let pool = Pool::open(path)?;
        Sqlite::start(core, Some(pool), Some(lock))
    }

    /// A store that lives as long as this value. The writer thread answers its reads as well: a database in memory
    /// has one connection.
    pub fn in_memory() -> Result<Sqlite> {
        Sqlite::start(Core::open_in_memory()?, None, None)
    }

    /// The store as everybody else knows it. Here, so that its methods are built with this crate and not once more in
    /// each that opens one.
    pub fn shared(self) -> Arc<dyn Store> {
        Arc::new(self)
    }

    fn start(core: Core, pool: Option<Pool>, lock: Option<Lock>) -> Result<Sqlite> {
        let (queue, requests) = mpsc::channel(QUEUE_MAX);
        let writer = std::thread::Builder::new()
            .name("store-write".into())
            .spawn(move || serve(core, requests, lock))
            .map_err(|err| Error::Unavailable(format!("cannot start the writer: {err}")))?;
        Ok(Sqlite { pool, queue: Some(queue), writer: Some(writer) })
    }

    async fn send(&self, request: Request) -> Result<()> {
        let queue = self.queue.as_ref().expect("the queue is there until the store is dropped");
        queue.send(request).await.map_err(|_| Error::Corrupt("the writer has ended".into()))
    }
}

impl Host for Sqlite {
    async fn apply(&self, batch: Batch) -> Result<Vec<Outcome>> {
        let (answer, answered) = oneshot::channel();
        self.send(Request::Apply(batch, answer)).await?;
        answered.await.map_err(|_| unknown())?
    }

    async fn write<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&mut Core) -> Result<T> + Send + 'static,
    {
        let (answer, answered) = oneshot::channel();
        self.send(Request::Work(Box::new(move |core| drop(answer.send(work(core)))))).await?;
        answered.await.map_err(|_| unknown())?
    }

    async fn read<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(Read<'_>) -> Result<T> + Send + 'static,
    {
        let Some(pool) = &self.pool else {
            return self.write(move |core| work(core.read())).await;
        };
        let (answer, answered) = oneshot::channel();
        pool.send(Box::new(move |read| drop(answer.send(work(read))))).await?;
        answered.await.map_err(|_| Error::Unavailable("the readers have ended".into()))?
    }
}

/// The writer took the request and ended before it answered.
fn unknown() -> Error {
    Error::Unknown("the writer ended before it answered".into())
}

/// The writer's loop: takes what waits, in order, folding neighbouring batches into one transaction.
fn serve(mut core: Core, mut requests: mpsc::Receiver<Request>, lock: Option<Lock>) {
    let mut batches = Vec::new();
    let mut answers = Vec::new();
    while let Some(request) = requests.blocking_recv() {
        let mut next = Some(request);
        let mut commits = 0;
        while let Some(request) = next.take() {
            match request {
                Request::Apply(batch, answer) => {
                    commits += batch.commits.len();
                    batches.push(batch);
                    answers.push(answer);
                }
                Request::Work(work) => {
                    flush(&mut core, &mut batches, &mut answers);
                    work(&mut core);
                    break;
                }
            }
            if commits < FOLD_MAX {
                next = requests.try_recv().ok();
            }
        }
        flush(&mut core, &mut batches, &mut answers);
        if requests.is_empty() {
            core.idle();
        }
    }
    drop(core);
    drop(lock);
}

fn flush(
    core: &mut Core,
    batches: &mut Vec<Batch>,
    answers: &mut Vec<oneshot::Sender<Result<Vec<Outcome>>>>,
) {
    if batches.is_empty() {
        return;
    }
    for (answer, outcome) in answers.drain(..).zip(core.apply_all(batches)) {
        // Whoever asked may have gone; the commit stands.
        let _ = answer.send(outcome);
    }
    batches.clear();
}

impl Drop for Sqlite {
    fn drop(&mut self) {
        self.pool = None;
        self.queue = None;
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
    }
}
