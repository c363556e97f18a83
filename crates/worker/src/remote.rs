//! Workers that are somewhere else, over the HTTP API: [`Remote`] asks for deliveries of its declarations, keeps them while
//! they are handled, and answers them. A handler does not know the difference: the same [`Declaration`] can be built into
//! the server.

mod client;
mod lane;
mod patience;
mod wire;

pub use client::{Client, Trouble};

use crate::Declaration;
use lane::Lane;
use patience::Patience;
use std::{sync::Arc, time::Duration};
use tokio::{sync::watch, task::JoinSet};

/// How long one request waits for a delivery; a worker that ends waits for that request.
const POLL_SECONDS: u32 = 10;
const LEASE_SECONDS: u32 = 60;

/// A process that works for a tenant until it is told to end, and then finishes what it has begun.
pub struct Remote {
    client: Arc<Client>,
    workers: Vec<Declaration>,
    poll_seconds: u32,
    lease_seconds: u32,
}

impl Remote {
    pub fn new(client: Client) -> Remote {
        let (poll_seconds, lease_seconds) = (POLL_SECONDS, LEASE_SECONDS);
        Remote { client: Arc::new(client), workers: vec![], poll_seconds, lease_seconds }
    }

    /// For the server and with the key that `WINDLASS_URL` and `WINDLASS_KEY` name.
    pub fn from_env() -> Result<Remote, Trouble> {
        Client::from_env().map(Remote::new)
    }

    /// Works for this declaration too. Up to its `concurrency_max` deliveries are handled at once.
    #[must_use]
    pub fn worker(mut self, worker: Declaration) -> Remote {
        self.workers.push(worker);
        self
    }

    /// How long one request waits for a delivery: 10 s unless said.
    #[must_use]
    pub fn poll_seconds(mut self, seconds: u32) -> Remote {
        self.poll_seconds = seconds.clamp(1, 60);
        self
    }

    /// After how long without a word of this process somebody else gets a delivery: 60 s unless said. It is told three times
    /// in that time that it goes on.
    #[must_use]
    pub fn lease_seconds(mut self, seconds: u32) -> Remote {
        self.lease_seconds = seconds.max(1);
        self
    }

    /// Works until `stop` is over, and returns once everything that was begun is answered. The error is about a declaration
    /// that is refused.
    pub async fn run(self, stop: impl Future<Output = ()>) -> Result<(), Trouble> {
        if let Some(problem) = self.problem() {
            return Err(Trouble::Invalid(problem));
        }
        let (told, stopping) = watch::channel(false);
        let mut lanes = JoinSet::new();
        for worker in self.workers {
            let lane = Lane {
                client: self.client.clone(),
                worker: Arc::new(worker),
                poll_seconds: self.poll_seconds,
                lease_seconds: self.lease_seconds,
                stopping: stopping.clone(),
            };
            lanes.spawn(lane.run());
        }
        let mut stop = std::pin::pin!(stop);
        let mut is_told = false;
        let mut refused = Ok(());
        loop {
            tokio::select! {
                () = &mut stop, if !is_told => {}
                ended = lanes.join_next() => match ended {
                    Some(Ok(Ok(()))) => continue,
                    Some(Ok(Err(trouble))) => refused = refused.and(Err(trouble)),
                    Some(Err(error)) => refused = refused.and(Err(Trouble::Invalid(error.to_string()))),
                    None => return refused,
                },
            }
            // One that cannot work at all ends the others as well: somebody has to look.
            is_told = true;
            let _ = told.send(true);
        }
    }

    fn problem(&self) -> Option<String> {
        if self.workers.is_empty() {
            return Some("there is no worker: give it a declaration".to_owned());
        }
        let handles = |worker: &Declaration| match worker.on.is_some() {
            true => worker.problem(),
            false => Some(format!("worker `{}` handles no events; use `Declaration::on`", worker.name)),
        };
        self.workers.iter().find_map(handles)
    }
}

/// Until the process is told to end: SIGTERM, or Ctrl-C.
pub async fn told_to_end() {
    use tokio::signal::unix::{SignalKind, signal};
    let interrupted = tokio::signal::ctrl_c();
    match signal(SignalKind::terminate()) {
        Ok(mut terminate) => {
            tokio::select! {
                _ = interrupted => {}
                _ = terminate.recv() => {}
            }
        }
        Err(_) => drop(interrupted.await),
    }
}

/// Lets time pass.
async fn pause(time: Duration) {
    tokio::time::sleep_until(tokio::time::Instant::now() + time).await;
}
