//! The fence under concurrency: what a node has in flight lands before it is taken over and is freed with the rest, or it
//! finds the mark and does not land at all (P7). Every test holds the one back inside of the other, by a row or a table that
//! a third connection has locked, so that the order is the same on every machine.

use crate::{
    fixture::*,
    postgres::{migrated, open},
};
use machine::Time;
use std::{sync::Arc, time::Duration};
use store::{postgres::*, *};
use tokio_postgres::Client;

/// Both nodes' leases have ended by then, as far as the other is concerned.
const LATER: Time = Time(LEASE_MS * 1_000 + 1);

struct Two {
    _database: scratch::Database,
    /// The node that is taken over.
    left: Arc<Postgres>,
    /// The node that takes over.
    right: Arc<Postgres>,
    /// Holds locks that neither node knows of.
    third: Client,
    /// Sees who waits. A take-over waits ten seconds at most, so this must not take long.
    watch: Client,
}

async fn connect(database: &scratch::Database) -> Client {
    let (client, connection) =
        tokio_postgres::connect(&database.admin_url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// Two nodes; the first has an instance, a call, and a lease that has ended when the second looks.
async fn two() -> Option<Two> {
    let database = migrated().await?;
    let (left, right) = (open(&database).await, open(&database).await);
    left.join(node(1), Time(0), LEASE_MS).await.unwrap();
    right.join(node(2), Time(0), 1_000 * LEASE_MS).await.unwrap();
    left.commit(node(1), vec![commit(vec![create(1)])]).await.unwrap();
    let (third, watch) = (connect(&database).await, connect(&database).await);
    Some(Two { _database: database, left, right, third, watch })
}

impl Two {
    /// What backends of this database wait for, as soon as so many wait: kinds of locks, in alphabetical order.
    async fn waited_for(&self, count: usize) -> Vec<String> {
        let sql = "SELECT l.locktype FROM pg_locks l JOIN pg_stat_activity a USING (pid)
            WHERE NOT l.granted AND a.datname = current_database() ORDER BY 1";
        let mut pace = tokio::time::interval(Duration::from_millis(20));
        for _ in 0..3_000 {
            pace.tick().await;
            let rows = self.watch.query(sql, &[]).await.unwrap();
            let waiting: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
            if waiting.len() >= count {
                return waiting;
            }
        }
        panic!("{count} never wait");
    }

    /// The tokens of the calls in the backlog.
    async fn backlog(&self) -> Vec<u64> {
        let claimed = self.right.claim_calls(node(2), LATER, 10, &[]).await.unwrap();
        let mut tokens: Vec<u64> = claimed.into_iter().map(|one| one.row.token).collect();
        tokens.sort_unstable();
        tokens
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_take_over_waits_for_a_batch_in_flight_and_frees_what_it_wrote() {
    let Some(two) = two().await else { return };
    two.third.batch_execute("BEGIN; SELECT 1 FROM wf_runtime_states FOR UPDATE").await.unwrap();
    let left = two.left.clone();
    let batch = vec![commit(vec![update(1, 2), Write::Call(call(7, 0, Some(node(1))))])];
    let committing = tokio::spawn(async move { left.commit(node(1), batch).await });
    two.waited_for(1).await;
    let right = two.right.clone();
    let taking = tokio::spawn(async move { right.take_over(node(2), LATER).await });
    let waiting = two.waited_for(2).await;
    assert!(waiting.contains(&"advisory".to_owned()), "it waits for the batch: {waiting:?}");
    two.third.batch_execute("COMMIT").await.unwrap();
    assert_eq!(committing.await.unwrap(), Ok(vec![Outcome::Committed]));
    assert_eq!(taking.await.unwrap(), Ok(1));
    assert_eq!(two.backlog().await, [7], "nothing stays owned by a node that is gone");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_that_meets_a_take_over_waits_for_it_and_is_refused_whole() {
    let Some(two) = two().await else { return };
    // One is the node's own, and one is there to be claimed.
    let calls = vec![Write::Call(call(7, 0, Some(node(1)))), Write::Call(call(9, 0, None))];
    two.left.commit(node(1), vec![commit(calls)]).await.unwrap();
    two.third.batch_execute("BEGIN; SELECT 1 FROM calls FOR UPDATE").await.unwrap();
    let right = two.right.clone();
    let taking = tokio::spawn(async move { right.take_over(node(2), LATER).await });
    two.waited_for(1).await;
    // The mark is written and not committed: whoever only looked for it would not see it.
    let left = two.left.clone();
    let batch = vec![commit(vec![update(1, 2), Write::Call(call(8, 0, Some(node(1))))])];
    let committing = tokio::spawn(async move { left.commit(node(1), batch).await });
    let left = two.left.clone();
    let claiming = tokio::spawn(async move { left.claim_calls(node(1), LATER, 10, &[]).await });
    let waiting = two.waited_for(3).await;
    assert_eq!(waiting.iter().filter(|kind| *kind == "advisory").count(), 2, "{waiting:?}");
    two.third.batch_execute("COMMIT").await.unwrap();
    assert_eq!(taking.await.unwrap(), Ok(1));
    assert_eq!(committing.await.unwrap(), Err(Error::Fenced));
    assert_eq!(claiming.await.unwrap(), Err(Error::Fenced));
    assert_eq!(two.backlog().await, [7, 9]);
    let state = two.right.load(&acme(), id(1)).await.unwrap().unwrap();
    assert_eq!(state.state_version, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_take_over_waits_for_a_claim_in_flight_and_frees_what_it_took() {
    let Some(two) = two().await else { return };
    // Statements are prepared by their first use, outside of any transaction.
    two.left.commit(node(1), vec![commit(vec![Write::Call(call(6, 0, None))])]).await.unwrap();
    assert_eq!(two.left.claim_calls(node(1), LATER, 10, &[]).await.unwrap().len(), 1);
    two.left.commit(node(1), vec![commit(vec![Write::Call(call(7, 0, None))])]).await.unwrap();
    // Reading goes on; taking does not.
    two.third.batch_execute("BEGIN; LOCK TABLE calls IN SHARE MODE").await.unwrap();
    let left = two.left.clone();
    let claiming = tokio::spawn(async move { left.claim_calls(node(1), LATER, 10, &[]).await });
    two.waited_for(1).await;
    let right = two.right.clone();
    let taking = tokio::spawn(async move { right.take_over(node(2), LATER).await });
    let waiting = two.waited_for(2).await;
    assert!(waiting.contains(&"advisory".to_owned()), "it waits for the claim: {waiting:?}");
    two.third.batch_execute("COMMIT").await.unwrap();
    assert_eq!(claiming.await.unwrap().unwrap().len(), 1);
    assert_eq!(taking.await.unwrap(), Ok(2));
    assert_eq!(two.backlog().await, [6, 7]);
}

/// F13: the connection for the lease is nobody else's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_is_renewed_while_every_connection_that_writes_is_stuck() {
    const WRITERS: usize = 6;
    let Some(two) = two().await else { return };
    two.third.batch_execute("BEGIN; LOCK TABLE wf_instances IN ACCESS EXCLUSIVE MODE").await.unwrap();
    let stuck: Vec<_> = (10..30)
        .map(|number| {
            let left = two.left.clone();
            tokio::spawn(async move { left.commit(node(1), vec![commit(vec![create(number)])]).await })
        })
        .collect();
    two.waited_for(WRITERS).await;
    for _ in 0..3 {
        two.left.renew(node(1), Time(0), LEASE_MS).await.unwrap();
    }
    assert!(stuck.iter().all(|one| !one.is_finished()), "they are stuck all the while");
    two.third.batch_execute("COMMIT").await.unwrap();
    for one in stuck {
        assert_eq!(one.await.unwrap(), Ok(vec![Outcome::Committed]));
    }
}
