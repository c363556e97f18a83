//! What a check of a store finds, good and bad.

use crate::fixture::*;
use machine::Time;
use std::time::Duration;
use store::{
    doctor::{Finding, State},
    postgres, sqlite, *,
};

const NOW: i64 = 1_900_000_000_000_000;

fn find<'f>(findings: &'f [Finding], check: &str) -> &'f Finding {
    let found = findings.iter().find(|finding| finding.check == check);
    found.unwrap_or_else(|| panic!("nothing is said of {check}: {findings:#?}"))
}

#[allow(clippy::disallowed_methods, reason = "the server goes by real time")]
async fn look(url: &str) -> Vec<Finding> {
    let clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    postgres::doctor(url, None, &|| Duration::ZERO, clock.as_micros() as i64).await
}

#[tokio::test]
async fn a_database_that_is_as_it_should_be() {
    let Some(database) = scratch::database() else { return };
    let findings = look(&database.url).await;
    let missing = find(&findings, "migrations");
    assert_eq!((missing.state, missing.remedy.contains("windlass migrate")), (State::Bad, true));
    postgres::migrate(&database.owner_url, Some(database.application)).await.unwrap();
    let findings = look(&database.url).await;
    for check in [
        "connection",
        "role",
        "migrations",
        "nodes",
        "backlog",
        "owners",
        "stuck instances",
        "clock",
        "pooler",
    ] {
        assert_eq!(find(&findings, check).state, State::Good, "{check}: {:?}", find(&findings, check));
    }
    // The scratch server gives up durability for speed, and says so here.
    let durability = find(&findings, "durability");
    assert_eq!(durability.state == State::Bad, durability.found.contains("off"), "{durability:?}");
    assert_eq!(find(&look(&database.owner_url).await, "role").state, State::Warning, "the owner");
}

#[tokio::test]
async fn what_is_wrong_is_named_with_a_remedy() {
    let Some(database) = scratch::database() else { return };
    postgres::migrate(&database.owner_url, Some(database.application)).await.unwrap();
    let options = postgres::Options { database_clock: false, ..postgres::Options::default() };
    let store = postgres::Postgres::open_with(&database.url, options).await.unwrap();
    store.join(node(1), Time(0), LEASE_MS).await.unwrap();
    let waiting = |kind: &str| {
        let mut state = state(1, 1);
        state.waiting_kind = Some(kind.to_owned());
        Write::CreateInstance { instance: Box::new(instance(1)), state: Box::new(state) }
    };
    let writes = vec![
        waiting("Call"),
        Write::Timer(timer(1, 5, None)),
        Write::Signal(signal(1, 5, Some(node(9)))),
        Write::DeadLetter(Box::new(dead_letter(1))),
    ];
    store.commit(node(1), vec![commit(writes)]).await.unwrap();
    let findings = look(&database.url).await;
    for (check, state, text) in [
        ("stuck instances", State::Bad, "acme/"),
        ("backlog", State::Warning, "timers: 1 due"),
        ("owners", State::Warning, "1 rows"),
        ("dead letters", State::Warning, "1 wait"),
        ("nodes", State::Warning, "0 alive, 1 with a lease that ended"),
    ] {
        let finding = find(&findings, check);
        assert_eq!(finding.state, state, "{finding:?}");
        assert!(finding.found.contains(text) && !finding.remedy.is_empty(), "{finding:?}");
    }
    let nowhere = look("postgres://nobody@127.0.0.1:1/none").await;
    assert_eq!((nowhere.len(), nowhere[0].check, nowhere[0].state), (1, "connection", State::Bad));
}

#[tokio::test]
async fn a_pooler_that_the_address_does_not_tell_of_is_seen() {
    let Some(database) = scratch::database() else { return };
    let Some(pooler) = scratch::pooler() else { return };
    postgres::migrate(&database.owner_url, Some(database.application)).await.unwrap();
    let url = pooler.url(&database.url).unwrap();
    let findings = look(&url).await;
    let told = find(&findings, "pooler");
    assert_eq!(told.state, State::Warning, "{told:?}");
    assert!(told.remedy.contains("listen_url"), "{told:?}");
    let untold = url.replace("?pooled=true", "").replace("&pooled=true", "");
    let untold = look(&untold).await;
    assert_eq!(find(&untold, "pooler").state, State::Bad, "{untold:#?}");
}

#[tokio::test]
async fn a_snapshot_that_is_held_is_seen_by_who_may_see_it() {
    let Some(database) = scratch::database() else { return };
    postgres::migrate(&database.owner_url, Some(database.application)).await.unwrap();
    let finding = look(&database.url).await;
    let finding = find(&finding, "oldest snapshot");
    assert!(finding.remedy.contains("pg_read_all_stats"), "{finding:?}");
    let (client, connection) =
        tokio_postgres::connect(&database.owner_url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client
        .batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class")
        .await
        .unwrap();
    let findings = look(&database.admin_url).await;
    let held = find(&findings, "oldest snapshot");
    assert!(held.found.contains("process") && held.found.contains("holds one"), "{held:?}");
}

#[tokio::test]
async fn a_file_is_looked_at_beside_the_engine() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("windlass.db");
    assert_eq!(sqlite::doctor(&file, NOW)[0].state, State::Bad);
    let store = sqlite::Sqlite::open(&file).unwrap();
    store.join(node(1), Time(0), LEASE_MS).await.unwrap();
    let findings = sqlite::doctor(&file, NOW);
    assert!(findings.iter().all(|finding| finding.state == State::Good), "{findings:#?}");
    let writes = vec![create(1), Write::Call(call(1, NOW - 61_000_000, None))];
    store.commit(node(1), vec![commit(writes)]).await.unwrap();
    let findings = sqlite::doctor(&file, NOW);
    assert_eq!(find(&findings, "backlog").state, State::Warning);
    drop(store);
    std::fs::write(&file, b"this is no database, but it is long enough to be read as one".repeat(100))
        .unwrap();
    assert_eq!(sqlite::doctor(&file, NOW)[0].state, State::Bad);
}

/// Settings are of the whole server, so this one is nobody else's.
#[tokio::test]
async fn a_server_that_is_set_up_badly_is_told_of() {
    if scratch::programs().is_none() {
        drop(scratch::database());
        return;
    }
    let server = scratch::Server::start(scratch::Durability::Default).unwrap();
    let database = server.database().unwrap();
    postgres::migrate(&database.owner_url, Some(database.application)).await.unwrap();
    let findings = look(&database.url).await;
    for check in ["durability", "standby", "connections", "bloat"] {
        assert_eq!(find(&findings, check).state, State::Good, "{:?}", find(&findings, check));
    }
    let set = |setting: &str| {
        database.ask(&format!("ALTER SYSTEM SET {setting}")).unwrap();
        database.ask("SELECT pg_reload_conf()").unwrap();
    };
    // More dead rows than living ones, which nobody clears away; the statistics come a moment later.
    set("autovacuum_naptime = '1h'");
    database.ask("CREATE TABLE spare AS SELECT generate_series(1, 60000) AS n").unwrap();
    database.ask("DELETE FROM spare").unwrap();
    let bloat = until(&database.url, "bloat", State::Warning).await;
    assert!(bloat.found.contains("spare: 60000 dead rows") && bloat.remedy.contains("VACUUM"), "{bloat:?}");
    set("autovacuum = off");
    let bloat = until(&database.url, "bloat", State::Bad).await;
    assert!(bloat.found.contains("autovacuum is off"), "{bloat:?}");
    set("synchronous_commit = off");
    let durability = until(&database.url, "durability", State::Bad).await;
    assert!(durability.found.contains("synchronous_commit off"), "{durability:?}");
    set("synchronous_commit = local");
    set("synchronous_standby_names = 'lost'");
    let standby = until(&database.url, "standby", State::Warning).await;
    assert!(standby.remedy.contains("synchronous_commit to on"), "{standby:?}");
    database.ask(&format!("ALTER ROLE {} CONNECTION LIMIT 9", database.application)).unwrap();
    let connections = until(&database.url, "connections", State::Warning).await;
    assert!(connections.found.contains("of 9 in use"), "{connections:?}");
    // Meanwhile nobody's commit ends.
    set("synchronous_commit = on");
    let standby = until(&database.url, "standby", State::Bad).await;
    assert!(standby.found.contains("none is connected") && standby.remedy.contains("bring a standby back"));
    set("synchronous_standby_names = ''");
    until(&database.url, "standby", State::Good).await;
}

/// What is said of it once it is so: a server takes a moment to read its settings.
async fn until(url: &str, check: &str, state: State) -> Finding {
    let mut pace = tokio::time::interval(Duration::from_millis(50));
    for _ in 0..1_200 {
        pace.tick().await;
        let findings = look(url).await;
        if find(&findings, check).state == state {
            return find(&findings, check).clone();
        }
    }
    panic!("{check} never becomes {state:?}: {:?}", look(url).await);
}
