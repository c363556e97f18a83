//! The buses of the operator: how they are doing, and carrying again what one has lost.

use super::{Answer, Handle, Metric};
use crate::{
    api::Refusal,
    buses::{self, Between, BusState, resend::resend},
    refusal,
};
use machine::TenantId;
use store::rows::Depth;

impl Handle {
    /// The buses of this node, as it knows them.
    pub fn buses(&self) -> Vec<BusState> {
        self.engine.buses.states()
    }

    /// What waits for each bus, over all tenants and nodes, in the order of [`Handle::buses`].
    pub async fn bus_depths(&self) -> Answer<Vec<Option<Depth>>> {
        let workers: Vec<String> = self.buses().iter().map(|bus| buses::worker_of(&bus.name)).collect();
        if workers.is_empty() {
            return Ok(vec![]);
        }
        let depths = self.engine.store.depths(&workers).await.map_err(refusal::of_store)?;
        let of = |worker: &String| depths.iter().find(|depth| depth.worker == *worker).cloned();
        Ok(workers.iter().map(of).collect())
    }

    /// Carries the events of that time again, of one tenant or of all. Answers how many.
    pub async fn resend(&self, bus: &str, tenant: Option<&TenantId>, between: Between) -> Answer<u64> {
        let line = self.engine.buses.lines().find(|line| line.name() == bus);
        let line = line.ok_or_else(|| Refusal::NotFound("bus".to_owned()))?;
        let tenants = match tenant {
            Some(tenant) => {
                let row = self.engine.store.tenant(tenant).await.map_err(refusal::of_store)?;
                vec![row.ok_or_else(|| Refusal::NotFound("tenant".to_owned()))?]
            }
            None => self.engine.store.tenants().await.map_err(refusal::of_store)?,
        };
        let mut resent = 0;
        for tenant in tenants {
            resent += resend(&self.engine, line, &tenant.id, between).await?;
        }
        // Other nodes carry as well.
        self.engine.backlog();
        Ok(resent)
    }

    pub(super) fn bus_metrics(&self) -> Vec<Metric> {
        let metrics = self.buses().into_iter().flat_map(|bus| {
            let metric = |name, help, kind, value| Metric {
                name,
                help,
                kind,
                labels: vec![("bus", bus.name.clone())],
                value,
            };
            let up = if bus.away.is_some() { 0.0 } else { 1.0 };
            [
                metric("windlass_bus_up", "1 unless the bus did not answer this node last", "gauge", up),
                metric(
                    "windlass_bus_carried_total",
                    "events that the bus confirmed",
                    "counter",
                    bus.carried as f64,
                ),
                metric(
                    "windlass_bus_subscriptions",
                    "places of tenants that are heard",
                    "gauge",
                    bus.subscriptions as f64,
                ),
                metric(
                    "windlass_bus_refused_total",
                    "events refused for good",
                    "counter",
                    bus.refused as f64,
                ),
            ]
        });
        metrics.collect()
    }
}
