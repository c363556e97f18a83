//! R01, R03–R07, C16, P3, P5, P13: events are handed to workers at least once, take effect once, in order where there is
//! a key, and what cannot be done is kept and can be put back.

use crate::support::*;
use machine::{Data, TenantId, Time, time::Span};
use parking_lot::Mutex;
use runtime::api::Refusal;
use serde_json::{Value, json};
use std::sync::Arc;
use store::{Write, views::EventFilter};
use trial::tap::Act;
use worker::{Class, Declaration, Delivery, Emit, Handled, Handler, RetryPolicy, async_trait};

/// What a worker was given in one call: numbers of events, and the attempt and time of the first.
pub(crate) type Calls = Arc<Mutex<Vec<(Vec<i64>, u32, Time)>>>;

/// Notes every call and answers each event as the test says.
struct Noting<F> {
    calls: Calls,
    clock: Arc<dyn runtime::clock::Clock>,
    answer: F,
}

#[async_trait]
impl<F> Handler for Noting<F>
where
    F: Fn(&Delivery) -> Handled + Send + Sync + 'static,
{
    async fn handle(&self, deliveries: &[Delivery]) -> Vec<Handled> {
        let numbers = deliveries.iter().map(number).collect();
        self.calls.lock().push((numbers, deliveries[0].attempt, self.clock.now()));
        pass(std::time::Duration::from_millis(5)).await;
        deliveries.iter().map(&self.answer).collect()
    }
}

pub(crate) fn number(delivery: &Delivery) -> i64 {
    delivery.data().get("n").and_then(|n| n.as_i64()).unwrap()
}

pub(crate) fn noting<F>(world: &World, name: &str, types: &[&str], answer: F) -> (Declaration, Calls)
where
    F: Fn(&Delivery) -> Handled + Send + Sync + 'static,
{
    let calls = Calls::default();
    let handler = Noting { calls: calls.clone(), clock: world.clock.clone(), answer };
    (Declaration::on(name, types.iter().copied(), handler), calls)
}

pub(crate) fn event(kind: &str, n: i64) -> Data {
    Data::from_json(
        json!({ "specversion": "1.0", "id": format!("{kind}-{n}"), "source": "test", "type": kind,
        "subject": format!("s-{}", n % 2), "data": { "n": n } }),
    )
}

pub(crate) fn events(kind: &str, numbers: std::ops::Range<i64>) -> Vec<Data> {
    numbers.map(|n| event(kind, n)).collect()
}

pub(crate) async fn publish_all(node: &Up, events: Vec<Data>) {
    for answer in node.handle.publish_many(&node.tenant, events).await {
        answer.unwrap();
    }
}

pub(crate) fn handled(calls: &Calls) -> Vec<i64> {
    let mut numbers: Vec<i64> = calls.lock().iter().flat_map(|(numbers, _, _)| numbers.clone()).collect();
    numbers.sort_unstable();
    numbers
}

pub(crate) async fn settled(world: &World) {
    until(|| async { world.counts().await.deliveries == 0 }).await;
}

#[tokio::test(start_paused = true)]
async fn an_event_is_handed_to_every_worker_that_wants_it_and_to_no_other() {
    let world = World::new();
    let (mail, to_mail) = noting(&world, "mail", &["order.*"], |_| Handled::done());
    let (ship, to_ship) = noting(&world, "ship", &["order.paid"], |_| Handled::done());
    let (other, to_other) = noting(&world, "other", &["user.left"], |_| Handled::done());
    let node = world.build().worker(mail).worker(ship).worker(other).start().await;
    publish_all(&node, events("order.paid", 0..3)).await;
    node.handle.publish(&node.tenant, event("order.created", 7)).await.unwrap();
    settled(&world).await;
    assert_eq!((handled(&to_mail), handled(&to_ship)), (vec![0, 1, 2, 7], vec![0, 1, 2]));
    assert!(to_other.lock().is_empty());
    let stored = world.store.events(&world.tenant, &EventFilter::default(), &whole_page()).await.unwrap();
    let delivered = |kind: &str| stored.iter().find(|row| row.event_type == kind).unwrap().delivered;
    assert_eq!((delivered("order.paid"), delivered("order.created")), (2, 1));
    assert!(stored.iter().all(|row| row.kept_until.is_none()), "a delivered event is taken");
}

#[tokio::test(start_paused = true)]
async fn an_event_published_again_is_not_delivered_again() {
    let world = World::new();
    let (mail, calls) = noting(&world, "mail", &["order"], |_| Handled::done());
    let node = world.build().worker(mail).start().await;
    publish_all(&node, events("order", 0..3)).await;
    // Some of them, alone, together with new ones, and many at once.
    for round in [vec![1], vec![0, 1, 2], vec![2, 3], vec![3]] {
        let answers =
            node.handle.publish_many(&node.tenant, round.iter().map(|n| event("order", *n)).collect()).await;
        assert_eq!(answers.len(), round.len());
        for answer in answers {
            answer.unwrap();
        }
    }
    let both = [events("order", 4..9), events("order", 4..9)];
    let both = both.map(|events| node.handle.publish_many(&node.tenant, events));
    for answers in futures_util::future::join_all(both).await {
        assert!(answers.into_iter().all(|answer| answer.is_ok()));
    }
    settled(&world).await;
    assert_eq!(handled(&calls), (0..9).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn what_is_published_together_is_handed_over_together_and_what_fails_comes_back_alone() {
    let world = World::new();
    let (mail, calls) =
        noting(&world, "mail", &["order"], |delivery| match (number(delivery), delivery.attempt) {
            (3, 1) => Handled::retry("not yet"),
            (4, _) => Handled::fail(Class::Validation, "never"),
            _ => Handled::done(),
        });
    let node = world.build().worker(mail.batch_max(4)).start().await;
    publish_all(&node, events("order", 0..10)).await;
    settled(&world).await;
    let noted = calls.lock().clone();
    let sizes: Vec<(usize, u32)> =
        noted.iter().map(|(numbers, attempt, _)| (numbers.len(), *attempt)).collect();
    assert_eq!(sizes, [(4, 1), (4, 1), (2, 1), (1, 2)]);
    assert_eq!(noted[3].0, [3], "alone");
    let letters = world.letters().await;
    assert_eq!(letters.len(), 1);
    let letter = &letters[0];
    assert_eq!((letter.source.as_str(), letter.reason.as_str(), letter.attempts), ("delivery", "refused", 1));
    assert_eq!(Data::parse(&letter.envelope).unwrap().get("id"), Some(Data::text("order-4")), "whole");
}

#[tokio::test(start_paused = true)]
async fn attempts_grow_apart_and_end_as_a_dead_letter_that_can_be_put_back_once() {
    let world = World::new();
    let healthy = Arc::new(Mutex::new(false));
    let well = healthy.clone();
    let (mail, calls) = noting(&world, "mail", &["order"], move |_| match *well.lock() {
        true => Handled::done(),
        false => Handled::retry("the server is away"),
    });
    let retry =
        RetryPolicy { attempts_max: 4, base: Span::from_secs(10), factor: 2.0, cap: Span::from_secs(3600) };
    let node = world.build().worker(mail.retry(retry)).start().await;
    publish_all(&node, events("order", 0..1)).await;
    let letter = world.letter().await;
    let attempts: Vec<u32> = calls.lock().iter().map(|(_, attempt, _)| *attempt).collect();
    assert_eq!((attempts, letter.attempts), (vec![1, 2, 3, 4], 4));
    assert_eq!(letter.reason, "retries-exhausted");
    assert!(letter.detail.contains("the server is away"), "{}", letter.detail);
    settled(&world).await;
    *healthy.lock() = true;
    node.handle.replay_dead_letter(&node.tenant, letter.id, "op").await.unwrap();
    let again = node.handle.replay_dead_letter(&node.tenant, letter.id, "op").await;
    assert!(matches!(again, Err(Refusal::NotFound(_))), "{again:?}");
    settled(&world).await;
    assert_eq!(calls.lock().len(), 5);
    assert!(world.letters().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_dead_letter_is_replayed_with_other_data_as_an_event_that_says_so() {
    let world = World::new();
    let (mail, calls) = noting(&world, "mail", &["order"], |delivery| match number(delivery) {
        5 => Handled::fail(Class::Validation, "five is not for sale"),
        _ => Handled::done(),
    });
    let (audit, to_audit) = noting(&world, "audit", &["order"], |_| Handled::done());
    let node = world.build().worker(mail).worker(audit).start().await;
    publish_all(&node, events("order", 5..6)).await;
    let letter = world.letter().await;
    settled(&world).await;
    let data = Data::from_json(json!({ "n": 6 }));
    node.handle.replay_changed(&node.tenant, letter.id, "ann", data.clone()).await.unwrap();
    let again = node.handle.replay_changed(&node.tenant, letter.id, "ann", data).await;
    assert!(matches!(again, Err(Refusal::NotFound(_))), "pressing twice runs once: {again:?}");
    settled(&world).await;
    assert_eq!((handled(&calls), handled(&to_audit)), (vec![5, 6], vec![5]), "only the worker that failed");
    assert!(world.letters().await.is_empty());
    let stored = world.store.events(&world.tenant, &EventFilter::default(), &whole_page()).await.unwrap();
    let (changed, original) = (Data::parse(&stored[0].event).unwrap(), &stored[1]);
    let cause = machine::id::show(machine::id::Kind::Event, original.id);
    assert_eq!(changed.get("causationid"), Some(Data::text(cause)));
    assert_eq!(
        (changed.get("changedby"), changed.get("subject")),
        (Some(Data::text("ann")), Some(Data::text("s-1")))
    );
    assert!(stored[0].event_id.starts_with("order-5~"), "{}", stored[0].event_id);
}

#[tokio::test(start_paused = true)]
async fn a_dead_letter_whose_event_is_gone_brings_it_back() {
    let world = World::new();
    let broken = Arc::new(Mutex::new(true));
    let breaks = broken.clone();
    let (mail, calls) = noting(&world, "mail", &["order"], move |_| match *breaks.lock() {
        true => Handled::fail(Class::Poison, "cannot read it"),
        false => Handled::done(),
    });
    let node = world.build().worker(mail).start().await;
    publish_all(&node, events("order", 5..6)).await;
    let letter = world.letter().await;
    assert_eq!(letter.reason, "poison");
    while world.store.purge_events(Time(i64::MAX), 100).await.unwrap() > 0 {}
    *broken.lock() = false;
    node.handle.replay_dead_letter(&node.tenant, letter.id, "op").await.unwrap();
    settled(&world).await;
    assert_eq!(handled(&calls), [5, 5]);
}

#[tokio::test(start_paused = true)]
async fn of_one_key_one_comes_after_the_other_and_other_keys_do_not_wait() {
    let world = World::new();
    let (mail, calls) =
        noting(&world, "mail", &["order"], |delivery| match (number(delivery), delivery.attempt) {
            // The first of the even ones takes three attempts.
            (0, 1 | 2) => Handled::retry("not yet"),
            _ => Handled::done(),
        });
    let retry =
        RetryPolicy { attempts_max: 5, base: Span::from_secs(60), factor: 1.0, cap: Span::from_secs(60) };
    let node = world.build().worker(mail.order_by("subject").batch_max(10).retry(retry)).start().await;
    publish_all(&node, events("order", 0..8)).await;
    settled(&world).await;
    let order: Vec<i64> = calls.lock().iter().flat_map(|(numbers, _, _)| numbers.clone()).collect();
    let of = |rest: i64| order.iter().copied().filter(|n| n % 2 == rest).collect::<Vec<_>>();
    assert_eq!((of(0), of(1)), (vec![0, 0, 0, 2, 4, 6], vec![1, 3, 5, 7]));
    let last_odd = order.iter().position(|n| *n == 7).unwrap();
    let second_even = order.iter().position(|n| *n == 2).unwrap();
    assert!(last_odd < second_even, "the odd ones did not wait: {order:?}");
}

#[tokio::test(start_paused = true)]
async fn what_a_worker_emits_is_there_once_with_trace_and_cause_and_reaches_the_next_worker() {
    let world = World::new();
    let emits = |delivery: &Delivery| {
        let data = Data::from_json(json!({ "n": number(delivery) + 100 }));
        Handled::emit([Emit::new("shipped", data).subject("o-1")])
    };
    let (ship, _) = noting(&world, "ship", &["paid"], emits);
    let seen = Arc::new(Mutex::new(Vec::<Value>::new()));
    let notes = seen.clone();
    let mail = Declaration::on(
        "mail",
        ["shipped"],
        worker::each(move |delivery| {
            notes.lock().push(delivery.event.to_json());
            Handled::done()
        }),
    );
    let node = world.build().worker(ship).worker(mail).start().await;
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let mut paid = event("paid", 1).to_json();
    paid["traceparent"] = json!(trace);
    paid["correlationid"] = json!("c-9");
    let published = node.handle.publish(&node.tenant, Data::from_json(paid)).await.unwrap();
    until(|| async { !seen.lock().is_empty() }).await;
    settled(&world).await;
    let seen = seen.lock().clone();
    assert_eq!(seen.len(), 1);
    let shipped = &seen[0];
    assert_eq!((&shipped["data"]["n"], &shipped["subject"]), (&json!(101), &json!("o-1")));
    let parent = shipped["traceparent"].as_str().unwrap();
    assert!(parent.starts_with("00-4bf92f3577b34da6a3ce929d0e0e4736-") && parent != trace, "{parent}");
    let cause = machine::id::show(machine::id::Kind::Event, published.id);
    assert_eq!((&shipped["correlationid"], &shipped["causationid"]), (&json!("c-9"), &json!(cause)));
    assert_eq!(shipped["source"], json!("windlass/workers/ship"));
}

#[tokio::test(start_paused = true)]
async fn an_event_that_names_another_tenant_is_refused_and_never_handed_over() {
    let world = World::new();
    let (mail, calls) = noting(&world, "mail", &["order"], |_| Handled::done());
    let node = world.build().worker(mail).start().await;
    let mut foreign = event("order", 1).to_json();
    foreign["tenantid"] = json!("zoo");
    let refused = node.handle.publish(&node.tenant, Data::from_json(foreign.clone())).await;
    assert!(matches!(refused, Err(Refusal::Invalid { .. })), "{refused:?}");
    // One that got into the store another way is no worker's business either.
    foreign["tenantid"] = json!("acme");
    node.handle.publish(&node.tenant, Data::from_json(foreign.clone())).await.unwrap();
    settled(&world).await;
    assert_eq!(calls.lock().len(), 1);
    let zoo = TenantId::new("zoo").unwrap();
    node.tap.on_commit(move |batch| {
        for commit in batch.iter_mut() {
            for write in &mut commit.writes {
                if let Write::Publish(row) = write {
                    let mut event: Value = serde_json::from_slice(&row.event).unwrap();
                    event["tenantid"] = json!(zoo.as_str());
                    row.event = serde_json::to_vec(&event).unwrap();
                }
                if let Write::Delivery(row) = write {
                    row.owner = None;
                }
            }
        }
        Act::Pass
    });
    node.handle.publish(&node.tenant, event("order", 2)).await.unwrap();
    node.crash().await;
    let (mail, calls) = noting(&world, "mail", &["order"], |_| Handled::done());
    let _node = world.build().worker(mail).sole().start().await;
    let letter = world.letter().await;
    assert!(letter.detail.contains("another tenant"), "{}", letter.detail);
    assert!(calls.lock().is_empty(), "it was never handed over");
}

#[tokio::test(start_paused = true)]
async fn a_crash_before_or_after_any_commit_loses_nothing_and_emits_nothing_twice() {
    for crash_at in 1..7 {
        for after in [false, true] {
            let world = World::new();
            let emits = |delivery: &Delivery| Handled::emit([Emit::new("done", delivery.data())]);
            let worker = || noting(&world, "mail", &["order"], emits).0.batch_max(2);
            let node = world.build().worker(worker()).start().await;
            let mut commits = 0;
            node.tap.on_commit(move |_| {
                commits += 1;
                match (commits == crash_at, after) {
                    (false, _) => Act::Pass,
                    (true, false) => Act::CrashBefore,
                    (true, true) => Act::CrashAfter,
                }
            });
            let (handle, tenant) = (node.handle.clone(), node.tenant.clone());
            let publishing =
                tokio::spawn(async move { handle.publish_many(&tenant, events("order", 0..4)).await });
            pass(std::time::Duration::from_secs(1)).await;
            publishing.abort();
            node.crash().await;
            let node = world.build().worker(worker()).sole().start().await;
            publish_all(&node, events("order", 0..4)).await;
            settled(&world).await;
            until(|| async { world.counts().await.outbox == 0 }).await;
            let done = EventFilter { event_type: Some("done".into()), ..EventFilter::default() };
            let done = world.store.events(&world.tenant, &done, &whole_page()).await.unwrap();
            assert_eq!(done.len(), 4, "crash at commit {crash_at}, after: {after}");
            node.stop().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_panics_answers_too_little_or_too_late_loses_nothing() {
    struct Odd;
    #[async_trait]
    impl Handler for Odd {
        async fn handle(&self, deliveries: &[Delivery]) -> Vec<Handled> {
            match number(&deliveries[0]) {
                0 => panic!("on purpose"),
                1 => vec![],
                _ => std::future::pending().await,
            }
        }
    }
    let world = World::new();
    let retry = RetryPolicy { attempts_max: 2, ..RetryPolicy::default() };
    let odd = Declaration::on("odd", ["order"], Odd).retry(retry).timeout(Span::from_secs(5));
    let node = world.build().worker(odd).start().await;
    publish_all(&node, events("order", 0..3)).await;
    settled(&world).await;
    let letters = world.letters().await;
    let mut reasons: Vec<(&str, u32)> =
        letters.iter().map(|letter| (letter.reason.as_str(), letter.attempts)).collect();
    reasons.sort_unstable();
    assert_eq!(reasons, [("poison", 1), ("poison", 1), ("retries-exhausted", 2)]);
}

#[tokio::test(start_paused = true)]
async fn no_more_are_handled_at_once_than_a_worker_allows_and_a_backlog_is_worked_off() {
    struct Slow(Arc<Mutex<(usize, usize)>>);
    #[async_trait]
    impl Handler for Slow {
        async fn handle(&self, deliveries: &[Delivery]) -> Vec<Handled> {
            {
                let mut within = self.0.lock();
                within.0 += 1;
                within.1 = within.1.max(within.0);
            }
            pass(std::time::Duration::from_millis(50)).await;
            self.0.lock().0 -= 1;
            vec![Handled::done(); deliveries.len()]
        }
    }
    let world = World::new();
    let within = Arc::new(Mutex::new((0, 0)));
    let slow = Declaration::on("slow", ["order"], Slow(within.clone())).concurrency_max(3);
    let node = world
        .build()
        .worker(slow)
        .options(|options| options.deliveries_queued_per_tenant_max = 20)
        .start()
        .await;
    publish_all(&node, events("order", 0..200)).await;
    let queued = world.counts().await.deliveries;
    assert!(queued > 150, "{queued}");
    settled(&world).await;
    assert_eq!(within.lock().1, 3);
}
