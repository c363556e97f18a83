//! Lends. Private servers for tests and benchmarks (PostgreSQL, PgBouncer, Redis, NATS, a mock of Kafka), gone when their borrower is.
//!
//! The way in: [`database`] and [`broker`] are what a test asks for; [`Server::start`] is what `cargo xtask` asks for. Tests that are
//! started by `cargo xtask test` share one server through [`VARIABLE`]; a test binary that is started alone starts a
//! server of its own. `crash` harms a server of one's own, `tool` finds what harms
//! other processes. Never part of the product: only tests and `xtask` depend on this crate.

mod broker;
mod crash;
mod kafka;
mod pooler;
mod server;
mod template;
mod tool;

pub use broker::{Broker, Kind, Tls};
pub use kafka::install_kafka;
pub use pooler::{Pooler, program as pooler_program};
pub use server::{Database, STANDBY, Secure, Server, programs};
use std::sync::OnceLock;
pub use tool::{faketime, strace};

/// Where a server that is already there is found: `postgres://user@host:port`, whose user may make databases.
pub const VARIABLE: &str = "WINDLASS_TEST_POSTGRES";

/// A fresh, empty database. `None`, said loudly, only if there is no PostgreSQL on this machine; whoever set
/// [`VARIABLE`] gets a database or a panic.
pub fn database() -> Option<Database> {
    server().map(|server| server.database().expect("a server that is there makes databases"))
}

/// A fresh database that is a copy of `template`, see [`Server::copy_of`].
pub fn copy_of(template: &str, make: impl FnOnce(&Database)) -> Option<Database> {
    server().map(|server| server.copy_of(template, make).expect("a server that is there makes databases"))
}

/// A transaction pooler before the same server. `None`, said loudly, without PostgreSQL or PgBouncer on this machine.
pub fn pooler() -> Option<&'static Pooler> {
    static POOLER: OnceLock<Option<Pooler>> = OnceLock::new();
    let server = server()?;
    let start = || {
        let roles = [server::OWNER, server::APPLICATION];
        Pooler::start(server.port(), &roles).inspect_err(skip).ok()
    };
    POOLER.get_or_init(start).as_ref()
}

/// A server of its own. `None`, said loudly, only if its program is not on this machine and nobody promised that it would be.
pub fn broker(kind: Kind) -> Option<Broker> {
    broker_with(kind, None)
}

/// The same, with TLS.
pub fn broker_over_tls(kind: Kind, tls: Tls) -> Option<Broker> {
    broker_with(kind, Some(tls))
}

fn broker_with(kind: Kind, tls: Option<Tls>) -> Option<Broker> {
    match Broker::start(kind, tls) {
        Ok(broker) => Some(broker),
        // Nobody promises Kafka: it comes from a registry that a machine may not reach.
        Err(error)
            if kind.program().is_none() && (kind == Kind::Kafka || std::env::var_os(VARIABLE).is_none()) =>
        {
            skip(&error);
            None
        }
        Err(error) => panic!("{} does not start: {error:#}", kind.name()),
    }
}

fn server() -> Option<&'static Server> {
    static SERVER: OnceLock<Option<Server>> = OnceLock::new();
    let server = SERVER.get_or_init(|| match std::env::var(VARIABLE) {
        Ok(url) => Some(Server::at(&url).expect("WINDLASS_TEST_POSTGRES names a server")),
        Err(_) => match Server::start(server::Durability::None) {
            Ok(server) => Some(server),
            Err(error) => {
                skip(&error);
                None
            }
        },
    });
    server.as_ref()
}

#[allow(clippy::print_stderr, reason = "whoever reads the output of a test must see what it left out")]
fn skip(error: &anyhow::Error) {
    eprintln!(
        "SKIPPED: this test needs a server of its own ({error:#}); `cargo xtask test` installs it and runs it"
    );
}

pub use server::Durability;
