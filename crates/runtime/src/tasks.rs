//! The node's background work: spawned here so that it can be awaited on a graceful stop and dropped on a crash.

use std::future::Future;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// Spawns for one node.
pub struct Tasks {
    tracker: TaskTracker,
    /// Ends pumps at their next wait.
    pub(crate) stopping: CancellationToken,
    /// Drops every future at once; only the simulator and tests use it.
    crash: Option<CancellationToken>,
}

impl Tasks {
    pub fn new(crash: Option<CancellationToken>) -> Tasks {
        Tasks { tracker: TaskTracker::new(), stopping: CancellationToken::new(), crash }
    }

    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        match self.crash.clone() {
            None => drop(self.tracker.spawn(work)),
            Some(crash) => drop(self.tracker.spawn(async move {
                tokio::select! {
                    biased;
                    () = crash.cancelled_owned() => {}
                    () = work => {}
                }
            })),
        }
    }

    /// Returns once everything spawned has ended.
    pub(crate) async fn wait(&self) {
        self.tracker.close();
        self.tracker.wait().await;
    }
}
