//! One worker at work: asks for as many deliveries as it may handle at once, keeps them, answers them.

use super::{
    Client, Patience, Trouble,
    client::ANSWER_MAX,
    pause,
    wire::{self, Polled},
};
use crate::{Class, Declaration, Failure, Handled, Handler};
use machine::TenantId;
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    task::JoinSet,
    time::{Instant, timeout},
};
use tracing::Instrument;

/// Deliveries in one request.
const DELIVERIES_MAX: usize = 1_000;
/// How long a worker that ends tries to answer a server that is away.
const DRAIN_MAX: Duration = Duration::from_secs(30);

pub(super) struct Lane {
    pub(super) client: Arc<Client>,
    pub(super) worker: Arc<Declaration>,
    pub(super) poll_seconds: u32,
    pub(super) lease_seconds: u32,
    pub(super) stopping: watch::Receiver<bool>,
}

impl Lane {
    /// Until it is told to end and everything is answered.
    pub(super) async fn run(self) -> Result<(), Trouble> {
        let lane = Arc::new(self);
        let Some(tenant) = lane.declared().await? else { return Ok(()) };
        let hands = Arc::new(Semaphore::new(lane.worker.concurrency_max));
        let mut under_way = JoinSet::new();
        let mut patience = Patience::new();
        while !lane.is_stopping() {
            let Some(mut free) = lane.free_hands(&hands).await else { break };
            let polled = lane.poll(free.num_permits()).await;
            match polled {
                Ok(items) => {
                    patience = Patience::new();
                    for item in items {
                        let Some(polled) = Polled::read(&tenant, &item) else {
                            tracing::error!(worker = lane.worker.name, "a delivery cannot be read");
                            continue;
                        };
                        let (lane, hand) = (lane.clone(), free.split(1));
                        under_way.spawn(async move {
                            lane.handle(polled).await;
                            drop(hand);
                        });
                    }
                }
                Err(trouble) => lane.heed(&trouble, &mut patience).await?,
            }
            while under_way.try_join_next().is_some() {}
        }
        while under_way.join_next().await.is_some() {}
        Ok(())
    }

    fn is_stopping(&self) -> bool {
        *self.stopping.borrow()
    }

    async fn stopped(&self) {
        // Whoever would tell is gone: that is told as well.
        let _ = self.stopping.clone().wait_for(|stops| *stops).await;
    }

    /// All that are free, waiting for the first; `None` if it is to end.
    async fn free_hands(&self, hands: &Arc<Semaphore>) -> Option<OwnedSemaphorePermit> {
        let mut free = tokio::select! {
            free = hands.clone().acquire_owned() => free.ok()?,
            () = self.stopped() => return None,
        };
        let more = hands.available_permits().min(DELIVERIES_MAX - 1) as u32;
        if let Ok(more) = hands.clone().try_acquire_many_owned(more) {
            free.merge(more);
        }
        Some(free)
    }

    async fn poll(&self, most: usize) -> Result<Vec<Value>, Trouble> {
        let body = json!({ "max": most, "wait_seconds": self.poll_seconds });
        let within = ANSWER_MAX + Duration::from_secs(self.poll_seconds.into());
        let path = format!("/workers/{}/poll", self.worker.name);
        let answer = self.client.post(&path, &body, within).await?;
        Ok(answer["items"].as_array().cloned().unwrap_or_default())
    }

    /// What to do when nothing could be asked for.
    async fn heed(&self, trouble: &Trouble, patience: &mut Patience) -> Result<(), Trouble> {
        let worker = &self.worker.name;
        tracing::warn!(worker, %trouble, "no deliveries can be asked for");
        let after = match trouble {
            Trouble::Away { after, .. } => *after,
            _ => Duration::ZERO,
        };
        tokio::select! {
            () = pause(patience.next(after)) => {}
            () = self.stopped() => return Ok(()),
        }
        match trouble {
            // Somebody has removed the worker meanwhile.
            Trouble::Refused { status: 404, .. } => self.declared().await.map(drop),
            Trouble::Refused { status: 401 | 403, .. } => Err(trouble.clone()),
            _ => Ok(()),
        }
    }

    /// Declares the worker, however long the server is away. Answers whose worker it is; `None` if it is to end first.
    async fn declared(&self) -> Result<Option<TenantId>, Trouble> {
        let mut patience = Patience::new();
        loop {
            match self.declare().await {
                Ok(tenant) => return Ok(Some(tenant)),
                Err(Trouble::Away { detail, after }) => {
                    tracing::warn!(worker = self.worker.name, detail, "the worker is not declared yet");
                    tokio::select! {
                        () = pause(patience.next(after)) => {}
                        () = self.stopped() => return Ok(None),
                    }
                }
                Err(trouble) => return Err(trouble),
            }
        }
    }

    async fn declare(&self) -> Result<TenantId, Trouble> {
        let name = &self.worker.name;
        let me = self.client.get("/me").await?;
        let tenant = me["tenant"].as_str().and_then(|tenant| TenantId::new(tenant).ok());
        let tenant = tenant.ok_or_else(|| Trouble::Invalid("the key is not a tenant's".to_owned()))?;
        let Some(on) = &self.worker.on else { return Ok(tenant) };
        let declaration = wire::declaration(&self.worker, &on.terms, self.lease_seconds);
        match self.client.put(&format!("/workers/{name}"), &declaration).await {
            Ok(_) => Ok(tenant),
            // The role `worker` handles what others have declared.
            Err(refused @ Trouble::Refused { status: 403, .. }) => {
                let known = self.client.get("/workers").await?;
                let mut known = known["items"].as_array().into_iter().flatten();
                match known.any(|one| one["name"] == name.as_str()) {
                    true => Ok(tenant),
                    false => Err(refused),
                }
            }
            Err(trouble) => Err(trouble),
        }
    }

    /// Handles a delivery and answers it.
    async fn handle(&self, polled: Polled) {
        let Some(on) = &self.worker.on else { return };
        let (handler, events) = (on.handler.clone(), polled.deliveries.clone());
        let patience = Duration::from_micros(self.worker.timeout.0.unsigned_abs());
        let traceparent = events.first().and_then(|event| event.traceparent.as_deref());
        // Of the highest level: whatever a handler logs has its trace, however little is logged.
        let span =
            tracing::error_span!("deliver", worker = self.worker.name, delivery = polled.id, traceparent);
        let mut handling = tokio::spawn(attempt(handler, events, patience).instrument(span));
        let every = Duration::from_secs(self.lease_seconds.into()) / 3;
        let mut beat_at = Instant::now() + every;
        let handled = loop {
            tokio::select! {
                ended = &mut handling => break ended,
                () = tokio::time::sleep_until(beat_at) => {}
            }
            let body = json!({ "attempt": polled.attempt, "seconds": self.lease_seconds });
            let path = format!("/deliveries/{}/heartbeat", polled.id);
            match self.client.post(&path, &body, every.max(Duration::from_secs(1))).await {
                Ok(_) => beat_at = Instant::now() + every,
                Err(Trouble::Lost) => {
                    tracing::warn!(worker = self.worker.name, delivery = polled.id, "somebody else has it");
                    handling.abort();
                    return;
                }
                Err(trouble) => {
                    tracing::warn!(worker = self.worker.name, %trouble, "a heartbeat was not heard");
                    beat_at = Instant::now() + every / 4;
                }
            }
        };
        let count = polled.deliveries.len();
        let handled = match handled {
            Ok(handled) if handled.len() == count => handled,
            Ok(handled) => poison(count, format!("the handler answered {} of {count}", handled.len())),
            Err(_) => poison(count, "the handler panicked".to_owned()),
        };
        self.settle(&polled, &handled).await;
    }

    async fn settle(&self, polled: &Polled, handled: &[Handled]) {
        let worker = &self.worker.name;
        match self.answer(polled, handled).await {
            Ok(()) => {}
            Err(Trouble::Lost) => tracing::warn!(worker, delivery = polled.id, "somebody else has it"),
            Err(trouble @ Trouble::Away { .. }) => {
                tracing::warn!(worker, delivery = polled.id, %trouble, "it is left to come again");
            }
            Err(trouble) => {
                // What the handler answered cannot be taken: that is a failure of the attempt, and counts as one.
                tracing::error!(worker, delivery = polled.id, %trouble, "the answer is refused");
                let failed = vec![Handled::retry(format!("the answer is refused: {trouble}")); handled.len()];
                let _ = self.answer(polled, &failed).await;
            }
        }
    }

    /// Answers, however long the server is away: it may still be ours when it comes back.
    async fn answer(&self, polled: &Polled, handled: &[Handled]) -> Result<(), Trouble> {
        let (verb, body) = polled.answer(handled);
        let path = format!("/deliveries/{}/{verb}", polled.id);
        let mut patience = Patience::new();
        let mut drained_at = None;
        loop {
            let trouble = match self.client.post(&path, &body, ANSWER_MAX).await {
                Ok(_) => return Ok(()),
                Err(trouble) => trouble,
            };
            let Trouble::Away { after, .. } = &trouble else { return Err(trouble) };
            if self.is_stopping() {
                let until = *drained_at.get_or_insert_with(|| Instant::now() + DRAIN_MAX);
                if Instant::now() >= until {
                    return Err(trouble);
                }
            }
            tracing::warn!(worker = self.worker.name, %trouble, "an answer is not taken yet");
            pause(patience.next(*after)).await;
        }
    }
}

async fn attempt(handler: Arc<dyn Handler>, events: Vec<crate::Delivery>, within: Duration) -> Vec<Handled> {
    match timeout(within, handler.handle(&events)).await {
        Ok(handled) => handled,
        Err(_) => {
            let late = Handled::retry(format!("no answer within {} s", within.as_secs()));
            vec![late; events.len()]
        }
    }
}

fn poison(count: usize, message: String) -> Vec<Handled> {
    vec![Handled::Fail(Failure { class: Class::Poison, message }); count]
}
