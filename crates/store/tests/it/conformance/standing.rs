//! What a tenant may do now: parked ones are found by nobody, and one that was deleted goes with all its rows.

use super::{Opened, tenant::everything};
use crate::fixture::*;
use machine::{TenantId, Time};
use store::{rows::*, *};

async fn create_tenants(opened: &Opened, names: &[&str]) {
    for name in names {
        let writes = vec![Write::CreateTenant(tenant_row(name))];
        opened.commit(vec![Commit { tenant: tenant(name), writes }]).await;
    }
}

async fn stand(opened: &Opened, tenant: &TenantId, from: &str, to: &str) -> Outcome {
    let purge_at = (to == "deleted").then_some(Time(500));
    let write = Write::SetStanding { from: from.into(), to: to.into(), purge_at };
    opened.commit(vec![Commit { tenant: tenant.clone(), writes: vec![write] }]).await.remove(0)
}

fn work(due: i64) -> Vec<Write> {
    vec![
        Write::Signal(signal(1, due, None)),
        Write::Timer(timer(1, due, None)),
        Write::Call(call(1, due, None)),
        Write::Delivery(Box::new(delivery(2, "mail", due))),
        Write::Outbox(outbox(3)),
        Write::PutSchedule { schedule: Box::new(schedule(4, Some(due))), expected_version: 0 },
    ]
}

/// What of the tenants is found, one letter for each queue.
async fn found(opened: &Opened, now: i64) -> Vec<(TenantId, char)> {
    let (store, now) = (&opened.store, Time(now));
    let workers = vec!["mail".to_owned()];
    let ask =
        DeliveryAsk { node: node(1), now, limit: 9, workers, full: vec![], full_of: vec![], pace: None };
    let mut found = Vec::new();
    found
        .extend(store.claim_signals(node(1), now, 9).await.unwrap().into_iter().map(|one| (one.tenant, 's')));
    found.extend(store.claim_timers(node(1), now, 9).await.unwrap().into_iter().map(|one| (one.tenant, 't')));
    let calls = store.claim_calls(node(1), now, 9, &[]).await.unwrap();
    found.extend(calls.into_iter().map(|one| (one.tenant, 'c')));
    found.extend(store.claim_deliveries(&ask).await.unwrap().into_iter().map(|one| (one.tenant, 'd')));
    found.extend(store.outbox(&OutboxAsk::of(9)).await.unwrap().into_iter().map(|one| (one.tenant, 'o')));
    found.extend(store.due_schedules(now, 9).await.unwrap().into_iter().map(|one| (one.tenant, 'e')));
    found
}

pub(crate) async fn nothing_of_a_parked_tenant_is_found(opened: &Opened) {
    let (acme, zoo) = (acme(), tenant("zoo"));
    create_tenants(opened, &["acme", "zoo"]).await;
    opened.commit(vec![Commit { tenant: acme.clone(), writes: work(10) }]).await;
    opened.commit(vec![Commit { tenant: zoo.clone(), writes: work(20) }]).await;
    for parked in ["suspended", "deleted"] {
        assert_eq!(stand(opened, &acme, "active", parked).await, Outcome::Committed);
        let store = &opened.store;
        let workers = ["mail".to_owned()];
        assert_eq!(store.next_due().await.unwrap(), Some(Time(20)), "{parked}");
        assert_eq!(store.next_delivery(&workers).await.unwrap(), Some(Time(20)), "{parked}");
        assert_eq!(store.next_slot_due().await.unwrap(), Some(Time(20)), "{parked}");
        let loan = Loan {
            worker: "mail".into(),
            now: Time(100),
            until: Time(200),
            limit: 9,
            pace: None,
            lent_max: None,
        };
        assert_eq!(store.lend(&acme, &loan).await.unwrap(), [], "{parked}");
        assert_eq!(stand(opened, &acme, parked, "active").await, Outcome::Committed);
    }
    stand(opened, &acme, "active", "suspended").await;
    let all_of =
        |tenant: &TenantId| "stcdoe".chars().map(|letter| (tenant.clone(), letter)).collect::<Vec<_>>();
    assert_eq!(found(opened, 100).await, all_of(&zoo));
    let rest = |tenant: &TenantId| vec![(tenant.clone(), 'o'), (tenant.clone(), 'e')];
    assert_eq!(found(opened, 100).await, rest(&zoo), "what is claimed is claimed");
    assert_eq!(opened.store.next_due().await.unwrap(), None);
    // Parked by name of the only one that has anything: nothing is due, and nothing is asked again and again.
    stand(opened, &acme, "suspended", "active").await;
    assert_eq!(opened.store.next_due().await.unwrap(), Some(Time(10)));
    let resumed: Vec<_> = found(opened, 100).await.into_iter().filter(|(of, _)| *of == acme).collect();
    assert_eq!(resumed, all_of(&acme));
}

pub(crate) async fn a_degraded_tenant_starts_nothing_by_itself(opened: &Opened) {
    create_tenants(opened, &["acme"]).await;
    opened.put(work(10)).await;
    assert_eq!(stand(opened, &acme(), "active", "degraded").await, Outcome::Committed);
    assert_eq!(opened.store.next_slot_due().await.unwrap(), None);
    let letters: String = found(opened, 100).await.into_iter().map(|(_, letter)| letter).collect();
    assert_eq!(letters, "stcdo", "all but the schedule");
}

pub(crate) async fn a_standing_is_guarded(opened: &Opened) {
    let version = Outcome::Conflict(Conflict::Version);
    assert_eq!(stand(opened, &acme(), "active", "suspended").await, version);
    create_tenants(opened, &["acme"]).await;
    assert_eq!(stand(opened, &acme(), "suspended", "active").await, version);
    assert_eq!(stand(opened, &acme(), "active", "deleted").await, Outcome::Committed);
    let row = opened.store.tenant(&acme()).await.unwrap().unwrap();
    assert_eq!((row.status.as_str(), row.purge_at), ("deleted", Some(Time(500))));
    assert_eq!(stand(opened, &acme(), "deleted", "suspended").await, Outcome::Committed);
    assert_eq!(opened.store.tenant(&acme()).await.unwrap().unwrap().purge_at, None);
    let outcome = stand(opened, &acme(), "suspended", "nonsense").await;
    assert!(matches!(outcome, Outcome::Rejected(_)), "{outcome:?}");
}

pub(crate) async fn limits_change_where_given(opened: &Opened) {
    create_tenants(opened, &["acme"]).await;
    let changes = [
        TenantChange { open_max: Some(7), starts_per_second: Some(8), ..TenantChange::default() },
        TenantChange { concurrency_max: Some(9), degraded_per_second: Some(2), ..TenantChange::default() },
        TenantChange { open_max: Some(0), ..TenantChange::default() },
    ];
    for change in changes {
        opened.put(vec![Write::ChangeTenant(change)]).await;
    }
    let expected =
        LimitsRow { open_max: 0, starts_per_second: 8, concurrency_max: 9, degraded_per_second: 2 };
    assert_eq!(opened.store.tenant(&acme()).await.unwrap().unwrap().limits, expected);
}

pub(crate) async fn open_instances_are_counted_up_to_a_bound(opened: &Opened) {
    let ended = InstanceRow { status: "completed".into(), ended_at: Some(Time(9)), ..instance(4) };
    opened.put(vec![create(1), create(2), create(3), create_row(ended)]).await;
    let count = async |max| opened.store.open_instances(&acme(), max).await.unwrap();
    assert_eq!((count(100).await, count(2).await), (3, 2));
    assert_eq!(opened.store.open_instances(&tenant("zoo"), 9).await.unwrap(), 0);
}

pub(crate) async fn a_tenant_that_leaves_goes_with_all_its_rows(opened: &Opened) {
    let (acme, zoo) = (acme(), tenant("zoo"));
    create_tenants(opened, &["acme", "zoo"]).await;
    for tenant in [&acme, &zoo] {
        let all = everything(tenant, tenant.as_str());
        let mut more = Commit { tenant: tenant.clone(), writes: work(10).split_off(3) };
        more.writes.push(Write::Audit(Box::new(audit_entry(tenant, 1))));
        assert_eq!(opened.commit(vec![all, more]).await, [Outcome::Committed, Outcome::Committed]);
    }
    let others = opened.store.counts(Some(&zoo)).await.unwrap();
    assert_eq!(opened.store.purge_tenant(Time(1_000), 5).await.unwrap(), None, "nobody leaves");
    stand(opened, &acme, "active", "deleted").await;
    assert_eq!(opened.store.purge_tenant(Time(499), 5).await.unwrap(), None, "the time of grace is not over");
    let mut rows = 0;
    loop {
        let purged =
            opened.store.purge_tenant(Time(500), 5).await.unwrap().expect("it goes on until all is gone");
        assert_eq!(purged.tenant, acme);
        assert!(purged.rows <= 5, "{purged:?}");
        rows += purged.rows;
        if purged.gone {
            break;
        }
        assert_eq!(purged.rows, 5);
    }
    assert_eq!(rows, 19, "every row, the tenant's own among them, and the anchor that let its trail go");
    assert!(opened.store.audit().unsealed(&acme, 9).await.unwrap().is_empty());
    assert_eq!(opened.store.purge_tenant(Time(500), 5).await.unwrap(), None);
    assert_eq!(opened.store.tenants().await.unwrap(), [tenant_row("zoo")]);
    assert_eq!(opened.store.key_by_id("acme").await.unwrap(), None);
    assert_eq!(opened.store.counts(Some(&acme)).await.unwrap(), store::views::Counts::default());
    assert!(opened.store.history(&acme, id(1), 0, 9).await.unwrap().is_empty());
    assert!(opened.store.task_events(&acme, id(1)).await.unwrap().is_empty());
    assert_eq!(opened.store.counts(Some(&zoo)).await.unwrap(), others, "another's stay");
}
