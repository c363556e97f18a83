//! History in partitions by day: what retention leaves goes with the day, and what is needed stays.

use crate::fixture::*;
use machine::Time;
use store::{postgres::*, rows::*, views::*, *};
use tokio_postgres::{Client, NoTls};
use uuid::Uuid;

const DAY_MS: u64 = 86_400_000;

struct Place {
    database: scratch::Database,
    store: Postgres,
    admin: Client,
    /// The partition of the day after tomorrow, and an id of that day.
    named: String,
    first: Uuid,
}

async fn client(url: &str, tenants: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute(&format!("SET windlass.tenants = '{tenants}'")).await.unwrap();
    client
}

impl Place {
    async fn new() -> Option<Place> {
        let database = scratch::database()?;
        migrate(&database.owner_url, Some(database.application)).await.unwrap();
        let store = Postgres::open(&database.url).await.unwrap();
        store.join(node(1), Time(0), 600_000).await.unwrap();
        let admin = client(&database.admin_url, "*").await;
        let day = "SELECT named::text, low FROM wf_history_days() ORDER BY low OFFSET 1 LIMIT 1";
        let row = admin.query_one(day, &[]).await.unwrap();
        let (named, first) = (row.get(0), row.get(1));
        Some(Place { database, store, admin, named, first })
    }

    fn id(&self, number: u128) -> Uuid {
        Uuid::from_u128(self.first.as_u128() + number)
    }

    async fn count(&self, table: &str) -> i64 {
        self.admin.query_one(&format!("SELECT count(*) FROM {table}"), &[]).await.unwrap().get(0)
    }

    /// An instance of that day with three rows of history, ended or not.
    async fn start(&self, number: u128, ended: bool) {
        let (at, id) = (Time(1_000), self.id(number));
        let status = if ended { "completed" } else { "running" };
        let row =
            InstanceRow { id, status: status.into(), ended_at: ended.then_some(at), ..instance(number) };
        let state = StateRow { instance: id, ..state(number, 1) };
        let mut writes = vec![Write::CreateInstance { instance: Box::new(row), state: Box::new(state) }];
        writes.extend((1..=3).map(|version| self.history(number, version)));
        assert_eq!(self.store.commit(node(1), vec![commit(writes)]).await.unwrap(), [Outcome::Committed]);
    }

    fn history(&self, number: u128, version: i64) -> Write {
        Write::History(HistoryRow { instance: self.id(number), version, at: Time(1), events: b"[]".to_vec() })
    }

    async fn versions(&self, number: u128) -> Vec<i64> {
        let rows = self.store.history(&acme(), self.id(number), 0, 100).await.unwrap();
        rows.into_iter().map(|row| row.version).collect()
    }

    async fn purge(&self) -> u64 {
        let before = Time(2_000);
        let purge = Purge {
            ended_before: before,
            faulted_before: before,
            keys_before: Time(0),
            keys_kept: machine::time::Span::ZERO,
            retry_longest: machine::time::Span::ZERO,
            after: None,
            limit: 100,
        };
        self.store.purge(&purge).await.unwrap().instances
    }

    /// A time by which that day is long over.
    fn later(&self) -> Time {
        let began_ms = (self.first.as_u128() >> 80) as u64;
        Time(((began_ms + DAY_MS) * 1_000) as i64)
    }

    async fn is_there(&self, table: &str) -> bool {
        let sql = "SELECT to_regclass($1) IS NOT NULL";
        self.admin.query_one(sql, &[&table]).await.unwrap().get(0)
    }
}

#[tokio::test]
async fn history_goes_with_its_day_and_what_is_needed_stays() {
    let Some(place) = Place::new().await else { return };
    for number in 1..=3 {
        place.start(number, number < 3).await;
    }
    assert_eq!(place.count(&place.named).await, 9, "history lies in the partition of its day");
    assert_eq!(place.purge().await, 2);
    assert_eq!(place.count(&place.named).await, 9, "no row is deleted for itself");
    assert_eq!(place.versions(1).await, [0; 0], "nobody is shown history without its instance");
    assert_eq!(place.versions(3).await, [1, 2, 3]);
    // The day is not over: nothing happens to it.
    let just_before = Time(place.later().0 - 1);
    while place.store.retire(just_before).await.unwrap() {}
    assert!(place.is_there(&place.named).await);
    while place.store.retire(place.later()).await.unwrap() {}
    assert!(!place.is_there(&place.named).await);
    assert_eq!(place.count("wf_history").await, 3);
    assert_eq!(place.versions(3).await, [1, 2, 3], "an instance that is still there keeps its history");
    // It goes on, and so does whoever begins late with an id of that day.
    let outcomes = place.store.commit(node(1), vec![commit(vec![place.history(3, 4)])]).await.unwrap();
    assert_eq!(outcomes, [Outcome::Committed]);
    assert_eq!(place.versions(3).await, [1, 2, 3, 4]);
    place.start(4, true).await;
    assert_eq!(place.purge().await, 1);
    assert_eq!(place.count("wf_history").await, 4, "outside of days rows are deleted one by one");
    let again = place.store.commit(node(1), vec![commit(vec![place.history(3, 4)])]).await.unwrap();
    assert!(matches!(again[..], [Outcome::Rejected(_)]), "{again:?}");
}

#[tokio::test]
async fn a_day_of_which_much_is_needed_is_kept_without_what_was_purged() {
    let Some(place) = Place::new().await else { return };
    for number in 1..=5 {
        place.start(number, number < 4).await;
    }
    assert_eq!(place.purge().await, 3);
    let application = client(&place.database.url, "*").await;
    let retire = async |moved_max: i64| -> i64 {
        let sql = "SELECT wf_history_retire($1, $2, 4)";
        application.query_one(sql, &[&place.later().0, &moved_max]).await.unwrap().get(0)
    };
    // The day before goes first: it holds nothing.
    while retire(5).await > 0 {}
    assert!(!place.is_there(&place.named).await);
    let kept = place.named.replace("_d", "_k");
    assert_eq!(place.count(&kept).await, 6, "two instances are needed");
    // Their rows are deleted with them from now on.
    application
        .batch_execute("UPDATE wf_instances SET status = 'completed', ended_at = 1000 WHERE ended_at IS NULL")
        .await
        .unwrap();
    assert_eq!(place.purge().await, 2);
    assert_eq!(place.count(&kept).await, 0);
    while retire(5).await > 0 {}
    assert!(!place.is_there(&kept).await);
}

#[tokio::test]
async fn days_are_retired_only_by_those_who_see_all_tenants() {
    let Some(place) = Place::new().await else { return };
    place.start(1, false).await;
    let one = client(&place.database.url, "other").await;
    let refused = one.execute("SELECT wf_history_retire($1, 5, 5)", &[&place.later().0]).await;
    assert!(refused.unwrap_err().as_db_error().unwrap().message().contains("all tenants"));
    assert_eq!(place.versions(1).await, [1, 2, 3]);
}

#[tokio::test]
async fn row_security_binds_those_who_name_a_partition() {
    let Some(place) = Place::new().await else { return };
    place.start(1, true).await;
    let parts = "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'wf_history'::regclass";
    let parts = place.admin.query(parts, &[]).await.unwrap();
    assert!(parts.len() >= 8, "{}", parts.len());
    let owner = client(&place.database.owner_url, "other").await;
    let seeing = client(&place.database.owner_url, "acme").await;
    let mut seen = 0;
    for part in parts {
        let part: String = part.get(0);
        let count = format!("SELECT count(*) FROM {part}");
        let none: i64 = owner.query_one(&count, &[]).await.unwrap().get(0);
        assert_eq!(none, 0, "{part}");
        seen += seeing.query_one(&count, &[]).await.unwrap().get::<_, i64>(0);
        let forced =
            "SELECT relrowsecurity AND relforcerowsecurity FROM pg_class WHERE oid = $1::text::regclass";
        assert!(owner.query_one(forced, &[&part]).await.unwrap().get::<_, bool>(0), "{part}");
    }
    assert_eq!(seen, 3);
}

#[tokio::test]
async fn one_instance_is_looked_for_in_one_partition() {
    let Some(place) = Place::new().await else { return };
    place.start(1, true).await;
    let plan = place
        .database
        .ask(&format!(
            "SET ROLE windlass_app; SET windlass.tenants = 'acme'; SET plan_cache_mode = force_generic_plan;
             SET enable_seqscan = off;
             PREPARE p(text, uuid) AS SELECT version FROM wf_history WHERE tenant = $1 AND instance = $2;
             EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) EXECUTE p('acme', '{}')",
            place.id(1)
        ))
        .unwrap();
    assert!(plan.contains("Subplans Removed"), "{plan}");
    assert_eq!(plan.matches(" on wf_history_").count(), 1, "{plan}");
}
