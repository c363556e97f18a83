//! Why a delivery is not done yet.

use super::{Explanation, Reason, breaker, call, held, in_line, last_error, of_tenant, tries};
use crate::{api::Refusal, engine::Engine, guards::Target, refusal};
use machine::{TenantId, id};
use store::{
    rows::DeliveryRow,
    views::{AHEAD_MAX, Place},
};
use uuid::Uuid;

pub(crate) async fn delivery(
    engine: &Engine,
    tenant: &TenantId,
    delivery: Uuid,
) -> Result<Explanation, Refusal> {
    let gone = || Refusal::NotFound("delivery".to_owned());
    let row = engine.store.delivery(tenant, delivery).await.map_err(refusal::of_store)?.ok_or_else(gone)?;
    let place = engine.store.place(tenant, row.key()).await.map_err(refusal::of_store)?.ok_or_else(gone)?;
    let asked = Asked { engine, tenant, row: &row, place: &place };
    let mut reasons: Vec<Reason> = of_tenant(engine, tenant).into_iter().collect();
    reasons.extend(breaker(engine, tenant, &Target::worker(&row.worker)));
    reasons.extend(asked.reasons());
    for reason in &mut reasons {
        reason.target = Some(row.worker.clone());
        reason.attempt = Some(row.attempt + u32::from(reason.kind != "lent"));
        reason.attempts_max = asked.attempts_max();
    }
    Ok(Explanation::of(reasons))
}

struct Asked<'a> {
    engine: &'a Engine,
    tenant: &'a TenantId,
    row: &'a DeliveryRow,
    place: &'a Place,
}

impl Asked<'_> {
    fn attempts_max(&self) -> Option<u32> {
        let (subscribers, name) = (&self.engine.subscribers, &self.row.worker);
        let here = subscribers.worker(name).map(|worker| worker.retry.attempts_max);
        here.or_else(|| Some(subscribers.declared(self.tenant, name)?.attempts_max))
    }

    fn reasons(&self) -> Vec<Reason> {
        if let Some(first) = self.place.behind {
            let shown = id::show(id::Kind::Delivery, first);
            let text = format!("delivery {shown} of the same order key comes first");
            return vec![Reason { delivery: Some(first), ..Reason::new("order", text) }];
        }
        if let Some(owner) = self.place.owner {
            let limit = self.limit().filter(|_| owner == self.engine.node);
            return limit.into_iter().chain([held(self.engine, owner)]).collect();
        }
        let is_here = self.engine.subscribers.worker(&self.row.worker).is_some();
        let declared = self.engine.subscribers.declared(self.tenant, &self.row.worker).is_some();
        match (is_here, declared) {
            (true, _) => [self.limit(), Some(self.queued())].into_iter().flatten().collect(),
            (false, true) => vec![self.queued(), self.polled()],
            (false, false) => {
                let text = format!(
                    "no worker `{}` is declared by the tenant or part of this node; the delivery waits for one",
                    self.row.worker
                );
                vec![Reason::new("no-worker", text), self.queued()]
            }
        }
    }

    fn limit(&self) -> Option<Reason> {
        let full = self.engine.deliveries.full_for(self.tenant, &self.row.worker)?;
        Some(call::of_limit(full, self.tenant, &self.row.worker))
    }

    /// In the backlog: for later, or in line.
    fn queued(&self) -> Reason {
        let DeliveryRow { visible_at, attempt, last_error: error, worker, .. } = self.row;
        let max = self.attempts_max();
        if *visible_at <= self.engine.now() {
            let before = in_line(self.place.ahead, AHEAD_MAX, "deliveries for the worker");
            let text = format!("it waits for `{worker}` to take it; {before}");
            return Reason { ahead: Some(self.place.ahead), ..Reason::new("queued", text) };
        }
        let at = visible_at.rfc3339();
        let until = Some(*visible_at);
        match (error, *attempt) {
            (None, 1..) => {
                let tries = tries(*attempt, max);
                let text = format!("attempt {tries} is with a worker that polled it, until {at}");
                Reason { until, ..Reason::new("lent", text) }
            }
            _ => {
                let (tries, failed) = (tries(attempt + 1, max), last_error(error));
                Reason {
                    until,
                    ..Reason::new("retry", format!("attempt {tries} comes at {at} at the earliest{failed}"))
                }
            }
        }
    }

    /// What this node knows of whoever asks for the deliveries of the worker.
    fn polled(&self) -> Reason {
        let worker = &self.row.worker;
        let text = match self.engine.polls.last(self.tenant, worker) {
            Some(at) => {
                let seconds = self.engine.now().since(at).0 / 1_000_000;
                format!("worker `{worker}` last asked this node for deliveries {seconds} s ago")
            }
            None => format!("worker `{worker}` has not asked this node for deliveries since it started"),
        };
        Reason::new("polling", text)
    }
}
