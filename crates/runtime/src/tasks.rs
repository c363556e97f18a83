//! The node's background work: spawned here so that a stop waits for it or ends it and a crash drops it.

use std::{
    future::Future,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Spawns for one node.
pub(crate) struct Tasks {
    /// Ends pumps at their next wait.
    pub(crate) stopping: CancellationToken,
    /// Ends what only waits to be computed, so that whoever asked for it hears at once; it comes before `stopping`.
    pub(crate) leaving: CancellationToken,
    /// Drops every future at once; only the simulator and tests use it.
    crash: Option<CancellationToken>,
    open: Arc<Open>,
    halted: OnceLock<Halt>,
}

/// Why a node stopped by itself.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Halt {
    #[error("another node took the work over")]
    TakenOver,
    #[error("the store cannot be trusted any more: {0}")]
    StoreBroken(String),
    #[error("the store cannot be used as it is set up: {0}")]
    Misconfigured(String),
}

/// Work that a stop waits for.
#[derive(Default)]
struct Open {
    count: AtomicUsize,
    none: Notify,
}

/// Counts one piece of work until dropped, however it ends.
struct Counted(Arc<Open>);

impl Drop for Counted {
    fn drop(&mut self) {
        if self.0.count.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.0.none.notify_waiters();
        }
    }
}

impl Tasks {
    pub(crate) fn new(crash: Option<CancellationToken>) -> Tasks {
        let (stopping, leaving) = (CancellationToken::new(), CancellationToken::new());
        Tasks { stopping, leaving, crash, open: Arc::default(), halted: OnceLock::new() }
    }

    /// Stops the node if the error says that nothing it does will land any more. Every answer of the store to a
    /// commit, a claim or a lease passes here.
    pub(crate) fn heed(&self, error: &store::Error) {
        let halt = match error {
            // A node that has left is fenced: that is no news.
            store::Error::Fenced if self.stopping.is_cancelled() => return,
            store::Error::Fenced => Halt::TakenOver,
            store::Error::Corrupt(detail) => Halt::StoreBroken(detail.clone()),
            store::Error::Misconfigured(detail) => Halt::Misconfigured(detail.clone()),
            _ => return,
        };
        if self.halted.set(halt.clone()).is_ok() {
            tracing::error!("{halt}; this node stops");
        }
        self.stopping.cancel();
    }

    /// Why the node stopped by itself, if it did.
    pub(crate) fn halted(&self) -> Option<Halt> {
        self.halted.get().cloned()
    }

    /// Spawns a pump: it ends by itself when the node stops, and a stop does not wait for it.
    pub(crate) fn spawn_pump(&self, pump: impl Future<Output = ()> + Send + 'static) {
        match self.crash.clone() {
            None => drop(tokio::spawn(pump)),
            Some(crash) => drop(tokio::spawn(async move {
                tokio::select! {
                    biased;
                    () = crash.cancelled_owned() => {}
                    () = pump => {}
                }
            })),
        }
    }

    /// Spawns work with an end: calls, turns, commits. A graceful stop waits for it.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.open.count.fetch_add(1, Ordering::SeqCst);
        let counted = Counted(self.open.clone());
        self.spawn_pump(async move {
            work.await;
            drop(counted);
        });
    }

    /// Returns once no work is open.
    pub(crate) async fn idle(&self) {
        loop {
            let none = self.open.none.notified();
            if self.open.count.load(Ordering::SeqCst) == 0 {
                return;
            }
            none.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_broken_store_stops_the_node_and_says_why() {
        let tasks = Tasks::new(None);
        tasks.heed(&store::Error::Unavailable("busy".into()));
        assert!(!tasks.stopping.is_cancelled());
        tasks.heed(&store::Error::Corrupt("disk I/O error".into()));
        tasks.heed(&store::Error::Fenced);
        assert!(tasks.stopping.is_cancelled());
        assert_eq!(tasks.halted(), Some(Halt::StoreBroken("disk I/O error".into())));
    }

    #[test]
    fn a_node_that_stops_is_not_told_that_it_was_taken_over() {
        let tasks = Tasks::new(None);
        tasks.stopping.cancel();
        tasks.heed(&store::Error::Fenced);
        assert_eq!(tasks.halted(), None);
    }

    #[tokio::test(start_paused = true)]
    #[allow(clippy::disallowed_methods, reason = "virtual time")]
    async fn idle_waits_for_work_and_for_what_it_leads_to() {
        let tasks = Arc::new(Tasks::new(None));
        tasks.idle().await;
        let more = tasks.clone();
        let done = Arc::new(AtomicUsize::new(0));
        let count = done.clone();
        tasks.spawn(async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            more.spawn(async move {
                tokio::time::sleep(Duration::from_secs(1)).await;
                count.fetch_add(1, Ordering::SeqCst);
            });
        });
        tasks.spawn_pump(std::future::pending());
        tasks.idle().await;
        assert_eq!(done.load(Ordering::SeqCst), 1);
    }
}
