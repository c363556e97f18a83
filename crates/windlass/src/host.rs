//! What `up` and `serve` share: opening the store, starting a node, serving until told to stop.

use crate::{
    failure::{Exit, Failure},
    out,
};
use runtime::{
    Handle, Node, Parts,
    sandbox::{self, Sandbox},
    secrets::Keyring,
};
use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    sync::Arc,
};
use store::{Store, sqlite::Sqlite};
use tokio::{
    net::TcpListener,
    signal::unix::{Signal, SignalKind, signal},
};
use worker::Declaration;

/// The hidden command that makes this binary an evaluator process.
pub(crate) const SANDBOX_ARGUMENT: &str = "sandbox-evaluator";
/// The store's file inside a data folder.
pub(crate) const STORE_FILE: &str = "windlass.db";

/// The store's file in `folder`, which is made if it is not there.
pub(crate) fn store_file(folder: &Path) -> Result<PathBuf, Failure> {
    // What tenants store is nobody else's to read.
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(|error| {
        Failure::failed(format!("cannot make the data folder {}: {error}", folder.display()))
    })?;
    Ok(folder.join(STORE_FILE))
}

/// Opens the store; a file in use by another process is a conflict.
pub(crate) fn open(path: &Path) -> Result<Arc<dyn Store>, Failure> {
    let store = Sqlite::open(path).map_err(|error| match error {
        store::Error::InUse(text) => Failure::new(Exit::Conflict, text)
            .hint("one engine per data folder; name another one with --data"),
        error => Failure::failed(format!("cannot open {}", path.display())).detail(error.to_string()),
    })?;
    Ok(store.shared())
}

/// Starts a node that has the store to itself.
pub(crate) async fn start(
    store: Arc<dyn Store>,
    workers: Vec<Declaration>,
    options: runtime::Options,
    secrets: Keyring,
) -> Result<Node, Failure> {
    let evaluator = Arc::new(sandbox()?);
    let parts = Parts { workers, options, evaluator, secrets, sole: true, ..Parts::new(store) };
    Node::start(parts).await.map_err(|error| Failure::failed(format!("the engine cannot start: {error}")))
}

/// Evaluates in processes of this same binary. Its path is looked up once, before an upgrade can put another there.
fn sandbox() -> Result<Sandbox, Failure> {
    let program = std::env::current_exe()?;
    Ok(Sandbox::new(sandbox::Options::new(program, vec![SANDBOX_ARGUMENT.to_owned()])))
}

/// Listens; an address in use is a conflict.
pub(crate) async fn listen(address: SocketAddr) -> Result<(TcpListener, String), Failure> {
    let listener = TcpListener::bind(address).await.map_err(|error| {
        let exit = match error.kind() {
            std::io::ErrorKind::AddrInUse => Exit::Conflict,
            _ => Exit::Failed,
        };
        Failure::new(exit, format!("cannot listen on {address}: {error}"))
            .hint("choose another port, or 0 for any free one")
    })?;
    let url = url_of(listener.local_addr()?);
    Ok((listener, url))
}

/// An address that a client on this machine can use.
fn url_of(mut address: SocketAddr) -> String {
    if address.ip().is_unspecified() {
        address.set_ip(IpAddr::V4(Ipv4Addr::LOCALHOST));
    }
    format!("http://{address}")
}

/// The signals that ask a process to stop.
pub(crate) struct Stop {
    interrupt: Signal,
    terminate: Signal,
}

impl Stop {
    /// Listens from now on, so that a signal during the start is not lost.
    pub(crate) fn new() -> Result<Stop, Failure> {
        let listen = |kind| signal(kind).map_err(Failure::from);
        Ok(Stop { interrupt: listen(SignalKind::interrupt())?, terminate: listen(SignalKind::terminate())? })
    }

    async fn asked(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// Serves until a signal comes or the node must stop by itself, then stops without dropping what is in flight.
pub(crate) async fn serve(
    listener: TcpListener,
    node: Node,
    options: server::Options,
    mut stop: Stop,
) -> Result<(), Failure> {
    let handle: Handle = node.handle();
    let mut is_asked = false;
    let told = async {
        tokio::select! {
            () = stop.asked() => is_asked = true,
            () = node.fenced() => {}
        }
        node.leaving();
        if is_asked {
            out::note("stopping; once more to stop at once");
            tokio::spawn(async move {
                stop.asked().await;
                std::process::exit(Exit::Interrupted as i32);
            });
        }
    };
    let served = server::serve(listener, handle, options, told).await;
    let halted = node.halted();
    node.stop().await;
    served.map_err(|error| Failure::failed(format!("the server ended: {error}")))?;
    match halted {
        None if is_asked => Ok(()),
        None => Err(Failure::failed("the engine stopped by itself")),
        Some(why) => Err(Failure::failed(format!("{why}; this process stops"))),
    }
}
