//! What comes of an attempt: the rows that end, come back or are given up, and what is emitted, in one commit.

use super::{Taken, key_of};
use crate::{
    dead_letters::{self, Reason, flush_patiently},
    engine::Engine,
    errors,
    flush::{self, HoldsUp},
    metrics::Metrics,
    patience::Patience,
    trace,
};
use machine::{Data, TenantId, Time, fault, id, time::Span};
use std::{collections::HashMap, sync::Arc};
use store::{
    Commit, Outcome, Write,
    rows::{DeliveryRow, OutboxRow},
};
use uuid::Uuid;
use worker::{Class, Declaration, Emit, Failure, Handled, RetryPolicy};

/// What one row comes to.
#[derive(Default)]
struct End {
    writes: Vec<Write>,
    /// When the next one that comes back is due.
    again_at: Option<Time>,
    emits: bool,
    buried: Vec<(Uuid, &'static str)>,
    counts: Counts,
}

/// Events by what became of them.
#[derive(Clone, Copy, Default)]
struct Counts {
    processed: u64,
    retried: u64,
    dead_lettered: u64,
}

/// Who settles what.
pub(crate) struct Settling {
    engine: Arc<Engine>,
    tenant: TenantId,
    worker: String,
    retry: RetryPolicy,
    now: Time,
    /// The attempt was counted when the delivery was lent, and whoever answers may be too late.
    lent: bool,
}

/// Makes durable what the answers say, as long as it takes. What was given up waits for the next flush, and nobody for it.
pub(super) async fn settle(
    engine: &Arc<Engine>,
    tenant: &TenantId,
    worker: &Declaration,
    taken: Vec<Taken>,
    mut answers: HashMap<String, Handled>,
    micros: u64,
) {
    let settling = Arc::new(Settling::of_own(engine, tenant, &worker.name, &worker.retry));
    let ends = taken.into_iter().map(|one| (settling.end(&one.row, &one.events, &mut answers), one));
    let (failed, ends): (Vec<_>, Vec<_>) = ends.partition(|(end, _)| !end.buried.is_empty());
    for (end, taken) in failed {
        let settling = settling.clone();
        engine.tasks.spawn(async move { settling.give_up(end, taken, micros).await });
    }
    let (ends, _taken): (Vec<End>, Vec<Taken>) = ends.into_iter().unzip();
    settling.land_all(&ends, micros).await;
}

/// A row and its events with their ids.
pub(crate) type RowOf<'a> = (&'a DeliveryRow, &'a [(Uuid, Data)]);

impl Settling {
    /// For deliveries that this node owns.
    pub(crate) fn of_own(
        engine: &Arc<Engine>,
        tenant: &TenantId,
        worker: &str,
        retry: &RetryPolicy,
    ) -> Settling {
        Settling { lent: false, ..Settling::of_lent(engine, tenant, worker, retry) }
    }

    /// Settles rows of this node together, as long as it takes; also what is given up.
    pub(crate) async fn settle_all(
        &self,
        rows: &[RowOf<'_>],
        answers: &mut HashMap<String, Handled>,
        micros: u64,
    ) {
        let ends = rows.iter().map(|(row, events)| self.end(row, events, answers));
        let (failed, ends): (Vec<End>, Vec<End>) = ends.partition(|end| !end.buried.is_empty());
        self.land_all(&ends, micros).await;
        for end in failed {
            let writes = end.writes.clone();
            if flush_patiently(&self.engine, &self.tenant, writes, HoldsUp::Somebody).await {
                self.landed(&end, micros);
            }
        }
    }

    async fn land_all(&self, ends: &[End], micros: u64) {
        if ends.is_empty() {
            return;
        }
        let all: Vec<Write> = ends.iter().flat_map(|end| end.writes.iter().cloned()).collect();
        if self.land(all).await {
            ends.iter().for_each(|end| self.landed(end, micros));
            return;
        }
        // One of them is somebody else's by now: the others count nevertheless.
        if ends.len() > 1 {
            for end in ends {
                if self.land(end.writes.clone()).await {
                    self.landed(end, micros);
                }
            }
        }
    }

    /// For a delivery that was lent to a worker somewhere else.
    pub(crate) fn of_lent(
        engine: &Arc<Engine>,
        tenant: &TenantId,
        worker: &str,
        retry: &RetryPolicy,
    ) -> Settling {
        Settling {
            engine: engine.clone(),
            tenant: tenant.clone(),
            worker: worker.to_owned(),
            retry: *retry,
            now: engine.now(),
            lent: true,
        }
    }

    /// Settles one row. `false` if whoever answers is too late.
    pub(crate) async fn settle_one(
        &self,
        row: &DeliveryRow,
        events: &[(Uuid, Data)],
        mut answers: HashMap<String, Handled>,
    ) -> Result<bool, store::Error> {
        let end = self.end(row, events, &mut answers);
        let commit = Commit { tenant: self.tenant.clone(), writes: end.writes.clone() };
        let outcome = match end.buried.is_empty() {
            true => {
                self.engine.metrics.cost(&commit);
                self.engine.committer.commit(commit).await?
            }
            // Whoever answered waits, and its hand with it.
            false => flush::commit(&self.engine, commit, HoldsUp::Somebody).await?,
        };
        let landed = outcome == Outcome::Committed;
        if landed {
            self.landed(&end, 0);
        }
        Ok(landed)
    }

    /// What a row with a failure in it comes to is committed with the next flush. Until then its room in the lane is taken.
    async fn give_up(&self, end: End, taken: Taken, micros: u64) {
        let holds_up = match taken.row.order_key.is_some() {
            true => HoldsUp::Somebody,
            false => HoldsUp::Nobody,
        };
        if flush_patiently(&self.engine, &self.tenant, end.writes.clone(), holds_up).await {
            self.landed(&end, micros);
        }
        drop(taken);
        super::freed(&self.engine, &self.tenant);
    }

    /// Attempts that were made, this one included.
    fn made(&self, row: &DeliveryRow) -> u32 {
        row.attempt + u32::from(!self.lent)
    }

    fn end(&self, row: &DeliveryRow, events: &[(Uuid, Data)], answers: &mut HashMap<String, Handled>) -> End {
        let mut end = End::default();
        let alone = row.events.count() == 1;
        let mut stays = false;
        for (event, data) in events {
            let key = key_of(*event, &self.worker);
            let answer = answers.remove(&key).unwrap_or_else(|| Handled::retry("the worker gave no answer"));
            let (failure, after) = match answer {
                Handled::Done(emitted) => {
                    end.counts.processed += 1;
                    end.emits |= !emitted.is_empty();
                    let rows = emitted.into_iter().enumerate();
                    end.writes
                        .extend(rows.map(|(at, emit)| self.outbox(row, *event, data, (&key, at), emit)));
                    continue;
                }
                Handled::Retry { failure, after } => (failure, after),
                Handled::Fail(failure) => {
                    self.bury(row, (*event, data), failure, Reason::Refused, &mut end);
                    continue;
                }
            };
            let Some(delay) = self.retry.delay(self.made(row), self.engine.entropy.unit()) else {
                self.bury(row, (*event, data), failure, Reason::RetriesExhausted, &mut end);
                continue;
            };
            stays |= alone;
            let again = self.again(row, *event, alone, failure, delay.max(after.unwrap_or(Span::ZERO)));
            end.counts.retried += 1;
            end.again_at = Some(end.again_at.map_or(again.0, |other| other.min(again.0)));
            end.writes.push(again.1);
        }
        let (id, attempt) = (row.id, row.attempt);
        match (stays, end.again_at) {
            (false, _) => end.writes.insert(0, Write::ConsumeDelivery { id, attempt }),
            (true, Some(visible_at)) if self.lent => {
                end.writes.insert(0, Write::ExtendDelivery { id, attempt, visible_at });
            }
            (true, _) => {}
        }
        end
    }

    /// One alone keeps its row and its place; one of many gets a row of its own.
    fn again(
        &self,
        row: &DeliveryRow,
        event: Uuid,
        alone: bool,
        failure: Failure,
        delay: Span,
    ) -> (Time, Write) {
        let visible_at = self.engine.now().after(delay);
        let (attempt, last_error) = (self.made(row), Some(fault::storable(failure.message).into_bytes()));
        let write = match alone {
            true => Write::RetryDelivery { id: row.id, visible_at, attempt, last_error },
            false => Write::Delivery(Box::new(DeliveryRow {
                id: self.engine.entropy.id(self.now),
                events: [event].into_iter().collect(),
                visible_at,
                attempt,
                last_error,
                owner: None,
                ..row.clone()
            })),
        };
        (visible_at, write)
    }

    fn bury(
        &self,
        row: &DeliveryRow,
        (event, data): (Uuid, &Data),
        failure: Failure,
        reason: Reason,
        end: &mut End,
    ) {
        let reason = if failure.class == Class::Poison { Reason::Poison } else { reason };
        let detail = format!("{}: {}", failure.class.word(), fault::storable(failure.message.clone()));
        let (worker, attempts) = (self.worker.as_str(), self.made(row));
        tracing::warn!(tenant = %self.tenant, worker, attempts, reason = reason.word(), detail, "dead letter");
        let letter = self.engine.entropy.id(self.now);
        let envelope = data.to_bytes();
        let failed = errors::Failure {
            source: "delivery",
            target: worker.to_owned(),
            class: failure.class.word().to_owned(),
            message: fault::storable(failure.message),
            event: Some(event),
            attempts,
            at: self.now,
            ..errors::Failure::default()
        };
        let group = failed.group();
        let given_up = dead_letters::Undelivered { letter, event, envelope, worker, attempts, group };
        end.writes.push(dead_letters::of_delivery(&self.engine, given_up, reason, detail, self.now));
        end.writes.push(Write::Errors(vec![failed.row()]));
        end.buried.push((letter, reason.word()));
        end.counts.dead_lettered += 1;
    }

    /// An emitted event is a row of the outbox: it is published, inside and outside, once this commit is durable.
    fn outbox(
        &self,
        row: &DeliveryRow,
        event: Uuid,
        cause: &Data,
        (key, at): (&str, usize),
        emit: Emit,
    ) -> Write {
        let text = |name: &str| cause.get(name).filter(|value| value.as_str().is_some());
        let parent = text("traceparent");
        let mut entries = vec![
            ("specversion".to_owned(), Data::text("1.0")),
            ("id".to_owned(), Data::text(format!("{key}-{at}"))),
            ("source".to_owned(), Data::text(format!("windlass/workers/{}", self.worker))),
            ("type".to_owned(), Data::text(emit.event_type.clone())),
            ("time".to_owned(), Data::text(self.now.rfc3339())),
            ("tenantid".to_owned(), Data::text(self.tenant.as_str())),
            (
                "traceparent".to_owned(),
                Data::text(trace::child(parent.as_ref().and_then(Data::as_str), event, key)),
            ),
            ("causationid".to_owned(), Data::text(id::show(id::Kind::Event, event))),
            ("datacontenttype".to_owned(), Data::text("application/json")),
        ];
        entries.extend(emit.subject.map(|subject| ("subject".to_owned(), Data::text(subject))));
        entries.extend(text("correlationid").map(|value| ("correlationid".to_owned(), value)));
        entries.push(("data".to_owned(), emit.data));
        Write::Outbox(OutboxRow {
            id: self.engine.entropy.id(self.now),
            key: row.order_key.clone().unwrap_or_else(|| key.to_owned()),
            event_type: emit.event_type,
            event: Data::map(entries).to_bytes(),
            created_at: self.now,
        })
    }

    /// `false` if a row is not this node's any more, or the node stops.
    async fn land(&self, writes: Vec<Write>) -> bool {
        let engine = &self.engine;
        let mut patience = Patience::new();
        loop {
            let commit = Commit { tenant: self.tenant.clone(), writes: writes.clone() };
            engine.metrics.cost(&commit);
            match engine.committer.commit(commit).await {
                Ok(Outcome::Committed) => return true,
                Ok(outcome) => {
                    Metrics::add(&engine.metrics.conflicts);
                    tracing::debug!(tenant = %self.tenant, worker = self.worker, ?outcome, "deliveries not settled");
                    return false;
                }
                Err(error) => {
                    engine.tasks.heed(&error);
                    if !patience.wait(engine).await {
                        return false;
                    }
                }
            }
        }
    }

    fn landed(&self, end: &End, micros: u64) {
        let engine = &self.engine;
        Metrics::add(&engine.metrics.commits);
        let Counts { processed, retried, dead_lettered } = end.counts;
        for (outcome, count) in
            [("processed", processed), ("retried", retried), ("dead-lettered", dead_lettered)]
        {
            if count > 0 {
                engine.metrics.messages(self.tenant.as_str(), &self.worker, outcome, count, micros);
            }
        }
        if end.emits {
            engine.wake.outbox();
        }
        // What had to wait for this one, or comes back at once.
        engine.polled.notify_waiters();
        if let Some(at) = end.again_at {
            engine.wake.deliveries.at(at);
            engine.buses.wake(at);
            engine.webhooks.alarm.at(at);
        }
        for (letter, reason) in &end.buried {
            engine.hub.changed(&self.tenant, "dead-letter", *letter, reason, 1, self.now);
        }
    }
}
