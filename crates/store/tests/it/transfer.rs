//! Tenants move from SQLite to PostgreSQL and back without losing a row.

use crate::fixture::*;
use async_trait::async_trait;
use machine::{TenantId, Time, audit::BEGINNING, time::Span};
use std::{
    path::PathBuf,
    sync::atomic::{AtomicUsize, Ordering},
};
use store::{
    postgres,
    rows::*,
    sqlite,
    transfer::{self, Cell, Copied, Moved, Side, TABLES, Table},
    *,
};

/// A file and a database, both empty, and whatever must live as long as they.
struct Ends {
    file: PathBuf,
    database: scratch::Database,
    #[allow(dead_code, reason = "the folder goes when this does")]
    folder: tempfile::TempDir,
}

impl Ends {
    async fn new() -> Option<Ends> {
        let database = scratch::database()?;
        postgres::migrate(&database.owner_url, Some(database.application)).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        Some(Ends { file: folder.path().join("windlass.db"), database, folder })
    }

    fn here(&self) -> sqlite::AtRest {
        sqlite::AtRest::open(&self.file).unwrap()
    }

    async fn there(&self) -> postgres::AtRest {
        postgres::AtRest::open(&self.database.owner_url).await.unwrap()
    }

    /// Fills the file with two tenants.
    async fn fill(&self) {
        let store = sqlite::Sqlite::open(&self.file).unwrap();
        store.join(node(1), Time(0), LEASE_MS).await.unwrap();
        for name in ["acme", "beta"] {
            let writes = (1..=3).flat_map(|number| rows(name, number)).collect();
            let commit = Commit { tenant: tenant(name), writes };
            assert_eq!(store.commit(node(1), vec![commit]).await.unwrap(), [Outcome::Committed]);
            // One of a worker with a rate, handed out once.
            let paced = Write::Delivery(Box::new(delivery(20, "paced", 10)));
            let commit = Commit { tenant: tenant(name), writes: vec![paced] };
            assert_eq!(store.commit(node(1), vec![commit]).await.unwrap(), [Outcome::Committed]);
            let pace = Some(Pace { every: Span(5), burst: 1 });
            let (now, until) = (Time(20), Time(30));
            let loan = Loan { worker: "paced".into(), now, until, limit: 1, pace, lent_max: None };
            assert_eq!(store.lend(&tenant(name), &loan).await.unwrap().len(), 1);
            let entries = store.audit().unsealed(&tenant(name), 10).await.unwrap();
            let seal = sealed_after((0, BEGINNING), &entries);
            assert!(store.audit().seal(&tenant(name), &seal).await.unwrap());
            let row = Write::CreateTenant(TenantRow { weight: 3, ..tenant_row(name) });
            let commit = Commit { tenant: tenant(name), writes: vec![row] };
            assert_eq!(store.commit(node(1), vec![commit]).await.unwrap(), [Outcome::Committed]);
        }
        // The first entry of each.
        for _ in 0..2 {
            assert_eq!(store.audit().cut(Time(1_002), 10).await.unwrap(), 1);
        }
        store.deployment_key("signal-token", [7; 32]).await.unwrap();
        store.leave(node(1)).await.unwrap();
    }
}

/// Rows of every table, some with what SQL finds hard.
fn rows(name: &str, number: u128) -> Vec<Write> {
    let mut writes = plain_rows(name, number);
    writes.extend([
        Write::Publish(Box::new(event(number, "paid", "1"))),
        wait(number, u64::MAX, "shipped"),
        Write::PutSchedule { schedule: Box::new(schedule(number, Some(50))), expected_version: 0 },
        Write::Slot(slot(number, 7)),
        Write::PutCollection { schedule: id(number), open: b"[]".to_vec(), expected_version: 0 },
        Write::PutSecret {
            row: Box::new(secret(&format!("s{number}"), &[0, 255, 7])),
            expected_version: None,
        },
        Write::PutBatch { row: Box::new(batch(number)), expected_version: 0 },
        Write::BatchItems { batch: id(number), items: vec![id(number)] },
        Write::Dataset(dataset(number)),
        Write::Items(items(number, 1)),
        Write::PutWorker { row: worker(&format!("w{number}"), 1), expected_version: 0 },
        Write::PutEventType { row: event_type(&format!("t{number}"), 1), expected_version: 0 },
        Write::MoveWatermark {
            worker: format!("w{number}"),
            row: WatermarkRow {
                name: "at \u{0}".into(),
                value: vec![0, 255],
                version: 1,
                updated_at: Time(1),
            },
            expected_version: 0,
        },
        Write::Delivery(Box::new(DeliveryRow {
            order_key: Some("k".into()),
            owner: Some(node(1)),
            ..delivery(10 - number, "mail", 10)
        })),
        Write::Audit(Box::new(audit_entry(&tenant(name), number))),
        Write::AdvanceClock { by: Span(5) },
    ]);
    writes.extend(record_rows(number));
    writes
}

/// A record and all that goes with it.
fn record_rows(number: u128) -> Vec<Write> {
    let row = RecordRow {
        id: format!("r{number}"),
        kind: format!("k{number}"),
        parent: None,
        version: 7,
        body: b"{}".to_vec(),
        acl: b"{}".to_vec(),
        effective: id(number),
        generation: 3,
        created_at: Time(1),
        updated_at: Time(2),
    };
    let entries = vec![("user:u".to_owned(), 1, 0)];
    let keys = vec![RecordKey { name: "total".into(), value: vec![0, 255] }];
    let kind = RecordKindRow {
        name: format!("k{number}"),
        schema: None,
        keys: b"[]".to_vec(),
        row_version: 1,
        created_at: Time(1),
        updated_at: Time(1),
    };
    let group = GroupRow {
        name: format!("g{number}"),
        members: vec!["u \u{1a}".into()],
        roles: vec![],
        row_version: 1,
        created_at: Time(1),
        updated_at: Time(1),
    };
    let work = AclWorkRow {
        record: row.id.clone(),
        root: row.id.clone(),
        revokes: true,
        level: 0,
        since: Time(1),
        due_at: Time(9),
        cursor: None,
        attempt: 2,
        error: Some("it cannot be read".into()),
        row_version: 1,
    };
    let writes = [
        RecordWrite::Lists(vec![AclListRow { id: id(number), list: b"{}".to_vec(), entries }]),
        RecordWrite::Create(vec![NewRecord { row, keys, parent_generation: None }]),
        RecordWrite::PutKind { row: kind, expected_version: 0 },
        RecordWrite::PutGroup { row: group, expected_version: 0 },
        RecordWrite::PutWork(vec![work]),
    ];
    writes.map(|write| Write::Record(Box::new(write))).into()
}

fn plain_rows(name: &str, number: u128) -> Vec<Write> {
    let token = u64::MAX - number as u64;
    vec![
        Write::ClaimKey(inbox(&format!("k{number}"))),
        create_row(InstanceRow {
            input: vec![0, 255, number as u8],
            business_key: Some(format!("{name} \u{0} \u{1a} {number}")),
            ..instance(number)
        }),
        Write::CreateDefinition(Box::new(definition(name, &format!("1.0.{number}")))),
        history(number, 1),
        history(number, 2),
        Write::Signal(signal(number, 5, Some(node(1)))),
        Write::Timer(TimerRow { instance: id(number), ..timer(token, 50, None) }),
        Write::Call(CallRow { instance: id(number), ..call(token, 5, Some(node(1))) }),
        Write::CreateTask(Box::new(task(number))),
        task_event(number, 1, "created"),
        task_event(number, 2, "assigned"),
        Write::DeadLetter(Box::new(DeadLetterRow { group: Some(id(number)), ..dead_letter(number) })),
        Write::Errors(vec![ErrorGroupRow {
            id: id(number),
            source: "call".into(),
            target: name.into(),
            class: "transient".into(),
            step: None,
            message: "away".into(),
            count: 3,
            first_at: Time(5),
            last_at: Time(6),
            first_sample: b"{}".to_vec(),
            samples: b"[]".to_vec(),
        }]),
        Write::Outbox(outbox(10 - number)),
        Write::CreateKey(key(&format!("{name}{number}"))),
    ]
}

/// Rows that a tenant has: 38 of each of its three instances, two of a worker with a rate, its clock and its own; of its audit
/// trail two entries, a checkpoint and an anchor.
const ROWS: u64 = 3 * 38 + 2 + 2 + 4;

async fn moved(from: &dyn Side, to: &dyn Side, name: &str) -> Result<Moved> {
    transfer::move_tenant(from, to, &tenant(name), false, &|_| {}).await
}

#[tokio::test]
async fn a_tenant_goes_there_and_back_with_every_row() {
    let Some(ends) = Ends::new().await else { return };
    ends.fill().await;
    let (here, there) = (ends.here(), ends.there().await);
    assert_eq!(transfer::hand_over_keys(&here, &there).await.unwrap(), [""; 0]);
    let went = moved(&here, &there, "acme").await.unwrap();
    assert_eq!((went.instances, went.rows, went.was_there), (3, ROWS, false));
    assert_eq!(went.secrets, 3);
    for table in TABLES {
        assert!(!there.read(table, &acme(), &[], 1).await.unwrap().is_empty(), "{} is not tried", table.name);
    }
    assert_eq!(here.tenants().await.unwrap(), [tenant("beta")]);
    assert_eq!(there.tenants().await.unwrap(), [acme()]);
    drop(here);

    // What arrived works: nobody owns it, and the order of the outbox is kept.
    let options = postgres::Options { database_clock: false, ..postgres::Options::default() };
    let store = postgres::Postgres::open_with(&ends.database.url, options).await.unwrap();
    store.join(node(2), Time(0), LEASE_MS).await.unwrap();
    assert_eq!(store.claim_signals(node(2), Time(9), 10).await.unwrap().len(), 3);
    let outbox = store.outbox(&OutboxAsk::of(10)).await.unwrap();
    assert_eq!(outbox.iter().map(|one| one.row.id).collect::<Vec<_>>(), [9, 8, 7].map(id));
    assert_eq!(store.tenant(&acme()).await.unwrap().unwrap().weight, 3);
    let found = store.instance_by_key(&acme(), "acme \u{0} \u{1a} 2").await.unwrap();
    assert_eq!(found.unwrap().row.input, [0, 255, 2]);
    assert_eq!(store.deployment_key("signal-token", [9; 32]).await.unwrap(), [7; 32]);
    store.leave(node(2)).await.unwrap();
    drop(store);

    let here = ends.here();
    let came = moved(&there, &here, "acme").await.unwrap();
    assert_eq!(came, went, "the same hash");
    assert_eq!(here.tenants().await.unwrap(), [acme(), tenant("beta")]);
    assert_eq!(there.tenants().await.unwrap(), []);
}

#[tokio::test]
async fn a_move_that_was_cut_off_is_gone_on_with() {
    let Some(ends) = Ends::new().await else { return };
    ends.fill().await;
    let (here, there) = (ends.here(), ends.there().await);
    let went = cut_off(&here, &there).await;
    assert!(moved(&here, &there, "acme").await.is_err(), "it is not here any more");
    let came = cut_off(&there, &here).await;
    assert_eq!(came, went, "there and back, the same hash");
}

/// Moves a tenant that is cut off after some writes, several times, and once more when nothing is left to do but to remove it
/// where it was.
async fn cut_off(from: &dyn Side, to: &dyn Side) -> Moved {
    let has = async |side: &dyn Side| side.tenants().await.unwrap().contains(&acme());
    // Each goes on where the one before stopped.
    for writes in [2, 3, 12, 4] {
        moved(from, &Failing::after(to, writes), "acme").await.unwrap_err();
        assert!(!has(to).await, "its own row comes last");
        assert!(has(from).await, "nothing is removed before all is there");
    }
    let stuck = Failing { removes: false, ..Failing::after(from, usize::MAX) };
    moved(&stuck, to, "acme").await.unwrap_err();
    assert!(has(to).await && has(from).await);
    let went = moved(from, to, "acme").await.unwrap();
    assert_eq!((went.rows, went.was_there), (ROWS, true));
    assert!(has(to).await && !has(from).await);
    went
}

#[tokio::test]
async fn what_differs_is_refused_and_stays() {
    let Some(ends) = Ends::new().await else { return };
    ends.fill().await;
    let (here, there) = (ends.here(), ends.there().await);
    let kept = transfer::move_tenant(&here, &there, &acme(), true, &|_| {}).await.unwrap();
    assert!(!kept.was_there);
    let again = transfer::move_tenant(&here, &there, &acme(), true, &|_| {}).await.unwrap();
    assert_eq!(again, Moved { was_there: true, ..kept });
    let (client, connection) =
        tokio_postgres::connect(&ends.database.owner_url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let tamper = "SELECT set_config('windlass.tenants', '*', false);
        UPDATE wf_history SET events = '[]' WHERE tenant = 'acme' AND version = 2";
    client.batch_execute(tamper).await.unwrap();
    let error = moved(&here, &there, "acme").await.unwrap_err().to_string();
    assert!(error.contains("wf_history") && error.contains("not the same"), "{error}");
    assert_eq!(here.tenants().await.unwrap().len(), 2);
}

#[tokio::test]
async fn stores_at_work_are_refused() {
    let Some(ends) = Ends::new().await else { return };
    ends.fill().await;
    let (here, there) = (ends.here(), ends.there().await);
    let store = postgres::Postgres::open(&ends.database.url).await.unwrap();
    store.join(node(2), Time(0), LEASE_MS).await.unwrap();
    assert!(matches!(moved(&here, &there, "acme").await, Err(Error::InUse(_))));
    assert!(matches!(sqlite::AtRest::open(&ends.file), Err(Error::InUse(_))), "one at a time has the file");
    store.leave(node(2)).await.unwrap();
    moved(&here, &there, "acme").await.unwrap();
}

#[tokio::test]
async fn a_key_that_is_another_there_is_named() {
    let Some(ends) = Ends::new().await else { return };
    ends.fill().await;
    let (here, there) = (ends.here(), ends.there().await);
    there.keep_deployment_key("signal-token", &[9; 32]).await.unwrap();
    assert_eq!(transfer::hand_over_keys(&here, &there).await.unwrap(), ["signal-token"]);
}

/// One end, which breaks after some writes, or when it is to remove something.
struct Failing<'s> {
    side: &'s dyn Side,
    writes: AtomicUsize,
    removes: bool,
}

impl Failing<'_> {
    fn after(side: &dyn Side, writes: usize) -> Failing<'_> {
        Failing { side, writes: AtomicUsize::new(writes), removes: true }
    }
}

#[async_trait]
impl Side for Failing<'_> {
    async fn at_rest(&self) -> Result<()> {
        self.side.at_rest().await
    }

    async fn tenants(&self) -> Result<Vec<TenantId>> {
        self.side.tenants().await
    }

    async fn read(
        &self,
        table: &Table,
        tenant: &TenantId,
        after: &[Cell],
        limit: usize,
    ) -> Result<Vec<Copied>> {
        self.side.read(table, tenant, after, limit).await
    }

    async fn last(&self, table: &Table, tenant: &TenantId) -> Result<Vec<Cell>> {
        self.side.last(table, tenant).await
    }

    async fn write(&self, table: &Table, tenant: &TenantId, rows: &[Vec<Cell>]) -> Result<()> {
        if self.writes.fetch_sub(1, Ordering::Relaxed) == 0 {
            return Err(Error::Unavailable("cut off".into()));
        }
        self.side.write(table, tenant, rows).await
    }

    async fn remove(&self, tenant: &TenantId) -> Result<()> {
        if !self.removes {
            return Err(Error::Unavailable("cut off".into()));
        }
        self.side.remove(tenant).await
    }

    async fn deployment_keys(&self) -> Result<Vec<(String, Vec<u8>)>> {
        self.side.deployment_keys().await
    }

    async fn keep_deployment_key(&self, name: &str, value: &[u8]) -> Result<()> {
        self.side.keep_deployment_key(name, value).await
    }
}
