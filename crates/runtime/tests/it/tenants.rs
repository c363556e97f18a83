//! A09, A10, A13: tenants come, are suspended, degraded, resumed and deleted at run time; what they have waits or goes on,
//! others notice nothing, and nothing is left of who has gone.

use crate::support::*;
use machine::{Data, TenantId, language::Format, time::Span};
use runtime::{
    TenantOrder,
    api::{Declared, InstanceResult, Refusal},
    clock::SystemClock,
};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};
use store::{
    TenantChange,
    postgres::{Postgres, migrate},
    rows::TenantRow,
    views::Counts,
};
use uuid::Uuid;
use worker::{Declaration, Handled};

const DELETE_NOW: TenantOrder = TenantOrder::Delete { grace: Span::ZERO };

fn named(name: &str) -> TenantId {
    TenantId::new(name).unwrap()
}

async fn create(node: &Up, tenant: &TenantId) {
    node.handle.create_tenant(tenant, "title").await.unwrap();
}

async fn tell(node: &Up, tenant: &TenantId, order: TenantOrder) -> TenantRow {
    node.handle.order_tenant(tenant, order, TenantChange::default()).await.unwrap()
}

async fn limit(node: &Up, tenant: &TenantId, change: TenantChange) {
    node.handle.change_tenant(tenant, change).await.unwrap();
}

async fn deploy(node: &Up, tenant: &TenantId, name: &str, body: &str) {
    let source =
        format!("document: {{ dsl: '1.0.3', namespace: test, name: {name}, version: '1.0.0' }}\n{body}\n");
    node.handle.deploy(tenant, source.as_bytes(), Format::Yaml, false).await.unwrap();
}

async fn start(node: &Up, tenant: &TenantId, name: &str) -> Uuid {
    node.handle.start(tenant, start_of(name, json!({ "n": 1 }))).await.unwrap().id
}

async fn has_ended(node: &Up, tenant: &TenantId, id: Uuid) -> bool {
    let result = node.handle.result(tenant, id, Duration::ZERO).await.unwrap();
    !matches!(result, InstanceResult::Pending(_))
}

async fn ends(node: &Up, tenant: &TenantId, id: Uuid) {
    until(async || has_ended(node, tenant, id).await).await;
}

fn event(kind: &str, n: i64) -> Data {
    let id = format!("{kind}-{n}");
    Data::from_json(
        json!({ "specversion": "1.0", "id": id, "source": "test", "type": kind, "data": { "n": n } }),
    )
}

fn code(refusal: &Refusal) -> &'static str {
    match refusal {
        Refusal::Parked { code, .. } | Refusal::Limited { code, .. } | Refusal::Conflict { code, .. } => code,
        _ => "another",
    }
}

const WAITS: &str = "do: [ { rest: { wait: { minutes: 1 } } } ]";
const CALLS: &str = "do:
- one: { call: 'work:1.0.0@default', with: { v: 1 } }
- two: { call: 'work:1.0.0@default', with: { v: 2 } }
";
const HEARS: &str = "do: [ { hear: { listen: { to: { one: { with: { type: go } } } } } } ]";

#[tokio::test(start_paused = true)]
async fn work_of_a_suspended_tenant_waits_and_then_goes_on() {
    let world = World::new();
    let gate = Gate::new();
    let node = world.build().worker(gate.worker("work")).start().await;
    let (acme, zoo) = (named("acme"), named("zoo"));
    for tenant in [&acme, &zoo] {
        create(&node, tenant).await;
        deploy(&node, tenant, "waits", WAITS).await;
        deploy(&node, tenant, "calls", CALLS).await;
        deploy(&node, tenant, "hears", HEARS).await;
    }
    let (timer, call, hears) = (
        start(&node, &acme, "waits").await,
        start(&node, &acme, "calls").await,
        start(&node, &acme, "hears").await,
    );
    let (other_timer, other_call) = (start(&node, &zoo, "waits").await, start(&node, &zoo, "calls").await);
    until(async || gate.begun() == 2).await;
    assert_eq!(tell(&node, &acme, TenantOrder::Suspend).await.status, "suspended");
    let refused = node.handle.signal(&acme, hears, signal_of("go", json!(1), None)).await.unwrap_err();
    assert_eq!(code(&refused), "tenant-suspended");
    // What is under way comes to its end: the answer of the first call is taken, and the second call waits.
    gate.open.add_permits(1_000);
    ends(&node, &zoo, other_call).await;
    pass(secs(3_600)).await;
    assert!(has_ended(&node, &zoo, other_timer).await, "others go on");
    assert_eq!(gate.begun(), 3, "the second call of the other tenant and no other");
    for id in [timer, call, hears] {
        assert!(!has_ended(&node, &acme, id).await);
    }
    let counts = world.counts().await;
    assert_eq!((counts.calls, counts.timers), (1, 1), "they are there as they were");
    tell(&node, &acme, TenantOrder::Resume).await;
    ends(&node, &acme, timer).await;
    ends(&node, &acme, call).await;
    assert_eq!(gate.begun(), 4);
    node.handle.signal(&acme, hears, signal_of("go", json!(1), None)).await.unwrap();
    ends(&node, &acme, hears).await;
}

#[tokio::test(start_paused = true)]
async fn what_waits_in_memory_is_given_back() {
    let world = World::new();
    let gate = Gate::new();
    let node = world.build().worker(gate.worker("work").concurrency_max(1)).start().await;
    create(&node, &world.tenant).await;
    node.deploy("calls", CALLS).await;
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.push(node.start("calls", json!({ "n": 1 })).await);
    }
    until(async || gate.begun() == 1).await;
    tell(&node, &world.tenant, TenantOrder::Suspend).await;
    until(async || world.store.owned(node.node.id(), 10).await.unwrap().len() == 1).await;
    gate.open.add_permits(1);
    until(async || world.store.owned(node.node.id(), 10).await.unwrap().is_empty()).await;
    until(async || node.metric("windlass_lanes") == 0.0).await;
    assert_eq!((gate.begun(), world.counts().await.calls), (1, 5));
    gate.open.add_permits(100);
    tell(&node, &world.tenant, TenantOrder::Resume).await;
    for id in ids {
        node.output(id).await;
    }
    assert_eq!(gate.begun(), 10, "every call once");
}

#[tokio::test(start_paused = true)]
async fn deliveries_of_a_suspended_tenant_wait_for_both_kinds_of_workers() {
    let world = World::new();
    let mail = Declaration::on("mail", ["order"], worker::each(|_| Handled::done()));
    let node = world.build().worker(mail).start().await;
    let acme = &world.tenant;
    create(&node, acme).await;
    let declared = Declared { types: vec!["parcel".to_owned()], ..Declared::default() };
    node.handle.declare_worker(acme, "ship", &declared).await.unwrap();
    node.handle.publish(acme, event("parcel", 0)).await.unwrap();
    let poll = async || node.handle.poll_deliveries(acme, "ship", 5, secs(30)).await.unwrap();
    let lent = poll().await.remove(0);
    node.handle.publish(acme, event("parcel", 1)).await.unwrap();
    tell(&node, acme, TenantOrder::Suspend).await;
    for refused in node.handle.publish_many(acme, vec![event("order", 1), event("order", 2)]).await {
        assert_eq!(code(&refused.unwrap_err()), "tenant-suspended");
    }
    assert_eq!(poll().await.len(), 0, "who asks gets nothing, and need not know");
    node.handle.answer_delivery(acme, lent.id, lent.attempt, vec![Handled::done()]).await.unwrap();
    assert_eq!(world.counts().await.deliveries, 1);
    // Whoever waits when the tenant is resumed is served at once.
    let (handle, tenant) = (node.handle.clone(), acme.clone());
    let waiting =
        tokio::spawn(async move { handle.poll_deliveries(&tenant, "ship", 5, secs(60)).await.unwrap() });
    pass(secs(1)).await;
    let began = world.now();
    tell(&node, acme, TenantOrder::Resume).await;
    assert_eq!(waiting.await.unwrap().len(), 1);
    assert!(world.now().since(began) < Span::from_secs(1), "in virtual time");
    node.handle.publish(acme, event("order", 1)).await.unwrap();
    until(async || world.counts().await.deliveries == 1).await;
}

#[tokio::test(start_paused = true)]
async fn schedules_follow_their_rule_for_missed_slots_after_a_resume() {
    let world = World::new();
    let node = world.build().options(|options| options.rescan = None).start().await;
    let acme = &world.tenant;
    create(&node, acme).await;
    let step = "do: [ { a: { set: { x: 1 } } } ]";
    for missed in ["all", "latest"] {
        let metadata = format!("metadata: {{ windlass: {{ missed: {missed} }} }}");
        let source = format!(
            "document: {{ dsl: '1.0.3', namespace: test, name: {missed}, version: '1.0.0', {metadata} }}
schedule: {{ every: PT10S }}\n{step}\n"
        );
        node.handle.deploy(acme, source.as_bytes(), Format::Yaml, false).await.unwrap();
    }
    let fired = async |name: &str| {
        let id = machine::id::schedule(acme, "test", name);
        let slots = world.store.slots(acme, id, None, 200).await.unwrap();
        slots.iter().filter(|slot| slot.outcome == "fired").count()
    };
    pass(secs(25)).await;
    assert_eq!((fired("all").await, fired("latest").await), (2, 2));
    for parked in [TenantOrder::Suspend, TenantOrder::Degrade] {
        let before = (fired("all").await, fired("latest").await);
        tell(&node, acme, parked).await;
        pass(secs(100)).await;
        assert_eq!((fired("all").await, fired("latest").await), before, "{parked:?}");
        tell(&node, acme, TenantOrder::Resume).await;
        until(async || fired("all").await >= before.0 + 10).await;
        assert_eq!(fired("latest").await, before.1 + 1, "{parked:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_degraded_tenant_finishes_what_it_has() {
    let world = World::new();
    let node = world.build().worker(echo("work")).start().await;
    let acme = &world.tenant;
    create(&node, acme).await;
    node.deploy("waits", WAITS).await;
    node.deploy("hears", HEARS).await;
    let (timer, hears) = (node.start("waits", json!({})).await, node.start("hears", json!({})).await);
    tell(&node, acme, TenantOrder::Degrade).await;
    let refused = node.handle.start(acme, start_of("waits", json!({}))).await.unwrap_err();
    assert_eq!(code(&refused), "tenant-degraded");
    assert_eq!(code(&node.handle.publish(acme, event("go", 1)).await.unwrap_err()), "tenant-degraded");
    node.signal(hears, "go", json!(1)).await;
    ends(&node, acme, hears).await;
    ends(&node, acme, timer).await;
    // A trickle, if the operator allows one.
    limit(&node, acme, TenantChange { degraded_per_second: Some(2), ..TenantChange::default() }).await;
    let attempt = async || node.handle.start(acme, start_of("waits", json!({}))).await;
    assert!(attempt().await.is_ok());
    pass(secs(1)).await;
    assert!(attempt().await.is_ok() && attempt().await.is_ok());
    let Err(Refusal::Limited { after, .. }) = attempt().await else { panic!("the third is too many") };
    pass(Duration::from_micros(after.0 as u64)).await;
    assert!(attempt().await.is_ok());
    tell(&node, acme, TenantOrder::Resume).await;
    assert!(attempt().await.is_ok() && attempt().await.is_ok() && attempt().await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn limits_count_at_once_for_what_is_queued_too() {
    let world = World::new();
    let gate = Gate::new();
    let node = world.build().worker(gate.worker("work")).start().await;
    let acme = &world.tenant;
    create(&node, acme).await;
    node.deploy("calls", CALLS).await;
    limit(&node, acme, TenantChange { concurrency_max: Some(2), ..TenantChange::default() }).await;
    for _ in 0..6 {
        node.start("calls", json!({ "n": 1 })).await;
    }
    pass(secs(5)).await;
    assert_eq!(gate.begun(), 2);
    limit(&node, acme, TenantChange { concurrency_max: Some(5), ..TenantChange::default() }).await;
    until(async || gate.begun() == 5).await;
    limit(&node, acme, TenantChange { open_max: Some(7), ..TenantChange::default() }).await;
    let attempt = async || node.handle.start(acme, start_of("calls", json!({}))).await;
    assert!(attempt().await.is_ok());
    assert_eq!(code(&attempt().await.unwrap_err()), "too-many-open");
    gate.open.add_permits(1_000);
    limit(&node, acme, TenantChange { concurrency_max: Some(0), ..TenantChange::default() }).await;
    until(async || world.store.open_instances(acme, 10).await.unwrap() == 0).await;
    pass(secs(2)).await;
    let change = TenantChange { open_max: Some(0), starts_per_second: Some(3), ..TenantChange::default() };
    limit(&node, acme, change).await;
    for _ in 0..3 {
        assert!(attempt().await.is_ok());
    }
    assert_eq!(code(&attempt().await.unwrap_err()), "too-many-starts");
    pass(secs(1)).await;
    assert!(attempt().await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_deletion_can_be_taken_back_until_its_time_of_grace_is_over() {
    let world = World::new();
    let node = world
        .build()
        .worker(echo("work"))
        .options(|options| options.lease = Span::from_secs(3_600))
        .start()
        .await;
    let acme = &world.tenant;
    create(&node, acme).await;
    node.deploy("waits", WAITS).await;
    let id = node.start("waits", json!({})).await;
    let day = TenantOrder::Delete { grace: Span::from_secs(86_400) };
    let row = tell(&node, acme, day).await;
    assert_eq!(
        (row.status.as_str(), row.purge_at),
        ("deleted", Some(world.now().after(Span::from_secs(86_400))))
    );
    let refused = node.handle.start(acme, start_of("waits", json!({}))).await.unwrap_err();
    assert_eq!(code(&refused), "tenant-deleted");
    let order = async |order| node.handle.order_tenant(acme, order, TenantChange::default()).await;
    assert_eq!(code(&order(TenantOrder::Resume).await.unwrap_err()), "tenant-not-allowed-now");
    pass(secs(86_000)).await;
    assert_eq!(tell(&node, acme, TenantOrder::Restore).await.status, "active");
    ends(&node, acme, id).await;
    assert_eq!(code(&order(TenantOrder::Restore).await.unwrap_err()), "tenant-not-allowed-now");
    tell(&node, acme, day).await;
    pass(secs(86_400)).await;
    until(async || world.store.tenant(acme).await.unwrap().is_none()).await;
    assert_eq!(world.counts().await, Counts::default());
    assert!(matches!(order(TenantOrder::Restore).await, Err(Refusal::NotFound(_))));
}

/// Everything of a tenant: definitions, instances that wait for a timer, a call, an event and a person, a schedule, a
/// worker, deliveries, dead letters.
async fn live(node: &Up, tenant: &TenantId) {
    create(node, tenant).await;
    deploy(node, tenant, "waits", WAITS).await;
    deploy(node, tenant, "calls", CALLS).await;
    deploy(node, tenant, "hears", HEARS).await;
    let step = "do: [ { a: { set: { x: 1 } } } ]";
    deploy(node, tenant, "every", &format!("schedule: {{ every: PT10S }}\n{step}")).await;
    let declared = Declared { types: vec!["parcel".to_owned()], ..Declared::default() };
    node.handle.declare_worker(tenant, "ship", &declared).await.unwrap();
    for name in ["waits", "calls", "hears"] {
        start(node, tenant, name).await;
    }
    for n in 0..3 {
        node.handle.publish(tenant, event("parcel", n)).await.unwrap();
        node.handle.publish(tenant, event("order", n)).await.unwrap();
    }
    node.handle.create_key(tenant, "a", &["admin".to_owned()], None).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_hundred_tenants_that_come_and_go_leave_nothing() {
    let world = World::new();
    let mail =
        Declaration::on("mail", ["order"], worker::each(|_| Handled::fail(worker::Class::Validation, "no")));
    let node = world.build().worker(echo("work")).worker(mail).start().await;
    let (stays, comes) = (named("stays"), named("comes"));
    create(&node, &stays).await;
    let before = (node.metric("windlass_lanes"), node.handle.metrics().len());
    for round in 0..100 {
        live(&node, &comes).await;
        if round % 2 == 0 {
            pass(secs(1)).await;
        }
        tell(&node, &comes, DELETE_NOW).await;
        until(async || world.store.tenant(&comes).await.unwrap().is_none()).await;
        assert_eq!(world.store.counts(Some(&comes)).await.unwrap(), Counts::default(), "round {round}");
    }
    until(async || {
        node.metric("windlass_lanes") == 0.0 && node.metric("windlass_instances_in_memory") == 0.0
    })
    .await;
    assert_eq!(
        (node.metric("windlass_lanes"), node.handle.metrics().len()),
        before,
        "nothing is kept in mind"
    );
    assert_eq!(world.store.counts(None).await.unwrap(), Counts::default());
    assert_eq!(world.store.workers().await.unwrap(), []);
    assert_eq!(node.metric("windlass_tenants_purged_total"), 100.0);
    let ids: Vec<TenantId> = world.store.tenants().await.unwrap().into_iter().map(|row| row.id).collect();
    assert_eq!(ids, [stays]);
}

/// What a tenant deploys under a name that somebody else had is its own.
#[tokio::test(start_paused = true)]
async fn nothing_of_a_tenant_is_remembered_for_the_next_of_its_name() {
    let world = World::new();
    let node = world.node().await;
    let acme = &world.tenant;
    for answer in [1, 2] {
        create(&node, acme).await;
        node.deploy("same", &format!("do: [ {{ a: {{ set: {{ x: {answer} }} }} }} ]")).await;
        let id = node.start("same", json!({})).await;
        assert_eq!(node.output(id).await, json!({ "x": answer }));
        tell(&node, acme, DELETE_NOW).await;
        until(async || world.store.tenant(acme).await.unwrap().is_none()).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_node_of_a_database_follows() {
    let Some(database) = scratch::database() else { return };
    migrate(&database.owner_url, Some(database.application)).await.unwrap();
    let store = Arc::new(Postgres::open(&database.url).await.unwrap());
    let world = World::over(store.clone(), Arc::new(SystemClock));
    let gate = Gate::new();
    // They never look round by themselves: what they hear of is what they are told.
    let build = || {
        let build = world.build().worker(gate.worker("work")).hints(Arc::new(store.hints()));
        build.options(|options| options.rescan = None).start()
    };
    let (first, second) = (build().await, build().await);
    let acme = &world.tenant;
    create(&first, acme).await;
    first.deploy("calls", CALLS).await;
    first.deploy("waits", "do: [ { rest: { wait: { milliseconds: 100 } } } ]").await;
    let mut ids =
        vec![first.start("calls", json!({ "n": 1 })).await, second.start("calls", json!({ "n": 1 })).await];
    until(async || gate.begun() == 2).await;
    ids.push(second.start("waits", json!({})).await);
    tell(&first, acme, TenantOrder::Suspend).await;
    until(async || second.handle.standing(acme).is_parked()).await;
    for node in [&first, &second] {
        let refused = node.handle.start(acme, start_of("calls", json!({}))).await.unwrap_err();
        assert_eq!(code(&refused), "tenant-suspended");
    }
    gate.open.add_permits(1_000);
    // The answers of what was under way are taken, and what follows belongs to nobody.
    let settled = async || {
        let owned = [first.node.id(), second.node.id()];
        let mut rows = 0;
        for node in owned {
            rows += world.store.owned(node, 10).await.unwrap().len();
        }
        rows == 0
    };
    until(settled).await;
    let begun = gate.begun();
    pass(Duration::from_millis(500)).await;
    assert_eq!(gate.begun(), begun, "nothing begins");
    for id in &ids[..2] {
        assert!(!has_ended(&first, acme, *id).await);
    }
    tell(&second, acme, TenantOrder::Resume).await;
    for id in ids {
        assert_ne!(first.output(id).await, Value::Null);
    }
    first.stop().await;
    second.stop().await;
}
