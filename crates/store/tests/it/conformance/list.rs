//! What is read is what was written; lists run newest first, page by page, under every filter.

use super::Opened;
use crate::fixture::*;
use machine::{
    TenantId, Time,
    state::{ENDED_WORDS, OPEN_WORDS},
};
use store::{rows::*, views::*, *};
use uuid::Uuid;

const ALL: Page = Page { after: None, limit: PAGE_MAX };

pub(crate) async fn children_are_listed_whatever_their_status(opened: &Opened) {
    let words: Vec<&str> = OPEN_WORDS.into_iter().chain(ENDED_WORDS).collect();
    let parent = ParentRow { instance: id(90), token: 1, item: None };
    let child = |(at, word): (usize, &&str)| InstanceRow {
        parent: Some(parent),
        status: (*word).to_owned(),
        ..instance(at as u128 + 1)
    };
    opened.put(words.iter().enumerate().map(child).map(create_row).collect()).await;
    opened.put(vec![create(90)]).await;
    let filter = InstanceFilter { parent: Some(id(90)), ..InstanceFilter::default() };
    let listed = opened.store.instances(&acme(), &filter, &ALL).await.unwrap();
    let listed: Vec<&str> = listed.iter().rev().map(|view| view.row.status.as_str()).collect();
    assert_eq!(listed, words);
}

pub(crate) async fn load_and_instance_show_what_was_written(opened: &Opened) {
    let row = InstanceRow {
        business_key: Some("order-7".into()),
        business_parts: Some(b"{\"order\":7}".to_vec()),
        output: Some(b"1".to_vec()),
        error: Some(b"2".to_vec()),
        context: Some(b"3".to_vec()),
        traceparent: Some("00-aa-bb-01".into()),
        correlation_id: Some("c-1".into()),
        ended_at: Some(Time(7)),
        ..instance(1)
    };
    let state = StateRow {
        runtime_status: "Suspended".into(),
        waiting_kind: Some("TaskCompletion".into()),
        waiting_token: Some("t-1".into()),
        waiting_until: Some(Time(77)),
        active_task_id: Some(id(5)),
        resume_pointer_json: Some(b"{\"s\":1}".to_vec()),
        last_signal_id: Some(id(6)),
        last_error_code: Some("timeout".into()),
        last_error_json: Some(b"{}".to_vec()),
        ..state(1, 1)
    };
    let created = Write::CreateInstance { instance: Box::new(row.clone()), state: Box::new(state.clone()) };
    opened.put(vec![created]).await;
    let expected = LoadedState {
        state_version: 1,
        namespace: "shop".into(),
        name: "order".into(),
        version: "1.0.0".into(),
        state_json: state.state_json.clone(),
    };
    assert_eq!(opened.store.load(&acme(), id(1)).await.unwrap(), Some(expected));
    let view = opened.store.instance(&acme(), id(1)).await.unwrap().unwrap();
    assert_eq!(view.row, row);
    assert_eq!((view.state_version, view.runtime_status.as_str()), (1, "Suspended"));
    assert_eq!((view.waiting_kind, view.waiting_until), (state.waiting_kind.clone(), state.waiting_until));
    assert_eq!((view.active_task_id, view.last_executed_by), (Some(id(5)), node(1)));
    assert_eq!(view.resume_pointer_json, state.resume_pointer_json);
    // The next snapshot replaces every column.
    let next = StateRow { last_executed_by: node(2), ..crate::fixture::state(1, 2) };
    opened.put(vec![Write::UpdateState(Box::new(next))]).await;
    let view = opened.store.instance(&acme(), id(1)).await.unwrap().unwrap();
    assert_eq!((view.state_version, view.runtime_status.as_str()), (2, "Open"));
    assert_eq!((view.waiting_kind, view.waiting_until, view.active_task_id), (None, None, None));
    assert_eq!((view.resume_pointer_json, view.last_executed_by), (None, node(2)));
    assert!(opened.store.load(&acme(), id(2)).await.unwrap().is_none());
    assert!(opened.store.instance(&acme(), id(2)).await.unwrap().is_none());
}

async fn changed(opened: &Opened, change: InstanceChange) -> InstanceRow {
    opened.put(vec![Write::UpdateInstance(Box::new(change))]).await;
    opened.store.instance(&acme(), id(1)).await.unwrap().unwrap().row
}

pub(crate) async fn changes_leave_the_rest(opened: &Opened) {
    opened.put(vec![create(1)]).await;
    let row = changed(opened, change(1, "waiting")).await;
    let expected = InstanceRow { status: "waiting".into(), updated_at: Time(9_000), ..instance(1) };
    assert_eq!(row, expected);
    let failed = InstanceChange {
        output: Some(b"o".to_vec()),
        error: Some(Some(b"e".to_vec())),
        context: Some(b"c".to_vec()),
        ended_at: Some(Some(Time(5))),
        ..change(1, "faulted")
    };
    let row = changed(opened, failed).await;
    assert_eq!((row.output.as_deref(), row.error.as_deref()), (Some(&b"o"[..]), Some(&b"e"[..])));
    assert_eq!((row.context.as_deref(), row.ended_at), (Some(&b"c"[..]), Some(Time(5))));
    let row = changed(opened, change(1, "faulted")).await;
    assert_eq!((row.error.as_deref(), row.ended_at), (Some(&b"e"[..]), Some(Time(5))));
    let retried = InstanceChange { error: Some(None), ended_at: Some(None), ..change(1, "running") };
    let row = changed(opened, retried).await;
    assert_eq!((row.error, row.ended_at, row.output), (None, None, Some(b"o".to_vec())));
}

pub(crate) async fn history_runs_upwards(opened: &Opened) {
    opened.put(vec![create(1)]).await;
    // Written out of order, and beside another instance.
    for version in [3, 1, 2, 10, 9] {
        opened.put(vec![history(1, version), history(2, version)]).await;
    }
    let versions = async |after, limit| -> Vec<i64> {
        let rows = opened.store.history(&acme(), id(1), after, limit).await.unwrap();
        assert!(rows.iter().all(|row| row.instance == id(1)));
        rows.into_iter().map(|row| row.version).collect()
    };
    assert_eq!(versions(0, 100).await, [1, 2, 3, 9, 10]);
    assert_eq!(versions(0, 2).await, [1, 2]);
    assert_eq!(versions(2, 2).await, [3, 9]);
    assert!(versions(10, 2).await.is_empty());
    let outcomes = opened.commit(vec![commit(vec![history(1, 2)])]).await;
    assert!(matches!(outcomes[..], [Outcome::Rejected(_)]), "{outcomes:?}");
}

fn ids(views: &[InstanceView]) -> Vec<Uuid> {
    views.iter().map(|view| view.row.id).collect()
}

pub(crate) async fn pages_run_newest_first(opened: &Opened) {
    let numbers: Vec<u128> = (1..=25).collect();
    opened.put(numbers.iter().map(|n| create(*n)).collect()).await;
    let mut seen = Vec::new();
    let mut page = Page { after: None, limit: 10 };
    loop {
        let rows = opened.store.instances(&acme(), &InstanceFilter::default(), &page).await.unwrap();
        let Some(last) = rows.last() else { break };
        assert!(rows.len() <= 10);
        page.after = Some(last.row.id);
        seen.extend(ids(&rows));
        // What is created meanwhile is newer and disturbs no page that follows.
        opened.put(vec![create(100 + seen.len() as u128)]).await;
    }
    let expected: Vec<Uuid> = numbers.iter().rev().map(|n| id(*n)).collect();
    assert_eq!(seen, expected);
    // Limits are held to 1 and the most.
    let none = Page { after: None, limit: 0 };
    assert_eq!(opened.store.instances(&acme(), &InstanceFilter::default(), &none).await.unwrap().len(), 1);
    let huge = Page { after: None, limit: usize::MAX };
    assert_eq!(opened.store.instances(&acme(), &InstanceFilter::default(), &huge).await.unwrap().len(), 28);
}

/// What the beginning of an id is looked up by.
pub(crate) async fn a_page_may_begin_at_an_id_that_is_not_there(opened: &Opened) {
    for number in [1, 2, 5] {
        let letter = Write::DeadLetter(Box::new(dead_letter(number)));
        opened.put(vec![create(number), Write::CreateTask(Box::new(task(number))), letter]).await;
    }
    let store = &opened.store;
    for (after, expected) in
        [(id(4), vec![id(2), id(1)]), (Uuid::max(), vec![id(5), id(2), id(1)]), (id(1), vec![])]
    {
        let page = Page { after: Some(after), limit: 10 };
        let rows = store.instances(&acme(), &InstanceFilter::default(), &page).await.unwrap();
        assert_eq!(ids(&rows), expected);
        let tasks = store.tasks(&acme(), &TaskFilter::default(), &page).await.unwrap();
        assert_eq!(tasks.into_iter().map(|task| task.id).collect::<Vec<_>>(), expected);
        let letters = store.dead_letters(&acme(), &DeadLetterFilter::default(), &page).await.unwrap();
        assert_eq!(letters.into_iter().map(|letter| letter.id).collect::<Vec<_>>(), expected);
    }
}

pub(crate) async fn filters_select(opened: &Opened) {
    let rows = [
        instance(1),
        InstanceRow { status: "completed".into(), business_key: Some("k".into()), ..instance(2) },
        InstanceRow { status: "faulted".into(), name: "invoice".into(), ..instance(3) },
        InstanceRow { version: "2.0.0".into(), namespace: "billing".into(), ..instance(4) },
    ];
    opened.put(rows.into_iter().map(create_row).collect()).await;
    let found =
        async |filter: InstanceFilter| ids(&opened.store.instances(&acme(), &filter, &ALL).await.unwrap());
    let any = InstanceFilter::default;
    let text = |text: &str| Some(text.to_owned());
    let statuses = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    assert_eq!(found(any()).await, [id(4), id(3), id(2), id(1)]);
    assert_eq!(found(InstanceFilter { statuses: statuses(&["running"]), ..any() }).await, [id(4), id(1)]);
    let ended = statuses(&["completed", "faulted"]);
    assert_eq!(found(InstanceFilter { statuses: ended.clone(), ..any() }).await, [id(3), id(2)]);
    assert_eq!(found(InstanceFilter { name: text("invoice"), ..any() }).await, [id(3)]);
    assert_eq!(found(InstanceFilter { namespace: text("billing"), ..any() }).await, [id(4)]);
    assert_eq!(found(InstanceFilter { version: text("1.0.0"), ..any() }).await, [id(3), id(2), id(1)]);
    assert_eq!(found(InstanceFilter { business_key: text("k"), ..any() }).await, [id(2)]);
    let span = InstanceFilter { created_from: Some(Time(1_002)), created_to: Some(Time(1_004)), ..any() };
    assert_eq!(found(span).await, [id(3), id(2)]);
    let both = InstanceFilter { statuses: ended, name: text("order"), ..any() };
    assert_eq!(found(both).await, [id(2)]);
    let hostile = InstanceFilter { name: text("' OR 1=1 --"), ..any() };
    assert!(found(hostile).await.is_empty());
}

pub(crate) async fn by_business_key(opened: &Opened) {
    let keyed = |number, ended: Option<i64>| {
        let business_key = Some("k".to_owned());
        create_row(InstanceRow { business_key, ended_at: ended.map(Time), ..instance(number) })
    };
    let found = async || opened.store.instance_by_key(&acme(), "k").await.unwrap().map(|view| view.row.id);
    assert_eq!(found().await, None);
    opened.put(vec![keyed(1, Some(5)), keyed(3, Some(6))]).await;
    assert_eq!(found().await, Some(id(3)));
    // The open one wins even over a newer one that has ended.
    opened.put(vec![keyed(2, None), keyed(4, Some(7))]).await;
    assert_eq!(found().await, Some(id(2)));
}

pub(crate) async fn definitions_by_semver(opened: &Opened) {
    let versions =
        ["1.9.0", "1.10.0", "1.10.0-rc.2", "1.10.0-rc.10", "0.1.0", "1.2.0+build.7", "1.11.0-rc.1"];
    for version in versions {
        opened.put(vec![Write::CreateDefinition(Box::new(definition("order", version)))]).await;
    }
    opened.put(vec![Write::CreateDefinition(Box::new(definition("invoice", "9.0.0")))]).await;
    let t = acme();
    let highest = opened.store.definition(&t, "shop", "order", None).await.unwrap();
    assert_eq!(highest, Some(definition("order", "1.10.0")));
    let exact = opened.store.definition(&t, "shop", "order", Some("0.1.0")).await.unwrap();
    assert_eq!(exact, Some(definition("order", "0.1.0")));
    assert_eq!(opened.store.definition(&t, "shop", "order", Some("7.0.0")).await.unwrap(), None);
    assert_eq!(opened.store.definition(&t, "shop", "none", None).await.unwrap(), None);
    let shown = |rows: Vec<DefinitionSummary>| -> Vec<String> {
        rows.into_iter().map(|row| format!("{} {}", row.name, row.version)).collect()
    };
    let listed = async |namespace: Option<&str>, after: Option<(&str, &str)>, limit| {
        let filter = DefinitionFilter {
            namespace: namespace.map(str::to_owned),
            after: after.map(|(namespace, name)| (namespace.to_owned(), name.to_owned())),
            limit,
        };
        shown(opened.store.definitions(&t, &filter).await.unwrap())
    };
    let order = [
        "order 1.11.0-rc.1",
        "order 1.10.0",
        "order 1.10.0-rc.10",
        "order 1.10.0-rc.2",
        "order 1.9.0",
        "order 1.2.0+build.7",
        "order 0.1.0",
    ];
    assert_eq!(shown(opened.store.versions(&t, "shop", "order").await.unwrap()), order);
    assert_eq!(shown(opened.store.versions(&t, "shop", "none").await.unwrap()), [""; 0]);
    assert_eq!(listed(None, None, 10).await, ["invoice 9.0.0", "order 1.10.0"]);
    assert_eq!(listed(None, None, 1).await, ["invoice 9.0.0"]);
    assert_eq!(listed(None, Some(("shop", "invoice")), 10).await, ["order 1.10.0"]);
    assert_eq!(listed(Some("shop"), None, 10).await.len(), 2);
    assert_eq!(listed(Some("other"), None, 10).await, [""; 0]);
}

pub(crate) async fn outbox_in_commit_order(opened: &Opened) {
    // Ids need not follow the order of the commits.
    for number in [5, 2, 9, 1] {
        opened.put(vec![Write::Outbox(outbox(number))]).await;
    }
    let waiting = async |limit| -> Vec<Uuid> {
        let rows = opened.store.outbox(&OutboxAsk::of(limit)).await.unwrap();
        rows.into_iter().map(|row| row.row.id).collect()
    };
    assert_eq!(waiting(10).await, [id(5), id(2), id(9), id(1)]);
    assert_eq!(waiting(2).await, [id(5), id(2)]);
    opened.put(vec![Write::OutboxSent { ids: vec![id(5), id(9), id(77)] }]).await;
    assert_eq!(waiting(10).await, [id(2), id(1)]);
    opened.put(vec![Write::OutboxSent { ids: vec![id(1)] }]).await;
    opened.put(vec![Write::Outbox(outbox(1))]).await;
    assert_eq!(waiting(10).await, [id(2), id(1)]);
    let row = opened.store.outbox(&OutboxAsk::of(1)).await.unwrap().remove(0);
    assert_eq!(row, Claimed { tenant: acme(), row: outbox(2) });
}

/// Whoever emits much, or cannot be published, holds up nobody else.
pub(crate) async fn outbox_in_shares(opened: &Opened) {
    let many = (1..=20).map(|number| Write::Outbox(outbox(number)));
    opened.put(many.collect()).await;
    let zoo = tenant("zoo");
    let few =
        Commit { tenant: zoo.clone(), writes: vec![Write::Outbox(outbox(50)), Write::Outbox(outbox(51))] };
    assert_eq!(opened.commit(vec![few]).await, [Outcome::Committed]);
    let found = async |ask: OutboxAsk| -> Vec<(TenantId, Uuid)> {
        let rows = opened.store.outbox(&ask).await.unwrap();
        rows.into_iter().map(|one| (one.tenant, one.row.id)).collect()
    };
    let of = |name: &str, ids: &[u128]| -> Vec<(TenantId, Uuid)> {
        ids.iter().map(|number| (tenant(name), id(*number))).collect()
    };
    assert_eq!(found(OutboxAsk::of(4)).await, [of("acme", &[1, 2]), of("zoo", &[50, 51])].concat());
    let but = OutboxAsk { but_tenants: vec![acme()], ..OutboxAsk::of(4) };
    assert_eq!(found(but).await, of("zoo", &[50, 51]));
    // Of the keys of a tenant those that are left out hold up no other.
    let key = outbox(1).key;
    opened.put(vec![Write::Outbox(OutboxRow { key: "another \" key".to_owned(), ..outbox(30) })]).await;
    let but = OutboxAsk { but_keys: vec![(acme(), key.clone())], ..OutboxAsk::of(4) };
    assert_eq!(found(but).await, [of("acme", &[30]), of("zoo", &[50, 51])].concat());
    let both = vec![(acme(), key.clone()), (acme(), "another \" key".to_owned()), (zoo, key)];
    assert_eq!(found(OutboxAsk { but_keys: both, ..OutboxAsk::of(4) }).await, []);
    assert_eq!(found(OutboxAsk::of(1)).await, of("acme", &[1]), "who waits longest comes first");
}

pub(crate) async fn dead_letters_by_filter(opened: &Opened) {
    let rows = [
        dead_letter(1),
        DeadLetterRow { reason: "definition-missing".into(), source: "timer".into(), ..dead_letter(2) },
        DeadLetterRow {
            instance: None,
            source: "call".into(),
            origin: br#"{"name":"charge"}"#.to_vec(),
            ..dead_letter(3)
        },
    ];
    opened.put(rows.iter().map(|row| Write::DeadLetter(Box::new(row.clone()))).collect()).await;
    let found = async |filter: DeadLetterFilter| -> Vec<Uuid> {
        let rows = opened.store.dead_letters(&acme(), &filter, &ALL).await.unwrap();
        rows.into_iter().map(|row| row.id).collect()
    };
    let any = DeadLetterFilter::default;
    assert_eq!(found(any()).await, [id(3), id(2), id(1)]);
    assert_eq!(
        found(DeadLetterFilter { reason: Some("deserialization".into()), ..any() }).await,
        [id(3), id(1)]
    );
    assert_eq!(found(DeadLetterFilter { source: Some("timer".into()), ..any() }).await, [id(2)]);
    assert_eq!(found(DeadLetterFilter { instance: Some(id(1)), ..any() }).await, [id(2), id(1)]);
    assert_eq!(found(DeadLetterFilter { worker: Some("charge".into()), ..any() }).await, [id(3)]);
    assert!(found(DeadLetterFilter { worker: Some("ship".into()), ..any() }).await.is_empty());
    assert_eq!(opened.store.dead_letter(&acme(), id(2)).await.unwrap(), Some(rows[1].clone()));
    assert_eq!(opened.store.dead_letter(&acme(), id(9)).await.unwrap(), None);
    let page = Page { after: Some(id(3)), limit: 1 };
    let second = opened.store.dead_letters(&acme(), &any(), &page).await.unwrap();
    assert_eq!(second, [rows[1].clone()]);
}

pub(crate) async fn counts_add_up(opened: &Opened) {
    let completed = InstanceRow { status: "completed".into(), ended_at: Some(Time(5)), ..instance(3) };
    opened
        .put(vec![
            create(1),
            create(2),
            create_row(completed),
            Write::Signal(signal(1, 0, None)),
            Write::Timer(timer(1, 0, None)),
            Write::Timer(timer(2, 0, Some(node(1)))),
            Write::Call(call(1, 0, None)),
            Write::CreateTask(Box::new(task(1))),
            Write::CreateTask(Box::new(TaskRow { status: "claimed".into(), ..task(2) })),
            Write::CreateTask(Box::new(TaskRow { status: "completed".into(), ..task(3) })),
            Write::Outbox(outbox(1)),
            Write::DeadLetter(Box::new(dead_letter(1))),
        ])
        .await;
    let mut expected = Counts {
        instances: vec![("completed".into(), 1), ("running".into(), 2)],
        signals: 1,
        timers: 2,
        calls: 1,
        deliveries: 0,
        dead_letters: 1,
        outbox: 1,
        tasks_open: 2,
    };
    assert_eq!(opened.store.counts(Some(&acme())).await.unwrap(), expected);
    let other = Commit { tenant: tenant("other"), writes: vec![create(1), Write::Timer(timer(1, 0, None))] };
    assert_eq!(opened.commit(vec![other]).await, [Outcome::Committed]);
    assert_eq!(opened.store.counts(Some(&acme())).await.unwrap(), expected);
    assert_eq!(opened.store.counts(Some(&tenant("other"))).await.unwrap().timers, 1);
    assert_eq!(opened.store.counts(Some(&tenant("nobody"))).await.unwrap(), Counts::default());
    expected.instances[1].1 = 3;
    expected.timers = 3;
    assert_eq!(opened.store.counts(None).await.unwrap(), expected);
}

/// An instance that goes on in another version is of that version in projection and snapshot.
pub(crate) async fn an_instance_is_moved_in_both_tables(opened: &Opened) {
    opened.put(vec![create(1)]).await;
    let moved = Write::MoveInstance { instance: id(1), definition_version: "9.9.9".to_owned() };
    opened.put(vec![update(1, 2), moved]).await;
    let view = opened.store.instance(&acme(), id(1)).await.unwrap().unwrap();
    let loaded = opened.store.load(&acme(), id(1)).await.unwrap().unwrap();
    assert_eq!((view.row.version.as_str(), loaded.version.as_str()), ("9.9.9", "9.9.9"));
    assert_eq!(loaded.state_version, 2);
}
