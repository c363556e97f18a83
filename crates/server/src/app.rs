//! What all handlers share. Cheap to clone.

use crate::{auth::Keys, metrics::HttpMetrics, options::Options, problem::Problem, stream::Feed};
use runtime::Handle;
use std::{future::Future, pin::Pin, sync::Arc};
use store::Store;
use tokio::sync::watch;

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
/// changes something goes through here.
pub(crate) async fn detached<T, W>(work: W) -> Result<T, Problem>
where
    T: Send + 'static,
    W: Future<Output = Result<T, Problem>> + Send + 'static,
{
    // Boxed, so that tasks are built once and not once for each handler.
    let work: Pin<Box<dyn Future<Output = _> + Send>> = Box::pin(work);
    match tokio::spawn(work).await {
        Ok(answer) => answer,
        Err(error) => Err(Problem::internal(error)),
    }
}
