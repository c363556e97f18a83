//! What all handlers share. Cheap to clone.

use crate::{auth::Keys, code, metrics::HttpMetrics, options::Options, problem::Problem, stream::Feed};
use axum::http::header;
use runtime::{Handle, acting};
use std::{future::Future, pin::Pin, sync::Arc, time::Duration};
use store::Store;
use tokio::sync::watch;

/// How long a client is asked to stay away after it was not answered in time, in seconds.
const UNANSWERED_RETRY_AFTER: &str = "5";

/// The handlers' state.
#[derive(Clone)]
pub(crate) struct App(Arc<Inner>);

pub(crate) struct Inner {
    pub handle: Handle,
    pub options: Options,
    pub keys: Keys,
    pub feed: Arc<Feed>,
    pub http: HttpMetrics,
    pub openapi: bytes::Bytes,
    /// Signs sessions; read when the first one is opened or shown.
    pub session_key: tokio::sync::OnceCell<[u8; 32]>,
    /// Turns true once the server is told to stop: long answers end then.
    pub stopping: watch::Receiver<bool>,
}

impl App {
    pub(crate) fn new(inner: Inner) -> App {
        App(Arc::new(inner))
    }

    pub(crate) fn store(&self) -> &dyn Store {
        self.0.handle.store().as_ref()
    }

    /// How long somebody who asks for a change waits for the answer at most.
    pub(crate) fn answer_max(&self) -> Duration {
        self.0.options.write_timeout
    }

    /// Returns once the server was told to stop.
    pub(crate) async fn stopped(&self) {
        let mut stopping = self.0.stopping.clone();
        if stopping.wait_for(|stop| *stop).await.is_err() {
            // Nobody can tell it to stop any more: it never will.
            std::future::pending::<()>().await;
        }
    }
}

impl std::ops::Deref for App {
    type Target = Inner;
    fn deref(&self) -> &Inner {
        &self.0
    }
}

/// Does the work in a task of its own, so that it runs to its end even if the client goes away. Every handler that
/// changes something goes through here. After `answer_max` it goes on, and the client is told that nobody knows yet.
pub(crate) async fn detached<T, W>(answer_max: Duration, work: W) -> Result<T, Problem>
where
    T: Send + 'static,
    W: Future<Output = Result<T, Problem>> + Send + 'static,
{
    // Boxed, so that tasks are built once and not once for each handler.
    let work: Pin<Box<dyn Future<Output = _> + Send>> = Box::pin(acting::carried(work));
    match in_time(answer_max, tokio::spawn(work)).await? {
        Ok(answer) => answer,
        Err(error) => Err(Problem::internal(error)),
    }
}

/// Waits for the work, or says that nobody knows yet what becomes of it.
pub(crate) async fn in_time<T>(answer_max: Duration, work: impl Future<Output = T>) -> Result<T, Problem> {
    tokio::time::timeout(answer_max, work).await.map_err(|_| unanswered(answer_max))
}

fn unanswered(answer_max: Duration) -> Problem {
    let detail = format!(
        "the store has not answered within {} s; it goes on, so this may be done already or be done later: ask again with \
         the same Idempotency-Key, which does nothing twice, or look at the object before you send it anew",
        answer_max.as_secs()
    );
    Problem::new(code::OUTCOME_UNKNOWN, detail).with_header(header::RETRY_AFTER, UNANSWERED_RETRY_AFTER)
}
