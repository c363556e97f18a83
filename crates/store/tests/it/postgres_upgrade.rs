//! Databases that earlier versions made: what is in them is there after migrating, and old nodes go on writing.

use crate::fixture::*;
use sha2::{Digest, Sha256};
use std::time::Duration;
use store::{feed::*, postgres::*, *};
use tokio::time::Instant;
use tokio_postgres::{Client, NoTls};
use uuid::Uuid;

const MIGRATIONS: [(&str, &str); 4] = [
    ("core", include_str!("../../migrations/postgres/V1__core.sql")),
    ("retention", include_str!("../../migrations/postgres/V2__retention.sql")),
    ("plans", include_str!("../../migrations/postgres/V3__plans.sql")),
    ("feed", include_str!("../../migrations/postgres/V4__feed.sql")),
];
const RECORD: &str =
    "CREATE TABLE schema_migrations (version bigint PRIMARY KEY, name text NOT NULL, sha256 bytea NOT NULL,
        oldest bigint NOT NULL)";

async fn client(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute("SET windlass.tenants = '*'").await.unwrap();
    client
}

/// A database as the first `count` migrations left it, and its owner.
async fn migrated_to(count: usize) -> Option<(scratch::Database, Client)> {
    let database = scratch::database()?;
    let owner = client(&database.owner_url).await;
    owner.batch_execute(RECORD).await.unwrap();
    for (at, (name, sql)) in MIGRATIONS.iter().enumerate().take(count) {
        owner.batch_execute(sql).await.unwrap();
        let hash = Sha256::digest(sql).to_vec();
        let note = "INSERT INTO schema_migrations (version, name, sha256, oldest) VALUES ($1, $2, $3, 1)";
        owner.execute(note, &[&(at as i64 + 1), name, &hash]).await.unwrap();
    }
    let grant = format!(
        "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {0};
         GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO {0}",
        database.application
    );
    owner.batch_execute(&grant).await.unwrap();
    Some((database, owner))
}

/// As a node of the earlier version writes it.
fn old_event(number: u128) -> String {
    format!(
        "INSERT INTO events (tenant, id, source, event_id, event_type, received_at, expires_at, told, taken, started,
            collected, event) VALUES ('acme', '{}', 's', 'e{number}', 't', 1, 5, 0, 0, 0, 0, '{{}}')",
        id(number)
    )
}

#[tokio::test]
async fn events_from_before_the_feed_come_first() {
    let Some((database, _owner)) = migrated_to(3).await else { return };
    let old = client(&database.url).await;
    for number in [3, 1, 2] {
        old.batch_execute(&old_event(number)).await.unwrap();
    }
    migrate(&database.owner_url, None).await.unwrap();
    old.batch_execute(&old_event(9)).await.unwrap();
    old.batch_execute(&old_event(8)).await.unwrap();
    let store = Postgres::open(&database.url).await.unwrap();
    let (mut met, mut cursor) = (Vec::new(), FeedCursor::default());
    let deadline = Instant::now() + Duration::from_secs(60);
    while met.len() < 5 && Instant::now() < deadline {
        for item in store.feed(&acme(), cursor, 2).await.unwrap().unwrap() {
            cursor = item.cursor;
            met.push(item.row.id);
        }
    }
    assert_eq!(met, [1, 2, 3, 9, 8].map(id));
}

#[tokio::test]
async fn history_from_before_the_partitions_is_there() {
    let Some((database, owner)) = migrated_to(4).await else { return };
    let old = client(&database.url).await;
    // Ids that begin with a time, one that begins with a time to come, and one that begins with none.
    let ahead = Uuid::from_u128(id(0).as_u128() + (20u128 << 112));
    let ids = [id(1), id(2), ahead, Uuid::from_u128(u128::MAX - 1)];
    let insert = "INSERT INTO wf_history (tenant, instance, version, at, events) VALUES ($1, $2, $3, 1, 'x')";
    for (instance, version) in ids.iter().flat_map(|instance| [(instance, 1i64), (instance, 2)]) {
        old.execute(insert, &[&"acme", instance, &version]).await.unwrap();
    }
    // Nobody names the role again: it works with the new table as it did with the old one.
    migrate(&database.owner_url, None).await.unwrap();
    let store = Postgres::open(&database.url).await.unwrap();
    store.join(node(1), machine::Time(0), 600_000).await.unwrap();
    let today = "SELECT wf_day_id(extract(epoch FROM clock_timestamp())::bigint / 86400)";
    let today: Uuid = owner.query_one(today, &[]).await.unwrap().get(0);
    old.execute(insert, &[&"acme", &today, &1i64]).await.unwrap();
    for instance in ids {
        old.execute(insert, &[&"acme", &instance, &3i64]).await.unwrap();
        let twice = old.execute(insert, &[&"acme", &instance, &1i64]).await;
        assert!(twice.is_err(), "the key holds over all that was there before");
        let row = rows::InstanceRow { id: instance, ..instance_row() };
        let state = rows::StateRow { instance, ..state(1, 1) };
        let create = Write::CreateInstance { instance: Box::new(row), state: Box::new(state) };
        store.commit(node(1), vec![commit(vec![create])]).await.unwrap();
        let versions = store.history(&acme(), instance, 0, 9).await.unwrap();
        assert_eq!(versions.iter().map(|row| row.version).collect::<Vec<_>>(), [1, 2, 3], "{instance}");
    }
    while store.retire(machine::Time(i64::MIN)).await.unwrap() {}
}

fn instance_row() -> rows::InstanceRow {
    instance(1)
}
