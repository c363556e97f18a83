//! Worlds and nodes for tests: one store, a clock nobody waits for, nodes that can be stopped or killed.

pub(crate) use crate::workers::*;
pub(crate) use trial::time::*;

use machine::{Data, TenantId, Time, time::Span};
use runtime::{
    Handle, Node, Options, Parts,
    api::{DefinitionRef, InstanceResult, Signal, Start},
    clock::{Clock, Dice, SystemClock},
};
use serde_json::Value;
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use store::{Commit, Outcome, Store, Write, rows::*, sqlite::Inline, views::*};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use trial::{
    gossip::{Circle, Fate},
    lent::{self, Lent},
    tap::Tap,
};
use uuid::Uuid;
use worker::Declaration;

/// One store and what the test knows about it.
pub(crate) struct World {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) tenant: TenantId,
    seed: AtomicU64,
    circle: Circle,
    /// Goes after the store.
    _lent: Lent,
}

impl World {
    /// Over a fresh store, with time that passes only when nothing else can happen.
    pub(crate) fn new() -> World {
        World::on(World::lend(lent::Clock::Caller), Arc::new(VirtualClock(Instant::now())))
    }

    /// The same in real time, for what other processes or sockets are needed for.
    pub(crate) fn real() -> World {
        World::on(World::lend(lent::Clock::Database), Arc::new(SystemClock))
    }

    pub(crate) fn over(store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> World {
        World::on(store.into(), clock)
    }

    pub(crate) fn lend(clock: lent::Clock) -> Lent {
        lent::store(clock, || Arc::new(Inline::new().unwrap()))
    }

    pub(crate) fn on(lent: Lent, clock: Arc<dyn Clock>) -> World {
        let (tenant, circle) = (TenantId::new("acme").unwrap(), Circle::new(Fate::chosen()));
        World { store: lent.store.clone(), clock, tenant, seed: AtomicU64::new(1), circle, _lent: lent }
    }

    pub(crate) fn now(&self) -> Time {
        self.clock.now()
    }

    /// A node to be: add workers and options, then start it.
    pub(crate) fn build(&self) -> Build {
        let crash = CancellationToken::new();
        let tap = Arc::new(Tap::new(self.store.clone(), crash.clone()));
        let mut parts = Parts::new(tap.clone());
        parts.clock = self.clock.clone();
        parts.hints = self.circle.join();
        parts.entropy = Arc::new(Dice::from_seed(self.seed.fetch_add(1, Ordering::Relaxed)));
        parts.crash = Some(crash);
        Build { parts, tap, tenant: self.tenant.clone() }
    }

    pub(crate) async fn node(&self) -> Up {
        self.build().start().await
    }

    /// Writes past every node.
    pub(crate) async fn write(&self, writes: Vec<Write>) -> Outcome {
        let outsider = Uuid::from_u128(77);
        self.store.join(outsider, self.now(), 1_000_000_000).await.unwrap();
        let commit = Commit { tenant: self.tenant.clone(), writes };
        self.store.commit(outsider, vec![commit]).await.unwrap().pop().unwrap()
    }

    pub(crate) async fn view(&self, id: Uuid) -> InstanceView {
        self.store.instance(&self.tenant, id).await.unwrap().unwrap()
    }

    pub(crate) async fn status(&self, id: Uuid) -> String {
        self.view(id).await.row.status
    }

    /// The stored snapshot.
    pub(crate) async fn snapshot(&self, id: Uuid) -> Value {
        let loaded = self.store.load(&self.tenant, id).await.unwrap().unwrap();
        serde_json::from_slice(&loaded.state_json).unwrap()
    }

    /// Replaces the stored snapshot's JSON, as some other program might; the version rises by one.
    pub(crate) async fn rewrite(&self, id: Uuid, change: impl FnOnce(&mut Value)) {
        let mut json = self.snapshot(id).await;
        change(&mut json);
        let view = self.view(id).await;
        let row = StateRow {
            instance: id,
            expected_version: view.state_version,
            state_version: view.state_version + 1,
            snapshot_schema_version: view.snapshot_schema_version,
            runtime_status: view.runtime_status,
            waiting_kind: view.waiting_kind,
            waiting_token: view.waiting_token,
            waiting_until: view.waiting_until,
            active_task_id: view.active_task_id,
            resume_pointer_json: view.resume_pointer_json,
            last_signal_id: None,
            last_error_code: view.last_error_code,
            last_error_json: view.last_error_json,
            last_executed_by: view.last_executed_by,
            last_executed_on: view.last_executed_on,
            state_json: serde_json::to_vec(&json).unwrap(),
        };
        assert_eq!(self.write(vec![Write::UpdateState(Box::new(row))]).await, Outcome::Committed);
    }

    /// (kind, step) of everything in the instance's history, with its versions checked to be 1..n.
    pub(crate) async fn history(&self, id: Uuid) -> Vec<(String, String)> {
        // A turn may be under way: what is read is as new as what was there before, and no newer than what is there after.
        let before = self.view(id).await.state_version;
        let rows = self.store.history(&self.tenant, id, 0, 10_000).await.unwrap();
        let after = self.view(id).await.state_version;
        let (versions, last) = (rows.iter().map(|row| row.version), rows.len() as i64);
        assert_eq!(versions.collect::<Vec<i64>>(), (1..=last).collect::<Vec<_>>(), "P9");
        assert!((before..=after).contains(&last), "P9: {before} to {after}, not {last}");
        let events = rows.iter().flat_map(|row| serde_json::from_slice::<Vec<Value>>(&row.events).unwrap());
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        events.map(|event| (text(&event["kind"]), text(&event["step"]))).collect()
    }

    pub(crate) async fn count(&self, id: Uuid, kind: &str) -> usize {
        self.history(id).await.iter().filter(|(found, _)| found == kind).count()
    }

    pub(crate) async fn tasks(&self, id: Uuid) -> Vec<TaskRow> {
        let filter = TaskFilter { instance: Some(id), ..TaskFilter::default() };
        self.store.tasks(&self.tenant, &filter, &whole_page()).await.unwrap()
    }

    pub(crate) async fn letters(&self) -> Vec<DeadLetterRow> {
        let filter = DeadLetterFilter::default();
        self.store.dead_letters(&self.tenant, &filter, &whole_page()).await.unwrap()
    }

    pub(crate) async fn counts(&self) -> Counts {
        self.store.counts(Some(&self.tenant)).await.unwrap()
    }

    /// Waits until a dead letter is there.
    pub(crate) async fn letter(&self) -> DeadLetterRow {
        until(|| async { !self.letters().await.is_empty() }).await;
        self.letters().await.remove(0)
    }
}

/// For tests in which days pass: nothing needs to look every few seconds.
pub(crate) fn unhurried(options: &mut Options) {
    options.lease = Span::from_secs(3_600);
    options.rescan = Some(Span::from_secs(3_600));
}

pub(crate) fn whole_page() -> Page {
    Page { after: None, limit: PAGE_MAX }
}

pub(crate) struct Build {
    parts: Parts,
    tap: Arc<Tap>,
    tenant: TenantId,
}

impl Build {
    pub(crate) fn worker(mut self, declaration: Declaration) -> Build {
        self.parts.workers.push(declaration);
        self
    }

    pub(crate) fn bus(mut self, bus: runtime::buses::Bus) -> Build {
        self.parts.buses.push(bus);
        self
    }

    pub(crate) fn options(mut self, change: impl FnOnce(&mut Options)) -> Build {
        change(&mut self.parts.options);
        self
    }

    pub(crate) fn secrets(mut self, keys: runtime::secrets::Keyring) -> Build {
        self.parts.secrets = keys;
        self
    }

    pub(crate) fn evaluator(mut self, evaluator: impl runtime::engine::Evaluate) -> Build {
        self.parts.evaluator = Arc::new(evaluator);
        self
    }

    pub(crate) fn spans(mut self, spans: Arc<dyn runtime::spans::Spans>) -> Build {
        self.parts.spans = spans;
        self
    }

    pub(crate) fn hints(mut self, hints: Arc<dyn store::Hints>) -> Build {
        self.parts.hints = hints;
        self
    }

    /// The only process on the store: what others left is its own at once.
    pub(crate) fn sole(mut self) -> Build {
        self.parts.sole = true;
        self
    }

    pub(crate) async fn try_start(self) -> store::Result<Node> {
        Node::start(self.parts).await
    }

    pub(crate) async fn start(self) -> Up {
        let crash = self.parts.crash.clone().unwrap();
        let node = Node::start(self.parts).await.unwrap();
        Up { handle: node.handle(), node, tap: self.tap, crash, tenant: self.tenant }
    }
}

/// A node that is up.
pub(crate) struct Up {
    pub(crate) node: Node,
    pub(crate) handle: Handle,
    pub(crate) tap: Arc<Tap>,
    pub(crate) tenant: TenantId,
    crash: CancellationToken,
}

impl Up {
    pub(crate) async fn deploy(&self, name: &str, body: &str) {
        let source = format!(
            "document: {{ dsl: '1.0.3', namespace: test, name: {name}, version: '1.0.0' }}\n{body}\n"
        );
        let format = machine::language::Format::Yaml;
        self.handle.deploy(&self.tenant, source.as_bytes(), format, false).await.unwrap();
    }

    pub(crate) async fn start(&self, name: &str, input: Value) -> Uuid {
        self.handle.start(&self.tenant, start_of(name, input)).await.unwrap().id
    }

    pub(crate) async fn signal(&self, instance: Uuid, name: &str, data: Value) -> Uuid {
        let signal = signal_of(name, data, None);
        self.handle.signal_early(&self.tenant, instance, signal).await.unwrap()
    }

    /// How the instance ends.
    pub(crate) async fn end(&self, id: Uuid) -> InstanceResult {
        for _ in 0..1000 {
            match self.handle.result(&self.tenant, id, secs(60)).await.unwrap() {
                InstanceResult::Pending(_) => {}
                end => return end,
            }
        }
        panic!("it did not end within a thousand minutes");
    }

    /// The output of an instance that completes.
    pub(crate) async fn output(&self, id: Uuid) -> Value {
        match self.end(id).await {
            InstanceResult::Completed(data) => data.to_json(),
            other => panic!("expected it to complete, it came to {other:?}"),
        }
    }

    /// The error of an instance that faults.
    pub(crate) async fn fault(&self, id: Uuid) -> machine::Fault {
        match self.end(id).await {
            InstanceResult::Faulted(fault) => fault,
            other => panic!("expected it to fault, it came to {other:?}"),
        }
    }

    pub(crate) fn metric(&self, name: &str) -> f64 {
        self.handle.metrics().iter().filter(|metric| metric.name == name).map(|metric| metric.value).sum()
    }

    /// Gracefully; nothing of it stays.
    pub(crate) async fn stop(self) {
        self.node.stop().await;
    }

    /// As `kill -9` would.
    pub(crate) async fn crash(self) {
        self.crash.cancel();
        pass(Duration::from_millis(1)).await;
    }
}

pub(crate) fn start_of(name: &str, input: Value) -> Start {
    Start {
        definition: DefinitionRef {
            namespace: "test".to_owned(),
            name: name.to_owned(),
            version: Some("1.0.0".to_owned()),
        },
        input: Data::from_json(input),
        business_key: None,
        business_parts: vec![],
        idempotency_key: None,
        traceparent: None,
        tracestate: None,
        correlation_id: None,
        id: None,
    }
}

pub(crate) fn signal_of(name: &str, data: Value, id: Option<Uuid>) -> Signal {
    Signal { name: name.to_owned(), data: Data::from_json(data), id }
}
