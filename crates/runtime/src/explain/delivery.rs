//! Why a delivery is not done yet.

use super::{Explanation, Reason, breaker, call, held, in_line, last_error, of_tenant, tries};
use crate::{
    api::{Declared, Refusal, Webhook},
    buses,
    engine::Engine,
    guards::Target,
    refusal, remote, webhooks,
};
use machine::{TenantId, id};
use store::{
    rows::{DeliveryRow, Loans},
    views::{AHEAD_MAX, Place},
};
use uuid::Uuid;
use worker::Terms;

pub(crate) async fn delivery(
    engine: &Engine,
    tenant: &TenantId,
    delivery: Uuid,
) -> Result<Explanation, Refusal> {
    let gone = || Refusal::NotFound("delivery".to_owned());
    let row = engine.store.delivery(tenant, delivery).await.map_err(refusal::of_store)?.ok_or_else(gone)?;
    let place = engine.store.place(tenant, row.key()).await.map_err(refusal::of_store)?.ok_or_else(gone)?;
    let loans = engine.store.loans(tenant, &row.worker, engine.now()).await.map_err(refusal::of_store)?;
    let taker = Taker::of(engine, tenant, &row.worker).await?;
    let asked = Asked { engine, tenant, row: &row, place: &place, loans, taker };
    let mut reasons: Vec<Reason> = of_tenant(engine, tenant).into_iter().collect();
    let target = asked.taker.target(&row.worker);
    reasons.extend(target.and_then(|target| breaker(engine, tenant, &target)));
    reasons.extend(asked.reasons());
    for reason in &mut reasons {
        reason.target = Some(row.worker.clone());
        reason.attempt = Some(row.attempt + u32::from(reason.kind != "lent"));
        reason.attempts_max = asked.attempts_max();
    }
    Ok(Explanation::of(reasons))
}

/// Who is to take a delivery.
enum Taker {
    /// A worker of this node, with its attempts.
    Here(u32),
    /// One that its tenant has declared.
    Declared(Box<Declared>),
    /// An address; why it is disabled if it is.
    Webhook(Box<Webhook>),
    Bus,
    /// Nobody: why.
    Nobody(String),
}

impl Taker {
    async fn of(engine: &Engine, tenant: &TenantId, name: &str) -> Result<Taker, Refusal> {
        if let Some(webhook) = webhooks::name_of(name) {
            let row = remote::find(engine, tenant, name).await?;
            let webhook_of = |row: store::rows::WorkerRow| serde_json::from_slice(&row.declaration).ok();
            let gone = || format!("there is no webhook `{webhook}` any more; the delivery waits for one");
            return Ok(row.and_then(webhook_of).map_or_else(|| Taker::Nobody(gone()), Taker::Webhook));
        }
        if let Some(bus) = buses::name_of(name) {
            let is_here = engine.buses.lines().any(|line| line.name() == bus);
            let gone = || format!("this node has no bus `{bus}`; the delivery waits for a node that has it");
            return Ok(if is_here { Taker::Bus } else { Taker::Nobody(gone()) });
        }
        if let Some(worker) = engine.subscribers.worker(name) {
            return Ok(Taker::Here(worker.retry.attempts_max));
        }
        Ok(match engine.subscribers.declared(tenant, name) {
            Some(declared) => Taker::Declared(Box::new(declared)),
            None => Taker::Nobody(format!(
                "no worker `{name}` is declared by the tenant or part of this node; the delivery waits for one"
            )),
        })
    }

    /// Whose breaker may be in the way.
    fn target(&self, name: &str) -> Option<Target> {
        match self {
            Taker::Webhook(webhook) => Target::of_address(&webhook.url),
            Taker::Bus => None,
            Taker::Here(_) | Taker::Declared(_) | Taker::Nobody(_) => Some(Target::worker(name)),
        }
    }
}

struct Asked<'a> {
    engine: &'a Engine,
    tenant: &'a TenantId,
    row: &'a DeliveryRow,
    place: &'a Place,
    loans: Loans,
    taker: Taker,
}

impl Asked<'_> {
    fn attempts_max(&self) -> Option<u32> {
        match &self.taker {
            Taker::Here(attempts_max) => Some(*attempts_max),
            Taker::Declared(declared) => Some(declared.attempts_max),
            Taker::Webhook(webhook) => Some(webhook.attempts_max),
            Taker::Bus | Taker::Nobody(_) => None,
        }
    }

    /// What the worker wants of events.
    fn terms(&self) -> Option<Terms> {
        let subscriber = self.engine.subscribers.find(self.tenant, &self.row.worker)?;
        Some(subscriber.terms.clone())
    }

    fn reasons(&self) -> Vec<Reason> {
        if let Some(first) = self.place.behind {
            let shown = id::show(id::Kind::Delivery, first);
            let text = format!("delivery {shown} of the same order key comes first");
            return vec![Reason { delivery: Some(first), ..Reason::new("order", text) }];
        }
        let first: Vec<Option<Reason>> = match &self.taker {
            Taker::Nobody(why) => vec![Some(Reason::new("no-worker", why.clone()))],
            Taker::Webhook(webhook) => vec![self.disabled(webhook)],
            Taker::Bus => vec![self.away()],
            Taker::Here(_) => vec![self.limit(), self.rate()],
            Taker::Declared(declared) => vec![self.lent_out(declared), self.rate()],
        };
        let first = first.into_iter().flatten();
        match (self.place.owner, &self.taker) {
            (Some(owner), _) => {
                first.filter(|_| owner == self.engine.node).chain([held(self.engine, owner)]).collect()
            }
            (None, Taker::Declared(_)) => first.chain([self.queued(), self.polled()]).collect(),
            (None, _) => first.chain([self.queued()]).collect(),
        }
    }

    fn limit(&self) -> Option<Reason> {
        let full = self.engine.deliveries.full_for(self.tenant, &self.row.worker)?;
        Some(call::of_limit(full, self.tenant, &self.row.worker))
    }

    /// Whether it would be handed out but for a bound.
    fn is_due(&self) -> bool {
        self.row.visible_at <= self.engine.now()
    }

    /// The worker's rate, if that is what it waits for.
    fn rate(&self) -> Option<Reason> {
        let rate = self.terms()?.rate?;
        let next = self.loans.next_turn.filter(|next| self.is_due() && *next > self.engine.now())?;
        let (worker, every, at) = (&self.row.worker, rate.every().as_millis(), next.rfc3339());
        let text = format!("`{worker}` is given one every {every} ms, the next of the tenant at {at}");
        Some(Reason { until: Some(next), ..Reason::new("limit", text) })
    }

    /// How many the workers have that asked, if they may not have more.
    fn lent_out(&self, declared: &Declared) -> Option<Reason> {
        let max = u64::from(declared.concurrency_max?);
        (self.is_due() && self.loans.lent >= max).then(|| {
            let worker = &self.row.worker;
            let text = format!(
                "workers that asked as `{worker}` have {max} at once, which is its `concurrency_max`"
            );
            Reason::new("limit", text)
        })
    }

    fn disabled(&self, webhook: &Webhook) -> Option<Reason> {
        let why = webhook.disabled.as_ref()?;
        Some(Reason::new(
            "disabled",
            format!("the webhook is disabled: {why}; nothing is sent until it is put again"),
        ))
    }

    /// What this node knows of the bus.
    fn away(&self) -> Option<Reason> {
        let states = self.engine.buses.states();
        let state = states.into_iter().find(|state| buses::worker_of(&state.name) == self.row.worker)?;
        let (since, detail) = state.away?;
        let (bus, place, since) = (state.name, state.place, since.rfc3339());
        Some(Reason::new("away", format!("bus `{bus}` at {place} does not answer since {since}: {detail}")))
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
            (_, 1..) if self.place.lent => {
                let tries = tries(*attempt, max);
                let text = format!("attempt {tries} is with a worker that polled it, until {at}");
                Reason { until, ..Reason::new("lent", text) }
            }
            (None, 0) if self.terms().is_some_and(|terms| terms.debounce.is_some()) => {
                let text =
                    format!("it is held back until {at}: an event of the same key would take its place");
                Reason { until, ..Reason::new("held-back", text) }
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
