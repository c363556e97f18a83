//! The conformance suite over workers of every kind of terms, so that the terms keep what is promised of every worker.

use machine::{Data, time::Span};
use serde_json::json;
use worker::{
    Context, Debounce, Declaration, Delivery, Effects, Emit, Handled, Outcome, RetryPolicy, Terminal, each,
    from_fn,
};

fn counted(name: &str) -> Declaration {
    let handle = |delivery: &Delivery| match delivery.data().get("n").and_then(|n| n.as_i64()) {
        Some(n) => Handled::emit([Emit::new("order.counted", Data::int(n + 1)).subject("s")]),
        None => Handled::fail(worker::Class::Validation, "no number"),
    };
    let sample = |n: i64| json!({ "type": "order.made", "subject": format!("o-{n}"), "data": { "n": n } });
    Declaration::on(name, ["order.made"], each(handle))
        .sample(Data::from_json(sample(1)))
        .sample(Data::from_json(sample(2)))
}

#[tokio::test(start_paused = true)]
async fn a_plain_worker_conforms() {
    trial::check(&counted("plain")).await;
}

#[tokio::test(start_paused = true)]
async fn a_worker_with_batches_order_and_retries_conforms() {
    let retry =
        RetryPolicy { attempts_max: 4, base: Span::from_secs(1), factor: 3.0, cap: Span::from_secs(60) };
    trial::check(&counted("batches").batch_max(10).retry(retry)).await;
    trial::check(&counted("ordered").order_by("subject").retry(retry)).await;
}

#[tokio::test(start_paused = true)]
async fn a_worker_with_a_domain_key_a_rate_and_little_memory_conforms() {
    let worker =
        counted("keyed").key_by("subject").rate(100, Span::from_secs(1)).prefetch_max(2).concurrency_max(1);
    trial::check(&worker.terminal(Terminal { alert: true, ..Terminal::default() })).await;
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_is_held_back_conforms() {
    let by = Some("subject".to_owned());
    let debounce = Debounce { by, quiet: Span::from_secs(1), wait_max: Span::from_secs(5) };
    trial::check(&counted("held-back").debounce(debounce)).await;
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_emits_once_per_key_conforms() {
    let handle = |delivery: &Delivery| {
        let subject = delivery.attribute("subject").unwrap_or_default();
        let emits = vec![Emit::new("sent", Data::text(&*subject)).once(format!("{subject}:mail"))];
        Handled::Done(Effects { emits, ..Effects::default() })
    };
    let sample = Data::from_json(json!({ "type": "order.made", "subject": "o-1", "data": {} }));
    trial::check(&Declaration::on("once", ["order.made"], each(handle)).sample(sample)).await;
}

#[tokio::test(start_paused = true)]
async fn a_plain_worker_somewhere_else_conforms() {
    trial::check_remote(&counted("plain")).await;
}

#[tokio::test(start_paused = true)]
async fn workers_with_terms_somewhere_else_conform() {
    let retry =
        RetryPolicy { attempts_max: 4, base: Span::from_secs(1), factor: 3.0, cap: Span::from_secs(60) };
    trial::check_remote(&counted("batches").batch_max(10).retry(retry)).await;
    trial::check_remote(&counted("ordered").order_by("subject").retry(retry)).await;
    let keyed = counted("keyed").key_by("subject").rate(100, Span::from_secs(1));
    trial::check_remote(&keyed.terminal(Terminal { alert: true, ..Terminal::default() })).await;
}

fn adder(name: &str) -> Declaration {
    let add = |_: &Context, input: Data| match input.get("n").and_then(|n| n.as_i64()) {
        Some(n) => Outcome::Done(Data::int(n + 1)),
        None => Outcome::fail(worker::Class::Validation, "no number"),
    };
    Declaration::new(name, from_fn(add))
}

fn numbers() -> Vec<Data> {
    [1, 2].map(|n| Data::from_json(json!({ "n": n }))).to_vec()
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_steps_call_conforms() {
    trial::check_calls(&adder("add"), &numbers()).await;
    let retry =
        RetryPolicy { attempts_max: 3, base: Span::from_secs(1), factor: 2.0, cap: Span::from_secs(9) };
    trial::check_calls(&adder("add-twice").retry(retry).concurrency_max(1).version("2.1.0"), &numbers())
        .await;
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "CrashBefore at commit")]
async fn a_worker_that_counts_its_calls_does_not_conform() {
    let count = std::sync::atomic::AtomicI64::new(0);
    let handle = move |_: &Context, _: Data| {
        // The first of every world comes to the same; one that is called again does not.
        let n = count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        Outcome::Done(Data::int(if n < 5 { 0 } else { n }))
    };
    let inputs = [Data::from_json(json!({ "n": 1 }))];
    trial::check_calls(&Declaration::new("counts", from_fn(handle)), &inputs).await;
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "published 2 times")]
async fn a_worker_that_emits_at_random_does_not_conform() {
    let count = std::sync::atomic::AtomicI64::new(0);
    let handle = move |_: &Delivery| {
        let n = count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        Handled::emit([Emit::new("n", Data::int(n))])
    };
    let sample = Data::from_json(json!({ "type": "order.made", "data": {} }));
    trial::check(&Declaration::on("random", ["order.made"], each(handle)).sample(sample)).await;
}
