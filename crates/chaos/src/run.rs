//! One run: set up, harm, heal, drain, collect. [`run`] leaves a folder that holds all that the checker reads.

use crate::{
    client::{Ask, Client, Said},
    clock::{now_us, sleep_ms},
    collect, database,
    driver::{Driver, Tenant},
    feed,
    journal::{self, Journal},
    nemesis::{self, Cluster},
    node::{Node, Setup},
    program::{self, Program},
    proxy::Proxy,
    record::{self, Hints, Settings},
    sink::Sink,
    worker,
};
use anyhow::{Context, Result, bail, ensure};
use rand::{SeedableRng, rngs::StdRng};
use serde_json::{Value, json};
use std::{
    net::TcpListener,
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering},
};
use tokio::sync::Mutex;

const TENANTS: [&str; 2] = ["north", "south"];
/// Programs that clients start; children come on top.
const PROGRAMS: usize = 24;
/// How long everything may take to end after healing: leases, re-scans and the longest program, several times over.
const DRAIN_SECONDS: i64 = 90;
/// The same where the database has lost some of it for good.
const DRAIN_LYING_SECONDS: i64 = 15;

/// What is asked for, and where things are.
pub(crate) struct Plan {
    pub(crate) settings: Settings,
    pub(crate) clients: usize,
    pub(crate) windlass: PathBuf,
    pub(crate) other: Option<PathBuf>,
    pub(crate) folder: PathBuf,
}

/// What did not come to an end in time, if anything.
pub(crate) struct Drained {
    pub(crate) stuck: Vec<String>,
}

pub(crate) async fn run(plan: &Plan) -> Result<Drained> {
    let folder = &plan.folder;
    let lines = [record::EXPECTED, record::OPS, record::FAULTS, record::SINK, record::FEED];
    for name in lines.into_iter().chain([record::PUBLISHED, record::HANDLED, record::EMITTED]) {
        std::fs::write(folder.join(name), "")?;
    }
    std::fs::write(folder.join(record::SETTINGS), serde_json::to_vec(&plan.settings)?)?;
    let sink = Sink::start(&folder.join(record::SINK)).await?;
    let setup = Setup { windlass: plan.windlass.clone(), other: plan.other.clone(), folder: folder.clone() };
    let broker = match plan.settings.hints {
        Hints::Redis => Some(scratch::broker(scratch::Kind::Redis).context("Redis is not installed")?),
        Hints::Postgres | Hints::Off => None,
    };
    setup.write_config(plan.settings.hints, broker.as_ref())?;
    let (cluster, ports) = cluster(&setup, plan.settings.nodes, broker).await?;
    if plan.settings.lying {
        database::lie(&cluster.database)?;
    }
    let client = Client::new(ports, Journal::open(&folder.join(record::OPS))?);
    let tenants = tenants(&setup, &client, &cluster.nodes[0]).await?;
    let programs = deploy(&client, &tenants, plan.settings.seed, sink.port).await?;
    worker::declare(&client, &tenants).await?;
    let driver = Arc::new(Driver {
        client: client.clone(),
        tenants: tenants.clone(),
        programs,
        expected: Journal::open(&folder.join(record::EXPECTED))?,
        seed: plan.settings.seed,
        is_over: false.into(),
        patience_until_us: i64::MAX.into(),
        count: 0.into(),
        stuck: 0.into(),
    });
    let feed = Journal::open(&folder.join(record::FEED))?;
    let readers = feed::follow(&client, &tenants, &feed);
    let published = Journal::open(&folder.join(record::PUBLISHED))?;
    let workers = worker::begin(&driver, &published, &Journal::open(&folder.join(record::HANDLED))?);
    let drained = harmed(plan, cluster.clone(), &driver).await?;
    workers.finish().await?;
    readers.finish().await?;
    feed::read_all(&client, &tenants, &feed).await?;
    collected(folder, &cluster, &client, &tenants).await?;
    if let Some(log) = cluster.server.lock().await.log() {
        let _ = std::fs::copy(log, folder.join("postgres.log"));
    }
    Ok(drained)
}

/// A database with its tables, a proxy and a node for each place; answers the ports of the nodes too.
async fn cluster(
    setup: &Setup,
    nodes: usize,
    broker: Option<scratch::Broker>,
) -> Result<(Arc<Cluster>, Vec<u16>)> {
    let server = scratch::Server::start(scratch::Durability::Default)?;
    let database = server.database()?;
    let mut migrate = setup.command();
    migrate.args(["migrate", "--store", &database.owner_url, "--app-role", database.application]);
    let said = migrate.output().await?;
    ensure!(said.status.success(), "no tables: {}", String::from_utf8_lossy(&said.stderr));
    let (mut started, mut proxies, mut ports) = (Vec::new(), Vec::new(), Vec::new());
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], server.port()));
    for at in 0..nodes {
        let proxy = Proxy::start(address).await?;
        let store = database.url.replace(&format!(":{}/", server.port()), &format!(":{}/", proxy.port));
        ensure!(store != database.url, "no port in {store}");
        // The proxy reads along.
        let store = format!("{store}?sslmode=disable");
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        started.push(Node::start(at, setup, port, &store)?);
        if at == 0 {
            // One alone makes the platform key.
            started[0].platform_key().await?;
        }
        proxies.push(proxy);
        ports.push(port);
    }
    let psql = scratch::programs().context("PostgreSQL's programs are not installed")?.join("psql");
    let (server, broker) = (Mutex::new(server), broker.map(Mutex::new));
    let cluster = Cluster { nodes: started, proxies, server, database, psql, broker };
    Ok((Arc::new(cluster), ports))
}

/// Tenants with a key each, by the platform key that the first node printed.
async fn tenants(setup: &Setup, client: &Client, first: &Node) -> Result<Vec<Tenant>> {
    let platform = first.platform_key().await?;
    let asked = async |ask: Ask| -> Result<Value> {
        match client.ask(0, &platform, ask).await {
            Said::Answer(200..=299, body) => Ok(body),
            said => bail!("{said:?}"),
        }
    };
    let mut tenants = Vec::new();
    for name in TENANTS {
        let make = Ask::post("/api/v1/tenants".to_owned(), json!({ "id": name, "title": name }));
        asked(make).await.context("no tenant")?;
        let make = Ask::post("/api/v1/keys".to_owned(), json!({ "name": "chaos", "roles": ["admin"] }));
        let key = asked(make.header("tenant", name.to_owned())).await.context("no key")?;
        let secret = key["secret"].as_str().context("a key has a secret")?.to_owned();
        tenants.push(Tenant { name: name.to_owned(), secret });
    }
    for node in 0..client.nodes() {
        until_ready(setup, client, node).await?;
    }
    Ok(tenants)
}

async fn until_ready(setup: &Setup, client: &Client, node: usize) -> Result<()> {
    for _ in 0..300 {
        if let Said::Answer(200, _) = client.ask(node, "", Ask::get("/readyz".to_owned())).await {
            return Ok(());
        }
        sleep_ms(100).await;
    }
    bail!("node {node} does not become ready; see {}", setup.folder.display())
}

/// Deploys every program to every tenant; answers those that clients start.
async fn deploy(client: &Client, tenants: &[Tenant], seed: u64, sink: u16) -> Result<Vec<Program>> {
    let programs = program::draw_all(&mut StdRng::seed_from_u64(seed), PROGRAMS);
    for tenant in tenants {
        for program in &programs {
            let ask = Ask::post("/api/v1/definitions".to_owned(), program.document(sink));
            match client.ask(0, &tenant.secret, ask).await {
                Said::Answer(200..=299, _) => {}
                said => bail!("{} is not taken: {said:?}", program.name),
            }
        }
    }
    Ok(programs.into_iter().filter(|program| program.name.starts_with("program")).collect())
}

/// Clients and faults at once, then nothing but clients until all they began has ended.
async fn harmed(plan: &Plan, cluster: Arc<Cluster>, driver: &Arc<Driver>) -> Result<Drained> {
    let faults = Journal::open(&plan.folder.join(record::FAULTS))?;
    let mut lives = tokio::task::JoinSet::new();
    for _ in 0..plan.clients {
        lives.spawn(driver.clone().live());
    }
    let harming = tokio::spawn(nemesis::harm(cluster.clone(), faults, plan.settings.clone()));
    harming.await??;
    driver.end(if plan.settings.lying { DRAIN_LYING_SECONDS } else { DRAIN_SECONDS });
    while let Some(life) = lives.join_next().await {
        life??;
    }
    let healed_us = now_us();
    for node in 0..driver.client.nodes() {
        driver.tail(node).await?;
    }
    let patience_until_us = driver.patience_until_us.load(Ordering::Relaxed);
    drained(&cluster, driver, patience_until_us + now_us() - healed_us).await
}

/// Waits until nothing goes on: an instance may outlive whoever watched it, and a signal its instance, for a moment.
async fn drained(cluster: &Cluster, driver: &Driver, patience_until_us: i64) -> Result<Drained> {
    let mut stuck;
    loop {
        stuck = collect::unfinished(&driver.client, &driver.tenants).await?;
        let left: u64 = database::counts(&cluster.database)?.left.values().sum();
        if (stuck.is_empty() && left == 0) || now_us() > patience_until_us {
            break;
        }
        sleep_ms(500).await;
    }
    match driver.stuck.load(Ordering::Relaxed) {
        0 => {}
        count => stuck.push(format!("{count} clients that did not see the end of their instance")),
    }
    Ok(Drained { stuck })
}

async fn collected(folder: &Path, cluster: &Cluster, client: &Client, tenants: &[Tenant]) -> Result<()> {
    let finals = collect::all(client, tenants).await?;
    journal::save(&folder.join(record::FINAL), &finals)?;
    journal::save(&folder.join(record::EMITTED), &worker::emitted(client, tenants).await?)?;
    let mut counts = database::counts(&cluster.database)?;
    counts.exits = cluster.nodes.iter().map(Node::exits).sum();
    std::fs::write(folder.join(record::COUNTS), serde_json::to_vec_pretty(&counts)?)?;
    Ok(())
}
