//! A PostgreSQL server and a pooler for the tests: installed if they are missing, started in a temporary folder, stopped at the end.

use anyhow::{Context, Result, bail, ensure};
use scratch::{Durability, Server};
use std::process::Command;

/// Starts a server that every test process of this phase shares. Tests that need it are never left out here.
pub(crate) fn start() -> Result<Server> {
    ensure()?;
    Server::start(Durability::None).context("the tests need a PostgreSQL server")
}

/// Installs what is missing.
pub(crate) fn ensure() -> Result<()> {
    match scratch::programs().is_none() || scratch::pooler_program().is_none() {
        true => install(),
        false => Ok(()),
    }
}

/// From the packages of Debian and its kin.
fn install() -> Result<()> {
    eprintln!("PostgreSQL or PgBouncer is not installed: installing them");
    let apt = |arguments: &[&str]| {
        let status =
            Command::new("apt-get").args(arguments).env("DEBIAN_FRONTEND", "noninteractive").status();
        status.is_ok_and(|status| status.success())
    };
    if !apt(&["install", "-y", "--no-install-recommends", "postgresql", "pgbouncer"]) {
        apt(&["update"]);
        ensure!(
            apt(&["install", "-y", "--no-install-recommends", "postgresql", "pgbouncer"]),
            "cannot install them; do it by hand: apt-get install postgresql pgbouncer"
        );
    }
    match scratch::programs() {
        Some(_) => Ok(()),
        None => bail!("PostgreSQL was installed, but its programs are in none of the known folders"),
    }
}
