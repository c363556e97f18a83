//! The clock of a tenant: everything it waits for becomes due, nothing of anybody else does.

use crate::support::*;
use machine::{TenantId, Time, id, language::Format, time::Span};
use runtime::api::{InstanceResult, Refusal};
use serde_json::json;

const DAYS: Span = Span::from_secs(3 * 86_400);

#[tokio::test(start_paused = true)]
async fn waits_limits_and_schedules_become_due_and_the_tenants_time_shows_it() {
    let world = World::new();
    let node = world.build().options(|options| options.dev_clock = true).start().await;
    node.deploy("waits", "do: [ { rest: { wait: { days: 3 } } } ]").await;
    node.deploy(
        "limited",
        "do: [ { ask: { listen: { to: { one: { with: { type: go } } } }, timeout: { after: { days: 2 } } } } ]",
    )
    .await;
    node.deploy("daily", "schedule: { every: P1D }\ndo: [ { a: { set: { x: 1 } } } ]").await;
    let waits = node.start("waits", json!({})).await;
    let limited = node.start("limited", json!({})).await;
    let before = world.now();
    let clock = node.handle.advance_clock(&node.tenant, DAYS).await.unwrap();
    assert_eq!(clock.ahead, DAYS);
    node.output(waits).await;
    assert_eq!(node.fault(limited).await.status, 408);
    pass(secs(1)).await;
    assert!(world.now().since(before) < Span::from_secs(60), "no real time went by");
    let row = world.view(waits).await.row;
    assert!(row.ended_at.unwrap().since(row.created_at) >= DAYS);
    let daily = id::schedule(&node.tenant, "test", "daily");
    let slots = world.store.slots(&node.tenant, daily, None, 10).await.unwrap();
    assert_eq!(
        slots.iter().map(|slot| slot.outcome.as_str()).collect::<Vec<_>>(),
        ["fired", "merged", "merged"]
    );
}

#[tokio::test(start_paused = true)]
async fn the_clock_survives_a_restart_and_new_waits_count_from_it() {
    let world = World::new();
    let node = world.build().options(|options| options.dev_clock = true).start().await;
    node.deploy("waits", "do: [ { rest: { wait: { days: 3 } } } ]").await;
    node.handle.advance_clock(&node.tenant, DAYS).await.unwrap();
    let ahead = node.handle.clock(&node.tenant).now;
    node.crash().await;
    let node = world.build().options(|options| options.dev_clock = true).sole().start().await;
    assert!(node.handle.clock(&node.tenant).now >= ahead);
    let id = node.start("waits", json!({})).await;
    let began = node.handle.clock(&node.tenant).now;
    pass(secs(10)).await;
    assert!(matches!(
        node.handle.result(&node.tenant, id, secs(0)).await.unwrap(),
        InstanceResult::Pending(_)
    ));
    assert_eq!(world.view(id).await.waiting_until, Some(began.after(DAYS)), "in the tenant's time");
    node.handle.advance_clock(&node.tenant, DAYS).await.unwrap();
    node.output(id).await;
    assert_eq!(node.handle.clock(&node.tenant).ahead, Span(DAYS.0 * 2));
}

#[tokio::test(start_paused = true)]
async fn other_tenants_keep_the_real_time() {
    let world = World::new();
    let node = world.build().options(|options| options.dev_clock = true).start().await;
    node.deploy("waits", "do: [ { rest: { wait: { days: 3 } } } ]").await;
    let id = node.start("waits", json!({})).await;
    let other = machine::TenantId::new("other").unwrap();
    node.handle.advance_clock(&other, DAYS).await.unwrap();
    pass(secs(5)).await;
    assert_eq!(world.status(id).await, "waiting");
    assert_eq!(node.handle.clock(&node.tenant).ahead, Span::ZERO);
}

/// Moving one clock makes the pumps look at timers and schedules while others are being moved.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clocks_that_are_moved_at_once_do_not_undo_each_other() {
    const TENANTS: usize = 30;
    let world = World::new();
    let node = world.build().options(|options| options.dev_clock = true).start().await;
    let rests = "document: { dsl: '1.0.3', namespace: test, name: rests, version: '1.0.0' }\ndo: [ { rest: { wait: { days: 3 } } }, { woke: { set: '${ $task.startedAt.iso8601 }' } } ]";
    let daily = "document: { dsl: '1.0.3', namespace: test, name: daily, version: '1.0.0' }\nschedule: { every: P1D }\ndo: [ { a: { set: { x: 1 } } } ]";
    let tenants: Vec<TenantId> =
        (0..TENANTS).map(|number| TenantId::new(&format!("tenant-{number}")).unwrap()).collect();
    let move_one = async |tenant: &TenantId| {
        node.handle.create_tenant(tenant, "one of many").await.unwrap();
        for source in [daily, rests] {
            node.handle.deploy(tenant, source.as_bytes(), Format::Yaml, false).await.unwrap();
        }
        let began = node.handle.clock(tenant).now;
        let id = node.handle.start(tenant, start_of("rests", json!({}))).await.unwrap().id;
        node.handle.advance_clock(tenant, DAYS).await.unwrap();
        let result = node.handle.result(tenant, id, secs(20)).await.unwrap();
        let InstanceResult::Completed(at) = result else { panic!("{tenant}: {result:?}") };
        let woke = at.as_str().and_then(Time::parse_rfc3339).unwrap();
        assert!(woke.since(began) >= DAYS, "{tenant}: a timer fired by the clock of before");
    };
    futures_util::future::join_all(tenants.iter().map(move_one)).await;
    for tenant in &tenants {
        assert_eq!(node.handle.clock(tenant).ahead, DAYS, "{tenant}");
        let daily = id::schedule(tenant, "test", "daily");
        let fired = async || {
            let slots = world.store.slots(tenant, daily, None, 10).await.unwrap();
            slots.iter().any(|slot| slot.outcome == "fired")
        };
        let waiting = async {
            let mut pace = tokio::time::interval(secs(1) / 100);
            while !fired().await {
                pace.tick().await;
            }
        };
        tokio::time::timeout(secs(20), waiting).await.unwrap_or_else(|_| panic!("{tenant}: no slot fired"));
    }
}

#[tokio::test(start_paused = true)]
async fn it_only_goes_forward_and_only_where_it_is_allowed() {
    let world = World::new();
    let node = world.build().options(|options| options.dev_clock = true).start().await;
    for wrong in [Span(-1), Span(i64::MAX)] {
        let refused = node.handle.advance_clock(&node.tenant, wrong).await;
        assert!(matches!(refused, Err(Refusal::Invalid { code: "bad-clock", .. })), "{refused:?}");
    }
    let strict = world.node().await;
    let refused = strict.handle.advance_clock(&strict.tenant, DAYS).await;
    assert!(matches!(refused, Err(Refusal::Conflict { code: "dev-clock-off", .. })), "{refused:?}");
}
