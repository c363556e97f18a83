//! Records and who may do what with them: one event per change, lists handed down behind it, old rules until then.

use crate::support::*;
use machine::{
    Data, TenantId,
    acl::{Acl, Effective, Grant, Right},
    record::KeyDeclaration,
};
use runtime::{
    Handle,
    api::{Asker, RecordChange, RecordDraft, Refusal},
};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use store::{
    RecordWrite, Store, Write,
    records::{RecordAsk, RecordView},
    rows::{NewRecord, RecordRow},
};

fn grant(to: &str, rights: &[Right], deny: bool) -> Grant {
    Grant { to: to.to_owned(), rights: rights.to_vec(), deny }
}

fn acl(grants: Vec<Grant>) -> Acl {
    Acl { inherits: true, grants }
}

fn reads(to: &str) -> Acl {
    acl(vec![grant(to, &[Right::Read], false)])
}

fn as_user(name: &str) -> Asker {
    Asker::of([format!("user:{name}")])
}

fn draft(id: &str, parent: Option<&str>, acl: Option<Acl>) -> RecordDraft {
    let (kind, parent) = ("doc".to_owned(), parent.map(str::to_owned));
    RecordDraft { id: Some(id.to_owned()), kind, parent, body: Data::object(), acl }
}

async fn make(up: &Up, id: &str, parent: Option<&str>, acl: Option<Acl>) -> RecordView {
    up.handle.create_record(&up.tenant, &Asker::of_all(), draft(id, parent, acl)).await.unwrap()
}

async fn kind(up: &Up) {
    up.handle.put_record_kind(&up.tenant, "doc", None, &[]).await.unwrap();
}

async fn change(up: &Up, id: &str, change: RecordChange) -> Result<RecordView, Refusal> {
    up.handle.change_record(&up.tenant, &Asker::of_all(), id, &change).await
}

async fn regrant(up: &Up, id: &str, acl: Acl) {
    change(up, id, RecordChange { acl: Some(acl), ..RecordChange::default() }).await.unwrap();
}

async fn may_read(handle: &Handle, tenant: &TenantId, user: &str, id: &str) -> bool {
    match handle.record(tenant, &as_user(user), id).await {
        Ok(_) => true,
        Err(Refusal::NotFound(_)) => false,
        Err(other) => panic!("{other}"),
    }
}

/// Waits until every list has been handed down.
async fn settled(world: &World) {
    until(|| async { world.store.records().acl_pending(None).await.unwrap().records == 0 }).await;
}

async fn all(store: &dyn Store, tenant: &TenantId) -> BTreeMap<String, RecordView> {
    let (mut found, mut after) = (BTreeMap::new(), None);
    loop {
        let ask = RecordAsk { after: after.take(), limit: 200, ..RecordAsk::default() };
        let page = store.records().records(tenant, &ask).await.unwrap();
        let Some(last) = page.last() else { return found };
        after = Some((vec![], last.view.row.id.clone()));
        found.extend(page.into_iter().map(|one| (one.view.row.id.clone(), one.view)));
    }
}

/// Every stored list is what a recomputation from the top gives.
async fn equals_recomputation(world: &World) {
    fn fresh(all: &BTreeMap<String, RecordView>, id: &str) -> Effective {
        let row = &all[id].row;
        let above = row.parent.as_deref().map(|parent| fresh(all, parent));
        Effective::of(above.as_ref(), &Acl::parse(&row.acl).unwrap())
    }
    let all = all(&*world.store, &world.tenant).await;
    for (id, view) in &all {
        assert_eq!(Effective::parse(&view.list).unwrap(), fresh(&all, id), "{id}");
        assert_eq!(view.row.effective, fresh(&all, id).id(), "{id}");
    }
}

/// How many events of each type are there.
async fn events(world: &World) -> BTreeMap<String, usize> {
    until(|| async { world.counts().await.outbox == 0 }).await;
    let mut counts = BTreeMap::new();
    for event in world.store.events(&world.tenant, &Default::default(), &whole_page()).await.unwrap() {
        *counts.entry(event.event_type).or_default() += 1;
    }
    counts
}

fn count(counts: &BTreeMap<String, usize>, name: &str) -> usize {
    counts.get(name).copied().unwrap_or(0)
}

#[tokio::test(start_paused = true)]
async fn only_a_change_of_parent_or_grants_recalculates() {
    let world = World::new();
    let up = world.node().await;
    kind(&up).await;
    make(&up, "a", None, None).await;
    make(&up, "b", None, None).await;
    assert_eq!(count(&events(&world).await, "RecalculateAcl"), 0);
    let body = RecordChange { body: Some(Data::from_json(json!({"x": 1}))), ..RecordChange::default() };
    let changed = change(&up, "b", body.clone()).await.unwrap();
    assert_eq!(changed.row.version, 2);
    // The same again is no change at all.
    assert_eq!(change(&up, "b", body).await.unwrap().row.version, 2);
    let counted = events(&world).await;
    assert_eq!((count(&counted, "record.changed"), count(&counted, "RecalculateAcl")), (1, 0));
    let moved = RecordChange { parent: Some(Some("a".to_owned())), ..RecordChange::default() };
    change(&up, "b", moved).await.unwrap();
    assert_eq!(count(&events(&world).await, "RecalculateAcl"), 1);
    regrant(&up, "a", reads("user:ann")).await;
    assert_eq!(count(&events(&world).await, "RecalculateAcl"), 2);
    up.handle.delete_record(&up.tenant, &Asker::of_all(), "b", None).await.unwrap();
    let counted = events(&world).await;
    assert_eq!((count(&counted, "record.created"), count(&counted, "record.deleted")), (2, 1));
    assert_eq!(count(&counted, "RecalculateAcl"), 2);
    up.stop().await;
}

#[tokio::test(start_paused = true)]
async fn every_record_of_a_tree_gets_what_a_recomputation_gives() {
    let world = World::new();
    let up = world.node().await;
    kind(&up).await;
    make(&up, "top", None, Some(reads("group:staff"))).await;
    for folder in 0..10 {
        // Some folders say something of their own, one begins anew.
        let own = match folder {
            3 => Some(acl(vec![grant("group:staff", &[Right::Read], true)])),
            4 => Some(Acl { inherits: false, grants: vec![] }),
            _ => None,
        };
        make(&up, &format!("f{folder}"), Some("top"), own).await;
        for document in 0..100 {
            make(&up, &format!("f{folder}-{document:03}"), Some(&format!("f{folder}")), None).await;
        }
    }
    equals_recomputation(&world).await;
    regrant(&up, "top", reads("user:ann")).await;
    settled(&world).await;
    equals_recomputation(&world).await;
    assert!(may_read(&up.handle, &up.tenant, "ann", "f1-007").await);
    assert!(!may_read(&up.handle, &up.tenant, "ann", "f4-007").await);
    let moved = RecordChange { parent: Some(Some("f4".to_owned())), ..RecordChange::default() };
    change(&up, "f1", moved).await.unwrap();
    settled(&world).await;
    equals_recomputation(&world).await;
    assert!(!may_read(&up.handle, &up.tenant, "ann", "f1-007").await);
    up.stop().await;
}

/// The request is answered at once, whatever is below; children have what held before until the change reaches them.
#[tokio::test(start_paused = true)]
async fn old_rules_hold_until_the_change_arrives() {
    let world = World::new();
    let up = world.node().await;
    kind(&up).await;
    make(&up, "top", None, Some(reads("user:ann"))).await;
    make(&up, "child", Some("top"), None).await;
    make(&up, "leaf", Some("child"), None).await;
    // Nothing is handed down while steps do not land.
    let is_step = |commit: &store::Commit| {
        let first = commit.writes.first();
        matches!(first, Some(Write::Record(write)) if matches!(**write, RecordWrite::SettleWork(_)))
    };
    up.tap.on_commit(move |batch| match batch.iter().any(is_step) {
        true => trial::tap::Act::Unavailable,
        false => trial::tap::Act::Pass,
    });
    regrant(&up, "top", reads("user:bob")).await;
    assert!(may_read(&up.handle, &up.tenant, "bob", "top").await, "the record itself follows at once");
    assert!(may_read(&up.handle, &up.tenant, "ann", "leaf").await, "the old rules hold below");
    assert!(!may_read(&up.handle, &up.tenant, "bob", "leaf").await);
    let pending = world.store.records().acl_pending(Some(&up.tenant)).await.unwrap();
    assert_eq!((pending.records, pending.revoking), (1, 1), "and that is to be seen");
    let names = BTreeSet::from(["user:ann".to_owned()]);
    let why = up.handle.explain_acl(&up.tenant, "leaf", &names, Right::Read).await.unwrap();
    assert_eq!((why.allowed, why.becomes), (true, Some(false)));
    up.tap.on_commit(|_| trial::tap::Act::Pass);
    settled(&world).await;
    assert!(!may_read(&up.handle, &up.tenant, "ann", "leaf").await);
    assert!(may_read(&up.handle, &up.tenant, "bob", "leaf").await);
    up.stop().await;
}

#[tokio::test(start_paused = true)]
async fn no_record_comes_to_be_below_itself() {
    let world = World::new();
    let up = world.node().await;
    kind(&up).await;
    make(&up, "a", None, None).await;
    make(&up, "b", Some("a"), None).await;
    make(&up, "c", Some("b"), None).await;
    for parent in ["a", "b", "c"] {
        let under = RecordChange { parent: Some(Some(parent.to_owned())), ..RecordChange::default() };
        let refused = change(&up, "a", under).await.unwrap_err();
        assert!(matches!(refused, Refusal::Conflict { code: "record-cycle", .. }), "{refused}");
    }
    let refused = up.handle.delete_record(&up.tenant, &Asker::of_all(), "a", None).await.unwrap_err();
    assert!(matches!(refused, Refusal::Conflict { code: "record-has-children", .. }), "{refused}");
    up.stop().await;
}

/// Changes, moves and deletes all over the tree, while lists are being handed down.
#[tokio::test(start_paused = true)]
async fn moves_and_deletes_meanwhile_leave_every_list_right() {
    let world = World::new();
    let up = world.node().await;
    kind(&up).await;
    make(&up, "top", None, None).await;
    for folder in 0..5 {
        make(&up, &format!("f{folder}"), Some("top"), None).await;
        for document in 0..20 {
            make(&up, &format!("f{folder}-{document:02}"), Some(&format!("f{folder}")), None).await;
        }
    }
    for round in 0..10 {
        regrant(&up, "top", reads(&format!("user:u{round}"))).await;
        let (from, to) = (round % 5, (round + 2) % 5);
        let under = RecordChange { parent: Some(Some(format!("f{to}"))), ..RecordChange::default() };
        change(&up, &format!("f{from}-{round:02}"), under).await.unwrap();
        regrant(&up, &format!("f{to}"), acl(vec![grant("role:r", &[Right::Write], round % 2 == 0)])).await;
        let gone = format!("f{}-{:02}", (from + 1) % 5, 19 - round);
        up.handle.delete_record(&up.tenant, &Asker::of_all(), &gone, None).await.unwrap();
        make(&up, &format!("new{round}"), Some(&format!("f{from}")), None).await;
    }
    settled(&world).await;
    equals_recomputation(&world).await;
    up.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_record_that_cannot_be_read_does_not_stop_the_rest() {
    let world = World::new();
    let up = world.node().await;
    kind(&up).await;
    let top = make(&up, "top", None, Some(reads("user:ann"))).await;
    make(&up, "well", Some("top"), None).await;
    let row = RecordRow {
        id: "broken".to_owned(),
        parent: Some("top".to_owned()),
        acl: b"not a list".to_vec(),
        ..top.row.clone()
    };
    let broken = NewRecord { row, keys: vec![], parent_generation: Some(top.row.generation) };
    world.write(vec![Write::Record(Box::new(RecordWrite::Create(vec![broken])))]).await;
    regrant(&up, "top", reads("user:bob")).await;
    let pending = || async { world.store.records().acl_pending(None).await.unwrap() };
    until(|| async { pending().await.failed == 1 }).await;
    until(|| may_read(&up.handle, &up.tenant, "bob", "well")).await;
    assert!(!may_read(&up.handle, &up.tenant, "ann", "broken").await, "nobody may what cannot be read");
    assert!(!may_read(&up.handle, &up.tenant, "bob", "broken").await);
    regrant(&up, "broken", Acl::default()).await;
    settled(&world).await;
    assert!(may_read(&up.handle, &up.tenant, "bob", "broken").await);
    up.stop().await;
}

#[tokio::test(start_paused = true)]
async fn rights_come_from_groups_and_roles_and_are_needed_for_every_act() {
    let world = World::new();
    let up = world.node().await;
    kind(&up).await;
    let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<String>>();
    up.handle.put_group(&up.tenant, "sales", &set(&["ann", "bob"]), &set(&["seller"])).await.unwrap();
    let rules = vec![
        grant("group:sales", &[Right::Read], false),
        grant("role:seller", &[Right::Write], false),
        grant("user:bob", &[Right::Read], true),
    ];
    make(&up, "deal", None, Some(acl(rules))).await;
    let names = up.handle.names_of(&up.tenant, "ann").await.unwrap();
    assert_eq!(names, set(&["user:ann", "group:sales", "role:seller"]));
    let ann = Asker::of(names);
    let bob = Asker::of(up.handle.names_of(&up.tenant, "bob").await.unwrap());
    assert!(up.handle.record(&up.tenant, &ann, "deal").await.is_ok());
    assert!(matches!(up.handle.record(&up.tenant, &bob, "deal").await, Err(Refusal::NotFound(_))));
    let body = RecordChange { body: Some(Data::from_json(json!([1]))), ..RecordChange::default() };
    up.handle.change_record(&up.tenant, &ann, "deal", &body).await.unwrap();
    let share = RecordChange { acl: Some(Acl::default()), ..RecordChange::default() };
    let refused = up.handle.change_record(&up.tenant, &ann, "deal", &share).await.unwrap_err();
    assert!(matches!(refused, Refusal::Forbidden { code: "record-forbidden", .. }), "{refused}");
    // Whoever puts something at the top has it; below something, the right to write there is needed.
    up.handle.create_record(&up.tenant, &ann, draft("own", None, None)).await.unwrap();
    assert!(up.handle.record(&up.tenant, &ann, "own").await.is_ok());
    let refused =
        up.handle.create_record(&up.tenant, &bob, draft("x", Some("deal"), None)).await.unwrap_err();
    assert!(matches!(refused, Refusal::Invalid { code: "record-parent-unknown", .. }), "{refused}");
    let names = up.handle.names_of(&up.tenant, "bob").await.unwrap();
    let why = up.handle.explain_acl(&up.tenant, "deal", &names, Right::Read).await.unwrap();
    let decided = (why.verdict, why.decided_by.as_deref(), why.decided_at.as_deref());
    assert_eq!(decided, ("denied", Some("user:bob"), Some("deal")));
    up.stop().await;
}

#[tokio::test(start_paused = true)]
async fn bodies_fit_their_kind_and_changes_their_version() {
    let world = World::new();
    let up = world.node().await;
    let schema: Value = json!({ "type": "object", "required": ["total"] });
    let keys = [KeyDeclaration { name: "total".to_owned(), path: "/total".to_owned() }];
    let schema = Data::from_json(schema);
    assert!(up.handle.put_record_kind(&up.tenant, "doc", Some(&schema), &keys).await.unwrap());
    let refused =
        up.handle.create_record(&up.tenant, &Asker::of_all(), draft("a", None, None)).await.unwrap_err();
    assert!(matches!(refused, Refusal::Invalid { code: "record-invalid", .. }), "{refused}");
    let fits = RecordDraft { body: Data::from_json(json!({"total": 5})), ..draft("a", None, None) };
    up.handle.create_record(&up.tenant, &Asker::of_all(), fits).await.unwrap();
    let late = RecordChange {
        body: Some(Data::from_json(json!({"total": 6}))),
        version: Some(9),
        ..RecordChange::default()
    };
    let refused = change(&up, "a", late.clone()).await.unwrap_err();
    assert!(matches!(refused, Refusal::Stale { current: 1 }), "{refused}");
    change(&up, "a", RecordChange { version: Some(1), ..late }).await.unwrap();
    let refused = up.handle.put_record_kind(&up.tenant, "doc", Some(&schema), &[]).await.unwrap_err();
    assert!(matches!(refused, Refusal::Conflict { code: "record-kind-in-use", .. }), "{refused}");
    let unknown = RecordDraft { kind: "other".to_owned(), ..draft("b", None, None) };
    let refused = up.handle.create_record(&up.tenant, &Asker::of_all(), unknown).await.unwrap_err();
    assert!(matches!(refused, Refusal::Invalid { code: "record-kind-unknown", .. }), "{refused}");
    up.stop().await;
}
