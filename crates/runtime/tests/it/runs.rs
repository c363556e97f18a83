//! R08, C20: workers that run by themselves: one run per slot, one at a time, from where the last one came to.

use crate::{deliveries::settled, support::*};
use machine::{Data, time::Span};
use parking_lot::Mutex;
use runtime::ScheduleOrder;
use serde_json::{Value, json};
use std::{collections::BTreeSet, sync::Arc, time::Duration};
use store::{Write, views::ScheduleFilter};
use trial::tap::Act;
use worker::{Declaration, Delivery, Effects, Emit, Handled, Handler, Missed, When, async_trait};

type Runs = Arc<Mutex<Vec<Value>>>;

/// Notes its runs, takes so long for each, and moves a watermark by one.
struct Export {
    runs: Runs,
    takes: Duration,
}

#[async_trait]
impl Handler for Export {
    async fn handle(&self, deliveries: &[Delivery]) -> Vec<Handled> {
        let delivery = &deliveries[0];
        let mark = delivery.watermark("position").unwrap();
        let from = mark.value.as_i64().unwrap_or(0);
        pass(self.takes).await;
        let mut run = delivery.event.to_json();
        run["from"] = json!(from);
        self.runs.lock().push(run);
        let emits = vec![Emit::new("exported", Data::int(from))];
        vec![Handled::Done(Effects {
            emits,
            moves: vec![mark.to(Data::int(from + 1))],
            ..Effects::default()
        })]
    }
}

fn export(takes: u64) -> (Declaration, Runs) {
    let runs = Runs::default();
    let handler = Export { runs: runs.clone(), takes: Duration::from_secs(takes) };
    let none: [&str; 0] = [];
    (
        Declaration::on("export", none, handler)
            .schedule(When::Every(Span::from_secs(60)))
            .watermarks(["position"]),
        runs,
    )
}

async fn with_tenant(world: &World, node: &Up) {
    node.handle.create_tenant(&world.tenant, "Acme").await.unwrap();
}

async fn outcomes(world: &World) -> Vec<(String, u64)> {
    let all = world.store.schedules(&world.tenant, &ScheduleFilter::default()).await.unwrap();
    let slots = world.store.slots(&world.tenant, all[0].id, None, 1_000).await.unwrap();
    slots.into_iter().map(|slot| (slot.outcome, slot.count)).collect()
}

#[tokio::test(start_paused = true)]
async fn a_worker_runs_once_per_slot_each_a_trace_of_its_own() {
    let world = World::new();
    let (worker, runs) = export(1);
    let node = world.build().worker(worker).start().await;
    with_tenant(&world, &node).await;
    pass(Duration::from_secs(5 * 60 + 10)).await;
    settled(&world).await;
    let got = runs.lock().clone();
    assert_eq!(got.len(), 5, "{got:?}");
    let froms: Vec<i64> = got.iter().map(|run| run["from"].as_i64().unwrap()).collect();
    assert_eq!(froms, [0, 1, 2, 3, 4], "each goes on where the last came to");
    let ids: BTreeSet<&str> = got.iter().map(|run| run["id"].as_str().unwrap()).collect();
    let traces: BTreeSet<&str> = got.iter().map(|run| &run["traceparent"].as_str().unwrap()[3..35]).collect();
    assert_eq!((ids.len(), traces.len()), (5, 5));
    assert!(got.iter().all(|run| run["causationid"] == run["id"] && run["type"] == worker::DUE), "{got:?}");
    assert_eq!(outcomes(&world).await, vec![("fired".to_owned(), 1); 5]);
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn times_missed_while_nothing_ran_are_one_run_or_none() {
    for (missed, expected) in [(Missed::Latest, 2), (Missed::Skip, 1)] {
        let world = World::new();
        let seldom = |worker: Declaration| worker.schedule(When::Every(Span::from_secs(600))).missed(missed);
        let (worker, runs) = export(1);
        let node = world.build().worker(seldom(worker)).start().await;
        with_tenant(&world, &node).await;
        pass(Duration::from_secs(610)).await;
        node.stop().await;
        pass(Duration::from_secs(3_600 + 330)).await;
        let (worker, later) = export(1);
        let node = world.build().worker(seldom(worker)).sole().start().await;
        pass(Duration::from_secs(5)).await;
        settled(&world).await;
        assert_eq!(runs.lock().len() + later.lock().len(), expected, "{missed:?}");
        let merged: u64 =
            outcomes(&world).await.iter().filter(|(word, _)| word != "fired").map(|(_, n)| n).sum();
        assert!(merged >= 5, "the ledger has all of them: {merged}");
        node.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_takes_as_long_as_it_takes_and_the_times_within_are_one_run() {
    let world = World::new();
    let (worker, runs) = export(10 * 60);
    let node = world.build().worker(worker.timeout(Span::from_secs(3600))).start().await;
    with_tenant(&world, &node).await;
    pass(Duration::from_secs(22 * 60)).await;
    let froms: Vec<i64> = runs.lock().iter().map(|run| run["from"].as_i64().unwrap()).collect();
    assert_eq!(froms, [0, 1], "one at a time");
    assert!(world.counts().await.deliveries <= 2, "one under way, one to come");
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_crash_in_the_middle_of_a_run_starts_over_at_the_watermark() {
    for act in [Act::CrashBefore, Act::CrashAfter] {
        let world = World::new();
        let (worker, _) = export(1);
        let node = world.build().worker(worker).start().await;
        with_tenant(&world, &node).await;
        let ends = |commit: &store::Commit| {
            commit
                .writes
                .iter()
                .any(|write| matches!(write, Write::MoveWatermark { expected_version: 1, .. }))
        };
        node.tap.once(ends, act);
        pass(Duration::from_secs(130)).await;
        node.crash().await;
        let (worker, runs) = export(1);
        let node = world.build().worker(worker).sole().start().await;
        pass(Duration::from_secs(60)).await;
        settled(&world).await;
        let froms: Vec<i64> = runs.lock().iter().map(|run| run["from"].as_i64().unwrap()).collect();
        let expected: &[i64] = if act == Act::CrashBefore { &[1, 2] } else { &[2] };
        assert_eq!(froms, expected, "{act:?}");
        let marks = world.store.watermarks(&world.tenant, "export").await.unwrap();
        assert_eq!((marks[0].value.as_slice(), marks[0].version), (&b"3"[..], 3));
        node.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_follows_the_end_of_the_one_before_also_follows_a_failure() {
    let world = World::new();
    let runs = Arc::new(Mutex::new(Vec::new()));
    let (noted, clock) = (runs.clone(), world.clock.clone());
    let none: [&str; 0] = [];
    let worker = Declaration::on(
        "sync",
        none,
        worker::each(move |_| {
            noted.lock().push(clock.now());
            match noted.lock().len() {
                2 => Handled::fail(worker::Class::Validation, "never"),
                _ => Handled::done(),
            }
        }),
    )
    .schedule(When::After(Span::from_secs(30)));
    let node = world.build().worker(worker).start().await;
    with_tenant(&world, &node).await;
    until(|| async { runs.lock().len() >= 4 }).await;
    let times = runs.lock().clone();
    for pair in times.windows(2) {
        assert!(pair[1].since(pair[0]) >= Span::from_secs(30), "{times:?}");
    }
    assert_eq!(world.letters().await.len(), 1, "the failed run is a dead letter");
    // An operator pauses, resumes and triggers it like any other schedule.
    let schedule = world.store.schedules(&world.tenant, &ScheduleFilter::default()).await.unwrap()[0].clone();
    node.handle.order_schedule(&node.tenant, schedule.id, ScheduleOrder::Pause, "op").await.unwrap();
    settled(&world).await;
    let before = runs.lock().len();
    pass(Duration::from_secs(300)).await;
    assert_eq!(runs.lock().len(), before);
    node.handle.trigger_schedule(&node.tenant, schedule.id, "op").await.unwrap();
    until(|| async { runs.lock().len() == before + 1 }).await;
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn two_that_move_one_watermark_do_not_overtake_each_other() {
    let world = World::new();
    let count = |delivery: &Delivery| {
        let mark = delivery.watermark("count").unwrap();
        let next = mark.value.as_i64().unwrap_or(0) + 1;
        let emits = vec![Emit::new("counted", Data::int(next))];
        Handled::Done(Effects { emits, moves: vec![mark.to(Data::int(next))], ..Effects::default() })
    };
    let (counter, _) = crate::deliveries::noting(&world, "counter", &["order"], count);
    let node = world.build().worker(counter.watermarks(["count"])).start().await;
    crate::deliveries::publish_all(&node, crate::deliveries::events("order", 0..12)).await;
    settled(&world).await;
    let marks = world.store.watermarks(&world.tenant, "counter").await.unwrap();
    assert_eq!((marks[0].value.as_slice(), marks[0].version), (&b"12"[..], 12));
    assert!(world.letters().await.is_empty(), "no attempt was used up");
    node.stop().await;
}
