//! R16: a saga is killed before and after every one of its commits, going forward and going back, and is never left
//! half done.

use crate::support::*;
use machine::{Data, TenantId};
use parking_lot::Mutex;
use runtime::{
    Handle,
    api::{InstanceResult, Order, Refusal},
};
use serde_json::{Value, json};
use std::{collections::BTreeMap, sync::Arc};
use trial::tap::Act;
use uuid::Uuid;
use worker::{Class, Context, Declaration, Outcome};

const SAGA: &str = "use: { functions: { hold: { wait: PT1H } } }
do:
- s:
    call: saga:1.0.0@default
    with:
      steps:
      - { name: a, do: 'do:1.0.0@default', undo: 'undo:1.0.0@default', with: { v: { step: a } } }
      - { name: b, do: 'do:1.0.0@default', undo: 'undo:1.0.0@default', with: { v: { step: b } } }
      - { name: c, do: 'do:1.0.0@default', undo: 'undo:1.0.0@default', with: { v: { step: c } } }
      - { name: d, do: 'do:1.0.0@default', undo: 'undo:1.0.0@default', with: { v: { step: d } } }
";

/// What the outside holds: step → how often it is done and not undone. Keys are honoured, as endpoints should.
#[derive(Clone, Default)]
struct Ledger {
    held: Arc<Mutex<BTreeMap<String, i64>>>,
    answered: Arc<Mutex<BTreeMap<String, Outcome>>>,
    order: Arc<Mutex<Vec<String>>>,
}

impl Ledger {
    /// Calls of one name; `fails` says which.
    fn worker(&self, name: &str, fails: impl Fn(&str) -> bool + Send + Sync + 'static) -> Declaration {
        let ledger = self.clone();
        let undoes = name == "undo";
        let handler = worker::from_fn(move |context: &Context, input: Data| {
            if let Some(answer) = ledger.answered.lock().get(&context.key) {
                return answer.clone();
            }
            let input = input.to_json();
            let given = if undoes { &input["input"] } else { &input };
            let step = given["v"]["step"].as_str().unwrap().to_owned();
            let answer = match fails(&step) {
                true => Outcome::fail(Class::Validation, "told to"),
                false => {
                    *ledger.held.lock().entry(step.clone()).or_default() += if undoes { -1 } else { 1 };
                    ledger.order.lock().push(format!("{}{step}", if undoes { "-" } else { "+" }));
                    Outcome::Done(Data::text(context.key.as_str()))
                }
            };
            ledger.answered.lock().insert(context.key.clone(), answer.clone());
            answer
        });
        Declaration::new(name, handler)
    }

    fn held(&self) -> Vec<(String, i64)> {
        self.held.lock().clone().into_iter().filter(|(_, count)| *count != 0).collect()
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Forward,
    /// The last step fails.
    Back,
    /// Cancelled while the last step is under way.
    Cancelled,
}

async fn node(world: &World, ledger: &Ledger, way: Way) -> Up {
    let does = ledger.worker("do", move |step| way == Way::Back && step == "d");
    world.build().sole().worker(does).worker(ledger.worker("undo", |_| false)).start().await
}

/// Starts the saga (once, however often this is asked), and cancels it if that is the way.
async fn drive(handle: &Handle, tenant: &TenantId, id: Uuid, way: Way) -> Result<(), Refusal> {
    let mut start = start_of("saga", json!({}));
    (start.idempotency_key, start.id) = (Some("once".to_owned()), Some(id));
    handle.start(tenant, start).await?;
    if way == Way::Cancelled {
        let ready = |calls: &[Value]| calls.len() >= 3;
        until(|| async {
            let undos = handle.compensation(tenant, id).await.unwrap_or_default();
            let ended =
                !matches!(handle.result(tenant, id, secs(0)).await, Ok(InstanceResult::Pending(_)) | Err(_));
            ended || ready(&undos.iter().map(|undo| undo.input.to_json()).collect::<Vec<_>>())
        })
        .await;
        match handle.order(tenant, id, Order::Cancel, "test").await {
            Ok(_) | Err(Refusal::Conflict { .. }) => {}
            Err(refusal) => return Err(refusal),
        }
    }
    Ok(())
}

/// How many commits there are; with `crash`, the node dies at the commit of that number and another takes over.
async fn go(way: Way, crash: Option<(u64, Act)>) -> u64 {
    let world = World::new();
    let ledger = Ledger::default();
    let id = Uuid::from_u128(0x7000_8000 << 64 | 9);
    let first = node(&world, &ledger, way).await;
    first.deploy("saga", SAGA).await;
    let count = Arc::new(Mutex::new(0));
    let counted = count.clone();
    first.tap.on_commit(move |_| {
        let mut count = counted.lock();
        *count += 1;
        match crash {
            Some((at, act)) if *count == at => act,
            _ => Act::Pass,
        }
    });
    let died = first.tap.crash.clone();
    let done = tokio::select! {
        biased;
        () = died.cancelled() => false,
        end = async { drive(&first.handle, &first.tenant, id, way).await.unwrap(); first.end(id).await } => {
            check(way, &end, &ledger);
            true
        }
    };
    if !done {
        let second = node(&world, &ledger, way).await;
        drive(&second.handle, &second.tenant, id, way).await.unwrap();
        let end = second.end(id).await;
        check(way, &end, &ledger);
        second.stop().await;
    }
    assert_eq!(world.counts().await.calls, 0);
    drop(first);
    Arc::try_unwrap(count).map_or_else(|count| *count.lock(), Mutex::into_inner)
}

#[track_caller]
fn check(way: Way, end: &InstanceResult, ledger: &Ledger) {
    let held = ledger.held();
    match (way, end) {
        (Way::Forward, InstanceResult::Completed(_)) => {
            let all = ["a", "b", "c", "d"].map(|step| (step.to_owned(), 1));
            assert_eq!(held, all, "{:?}", ledger.order.lock());
        }
        (Way::Back, InstanceResult::Faulted(fault)) => {
            assert_eq!(fault.instance.as_deref(), Some("/do/0/s/with/steps/3/do"));
            assert_eq!(held, [], "{:?}", ledger.order.lock());
            assert_eq!(*ledger.order.lock(), ["+a", "+b", "+c", "-c", "-b", "-a"]);
        }
        // A cancel may come too late; then all of it is done.
        (Way::Cancelled, InstanceResult::Completed(_)) => assert_eq!(held.len(), 4),
        (Way::Cancelled, InstanceResult::Cancelled) => {
            // What was under way is undone although nobody knows whether it was done.
            let open: Vec<_> = held.iter().filter(|(_, count)| *count > 0).collect();
            assert!(open.is_empty(), "half done: {:?}", ledger.order.lock());
        }
        other => panic!("{other:?}: {:?}", ledger.order.lock()),
    }
}

#[tokio::test(start_paused = true)]
async fn a_saga_killed_at_any_commit_is_completed_or_fully_undone() {
    for way in [Way::Forward, Way::Back, Way::Cancelled] {
        let commits = go(way, None).await;
        assert!(commits >= 5, "{way:?} has only {commits} commits");
        for at in 1..=commits {
            for act in [Act::CrashBefore, Act::CrashAfter] {
                go(way, Some((at, act))).await;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_undo_that_fails_for_good_is_a_dead_letter_whose_replay_goes_on_there() {
    let world = World::new();
    let ledger = Ledger::default();
    let broken = Arc::new(Mutex::new(true));
    let stuck = broken.clone();
    let fails = ledger.worker("undo", move |step| *stuck.lock() && step == "b");
    let node = world.build().worker(ledger.worker("do", |step| step == "d")).worker(fails).start().await;
    node.deploy("saga", SAGA).await;
    let id = node.start("saga", json!({})).await;
    let fault = node.fault(id).await;
    assert_eq!(fault.instance.as_deref(), Some("/do/0/s/with/steps/1/undo"));
    let letter = world.letter().await;
    assert_eq!((letter.source.as_str(), letter.reason.as_str()), ("saga", "saga-stuck"));
    assert_eq!((letter.instance, letter.attempts), (Some(id), 7));
    let left = node.handle.compensation(&node.tenant, id).await.unwrap();
    let left: Vec<_> = left.iter().map(|undo| (undo.name.as_str(), undo.undoing)).collect();
    assert_eq!(left, [("b", true), ("a", false)]);
    *broken.lock() = false;
    ledger.answered.lock().clear();
    node.handle.replay_dead_letter(&node.tenant, letter.id, "ann").await.unwrap();
    let fault = node.fault(id).await;
    assert_eq!(fault.instance.as_deref(), Some("/do/0/s/with/steps/3/do"), "the first error comes out");
    assert_eq!(*ledger.order.lock(), ["+a", "+b", "+c", "-c", "-b", "-a"], "nothing is undone twice");
    assert!(world.letters().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn cancelling_answers_cancelling_until_all_is_undone() {
    let world = World::new();
    let ledger = Ledger::default();
    let gate = Gate::new();
    let node = world.build().worker(ledger.worker("do", |_| false)).worker(gate.worker("undo")).start().await;
    let body = SAGA.replace("name: d, do: 'do:1.0.0@default'", "name: d, do: hold");
    node.deploy("saga", &body).await;
    let id = node.start("saga", json!({})).await;
    until(|| async { world.status(id).await == "waiting" }).await;
    let order = |order| node.handle.order(&node.tenant, id, order, "ann");
    assert_eq!(order(Order::Cancel).await.unwrap(), "cancelling");
    assert_eq!(order(Order::Cancel).await.unwrap(), "cancelling", "asking again is fine");
    assert_eq!(world.status(id).await, "cancelling");
    assert_eq!(order(Order::Pause).await.unwrap(), "paused");
    gate.open.add_permits(1);
    pass(secs(60)).await;
    assert_eq!(gate.begun(), 1, "nothing new begins while paused");
    assert_eq!(order(Order::Resume).await.unwrap(), "cancelling");
    gate.open.add_permits(2);
    assert_eq!(node.end(id).await, InstanceResult::Cancelled);
    assert_eq!(gate.begun(), 3);
    assert_eq!(world.count(id, "saga.undone").await, 1);
}
