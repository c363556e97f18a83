//! What one node is made of; shared by its pumps, turns and handles.

use crate::{
    asked::Asked,
    audit::Trail,
    buses::Buses,
    callees::Callees,
    clock::{Clock, Entropy},
    clocks::Clocks,
    collections::Collecting,
    committer::Committer,
    definitions::Definitions,
    deliveries::Handed,
    egress::Egress,
    event_types::EventTypes,
    finder::Wake,
    flush::Flush,
    guards::Guards,
    heavy::Heavy,
    held::Held,
    hub::Hub,
    lanes::Queue,
    lease::{Lease, TakingOver},
    metrics::Metrics,
    newer::Newer,
    options::Options,
    polls::Polls,
    sandbox::{NotRun, ScriptCall},
    secrets::Keyring,
    slots::Slots,
    spans::Spans,
    subscribers::Subscribers,
    tasks::Tasks,
    tenants::Tenants,
    webhooks::Webhooks,
};
use async_trait::async_trait;
use machine::{Data, Fault, Subject, TenantId, Time, expr::Evaluation, fault::Kind, token::Origin};
use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};
use store::{Hints, Store, rows::CallRow};
use tokio::sync::{Notify, Semaphore};
use uuid::Uuid;

/// Evaluates expressions that may not run in this process.
#[async_trait]
pub trait Evaluate: Send + Sync + 'static {
    /// The outer error says that the tenant has too many waiting already; trying again later will work.
    async fn evaluate(
        &self,
        tenant: &TenantId,
        evaluation: Evaluation,
    ) -> Result<Result<Data, Fault>, NotRun>;

    /// Runs a script; the outer error says that it never began.
    async fn script(&self, _: &TenantId, _: ScriptCall) -> Result<Result<Data, Fault>, NotRun> {
        Err(NotRun("this node has no sandbox".to_owned()))
    }
}

/// Refuses: for nodes that have no sandbox.
pub struct NoSandbox;

#[async_trait]
impl Evaluate for NoSandbox {
    async fn evaluate(&self, _: &TenantId, _: Evaluation) -> Result<Result<Data, Fault>, NotRun> {
        let why = "this expression needs the sandbox, which this node does not have";
        Ok(Err(Fault::new(Kind::Expression, why)))
    }
}

pub(crate) struct Engine {
    pub(crate) node: Uuid,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) clocks: Clocks,
    pub(crate) tenants: Tenants,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) evaluator: Arc<dyn Evaluate>,
    pub(crate) options: Options,
    /// What signal tokens are made with.
    pub(crate) origin: Arc<Origin>,
    pub(crate) tasks: Arc<Tasks>,
    pub(crate) committer: Committer,
    /// Failures that wait for their acknowledgement.
    pub(crate) flush: Flush,
    pub(crate) definitions: Definitions,
    /// Room for turns of signals and timers.
    pub(crate) turns: Arc<Semaphore>,
    pub(crate) slots: Slots,
    pub(crate) held: Held,
    pub(crate) calls: Queue<CallRow>,
    pub(crate) callees: Callees,
    pub(crate) deliveries: Queue<Handed>,
    /// Deliveries were due that this node had no room for.
    pub(crate) deliveries_left: AtomicBool,
    pub(crate) subscribers: Subscribers,
    pub(crate) event_types: EventTypes,
    /// Wakes those who ask for deliveries of workers that are somewhere else.
    pub(crate) polled: Notify,
    pub(crate) buses: Buses,
    pub(crate) webhooks: Webhooks,
    pub(crate) polls: Polls,
    pub(crate) guards: Guards,
    pub(crate) egress: Egress,
    pub(crate) secrets: Keyring,
    pub(crate) wake: Wake,
    pub(crate) hub: Hub,
    pub(crate) hints: Arc<dyn Hints>,
    /// False while no event is known to be kept for listen steps to come.
    pub(crate) keeps_events: AtomicBool,
    pub(crate) collecting: Collecting,
    pub(crate) asked: Asked,
    pub(crate) metrics: Metrics,
    pub(crate) spans: Arc<dyn Spans>,
    pub(crate) heavy: Heavy,
    pub(crate) lease: Arc<Lease>,
    /// When the finder began the look that it is at, in microseconds of the steady clock; 0 if it is at none.
    pub(crate) looking_since: AtomicU64,
    pub(crate) taking_over: TakingOver,
    pub(crate) newer: Newer,
    pub(crate) trail: Trail,
    /// No other process can be using the store.
    pub(crate) sole: bool,
}

impl Engine {
    pub(crate) fn now(&self) -> Time {
        self.clock.now()
    }

    /// An instance as the machine is told of it.
    pub(crate) fn subject(&self, tenant: &TenantId, instance: Uuid) -> Subject {
        Subject { tenant: tenant.clone(), instance, origin: Some(self.origin.clone()) }
    }

    /// False once new work is refused.
    pub(crate) fn is_accepting(&self) -> bool {
        !self.is_stopping()
    }

    /// False once the lease may have ended: another node may take this one over at any moment.
    pub(crate) fn holds_lease(&self) -> bool {
        self.lease.holds()
    }

    /// False once a renewal is overdue: they come every third of a lease.
    pub(crate) fn renewed_lately(&self) -> bool {
        self.lease.was_renewed_lately()
    }

    /// False once so much of the lease is over that another node may soon do what this one begins now. What is in memory
    /// then stays where it is until the lease is renewed, or is given back.
    pub(crate) fn may_begin(&self) -> bool {
        self.lease.may_begin()
    }

    /// False while a look for work has not been answered for as long as a lease lasts.
    pub(crate) fn finds_work(&self) -> bool {
        let since = self.looking_since.load(Ordering::Relaxed);
        let age = self.clock.steady_micros().saturating_sub(since);
        since == 0 || i64::try_from(age).is_ok_and(|age| age < self.options.lease.0)
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.tasks.stopping.is_cancelled()
    }
}
