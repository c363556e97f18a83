//! Clients: each starts one instance after the other, sends it the signals it waits for, and watches it to its end.
//!
//! They do what careful clients do: they repeat with the same key what they do not know the outcome of, on whichever
//! node. And they do what careless ones do: they send things twice.

use crate::{
    client::{Ask, Client, Said},
    clock::{now_us, sleep_ms},
    journal::Journal,
    program::{NAMESPACE, Program, VERSION},
    record::{Act, Expected, Op, Res},
};
use anyhow::Result;
use rand::{Rng, SeedableRng, rngs::StdRng, seq::SliceRandom};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering},
};

pub(crate) const ENDED: [&str; 3] = ["completed", "faulted", "cancelled"];

/// How long a healed node may take for the shortest program.
const TAIL_SECONDS_MAX: i64 = 30;

/// A tenant and the key that its clients have.
#[derive(Clone, Debug)]
pub(crate) struct Tenant {
    pub(crate) name: String,
    pub(crate) secret: String,
}

/// What all clients share.
pub(crate) struct Driver {
    pub(crate) client: Client,
    pub(crate) tenants: Vec<Tenant>,
    /// Those that are started from outside.
    pub(crate) programs: Vec<Program>,
    pub(crate) expected: Journal,
    pub(crate) seed: u64,
    /// No instance is begun any more.
    pub(crate) is_over: AtomicBool,
    /// Nothing is waited for after this: what has not ended by then is a failure of liveness.
    pub(crate) patience_until_us: AtomicI64,
    pub(crate) count: AtomicU64,
    /// Instances that did not end in time.
    pub(crate) stuck: AtomicU64,
}

impl Driver {
    /// One client: instances one after the other.
    pub(crate) async fn live(self: Arc<Driver>) -> Result<()> {
        while !self.is_over.load(Ordering::Relaxed) {
            let number = self.count.fetch_add(1, Ordering::Relaxed);
            let rng = StdRng::seed_from_u64(self.seed ^ number.wrapping_mul(0x9E37_79B9_7F4A_7C15));
            let life = Life::new(&self, number, rng);
            if !life.lived().await? {
                self.stuck.fetch_add(1, Ordering::Relaxed);
            }
        }
        Ok(())
    }

    /// Everything is healed: what goes on has so long to end.
    pub(crate) fn end(&self, drain_seconds: i64) {
        self.patience_until_us.store(now_us() + drain_seconds * 1_000_000, Ordering::Relaxed);
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// After everything was healed each node serves: the shortest program there is, three times, and every look at it.
    pub(crate) async fn tail(&self, node: usize) -> Result<()> {
        let length_ms = |program: &&Program| {
            let expected = program.expect("", "", 0);
            let waits_ms: u64 = expected.waits.iter().map(|wait| wait.ms).sum();
            waits_ms + 500 * (expected.signals.len() + expected.effects.len()) as u64
        };
        let Some(program) = self.programs.iter().min_by_key(length_ms) else { return Ok(()) };
        for round in 0..3 {
            let number = self.count.fetch_add(1, Ordering::Relaxed);
            let rng = StdRng::seed_from_u64(self.seed + round);
            // Every request of these has to be answered, and none of them is special.
            let mut life = Life { fixed: Some(node), is_tail: true, ..Life::of(self, number, rng, program) };
            life.expected.cancels = false;
            life.patience_until_us = Some(now_us() + TAIL_SECONDS_MAX * 1_000_000);
            if !life.lived().await? {
                self.stuck.fetch_add(1, Ordering::Relaxed);
            }
        }
        Ok(())
    }
}

/// One instance as its client sees it.
struct Life<'a> {
    driver: &'a Driver,
    number: u64,
    rng: StdRng,
    tenant: &'a Tenant,
    input: i64,
    expected: Expected,
    /// If it is not everybody's.
    patience_until_us: Option<i64>,
    /// Asks this node only.
    fixed: Option<usize>,
    is_tail: bool,
}

impl<'a> Life<'a> {
    fn new(driver: &'a Driver, number: u64, mut rng: StdRng) -> Life<'a> {
        let program = &driver.programs[rng.random_range(0..driver.programs.len())];
        Life::of(driver, number, rng, program)
    }

    fn of(driver: &'a Driver, number: u64, mut rng: StdRng, program: &Program) -> Life<'a> {
        let tenant = &driver.tenants[rng.random_range(0..driver.tenants.len())];
        let input = rng.random_range(0..10);
        let mut expected = program.expect(&tenant.name, &format!("k{number}"), input);
        expected.cancels = rng.random_ratio(1, 10);
        let (patience_until_us, fixed, is_tail) = (None, None, false);
        Life { driver, number, rng, tenant, input, expected, patience_until_us, fixed, is_tail }
    }

    /// True if it came to its end, whatever that was.
    async fn lived(mut self) -> Result<bool> {
        self.driver.expected.append(&self.expected).await?;
        if self.rng.random_ratio(1, 8) {
            self.start_at_once().await?;
        }
        let Some(id) = self.started().await? else { return Ok(false) };
        if self.rng.random_ratio(1, 5) {
            self.start_once().await?;
        }
        let mut signals = self.signals();
        loop {
            if let Some((at, name, add)) = signals.pop() {
                self.rest(0..400).await;
                if !self.signalled(&id, at, &name, add).await? {
                    return Ok(false);
                }
            } else {
                self.rest(100..700).await;
            }
            if let Some(status) = self.status(&id).await?
                && ENDED.contains(&status.as_str())
            {
                return Ok(true);
            }
            if self.rng.random_ratio(1, 3) {
                self.history(&id).await?;
            }
            if self.expected.cancels && self.rng.random_ratio(1, 4) {
                self.cancel(&id).await?;
            }
            if self.gives_up() {
                return Ok(false);
            }
        }
    }

    fn gives_up(&self) -> bool {
        let shared = || self.driver.patience_until_us.load(Ordering::Relaxed);
        now_us() > self.patience_until_us.unwrap_or_else(shared)
    }

    async fn rest(&mut self, range_ms: std::ops::Range<u64>) {
        let length_ms = self.rng.random_range(range_ms);
        sleep_ms(length_ms).await;
    }

    /// Each signal that it waits for with a number of its own, in any order, and now and then one that nobody waits for.
    fn signals(&mut self) -> Vec<(usize, String, i64)> {
        let wanted = self.expected.signals.iter().cloned().enumerate();
        let mut signals: Vec<_> = wanted.map(|(at, (name, add))| (at, name, add)).collect();
        if self.rng.random_ratio(1, 6) {
            signals.push((signals.len(), "noise".to_owned(), 0));
        }
        signals.shuffle(&mut self.rng);
        signals
    }

    fn op(&mut self, op: Act, id: Option<&str>) -> Op {
        let nodes = self.driver.client.nodes();
        let node = self.fixed.unwrap_or_else(|| self.rng.random_range(0..nodes));
        Op {
            op,
            key: self.expected.key.clone(),
            tenant: self.tenant.name.clone(),
            node,
            client: self.number,
            id: id.map(str::to_owned),
            tail: self.is_tail,
            ..Op::default()
        }
    }

    /// Starts it, again and again with the same key until a node says which instance it is.
    async fn started(&mut self) -> Result<Option<String>> {
        loop {
            if let Some(id) = self.start_once().await? {
                return Ok(Some(id));
            }
            if self.gives_up() {
                return Ok(None);
            }
            self.rest(50..600).await;
        }
    }

    async fn start_once(&mut self) -> Result<Option<String>> {
        let op = self.op(Act::Start, None);
        self.send_start(op).await
    }

    /// Three at the same moment, as clients that do not know of each other send them.
    async fn start_at_once(&mut self) -> Result<()> {
        let [one, two, three] = [0; 3].map(|_| self.op(Act::Start, None));
        let this = &*self;
        tokio::try_join!(this.send_start(one), this.send_start(two), this.send_start(three))?;
        Ok(())
    }

    async fn send_start(&self, op: Op) -> Result<Option<String>> {
        let definition = json!({ "namespace": NAMESPACE, "name": self.expected.program, "version": VERSION });
        let body = json!({ "definition": definition, "input": { "key": op.key, "n": self.input } });
        let ask = Ask::post("/api/v1/instances".to_owned(), body);
        let ask = ask.header("idempotency-key", op.key.clone());
        let read = |op: &mut Op, body: &Value| op.id = body["id"].as_str().map(str::to_owned);
        let (op, _) = self.driver.client.note(op, &self.tenant.secret, ask, read).await?;
        Ok(op.id)
    }

    /// Sends the signal until it is accepted or refused; now and then once more. False if nobody took it in time.
    async fn signalled(&mut self, id: &str, at: usize, name: &str, add: i64) -> Result<bool> {
        let signal = signal_id(&self.expected.key, at);
        loop {
            let mut op = self.op(Act::Signal, Some(id));
            op.signal = Some(signal.clone());
            let ask = Ask::post(format!("/api/v1/instances/{id}/signals/{name}"), json!({ "add": add }));
            let ask = ask.header("signal-id", signal.clone());
            let (op, _) = self.driver.client.note(op, &self.tenant.secret, ask, |_, _| ()).await?;
            // An instance that has ended refuses what it has no use for.
            let is_refused = matches!(op.status, Some(404 | 409));
            if (op.res == Res::Ok || is_refused) && !self.rng.random_ratio(1, 6) {
                return Ok(true);
            }
            if self.gives_up() {
                return Ok(false);
            }
            self.rest(50..400).await;
        }
    }

    /// Once, whatever comes of it.
    async fn cancel(&mut self, id: &str) -> Result<()> {
        let op = self.op(Act::Cancel, Some(id));
        let ask = Ask::post(format!("/api/v1/instances/{id}/cancel"), json!({}));
        self.driver.client.note(op, &self.tenant.secret, ask, |_, _| ()).await?;
        Ok(())
    }

    async fn status(&mut self, id: &str) -> Result<Option<String>> {
        let op = self.op(Act::Read, Some(id));
        let ask = Ask::get(format!("/api/v1/instances/{id}"));
        let read = |op: &mut Op, body: &Value| op.versions.extend(body["version"].as_i64());
        let (_, said) = self.driver.client.note(op, &self.tenant.secret, ask, read).await?;
        Ok(match said {
            Said::Answer(200, body) => body["status"].as_str().map(str::to_owned),
            _ => None,
        })
    }

    /// The beginning of its history: one page.
    async fn history(&mut self, id: &str) -> Result<()> {
        let op = self.op(Act::History, Some(id));
        let ask = Ask::get(format!("/api/v1/instances/{id}/history?limit=200"));
        let read = |op: &mut Op, body: &Value| op.versions = versions(&body["items"]);
        self.driver.client.note(op, &self.tenant.secret, ask, read).await?;
        Ok(())
    }
}

/// The versions of a page of history, in its order, without repetition.
pub(crate) fn versions(items: &Value) -> Vec<i64> {
    let items = items.as_array().map(Vec::as_slice).unwrap_or_default();
    let mut versions: Vec<i64> = items.iter().filter_map(|item| item["version"].as_i64()).collect();
    versions.dedup();
    versions
}

/// The sender's own id of a signal, as the API writes ids of signals.
pub(crate) fn signal_id(key: &str, at: usize) -> String {
    let digest = Sha256::digest(format!("{key}/{at}"));
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    let id = uuid::Builder::from_random_bytes(bytes).into_uuid();
    format!("sig_{}", id.simple())
}
