//! R07: one trace goes through event, worker, emitted event, instance and call.

use crate::support::*;
use machine::Data;
use parking_lot::Mutex;
use runtime::spans::{Span, Spans};
use serde_json::json;
use std::sync::Arc;
use worker::{Class, Declaration, Emit, Handled, Outcome, each, from_fn};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

#[derive(Default)]
struct Collected(Mutex<Vec<Span>>);

impl Spans for Collected {
    fn wants(&self) -> bool {
        true
    }

    fn record(&self, span: Span) {
        self.0.lock().push(span);
    }
}

impl Collected {
    fn named(&self, name: &str) -> Vec<Span> {
        self.0.lock().iter().filter(|span| span.name == name).cloned().collect()
    }

    #[track_caller]
    fn one(&self, name: &str) -> Span {
        let found = self.named(name);
        assert_eq!(found.len(), 1, "{name}: {:?}", self.0.lock());
        found[0].clone()
    }
}

fn placed(flags: &str) -> Data {
    Data::from_json(
        json!({ "specversion": "1.0", "id": format!("1-{flags}"), "source": "shop", "type": "placed",
        "traceparent": format!("00-{TRACE}-00f067aa0ba902b7-{flags}"), "data": { "n": 1 } }),
    )
}

fn emitting(name: &str, kind: &str, then: &'static str) -> Declaration {
    Declaration::on(name, [kind], each(move |delivery| Handled::emit([Emit::new(then, delivery.data())])))
}

#[tokio::test(start_paused = true)]
async fn one_trace_goes_from_an_event_to_the_call_that_follows_from_it() {
    let world = World::new();
    let spans = Arc::new(Collected::default());
    let called = Declaration::new(
        "charge",
        from_fn(|context, _| match context.attempt {
            1 => Outcome::retry("away"),
            _ => Outcome::Done(Data::int(1)),
        }),
    );
    let build = world.build().worker(emitting("mail", "placed", "mailed"));
    let build = build.worker(emitting("ship", "mailed", "shipped")).worker(called);
    let node = build.spans(spans.clone()).start().await;
    node.deploy("bill", "schedule: { on: { one: { with: { type: shipped } } } }\ndo: [ { pay: { call: 'charge:1.0.0@default' } } ]").await;
    node.handle.publish(&node.tenant, placed("01")).await.unwrap();
    until(|| async { !spans.named("instance").is_empty() }).await;
    let all = spans.0.lock().clone();
    assert!(all.iter().all(|span| span.trace == TRACE), "{all:?}");
    let (published, mail, mailed) =
        (spans.one("publish placed"), spans.one("deliver mail"), spans.one("publish mailed"));
    assert_eq!(published.parent.as_deref(), Some("00f067aa0ba902b7"));
    assert_eq!(mail.parent.as_ref(), Some(&published.id));
    assert_eq!(mailed.parent.as_ref(), Some(&mail.id));
    let (ship, instance) = (spans.one("deliver ship"), spans.one("instance"));
    assert_eq!((ship.parent.as_ref(), instance.parent.as_ref()), (Some(&mailed.id), Some(&ship.id)));
    let calls = spans.named("call charge");
    assert_eq!(calls.iter().map(|call| call.failure.as_deref()).collect::<Vec<_>>(), [Some("away"), None]);
    assert_eq!(calls[0].parent.as_ref(), Some(&instance.id));
    assert_eq!(calls[1].parent.as_ref(), Some(&calls[0].id), "a second attempt is beneath the first");
    assert!(all.iter().all(|span| span.began <= span.ended));
}

#[tokio::test(start_paused = true)]
async fn what_fails_says_so_and_what_nobody_wants_kept_is_not_told() {
    let world = World::new();
    let spans = Arc::new(Collected::default());
    let refusing =
        Declaration::on("mail", ["placed"], each(|_| Handled::fail(Class::Validation, "no order")));
    let node = world.build().worker(refusing).spans(spans.clone()).start().await;
    node.handle.publish(&node.tenant, placed("00")).await.unwrap();
    until(|| async { world.letters().await.len() == 1 }).await;
    assert_eq!(spans.0.lock().len(), 0, "whoever began the trace does not want it");
    node.handle.publish(&node.tenant, placed("01")).await.unwrap();
    until(|| async { world.letters().await.len() == 2 }).await;
    assert_eq!(spans.one("deliver mail").failure.as_deref(), Some("validation: no order"));
}

/// A worker that is somewhere else leaves the same spans, and counts as long, as one of the node.
#[tokio::test(start_paused = true)]
async fn a_remote_worker_leaves_the_same_spans_and_durations() {
    let world = World::new();
    let spans = Arc::new(Collected::default());
    let node = world.build().worker(emitting("ship", "mailed", "shipped")).spans(spans.clone()).start().await;
    let declared = runtime::api::Declared { types: vec!["placed".into()], ..Default::default() };
    node.handle.declare_worker(&node.tenant, "mail", &declared).await.unwrap();
    node.handle.publish(&node.tenant, placed("01")).await.unwrap();
    let wait = std::time::Duration::from_secs(1);
    let attempt = async |answer: Handled| {
        let lent = node.handle.poll_deliveries(&node.tenant, "mail", 1, wait).await.unwrap().remove(0);
        pass(std::time::Duration::from_secs(3)).await;
        node.handle.extend_delivery(&node.tenant, lent.id, lent.attempt, 600).await.unwrap();
        pass(std::time::Duration::from_secs(3)).await;
        node.handle.answer_delivery(&node.tenant, lent.id, lent.attempt, vec![answer]).await.unwrap();
        lent.traceparents[0].clone()
    };
    let again = Handled::Retry {
        failure: worker::Failure { class: Class::Transient, message: "away".into() },
        after: None,
    };
    let told = attempt(again).await;
    pass(std::time::Duration::from_secs(120)).await;
    attempt(Handled::emit([Emit::new("mailed", Data::int(1))])).await;
    until(|| async { !spans.named("publish shipped").is_empty() }).await;
    let (published, mailed) = (spans.one("publish placed"), spans.one("publish mailed"));
    let mail = spans.named("deliver mail");
    assert_eq!(mail.iter().map(|span| span.failure.is_some()).collect::<Vec<_>>(), [true, false]);
    assert_eq!(told, format!("00-{TRACE}-{}-01", mail[0].id), "the worker is told of its span");
    assert_eq!(mail[0].parent.as_ref(), Some(&published.id));
    assert_eq!(mail[1].parent.as_ref(), Some(&mail[0].id), "a second attempt is beneath the first");
    assert_eq!(mailed.parent.as_ref(), Some(&mail[0].id));
    assert_eq!(spans.one("deliver ship").parent.as_ref(), Some(&mailed.id));
    for span in &mail {
        assert!(span.ended.since(span.began) >= machine::time::Span::from_secs(6), "{span:?}");
    }
    let metrics = node.handle.metrics();
    let of_mail = |metric: &&runtime::handle::Metric| {
        metric.name == "windlass_messages_seconds_total" && metric.labels.contains(&("target", "mail".into()))
    };
    let seconds: f64 = metrics.iter().filter(of_mail).map(|metric| metric.value).sum();
    assert!((12.0..200.0).contains(&seconds), "{seconds}");
}
