//! Workers that are somewhere else: declare them, hand them deliveries, take their answers.

use super::{Answer, Handle};
use crate::{
    api::{Declared, Handled, Lent, Refusal},
    guards::ShownBreaker,
    remote,
};
use machine::{TenantId, Time};
use std::time::Duration;
use store::rows::WorkerRow;
use uuid::Uuid;

/// Types of events that are named where none of them is the one.
const WANTED_MAX: usize = 10;

impl Handle {
    /// The tenant's breakers, as this node knows them.
    pub fn breakers(&self, tenant: &TenantId) -> Vec<ShownBreaker> {
        self.engine.guards.of_tenant(tenant)
    }

    /// Lets the next attempt to an endpoint or worker through as a probe, whatever is left of the pause.
    pub fn probe(&self, tenant: &TenantId, target: &str, actor: &str) -> Answer<ShownBreaker> {
        tracing::info!(%tenant, target, actor, "probe");
        let now = self.engine.now();
        let forced = self.engine.guards.force(tenant, target, now);
        self.engine.wake.at(now);
        self.engine.wake.deliveries.at(now);
        self.engine.polled.notify_waiters();
        forced.ok_or_else(|| Refusal::NotFound("breaker".to_owned()))
    }

    /// Who wants events of this type; if nobody does, some types that are wanted instead, in their order.
    pub fn wanting(&self, tenant: &TenantId, event_type: &str) -> (Vec<String>, Vec<String>) {
        let wanting = self.engine.subscribers.wanting(tenant, event_type);
        let names: Vec<String> = wanting.iter().map(|one| one.name.clone()).collect();
        match names.is_empty() {
            true => (names, self.engine.subscribers.wanted_types(tenant, WANTED_MAX)),
            false => (names, vec![]),
        }
    }

    /// Makes or changes a worker that is somewhere else. `true` if it is new.
    pub async fn declare_worker(&self, tenant: &TenantId, name: &str, declared: &Declared) -> Answer<bool> {
        remote::declare(&self.engine, tenant, name, declared).await
    }

    /// The workers that the tenant has declared.
    pub async fn declared_workers(&self, tenant: &TenantId) -> Answer<Vec<(WorkerRow, Declared)>> {
        remote::declared(&self.engine, tenant).await
    }

    /// Events are not delivered to that worker from now on.
    pub async fn forget_worker(&self, tenant: &TenantId, name: &str) -> Answer<()> {
        remote::forget(&self.engine, tenant, name).await
    }

    /// Deliveries for a declared worker, waiting up to `wait` for the first.
    pub async fn poll_deliveries(
        &self,
        tenant: &TenantId,
        worker: &str,
        limit: usize,
        wait: Duration,
    ) -> Answer<Vec<Lent>> {
        remote::poll(&self.engine, tenant, worker, limit, wait).await
    }

    /// What came of an attempt: one answer for all events of the delivery, or one for each.
    pub async fn answer_delivery(
        &self,
        tenant: &TenantId,
        delivery: Uuid,
        attempt: u32,
        answers: Vec<Handled>,
    ) -> Answer<()> {
        remote::answer(&self.engine, tenant, (delivery, attempt), answers).await
    }

    /// The worker goes on. Answers until when nobody else gets the delivery.
    pub async fn extend_delivery(
        &self,
        tenant: &TenantId,
        delivery: Uuid,
        attempt: u32,
        seconds: u32,
    ) -> Answer<Time> {
        remote::heartbeat(&self.engine, tenant, (delivery, attempt), seconds).await
    }
}
