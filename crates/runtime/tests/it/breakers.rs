//! R11, F25, F29: what fails is held up alone, burns no attempts while it is, and goes on by itself.

use crate::{stub::*, support::*};
use machine::{Data, TenantId, time::Span};
use runtime::{Options, api::Declared, breaker::BreakerRule};
use serde_json::json;
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};
use worker::{Declaration, Handled, Outcome, RetryPolicy};

/// Opens after four failures, for a minute.
fn quick(options: &mut Options) {
    let rule = BreakerRule {
        attempts_min: 4,
        ratio: 0.9,
        window: Span::from_secs(600),
        pause: Span::from_secs(60),
        pause_max: Span::from_secs(60),
    };
    options.endpoint_breaker = Some(rule);
    options.kill_switch = Some(rule);
}

fn states(node: &Up, tenant: &TenantId) -> Vec<(String, &'static str)> {
    node.handle.breakers(tenant).into_iter().map(|one| (one.target, one.state.word)).collect()
}

const CALLS: &str = "do: [ { charge: { call: 'work:1.0.0@default', with: { v: 1 } } } ]";

/// A worker that fails until it is told to do well, and counts its attempts.
struct Moody {
    well: Arc<AtomicBool>,
    attempts: Arc<AtomicU64>,
}

impl Moody {
    fn new() -> Moody {
        Moody { well: Arc::default(), attempts: Arc::default() }
    }

    fn calls(&self, attempts_max: u32) -> Declaration {
        let (well, attempts) = (self.well.clone(), self.attempts.clone());
        let handler = worker::from_fn(move |_, _| {
            attempts.fetch_add(1, Ordering::SeqCst);
            match well.load(Ordering::SeqCst) {
                true => Outcome::Done(Data::int(1)),
                false => Outcome::retry("a bad deploy"),
            }
        });
        let retry = RetryPolicy { attempts_max, base: Span::from_millis(10), ..RetryPolicy::default() };
        Declaration::new("work", handler).retry(retry)
    }

    fn events(&self) -> Declaration {
        let (well, attempts) = (self.well.clone(), self.attempts.clone());
        let handler = worker::each(move |_| {
            attempts.fetch_add(1, Ordering::SeqCst);
            match well.load(Ordering::SeqCst) {
                true => Handled::done(),
                false => Handled::fail(worker::Class::Poison, "a bad deploy"),
            }
        });
        Declaration::on("mail", ["order"], handler).concurrency_max(1)
    }

    fn attempts(&self) -> u64 {
        self.attempts.load(Ordering::SeqCst)
    }
}

fn event(n: i64) -> Data {
    let id = n.to_string();
    Data::from_json(
        json!({ "specversion": "1.0", "id": id, "source": "test", "type": "order", "data": { "n": n } }),
    )
}

#[tokio::test(start_paused = true)]
async fn a_bad_deploy_does_not_drain_the_queue_into_dead_letters() {
    let world = World::new();
    let moody = Moody::new();
    let node = world.build().worker(moody.events()).options(quick).start().await;
    for answer in node.handle.publish_many(&node.tenant, (0..50).map(event).collect()).await {
        answer.unwrap();
    }
    until(async || states(&node, &node.tenant) == [("mail".to_owned(), "open")]).await;
    assert_eq!(node.metric("windlass_breaker_open"), 1.0);
    pass(secs(50)).await;
    let (letters, attempts) = (world.letters().await.len() as u64, moody.attempts());
    assert!(attempts < 10 && letters == attempts, "{attempts} attempts, {letters} dead letters");
    assert_eq!(world.counts().await.deliveries, 50 - letters);
    // Nothing of what is parked has used up an attempt, and it says why it waits.
    let rows = world.store.deliveries(&node.tenant, &Default::default(), None, 100).await.unwrap();
    assert!(rows.iter().all(|row| row.attempt == 0));
    let why = node.handle.explain_delivery(&node.tenant, rows[0].id).await.unwrap();
    assert_eq!(why.reasons[0].kind, "breaker", "{why:?}");
    moody.well.store(true, Ordering::SeqCst);
    until(async || world.counts().await.deliveries == 0).await;
    assert_eq!(states(&node, &node.tenant), [("mail".to_owned(), "closed")]);
    assert_eq!(world.letters().await.len() as u64, letters);
}

#[tokio::test(start_paused = true)]
async fn calls_to_a_failing_worker_are_parked_and_other_tenants_go_on() {
    let world = World::new();
    let moody = Moody::new();
    let node = world.build().worker(moody.calls(1_000)).worker(echo("other")).options(quick).start().await;
    node.deploy("calls", CALLS).await;
    node.deploy("others", "do: [ { a: { call: 'other:1.0.0@default', with: { v: 7 } } } ]").await;
    let mut ids = Vec::new();
    for _ in 0..20 {
        ids.push(node.start("calls", json!({})).await);
    }
    until(async || states(&node, &node.tenant) == [("work".to_owned(), "open")]).await;
    pass(secs(1)).await;
    let attempts = moody.attempts();
    pass(secs(40)).await;
    assert_eq!(moody.attempts(), attempts, "nothing is attempted while it is open");
    let other = node.start("others", json!({})).await;
    assert_eq!(node.output(other).await, json!(7), "other workers go on");
    let zoo = TenantId::new("zoo").unwrap();
    assert_eq!(node.handle.breakers(&zoo), []);
    // An operator need not wait for the pause.
    moody.well.store(true, Ordering::SeqCst);
    assert!(node.handle.probe(&zoo, "work", "ann").is_err());
    assert_eq!(node.handle.probe(&node.tenant, "work", "ann").unwrap().state.word, "open");
    for id in ids {
        assert_eq!(node.output(id).await, json!(1));
    }
    assert_eq!(states(&node, &node.tenant), [("work".to_owned(), "closed")]);
    assert_eq!(moody.attempts() - attempts, 20, "each once more");
}

#[tokio::test(start_paused = true)]
async fn retries_beyond_their_budget_are_made_later_and_none_is_lost() {
    let world = World::new();
    let moody = Moody::new();
    let node = world
        .build()
        .worker(moody.calls(4))
        .options(|options| options.kill_switch = Some(never()))
        .start()
        .await;
    node.deploy("calls", CALLS).await;
    let mut ids = Vec::new();
    for _ in 0..120 {
        ids.push(node.start("calls", json!({})).await);
    }
    pass(secs(2)).await;
    // 120 first attempts; 100 retries are there at first, 24 for the attempts, and a few in a second.
    let early = moody.attempts();
    assert!((220..=270).contains(&early), "{early}");
    for id in &ids {
        node.fault(*id).await;
    }
    assert_eq!(moody.attempts(), 480, "every call has had its four attempts in the end");
}

/// A definition that tries again by itself.
const TRIES: &str = "do: [ { all: { try: [ { charge: { call: 'work:1.0.0@default', with: { v: 1 } } } ],
    catch: { retry: { delay: { milliseconds: 10 }, limit: { attempt: { count: 3 } } } } } } ]";

#[tokio::test(start_paused = true)]
async fn retries_that_definitions_ask_for_are_held_to_the_budget_too() {
    let world = World::new();
    let moody = Moody::new();
    let build = world.build().worker(moody.calls(1));
    let node = build.options(|options| options.kill_switch = None).start().await;
    node.deploy("tries", TRIES).await;
    let mut ids = Vec::new();
    for _ in 0..120 {
        ids.push(node.start("tries", json!({})).await);
    }
    pass(secs(2)).await;
    let early = moody.attempts();
    assert!((220..=270).contains(&early), "{early}");
    for id in &ids {
        node.fault(*id).await;
    }
    assert_eq!(moody.attempts(), 480, "every step has had its four attempts in the end");
}

#[tokio::test(start_paused = true)]
async fn retries_of_a_worker_that_polls_are_held_to_the_budget_too() {
    let world = World::new();
    let node = world.build().options(|options| options.kill_switch = None).start().await;
    let declared = Declared {
        types: vec!["order".to_owned()],
        attempts_max: 2,
        retry_base_ms: 1,
        retry_cap_ms: 1,
        ..Declared::default()
    };
    node.handle.declare_worker(&node.tenant, "mail", &declared).await.unwrap();
    for answer in node.handle.publish_many(&node.tenant, (0..200).map(event).collect()).await {
        answer.unwrap();
    }
    let mut attempts = BTreeMap::<u32, usize>::new();
    let mut early = None;
    while world.counts().await.deliveries > 0 {
        let lent = node.handle.poll_deliveries(&node.tenant, "mail", 100, secs(1)).await.unwrap();
        for one in lent {
            *attempts.entry(one.attempt).or_default() += 1;
            let failed = vec![Handled::retry("away")];
            node.handle.answer_delivery(&node.tenant, one.id, one.attempt, failed).await.unwrap();
        }
        if attempts.get(&1) == Some(&200) && early.is_none() {
            pass(Duration::from_millis(10)).await;
            let lent = node.handle.poll_deliveries(&node.tenant, "mail", 200, Duration::ZERO).await.unwrap();
            early = Some(lent.len() + attempts.get(&2).copied().unwrap_or(0));
            for one in lent {
                *attempts.entry(one.attempt).or_default() += 1;
                let failed = vec![Handled::retry("away")];
                node.handle.answer_delivery(&node.tenant, one.id, one.attempt, failed).await.unwrap();
            }
        }
    }
    // 100 retries are there at first, and one comes for five attempts.
    assert!(early.is_some_and(|early| (100..=150).contains(&early)), "{early:?}");
    assert_eq!(
        attempts,
        BTreeMap::from([(1, 200), (2, 200)]),
        "none is lost, and none counted that was not made"
    );
    assert_eq!(world.letters().await.len(), 200);
}

fn never() -> BreakerRule {
    BreakerRule { attempts_min: u32::MAX, ..BreakerRule::WORKER }
}

#[tokio::test]
async fn a_dead_endpoint_holds_up_no_other() {
    let world = World::real();
    let broken = Arc::new(AtomicBool::new(true));
    let mood = broken.clone();
    let moody = Stub::plain(move |_, _| match mood.load(Ordering::SeqCst) {
        true => says("503 Service Unavailable", ""),
        false => ok(json!(1)),
    })
    .await;
    let fine = Stub::plain(|_, _| ok(json!(2))).await;
    let build = world.build().options(|options| {
        quick(options);
        options.egress.allow_private = runtime::egress::Range::LOOPBACK.to_vec();
    });
    let node = build.start().await;
    let call = |port: u16| {
        let endpoint = format!("http://127.0.0.1:{port}/");
        format!("do: [ {{ a: {{ call: http, with: {{ method: get, endpoint: '{endpoint}' }} }} }} ]")
    };
    node.deploy("moody", &call(moody.port)).await;
    node.deploy("fine", &call(fine.port)).await;
    for _ in 0..4 {
        let id = node.start("moody", json!({})).await;
        assert_eq!(node.fault(id).await.status, 503);
    }
    let target = format!("127.0.0.1:{}", moody.port);
    assert_eq!(states(&node, &node.tenant), [(target.clone(), "open")]);
    let parked = node.start("moody", json!({})).await;
    let other = node.start("fine", json!({})).await;
    assert_eq!(node.output(other).await, json!(2));
    let kinds = async || {
        let why = node.handle.explain(&node.tenant, parked).await.unwrap();
        why.reasons.into_iter().map(|reason| reason.kind).collect::<Vec<_>>()
    };
    until(async || kinds().await == ["breaker", "retry"]).await;
    broken.store(false, Ordering::SeqCst);
    node.handle.probe(&node.tenant, &target, "ann").unwrap();
    // The next call is the probe; what was parked comes back at its time.
    let probe = node.start("moody", json!({})).await;
    assert_eq!(node.output(probe).await, json!(1));
    assert_eq!(states(&node, &node.tenant), [(target, "closed")]);
    assert_eq!(world.status(parked).await, "running", "it comes back when its pause is over");
}
