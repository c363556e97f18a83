//! Databases that earlier versions made: what is in them is there after migrating, and old nodes go on writing.

use crate::fixture::*;
use sha2::{Digest, Sha256};
use std::time::Duration;
use store::{feed::*, postgres::*, *};
use tokio::time::Instant;
use tokio_postgres::{Client, NoTls};

const MIGRATIONS: [(&str, &str); 3] = [
    ("core", include_str!("../../migrations/postgres/V1__core.sql")),
    ("retention", include_str!("../../migrations/postgres/V2__retention.sql")),
    ("plans", include_str!("../../migrations/postgres/V3__plans.sql")),
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
