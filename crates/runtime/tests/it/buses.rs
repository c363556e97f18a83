//! R09, R10, W05, F21: what is emitted is carried out in order, for as long as it takes; nobody inside waits for it, and
//! what is refused for good holds up nothing.

use crate::support::*;
use bus::{Carried, Carrier, Channel, Inlet, Intake, Parcel, Source, Template};
use machine::{Data, TenantId, Time, time::Span};
use parking_lot::Mutex;
use runtime::{
    TenantOrder,
    buses::{Between, Bus, Incomings},
};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};
use store::{
    Outcome, TenantChange, Write,
    rows::{DeliveryRow, EventRow},
};
use trial::tap::Act;
use uuid::Uuid;
use worker::{Declaration, Effects, Emit, Handled, async_trait};

const EMITS: &str =
    "do: [ { count: { for: { each: n, in: '[range(3)]' }, do: [ { say: { emit: { event: { with: {
    source: 'https://a.b', type: said, data: { n: '${ $n }', of: '${ $workflow.input.of }' } } } } } } ] } } ]";

type Answer = dyn Fn(&Parcel) -> Carried + Send + Sync;

/// Answers as the test says, and notes what it was given.
struct Scripted {
    answer: Mutex<Box<Answer>>,
    given: Mutex<Vec<Parcel>>,
}

impl Scripted {
    fn new(answer: impl Fn(&Parcel) -> Carried + Send + Sync + 'static) -> Arc<Scripted> {
        Arc::new(Scripted { answer: Mutex::new(Box::new(answer)), given: Mutex::default() })
    }

    fn answers(&self, answer: impl Fn(&Parcel) -> Carried + Send + Sync + 'static) {
        *self.answer.lock() = Box::new(answer);
    }

    fn given(&self) -> Vec<(i64, i64, String)> {
        let number = |value: &Value| value.as_i64().unwrap();
        let given = self.given.lock();
        let one = |parcel: &Parcel| {
            let event: Value = serde_json::from_slice(&parcel.event).unwrap();
            (number(&event["data"]["of"]), number(&event["data"]["n"]), parcel.id.clone())
        };
        given.iter().map(one).collect()
    }
}

#[async_trait]
impl Carrier for Scripted {
    fn place(&self) -> String {
        "scripted".to_owned()
    }

    async fn carry(&self, parcels: &[Parcel]) -> Vec<Carried> {
        pass(Duration::from_millis(2)).await;
        self.given.lock().extend_from_slice(parcels);
        let answer = self.answer.lock();
        parcels.iter().map(&*answer).collect()
    }
}

fn over(carrier: &Arc<Scripted>, types: &[&str]) -> Bus {
    let types = types.iter().map(|kind| (*kind).to_owned()).collect();
    Bus { name: "main".to_owned(), types, carrier: carrier.clone(), incomings: None }
}

async fn settled(world: &World) {
    until(|| async {
        let counts = world.counts().await;
        counts.outbox + counts.deliveries == 0
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn what_is_emitted_is_carried_in_order_and_what_is_published_is_not() {
    let world = World::new();
    let carrier = Scripted::new(|_| Carried::Confirmed);
    let node = world.build().bus(over(&carrier, &["said"])).start().await;
    node.deploy("emits", EMITS).await;
    for of in 0..5 {
        node.start("emits", json!({ "of": of })).await;
    }
    let outside = json!({ "specversion": "1.0", "id": "x", "source": "s", "type": "said" });
    node.handle.publish(&node.tenant, machine::Data::from_json(outside)).await.unwrap();
    until(|| async { carrier.given().len() == 15 }).await;
    settled(&world).await;
    for of in 0..5 {
        let said: Vec<i64> = carrier.given().iter().filter(|one| one.0 == of).map(|one| one.1).collect();
        assert_eq!(said, [0, 1, 2]);
    }
    let state = node.handle.buses().remove(0);
    assert_eq!((state.carried, state.refused, state.away), (15, 0, None));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_carried_on_a_lease_that_may_be_over() {
    // Either it may be over before there is anything, or reading what there is takes too long.
    for late in [false, true] {
        let world = World::new();
        let carrier = Scripted::new(|_| Carried::Confirmed);
        let node = world.build().bus(over(&carrier, &["said"])).start().await;
        node.deploy("emits", EMITS).await;
        node.tap.break_down("renew");
        match late {
            true => node.tap.delay("events_of", secs(20)),
            false => pass(secs(20)).await,
        }
        node.start("emits", json!({ "of": 0 })).await;
        pass(secs(60)).await;
        assert_eq!(carrier.given().len(), 0, "another may be at it by now");
        node.tap.repair();
        settled(&world).await;
        assert_eq!(carrier.given().iter().map(|one| one.1).collect::<Vec<_>>(), [0, 1, 2]);
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_inside_waits_for_a_bus_that_is_away() {
    let world = World::new();
    let carrier = Scripted::new(|_| Carried::Away("away".to_owned()));
    let node = world.build().bus(over(&carrier, &["*"])).start().await;
    node.deploy("emits", EMITS).await;
    node.deploy("hears", "do: [ { hear: { listen: { to: { one: { with: { type: said } } } } } } ]").await;
    let hears = node.start("hears", json!({})).await;
    let emits = node.start("emits", json!({ "of": 0 })).await;
    node.output(emits).await;
    node.output(hears).await;
    until(|| async { world.counts().await.outbox == 0 }).await;
    pass(secs(600)).await;
    assert_eq!(world.counts().await.deliveries, 3, "they wait");
    let tries = carrier.given().len();
    assert!((30..=140).contains(&tries), "tried again now and then, not all the time: {tries}");
    assert!(carrier.given().iter().all(|one| one.1 == 0), "the second waits for the first");
    assert!(node.handle.buses()[0].away.is_some());
    let depth = node.handle.bus_depths().await.unwrap().remove(0).unwrap();
    assert_eq!(depth.rows, 3);
    carrier.answers(|_| Carried::Confirmed);
    settled(&world).await;
    let mut ids: Vec<String> = carrier.given().into_iter().map(|one| one.2).collect();
    ids.dedup();
    assert_eq!(ids.len(), 3, "every event keeps its id");
    assert!(node.handle.buses()[0].away.is_none());
}

#[tokio::test(start_paused = true)]
async fn ten_minutes_without_a_bus_lose_nothing_and_keep_the_order_of_every_key() {
    let world = World::new();
    let carrier = Scripted::new(|_| Carried::Away("away".to_owned()));
    let node = world.build().bus(over(&carrier, &["said"])).start().await;
    node.deploy("emits", EMITS).await;
    let mut lag = vec![];
    for of in 0..30 {
        // Starts and steps go on as ever.
        let id = node.start("emits", json!({ "of": of })).await;
        node.output(id).await;
        pass(secs(20)).await;
        lag.push(node.handle.bus_depths().await.unwrap().remove(0).unwrap());
    }
    let rows: Vec<u64> = lag.iter().map(|depth| depth.rows).collect();
    assert_eq!(rows, (1..=30).map(|of| of * 3).collect::<Vec<u64>>(), "the lag rises");
    assert_eq!(lag[0].oldest, lag[29].oldest);
    assert!(world.now().since(lag[29].oldest).0 >= 600_000_000);
    carrier.given.lock().clear();
    carrier.answers(|_| Carried::Confirmed);
    settled(&world).await;
    let depth = node.handle.bus_depths().await.unwrap().remove(0);
    assert_eq!(depth.map_or(0, |depth| depth.rows), 0, "and is gone");
    let given = carrier.given();
    let ids: std::collections::BTreeSet<&String> = given.iter().map(|one| &one.2).collect();
    assert_eq!(ids.len(), 90, "nothing is lost");
    for of in 0..30 {
        let mut said: Vec<i64> = given.iter().filter(|one| one.0 == of).map(|one| one.1).collect();
        said.dedup();
        assert_eq!(said, [0, 1, 2], "instance {of}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_for_good_is_a_dead_letter_and_holds_up_nothing() {
    let world = World::new();
    let is_second = |parcel: &Parcel| String::from_utf8_lossy(&parcel.event).contains("\"n\":1");
    let carrier = Scripted::new(move |parcel| match is_second(parcel) {
        true => Carried::Refused("too large".to_owned()),
        false => Carried::Confirmed,
    });
    let node = world.build().bus(over(&carrier, &["said"])).start().await;
    node.deploy("emits", EMITS).await;
    node.start("emits", json!({ "of": 0 })).await;
    let letter = world.letter().await;
    settled(&world).await;
    assert_eq!((letter.source.as_str(), letter.reason.as_str()), ("delivery", "refused"));
    assert!(letter.detail.contains("too large"), "{}", letter.detail);
    assert_eq!(carrier.given().iter().map(|one| one.1).collect::<Vec<_>>(), [0, 1, 2]);
    carrier.answers(|_| Carried::Confirmed);
    node.handle.replay_dead_letter(&node.tenant, letter.id, "ann").await.unwrap();
    until(|| async { carrier.given().len() == 4 }).await;
    settled(&world).await;
    assert_eq!(carrier.given()[3].2, carrier.given()[1].2, "the same id");
}

#[tokio::test(start_paused = true)]
async fn one_that_fails_while_others_are_carried_is_tried_again_later() {
    let world = World::new();
    let is_of_one = |parcel: &Parcel| String::from_utf8_lossy(&parcel.event).contains("\"of\":1");
    let carrier = Scripted::new(move |parcel| match is_of_one(parcel) {
        true => Carried::Failed("not this one".to_owned()),
        false => Carried::Confirmed,
    });
    let node = world.build().bus(over(&carrier, &["said"])).start().await;
    node.deploy("emits", EMITS).await;
    for of in 0..3 {
        node.start("emits", json!({ "of": of })).await;
    }
    until(|| async { node.handle.buses()[0].carried >= 6 }).await;
    pass(secs(300)).await;
    assert_eq!(world.counts().await.deliveries, 3);
    carrier.answers(|_| Carried::Confirmed);
    settled(&world).await;
    let of_one: Vec<i64> = carrier.given().iter().filter(|one| one.0 == 1).map(|one| one.1).collect();
    assert!(of_one.is_sorted(), "{of_one:?}");
}

/// A worker that says again what it hears, so that it is carried out.
fn says_again() -> Declaration {
    let handler = worker::each(|delivery| {
        let data = delivery.event.get("data").unwrap_or_default();
        Handled::Done(Effects { emits: vec![Emit::new("said", data)], ..Effects::default() })
    });
    Declaration::on("again", ["heard"], handler)
}

async fn hear(node: &Up, tenant: &TenantId, n: i64) {
    let event = json!({ "specversion": "1.0", "id": n.to_string(), "source": "s", "type": "heard",
        "data": { "of": 0, "n": n } });
    node.handle.publish(tenant, Data::from_json(event)).await.unwrap();
}

/// P12, F21: whatever a bus says of one tenant's place, another's events go out.
async fn only_one_waits(said: fn(String) -> Carried) {
    let world = World::new();
    let zoo = TenantId::new("zoo").unwrap();
    let carrier = Scripted::new(move |parcel| match parcel.tenant.as_str() {
        "acme" => said("not to this place".to_owned()),
        _ => Carried::Confirmed,
    });
    let node = world.build().worker(says_again()).bus(over(&carrier, &["said"])).start().await;
    for n in 0..20 {
        hear(&node, &node.tenant, n).await;
    }
    until(|| async { !carrier.given().is_empty() }).await;
    hear(&node, &zoo, 0).await;
    until(|| async { node.handle.buses()[0].carried == 1 }).await;
    assert_eq!(world.counts().await.deliveries, 20, "they wait");
    carrier.answers(|_| Carried::Confirmed);
    settled(&world).await;
    assert_eq!(node.handle.buses()[0].carried, 21);
}

#[tokio::test(start_paused = true)]
async fn a_place_that_is_denied_holds_up_its_own_tenant_only() {
    only_one_waits(Carried::Failed).await;
}

#[tokio::test(start_paused = true)]
async fn a_bus_that_is_away_for_one_tenant_carries_for_another() {
    only_one_waits(Carried::Away).await;
}

#[tokio::test(start_paused = true)]
async fn what_names_another_tenant_does_not_go_out() {
    let world = World::new();
    let carrier = Scripted::new(|_| Carried::Confirmed);
    for (at, named) in [(1, "zoo"), (2, "acme")] {
        let event = json!({ "specversion": "1.0", "id": named, "source": "s", "type": "said",
            "tenantid": named, "data": { "of": 0, "n": at } });
        let event = EventRow {
            id: Uuid::from_u128(at),
            source: "s".to_owned(),
            event_id: named.to_owned(),
            event_type: "said".to_owned(),
            received_at: world.now(),
            visible_at: world.now(),
            kept_until: None,
            expires_at: world.now().after(Span::from_secs(3_600)),
            told: 0,
            taken: 0,
            started: 0,
            collected: 0,
            delivered: 1,
            emitted_by: Some(named.to_owned()),
            traced: store::rows::Traced::default(),
            event: event.to_string().into_bytes(),
        };
        let delivery = DeliveryRow {
            id: Uuid::from_u128(100 + at),
            worker: "bus:main".to_owned(),
            events: [event.id].into_iter().collect(),
            order_key: None,
            created_at: world.now(),
            visible_at: world.now(),
            attempt: 0,
            last_error: None,
            owner: None,
            taken_over: 0,
            traced: store::rows::Traced::default(),
        };
        let writes = vec![Write::Publish(Box::new(event)), Write::Delivery(Box::new(delivery))];
        assert_eq!(world.write(writes).await, Outcome::Committed);
    }
    let node = world.build().bus(over(&carrier, &["said"])).start().await;
    settled(&world).await;
    assert_eq!(carrier.given().iter().map(|one| one.1).collect::<Vec<_>>(), [2]);
    assert!(world.letter().await.detail.contains("names another tenant"));
    assert_eq!(node.metric("windlass_foreign_events_total"), 1.0);
}

#[tokio::test(start_paused = true)]
async fn what_nodes_end_with_does_not_go_out() {
    let world = World::new();
    let carrier = Scripted::new(|_| Carried::Away("away".to_owned()));
    let node = world.build().bus(over(&carrier, &["said"])).start().await;
    node.deploy("emits", EMITS).await;
    node.start("emits", json!({ "of": 0 })).await;
    until(|| async { !carrier.given().is_empty() }).await;
    node.crash().await;
    carrier.given.lock().clear();
    carrier.answers(|_| Carried::Confirmed);
    let build = world.build().bus(over(&carrier, &["said"])).sole();
    let _node = build.options(|options| options.taken_over_max = 1).start().await;
    settled(&world).await;
    assert_eq!(carrier.given().iter().map(|one| one.1).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(world.letter().await.reason, "poison");
}

#[tokio::test(start_paused = true)]
async fn a_crash_after_carrying_carries_again_with_the_same_id() {
    let world = World::new();
    let carrier = Scripted::new(|_| Carried::Confirmed);
    let node = world.build().bus(over(&carrier, &["said"])).start().await;
    node.deploy("emits", EMITS).await;
    let settles = |commit: &store::Commit| {
        commit.writes.iter().any(|write| matches!(write, store::Write::ConsumeDelivery { .. }))
    };
    node.tap.once(settles, Act::CrashBefore);
    node.start("emits", json!({ "of": 0 })).await;
    until(|| async { !carrier.given().is_empty() }).await;
    pass(secs(5)).await;
    node.crash().await;
    let _node = world.build().bus(over(&carrier, &["said"])).sole().start().await;
    settled(&world).await;
    let given = carrier.given();
    assert_eq!(given.iter().map(|one| one.1).collect::<Vec<_>>(), [0, 0, 1, 2]);
    assert_eq!(given[0].2, given[1].2);
}

/// In real time: a database shows its feed once no older transaction is open on its server, whoever has it.
#[tokio::test]
async fn what_a_bus_has_lost_is_carried_again() {
    let world = World::real();
    let carrier = Scripted::new(|_| Carried::Confirmed);
    let node = world.build().bus(over(&carrier, &["said"])).start().await;
    node.deploy("emits", EMITS).await;
    node.start("emits", json!({ "of": 0 })).await;
    until(|| async { carrier.given().len() == 3 }).await;
    settled(&world).await;
    node.handle.create_tenant(&node.tenant, "made for this").await.unwrap();
    let all = Between { since: Time(0), until: None };
    assert_eq!(node.handle.resend("main", Some(&node.tenant), all).await.unwrap(), 3);
    settled(&world).await;
    let given = carrier.given();
    assert_eq!(given[..3], given[3..]);
    let later = Between { since: world.now().after(machine::time::Span::from_secs(60)), until: None };
    assert_eq!(node.handle.resend("main", None, later).await.unwrap(), 0);
    assert!(node.handle.resend("other", None, all).await.is_err());
}

/// A server that has nothing for anybody.
struct Silent;

#[async_trait]
impl Source for Silent {
    async fn hear(&self, _: &TenantId, _: &Inlet, _: &dyn Intake) -> String {
        std::future::pending().await
    }
}

/// A10: whoever takes nothing new is not heard either.
#[tokio::test(start_paused = true)]
async fn a_degraded_tenant_is_heard_only_if_it_takes_some() {
    let world = World::new();
    let inlets = vec![Inlet { channel: Channel::Events, subject: Template::parse("in.{tenant}").unwrap() }];
    let incomings = Some(Incomings { source: Arc::new(Silent), inlets });
    let bus = Bus { incomings, ..over(&Scripted::new(|_| Carried::Confirmed), &[]) };
    let node = world.build().bus(bus).start().await;
    node.handle.create_tenant(&node.tenant, "Acme").await.unwrap();
    let heard = || node.handle.buses()[0].subscriptions;
    let few = |degraded_per_second| TenantChange { degraded_per_second, ..TenantChange::default() };
    for (order, change, expected) in [
        (TenantOrder::Resume, few(None), 1),
        (TenantOrder::Degrade, few(Some(0)), 0),
        (TenantOrder::Degrade, few(Some(2)), 1),
        (TenantOrder::Suspend, few(None), 0),
        (TenantOrder::Resume, few(None), 1),
    ] {
        node.handle.order_tenant(&node.tenant, order, change).await.unwrap();
        until(|| async { heard() == expected }).await;
    }
}
