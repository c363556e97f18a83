//! What `up` and `serve` share: opening the store, starting a node, serving until told to stop.

use crate::{
    config::Way,
    failure::{Exit, Failure},
    out,
};
use machine::time::Span;
use runtime::{
    Halt, Handle, Node, Parts,
    clock::{Clock, SharedClock, SystemClock},
    sandbox::{self, Sandbox},
    secrets::Keyring,
    spans::{NoSpans, Spans},
};
use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    sync::Arc,
};
use store::{
    Hints, NoHints, Store,
    postgres::{self, Postgres},
    sqlite::Sqlite,
};
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
};
use tokio_util::sync::CancellationToken;
use worker::Declaration;

/// The hidden command that makes this binary an evaluator process.
pub(crate) const SANDBOX_ARGUMENT: &str = "sandbox-evaluator";
/// Between two tries to join the store again.
const JOIN_PAUSE: Span = Span::from_secs(1);
/// The store's file inside a data folder.
pub(crate) const STORE_FILE: &str = "windlass.db";

/// Makes the data folder if it is not there.
pub(crate) fn make_folder(folder: &Path) -> Result<(), Failure> {
    // What tenants store is nobody else's to read.
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(|error| {
        Failure::failed(format!("cannot make the data folder {}: {error}", folder.display()))
    })
}

/// The store's file in `folder`, which is made if it is not there.
pub(crate) fn store_file(folder: &Path) -> Result<PathBuf, Failure> {
    make_folder(folder)?;
    Ok(folder.join(STORE_FILE))
}

/// Opens the store; a file in use by another process is a conflict.
fn open(path: &Path) -> Result<Arc<dyn Store>, Failure> {
    let store = Sqlite::open(path).map_err(|error| match error {
        store::Error::InUse(text) => Failure::new(Exit::Conflict, text)
            .hint("one engine per data folder; name another one with --data"),
        error => Failure::failed(format!("cannot open {}", path.display())).detail(error.to_string()),
    })?;
    Ok(store.shared())
}

/// A store, how nodes on it wake each other, and the clock that they go by.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) store: Arc<dyn Store>,
    hints: Arc<dyn Hints>,
    clock: Arc<dyn Clock>,
    /// How many batches of commits the store is given at once, if it can do more than one.
    batches_max: Option<usize>,
}

impl Shared {
    /// A store that one process has to itself.
    pub(crate) fn with_nobody(store: Arc<dyn Store>) -> Shared {
        Shared { store, hints: Arc::new(NoHints), clock: Arc::new(SystemClock), batches_max: None }
    }
}

/// Where an engine keeps what it knows.
pub(crate) enum Place {
    /// A file that one process at a time has open.
    File(PathBuf),
    /// A PostgreSQL database that many nodes share.
    Database(String),
}

impl Place {
    /// The database at `url`, or the file in `folder` if there is no URL.
    pub(crate) fn of(url: &str, folder: &Path) -> Result<Place, Failure> {
        match url {
            "" => Ok(Place::File(store_file(folder)?)),
            url if url.starts_with("postgres://") || url.starts_with("postgresql://") => {
                Ok(Place::Database(url.to_owned()))
            }
            _ => Err(Failure::usage("the store must be a URL such as postgres://user@host/database")),
        }
    }

    /// The store and what belongs to it; `options` are for a database.
    pub(crate) async fn open(&self, options: postgres::Options, way: &Way) -> Result<Shared, Failure> {
        match self {
            Place::File(path) => Ok(Shared::with_nobody(open(path)?)),
            Place::Database(url) => {
                let unusable = |error: store::Error| {
                    Failure::failed(format!("cannot use {self}")).detail(error.to_string())
                };
                let batches_max = Some(options.batches_max());
                let store = Postgres::open_with(url, options).await.map_err(unusable)?;
                let clock = Arc::new(clock_of(&store).await.map_err(unusable)?);
                let hints: Arc<dyn Hints> = match way {
                    Way::Nothing => Arc::new(NoHints),
                    Way::Database => Arc::new(store.hints()),
                    Way::Server(address) => Arc::new(address.open().map_err(Failure::usage)?),
                };
                Ok(Shared { store: Arc::new(store), hints, clock, batches_max })
            }
        }
    }

    /// Makes the tables of a database, or those that are missing.
    pub(crate) async fn migrate(&self, application: Option<&str>) -> Result<Vec<&'static str>, Failure> {
        let Place::Database(url) = self else { return Ok(vec![]) };
        postgres::migrate(url, application)
            .await
            .map_err(|error| Failure::failed(format!("cannot migrate {self}")).detail(error.to_string()))
    }

    /// True if no other process can be using it.
    pub(crate) fn is_sole(&self) -> bool {
        matches!(self, Place::File(_))
    }
}

impl std::fmt::Display for Place {
    /// A URL without its password and options.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Place::File(path) => write!(f, "{}", path.display()),
            Place::Database(url) => {
                let plain = url.split('?').next().unwrap_or_default();
                let (scheme, rest) = plain.split_once("://").unwrap_or(("postgres", plain));
                let rest = match rest.rsplit_once('@') {
                    Some((user, place)) => {
                        format!("{}@{place}", user.split(':').next().unwrap_or_default())
                    }
                    None => rest.to_owned(),
                };
                write!(f, "{scheme}://{rest}")
            }
        }
    }
}

/// The database's clock. The first question has to connect and to be prepared; the second is answered at once.
async fn clock_of(store: &Postgres) -> Result<SharedClock, store::Error> {
    let asked_at = SystemClock.steady_micros();
    let clock = SharedClock::new(store.time().await?, asked_at);
    let asked_at = clock.steady_micros();
    clock.heard(store.time().await?, asked_at);
    Ok(clock)
}

/// What nodes of this process are made of. A node that another took over is gone for good; the process goes on with a new
/// one.
pub(crate) struct Recipe {
    shared: Shared,
    /// No other process can be using the store.
    sole: bool,
    workers: Vec<Declaration>,
    options: runtime::Options,
    secrets: Keyring,
    evaluator: Arc<Sandbox>,
    spans: Arc<dyn Spans>,
    buses: Vec<runtime::buses::Bus>,
}

impl Recipe {
    pub(crate) fn new(
        shared: Shared,
        sole: bool,
        workers: Vec<Declaration>,
        mut options: runtime::Options,
        secrets: Keyring,
    ) -> Result<Recipe, Failure> {
        // A server makes several batches durable at once; a file does not.
        if let Some(batches_max) = shared.batches_max {
            options.batches_in_flight_max = batches_max;
        }
        let (evaluator, spans) = (Arc::new(sandbox()?), Arc::new(NoSpans));
        Ok(Recipe { shared, sole, workers, options, secrets, evaluator, spans, buses: vec![] })
    }

    /// Who collects spans of these nodes.
    pub(crate) fn spans(mut self, spans: Arc<dyn Spans>) -> Recipe {
        self.spans = spans;
        self
    }

    /// What is emitted goes out over these.
    pub(crate) fn carrying(self, buses: Vec<runtime::buses::Bus>) -> Recipe {
        Recipe { buses, ..self }
    }

    /// Starts a node.
    pub(crate) async fn start(&self) -> Result<Node, Failure> {
        let started = Node::start(self.parts()).await;
        started.map_err(|error| Failure::failed(format!("the engine cannot start: {error}")))
    }

    /// Starts a node in place of one that was taken over, as soon as the store lets it join.
    async fn start_again(&self) -> Result<Node, Failure> {
        loop {
            match Node::start(self.parts()).await {
                Ok(node) => return Ok(node),
                Err(store::Error::Corrupt(why) | store::Error::Misconfigured(why)) => {
                    return Err(Failure::failed(format!("the engine cannot start again: {why}")));
                }
                Err(error) => tracing::warn!(%error, "joining again failed; it is tried again"),
            }
            let clock = &self.shared.clock;
            clock.sleep_until(clock.now().after(JOIN_PAUSE)).await;
        }
    }

    fn parts(&self) -> Parts {
        let Shared { store, hints, clock, .. } = self.shared.clone();
        Parts {
            workers: self.workers.clone(),
            options: self.options.clone(),
            evaluator: self.evaluator.clone(),
            secrets: self.secrets.clone(),
            spans: self.spans.clone(),
            buses: self.buses.clone(),
            sole: self.sole,
            hints,
            clock,
            ..Parts::new(store)
        }
    }
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

/// The signals that ask a process to stop. The second one stops it at once.
#[derive(Clone)]
pub(crate) struct Stop {
    asked: CancellationToken,
}

impl Stop {
    /// Listens from now on, so that a signal during the start is not lost.
    pub(crate) fn new() -> Result<Stop, Failure> {
        let listen = |kind| signal(kind).map_err(Failure::from);
        let (mut interrupt, mut terminate) =
            (listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?);
        let stop = Stop { asked: CancellationToken::new() };
        let asked = stop.asked.clone();
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                }
                if asked.is_cancelled() {
                    std::process::exit(Exit::Interrupted as i32);
                }
                asked.cancel();
            }
        });
        Ok(stop)
    }

    async fn asked(&self) {
        self.asked.cancelled().await;
    }
}

/// Serves until a signal comes or the store cannot be trusted any more, then stops without dropping what is in flight. When
/// another node takes this one over, which happens to one that was cut off from the store or stood still for too long,
/// a new one takes its place.
pub(crate) async fn serve(
    listener: TcpListener,
    recipe: Recipe,
    mut node: Node,
    mut options: server::Options,
    stop: Stop,
) -> Result<(), Failure> {
    // Keys expire by the clock that everything else goes by.
    options.clock = recipe.shared.clock.clone();
    let listener = listener.into_std()?;
    loop {
        // Connections that come while there is no node wait in the socket.
        let accepting = TcpListener::from_std(listener.try_clone()?)?;
        match serve_one(accepting, node, options.clone(), &stop).await? {
            Ended::Asked => return Ok(()),
            Ended::TakenOver => {}
        }
        tracing::warn!("this process goes on as a new node");
        node = tokio::select! {
            node = recipe.start_again() => node?,
            () = stop.asked() => return Ok(()),
        };
    }
}

/// Why a node of this process serves no more.
enum Ended {
    Asked,
    TakenOver,
}

async fn serve_one(
    listener: TcpListener,
    node: Node,
    options: server::Options,
    stop: &Stop,
) -> Result<Ended, Failure> {
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
        }
    };
    let served = server::serve(listener, handle, options, told).await;
    let halted = node.halted();
    node.stop().await;
    served.map_err(|error| Failure::failed(format!("the server ended: {error}")))?;
    match halted {
        None if is_asked => Ok(Ended::Asked),
        None => Err(Failure::failed("the engine stopped by itself")),
        Some(Halt::TakenOver) => Ok(Ended::TakenOver),
        Some(why) => Err(Failure::failed(format!("{why}; this process stops"))),
    }
}

/// The URL with its password blotted out.
pub(crate) fn masked(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let Some((user, place)) = rest[..end].rsplit_once('@') else { return url.to_owned() };
    let Some((user, _)) = user.split_once(':') else { return url.to_owned() };
    format!("{scheme}://{user}:***@{place}{}", &rest[end..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_blotted_out_and_the_rest_stays() {
        let kept = |url: &str| assert_eq!(masked(url), url);
        kept("");
        kept("postgres://db/w?pooled=true");
        kept("postgres://me@db:5432/w");
        assert_eq!(masked("postgres://me:s@cret@db:5/w?a=b"), "postgres://me:***@db:5/w?a=b");
    }

    #[test]
    fn a_password_is_never_shown() {
        let shown = |url: &str| Place::of(url, Path::new("")).unwrap().to_string();
        assert_eq!(shown("postgres://me:secret@db:5432/w?pooled=true"), "postgres://me@db:5432/w");
        assert_eq!(shown("postgresql://db/w"), "postgresql://db/w");
        assert!(Place::of("mysql://db", Path::new("")).is_err());
    }
}
