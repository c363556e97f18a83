//! One connection and what may be asked of it. Nothing outlives a transaction but prepared statements, and those only
//! where no pooler stands in between.

use super::{error::error, value::Value};
use crate::port::Result;
use parking_lot::Mutex;
use std::{
    collections::HashMap,
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::Poll,
    time::Duration,
};
use tokio::task::AbortHandle;
use tokio_postgres::{
    Client, Error as PgError, Row, Statement,
    types::{ToSql, Type},
};

/// Statements kept prepared per connection; whatever comes beyond is parsed each time.
const PREPARED_MAX: usize = 256;

/// What a transaction may see.
#[derive(Clone, Copy, Debug)]
pub(super) enum Scope<'a> {
    /// Tenant ids, separated by commas.
    Tenants(&'a str),
    /// Work discovery and other tasks of the deployment as a whole.
    All,
}

impl Scope<'_> {
    /// Tenant ids are DNS labels: nothing in them means anything inside a literal.
    pub(super) fn list(&self) -> &str {
        match self {
            Scope::Tenants(list) => list,
            Scope::All => "*",
        }
    }
}

pub(super) struct Session {
    client: Client,
    /// `None` behind a transaction pooler.
    prepared: Option<Mutex<HashMap<String, Statement>>>,
    /// Statements sent over all connections of a store.
    sent: Arc<AtomicU64>,
    /// What drives the connection.
    driver: AbortHandle,
    answer_max: Duration,
}

/// What sessions of a pool have in common.
#[derive(Clone)]
pub(super) struct Shared {
    /// A transaction pooler stands in between.
    pub(super) pooled: bool,
    /// Counts statements.
    pub(super) sent: Arc<AtomicU64>,
    /// How long an answer may take.
    pub(super) answer_max: Duration,
}

/// One statement of a pipeline, about to be sent.
pub(super) type Answer<'a> =
    Pin<Box<dyn Future<Output = std::result::Result<Vec<Row>, PgError>> + Send + 'a>>;

pub(super) type Params<'a> = Vec<(&'a (dyn ToSql + Sync), Type)>;

impl Session {
    pub(super) fn new(client: Client, driver: AbortHandle, shared: Shared) -> Session {
        let Shared { pooled, sent, answer_max } = shared;
        Session { client, prepared: (!pooled).then(Mutex::default), sent, driver, answer_max }
    }

    /// Waits for an answer. When none comes in time the connection ends, and all that was asked over it fails as it does
    /// when a connection is lost.
    async fn in_time<T>(
        &self,
        asked: impl Future<Output = std::result::Result<T, PgError>>,
    ) -> std::result::Result<T, PgError> {
        let mut asked = std::pin::pin!(asked);
        match tokio::time::timeout(self.answer_max, asked.as_mut()).await {
            Ok(answer) => answer,
            Err(_) => {
                self.driver.abort();
                asked.await
            }
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Statements without parameters, one or several.
    pub(super) fn command<'a>(&'a self, sql: &'a str) -> Answer<'a> {
        self.sent.fetch_add(sql.split("; ").count() as u64, Ordering::Relaxed);
        Box::pin(async move { self.in_time(self.client.batch_execute(sql)).await.map(|()| Vec::new()) })
    }

    /// COMMIT, however long it takes: a standby may be waited for, and whoever hung up would leave a process of the server
    /// behind each time.
    pub(super) async fn commit(&self) -> std::result::Result<(), PgError> {
        self.sent.fetch_add(1, Ordering::Relaxed);
        self.client.batch_execute("COMMIT").await
    }

    /// Makes sure that `sql` can be sent at once.
    pub(super) async fn prepare(&self, sql: &str, params: &Params<'_>) -> std::result::Result<(), PgError> {
        let Some(prepared) = &self.prepared else { return Ok(()) };
        if prepared.lock().contains_key(sql) || prepared.lock().len() >= PREPARED_MAX {
            return Ok(());
        }
        let types: Vec<Type> = params.iter().map(|(_, kind)| kind.clone()).collect();
        let statement = self.in_time(self.client.prepare_typed(sql, &types)).await?;
        prepared.lock().insert(sql.to_owned(), statement);
        Ok(())
    }

    /// Sent when first polled, without waiting for anything if `sql` is prepared.
    pub(super) fn ask<'a>(&'a self, sql: &'a str, params: Params<'a>) -> Answer<'a> {
        let asked = self.ask_patiently(sql, params);
        Box::pin(self.in_time(asked))
    }

    /// The same, however long it takes.
    fn ask_patiently<'a>(&'a self, sql: &'a str, params: Params<'a>) -> Answer<'a> {
        self.sent.fetch_add(1, Ordering::Relaxed);
        let known = self.prepared.as_ref().and_then(|prepared| prepared.lock().get(sql).cloned());
        Box::pin(async move {
            match known {
                Some(statement) => {
                    let values: Vec<_> = params.iter().map(|(value, _)| *value).collect();
                    self.client.query(&statement, &values).await
                }
                None => self.client.query_typed(sql, &params).await,
            }
        })
    }

    /// One statement, waited for.
    pub(super) async fn query(
        &self,
        sql: &str,
        values: &[Value<'_>],
    ) -> std::result::Result<Vec<Row>, PgError> {
        let params = values.iter().map(Value::param).collect();
        self.prepare(sql, &params).await?;
        self.ask(sql, params).await
    }

    /// The same, however long the answer takes.
    pub(super) async fn query_patiently(
        &self,
        sql: &str,
        values: &[Value<'_>],
    ) -> std::result::Result<Vec<Row>, PgError> {
        let params = values.iter().map(Value::param).collect();
        self.prepare(sql, &params).await?;
        self.ask_patiently(sql, params).await
    }

    /// One statement between `begin` and COMMIT, in one round trip.
    pub(super) async fn transact(&self, begin: &str, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>> {
        let params = values.iter().map(Value::param).collect();
        self.prepare(sql, &params).await.map_err(error)?;
        self.transact_once(begin, sql, values).await
    }

    /// The same for a text that is made for one question, which is not kept prepared.
    pub(super) async fn transact_once(
        &self,
        begin: &str,
        sql: &str,
        values: &[Value<'_>],
    ) -> Result<Vec<Row>> {
        let params = values.iter().map(Value::param).collect();
        let asked = vec![self.command(begin), self.ask(sql, params), self.command("COMMIT")];
        let mut rows = Vec::new();
        for answer in in_order(asked).await {
            rows.extend(answer.map_err(error)?);
        }
        Ok(rows)
    }
}

/// Sends all in the order given before the first answer is waited for; answers in the same order.
pub(super) async fn in_order(mut asked: Vec<Answer<'_>>) -> Vec<std::result::Result<Vec<Row>, PgError>> {
    let mut answers: Vec<Option<std::result::Result<Vec<Row>, PgError>>> = Vec::new();
    answers.resize_with(asked.len(), || None);
    std::future::poll_fn(|context| {
        let mut pending = false;
        for (future, answer) in asked.iter_mut().zip(&mut answers) {
            if answer.is_none() {
                match future.as_mut().poll(context) {
                    Poll::Ready(value) => *answer = Some(value),
                    Poll::Pending => pending = true,
                }
            }
        }
        if pending { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    answers.into_iter().flatten().collect()
}
