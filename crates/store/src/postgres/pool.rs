//! Connections: made when needed, kept while they are sound, closed when their user left in the middle of something.

use super::{error::said, session::Session};
use crate::port::{Error, Result};
use parking_lot::Mutex;
use std::{
    ops::Deref,
    str::FromStr,
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_postgres::{Config, NoTls, config::SslMode};

/// How long a server may take to accept a connection.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// How long sent data may stay unacknowledged before the connection counts as lost.
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(5);
/// A connection on which nothing comes is asked after a while: a dead one is known within eleven seconds.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(5);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(2);
const KEEPALIVES_MAX: u32 = 3;

/// How a node uses its database.
#[derive(Clone, Debug)]
pub struct Options {
    /// Connections for commits and claims.
    pub writers_max: usize,
    /// Connections for reads.
    pub readers_max: usize,
    /// A transaction pooler stands in between: no prepared statements.
    pub pooled: bool,
    /// Where the channel of hints connects instead, past a pooler, on which nothing can be listened to.
    pub listen_url: Option<String>,
    /// Leases count by the database's clock, not by the caller's. Off only where a test owns the time.
    pub database_clock: bool,
}

/// Batches that a node may have in flight: while one is being made durable the server works on others.
pub const BATCHES_MAX: usize = 4;

impl Default for Options {
    fn default() -> Options {
        // Claims and take-overs need a connection beside those of the batches.
        Options {
            writers_max: BATCHES_MAX + 2,
            readers_max: 4,
            pooled: false,
            listen_url: None,
            database_clock: true,
        }
    }
}

/// Reads a `postgres://` URL. `pooled=true` in its query says that a transaction pooler stands in between.
pub(super) fn config(url: &str, options: &mut Options) -> Result<Config> {
    let mut plain = url.to_owned();
    for mark in ["?pooled=true", "&pooled=true"] {
        if let Some(at) = plain.find(mark) {
            options.pooled = true;
            plain.replace_range(at..at + mark.len(), if mark.starts_with('?') { "?" } else { "" });
        }
    }
    let plain = plain.replace("?&", "?");
    let mut config = Config::from_str(plain.trim_end_matches('?')).map_err(|err| {
        Error::Corrupt(format!("the address of the database cannot be read: {}", said(&err)))
    })?;
    if config.get_ssl_mode() == SslMode::Require {
        return Err(Error::Corrupt(
            "sslmode=require: this program does not speak TLS to the database yet".into(),
        ));
    }
    config
        .application_name("windlass")
        .connect_timeout(CONNECT_MAX)
        .tcp_user_timeout(UNACKNOWLEDGED_MAX)
        .keepalives_idle(KEEPALIVE_IDLE)
        .keepalives_interval(KEEPALIVE_INTERVAL)
        .keepalives_retries(KEEPALIVES_MAX);
    Ok(config)
}

/// A connection of its own, outside of any pool.
pub(super) async fn connect(config: &Config, pooled: bool) -> Result<Session> {
    connect_counted(config, pooled, Arc::default()).await
}

async fn connect_counted(config: &Config, pooled: bool, sent: Arc<AtomicU64>) -> Result<Session> {
    let (client, connection) = config.connect(NoTls).await.map_err(|err| Error::Unavailable(said(&err)))?;
    tokio::spawn(async move {
        if let Err(err) = connection.await {
            tracing::warn!(error = said(&err), "a connection to the database ended");
        }
    });
    Ok(Session::new(client, pooled, sent))
}

pub(super) struct Pool {
    config: Config,
    pooled: bool,
    idle: Mutex<Vec<Session>>,
    room: Arc<Semaphore>,
    sent: Arc<AtomicU64>,
}

impl Pool {
    pub(super) fn new(config: Config, pooled: bool, connections_max: usize, sent: Arc<AtomicU64>) -> Pool {
        let room = Arc::new(Semaphore::new(connections_max.max(1)));
        Pool { config, pooled, idle: Mutex::default(), room, sent }
    }

    /// Waits until one of the pool's connections is free.
    pub(super) async fn take(&self) -> Result<Lent<'_>> {
        let permit = self.room.clone().acquire_owned().await;
        let permit = permit.map_err(|_| Error::Unavailable("the store is closed".into()))?;
        self.lend(permit).await
    }

    /// The same without waiting for others; `None` if all are in use.
    pub(super) async fn take_now(&self) -> Result<Option<Lent<'_>>> {
        match self.room.clone().try_acquire_owned() {
            Ok(permit) => self.lend(permit).await.map(Some),
            Err(_) => Ok(None),
        }
    }

    async fn lend(&self, permit: OwnedSemaphorePermit) -> Result<Lent<'_>> {
        loop {
            let idle = self.idle.lock().pop();
            match idle {
                Some(session) if session.is_closed() => {}
                Some(session) => {
                    return Ok(Lent { pool: self, session: Some(session), sound: false, permit });
                }
                None => break,
            }
        }
        let session = connect_counted(&self.config, self.pooled, self.sent.clone()).await?;
        Ok(Lent { pool: self, session: Some(session), sound: false, permit })
    }
}

/// A connection in use. It goes back to the pool only if its user says that no transaction is open.
pub(super) struct Lent<'p> {
    pool: &'p Pool,
    session: Option<Session>,
    sound: bool,
    #[allow(dead_code, reason = "held for as long as the connection is in use")]
    permit: OwnedSemaphorePermit,
}

impl Lent<'_> {
    /// The last transaction has ended: somebody else may have the connection.
    pub(super) fn done(mut self) {
        self.sound = true;
    }
}

impl Deref for Lent<'_> {
    type Target = Session;

    fn deref(&self) -> &Session {
        self.session.as_ref().expect("the session is there until this is dropped")
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        if let Some(session) = self.session.take().filter(|session| self.sound && !session.is_closed()) {
            self.pool.idle.lock().push(session);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pooled(url: &str) -> bool {
        let mut options = Options::default();
        let config = config(url, &mut options).unwrap();
        assert_eq!(config.get_dbname(), Some("w"));
        options.pooled
    }

    #[test]
    fn the_url_says_whether_a_pooler_stands_in_between() {
        assert!(!pooled("postgres://me@db/w"));
        assert!(pooled("postgres://me@db/w?pooled=true"));
        assert!(pooled("postgres://me@db/w?connect_timeout=3&pooled=true"));
        assert!(pooled("postgres://me@db/w?pooled=true&connect_timeout=3"));
        assert!(config("postgres://me@db/w?sslmode=require", &mut Options::default()).is_err());
        assert!(config("postgres://me@db/w?nonsense=1", &mut Options::default()).is_err());
    }
}
