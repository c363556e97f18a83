//! Reader threads: a few connections of their own that share one queue, so that a slow list delays no look-up
//! while another reader is free.

use super::{open, read::Read};
use crate::port::{Error, Result};
use parking_lot::Mutex;
use rusqlite::Connection;
use std::{path::Path, sync::Arc, thread::JoinHandle};
use tokio::sync::mpsc;

const READERS: usize = 3;
/// Reads that may wait; the next one waits to be let in.
const QUEUE_MAX: usize = 1_024;

/// One read with the way back to whoever asked.
pub(super) type Request = Box<dyn FnOnce(Read<'_>) + Send>;

/// The readers of one file.
pub(super) struct Pool {
    queue: Option<mpsc::Sender<Request>>,
    threads: Vec<JoinHandle<()>>,
}

impl Pool {
    pub(super) fn open(path: &Path) -> Result<Pool> {
        let (queue, requests) = mpsc::channel(QUEUE_MAX);
        let requests = Arc::new(Mutex::new(requests));
        let mut threads = Vec::with_capacity(READERS);
        for number in 0..READERS {
            let connection = open::reader(path)?;
            let requests = requests.clone();
            let thread = std::thread::Builder::new()
                .name(format!("store-read-{number}"))
                .spawn(move || serve(&connection, &requests))
                .map_err(|err| Error::Unavailable(format!("cannot start a reader: {err}")))?;
            threads.push(thread);
        }
        Ok(Pool { queue: Some(queue), threads })
    }

    pub(super) async fn send(&self, request: Request) -> Result<()> {
        let queue = self.queue.as_ref().expect("the queue is there until the pool is dropped");
        queue.send(request).await.map_err(|_| Error::Corrupt("the readers have ended".into()))
    }
}

fn serve(connection: &Connection, requests: &Mutex<mpsc::Receiver<Request>>) {
    loop {
        // The reader that waits holds the lock; the others queue behind it and take the next request in turn.
        let request = requests.lock().blocking_recv();
        match request {
            Some(request) => request(Read::new(connection)),
            None => return,
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.queue = None;
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
