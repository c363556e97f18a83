//! What every adapter of the port of events that go out keeps to (R10, F21, F22).

use async_nats::jetstream::{self, stream};
use async_trait::async_trait;
use bus::{CARRY_MAX, Carried, Carrier, Outlet, Parcel, Server};
use futures_util::StreamExt;
use machine::TenantId;
use scratch::{Broker, Kind};
use std::{sync::Arc, time::Duration};
use tokio::time::timeout;

/// How long anything may take on a slow, busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// A server, and what a consumer finds on it.
#[async_trait]
trait Place: Send + Sync {
    fn outlet(&self) -> Outlet;
    /// (id, event) of everything that is kept for the tenant, in order.
    async fn kept(&self, tenant: &str) -> Vec<(String, String)>;
    /// Makes the server refuse whatever comes for this tenant that is longer than 1,000 bytes, or all of it.
    async fn refuse(&self, tenant: &str);
    /// How long an event is that is refused.
    fn too_long(&self) -> usize {
        5_000
    }
    /// How many copies stay of what is carried twice.
    fn copies(&self) -> usize;
    fn broker(&mut self) -> &mut Broker;
}

struct Nats(Broker);
struct Redis(Broker);
struct Kafka(Broker);

#[async_trait]
impl Place for Nats {
    fn outlet(&self) -> Outlet {
        Outlet::new(Server::parse(&self.0.url()).unwrap())
    }

    async fn kept(&self, tenant: &str) -> Vec<(String, String)> {
        let context = jetstream::new(async_nats::connect(self.0.url()).await.unwrap());
        let Ok(stream) = context.get_stream("windlass-events").await else { return vec![] };
        let config = jetstream::consumer::pull::Config {
            filter_subject: format!("windlass.{tenant}.events.>"),
            ..Default::default()
        };
        let consumer = stream.create_consumer(config).await.unwrap();
        let mut messages = consumer.fetch().max_messages(10_000).messages().await.unwrap();
        let mut kept = vec![];
        while let Some(Ok(message)) = messages.next().await {
            let id = message.headers.as_ref().unwrap().get("Nats-Msg-Id").unwrap().to_string();
            kept.push((id, String::from_utf8(message.payload.to_vec()).unwrap()));
        }
        kept
    }

    async fn refuse(&self, _: &str) {
        let context = jetstream::new(async_nats::connect(self.0.url()).await.unwrap());
        let config = stream::Config {
            name: "windlass-events".to_owned(),
            subjects: vec!["windlass.*.events.>".to_owned()],
            max_message_size: 1_000,
            ..Default::default()
        };
        context.create_stream(config).await.unwrap();
    }

    fn copies(&self) -> usize {
        1
    }

    fn broker(&mut self) -> &mut Broker {
        &mut self.0
    }
}

#[async_trait]
impl Place for Redis {
    fn outlet(&self) -> Outlet {
        Outlet::new(Server::parse(&self.0.url()).unwrap())
    }

    async fn kept(&self, tenant: &str) -> Vec<(String, String)> {
        let client = ::redis::Client::open(self.0.url()).unwrap();
        let mut line = client.get_multiplexed_async_connection().await.unwrap();
        let key = format!("windlass.{tenant}.events");
        let range = ::redis::cmd("XRANGE").arg(&key).arg("-").arg("+").query_async(&mut line).await;
        let range: ::redis::streams::StreamRangeReply = range.unwrap();
        range.ids.iter().map(|entry| (entry.get("id").unwrap(), entry.get("event").unwrap())).collect()
    }

    async fn refuse(&self, tenant: &str) {
        let client = ::redis::Client::open(self.0.url()).unwrap();
        let mut line = client.get_multiplexed_async_connection().await.unwrap();
        let key = format!("windlass.{tenant}.events");
        let _: () = ::redis::cmd("SET").arg(&key).arg("no stream").query_async(&mut line).await.unwrap();
    }

    fn copies(&self) -> usize {
        2
    }

    fn broker(&mut self) -> &mut Broker {
        &mut self.0
    }
}

#[async_trait]
impl Place for Kafka {
    fn outlet(&self) -> Outlet {
        Outlet::new(Server::parse(&self.0.url()).unwrap())
    }

    async fn kept(&self, tenant: &str) -> Vec<(String, String)> {
        let records = crate::topics::kept(&self.0, &format!("windlass.{tenant}.events")).await;
        let read = |record: &krafka::consumer::ConsumerRecord| {
            let value = String::from_utf8(record.value.clone().unwrap().to_vec()).unwrap();
            (record.header_str("windlass-id").unwrap().to_owned(), value)
        };
        records.iter().map(read).collect()
    }

    /// It refuses what is longer than a record may be, whoever sends it.
    async fn refuse(&self, _: &str) {}

    fn too_long(&self) -> usize {
        2_000_000
    }

    fn copies(&self) -> usize {
        2
    }

    fn broker(&mut self) -> &mut Broker {
        &mut self.0
    }
}

macro_rules! over_every_adapter {
    ($($promise:ident),* $(,)?) => {
        mod nats { $(super::over_every_adapter!(@ $promise, super::Nats, super::Kind::Nats);)* }
        mod redis { $(super::over_every_adapter!(@ $promise, super::Redis, super::Kind::Redis);)* }
        mod kafka { $(super::over_every_adapter!(@ $promise, super::Kafka, super::Kind::Kafka);)* }
    };
    (@ $promise:ident, $place:expr, $kind:expr) => {
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $promise() {
            let Some(broker) = scratch::broker($kind) else { return };
            super::$promise(&mut $place(broker)).await;
        }
    };
}
use over_every_adapter;

over_every_adapter![
    what_is_confirmed_is_there_in_its_tenants_place,
    what_is_confirmed_first_comes_first,
    what_is_carried_again_has_the_same_id,
    what_is_refused_is_refused_alone,
    a_server_that_is_gone_fails_and_one_that_is_back_takes,
    a_server_that_stands_still_fails_in_time,
];

fn parcel(of: &str, number: usize) -> Parcel {
    Parcel {
        tenant: TenantId::new(of).unwrap(),
        id: format!("evt_{of}_{number}"),
        key: Some("ins_1".to_owned()),
        event_type: "order.placed".to_owned(),
        event: format!("{{\"n\":{number}}}").into_bytes(),
    }
}

async fn carry(carrier: &Arc<dyn Carrier>, parcels: &[Parcel]) -> Vec<Carried> {
    // On a busy machine a little longer than promised.
    timeout(CARRY_MAX * 2, carrier.carry(parcels)).await.expect("a call ends")
}

/// Carries until it is confirmed, as the runtime does.
async fn until_confirmed(carrier: &Arc<dyn Carrier>, parcel: &Parcel) {
    let carrying =
        async { while carry(carrier, std::slice::from_ref(parcel)).await != [Carried::Confirmed] {} };
    timeout(PATIENCE, carrying).await.expect("it is confirmed in the end");
}

async fn what_is_confirmed_is_there_in_its_tenants_place(place: &mut dyn Place) {
    let carrier = place.outlet().carrier().unwrap();
    let mut strange = parcel("acme", 3);
    strange.event_type = "ümlaut * > .x..".to_owned();
    let parcels = [parcel("acme", 1), parcel("zoo", 2), strange];
    assert_eq!(carry(&carrier, &parcels).await, vec![Carried::Confirmed; 3]);
    let kept = |of: &str, number: usize| (format!("evt_{of}_{number}"), format!("{{\"n\":{number}}}"));
    assert_eq!(place.kept("acme").await, [kept("acme", 1), kept("acme", 3)]);
    assert_eq!(place.kept("zoo").await, [kept("zoo", 2)]);
    assert!(!carrier.place().is_empty());
    assert_eq!(carry(&carrier, &[]).await, []);
}

async fn what_is_confirmed_first_comes_first(place: &mut dyn Place) {
    let carrier = place.outlet().carrier().unwrap();
    let mut expected = vec![];
    for page in 0..5 {
        let parcels: Vec<Parcel> = (0..200).map(|at| parcel("acme", page * 200 + at)).collect();
        assert_eq!(carry(&carrier, &parcels).await, vec![Carried::Confirmed; 200]);
        expected.push(parcels.into_iter().map(|parcel| parcel.id).collect::<Vec<_>>());
    }
    let kept: Vec<String> = place.kept("acme").await.into_iter().map(|(id, _)| id).collect();
    let mut pages: Vec<Vec<String>> = kept.chunks(200).map(<[String]>::to_vec).collect();
    pages.iter_mut().chain(&mut expected).for_each(|page| page.sort_unstable());
    assert_eq!(pages, expected);
}

async fn what_is_carried_again_has_the_same_id(place: &mut dyn Place) {
    let (one, other) = (place.outlet().carrier().unwrap(), place.outlet().carrier().unwrap());
    for carrier in [&one, &other] {
        assert_eq!(carry(carrier, &[parcel("acme", 1)]).await, [Carried::Confirmed]);
    }
    let ids: Vec<String> = place.kept("acme").await.into_iter().map(|(id, _)| id).collect();
    assert_eq!(ids, vec!["evt_acme_1".to_owned(); place.copies()]);
}

async fn what_is_refused_is_refused_alone(place: &mut dyn Place) {
    place.refuse("acme").await;
    let carrier = place.outlet().carrier().unwrap();
    let mut large = parcel("acme", 1);
    large.event = format!("\"{}\"", "x".repeat(place.too_long())).into_bytes();
    let answers = carry(&carrier, &[parcel("zoo", 1), large, parcel("zoo", 2)]).await;
    assert!(matches!(&answers[1], Carried::Refused(why) if !why.is_empty()), "{answers:?}");
    assert_eq!((&answers[0], &answers[2]), (&Carried::Confirmed, &Carried::Confirmed));
    assert_eq!((place.kept("zoo").await.len()), 2);
}

async fn a_server_that_is_gone_fails_and_one_that_is_back_takes(place: &mut dyn Place) {
    let carrier = place.outlet().carrier().unwrap();
    assert_eq!(carry(&carrier, &[parcel("acme", 1)]).await, [Carried::Confirmed]);
    place.broker().kill();
    for _ in 0..3 {
        let answers = carry(&carrier, &[parcel("acme", 2), parcel("zoo", 1)]).await;
        assert!(answers.iter().all(|answer| matches!(answer, Carried::Away(_))), "{answers:?}");
    }
    place.broker().resume().unwrap();
    until_confirmed(&carrier, &parcel("acme", 2)).await;
    let ids: Vec<String> = place.kept("acme").await.into_iter().map(|(id, _)| id).collect();
    assert_eq!(ids, ["evt_acme_1", "evt_acme_2"]);
}

async fn a_server_that_stands_still_fails_in_time(place: &mut dyn Place) {
    let carrier = place.outlet().carrier().unwrap();
    assert_eq!(carry(&carrier, &[parcel("acme", 1)]).await, [Carried::Confirmed]);
    place.broker().hold_still().unwrap();
    let answers = carry(&carrier, &[parcel("acme", 2)]).await;
    assert!(matches!(answers[0], Carried::Away(_)), "{answers:?}");
    place.broker().go_on().unwrap();
    until_confirmed(&carrier, &parcel("acme", 2)).await;
    let mut ids: Vec<String> = place.kept("acme").await.into_iter().map(|(id, _)| id).collect();
    ids.dedup();
    assert_eq!(ids, ["evt_acme_1", "evt_acme_2"]);
}

/// F21, P12: what is said of one tenant's place is said of no other's, and the server is not away for it.
async fn only_acme_fails(place: &dyn Place) {
    let carrier = place.outlet().carrier().unwrap();
    let answers = carry(&carrier, &[parcel("acme", 1), parcel("zoo", 1)]).await;
    assert!(matches!(&answers[0], Carried::Failed(why) if !why.is_empty()), "{answers:?}");
    assert_eq!(answers[1], Carried::Confirmed);
    let alone = carry(&carrier, &[parcel("acme", 2)]).await;
    assert!(matches!(alone[0], Carried::Failed(_)), "{alone:?}");
    assert_eq!(place.kept("zoo").await.len(), 1);
}

#[tokio::test]
async fn a_subject_without_a_stream_fails_alone() {
    let Some(broker) = scratch::broker(Kind::Nats) else { return };
    let place = Nats(broker);
    let context = jetstream::new(async_nats::connect(place.0.url()).await.unwrap());
    let config = stream::Config {
        name: "windlass-events".to_owned(),
        subjects: vec!["windlass.zoo.events.>".to_owned()],
        ..Default::default()
    };
    context.create_stream(config).await.unwrap();
    only_acme_fails(&place).await;
}

#[tokio::test]
async fn a_key_that_is_denied_fails_alone() {
    let Some(broker) = scratch::broker(Kind::Redis) else { return };
    let place = Redis(broker);
    let client = ::redis::Client::open(place.0.url()).unwrap();
    let mut line = client.get_multiplexed_async_connection().await.unwrap();
    let mut acl = ::redis::cmd("ACL");
    acl.arg("SETUSER").arg("default").arg("resetkeys").arg("~windlass.zoo.*");
    let _: () = acl.query_async(&mut line).await.unwrap();
    only_acme_fails(&place).await;
}
