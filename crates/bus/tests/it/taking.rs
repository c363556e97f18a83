//! What every adapter of the port of messages that come in keeps to (A08, A09, P3, P6).

use async_trait::async_trait;
use bus::{Channel, Incoming, Inlet, Intake, Intakes, Server, Source, Taken, Template, UNDER_WAY_MAX};
use machine::TenantId;
use scratch::{Broker, Kind};
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{
    runtime::Handle,
    sync::{Notify, mpsc},
    task::JoinHandle,
    time::timeout,
};

/// How long anything may take on a slow, busy machine.
const PATIENCE: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(50);

async fn pause(polls: u32) {
    tokio::time::sleep_until(tokio::time::Instant::now() + POLL * polls).await;
}

/// A server that messages come in from.
struct Place {
    kind: Kind,
    broker: Broker,
}

/// Makes of a message what the test says.
type Answer = dyn Fn(&Incoming) -> Taken + Send + Sync;

/// Tells the test what it was given, and answers as the test says.
struct Desk {
    answer: Box<Answer>,
    given: mpsc::UnboundedSender<Incoming>,
    under_way: AtomicUsize,
    most: AtomicUsize,
    /// While there is one nothing is answered.
    gate: Option<Notify>,
}

#[async_trait]
impl Intake for Desk {
    async fn take(&self, incoming: Incoming) -> Taken {
        let now = self.under_way.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        let answer = (self.answer)(&incoming);
        let _ = self.given.send(incoming);
        if let Some(gate) = &self.gate {
            gate.notified().await;
        }
        self.under_way.fetch_sub(1, Ordering::SeqCst);
        answer
    }
}

/// A tenant's place that is heard, as the runtime does it: again whenever it is lost.
struct Heard {
    desk: Arc<Desk>,
    given: mpsc::UnboundedReceiver<Incoming>,
    hearing: JoinHandle<()>,
}

impl Drop for Heard {
    fn drop(&mut self) {
        self.hearing.abort();
    }
}

impl Heard {
    async fn next(&mut self) -> Incoming {
        timeout(PATIENCE, self.given.recv()).await.expect("a message comes").unwrap()
    }

    async fn end(mut self) {
        self.hearing.abort();
        let _ = (&mut self.hearing).await;
    }
}

impl Place {
    fn source(&self, consumer: &str) -> Arc<dyn Source> {
        let intakes = Intakes {
            server: Server::parse(&self.broker.url()).unwrap(),
            create: true,
            claim_after: Duration::from_secs(2),
            consumer: consumer.to_owned(),
        };
        intakes.source().unwrap()
    }

    fn hear(
        &self,
        tenant: &str,
        consumer: &str,
        answer: impl Fn(&Incoming) -> Taken + Send + Sync + 'static,
    ) -> Heard {
        self.hear_with(tenant, consumer, None, answer)
    }

    fn hear_with(
        &self,
        tenant: &str,
        consumer: &str,
        gate: Option<Notify>,
        answer: impl Fn(&Incoming) -> Taken + Send + Sync + 'static,
    ) -> Heard {
        let (given, receiver) = mpsc::unbounded_channel();
        let (under_way, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let desk = Arc::new(Desk { answer: Box::new(answer), given, under_way, most, gate });
        let (source, tenant, told) = (self.source(consumer), TenantId::new(tenant).unwrap(), desk.clone());
        let inlet = Inlet { channel: Channel::Events, subject: Template::parse("in.{tenant}").unwrap() };
        let hearing = tokio::spawn(async move {
            loop {
                source.hear(&tenant, &inlet, &*told).await;
                pause(1).await;
            }
        });
        Heard { desk, given: receiver, hearing }
    }

    /// Sends as another program would, until the server has taken it.
    async fn send(&self, tenant: &str, body: &str) {
        let (place, url) = (format!("in.{tenant}"), self.broker.url());
        let sending = async {
            match self.kind {
                Kind::Redis => {
                    let client = ::redis::Client::open(url).unwrap();
                    let mut line = client.get_multiplexed_async_connection().await.unwrap();
                    let mut add = ::redis::cmd("XADD");
                    add.arg(place).arg("*").arg("body").arg(body);
                    // One that was just started may still be reading its file.
                    while let Err(err) = add.query_async::<String>(&mut line).await {
                        assert_eq!(err.code(), Some("LOADING"), "{err}");
                        pause(1).await;
                    }
                }
                Kind::Nats => {
                    let context = async_nats::jetstream::new(async_nats::connect(url).await.unwrap());
                    // The stream is made with the subscription.
                    while context.publish(place.clone(), body.to_owned().into()).await.unwrap().await.is_err()
                    {
                        pause(1).await;
                    }
                }
                Kind::Kafka => crate::topics::send(&self.broker, &place, body.as_bytes(), &[]).await,
            }
        };
        timeout(PATIENCE, sending).await.expect("it is taken");
    }

    /// Connections of this process to the server.
    fn connections(&self) -> usize {
        let port = format!(":{:04X}", self.broker.port());
        let tables =
            ["/proc/self/net/tcp", "/proc/self/net/tcp6"].map(|path| std::fs::read_to_string(path).unwrap());
        let lines = tables.iter().flat_map(|table| table.lines());
        let to_server = lines.filter(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            fields.get(2).is_some_and(|remote| remote.ends_with(&port)) && fields.get(3) == Some(&"01")
        });
        to_server.count()
    }
}

macro_rules! over_every_adapter {
    ($($promise:ident),* $(,)?) => {
        mod nats { $(super::over_every_adapter!(@ $promise, super::Kind::Nats);)* }
        mod redis { $(super::over_every_adapter!(@ $promise, super::Kind::Redis);)* }
        mod kafka { $(super::over_every_adapter!(@ $promise, super::Kind::Kafka);)* }
    };
    (@ $promise:ident, $kind:expr) => {
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $promise() {
            let Some(broker) = scratch::broker($kind) else { return };
            super::$promise(super::Place { kind: $kind, broker }).await;
        }
    };
}
use over_every_adapter;

over_every_adapter![
    what_is_sent_is_taken_once_and_is_its_tenants,
    what_a_consumer_that_died_had_comes_again_with_its_id,
    what_cannot_be_taken_now_comes_again_and_holds_up_no_other,
    a_lost_acknowledgement_brings_a_message_again_with_its_id,
    after_an_outage_messages_come_again,
    no_more_than_promised_are_under_way,
    a_hundred_subscriptions_leave_nothing_behind,
];

fn done(_: &Incoming) -> Taken {
    Taken::Done
}

async fn what_is_sent_is_taken_once_and_is_its_tenants(place: Place) {
    let (mut acme, mut zoo) = (place.hear("acme", "one", done), place.hear("zoo", "one", done));
    place.send("zoo", "{\"tenantid\":\"acme\"}").await;
    place.send("acme", "{\"n\":1}").await;
    let taken = [acme.next().await, zoo.next().await];
    assert_eq!(taken.each_ref().map(|one| one.tenant.as_str()), ["acme", "zoo"]);
    assert_eq!(taken.each_ref().map(|one| one.channel), [Channel::Events; 2]);
    assert_eq!(taken[0].body, b"{\"n\":1}");
    // What was acknowledged does not come again, to whoever hears the place next.
    place.send("acme", "{\"n\":2}").await;
    assert_eq!(acme.next().await.body, b"{\"n\":2}");
    pause(10).await;
    acme.end().await;
    let mut next = place.hear("acme", "two", done);
    place.send("acme", "{\"n\":3}").await;
    assert_eq!(next.next().await.body, b"{\"n\":3}");
}

async fn what_a_consumer_that_died_had_comes_again_with_its_id(place: Place) {
    let mut first = place.hear_with("acme", "one", Some(Notify::new()), done);
    place.send("acme", "{\"n\":1}").await;
    let before = first.next().await;
    first.end().await;
    let mut second = place.hear("acme", "two", done);
    let after = second.next().await;
    assert_eq!((&after.id, &after.body), (&before.id, &before.body));
    assert!(after.again, "{after:?}");
}

async fn what_cannot_be_taken_now_comes_again_and_holds_up_no_other(place: Place) {
    let tries = Mutex::new(0);
    let mut heard = place.hear("acme", "one", move |incoming| {
        let mut tries = tries.lock().unwrap();
        *tries += usize::from(incoming.body == b"{\"n\":1}");
        match incoming.body == b"{\"n\":1}" && *tries < 3 {
            true => Taken::Later("not now".to_owned()),
            false => Taken::Done,
        }
    });
    place.send("acme", "{\"n\":1}").await;
    let first = heard.next().await;
    place.send("acme", "{\"n\":2}").await;
    let mut ids = vec![first.id.clone()];
    let mut others = 0;
    while ids.len() < 3 || others == 0 {
        let next = heard.next().await;
        match next.body == first.body {
            true => ids.push(next.id),
            false => others += 1,
        }
    }
    assert_eq!(ids, vec![first.id; 3]);
}

async fn a_lost_acknowledgement_brings_a_message_again_with_its_id(place: Place) {
    let place = Arc::new(tokio::sync::Mutex::new(place));
    let (killed, told) = (place.clone(), Arc::new(AtomicUsize::new(0)));
    let count = told.clone();
    let mut heard = place.lock().await.hear("acme", "one", move |_| {
        // Between the commit and the acknowledgement.
        if count.fetch_add(1, Ordering::SeqCst) == 0 {
            tokio::task::block_in_place(|| killed.blocking_lock().broker.kill());
        }
        Taken::Done
    });
    place.lock().await.send("acme", "{\"n\":1}").await;
    let first = heard.next().await;
    place.lock().await.broker.resume().unwrap();
    // Kafka's consumer goes on where it was and commits then; what it had comes again to the next.
    if place.lock().await.kind == Kind::Kafka {
        place.lock().await.send("acme", "{\"n\":2}").await;
        assert_ne!(heard.next().await.id, first.id);
        return;
    }
    let again = heard.next().await;
    assert_eq!((&again.id, again.again), (&first.id, true));
}

async fn after_an_outage_messages_come_again(mut place: Place) {
    let mut heard = place.hear("acme", "one", done);
    place.send("acme", "{\"n\":1}").await;
    heard.next().await;
    for number in 2..4 {
        place.broker.kill();
        pause(10).await;
        place.broker.resume().unwrap();
        let body = format!("{{\"n\":{number}}}");
        place.send("acme", &body).await;
        while heard.next().await.body != body.as_bytes() {}
    }
}

async fn no_more_than_promised_are_under_way(place: Place) {
    let heard = place.hear("acme", "one", done);
    place.send("acme", "{}").await;
    heard.end().await;
    for number in 0..100 {
        place.send("acme", &format!("{{\"n\":{number}}}")).await;
    }
    let mut heard = place.hear_with("acme", "two", Some(Notify::new()), done);
    let mut taken = std::collections::BTreeSet::new();
    while taken.len() < 100 {
        // One is let go after the other, so that as many as may be are waiting.
        heard.desk.gate.as_ref().unwrap().notify_one();
        if let Ok(Some(next)) = timeout(POLL, heard.given.recv()).await {
            taken.insert(next.body);
        }
    }
    let most = heard.desk.most.load(Ordering::SeqCst);
    assert!((2..=UNDER_WAY_MAX).contains(&most), "{most} at once");
}

async fn a_hundred_subscriptions_leave_nothing_behind(place: Place) {
    let cycle = async |number: usize| {
        let tenant = format!("t{number}");
        let mut heard = place.hear(&tenant, "one", done);
        place.send(&tenant, "{}").await;
        heard.next().await;
        heard.end().await;
    };
    let left = || (place.connections(), Handle::current().metrics().num_alive_tasks());
    let settled = async || {
        let looking = async {
            while left() != (0, 0) {
                pause(1).await;
            }
        };
        timeout(PATIENCE, looking).await.is_ok()
    };
    for number in 1..=100 {
        cycle(number).await;
    }
    assert!(settled().await, "{:?} connections and tasks are left", left());
}
