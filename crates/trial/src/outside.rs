//! A worker that is somewhere else, and what only such a worker can do: die with a delivery, answer too late, never answer.

use crate::{
    suite::samples,
    time::pass,
    world::{Side, World},
};
use machine::{Data, TenantId, time::Span};
use runtime::{
    Handle,
    api::{DebounceSaid, Declared, Lent, RateSaid, Refusal, TerminalSaid},
};
use std::time::Duration;
use worker::{Declaration, Delivery, Handled};

const WAIT: Duration = Duration::from_secs(20);
const LEASE: Duration = Duration::from_secs(60);
/// Deliveries that it asks for at once.
const MOST: usize = 10;

/// What a tenant would say of the worker.
pub(crate) fn declared(worker: &Declaration) -> Declared {
    let terms = worker.on.as_ref().map(|on| on.terms.clone()).expect("a worker that handles events");
    let millis = |span: Span| span.as_millis().unsigned_abs();
    let terminal = terms.terminal;
    Declared {
        types: terms.types,
        attempts_max: worker.retry.attempts_max,
        retry_base_ms: millis(worker.retry.base),
        retry_factor: worker.retry.factor,
        retry_cap_ms: millis(worker.retry.cap),
        batch_max: terms.batch_max as u32,
        order_by: terms.order_by,
        key_by: terms.key_by,
        lease_seconds: LEASE.as_secs() as u32,
        debounce: terms.debounce.map(|one| DebounceSaid {
            by: one.by,
            quiet_ms: millis(one.quiet),
            wait_max_ms: Some(millis(one.wait_max)),
        }),
        rate: terms.rate.map(|rate| RateSaid { max: rate.max, seconds: (rate.per.0 / 1_000_000) as u32 }),
        terminal: TerminalSaid {
            alert: terminal.alert,
            mark_failed: terminal.mark_failed,
            compensate: terminal.compensate,
        },
        watermarks: terms.watermarks,
        ..Declared::default()
    }
}

/// Asks, handles and answers until it is killed.
pub(crate) async fn work(handle: Handle, tenant: TenantId, worker: Declaration) {
    loop {
        match handle.poll_deliveries(&tenant, &worker.name, MOST, WAIT).await {
            Ok(lent) => {
                for one in lent {
                    match attempt(&handle, &tenant, &worker, &one).await {
                        Ok(()) | Err(Refusal::Conflict { .. }) => {}
                        // It comes again.
                        Err(_) => pass(Duration::from_secs(1)).await,
                    }
                }
            }
            Err(_) => pass(Duration::from_secs(1)).await,
        }
    }
}

/// Handles one delivery and answers it.
async fn attempt(
    handle: &Handle,
    tenant: &TenantId,
    worker: &Declaration,
    lent: &Lent,
) -> Result<(), Refusal> {
    let deliveries = deliveries(tenant, worker, lent);
    let on = worker.on.as_ref().expect("a worker that handles events");
    let handled = on.handler.handle(&deliveries).await;
    handle.answer_delivery(tenant, lent.id, lent.attempt, handled).await
}

fn deliveries(tenant: &TenantId, worker: &Declaration, lent: &Lent) -> Vec<Delivery> {
    let one = |((id, event), domain_key): (&(uuid::Uuid, Vec<u8>), &Option<String>)| {
        let event = Data::parse(event).unwrap();
        let text = |name: &str| event.get(name).and_then(|value| value.as_str().map(str::to_owned));
        Delivery {
            tenant: tenant.clone(),
            key: format!("{id}:{}", worker.name),
            domain_key: domain_key.clone(),
            attempt: lent.attempt,
            traceparent: text("traceparent"),
            correlation_id: text("correlationid"),
            watermarks: lent.watermarks.clone(),
            event,
        }
    };
    lent.events.iter().zip(&lent.domain_keys).map(one).collect()
}

/// Waits until something is lent.
async fn polled(handle: &Handle, world: &World, worker: &Declaration) -> Vec<Lent> {
    loop {
        let lent = handle.poll_deliveries(&world.tenant, &worker.name, MOST, WAIT).await.unwrap();
        if !lent.is_empty() {
            return lent;
        }
    }
}

/// A world in which the worker is declared, and the node that a test drives it on by hand.
async fn by_hand(worker: &Declaration) -> (World, crate::world::Up) {
    let world = World::new(Side::Outside);
    let node = world.node(vec![], true).await;
    node.declare(&world, worker).await;
    node.publish(&world, samples(worker)).await;
    (world, node)
}

/// It dies before it answers, and after its answer is durable: whoever comes next ends it, or finds nothing.
pub(crate) async fn died(worker: &Declaration, expected: &[String]) {
    let (world, node) = by_hand(worker).await;
    // Before: what it had is another's once its time is over.
    polled(&node.handle, &world, worker).await;
    let mut ended = vec![];
    while world.counts().await.deliveries > 0 {
        for lent in polled(&node.handle, &world, worker).await {
            attempt(&node.handle, &world.tenant, worker, &lent).await.unwrap();
            ended.push(lent);
        }
    }
    world.settled().await;
    assert_eq!(world.outputs(&worker.name).await, expected, "`{}` died with a delivery", worker.name);
    // After: the same answer again, as whoever did not hear that it was taken would give it.
    for lent in &ended {
        let again = attempt(&node.handle, &world.tenant, worker, lent).await;
        assert!(is_lost(&again), "{again:?}");
    }
    world.settled().await;
    assert_eq!(world.outputs(&worker.name).await, expected, "`{}` answered twice", worker.name);
    node.stop().await;
}

/// It is slow, another has ended it meanwhile: its answer and its sign of life are refused, and it goes on.
pub(crate) async fn late(worker: &Declaration, expected: &[String]) {
    let (world, node) = by_hand(worker).await;
    let slow = polled(&node.handle, &world, worker).await;
    // It says that it goes on, and nobody else gets it.
    for lent in &slow {
        node.handle.extend_delivery(&world.tenant, lent.id, lent.attempt, 600).await.unwrap();
    }
    pass(LEASE * 2).await;
    let others =
        node.handle.poll_deliveries(&world.tenant, &worker.name, MOST, Duration::ZERO).await.unwrap();
    assert!(others.iter().all(|one| slow.iter().all(|lent| lent.id != one.id)), "{others:?}");
    for lent in &others {
        attempt(&node.handle, &world.tenant, worker, lent).await.unwrap();
    }
    pass(Duration::from_secs(600)).await;
    let quick = polled(&node.handle, &world, worker).await;
    for lent in &quick {
        attempt(&node.handle, &world.tenant, worker, lent).await.unwrap();
    }
    for lent in slow.iter().filter(|lent| quick.iter().any(|one| one.id == lent.id)) {
        let answer = attempt(&node.handle, &world.tenant, worker, lent).await;
        assert!(is_lost(&answer), "`{}` answered for another: {answer:?}", worker.name);
        let beat = node.handle.extend_delivery(&world.tenant, lent.id, lent.attempt, 60).await;
        assert!(is_lost(&beat.map(drop)));
    }
    while world.counts().await.deliveries > 0 {
        for lent in polled(&node.handle, &world, worker).await {
            attempt(&node.handle, &world.tenant, worker, &lent).await.unwrap();
        }
    }
    world.settled().await;
    assert_eq!(world.outputs(&worker.name).await, expected, "`{}` was late", worker.name);
    node.stop().await;
}

/// It asks and never answers: as many attempts as the policy says, and then a dead letter.
pub(crate) async fn silent(worker: &Declaration) {
    let world = World::new(Side::Outside);
    let node = world.node(vec![], true).await;
    node.declare(&world, worker).await;
    node.publish(&world, samples(worker).into_iter().take(1).collect()).await;
    let mut attempts = vec![];
    while world.counts().await.deliveries > 0 {
        let lent = node.handle.poll_deliveries(&world.tenant, &worker.name, MOST, WAIT).await.unwrap();
        attempts.extend(lent.iter().map(|one| one.attempt));
    }
    assert_eq!(attempts, (1..=worker.retry.attempts_max).collect::<Vec<_>>(), "`{}` is silent", worker.name);
    let letters = world.letters().await;
    let reasons: Vec<&str> = letters.iter().map(|letter| letter.reason.as_str()).collect();
    assert_eq!(reasons, ["retries-exhausted"]);
    // What it says now is too late, and it goes on.
    let answer = vec![Handled::done()];
    let lent = node.handle.poll_deliveries(&world.tenant, &worker.name, MOST, Duration::ZERO).await.unwrap();
    assert!(lent.is_empty());
    let gone = node.handle.answer_delivery(&world.tenant, letters[0].id, 1, answer).await;
    assert!(is_lost(&gone), "{gone:?}");
    node.stop().await;
}

fn is_lost(answer: &Result<(), Refusal>) -> bool {
    matches!(answer, Err(Refusal::Conflict { code: "delivery-lost", .. }))
}
