//! Stands between one node and the database and harms what passes: [`Proxy::set`] says how, [`Mode`] what there is.
//!
//! It knows where messages end and which of them are about COMMIT, so that the reply to a COMMIT can be lost after the
//! database has carried it out (F10). It must not change a byte of what it lets through.

mod wire;

use crate::clock::sleep;
use anyhow::Result;
use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{ReadHalf, WriteHalf},
    },
    sync::{Notify, watch},
};
use wire::Frames;

const CHUNK_BYTES: usize = 64 * 1024;

/// What becomes of what passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Pass,
    /// Every piece of an answer is late by this.
    Slow(Duration),
    /// Nothing passes in either direction and nothing is closed; it goes on where it was.
    Stall,
    /// What the node says arrives, and no answer comes back; nothing is closed, and it goes on where it was.
    OneWay,
    /// A connection is reset after this many bytes of answers, wherever in a message that is.
    CutAfter(u64),
    /// COMMIT reaches the database; of the answers to it, the first and then one in so many is lost with its connection.
    LoseReply {
        one_in: u64,
    },
    /// Of the COMMITs themselves, the first and then one in so many is lost with its connection.
    LoseCommit {
        one_in: u64,
    },
    /// A COMMIT is held and told of: right after the database has got it, or when its answer has come, which goes no further.
    /// Its connection stands still from then on.
    HoldCommit(Moment),
}

/// When a COMMIT is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    Asked,
    Answered,
}

/// A way to the database.
pub(crate) struct Proxy {
    pub(crate) port: u16,
    shared: Arc<Shared>,
    accepting: tokio::task::JoinHandle<()>,
}

struct Shared {
    database: SocketAddr,
    mode: watch::Sender<Mode>,
    /// Raised to reset every connection there is.
    resets: watch::Sender<u64>,
    commits: AtomicU64,
    cuts: AtomicU64,
    open: AtomicU64,
    /// A COMMIT is held.
    holds: Notify,
}

impl Proxy {
    pub(crate) async fn start(database: SocketAddr) -> Result<Proxy> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let port = listener.local_addr()?.port();
        let shared = Arc::new(Shared {
            database,
            mode: watch::Sender::new(Mode::Pass),
            resets: watch::Sender::new(0),
            commits: AtomicU64::new(0),
            cuts: AtomicU64::new(0),
            open: AtomicU64::new(0),
            holds: Notify::new(),
        });
        let carrying = shared.clone();
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(carry(carrying.clone(), client));
            }
        });
        Ok(Proxy { port, shared, accepting })
    }

    /// From now on, for every connection.
    pub(crate) fn set(&self, mode: Mode) {
        self.shared.commits.store(0, Ordering::Relaxed);
        self.shared.mode.send_replace(mode);
    }

    /// Resets every connection.
    pub(crate) fn reset(&self) {
        self.shared.resets.send_modify(|count| *count += 1);
    }

    /// Until a COMMIT is held, as [`Mode::HoldCommit`] says.
    pub(crate) async fn held(&self) {
        self.shared.holds.notified().await;
    }

    /// Connections that there are.
    pub(crate) fn open(&self) -> u64 {
        self.shared.open.load(Ordering::Relaxed)
    }

    /// Connections that were cut by a mode.
    pub(crate) fn cuts(&self) -> u64 {
        self.shared.cuts.load(Ordering::Relaxed)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
        self.reset();
    }
}

/// Why a connection ends.
enum End {
    /// One side closed it.
    Closed,
    Cut,
}

async fn carry(shared: Arc<Shared>, mut client: TcpStream) {
    let mut resets = shared.resets.subscribe();
    resets.mark_unchanged();
    shared.open.fetch_add(1, Ordering::Relaxed);
    let end = tokio::select! {
        end = connected(&shared, &mut client) => end,
        _ = resets.changed() => End::Cut,
    };
    shared.open.fetch_sub(1, Ordering::Relaxed);
    if let End::Cut = end {
        // Closing then sends a reset, as a crashed machine or a firewall would.
        let _ = client.set_zero_linger();
    }
}

async fn connected(shared: &Shared, client: &mut TcpStream) -> End {
    flowing(&mut shared.mode.subscribe()).await;
    let Ok(mut database) = TcpStream::connect(shared.database).await else { return End::Cut };
    let _ = (client.set_nodelay(true), database.set_nodelay(true));
    let (client_in, client_out) = client.split();
    let (database_in, database_out) = database.split();
    tokio::select! {
        end = requests(shared, client_in, database_out) => end,
        end = answers(shared, database_in, client_out) => end,
    }
}

/// Waits while everything is held.
async fn flowing(mode: &mut watch::Receiver<Mode>) -> Mode {
    // The sender lives as long as the proxy; without it nothing is harmed any more.
    mode.wait_for(|mode| *mode != Mode::Stall).await.map_or(Mode::Pass, |mode| *mode)
}

/// Waits while answers are held.
async fn answering(mode: &mut watch::Receiver<Mode>) -> Mode {
    let passes = |mode: &Mode| !matches!(mode, Mode::Stall | Mode::OneWay);
    mode.wait_for(passes).await.map_or(Mode::Pass, |mode| *mode)
}

impl Shared {
    /// Counts a COMMIT; true if this one is to be lost.
    fn is_lost(&self, one_in: u64) -> bool {
        self.commits.fetch_add(1, Ordering::Relaxed).is_multiple_of(one_in.max(1))
    }

    /// Tells of a COMMIT, and stands still until something else is wanted.
    async fn hold(&self, mode: &mut watch::Receiver<Mode>) {
        self.holds.notify_one();
        let _ = mode.wait_for(|mode| !matches!(mode, Mode::HoldCommit(_))).await;
    }

    fn cut(&self) -> End {
        self.cuts.fetch_add(1, Ordering::Relaxed);
        End::Cut
    }
}

async fn requests(shared: &Shared, mut from: ReadHalf<'_>, mut to: WriteHalf<'_>) -> End {
    let mut mode = shared.mode.subscribe();
    let mut frames = Frames::of_client();
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let Ok(count @ 1..) = from.read(&mut chunk).await else { return End::Closed };
        let now = flowing(&mut mode).await;
        let mut passed = Vec::with_capacity(count);
        let (mut is_cut, mut is_held) = (false, false);
        for message in frames.take(&chunk[..count]) {
            is_held |= now == Mode::HoldCommit(Moment::Asked) && message.asks_for_commit();
            if let Mode::LoseCommit { one_in } = now
                && message.asks_for_commit()
                && shared.is_lost(one_in)
            {
                is_cut = true;
                break;
            }
            passed.extend(message.bytes);
        }
        if to.write_all(&passed).await.is_err() {
            return End::Closed;
        }
        if is_cut {
            return shared.cut();
        }
        if is_held {
            shared.hold(&mut mode).await;
        }
    }
}

async fn answers(shared: &Shared, mut from: ReadHalf<'_>, mut to: WriteHalf<'_>) -> End {
    let mut mode = shared.mode.subscribe();
    let mut frames = Frames::of_server();
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut allowance: Option<(u64, u64)> = None;
    loop {
        let Ok(count @ 1..) = from.read(&mut chunk).await else { return End::Closed };
        let now = answering(&mut mode).await;
        if let Mode::Slow(length) = now {
            sleep(length).await;
        }
        let mut passed = Vec::with_capacity(count);
        let mut is_cut = false;
        for message in frames.take(&chunk[..count]) {
            if now == Mode::HoldCommit(Moment::Answered) && message.tells_of_commit() {
                shared.hold(&mut mode).await;
            }
            if let Mode::LoseReply { one_in } = now
                && message.tells_of_commit()
                && shared.is_lost(one_in)
            {
                is_cut = true;
                break;
            }
            passed.extend(message.bytes);
        }
        match now {
            Mode::CutAfter(most) => {
                let left = allowance.filter(|(of, _)| *of == most).map_or(most, |(_, left)| left);
                let fits = usize::try_from(left).unwrap_or(usize::MAX);
                is_cut |= passed.len() > fits;
                passed.truncate(fits);
                allowance = Some((most, left - passed.len() as u64));
            }
            _ => allowance = None,
        }
        if to.write_all(&passed).await.is_err() {
            return End::Closed;
        }
        if is_cut {
            return shared.cut();
        }
    }
}

#[cfg(test)]
mod tests;
