//! Integration tests of the runtime: the real node over a real store, with time and faults in the test's hands.
//!
//! Each file is one topic; each test is one promise. `support` builds worlds and nodes, `tap` is a store that can be
//! counted and broken.

#![allow(
    clippy::unwrap_used,
    reason = "a failed unwrap is a failed test; the lint sees only the test functions themselves"
)]

mod stub;
mod support;
mod webhooks;
mod workers;

mod atomic;
mod audit;
mod authentication;
mod batches;
mod breakers;
mod buses;
mod calls;
mod children;
mod collections;
mod columns;
mod conforms;
mod dead_letters;
mod deliveries;
mod dev_clock;
mod egress;
mod enqueue;
mod envelope;
mod event_types;
mod events;
mod explain;
mod fanout;
mod flush;
mod hints;
mod http;
mod kept;
mod language;
mod loops;
mod memory;
mod newer;
mod nodes;
mod openapi;
mod orders;
mod outages;
mod outbox;
mod poison;
mod postgres;
mod records;
mod restart;
mod retention;
mod runs;
mod saga;
mod schedules;
mod secrets;
mod signals;
mod silence;
mod snapshot;
mod spans;
mod starts;
mod stop;
mod storm;
mod tenants;
mod terms;
mod timers;
mod walk;
