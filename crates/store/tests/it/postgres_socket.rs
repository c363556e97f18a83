//! A server that is silent must not be waited for as long as TCP would: what every connection of a store is set to (F8).
//!
//! The options are read from the sockets themselves, so that nothing between the URL and the kernel can lose them.

use crate::fixture::*;
use machine::Time;
use rustix::{
    fd::OwnedFd,
    net::{getpeername, sockopt},
    process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open},
};
use std::{net::SocketAddr, time::Duration};
use store::{
    Store,
    postgres::{Postgres, migrate},
};

/// Connections of this process to that port. `None`, said loudly, where a process may not look at itself.
#[allow(clippy::print_stderr, reason = "skipping must be seen")]
fn connections(port: u16) -> Option<Vec<OwnedFd>> {
    let own = pidfd_open(getpid(), PidfdFlags::empty()).ok();
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc/self/fd").unwrap().flatten() {
        let is_socket =
            std::fs::read_link(entry.path()).is_ok_and(|to| to.to_string_lossy().starts_with("socket:"));
        if !is_socket {
            continue;
        }
        let number = entry.file_name().to_string_lossy().parse().unwrap();
        let copied = own.as_ref().map(|own| pidfd_getfd(own, number, PidfdGetfdFlags::empty()));
        let Some(Ok(socket)) = copied else {
            eprintln!("SKIPPED postgres_socket: sockets cannot be looked at here: {copied:?}");
            return None;
        };
        let peer = getpeername(&socket).ok().flatten().and_then(|peer| SocketAddr::try_from(peer).ok());
        if peer.is_some_and(|peer| peer.port() == port) {
            found.push(socket);
        }
    }
    Some(found)
}

#[tokio::test]
async fn every_connection_gives_a_silent_server_up() {
    if scratch::programs().is_none() {
        drop(scratch::database());
        return;
    }
    // Whatever this process has open to its port is the store's.
    let server = scratch::Server::start(scratch::Durability::None).unwrap();
    let database = server.database().unwrap();
    migrate(&database.owner_url, Some(database.application)).await.unwrap();
    let store = Postgres::open(&database.url).await.unwrap();
    store.join(node(1), Time(0), LEASE_MS).await.unwrap();
    store.renew(node(1), Time(0), LEASE_MS).await.unwrap();
    store.next_due().await.unwrap();
    store.commit(node(1), vec![commit(vec![create(1)])]).await.unwrap();
    let Some(sockets) = connections(server.port()) else { return };
    assert!(sockets.len() >= 3, "one each to write, to read and to renew the lease");
    for socket in &sockets {
        assert_eq!(
            sockopt::tcp_user_timeout(socket).unwrap(),
            5_000,
            "milliseconds that data may be unacknowledged"
        );
        assert!(sockopt::socket_keepalive(socket).unwrap());
        let idle = sockopt::tcp_keepidle(socket).unwrap();
        let interval = sockopt::tcp_keepintvl(socket).unwrap();
        let count = sockopt::tcp_keepcnt(socket).unwrap();
        assert!(
            idle + interval * count <= Duration::from_secs(11),
            "{idle:?}, then {count} times {interval:?}"
        );
    }
}
