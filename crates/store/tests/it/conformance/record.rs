//! Records: guarded by version and by their parent, found by keys and by who may read, given lists under guard.

use super::Opened;
use crate::fixture::*;
use machine::{Time, acl::Effective};
use store::{records::*, rows::*, *};
use uuid::Uuid;

fn list(json: &str) -> AclListRow {
    let list = Effective::parse(json.as_bytes()).unwrap();
    let entries = list.0.iter().map(|(name, entry)| (name.clone(), entry.allow, entry.deny)).collect();
    AclListRow { id: list.id(), list: list.to_bytes(), entries }
}

fn nobody() -> AclListRow {
    list("{}")
}

fn write(write: RecordWrite) -> Write {
    Write::Record(Box::new(write))
}

fn record(id: &str, parent: Option<&str>, effective: Uuid) -> NewRecord {
    NewRecord {
        row: RecordRow {
            id: id.into(),
            kind: "doc".into(),
            parent: parent.map(str::to_owned),
            version: 1,
            body: b"{}".to_vec(),
            acl: b"{}".to_vec(),
            effective,
            generation: 1,
            created_at: Time(1),
            updated_at: Time(1),
        },
        keys: vec![],
        parent_generation: parent.map(|_| 1),
    }
}

/// Stores lists and records.
async fn put(opened: &Opened, lists: &[AclListRow], records: &[NewRecord]) {
    opened.put(vec![write(RecordWrite::Lists(lists.to_vec()))]).await;
    for one in records {
        opened.put(vec![write(RecordWrite::Create(vec![one.clone()]))]).await;
    }
}

async fn outcome(opened: &Opened, one: RecordWrite) -> Outcome {
    opened.commit(vec![commit(vec![write(one)])]).await.remove(0)
}

const LOST: Outcome = Outcome::Conflict(Conflict::Version);

pub(crate) async fn a_record_is_guarded_by_version_and_parent(opened: &Opened) {
    let nobody = nobody();
    let (top, below) = (record("top", None, nobody.id), record("below", Some("top"), nobody.id));
    put(opened, std::slice::from_ref(&nobody), &[top.clone(), below.clone()]).await;
    let records = opened.store.records();
    let read = records.record(&acme(), "below", None).await.unwrap().unwrap();
    assert_eq!(read, RecordView { row: below.row.clone(), list: nobody.list.clone() });
    let twice = outcome(opened, RecordWrite::Create(vec![top.clone()])).await;
    assert_eq!(twice, Outcome::Conflict(Conflict::Exists));
    let orphan = record("x", Some("nowhere"), nobody.id);
    assert_eq!(outcome(opened, RecordWrite::Create(vec![orphan])).await, LOST);
    let stale = NewRecord { parent_generation: Some(7), ..record("x", Some("top"), nobody.id) };
    assert_eq!(outcome(opened, RecordWrite::Create(vec![stale])).await, LOST);

    let changed = RecordRow { version: 2, body: b"[1]".to_vec(), ..below.row.clone() };
    let update = |version: i64, generation: i64, path: &[(&str, Option<&str>)]| RecordWrite::Update {
        new: Box::new(NewRecord { row: changed.clone(), ..below.clone() }),
        version,
        generation,
        path: path.iter().map(|(id, parent)| ((*id).to_owned(), parent.map(str::to_owned))).collect(),
    };
    assert_eq!(outcome(opened, update(7, 1, &[])).await, LOST);
    assert_eq!(outcome(opened, update(1, 7, &[])).await, LOST);
    assert_eq!(outcome(opened, update(1, 1, &[("top", Some("elsewhere"))])).await, LOST);
    assert_eq!(outcome(opened, update(1, 1, &[("top", None)])).await, Outcome::Committed);
    assert_eq!(records.record(&acme(), "below", None).await.unwrap().unwrap().row, changed);

    let delete = |id: &str, version: i64| RecordWrite::Delete { id: id.into(), version };
    assert_eq!(outcome(opened, delete("top", 1)).await, LOST, "something is below it");
    assert_eq!(outcome(opened, delete("below", 1)).await, LOST);
    assert!(records.has_children(&acme(), "top").await.unwrap());
    let above = records.ancestors(&acme(), "below", 10).await.unwrap();
    assert_eq!(above.iter().map(|view| view.row.id.as_str()).collect::<Vec<_>>(), ["below", "top"]);
    assert_eq!(outcome(opened, delete("below", 2)).await, Outcome::Committed);
    assert_eq!(outcome(opened, delete("top", 1)).await, Outcome::Committed);
    assert_eq!(records.record(&acme(), "top", None).await.unwrap(), None);
}

pub(crate) async fn lists_go_by_declared_keys(opened: &Opened) {
    let nobody = nobody();
    let with = |id: &str, total: u8| NewRecord {
        keys: vec![RecordKey { name: "total".into(), value: vec![total] }],
        ..record(id, None, nobody.id)
    };
    put(opened, std::slice::from_ref(&nobody), &[with("a", 3), with("b", 1), with("c", 2), with("d", 2)])
        .await;
    let ask =
        RecordAsk { kind: Some("doc".into()), sort: Some("total".into()), limit: 3, ..RecordAsk::default() };
    let found = async |ask: &RecordAsk| {
        let found = opened.store.records().records(&acme(), ask).await.unwrap();
        found.iter().map(|one| (one.view.row.id.clone(), one.value.clone())).collect::<Vec<_>>()
    };
    let pair = |id: &str, value: u8| (id.to_owned(), vec![value]);
    assert_eq!(found(&ask).await, [pair("b", 1), pair("c", 2), pair("d", 2)]);
    let rest = RecordAsk { after: Some((vec![2], "c".into())), ..ask.clone() };
    assert_eq!(found(&rest).await, [pair("d", 2), pair("a", 3)]);
    let turned = RecordAsk { descending: true, ..rest.clone() };
    assert_eq!(found(&turned).await, [pair("b", 1)]);
    let between = |from: Option<(Vec<u8>, bool)>, to: Option<(Vec<u8>, bool)>| RecordAsk {
        conditions: vec![KeyCondition { name: "total".into(), from, to }],
        ..ask.clone()
    };
    assert_eq!(found(&between(Some((vec![2], true)), None)).await, [pair("a", 3)]);
    assert_eq!(found(&between(None, Some((vec![1], false)))).await, [pair("b", 1)]);
    let by_id = RecordAsk { after: Some((vec![], "b".into())), limit: 10, ..RecordAsk::default() };
    assert_eq!(found(&by_id).await.iter().map(|one| one.0.as_str()).collect::<Vec<_>>(), ["c", "d"]);
    assert!(found(&RecordAsk { kind: Some("other".into()), ..ask }).await.is_empty());
}

pub(crate) async fn who_may_not_read_does_not_find(opened: &Opened) {
    let open = list(r#"{"group:g":{"allow":1,"deny":0}}"#);
    let shut = list(r#"{"group:g":{"allow":1,"deny":0},"user:u":{"allow":0,"deny":1}}"#);
    let dumb = list(r#"{"group:g":{"allow":2,"deny":0}}"#);
    let records =
        [record("open", None, open.id), record("shut", None, shut.id), record("dumb", None, dumb.id)];
    put(opened, &[open, shut, dumb], &records).await;
    for (names, expected) in [
        (vec!["group:g"], vec!["open", "shut"]),
        (vec!["group:g", "user:u"], vec!["open"]),
        (vec!["user:u"], vec![]),
        (vec![], vec![]),
    ] {
        let names: Vec<String> = names.into_iter().map(str::to_owned).collect();
        let ask = RecordAsk { seen_by: Some(names.clone()), limit: 10, ..RecordAsk::default() };
        let found = opened.store.records().records(&acme(), &ask).await.unwrap();
        assert_eq!(
            found.iter().map(|one| one.view.row.id.as_str()).collect::<Vec<_>>(),
            expected,
            "{names:?}"
        );
        for id in ["open", "shut", "dumb"] {
            let one = opened.store.records().record(&acme(), id, Some(&names)).await.unwrap();
            assert_eq!(one.is_some(), expected.contains(&id), "{id} {names:?}");
        }
    }
}

pub(crate) async fn lists_are_handed_down_under_guard(opened: &Opened) {
    let (nobody, other) = (nobody(), list(r#"{"user:u":{"allow":1,"deny":0}}"#));
    let records = [
        record("top", None, nobody.id),
        record("a", Some("top"), nobody.id),
        record("b", Some("top"), nobody.id),
    ];
    put(opened, &[nobody.clone(), other.clone()], &records).await;
    let handed = |id: &str, generation: i64| Handed {
        id: id.into(),
        parent: Some("top".into()),
        generation,
        effective: other.id,
    };
    let hand = |parent: i64, children: Vec<Handed>| RecordWrite::HandDown {
        parents: vec![("top".into(), parent)],
        children,
    };
    assert_eq!(outcome(opened, hand(9, vec![handed("a", 1)])).await, LOST);
    // Whoever was changed meanwhile stays as it is; the others are given theirs.
    assert_eq!(outcome(opened, hand(1, vec![handed("a", 1), handed("b", 7)])).await, Outcome::Committed);
    let children = opened.store.records().acl_children(&acme(), &["top".into()], None, 10).await.unwrap();
    let seen: Vec<_> = children.iter().map(|one| (one.id.as_str(), one.effective, one.generation)).collect();
    assert_eq!(seen, [("a", other.id, 2), ("b", nobody.id, 1)]);
    let after = opened.store.records().acl_children(&acme(), &["top".into()], Some("a"), 10).await.unwrap();
    assert_eq!(after.len(), 1);
    let nodes = opened.store.records().acl_nodes(&acme(), &["a".into(), "gone".into()]).await.unwrap();
    assert_eq!(nodes, children[..1]);
    let lists = opened.store.records().acl_lists(&acme(), &[other.id]).await.unwrap();
    assert_eq!(lists, [(other.id, other.list)]);
}

fn work(name: &str, revokes: bool, level: i64) -> AclWorkRow {
    AclWorkRow {
        record: name.into(),
        root: "root".into(),
        revokes,
        level,
        since: Time(5),
        due_at: Time(5),
        cursor: None,
        attempt: 0,
        error: None,
        row_version: 1,
    }
}

pub(crate) async fn work_is_found_in_order_and_settled_under_guard(opened: &Opened) {
    let nobody = nobody();
    let mut records = vec![record("leaf", None, nobody.id)];
    for name in ["a", "b", "c"] {
        records.push(record(name, None, nobody.id));
        records.push(record(&format!("{name}1"), Some(name), nobody.id));
    }
    put(opened, std::slice::from_ref(&nobody), &records).await;
    let works = vec![work("leaf", true, 0), work("a", false, 0), work("b", true, 3), work("c", true, 2)];
    opened.put(vec![write(RecordWrite::PutWork(works))]).await;
    let store = opened.store.records();
    let due = async |now: i64| {
        let due = store.due_acl_work(Time(now), 10).await.unwrap();
        due.into_iter().map(|one| one.row).collect::<Vec<_>>()
    };
    let names = |rows: &[AclWorkRow]| rows.iter().map(|row| row.record.clone()).collect::<Vec<_>>();
    assert!(due(4).await.is_empty());
    assert_eq!(names(&due(5).await), ["c", "b", "a"], "a leaf has nothing to hand down");
    assert_eq!(store.next_acl_work().await.unwrap(), Some(Time(5)));
    let pending = store.acl_pending(Some(&acme())).await.unwrap();
    assert_eq!(pending, Pending { records: 3, revoking: 2, failed: 0, since: Some(Time(5)) });
    assert!(store.acl_propagates(&acme(), "root").await.unwrap());

    let step =
        |name: &str, row_version: i64, then: WorkThen| WorkStep { record: name.into(), row_version, then };
    let settle = |steps: Vec<WorkStep>| RecordWrite::SettleWork(steps);
    let gone =
        outcome(opened, settle(vec![step("a", 1, WorkThen::Done), step("b", 2, WorkThen::Done)])).await;
    assert_eq!(gone, Outcome::Conflict(Conflict::Gone), "and nothing of it landed");
    let later = WorkThen::Later { due_at: Time(50), attempt: 1, error: "no".into() };
    let steps =
        vec![step("a", 1, WorkThen::Done), step("b", 1, WorkThen::GoOn("b0".into())), step("c", 1, later)];
    assert_eq!(outcome(opened, settle(steps)).await, Outcome::Committed);
    let left = due(5).await;
    assert_eq!(
        (names(&left), left[0].cursor.as_deref(), left[0].row_version),
        (vec!["b".into()], Some("b0"), 2)
    );
    assert_eq!(names(&store.acl_work(&acme(), 10).await.unwrap()), ["c", "b"], "what failed comes first");
    // Newer work of the same record begins anew, and takes away first if the older did.
    let again = AclWorkRow { since: Time(9), root: "other".into(), ..work("b", false, 1) };
    opened.put(vec![write(RecordWrite::PutWork(vec![again]))]).await;
    let newest = due(9).await.remove(0);
    assert_eq!(
        (newest.root.as_str(), newest.cursor, newest.revokes, newest.since),
        ("other", None, true, Time(5))
    );
    assert_eq!(newest.row_version, 3);
}

pub(crate) async fn kinds_and_groups_are_guarded(opened: &Opened) {
    let kind = |row_version: i64| RecordKindRow {
        name: "doc".into(),
        schema: Some(b"{}".to_vec()),
        keys: b"[]".to_vec(),
        row_version,
        created_at: Time(1),
        updated_at: Time(row_version),
    };
    let put_kind = |version: i64| RecordWrite::PutKind { row: kind(version + 1), expected_version: version };
    assert_eq!(outcome(opened, put_kind(0)).await, Outcome::Committed);
    assert_eq!(outcome(opened, put_kind(0)).await, LOST);
    assert_eq!(outcome(opened, put_kind(1)).await, Outcome::Committed);
    let store = opened.store.records();
    assert_eq!(store.record_kind(&acme(), "doc").await.unwrap(), Some(kind(2)));
    assert_eq!(store.record_kinds(&acme()).await.unwrap(), [kind(2)]);
    let nobody = nobody();
    put(opened, std::slice::from_ref(&nobody), &[record("a", None, nobody.id)]).await;
    let delete = || RecordWrite::DeleteKind { name: "doc".into() };
    assert_eq!(outcome(opened, delete()).await, Outcome::Conflict(Conflict::Gone), "a record is of it");
    opened.put(vec![write(RecordWrite::Delete { id: "a".into(), version: 1 })]).await;
    assert_eq!(outcome(opened, delete()).await, Outcome::Committed);

    let group = |members: &[&str], row_version: i64| GroupRow {
        name: "g".into(),
        members: members.iter().map(|name| (*name).to_owned()).collect(),
        roles: vec!["r".into()],
        row_version,
        created_at: Time(1),
        updated_at: Time(1),
    };
    let put_group = |row: GroupRow| RecordWrite::PutGroup { expected_version: row.row_version - 1, row };
    assert_eq!(outcome(opened, put_group(group(&["ann", "bob"], 1))).await, Outcome::Committed);
    assert_eq!(outcome(opened, put_group(group(&["bob"], 2))).await, Outcome::Committed);
    assert_eq!(outcome(opened, put_group(group(&["eve"], 2))).await, LOST);
    assert_eq!(store.groups(&acme(), Some("bob")).await.unwrap(), [group(&["bob"], 2)]);
    assert_eq!(store.groups(&acme(), Some("ann")).await.unwrap(), []);
    assert_eq!(store.groups(&acme(), None).await.unwrap(), [group(&["bob"], 2)]);
    let gone = || RecordWrite::DeleteGroup { name: "g".into() };
    assert_eq!(outcome(opened, gone()).await, Outcome::Committed);
    assert_eq!(outcome(opened, gone()).await, Outcome::Conflict(Conflict::Gone));
    assert_eq!(store.groups(&acme(), Some("bob")).await.unwrap(), []);
}

pub(crate) async fn records_of_others_are_not_there(opened: &Opened) {
    let open = list(r#"{"user:u":{"allow":7,"deny":0}}"#);
    put(opened, std::slice::from_ref(&open), &[record("a", None, open.id), record("b", Some("a"), open.id)])
        .await;
    let (other, store) = (tenant("other"), opened.store.records());
    let names = ["user:u".to_owned()];
    assert_eq!(store.record(&other, "a", None).await.unwrap(), None);
    assert_eq!(store.record(&other, "a", Some(&names)).await.unwrap(), None);
    assert!(store.ancestors(&other, "b", 9).await.unwrap().is_empty());
    assert!(!store.has_children(&other, "a").await.unwrap());
    assert!(store.acl_children(&other, &["a".into()], None, 9).await.unwrap().is_empty());
    assert!(store.acl_lists(&other, &[open.id]).await.unwrap().is_empty());
    let ask = RecordAsk { limit: 9, ..RecordAsk::default() };
    assert!(store.records(&other, &ask).await.unwrap().is_empty());
    let delete = write(RecordWrite::Delete { id: "b".into(), version: 1 });
    let theirs = Commit { tenant: other, writes: vec![delete] };
    assert_eq!(opened.commit(vec![theirs]).await, [LOST]);
}
