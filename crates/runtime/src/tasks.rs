//! The node's background work: spawned here so that a stop waits for it or ends it and a crash drops it.

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Spawns for one node.
pub(crate) struct Tasks {
    /// Ends pumps at their next wait.
    pub(crate) stopping: CancellationToken,
    /// Drops every future at once; only the simulator and tests use it.
    crash: Option<CancellationToken>,
    open: Arc<Open>,
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
        Tasks { stopping: CancellationToken::new(), crash, open: Arc::default() }
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
