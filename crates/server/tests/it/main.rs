//! The server as its clients see it: the router called in process, and real sockets where the wire matters.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod access;
mod audit;
mod auth;
mod batches;
mod children;
mod console;
mod definitions;
mod error_groups;
mod errors;
mod events;
mod feed;
mod graphs;
mod harness;
mod instances;
mod isolation;
mod limits;
mod pages;
mod poison;
mod records;
mod secrets;
mod session;
mod signals;
mod sockets;
mod stream;
mod tasks;
mod tenants;
mod versions;
mod workers;

/// Every file of this folder is a module of this binary: a forgotten one would never be compiled.
#[test]
fn no_file_is_forgotten() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it");
    let this = include_str!("main.rs");
    for file in std::fs::read_dir(folder).unwrap() {
        let name = file.unwrap().file_name().into_string().unwrap();
        let Some(module) = name.strip_suffix(".rs").filter(|module| *module != "main") else { continue };
        assert!(this.contains(&format!("mod {module};")), "{name} is not in main.rs");
    }
}
