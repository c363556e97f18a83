//! Connections: made when needed, kept while they are sound, closed when their user left in the middle of something.

use super::{
    error::{said, unknown},
    session::{Session, Shared},
    tls::{self, Secure, Tls, Wanted},
};
use crate::port::{Error, Result};
use parking_lot::Mutex;
use std::{ops::Deref, str::FromStr, sync::Arc, time::Duration};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_postgres::{Client, Config, Connection, Error as PgError, Socket};

/// How long a server may take to accept a connection.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// How long it may take until the connection can be used.
const GREETING_MAX: Duration = Duration::from_secs(10);
/// How long sent data may stay unacknowledged before the connection counts as lost.
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(5);
/// A connection on which nothing comes is asked after a while: a dead one is known within eleven seconds.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(5);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(2);
const KEEPALIVES_MAX: u32 = 3;

/// How long an answer may take. The server ends a statement after 30 s by itself: one that has said nothing by now does not
/// work at all, although its machine may still acknowledge what is sent.
const ANSWER_MAX: Duration = Duration::from_secs(35);

/// How a node uses its database.
#[derive(Clone, Debug)]
pub struct Options {
    /// Connections for commits and claims.
    pub writers_max: usize,
    /// Connections for reads.
    pub readers_max: usize,
    /// A transaction pooler stands in between: no prepared statements.
    pub pooled: bool,
    /// How long the server may take to answer before a connection counts as lost. A COMMIT then has an unknown outcome.
    pub answer_max: Duration,
    /// Where the channel of hints connects instead, past a pooler, on which nothing can be listened to.
    pub listen_url: Option<String>,
    /// Leases count by the database's clock, not by the caller's. Off only where a test owns the time.
    pub database_clock: bool,
}

/// Batches that the nodes of a database have in flight together, and each of them one at least: while one is being made
/// durable the server works on the other. What a batch costs hardly depends on its size, so more of them are smaller ones:
/// with four one node is not faster, and two nodes are slower than one.
pub const BATCHES_MAX: usize = 2;
const WRITERS_MAX: usize = 6;

/// Connections of a node unless something else is asked for, and the fewest that it can work with.
pub const CONNECTIONS_MAX: usize = 13;
pub const CONNECTIONS_MIN: usize = 7;
/// For the lease, another while that is not answered, and for hints.
const CONNECTIONS_BESIDE: usize = 3;

impl Options {
    /// For a node that may use so many connections: three are for the lease and for hints, of the others a little more
    /// than half write.
    pub fn with_connections(connections_max: usize) -> Options {
        let shared = connections_max.max(CONNECTIONS_MIN) - CONNECTIONS_BESIDE;
        let writers_max = (shared * 3).div_ceil(5).max(2);
        Options { writers_max, readers_max: shared - writers_max, ..Options::default() }
    }

    /// Batches that may be in flight: claims and take-overs need a connection beside those of the batches.
    pub fn batches_max(&self) -> usize {
        self.writers_max.saturating_sub(2).clamp(1, BATCHES_MAX)
    }
}

impl Default for Options {
    fn default() -> Options {
        Options {
            writers_max: WRITERS_MAX,
            readers_max: 4,
            pooled: false,
            answer_max: ANSWER_MAX,
            listen_url: None,
            database_clock: true,
        }
    }
}

/// Where the database is and how to connect to it.
#[derive(Clone, Debug)]
pub(super) struct Address {
    config: Config,
    tls: Tls,
}

impl Address {
    /// One connection, with what drives it.
    pub(super) async fn connect(&self) -> std::result::Result<(Client, Wire), PgError> {
        self.tls.connect(&self.config).await
    }
}

/// What drives a connection.
pub(super) type Wire = Connection<Socket, Secure<Socket>>;

/// Reads a `postgres://` URL. `pooled=true` in its query says that a transaction pooler stands in between; for TLS see
/// [`super::tls`].
pub(super) fn address(url: &str, options: &mut Options) -> Result<Address> {
    let unreadable = |detail: String| {
        Error::Misconfigured(format!("the address of the database cannot be read: {detail}"))
    };
    let (place, query) = url.split_once('?').unwrap_or((url, ""));
    let (mut kept, mut wanted) = (Vec::new(), Wanted::default());
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=') {
            Some(("pooled", "true")) => options.pooled = true,
            Some((name, value)) if tls::PARAMETERS.contains(&name) => {
                let value =
                    percent_decoded(value).ok_or_else(|| unreadable(format!("{name} is not UTF-8")))?;
                wanted.set(name, value);
            }
            _ => kept.push(pair),
        }
    }
    let plain = if kept.is_empty() { place.to_owned() } else { format!("{place}?{}", kept.join("&")) };
    let mut config = Config::from_str(&plain).map_err(|err| unreadable(said(&err)))?;
    let tls = Tls::new(&wanted, &mut config)?;
    config
        .application_name("windlass")
        .connect_timeout(CONNECT_MAX)
        .tcp_user_timeout(UNACKNOWLEDGED_MAX)
        .keepalives_idle(KEEPALIVE_IDLE)
        .keepalives_interval(KEEPALIVE_INTERVAL)
        .keepalives_retries(KEEPALIVES_MAX);
    Ok(Address { config, tls })
}

/// `%2F` is `/`.
fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let digits =
            after.get(..2).filter(|_| *first == b'%').and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8(bytes).ok()
}

/// A connection of its own, outside of any pool.
pub(super) async fn connect(address: &Address, pooled: bool) -> Result<Session> {
    connect_for(address, Shared { pooled, sent: Arc::default(), answer_max: ANSWER_MAX }).await
}

async fn connect_for(address: &Address, shared: Shared) -> Result<Session> {
    // The driver's own limit ends with the TCP connection; whoever accepts it may still never answer.
    let connected = tokio::time::timeout(GREETING_MAX, address.connect()).await;
    let connected =
        connected.map_err(|_| Error::Unavailable("the server accepts and does not answer".into()))?;
    let (client, connection) = connected.map_err(|err| Error::Unavailable(said(&err)))?;
    let driver = tokio::spawn(async move {
        if let Err(err) = connection.await {
            tracing::warn!(error = said(&err), "a connection to the database ended");
        }
    });
    Ok(Session::new(client, driver.abort_handle(), shared))
}

pub(super) struct Pool {
    address: Address,
    idle: Mutex<Vec<Session>>,
    room: Arc<Semaphore>,
    shared: Shared,
}

impl Pool {
    pub(super) fn new(address: Address, connections_max: usize, shared: Shared) -> Pool {
        let room = Arc::new(Semaphore::new(connections_max.max(1)));
        Pool { address, idle: Mutex::default(), room, shared }
    }

    /// Waits until one of the pool's connections is free.
    pub(super) async fn take(self: &Arc<Self>) -> Result<Lent> {
        let permit = tokio::time::timeout(self.shared.answer_max, self.room.clone().acquire_owned()).await;
        let permit = permit
            .map_err(|_| Error::Unavailable("every connection waits for an answer of the database".into()))?;
        let permit = permit.map_err(|_| Error::Unavailable("the store is closed".into()))?;
        self.lend(permit).await
    }

    /// The same without waiting for others; `None` if all are in use.
    pub(super) async fn take_now(self: &Arc<Self>) -> Result<Option<Lent>> {
        match self.room.clone().try_acquire_owned() {
            Ok(permit) => self.lend(permit).await.map(Some),
            Err(_) => Ok(None),
        }
    }

    async fn lend(self: &Arc<Self>, permit: OwnedSemaphorePermit) -> Result<Lent> {
        let pool = self.clone();
        loop {
            let idle = self.idle.lock().pop();
            match idle {
                Some(session) if session.is_closed() => {}
                Some(session) => {
                    return Ok(Lent { pool, session: Some(session), sound: false, permit });
                }
                None => break,
            }
        }
        let session = connect_for(&self.address, self.shared.clone()).await?;
        Ok(Lent { pool, session: Some(session), sound: false, permit })
    }
}

/// A connection in use. It goes back to the pool only if its user says that no transaction is open.
pub(super) struct Lent {
    pool: Arc<Pool>,
    session: Option<Session>,
    sound: bool,
    #[allow(dead_code, reason = "held for as long as the connection is in use")]
    permit: OwnedSemaphorePermit,
}

impl Lent {
    /// Ends the transaction that is open. A COMMIT that is not answered, for example because a standby is waited for, keeps
    /// its connection until it is; the caller hears that the outcome is not known.
    pub(super) async fn land(self) -> Result<()> {
        let answer_max = self.pool.shared.answer_max;
        let landing = tokio::spawn(async move {
            let landed = self.commit().await.map_err(unknown);
            if landed.is_ok() {
                self.done();
            }
            landed
        });
        match tokio::time::timeout(answer_max, landing).await {
            Ok(Ok(landed)) => landed,
            Ok(Err(_)) | Err(_) => Err(Error::Unknown("the database does not answer a COMMIT".to_owned())),
        }
    }

    /// The last transaction has ended: somebody else may have the connection.
    pub(super) fn done(mut self) {
        self.sound = true;
    }
}

impl Deref for Lent {
    type Target = Session;

    fn deref(&self) -> &Session {
        self.session.as_ref().expect("the session is there until this is dropped")
    }
}

impl Drop for Lent {
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
        let address = address(url, &mut options).unwrap();
        assert_eq!(address.config.get_dbname(), Some("w"));
        options.pooled
    }

    #[test]
    fn the_url_says_whether_a_pooler_stands_in_between() {
        assert!(!pooled("postgres://me@db/w"));
        assert!(pooled("postgres://me@db/w?pooled=true"));
        assert!(pooled("postgres://me@db/w?connect_timeout=3&pooled=true"));
        assert!(pooled("postgres://me@db/w?pooled=true&connect_timeout=3"));
        assert!(pooled("postgres://me@db/w?sslmode=require&pooled=true"));
        assert!(address("postgres://me@db/w?nonsense=1", &mut Options::default()).is_err());
    }

    #[test]
    fn connections_are_shared_out_between_writing_and_reading() {
        let of = |connections| {
            let options = Options::with_connections(connections);
            (options.writers_max, options.readers_max, options.batches_max())
        };
        assert_eq!(of(CONNECTIONS_MAX), (WRITERS_MAX, 4, BATCHES_MAX), "as without a limit");
        assert_eq!(of(CONNECTIONS_MIN), (3, 1, 1));
        assert_eq!(of(0), of(CONNECTIONS_MIN));
        assert_eq!(of(23), (12, 8, BATCHES_MAX));
    }

    #[test]
    fn what_cannot_be_done_about_tls_is_refused() {
        let refused =
            |query: &str| match address(&format!("postgres://me@db/w?{query}"), &mut Options::default()) {
                Ok(_) => panic!("{query} was taken"),
                Err(Error::Misconfigured(text)) => text,
                Err(err) => panic!("{err:?}"),
            };
        assert!(refused("sslmode=perhaps").contains("verify-full"));
        assert!(refused("sslmode=verify-ca").contains("sslrootcert"));
        assert!(refused("sslmode=verify-full&sslrootcert=%2Fno%2Fsuch.pem").contains("/no/such.pem"));
        assert!(refused("sslmode=require&sslcert=a.pem").contains("together"));
    }
}
