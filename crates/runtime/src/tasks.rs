//! The node's background work: spawned here so that a stop ends it and a crash drops it.

use std::future::Future;
use tokio_util::sync::CancellationToken;

/// Spawns for one node.
pub(crate) struct Tasks {
    /// Ends pumps at their next wait.
    pub(crate) stopping: CancellationToken,
    /// Drops every future at once; only the simulator and tests use it.
    crash: Option<CancellationToken>,
}

impl Tasks {
    pub(crate) fn new(crash: Option<CancellationToken>) -> Tasks {
        Tasks { stopping: CancellationToken::new(), crash }
    }

    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        match self.crash.clone() {
            None => drop(tokio::spawn(work)),
            Some(crash) => drop(tokio::spawn(async move {
                tokio::select! {
                    biased;
                    () = crash.cancelled_owned() => {}
                    () = work => {}
                }
            })),
        }
    }
}
