//! What harms the cluster: a seeded sequence of faults, each with its window in the journal, each healed at its end.
//!
//! Kinds come from a bag that is refilled when it is empty, and a run goes on until each of them has met something: a run
//! without one of them would prove nothing of it.

use crate::{
    clock::{now_us, sleep_ms},
    database,
    journal::Journal,
    node::{LEASE_SECONDS, Node},
    proxy::{Mode, Moment, Proxy},
    record::{Fault, Hints, Settings},
};
use anyhow::Result;
use rand::{Rng, SeedableRng, rngs::StdRng, seq::SliceRandom};
use std::{path::PathBuf, sync::Arc, time::Duration};
use tokio::sync::Mutex;

/// What there is to harm.
pub(crate) struct Cluster {
    pub(crate) nodes: Vec<Node>,
    pub(crate) proxies: Vec<Proxy>,
    /// Killed and started under the lock: only one fault at a time is about the server itself.
    pub(crate) server: Mutex<scratch::Server>,
    pub(crate) database: scratch::Database,
    pub(crate) psql: PathBuf,
    /// What carries hints, if it is not the database.
    pub(crate) broker: Option<Mutex<scratch::Broker>>,
}

/// How much longer than asked for faults may go on until every kind has met something.
const LONGER_US_MAX: i64 = 300_000_000;

/// How long a node may take to commit something before it is not killed at that.
const COMMIT_WAIT_MS: u64 = 5000;

/// What came of a fault.
struct Done {
    note: String,
    hit: bool,
}

impl Done {
    fn new(hit: bool, note: String) -> Done {
        Done { note, hit }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    KillNode,
    KillAtCommit,
    EndNode,
    PauseNode,
    KillDatabase,
    FlapDatabase,
    PauseDatabase,
    FewConnections,
    Reset,
    Stall,
    OneWay,
    Slow,
    SlowStart,
    Cut,
    LoseReply,
    LoseCommit,
    HoldSnapshot,
    LoseHints,
}

const KINDS: [Kind; 18] = [
    Kind::KillNode,
    Kind::KillAtCommit,
    Kind::EndNode,
    Kind::PauseNode,
    Kind::KillDatabase,
    Kind::FlapDatabase,
    Kind::PauseDatabase,
    Kind::FewConnections,
    Kind::Reset,
    Kind::Stall,
    Kind::OneWay,
    Kind::Slow,
    Kind::SlowStart,
    Kind::Cut,
    Kind::LoseReply,
    Kind::LoseCommit,
    Kind::HoldSnapshot,
    Kind::LoseHints,
];

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::KillNode => "kill node",
            Kind::KillAtCommit => "kill node at a COMMIT",
            Kind::EndNode => "end node",
            Kind::PauseNode => "pause node beyond its lease",
            Kind::KillDatabase => "kill database",
            Kind::FlapDatabase => "flap database",
            Kind::PauseDatabase => "pause database",
            Kind::FewConnections => "too few connections",
            Kind::Reset => "reset connections",
            Kind::Stall => "silent partition",
            Kind::OneWay => "partition one way",
            Kind::Slow => "slow database",
            Kind::SlowStart => "start with a slow database",
            Kind::Cut => "cut connections",
            Kind::LoseReply => "lose replies to COMMIT",
            Kind::LoseCommit => "lose COMMITs",
            Kind::HoldSnapshot => "hold a snapshot",
            Kind::LoseHints => "lose hints",
        }
    }

    /// A fault of the whole database; the others are about one node.
    fn is_of_all(self) -> bool {
        use Kind::{FewConnections, FlapDatabase, HoldSnapshot, KillDatabase, LoseHints, PauseDatabase};
        let is_harmed = matches!(self, KillDatabase | FlapDatabase | PauseDatabase | FewConnections);
        is_harmed || matches!(self, HoldSnapshot | LoseHints)
    }
}

/// The kinds that a run with these settings has.
fn kinds(settings: &Settings) -> Vec<Kind> {
    if settings.lying {
        // Only the end of the server shows what it had not written.
        return vec![Kind::KillDatabase, Kind::FlapDatabase];
    }
    let is_there = |kind: &Kind| *kind != Kind::LoseHints || settings.hints != Hints::Off;
    KINDS.into_iter().filter(is_there).collect()
}

/// Their names: a run that misses one of them proves nothing of it.
pub(crate) fn names(settings: &Settings) -> Vec<&'static str> {
    kinds(settings).into_iter().map(Kind::name).collect()
}

/// Harms the cluster for as long as was asked for, and until every kind of fault has met something; then leaves it healed.
pub(crate) async fn harm(cluster: Arc<Cluster>, journal: Journal, settings: Settings) -> Result<()> {
    let mut rng = StdRng::seed_from_u64(!settings.seed);
    let mut missing = kinds(&settings);
    let mut bag: Vec<Kind> = Vec::new();
    let until_us = now_us() + i64::try_from(settings.seconds * 1_000_000)?;
    while now_us() < until_us || (!missing.is_empty() && now_us() < until_us + LONGER_US_MAX) {
        if now_us() >= until_us {
            // What has met something by now need not again.
            bag.retain(|kind| missing.contains(kind));
        }
        if bag.is_empty() {
            bag.extend(if now_us() < until_us { kinds(&settings) } else { missing.clone() });
            bag.shuffle(&mut rng);
        }
        let kind = bag.pop().unwrap_or(Kind::KillNode);
        let second = bag.last().copied().filter(|_| rng.random_ratio(1, 4));
        let (first_rng, second_rng) = (fork(&mut rng), fork(&mut rng));
        let first = inflict(&cluster, &journal, kind, first_rng);
        let (one, two) = match second {
            // Two at once, but never two that need the server itself.
            Some(other) if !(kind.is_of_all() && other.is_of_all()) => {
                bag.pop();
                let (one, two) = tokio::join!(first, inflict(&cluster, &journal, other, second_rng));
                (one?, two?.then_some(other))
            }
            _ => (first.await?, None),
        };
        missing.retain(|missed| !(one && *missed == kind) && Some(*missed) != two);
        sleep_ms(rng.random_range(300..1500)).await;
    }
    heal(&cluster);
    Ok(())
}

fn fork(rng: &mut StdRng) -> StdRng {
    StdRng::seed_from_u64(rng.random())
}

/// Everything passes and everybody goes on.
pub(crate) fn heal(cluster: &Cluster) {
    for proxy in &cluster.proxies {
        proxy.set(Mode::Pass);
    }
    for node in &cluster.nodes {
        node.go_on();
    }
}

/// One fault from its beginning to its end, with a line that says when that was. False if there was nothing to harm.
async fn inflict(cluster: &Cluster, journal: &Journal, kind: Kind, mut rng: StdRng) -> Result<bool> {
    let at = rng.random_range(0..cluster.nodes.len());
    let t0 = now_us();
    let Done { note, hit } = apply(cluster, kind, at, &mut rng).await?;
    let node = (!kind.is_of_all()).then_some(at);
    journal.append(&Fault { kind: kind.name().to_owned(), node, t0, t1: now_us(), note, hit }).await?;
    Ok(hit)
}

async fn apply(cluster: &Cluster, kind: Kind, at: usize, rng: &mut StdRng) -> Result<Done> {
    let (node, proxy) = (&cluster.nodes[at], &cluster.proxies[at]);
    match kind {
        Kind::KillNode | Kind::EndNode | Kind::PauseNode => Ok(harm_process(node, kind, rng).await),
        Kind::SlowStart => Ok(start_slowly(node, proxy, rng).await),
        Kind::KillAtCommit => Ok(kill_at_commit(node, proxy, rng).await),
        Kind::Reset
        | Kind::Stall
        | Kind::OneWay
        | Kind::Slow
        | Kind::Cut
        | Kind::LoseReply
        | Kind::LoseCommit => Ok(harm_connections(proxy, kind, rng).await),
        _ => harm_database(cluster, kind, rng).await,
    }
}

async fn harm_process(node: &Node, kind: Kind, rng: &mut StdRng) -> Done {
    if kind == Kind::KillNode {
        let down_ms = rng.random_range(0..2000);
        let hit = node.kill(down_ms);
        // Until it is back, about.
        sleep_ms(down_ms + 1000).await;
        return Done::new(hit, format!("down for {down_ms} ms"));
    }
    if kind == Kind::EndNode {
        let hit = node.end();
        sleep_ms(rng.random_range(2000..4000)).await;
        return Done::new(hit, "as kill does: it may finish what it does".to_owned());
    }
    let length_ms = 1000 * LEASE_SECONDS * 2 + rng.random_range(500..2000);
    let hit = node.stop();
    sleep_ms(length_ms).await;
    node.go_on();
    Done::new(hit, format!("for {length_ms} ms"))
}

/// What a node learns at its start, such as the time, it learns late.
async fn start_slowly(node: &Node, proxy: &Proxy, rng: &mut StdRng) -> Done {
    let late_ms = rng.random_range(200..1000);
    proxy.set(Mode::Slow(Duration::from_millis(late_ms)));
    let hit = node.kill(0);
    // Connecting, looking and joining are some ten round trips; then it works for a while.
    sleep_ms(12 * late_ms + 1000).await;
    proxy.set(Mode::Pass);
    Done::new(hit, format!("answers late by {late_ms} ms"))
}

/// The process ends while a COMMIT of its is on the way, or when the answer has come and it does not know yet.
async fn kill_at_commit(node: &Node, proxy: &Proxy, rng: &mut StdRng) -> Done {
    let moment = if rng.random_bool(0.5) { Moment::Asked } else { Moment::Answered };
    let down_ms = rng.random_range(0..1000);
    proxy.set(Mode::HoldCommit(moment));
    let hit = tokio::select! {
        () = proxy.held() => node.kill(down_ms),
        () = sleep_ms(COMMIT_WAIT_MS) => false,
    };
    proxy.set(Mode::Pass);
    sleep_ms(down_ms + 1000).await;
    Done::new(hit, format!("{moment:?}, down for {down_ms} ms"))
}

async fn harm_connections(proxy: &Proxy, kind: Kind, rng: &mut StdRng) -> Done {
    if kind == Kind::Reset {
        let times = rng.random_range(1..=4);
        let mut met = 0;
        for _ in 0..times {
            met += proxy.open();
            proxy.reset();
            sleep_ms(rng.random_range(50..800)).await;
        }
        return Done::new(met > 0, format!("{times} times, {met} connections"));
    }
    let (mode, length_ms) = mode_of(kind, rng);
    let (open, cuts) = (proxy.open(), proxy.cuts());
    proxy.set(mode);
    sleep_ms(length_ms).await;
    proxy.set(Mode::Pass);
    let cuts = proxy.cuts() - cuts;
    let hit = if matches!(kind, Kind::Stall | Kind::OneWay | Kind::Slow) { open > 0 } else { cuts > 0 };
    Done::new(hit, format!("{mode:?} for {length_ms} ms, {open} connections at first, {cuts} cut"))
}

async fn harm_database(cluster: &Cluster, kind: Kind, rng: &mut StdRng) -> Result<Done> {
    match kind {
        Kind::KillDatabase => restart(cluster, rng.random_range(0..2000)).await,
        Kind::FlapDatabase => {
            let times = rng.random_range(2..=3);
            for _ in 0..times {
                restart(cluster, rng.random_range(0..500)).await?;
                sleep_ms(rng.random_range(200..2000)).await;
            }
            Ok(Done::new(true, format!("{times} times")))
        }
        Kind::PauseDatabase => {
            let length_ms = rng.random_range(1000..1000 * LEASE_SECONDS * 2);
            let mut server = cluster.server.lock().await;
            server.pause()?;
            sleep_ms(length_ms).await;
            server.go_on()?;
            Ok(Done::new(true, format!("for {length_ms} ms")))
        }
        Kind::FewConnections => {
            let length_ms = rng.random_range(2000..6000);
            let most = rng.random_range(1..12);
            database::limit_connections(&cluster.database, most)?;
            // Those that there are stay; only new ones are refused.
            let open: u64 = cluster.proxies.iter().map(Proxy::open).sum();
            cluster.proxies.iter().for_each(Proxy::reset);
            sleep_ms(length_ms).await;
            database::limit_connections(&cluster.database, -1)?;
            Ok(Done::new(open > 0, format!("{most} in all instead of {open} for {length_ms} ms")))
        }
        Kind::HoldSnapshot => {
            let length = Duration::from_millis(rng.random_range(3000..8000));
            let hit = database::hold_snapshot(&cluster.psql, &cluster.database.admin_url, length).await?;
            Ok(Done::new(hit, format!("for {length:?}")))
        }
        _ => lose_hints(cluster, rng).await,
    }
}

async fn lose_hints(cluster: &Cluster, rng: &mut StdRng) -> Result<Done> {
    if let Some(broker) = &cluster.broker {
        let down_ms = rng.random_range(1000..4000);
        let mut broker = broker.lock().await;
        broker.kill();
        sleep_ms(down_ms).await;
        tokio::task::block_in_place(|| broker.resume())?;
        return Ok(Done::new(true, format!("{} down for {down_ms} ms", broker.url())));
    }
    let mut ended = 0;
    for _ in 0..3 {
        // While another fault has the database down there is nothing to end.
        ended += database::end_hints(&cluster.database).unwrap_or(0);
        sleep_ms(rng.random_range(300..1000)).await;
    }
    Ok(Done::new(ended > 0, format!("{ended} connections ended")))
}

fn mode_of(kind: Kind, rng: &mut StdRng) -> (Mode, u64) {
    let length_ms = rng.random_range(2000..6000);
    match kind {
        // Sometimes shorter than the lease, sometimes longer.
        Kind::Stall => (Mode::Stall, rng.random_range(1000..1000 * LEASE_SECONDS * 3)),
        Kind::OneWay => (Mode::OneWay, rng.random_range(1000..1000 * LEASE_SECONDS * 3)),
        // Every commit takes long, or a renewal takes nearly as long as a lease.
        Kind::Slow => (Mode::Slow(Duration::from_millis([200, 2000][rng.random_range(0..2)])), length_ms),
        Kind::Cut => (Mode::CutAfter(rng.random_range(0..4000)), length_ms),
        Kind::LoseReply => (Mode::LoseReply { one_in: rng.random_range(2..12) }, length_ms),
        _ => (Mode::LoseCommit { one_in: rng.random_range(2..12) }, length_ms),
    }
}

/// Kills the server with all its children, and starts it again after so long.
async fn restart(cluster: &Cluster, down_ms: u64) -> Result<Done> {
    let mut server = cluster.server.lock().await;
    tokio::task::block_in_place(|| server.kill())?;
    sleep_ms(down_ms).await;
    tokio::task::block_in_place(|| server.start_again())?;
    Ok(Done::new(true, format!("down for {down_ms} ms and its recovery")))
}
