//! R01, R03, R05, R12, C06, C08, C16: the terms of a worker hold: one effect per domain key, the last of what is held back, a
//! pace that uses up no attempt, bounded memory, and what is told when an event is given up.

use crate::{deliveries::*, support::*};
use machine::{Data, time::Span};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};
use store::views::EventFilter;
use worker::{
    Class, Debounce, Declaration, Delivery, Effects, Emit, Handled, Handler, Terminal, async_trait,
};

async fn emitted(world: &World, kind: &str) -> Vec<Value> {
    until(|| async { world.counts().await.outbox == 0 }).await;
    let filter = EventFilter { event_type: Some(kind.into()), ..EventFilter::default() };
    let rows = world.store.events(&world.tenant, &filter, &whole_page()).await.unwrap();
    rows.iter().map(|row| serde_json::from_slice(&row.event).unwrap()).collect()
}

fn emits_done(delivery: &Delivery) -> Handled {
    Handled::emit([Emit::new("done", delivery.data())])
}

#[tokio::test(start_paused = true)]
async fn of_events_with_one_domain_key_one_has_an_effect() {
    for (batch_max, together) in [(1, false), (10, true), (10, false)] {
        let world = World::new();
        let (mail, calls) = noting(&world, "mail", &["order"], emits_done);
        let node = world.build().worker(mail.key_by("subject").batch_max(batch_max)).start().await;
        // Ten events about two subjects, at the same time.
        match together {
            true => publish_all(&node, events("order", 0..10)).await,
            false => {
                let all =
                    events("order", 0..10).into_iter().map(|event| node.handle.publish(&node.tenant, event));
                for answer in futures_util::future::join_all(all).await {
                    answer.unwrap();
                }
            }
        }
        settled(&world).await;
        assert_eq!(emitted(&world, "done").await.len(), 2, "batches of {batch_max}");
        // What comes later is not even handed over.
        let before = handled(&calls).len();
        publish_all(&node, events("order", 10..20)).await;
        settled(&world).await;
        assert_eq!((handled(&calls).len(), emitted(&world, "done").await.len()), (before, 2));
        node.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_domain_key_is_taken_by_success_only() {
    let world = World::new();
    let (mail, calls) = noting(&world, "mail", &["order"], |delivery| match number(delivery) {
        0 => Handled::fail(Class::Validation, "never"),
        _ => emits_done(delivery),
    });
    let node = world.build().worker(mail.key_by("data.same")).start().await;
    let same = |n: i64| {
        let mut event = event("order", n).to_json();
        event["data"]["same"] = json!(7);
        vec![Data::from_json(event)]
    };
    publish_all(&node, same(0)).await;
    settled(&world).await;
    publish_all(&node, same(2)).await;
    settled(&world).await;
    assert_eq!(emitted(&world, "done").await.len(), 1, "the failed one did not take the key");
    // Putting the letter back after another had the effect changes nothing any more.
    let letter = world.letter().await;
    node.handle.replay_dead_letter(&node.tenant, letter.id, "op").await.unwrap();
    settled(&world).await;
    assert_eq!((handled(&calls), emitted(&world, "done").await.len()), (vec![0, 2], 1));
    assert!(world.letters().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_handler_names_keys_for_what_it_emits_once() {
    let world = World::new();
    let each = |delivery: &Delivery| {
        let subject = delivery.attribute("subject").unwrap();
        let to =
            |channel: &str| Emit::new("sent", Data::text(channel)).once(format!("{subject}:{channel}:c-1"));
        let emits = vec![to("mail"), to("push"), Emit::new("seen", delivery.data())];
        Handled::Done(Effects { emits, claims: vec![format!("{subject}:letter:c-1")], ..Effects::default() })
    };
    let (mail, _) = noting(&world, "mail", &["order"], each);
    let node = world.build().worker(mail.batch_max(3)).start().await;
    publish_all(&node, events("order", 0..6)).await;
    settled(&world).await;
    assert_eq!(emitted(&world, "sent").await.len(), 4, "two subjects, two channels");
    assert_eq!(emitted(&world, "seen").await.len(), 6);
}

#[tokio::test(start_paused = true)]
async fn of_events_that_follow_closely_the_last_is_delivered() {
    let world = World::new();
    let (mail, calls) = noting(&world, "mail", &["order"], |_| Handled::done());
    let debounce =
        Debounce { by: Some("subject".into()), quiet: Span::from_secs(10), wait_max: Span::from_secs(25) };
    let node = world.build().worker(mail.debounce(debounce)).start().await;
    for n in 0..8 {
        node.handle.publish(&node.tenant, event("order", n)).await.unwrap();
        pass(Duration::from_secs(2)).await;
    }
    settled(&world).await;
    assert_eq!(handled(&calls), [6, 7], "the last of each subject");
    // One that never ends is delivered nevertheless.
    for n in 10..40 {
        node.handle.publish(&node.tenant, event("order", n * 2)).await.unwrap();
        pass(Duration::from_secs(2)).await;
    }
    settled(&world).await;
    let count = handled(&calls).len() - 2;
    assert!((2..=4).contains(&count), "{count} in a minute, 25 s each at most");
}

#[tokio::test(start_paused = true)]
async fn a_rate_is_kept_and_no_attempt_is_used_up() {
    let world = World::new();
    let (mail, calls) = noting(&world, "mail", &["order"], |_| Handled::done());
    let node = world.build().worker(mail.rate(10, Span::from_secs(1)).batch_max(50)).start().await;
    publish_all(&node, events("order", 0..50)).await;
    settled(&world).await;
    let noted = calls.lock().clone();
    assert_eq!(handled(&calls), (0..50).collect::<Vec<_>>());
    assert!(noted.iter().all(|(_, attempt, _)| *attempt == 1));
    for (at, (_, _, time)) in noted.iter().enumerate() {
        let within = noted[at..].iter().filter(|(_, _, other)| other.since(*time) < Span::from_millis(990));
        assert!(within.count() <= 10, "within a second of {time:?}");
    }
    let took = noted[49].2.since(noted[0].2);
    assert!(took >= Span::from_millis(4_800), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn no_more_are_kept_in_memory_than_a_worker_allows() {
    struct Slow(Arc<Mutex<usize>>);
    #[async_trait]
    impl Handler for Slow {
        async fn handle(&self, deliveries: &[Delivery]) -> Vec<Handled> {
            *self.0.lock() += deliveries.len();
            pass(Duration::from_millis(20)).await;
            vec![Handled::done(); deliveries.len()]
        }
    }
    let world = World::new();
    let done = Arc::new(Mutex::new(0));
    let slow = Declaration::on("slow", ["order"], Slow(done.clone())).concurrency_max(2).prefetch_max(7);
    let node = world.build().worker(slow).start().await;
    publish_all(&node, events("order", 0..300)).await;
    until(|| async {
        let owned = world.store.owned(node.node.id(), 1_000).await.unwrap().len();
        assert!(owned <= 7, "{owned} rows are kept");
        *done.lock() == 300
    })
    .await;
    settled(&world).await;
    assert_eq!(*done.lock(), 300);
}

/// R12: an operator bounds a worker without building it anew.
#[tokio::test(start_paused = true)]
async fn what_an_operator_says_of_a_worker_counts_more_than_its_declaration() {
    struct Crowd(Arc<Mutex<(usize, usize, usize)>>);
    #[async_trait]
    impl Handler for Crowd {
        async fn handle(&self, deliveries: &[Delivery]) -> Vec<Handled> {
            {
                let (now, most, _) = &mut *self.0.lock();
                *now += 1;
                *most = (*most).max(*now);
            }
            pass(Duration::from_millis(5)).await;
            let (now, _, done) = &mut *self.0.lock();
            *now -= 1;
            *done += deliveries.len();
            vec![Handled::done(); deliveries.len()]
        }
    }
    let said = |name: &str, concurrency_max, prefetch_max| {
        let said = runtime::WorkerOptions { concurrency_max, prefetch_max };
        std::collections::BTreeMap::from([(name.to_owned(), said)])
    };
    let world = World::new();
    let seen = Arc::new(Mutex::new((0, 0, 0)));
    let crowd = || Declaration::on("crowd", ["order"], Crowd(seen.clone()));
    let build = world.build().worker(crowd());
    let node = build.options(|options| options.workers = said("crowd", Some(3), Some(5))).start().await;
    publish_all(&node, events("order", 0..100)).await;
    until(|| async {
        let owned = world.store.owned(node.node.id(), 1_000).await.unwrap().len();
        assert!(owned <= 5, "{owned} rows are kept");
        seen.lock().2 == 100
    })
    .await;
    assert_eq!(seen.lock().1, 3, "at once");
    for (workers, why) in [
        (said("crowed", Some(3), None), "workers.crowed: this node has no worker of that name"),
        (said("crowd", Some(0), None), "workers.crowd: a bound is 1 at least"),
        (said("echo", None, Some(1)), "workers.echo: it handles no events"),
    ] {
        let build = world.build().worker(crowd()).worker(echo("echo"));
        let refused = build.options(|options| options.workers = workers).try_start().await.err().unwrap();
        assert!(refused.to_string().contains(why), "{refused}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_given_up_is_told_with_the_dead_letter() {
    let world = World::new();
    let (mail, _) = noting(&world, "mail", &["order"], |_| Handled::fail(Class::Validation, "no address"));
    let terminal = Terminal {
        alert: true,
        mark_failed: Some("order.failed".into()),
        compensate: Some("order.undo".into()),
    };
    let node = world.build().worker(mail.terminal(terminal)).start().await;
    publish_all(&node, events("order", 1..2)).await;
    let letter = world.letter().await;
    settled(&world).await;
    for kind in [worker::ALERT, "order.failed", "order.undo"] {
        let told = emitted(&world, kind).await;
        assert_eq!(told.len(), 1, "{kind}");
        let data = &told[0]["data"];
        assert_eq!((&data["worker"], &data["reason"]), (&json!("mail"), &json!("refused")));
        assert_eq!((&data["data"]["n"], &data["event"]["id"]), (&json!(1), &json!("order-1")));
        let shown = machine::id::show(machine::id::Kind::DeadLetter, letter.id);
        assert_eq!((&data["dead_letter"], &told[0]["subject"]), (&json!(shown), &json!("s-1")));
    }
    // Failing once more is told once more.
    node.handle.replay_dead_letter(&node.tenant, letter.id, "op").await.unwrap();
    settled(&world).await;
    assert_eq!(emitted(&world, "order.failed").await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_worker_with_impossible_terms_is_refused_at_the_start() {
    let world = World::new();
    let (mail, _) = noting(&world, "mail", &["order"], |_| Handled::done());
    let refused = world.build().worker(mail.rate(0, Span::from_secs(1))).try_start().await;
    let refused = refused.err().unwrap().to_string();
    assert!(refused.contains("`mail`") && refused.contains("`rate`"), "{refused}");
}
