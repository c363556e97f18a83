//! An event in one's own transaction: it is there exactly if that transaction commits, and only for whom it is allowed.

use crate::support::*;
use machine::TenantId;
use parking_lot::Mutex;
use runtime::clock::SystemClock;
use serde_json::{Value, json};
use std::sync::Arc;
use store::postgres::{Postgres, migrate, publish_in, wake};
use tokio_postgres::{Client, NoTls};
use worker::{Declaration, Handled, each};

async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_of_ones_own_transaction_is_delivered_once_if_it_commits() {
    let Some(database) = scratch::database() else { return };
    migrate(&database.owner_url, Some(database.application)).await.unwrap();
    let store = Arc::new(Postgres::open(&database.url).await.unwrap());
    let world = World::over(store.clone(), Arc::new(SystemClock));
    let seen = Arc::new(Mutex::new(Vec::<Value>::new()));
    let notes = seen.clone();
    let mail = Declaration::on(
        "mail",
        ["order.*"],
        each(move |delivery| {
            notes.lock().push(delivery.event.to_json());
            Handled::done()
        }),
    );
    let node = world.build().worker(mail).hints(Arc::new(store.hints())).start().await;
    // The user's own table, and the right to publish for one tenant.
    let owner = connect(&database.owner_url).await;
    let role = database.application;
    owner
        .batch_execute(&format!(
            "SET windlass.tenants = '*'; CREATE TABLE orders (id text PRIMARY KEY); GRANT ALL ON orders TO {role};
             INSERT INTO publishers (role, tenant) VALUES ('{role}', 'acme')"
        ))
        .await
        .unwrap();
    let mut user = connect(&database.url).await;
    let acme = TenantId::new("acme").unwrap();
    let event = |order: &str| json!({ "type": "order.placed", "id": order, "data": { "order": order } });
    for (order, commits) in [("o-1", false), ("o-2", true)] {
        let own = user.transaction().await.unwrap();
        own.execute("INSERT INTO orders VALUES ($1)", &[&order]).await.unwrap();
        assert_eq!(publish_in(&own, &acme, &event(order)).await.unwrap(), order);
        match commits {
            true => own.commit().await.unwrap(),
            false => own.rollback().await.unwrap(),
        }
    }
    wake(&user).await.unwrap();
    until(|| async { !seen.lock().is_empty() && world.counts().await.outbox == 0 }).await;
    // Once more is not once more.
    publish_in(&user, &acme, &event("o-2")).await.unwrap();
    wake(&user).await.unwrap();
    until(|| async { world.counts().await.outbox == 0 && world.counts().await.deliveries == 0 }).await;
    let got = seen.lock().clone();
    assert_eq!(got.len(), 1, "{got:?}");
    assert_eq!((&got[0]["data"]["order"], &got[0]["source"]), (&json!("o-2"), &json!(format!("sql/{role}"))));
    // For no other tenant, and nothing that is no event; the transaction is the user's own after it too.
    let zoo = TenantId::new("zoo").unwrap();
    let refused = publish_in(&user, &zoo, &event("o-3")).await.unwrap_err();
    assert_eq!(refused.code(), Some(&tokio_postgres::error::SqlState::INSUFFICIENT_PRIVILEGE));
    for bad in [
        json!([]),
        json!({}),
        json!({ "type": "" }),
        json!({ "type": "t", "id": 7 }),
        json!({ "type": "t", "tenantid": "zoo" }),
    ] {
        let refused = publish_in(&user, &acme, &bad).await.unwrap_err();
        assert_eq!(refused.code(), Some(&tokio_postgres::error::SqlState::INVALID_PARAMETER_VALUE), "{bad}");
    }
    let left =
        user.query_one("SELECT coalesce(current_setting('windlass.tenants', true), '')", &[]).await.unwrap();
    assert_eq!(left.get::<_, String>(0), "", "no setting is left behind");
    node.stop().await;
}

/// What is told over the database, in order.
async fn told(url: &str) -> tokio::sync::mpsc::Receiver<String> {
    let (client, mut connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
    let (sender, heard) = tokio::sync::mpsc::channel(100);
    tokio::spawn(async move {
        while let Some(Ok(message)) = std::future::poll_fn(|context| connection.poll_message(context)).await {
            if let tokio_postgres::AsyncMessage::Notification(note) = message {
                sender.send(note.payload().to_owned()).await.unwrap();
            }
        }
    });
    client.batch_execute("LISTEN windlass_hints").await.unwrap();
    // It listens for as long as the client is there.
    tokio::spawn(async move {
        std::future::pending::<()>().await;
        drop(client)
    });
    heard
}

#[tokio::test]
async fn publishing_tells_nobody_in_the_users_transaction_and_waking_tells_once_after_it() {
    let Some(database) = scratch::database() else { return };
    migrate(&database.owner_url, Some(database.application)).await.unwrap();
    let owner = connect(&database.owner_url).await;
    let allow = format!(
        "SET windlass.tenants = '*'; INSERT INTO publishers (role, tenant) VALUES ('{}', 'acme')",
        database.application
    );
    owner.batch_execute(&allow).await.unwrap();
    let mut heard = told(&database.url).await;
    let mut user = connect(&database.url).await;
    let acme = TenantId::new("acme").unwrap();
    let own = user.transaction().await.unwrap();
    for n in 0..3 {
        publish_in(&own, &acme, &json!({ "type": "t", "id": format!("e-{n}") })).await.unwrap();
    }
    own.commit().await.unwrap();
    user.batch_execute("NOTIFY windlass_hints, 'between'").await.unwrap();
    wake(&user).await.unwrap();
    user.batch_execute("NOTIFY windlass_hints, 'end'").await.unwrap();
    let mut all = Vec::new();
    while all.last().is_none_or(|last| last != "end") {
        all.push(heard.recv().await.unwrap());
    }
    assert_eq!(all, ["between", "sql o ", "end"]);
}
