//! Servers and tools for the tests: installed if they are missing; PostgreSQL is started in a temporary folder and stopped at the
//! end, the others are started by the tests themselves.

use anyhow::{Context, Result, ensure};
use scratch::{Durability, Kind, Server};
use std::{
    path::Path,
    process::{Command, Stdio},
};

/// Starts a server that every test process of this phase shares. Tests that need one are never left out here.
pub(crate) fn start() -> Result<Server> {
    ensure_installed()?;
    Server::start(Durability::None).context("the tests need a PostgreSQL server")
}

/// Installs what is missing.
pub(crate) fn ensure_installed() -> Result<()> {
    install(&missing())?;
    let left = missing();
    ensure!(left.is_empty(), "installed, but their programs are in none of the known folders: {left:?}");
    if let Err(error) = scratch::install_kafka() {
        eprintln!("SKIPPED: tests over Kafka, because its server cannot be had: {error:#}");
    }
    Ok(())
}

/// Installs the packages of programs that do not start.
pub(crate) fn ensure_programs(wanted: &[(&str, &str)]) -> Result<()> {
    let starts = |program: &str| {
        let status =
            Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    };
    let missing: Vec<&str> =
        wanted.iter().filter(|(program, _)| !starts(program)).map(|(_, package)| *package).collect();
    install(&missing)
}

/// The packages whose programs are not there.
fn missing() -> Vec<&'static str> {
    let mut packages = Vec::new();
    if scratch::programs().is_none() {
        packages.push("postgresql");
    }
    if scratch::pooler_program().is_none() {
        packages.push("pgbouncer");
    }
    if scratch::strace().is_none() {
        packages.push("strace");
    }
    if scratch::faketime().is_none() {
        packages.push("libfaketime");
    }
    packages.extend(Kind::PACKAGED.into_iter().filter(|kind| kind.program().is_none()).map(Kind::name));
    packages
}

/// From the packages of Debian and its kin.
fn install(packages: &[&str]) -> Result<()> {
    if packages.is_empty() {
        return Ok(());
    }
    eprintln!("not installed: {}; installing", packages.join(", "));
    keep_from_starting(packages);
    let apt = |arguments: &[&str]| {
        let status =
            Command::new("apt-get").args(arguments).env("DEBIAN_FRONTEND", "noninteractive").status();
        status.is_ok_and(|status| status.success())
    };
    let wanted = [&["install", "-y", "--no-install-recommends"], packages].concat();
    if !apt(&wanted) {
        apt(&["update"]);
        ensure!(apt(&wanted), "cannot install them; do it by hand: apt-get install {}", packages.join(" "));
    }
    Ok(())
}

/// The packages bring services that systemd would start; nobody asked for those. What is masked can be started again
/// after `systemctl unmask`.
fn keep_from_starting(packages: &[&str]) {
    if Path::new("/run/systemd/system").exists() {
        let services = packages.iter().map(|package| format!("{package}.service"));
        let mask = Command::new("systemctl").arg("mask").args(services).stderr(Stdio::null()).status();
        if !mask.is_ok_and(|status| status.success()) {
            eprintln!("systemd may start services of these packages: {}", packages.join(", "));
        }
    }
}
