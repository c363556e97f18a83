//! A worker somewhere else, and whoever publishes events for it.
//!
//! The worker does what a careful one does: it writes down what it was given before it answers, answers on whichever node
//! as long as it does not know, and drops what is somebody else's by now. Some events it fails the first time.

use crate::{
    client::{Ask, Client, Said},
    clock::sleep_ms,
    collect,
    driver::{Driver, Tenant},
    journal::Journal,
    record::{Handled, Published},
};
use anyhow::{Result, bail};
use rand::{Rng, SeedableRng, rngs::StdRng};
use serde_json::{Value, json};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};
use tokio::task::JoinSet;

const NAME: &str = "mail";
const TYPE: &str = "chaos.order";
/// Publishers of a run; each has one event under way at a time.
const PUBLISHERS: u64 = 4;
/// Workers of each tenant.
const WORKERS: u64 = 2;
/// Tries to answer a delivery; then it comes again by itself.
const ANSWERS_MAX: u32 = 5;
/// How often a node is asked whether it knows the worker.
const ASKS_MAX: u32 = 300;

/// Declares the worker to every tenant, and waits until every node knows it: what a node publishes that does not is for nobody.
pub(crate) async fn declare(client: &Client, tenants: &[Tenant]) -> Result<()> {
    let declaration = json!({ "types": [TYPE], "attempts_max": 100, "retry_base_ms": 50, "retry_cap_ms": 500,
        "lease_seconds": 3, "batch_max": 1 });
    for tenant in tenants {
        let ask = Ask::put(format!("/api/v1/workers/{NAME}"), declaration.clone());
        match client.ask(0, &tenant.secret, ask).await {
            Said::Answer(200..=299, _) => {}
            said => bail!("the worker is not taken: {said:?}"),
        }
        for node in 0..client.nodes() {
            until_known(client, tenant, node).await?;
        }
    }
    Ok(())
}

async fn until_known(client: &Client, tenant: &Tenant, node: usize) -> Result<()> {
    for _ in 0..ASKS_MAX {
        let ask = Ask::post(poll_path(), json!({ "max": 1 }));
        if let Said::Answer(200, _) = client.ask(node, &tenant.secret, ask).await {
            return Ok(());
        }
        sleep_ms(100).await;
    }
    bail!("node {node} does not learn of the worker")
}

fn poll_path() -> String {
    format!("/api/v1/workers/{NAME}/poll")
}

/// What goes on until [`Workers::finish`].
pub(crate) struct Workers {
    working: JoinSet<Result<()>>,
    is_over: Arc<AtomicBool>,
}

/// Begins to publish, until the driver's clients end, and to handle what comes of it.
pub(crate) fn begin(driver: &Arc<Driver>, published: &Journal, handled: &Journal) -> Workers {
    let mut working = JoinSet::new();
    let is_over = Arc::new(AtomicBool::new(false));
    for at in 0..PUBLISHERS {
        let (driver, journal) = (driver.clone(), published.clone());
        working.spawn(async move { publish(&driver, at, &journal).await });
    }
    for (at, tenant) in driver.tenants.iter().cloned().enumerate() {
        for number in 0..WORKERS {
            let rng = StdRng::seed_from_u64(driver.seed ^ (at as u64) << 32 ^ number << 48);
            let (client, tenant, journal) = (driver.client.clone(), tenant.clone(), handled.clone());
            let worker = Worker { client, tenant, journal, rng, is_over: is_over.clone() };
            working.spawn(worker.work());
        }
    }
    Workers { working, is_over }
}

impl Workers {
    /// Nothing is left to be handled.
    pub(crate) async fn finish(mut self) -> Result<()> {
        self.is_over.store(true, Ordering::Relaxed);
        while let Some(worked) = self.working.join_next().await {
            worked??;
        }
        Ok(())
    }
}

/// Events one after the other, each until it is acknowledged.
async fn publish(driver: &Driver, at: u64, journal: &Journal) -> Result<()> {
    let mut rng = StdRng::seed_from_u64(driver.seed ^ at << 16);
    let over = || driver.is_over.load(Ordering::Relaxed);
    for number in 0_u64.. {
        let tenant = &driver.tenants[rng.random_range(0..driver.tenants.len())];
        let id = format!("o{at}-{number}");
        let event = json!({ "specversion": "1.0", "id": id, "source": "chaos/shop", "type": TYPE, "data": { "n": number } });
        loop {
            if over() {
                return Ok(());
            }
            let node = rng.random_range(0..driver.client.nodes());
            let ask = Ask::post("/api/v1/events".to_owned(), event.clone());
            if let Said::Answer(202, _) = driver.client.ask(node, &tenant.secret, ask).await {
                journal.append(&Published { tenant: tenant.name.clone(), id }).await?;
                break;
            }
            sleep_ms(rng.random_range(50..400)).await;
        }
        sleep_ms(rng.random_range(20..200)).await;
    }
    Ok(())
}

struct Worker {
    client: Client,
    tenant: Tenant,
    journal: Journal,
    rng: StdRng,
    is_over: Arc<AtomicBool>,
}

impl Worker {
    async fn work(mut self) -> Result<()> {
        while !self.is_over.load(Ordering::Relaxed) {
            let ask = Ask::post(poll_path(), json!({ "max": 10, "wait_seconds": 1 }));
            let node = self.rng.random_range(0..self.client.nodes());
            let Said::Answer(200, polled) = self.client.ask(node, &self.tenant.secret, ask).await else {
                sleep_ms(200).await;
                continue;
            };
            for item in polled["items"].as_array().map(Vec::as_slice).unwrap_or_default() {
                self.handle(item).await?;
            }
        }
        Ok(())
    }

    async fn handle(&mut self, item: &Value) -> Result<()> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (id, key) = (text(&item["events"][0]["id"]), text(&item["keys"][0]));
        let (delivery, attempt) = (text(&item["id"]), &item["attempt"]);
        let fails = attempt == 1 && self.rng.random_ratio(1, 5);
        if !fails {
            self.journal.append(&Handled { tenant: self.tenant.name.clone(), id: id.clone(), key }).await?;
        }
        let (verb, body) = match fails {
            true => ("fail", json!({ "attempt": attempt, "class": "transient", "message": "not yet" })),
            false => {
                let emit = json!([{ "type": "chaos.handled", "data": { "id": id } }]);
                ("complete", json!({ "attempt": attempt, "emit": emit }))
            }
        };
        for _ in 0..ANSWERS_MAX {
            let node = self.rng.random_range(0..self.client.nodes());
            let ask = Ask::post(format!("/api/v1/deliveries/{delivery}/{verb}"), body.clone());
            // Also what is refused is answered: it is somebody else's, or was done by the answer before.
            if let Said::Answer(200..=499, _) = self.client.ask(node, &self.tenant.secret, ask).await {
                break;
            }
            sleep_ms(self.rng.random_range(50..300)).await;
        }
        Ok(())
    }
}

/// Ids of the events that the workers emitted, as the API lists them at the end.
pub(crate) async fn emitted(client: &Client, tenants: &[Tenant]) -> Result<Vec<Published>> {
    let mut found = Vec::new();
    for tenant in tenants {
        let path = format!("/api/v1/events?limit=200&source=windlass/workers/{NAME}");
        for item in collect::pages(client, tenant, &path).await? {
            let id = item["event_id"].as_str().unwrap_or_default().to_owned();
            found.push(Published { tenant: tenant.name.clone(), id });
        }
    }
    Ok(found)
}
