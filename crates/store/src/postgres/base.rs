//! The store itself: its connections, what it counts, and how a question is asked.

use super::{
    channel::Channel,
    claim, migrate, node,
    pool::{self, Address, Options, Pool},
    read,
    session::{Scope, Shared},
    value::{Value, get, text, time},
};
use crate::{by_preference, hint::Relay, port::*};
use machine::{TenantId, Time};
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};
use tokio_postgres::{Error as PgError, Row};

/// A read takes this long at most.
const READ_MS_MAX: u64 = 30_000;
/// One, and another while the first is not answered.
const LEASE_CONNECTIONS_MAX: usize = 2;

/// The PostgreSQL store.
pub struct Postgres {
    pub(super) writers: Arc<Pool>,
    pub(super) readers: Arc<Pool>,
    /// Renewals of the lease wait for nothing else.
    pub(super) lease: Arc<Pool>,
    pub(super) database_clock: bool,
    sent: Arc<AtomicU64>,
    pub(super) batches: Batches,
    pub(super) crowded: claim::Crowded,
    /// How the channel of hints connects, and whether it can listen there.
    listen: (Address, bool),
}

/// What was written in batches since the store was opened.
#[derive(Default)]
pub(super) struct Batches {
    pub(super) batches: AtomicU64,
    pub(super) commits: AtomicU64,
    /// Over connections that write, those around transactions among them.
    statements: Arc<AtomicU64>,
}

/// The same, read.
#[derive(Clone, Copy, Debug, Default)]
pub struct Written {
    pub batches: u64,
    pub commits: u64,
    pub statements: u64,
}

/// Opens a transaction that sees `scope`; `more` is further statements, each after a semicolon.
pub(super) fn begin(scope: Scope<'_>, more: &str) -> String {
    let list = scope.list();
    format!(
        "BEGIN; SELECT set_config('windlass.tenants', '{list}', true), \
         set_config('statement_timeout', '{READ_MS_MAX}', true), \
         set_config('idle_in_transaction_session_timeout', '{READ_MS_MAX}', true){more}"
    )
}

impl Postgres {
    /// Connects to a database that [`migrate::migrate`] has prepared.
    pub async fn open(url: &str) -> Result<Postgres> {
        Postgres::open_with(url, Options::default()).await
    }

    pub async fn open_with(url: &str, mut options: Options) -> Result<Postgres> {
        let address = pool::address(url, &mut options)?;
        let sent = Arc::<AtomicU64>::default();
        let batches = Batches::default();
        let pool = |connections_max, sent: &Arc<AtomicU64>| {
            let shared =
                Shared { pooled: options.pooled, sent: sent.clone(), answer_max: options.answer_max };
            Pool::new(address.clone(), connections_max, shared)
        };
        let listen = match &options.listen_url {
            Some(url) => (pool::address(url, &mut Options::default())?, true),
            None => (address.clone(), !options.pooled),
        };
        let store = Postgres {
            writers: Arc::new(pool(options.writers_max, &batches.statements)),
            readers: Arc::new(pool(options.readers_max, &sent)),
            lease: Arc::new(pool(LEASE_CONNECTIONS_MAX, &sent)),
            batches,
            crowded: claim::Crowded::default(),
            database_clock: options.database_clock,
            sent: sent.clone(),
            listen,
        };
        let session = store.readers.take().await?;
        migrate::check(&session).await?;
        session.done();
        Ok(store)
    }

    /// How nodes on this database wake each other.
    pub fn hints(&self) -> Relay {
        let (address, listens) = self.listen.clone();
        Relay::open(Channel { address, listens, sent: self.sent.clone() })
    }

    /// What time it is where the database is.
    pub async fn time(&self) -> Result<Time> {
        let session = self.lease.take().await?;
        let time = node::time(&session).await?;
        session.done();
        Ok(time)
    }

    /// Statements sent since the store was opened, those around transactions among them.
    pub fn statements(&self) -> u64 {
        self.sent.load(Ordering::Relaxed) + self.written().statements
    }

    /// Batches written since the store was opened, and statements sent over the connections that write.
    pub fn written(&self) -> Written {
        Written {
            batches: self.batches.batches.load(Ordering::Relaxed),
            commits: self.batches.commits.load(Ordering::Relaxed),
            statements: self.batches.statements.load(Ordering::Relaxed),
        }
    }

    /// One statement in a transaction of its own.
    pub(super) async fn rows(&self, scope: Scope<'_>, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>> {
        self.rows_after(&begin(scope, ""), sql, values).await
    }

    /// The same with a beginning of its own.
    pub(super) async fn rows_after(&self, begin: &str, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>> {
        let session = self.readers.take().await?;
        let rows = session.transact(begin, sql, values).await?;
        session.done();
        Ok(rows)
    }

    pub(super) async fn many<T>(
        &self,
        scope: Scope<'_>,
        sql: &str,
        values: &[Value<'_>],
        map: impl Fn(&Row) -> std::result::Result<T, PgError>,
    ) -> Result<Vec<T>> {
        let rows = self.rows(scope, sql, values).await?;
        rows.iter().map(|row| map(row).map_err(super::error::error)).collect()
    }

    /// The same for a text that is made for one question: it takes no room from those that are asked often.
    pub(super) async fn many_once<T>(
        &self,
        scope: Scope<'_>,
        sql: &str,
        values: &[Value<'_>],
        map: impl Fn(&Row) -> std::result::Result<T, PgError>,
    ) -> Result<Vec<T>> {
        let session = self.readers.take().await?;
        let rows = session.transact_once(&begin(scope, ""), sql, values).await?;
        session.done();
        rows.iter().map(|row| map(row).map_err(super::error::error)).collect()
    }

    pub(super) async fn one<T>(
        &self,
        scope: Scope<'_>,
        sql: &str,
        values: &[Value<'_>],
        map: impl Fn(&Row) -> std::result::Result<T, PgError>,
    ) -> Result<Option<T>> {
        Ok(self.many(scope, sql, values, map).await?.into_iter().next())
    }

    /// The time that leases count by: the caller's, or none where the database's is to be used.
    pub(super) fn now(&self, now: Time) -> Value<'static> {
        if self.database_clock { Value::Int(None) } else { time(now) }
    }

    /// The version that stands for the name.
    pub(super) async fn newest(
        &self,
        tenant: &TenantId,
        namespace: &str,
        name: &str,
    ) -> Result<Option<String>> {
        let values = [text(tenant.as_str()), text(namespace), text(name)];
        let versions: Vec<String> = self.many(of(tenant), read::VERSIONS, &values, |row| get(row, 0)).await?;
        Ok(versions.into_iter().max_by(|a, b| by_preference(a, b)))
    }
}

pub(super) fn of(tenant: &TenantId) -> Scope<'_> {
    Scope::Tenants(tenant.as_str())
}

pub(super) fn micros(lease_ms: i64) -> i64 {
    lease_ms.saturating_mul(1_000)
}
