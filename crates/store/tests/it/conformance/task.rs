//! Work for people: kept after it has ended, listed by who may do it, every action one event.

use super::Opened;
use crate::fixture::*;
use machine::Time;
use store::{rows::*, views::*, *};
use uuid::Uuid;

pub(crate) async fn lifecycle_with_events(opened: &Opened) {
    let open = TaskRow {
        candidate_users: b"[\"ann\"]".to_vec(),
        candidate_groups: b"[\"clerks\"]".to_vec(),
        form: Some(b"{\"fields\":[]}".to_vec()),
        due_at: Some(Time(50)),
        priority: -3,
        token: u64::MAX,
        ..task(1)
    };
    opened.put(vec![Write::CreateTask(Box::new(open.clone())), task_event(1, 1, "created")]).await;
    assert_eq!(opened.store.task(&acme(), id(1)).await.unwrap(), Some(open.clone()));
    let claimed =
        TaskRow { status: "claimed".into(), assignee: Some("ann".into()), version: 2, ..open.clone() };
    let done = TaskRow {
        status: "completed".into(),
        result: Some(b"true".to_vec()),
        version: 3,
        ended_at: Some(Time(9)),
        ..claimed.clone()
    };
    for (expected_version, row, kind) in [(1, claimed, "assigned"), (2, done.clone(), "completed")] {
        let sequence = row.version;
        let update = Write::UpdateTask { task: Box::new(row), expected_version };
        opened.put(vec![update, task_event(1, sequence, kind)]).await;
    }
    assert_eq!(opened.store.task(&acme(), id(1)).await.unwrap(), Some(done));
    let events = opened.store.task_events(&acme(), id(1)).await.unwrap();
    let kinds: Vec<_> = events.iter().map(|event| (event.sequence, event.kind.as_str())).collect();
    assert_eq!(kinds, [(1, "created"), (2, "assigned"), (3, "completed")]);
    assert_eq!(opened.store.task_events(&acme(), id(2)).await.unwrap(), []);
}

pub(crate) async fn lists_by_person_group_and_instance(opened: &Opened) {
    let rows = [
        TaskRow { assignee: Some("ann".into()), status: "claimed".into(), ..task(1) },
        TaskRow { candidate_groups: b"[\"clerks\", \"bosses\"]".to_vec(), ..task(2) },
        TaskRow { candidate_groups: b"[\"bosses\"]".to_vec(), instance: id(77), ..task(3) },
        TaskRow { assignee: Some("ann".into()), status: "completed".into(), ..task(4) },
    ];
    opened.put(rows.into_iter().map(|row| Write::CreateTask(Box::new(row))).collect()).await;
    let found = async |filter: TaskFilter| -> Vec<Uuid> {
        let page = Page { after: None, limit: 50 };
        opened.store.tasks(&acme(), &filter, &page).await.unwrap().into_iter().map(|task| task.id).collect()
    };
    let any = TaskFilter::default;
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    assert_eq!(found(any()).await, [id(4), id(3), id(2), id(1)]);
    assert_eq!(found(TaskFilter { assignee: Some("ann".into()), ..any() }).await, [id(4), id(1)]);
    let open = TaskFilter { assignee: Some("ann".into()), statuses: words(&["open", "claimed"]), ..any() };
    assert_eq!(found(open).await, [id(1)]);
    assert_eq!(found(TaskFilter { groups: words(&["bosses"]), ..any() }).await, [id(3), id(2)]);
    assert_eq!(found(TaskFilter { groups: words(&["clerks", "none"]), ..any() }).await, [id(2)]);
    assert!(found(TaskFilter { groups: words(&["clerk"]), ..any() }).await.is_empty());
    let both = TaskFilter { groups: words(&["bosses"]), instance: Some(id(77)), ..any() };
    assert_eq!(found(both).await, [id(3)]);
    assert_eq!(found(TaskFilter { instance: Some(id(1)), ..any() }).await, [id(4), id(2), id(1)]);
    let page = Page { after: Some(id(4)), limit: 2 };
    let second = opened.store.tasks(&acme(), &any(), &page).await.unwrap();
    assert_eq!(second.iter().map(|task| task.id).collect::<Vec<_>>(), [id(3), id(2)]);
}

pub(crate) async fn versions_guard_completion(opened: &Opened) {
    opened.put(vec![create(1), Write::CreateTask(Box::new(task(1))), task_event(1, 1, "created")]).await;
    let complete = |actor: &str| {
        let done =
            TaskRow { status: "completed".into(), assignee: Some(actor.into()), version: 2, ..task(1) };
        commit(vec![
            Write::UpdateTask { task: Box::new(done), expected_version: 1 },
            update(1, 2),
            task_event(1, 2, "completed"),
        ])
    };
    let outcomes = opened.commit(vec![complete("ann"), complete("bob")]).await;
    assert_eq!(outcomes, [Outcome::Committed, Outcome::Conflict(Conflict::Version)]);
    let kept = opened.store.task(&acme(), id(1)).await.unwrap().unwrap();
    assert_eq!(kept.assignee.as_deref(), Some("ann"));
    assert_eq!(opened.store.task_events(&acme(), id(1)).await.unwrap().len(), 2);
    // Arrays that lists must read are refused when they are none.
    let bad = TaskRow { candidate_groups: b"clerks".to_vec(), ..task(2) };
    let outcomes = opened.commit(vec![commit(vec![Write::CreateTask(Box::new(bad))])]).await;
    assert!(matches!(outcomes[..], [Outcome::Rejected(_)]), "{outcomes:?}");
}
