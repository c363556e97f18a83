//! Lends. A private PostgreSQL server for tests and benchmarks, gone when its borrower is.
//!
//! The way in: [`database`] is what a test asks for; [`Server::start`] is what `cargo xtask` asks for. Tests that are
//! started by `cargo xtask test` share one server through [`VARIABLE`]; a test binary that is started alone starts a
//! server of its own. Never part of the product: only tests and `xtask` depend on this crate.

mod pooler;
mod server;

pub use pooler::{Pooler, program as pooler_program};
pub use server::{Database, Secure, Server, programs};
use std::sync::OnceLock;

/// Where a server that is already there is found: `postgres://user@host:port`, whose user may make databases.
pub const VARIABLE: &str = "WINDLASS_TEST_POSTGRES";

/// A fresh, empty database. `None`, said loudly, only if there is no PostgreSQL on this machine; whoever set
/// [`VARIABLE`] gets a database or a panic.
pub fn database() -> Option<Database> {
    server().map(|server| server.database().expect("a server that is there makes databases"))
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
        "SKIPPED: this test needs PostgreSQL and PgBouncer ({error:#}); `cargo xtask test` installs it and runs it"
    );
}

pub use server::Durability;
