//! What `explain` says, for everything that can keep an instance or a delivery waiting.

use crate::support::*;
use machine::{Data, time::Span};
use runtime::{
    TenantOrder,
    api::{Class, DebounceSaid, Declared, Handled, Order, RateSaid, Refusal, Webhook},
    buses::Bus,
    egress::Range,
    explain::Reason,
    secrets::Keyring,
};
use serde_json::json;
use std::sync::Arc;
use store::TenantChange;
use uuid::Uuid;
use worker::{Declaration, Outcome, RetryPolicy};

/// The first reason of that kind, which the sentence must begin with if it is the first of all.
async fn reason(node: &Up, id: Uuid, kind: &str) -> Reason {
    let explanation = node.handle.explain(&node.tenant, id).await.unwrap();
    let found = explanation.reasons.iter().find(|reason| reason.kind == kind);
    let found = found.unwrap_or_else(|| panic!("no reason {kind} in {explanation:#?}"));
    assert!(explanation.summary.starts_with(&explanation.reasons[0].text), "{explanation:#?}");
    found.clone()
}

async fn kinds(node: &Up, id: Uuid) -> Vec<&'static str> {
    let explanation = node.handle.explain(&node.tenant, id).await.unwrap();
    explanation.reasons.into_iter().map(|reason| reason.kind).collect()
}

async fn stands_at(world: &World, id: Uuid, kind: &str) {
    until(async || world.view(id).await.waiting_kind.as_deref() == Some(kind)).await;
}

#[tokio::test(start_paused = true)]
async fn waits_for_time_people_events_and_children() {
    let world = World::new();
    let node = world.node().await;
    node.deploy("timer", "do: [ { rest: { wait: { minutes: 5 } } } ]").await;
    node.deploy("event", "do: [ { hear: { listen: { to: { one: { with: { type: order.paid } } } } } } ]")
        .await;
    let task = "do: [ { ask: { call: 'human-task:1.0.0@default', with: { title: Check it, candidateGroups: [ clerks ] } } } ]";
    node.deploy("task", task).await;
    let child = "do: [ { sub: { run: { workflow: { namespace: test, name: timer, version: '1.0.0' } } } } ]";
    node.deploy("parent", child).await;
    let limited = "timeout: { after: { minutes: 1 } }\ndo: [ { rest: { wait: { minutes: 5 } } } ]";
    node.deploy("limited", limited).await;

    let timer = node.start("timer", json!({})).await;
    stands_at(&world, timer, "Timer").await;
    let found = reason(&node, timer, "timer").await;
    assert_eq!(found.step.as_deref(), Some("/do/0/rest"));
    let left = found.until.unwrap().since(world.now());
    assert!(left > Span::from_secs(290) && left <= Span::from_secs(300), "{found:?}");

    let event = node.start("event", json!({})).await;
    stands_at(&world, event, "Event").await;
    let found = reason(&node, event, "event").await;
    assert_eq!(found.event_types, ["order.paid"]);
    assert!(found.text.contains("`order.paid`"), "{found:?}");

    let task = node.start("task", json!({})).await;
    stands_at(&world, task, "TaskCompletion").await;
    let found = reason(&node, task, "task").await;
    let row = world.tasks(task).await.remove(0);
    assert_eq!(found.task, Some(row.id));
    assert!(found.text.contains("Check it") && found.text.contains("clerks"), "{found:?}");
    node.handle.act_on_task(&node.tenant, row.id, runtime::api::TaskAct::Claim, "ann", None).await.unwrap();
    assert!(reason(&node, task, "task").await.text.contains("ann"));

    let parent = node.start("parent", json!({})).await;
    stands_at(&world, parent, "Child").await;
    until(async || reason(&node, parent, "child").await.text.contains("to end")).await;
    let child = reason(&node, parent, "child").await.instance.unwrap();
    assert_eq!(kinds(&node, child).await, ["timer"]);

    let limited = node.start("limited", json!({})).await;
    stands_at(&world, limited, "Timer").await;
    assert_eq!(kinds(&node, limited).await, ["timer", "time-limit"], "the limit comes last");
}

#[tokio::test(start_paused = true)]
async fn orders_tenants_and_ends_come_first() {
    let world = World::new();
    let node = world.node().await;
    node.handle.create_tenant(&node.tenant, "Acme").await.unwrap();
    node.deploy("timer", "do: [ { rest: { wait: { minutes: 5 } } } ]").await;
    let id = node.start("timer", json!({})).await;
    stands_at(&world, id, "Timer").await;
    node.handle.order(&node.tenant, id, Order::Pause, "ann").await.unwrap();
    assert_eq!(kinds(&node, id).await[0], "paused");
    node.handle.order(&node.tenant, id, Order::Resume, "ann").await.unwrap();
    let tell =
        async |order| node.handle.order_tenant(&node.tenant, order, TenantChange::default()).await.unwrap();
    tell(TenantOrder::Suspend).await;
    assert_eq!(kinds(&node, id).await, ["tenant", "timer"]);
    assert!(reason(&node, id, "tenant").await.text.contains("suspended"));
    tell(TenantOrder::Resume).await;
    assert_eq!(kinds(&node, id).await, ["timer"]);
    node.output(id).await;
    assert!(reason(&node, id, "ended").await.text.contains("completed"));
    let unknown = node.handle.explain(&node.tenant, Uuid::from_u128(1)).await;
    assert!(matches!(unknown, Err(Refusal::NotFound(_))), "{unknown:?}");
}

const CALLS: &str = "do: [ { charge: { call: 'work:1.0.0@default', with: { v: 1 } } } ]";

#[tokio::test(start_paused = true)]
async fn calls_are_held_queued_limited_retried_or_without_a_worker() {
    let world = World::new();
    let gate = Gate::new();
    let failing =
        Declaration::new("fails", worker::from_fn(|_, _| Outcome::retry("the card service is away")));
    let retry = RetryPolicy { attempts_max: 3, base: Span::from_secs(600), ..RetryPolicy::default() };
    let node = world
        .build()
        .worker(gate.worker("work").concurrency_max(1))
        .worker(failing.retry(retry))
        .start()
        .await;
    node.handle.create_tenant(&node.tenant, "Acme").await.unwrap();
    node.deploy("calls", CALLS).await;
    node.deploy("fails", "do: [ { pay: { call: 'fails:1.0.0@default', with: { v: 1 } } } ]").await;
    node.deploy("nobody", "do: [ { ask: { call: 'nobody:1.0.0@default', with: { v: 1 } } } ]").await;

    let first = node.start("calls", json!({})).await;
    until(async || gate.begun() == 1).await;
    let second = node.start("calls", json!({})).await;
    let held = reason(&node, first, "held").await;
    assert_eq!(
        (held.node, held.target.as_deref(), held.attempt),
        (Some(node.node.id()), Some("work"), Some(1))
    );
    assert_eq!(held.step.as_deref(), Some("/do/0/charge"));
    let limited = reason(&node, second, "limit").await;
    assert!(limited.text.contains("`work` handles 1 at once"), "{limited:?}");

    // What no node has taken stands in line.
    let suspend =
        async |order| node.handle.order_tenant(&node.tenant, order, TenantChange::default()).await.unwrap();
    suspend(TenantOrder::Suspend).await;
    until(async || kinds(&node, second).await.contains(&"queued")).await;
    let queued = reason(&node, second, "queued").await;
    assert_eq!(queued.ahead, Some(0));
    suspend(TenantOrder::Resume).await;
    gate.open.add_permits(10);

    let failing = node.start("fails", json!({})).await;
    until(async || kinds(&node, failing).await == ["retry"]).await;
    let again = reason(&node, failing, "retry").await;
    assert_eq!((again.attempt, again.attempts_max), (Some(2), Some(3)));
    assert!(again.until.is_some() && again.text.contains("the card service is away"), "{again:?}");

    let alone = node.start("nobody", json!({})).await;
    until(async || kinds(&node, alone).await.contains(&"no-worker")).await;
    assert!(reason(&node, alone, "no-worker").await.text.contains("nobody"));
}

#[tokio::test(start_paused = true)]
async fn a_dead_letter_is_named() {
    let world = World::new();
    let poison =
        Declaration::new("work", worker::from_fn(|_, _| Outcome::fail(Class::Poison, "no such card")));
    let node = world.build().worker(poison).start().await;
    node.deploy("calls", CALLS).await;
    let id = node.start("calls", json!({})).await;
    node.fault(id).await;
    let letter = world.letter().await;
    let found = reason(&node, id, "dead-letter").await;
    assert_eq!(found.dead_letter, Some(letter.id));
    assert_eq!(kinds(&node, id).await, ["ended", "dead-letter"]);
}

fn event(kind: &str, n: i64) -> Data {
    let id = format!("{kind}-{n}");
    Data::from_json(
        json!({ "specversion": "1.0", "id": id, "source": "test", "type": kind, "data": { "n": n } }),
    )
}

#[tokio::test(start_paused = true)]
async fn deliveries_wait_for_their_turn_their_worker_or_their_time() {
    let world = World::new();
    let node = world.node().await;
    let tenant = &node.tenant;
    node.handle.create_tenant(tenant, "Acme").await.unwrap();
    let declared = Declared {
        types: vec!["order".to_owned()],
        order_by: Some("source".to_owned()),
        retry_base_ms: 600_000,
        retry_cap_ms: 600_000,
        ..Declared::default()
    };
    node.handle.declare_worker(tenant, "mail", &declared).await.unwrap();
    for n in 0..2 {
        node.handle.publish(tenant, event("order", n)).await.unwrap();
    }
    let rows = world.store.deliveries(tenant, &Default::default(), None, 10).await.unwrap();
    let (first, second) = (rows[0].id, rows[1].id);
    let explain = async |id| node.handle.explain_delivery(tenant, id).await.unwrap().reasons;
    let kinds = async |id| explain(id).await.iter().map(|reason| reason.kind).collect::<Vec<_>>();
    assert_eq!(kinds(first).await, ["queued", "polling"]);
    assert!(explain(first).await[1].text.contains("has not asked"));
    assert_eq!((explain(first).await[0].ahead, explain(first).await[0].attempt), (Some(0), Some(1)));
    assert_eq!(kinds(second).await, ["order"]);
    assert_eq!(explain(second).await[0].delivery, Some(first));

    let lent = node.handle.poll_deliveries(tenant, "mail", 5, secs(1)).await.unwrap().remove(0);
    assert_eq!(kinds(first).await, ["lent", "polling"]);
    assert!(explain(first).await[1].text.contains("0 s ago"));
    assert_eq!((explain(first).await[0].attempt, explain(first).await[0].attempts_max), (Some(1), Some(5)));
    let failed = vec![Handled::retry("the mail server is away")];
    node.handle.answer_delivery(tenant, lent.id, lent.attempt, failed).await.unwrap();
    let found = explain(first).await.remove(0);
    assert_eq!((found.kind, found.attempt), ("retry", Some(2)));
    assert!(found.text.contains("the mail server is away"), "{found:?}");
    // The second time it is lent it is with a worker again, whatever became of the first.
    pass(secs(601)).await;
    let lent = node.handle.poll_deliveries(tenant, "mail", 5, secs(1)).await.unwrap().remove(0);
    assert_eq!((lent.id, lent.attempt), (first, 2));
    let found = explain(first).await.remove(0);
    assert_eq!((found.kind, found.attempt), ("lent", Some(2)), "{found:?}");

    node.handle.order_tenant(tenant, TenantOrder::Suspend, TenantChange::default()).await.unwrap();
    assert_eq!(kinds(first).await[0], "tenant");
    node.handle.order_tenant(tenant, TenantOrder::Resume, TenantChange::default()).await.unwrap();
    node.handle.forget_worker(tenant, "mail").await.unwrap();
    assert_eq!(kinds(first).await[0], "no-worker");
    let gone = node.handle.explain_delivery(tenant, Uuid::from_u128(1)).await;
    assert!(matches!(gone, Err(Refusal::NotFound(_))), "{gone:?}");
}

#[tokio::test(start_paused = true)]
async fn a_delivery_says_which_node_has_it() {
    let world = World::new();
    let slow = Declaration::on("mail", ["order"], Slow);
    let node = world.build().worker(slow.concurrency_max(1)).start().await;
    for n in 0..2 {
        node.handle.publish(&node.tenant, event("order", n)).await.unwrap();
    }
    let rows = world.store.deliveries(&node.tenant, &Default::default(), None, 10).await.unwrap();
    let reasons = node.handle.explain_delivery(&node.tenant, rows[1].id).await.unwrap().reasons;
    let kinds: Vec<&str> = reasons.iter().map(|reason| reason.kind).collect();
    assert_eq!(kinds, ["limit", "held"]);
    assert_eq!(reasons[1].node, Some(node.node.id()));
}

struct Slow;

#[async_trait::async_trait]
impl worker::Handler for Slow {
    async fn handle(&self, deliveries: &[worker::Delivery]) -> Vec<Handled> {
        pass(secs(30)).await;
        vec![Handled::done(); deliveries.len()]
    }
}

/// What is said of the only delivery there is.
async fn of_the_only(world: &World, node: &Up) -> Vec<Reason> {
    let rows = world.store.deliveries(&node.tenant, &Default::default(), None, 10).await.unwrap();
    let [row] = rows.as_slice() else { return vec![] };
    node.handle.explain_delivery(&node.tenant, row.id).await.map(|why| why.reasons).unwrap_or_default()
}

fn kinds_of(reasons: &[Reason]) -> Vec<&'static str> {
    reasons.iter().map(|reason| reason.kind).collect()
}

#[tokio::test(start_paused = true)]
async fn deliveries_say_what_bounds_their_worker() {
    let world = World::new();
    let node = world.node().await;
    let tenant = &node.tenant;
    let one_at_once =
        Declared { types: vec!["one".to_owned()], concurrency_max: Some(1), ..Declared::default() };
    node.handle.declare_worker(tenant, "one", &one_at_once).await.unwrap();
    let rated = Declared {
        types: vec!["rated".to_owned()],
        rate: Some(RateSaid { max: 1, seconds: 60 }),
        ..Declared::default()
    };
    node.handle.declare_worker(tenant, "rated", &rated).await.unwrap();
    for (kind, said) in [("one", "which is its `concurrency_max`"), ("rated", "one every 60000 ms")] {
        for n in 0..2 {
            node.handle.publish(tenant, event(kind, n)).await.unwrap();
        }
        assert_eq!(node.handle.poll_deliveries(tenant, kind, 5, secs(1)).await.unwrap().len(), 1);
        let rows = world.store.deliveries(tenant, &Default::default(), None, 10).await.unwrap();
        let waits = rows.iter().find(|row| row.worker == kind && row.attempt == 0).unwrap();
        let reasons = node.handle.explain_delivery(tenant, waits.id).await.unwrap().reasons;
        assert_eq!(kinds_of(&reasons), ["limit", "queued", "polling"], "{reasons:?}");
        assert!(reasons[0].text.contains(said), "{reasons:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_delivery_that_is_held_back_is_no_retry() {
    let world = World::new();
    let node = world.node().await;
    let debounced = Declared {
        types: vec!["order".to_owned()],
        debounce: Some(DebounceSaid { by: None, quiet_ms: 60_000, wait_max_ms: None }),
        ..Declared::default()
    };
    node.handle.declare_worker(&node.tenant, "mail", &debounced).await.unwrap();
    node.handle.publish(&node.tenant, event("order", 1)).await.unwrap();
    let reasons = of_the_only(&world, &node).await;
    assert_eq!(kinds_of(&reasons), ["held-back", "polling"]);
    let left = reasons[0].until.unwrap().since(world.now());
    assert!(left > Span::from_secs(50) && left <= Span::from_secs(60), "{reasons:?}");
}

#[tokio::test(start_paused = true)]
async fn a_delivery_of_a_webhook_says_what_is_wrong_with_the_webhook() {
    let world = World::new();
    let build = world.build().secrets(Keyring::fresh().0);
    let node = build.options(|options| options.egress.allow_private = Range::LOOPBACK.to_vec()).start().await;
    let secret = Data::text("whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=");
    node.handle.put_secret(&node.tenant, "sign", &secret, &[]).await.unwrap();
    // Nobody listens there.
    let webhook = Webhook {
        url: "http://127.0.0.1:9/".to_owned(),
        types: vec!["order".to_owned()],
        secrets: vec!["sign".to_owned()],
        attempts_max: 7,
        disabled: None,
    };
    node.handle.put_webhook(&node.tenant, "shop", &webhook).await.unwrap();
    node.handle.publish(&node.tenant, event("order", 1)).await.unwrap();
    until(async || kinds_of(&of_the_only(&world, &node).await) == ["retry"]).await;
    let found = of_the_only(&world, &node).await.remove(0);
    assert_eq!((found.target.as_deref(), found.attempts_max), (Some("webhook:shop"), Some(7)));
    let disabled = Webhook { disabled: Some("the receiver answered 410".to_owned()), ..webhook };
    node.handle.put_webhook(&node.tenant, "shop", &disabled).await.unwrap();
    until(async || kinds_of(&of_the_only(&world, &node).await) == ["disabled", "retry"]).await;
    let reasons = of_the_only(&world, &node).await;
    assert!(reasons[0].text.contains("answered 410"), "{reasons:?}");
    node.handle.forget_webhook(&node.tenant, "shop").await.unwrap();
    let reasons = of_the_only(&world, &node).await;
    assert_eq!(reasons[0].kind, "no-worker");
    assert!(reasons[0].text.contains("no webhook `shop`"), "{reasons:?}");
}

struct Away;

#[async_trait::async_trait]
impl bus::Carrier for Away {
    fn place(&self) -> String {
        "nats://far:4222".to_owned()
    }

    async fn carry(&self, parcels: &[bus::Parcel]) -> Vec<bus::Carried> {
        vec![bus::Carried::Away("connection refused".to_owned()); parcels.len()]
    }
}

#[tokio::test(start_paused = true)]
async fn a_delivery_of_a_bus_says_since_when_the_bus_is_away() {
    let world = World::new();
    let main = || Bus {
        name: "main".to_owned(),
        types: vec!["said".to_owned()],
        carrier: Arc::new(Away),
        incomings: None,
    };
    let node = world.build().bus(main()).start().await;
    node.deploy(
        "emits",
        "do: [ { say: { emit: { event: { with: { source: 'https://a.b', type: said } } } } } ]",
    )
    .await;
    node.start("emits", json!({})).await;
    until(async || kinds_of(&of_the_only(&world, &node).await).contains(&"away")).await;
    let reasons = of_the_only(&world, &node).await;
    assert!(reasons[0].text.contains("bus `main` at nats://far:4222"), "{reasons:?}");
    assert!(reasons[0].text.contains("connection refused") && reasons[0].attempts_max.is_none());
    node.stop().await;
    let without = world.node().await;
    let reasons = of_the_only(&world, &without).await;
    assert_eq!(reasons[0].kind, "no-worker");
    assert!(reasons[0].text.contains("no bus `main`"), "{reasons:?}");
}
