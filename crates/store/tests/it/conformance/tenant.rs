//! No tenant, no row: the same ids in two tenants are two things.

use super::Opened;
use crate::fixture::*;
use machine::{TenantId, Time};
use store::{rows::*, views::*, *};

pub(super) fn everything(tenant: &TenantId, mark: &str) -> Commit {
    let bytes = mark.as_bytes().to_vec();
    let row = InstanceRow { input: bytes.clone(), business_key: Some("k".into()), ..instance(1) };
    let mut first = state(1, 1);
    first.state_json = bytes.clone();
    Commit {
        tenant: tenant.clone(),
        writes: vec![
            Write::ClaimKey(InboxRow { answer: bytes.clone(), ..inbox("k") }),
            Write::CreateInstance { instance: Box::new(row), state: Box::new(first) },
            Write::CreateDefinition(Box::new(DefinitionRow {
                source: bytes.clone(),
                ..definition("order", "1.0.0")
            })),
            Write::History(HistoryRow { instance: id(1), version: 1, at: Time(1), events: bytes.clone() }),
            Write::Signal(SignalRow { envelope: bytes.clone(), ..signal(1, 0, None) }),
            Write::Timer(TimerRow { envelope: bytes.clone(), ..timer(1, 0, None) }),
            Write::Call(CallRow { envelope: bytes.clone(), ..call(1, 0, None) }),
            Write::CreateTask(Box::new(TaskRow { payload: bytes.clone(), ..task(1) })),
            task_event(1, 1, "created"),
            Write::DeadLetter(Box::new(DeadLetterRow { envelope: bytes.clone(), ..dead_letter(1) })),
            Write::Outbox(OutboxRow { event: bytes, ..outbox(1) }),
            Write::CreateKey(key(mark)),
        ],
    }
}

pub(crate) async fn same_ids_never_mix(opened: &Opened) {
    let marks = ["left", "right"];
    let batch = marks.iter().map(|mark| everything(&tenant(mark), mark)).collect();
    assert_eq!(opened.commit(batch).await, [Outcome::Committed, Outcome::Committed]);
    let store = &opened.store;
    let page = Page { after: None, limit: 50 };
    for mark in marks {
        let (t, bytes) = (tenant(mark), mark.as_bytes());
        assert_eq!(store.load(&t, id(1)).await.unwrap().unwrap().state_json, bytes);
        assert_eq!(store.inbox(&t, "start", "k").await.unwrap().unwrap().answer, bytes);
        assert_eq!(store.instance(&t, id(1)).await.unwrap().unwrap().row.input, bytes);
        assert_eq!(store.instance_by_key(&t, "k").await.unwrap().unwrap().row.input, bytes);
        let listed = store.instances(&t, &InstanceFilter::default(), &page).await.unwrap();
        assert_eq!((listed.len(), &listed[0].row.input[..]), (1, bytes));
        assert_eq!(store.definition(&t, "shop", "order", None).await.unwrap().unwrap().source, bytes);
        assert_eq!(store.versions(&t, "shop", "order").await.unwrap().len(), 1);
        let history = store.history(&t, id(1), 0, 9).await.unwrap();
        assert_eq!((history.len(), &history[0].events[..]), (1, bytes));
        assert_eq!(store.task(&t, id(1)).await.unwrap().unwrap().payload, bytes);
        assert_eq!(store.tasks(&t, &TaskFilter::default(), &page).await.unwrap().len(), 1);
        assert_eq!(store.task_events(&t, id(1)).await.unwrap().len(), 1);
        assert_eq!(store.dead_letter(&t, id(1)).await.unwrap().unwrap().envelope, bytes);
        assert_eq!(store.dead_letters(&t, &DeadLetterFilter::default(), &page).await.unwrap().len(), 1);
        assert_eq!(store.keys(&t).await.unwrap(), [key(mark)]);
        assert_eq!(store.key_by_id(mark).await.unwrap().unwrap().0, t);
    }
    let claimed = store.claim_signals(node(1), Time(0), 9).await.unwrap();
    let own = |one: &Claimed<SignalRow>| one.row.envelope == one.tenant.as_str().as_bytes();
    assert!(claimed.len() == 2 && claimed.iter().all(own), "{claimed:?}");
    let claimed = store.claim_timers(node(1), Time(0), 9).await.unwrap();
    assert!(claimed.iter().all(|one| one.row.envelope == one.tenant.as_str().as_bytes()), "{claimed:?}");
    let claimed = store.claim_calls(node(1), Time(0), 9, &[]).await.unwrap();
    assert!(claimed.iter().all(|one| one.row.envelope == one.tenant.as_str().as_bytes()), "{claimed:?}");
    let events = store.outbox(&OutboxAsk::of(9)).await.unwrap();
    assert!(events.iter().all(|one| one.row.event == one.tenant.as_str().as_bytes()), "{events:?}");
}

pub(crate) async fn consuming_needs_the_tenant(opened: &Opened) {
    let owner = tenant("left");
    assert_eq!(opened.commit(vec![everything(&owner, "left")]).await, [Outcome::Committed]);
    let before = opened.store.counts(Some(&owner)).await.unwrap();
    let (instance, token) = (id(1), 1);
    let done = TaskRow { status: "completed".into(), version: 2, ..task(1) };
    let guarded = [
        Write::ConsumeSignal { id: id(1) },
        Write::ConsumeTimer { instance, token },
        Write::ConsumeCall { instance, token },
        Write::ConsumeDeadLetter { id: id(1) },
        update(1, 2),
        Write::UpdateTask { task: Box::new(done), expected_version: 1 },
    ];
    for write in guarded {
        let outcomes = opened.commit(vec![Commit { tenant: tenant("right"), writes: vec![write] }]).await;
        assert!(matches!(outcomes[..], [Outcome::Conflict(_)]), "{outcomes:?}");
    }
    let plain = vec![
        Write::DropCall { instance, token },
        Write::DropTimer { instance, token },
        Write::RetryCall { instance, token, owner: None, visible_at: Time(9), attempt: 9, last_error: None },
        Write::RetryTimer { instance, token, owner: None, visible_at: Time(9), attempt: 9 },
        Write::RetrySignal { id: id(1), owner: None, visible_at: Time(9), attempt: 9 },
        Write::OutboxSent { ids: vec![id(1)] },
        Write::UpdateInstance(Box::new(change(1, "cancelled"))),
        Write::RevokeKey { id: "left".into(), at: Time(9) },
    ];
    let outcomes = opened.commit(vec![Commit { tenant: tenant("right"), writes: plain }]).await;
    assert_eq!(outcomes, [Outcome::Committed]);
    assert_eq!(opened.store.counts(Some(&owner)).await.unwrap(), before);
    assert_eq!(opened.store.next_due().await.unwrap(), Some(Time(0)));
    assert_eq!(opened.store.load(&owner, id(1)).await.unwrap().unwrap().state_version, 1);
    assert_eq!(opened.store.key_by_id("left").await.unwrap().unwrap().1, key("left"));
}

pub(crate) async fn tenants_are_listed(opened: &Opened) {
    for name in ["zeta", "acme"] {
        let writes = vec![Write::CreateTenant(tenant_row(name))];
        let created = Commit { tenant: tenant(name), writes };
        assert_eq!(opened.commit(vec![created]).await, [Outcome::Committed]);
    }
    assert_eq!(opened.store.tenants().await.unwrap(), [tenant_row("acme"), tenant_row("zeta")]);
    assert_eq!(opened.store.tenant(&tenant("zeta")).await.unwrap(), Some(tenant_row("zeta")));
    assert_eq!(opened.store.tenant(&tenant("nobody")).await.unwrap(), None);
}
