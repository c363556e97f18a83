//! Carries. Events to and from servers that pass them on, and hints between nodes.
//!
//! The way in: [`Carrier`] is the port of events that go out, [`Outlet`] what an operator says of one, over NATS JetStream,
//! Redis streams and the protocol of Kafka; [`Source`] and [`Intake`] are the ports of what comes in. [`Address`] is where hints go, read from a URL; [`Address::open`] is the port `store::Hints` over it.
//! Nothing here is needed for correctness: what a server has not confirmed stays in the store.

mod address;
mod carrier;
mod intake;
mod jetstream;
mod kafka;
mod naming;
mod nats;
mod outlet;
mod redis;
mod server;
mod streams;

pub use address::Address;
pub use carrier::{CARRY_MAX, Carried, Carrier, Parcel};
pub use intake::{Channel, Incoming, Inlet, Intake, Source, Taken, UNDER_WAY_MAX};
pub use naming::{ACCESS, Template};
pub use outlet::{Intakes, Outlet};
pub use server::{Kind, Server};
