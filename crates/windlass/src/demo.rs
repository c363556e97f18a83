//! The demo: a tenant, a key, the example definitions, an instance of each, and small workers that they call.
//!
//! Setting up is repeatable: a second start finds everything there and changes nothing.

use crate::failure::Failure;
use machine::{Data, TenantId, language::Format, time::Span};
use runtime::{
    Handle,
    api::{DefinitionRef, Refusal, Start},
};
use serde_json::{Value, json};
use worker::{
    Class, Context, Declaration, Delivery, Emit, Handled, Outcome, RetryPolicy, Terminal, each, from_fn,
};

pub(crate) const TENANT: &str = "demo";

/// An example: name, document, input.
struct Example {
    name: &'static str,
    document: &'static str,
    input: &'static str,
}

macro_rules! example {
    ($name:literal) => {
        Example {
            name: $name,
            document: include_str!(concat!("../../../examples/", $name, ".yaml")),
            input: include_str!(concat!("../../../examples/", $name, ".input.json")),
        }
    };
}

const EXAMPLES: &[Example] = &[example!("order-approval"), example!("invoice-run"), example!("provisioning")];

/// Makes the demo tenant with its definitions and first instances, as far as they are not there yet.
pub(crate) async fn set_up(handle: &Handle) -> Result<TenantId, Failure> {
    let tenant = TenantId::new(TENANT).map_err(|error| Failure::failed(error.to_string()))?;
    match handle.create_tenant(&tenant, "Demo").await {
        Ok(()) | Err(Refusal::Conflict { .. }) => {}
        Err(refusal) => return Err(failed("the demo tenant", &refusal)),
    }
    for example in EXAMPLES {
        match handle.deploy(&tenant, example.document.as_bytes(), Format::Yaml, false).await {
            Ok(_) => {}
            // Another build deployed another text under this version; it stays.
            Err(Refusal::Conflict { detail, .. }) => tracing::debug!(detail, "example left as it is"),
            Err(refusal) => return Err(failed(example.name, &refusal)),
        }
        match handle.start(&tenant, first(example)?).await {
            Ok(_) => {}
            Err(Refusal::KeyReused | Refusal::Conflict { .. }) => {
                tracing::debug!(example.name, "started before")
            }
            Err(refusal) => return Err(failed(example.name, &refusal)),
        }
    }
    Ok(tenant)
}

fn failed(what: &str, refusal: &Refusal) -> Failure {
    Failure::failed(format!("{what} cannot be set up: {refusal}"))
}

/// The first instance of an example; its idempotency key keeps it the only one.
fn first(example: &Example) -> Result<Start, Failure> {
    let input = Data::parse(example.input.as_bytes())
        .map_err(|error| Failure::failed(format!("{}: {error}", example.name)))?;
    Ok(Start {
        definition: DefinitionRef {
            namespace: "examples".to_owned(),
            name: example.name.to_owned(),
            version: Some("1.0.0".to_owned()),
        },
        input,
        business_key: None,
        business_parts: vec![],
        idempotency_key: Some(format!("demo-first-{}", example.name)),
        traceparent: None,
        tracestate: None,
        correlation_id: None,
        id: None,
    })
}

/// The workers that the examples call. None of them reaches outside.
pub(crate) fn workers() -> Vec<Declaration> {
    vec![
        Declaration::new("echo", from_fn(|_, input| Outcome::Done(input))),
        Declaration::new("noop", from_fn(|_, _| Outcome::Done(Data::NULL))),
        Declaration::new("charge-payment", from_fn(charge_payment)),
        Declaration::new("ship-order", from_fn(ship_order)),
        Declaration::new("send-invoice", from_fn(send_invoice)),
        Declaration::new("create-database", from_fn(create_database)),
        Declaration::new("create-bucket", from_fn(create_bucket)),
        Declaration::new("register-dns", from_fn(register_dns)),
        Declaration::new("flaky", from_fn(flaky)),
        receipts(),
        Declaration::new("broken", from_fn(|_, _| Outcome::retry("this worker never succeeds"))).retry(
            RetryPolicy {
                attempts_max: 3,
                base: Span::from_millis(50),
                factor: 2.0,
                cap: Span::from_millis(500),
            },
        ),
    ]
}

/// Handles events, as a sample of a worker that a product adds: the events it consumes, what it produces, and for which key
/// once.
fn receipts() -> Declaration {
    let handle = |delivery: &Delivery| {
        let paid = delivery.data().to_json();
        match (paid["order"].as_str(), paid["cents"].as_i64()) {
            (Some(order), Some(cents)) => {
                let text = format!("received {}.{:02} for {order}", cents / 100, cents % 100);
                let receipt = json!({ "order": order, "text": text });
                Handled::emit([Emit::new("demo.receipt.made", Data::from_json(receipt)).subject(order)])
            }
            _ => Handled::fail(Class::Validation, "a payment has an order and cents"),
        }
    };
    Declaration::on("receipts", ["demo.order.paid"], each(handle))
        .key_by("data.order")
        .terminal(Terminal { alert: true, ..Terminal::default() })
        .sample(Data::from_json(
            json!({ "type": "demo.order.paid", "subject": "o-1", "data": { "order": "o-1", "cents": 4205 } }),
        ))
}

fn done(value: Value) -> Outcome {
    Outcome::Done(Data::from_json(value))
}

/// A name for an outside effect: the same on every attempt, because the key is.
fn name(lead: &str, context: &Context) -> String {
    let tail: String = context.key.chars().filter(char::is_ascii_alphanumeric).collect();
    format!("{lead}-{}", &tail[tail.len().saturating_sub(12)..])
}

fn charge_payment(context: &Context, input: Data) -> Outcome {
    let input = input.to_json();
    match input["amount"].as_f64() {
        Some(amount) if amount > 0.0 => done(json!({
            "paymentId": name("pay", context), "orderId": input["orderId"], "amount": input["amount"], "state": "charged",
        })),
        _ => Outcome::fail(Class::Validation, "the amount must be a number above zero"),
    }
}

fn ship_order(context: &Context, input: Data) -> Outcome {
    let input = input.to_json();
    match input["lines"].as_array() {
        Some(lines) if !lines.is_empty() => done(json!({
            "shipmentId": name("ship", context), "orderId": input["orderId"], "parcels": lines.len(), "state": "handed-over",
        })),
        _ => Outcome::fail(Class::Validation, "there is nothing to ship"),
    }
}

fn send_invoice(context: &Context, input: Data) -> Outcome {
    let input = input.to_json();
    match input["to"].as_str() {
        Some(to) if to.contains('@') => {
            done(json!({ "messageId": name("mail", context), "to": to, "state": "sent" }))
        }
        _ => Outcome::fail(Class::Validation, "the address has no @"),
    }
}

fn create_database(context: &Context, input: Data) -> Outcome {
    let input = input.to_json();
    let host = format!("{}.{}.db.example.com", name("db", context), text(&input, "region"));
    done(json!({ "name": input["name"], "host": host, "state": "ready" }))
}

fn create_bucket(context: &Context, input: Data) -> Outcome {
    let input = input.to_json();
    let address = format!("https://{}.storage.example.com", name(text(&input, "name"), context));
    done(json!({ "name": input["name"], "address": address, "state": "ready" }))
}

fn register_dns(_: &Context, input: Data) -> Outcome {
    done(json!({ "host": input.to_json()["host"], "state": "requested" }))
}

/// Fails on the first two attempts.
fn flaky(context: &Context, input: Data) -> Outcome {
    match context.attempt {
        1 | 2 => Outcome::retry(format!("attempt {} fails on purpose", context.attempt)),
        attempt => done(json!({ "state": "archived", "attempts": attempt, "of": input.to_json() })),
    }
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or("unnamed")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every worker that an example calls is there; those of the engine itself are not ours.
    #[test]
    fn the_examples_find_their_workers() {
        let known: Vec<String> = workers().into_iter().map(|worker| worker.name).collect();
        for example in EXAMPLES {
            let calls = example.document.lines().filter_map(|line| line.trim().strip_prefix("call: "));
            for call in calls {
                let name = call.split(':').next().unwrap();
                assert!(
                    name == "human-task" || known.iter().any(|known| known == name),
                    "{}: {call}",
                    example.name
                );
            }
        }
    }

    #[test]
    fn inputs_are_json() {
        EXAMPLES.iter().for_each(|example| drop(first(example).unwrap()));
    }

    #[tokio::test(start_paused = true)]
    async fn every_worker_that_handles_events_conforms() {
        let handlers: Vec<_> = super::workers().into_iter().filter(|worker| worker.on.is_some()).collect();
        assert!(!handlers.is_empty());
        for worker in handlers {
            trial::check(&worker).await;
        }
    }
}
