//! What comes of an attempt: the rows that end, come back or are given up, and what is emitted, in one commit.

use super::{
    Taken, key_of,
    once::{self, Keys},
    outcomes::Outcomes,
    terminal::{self, GivenUp},
    watermarks,
};
use crate::{
    dead_letters::{self, Reason, commit_patiently, flush_patiently},
    engine::Engine,
    errors,
    flush::{self, HoldsUp},
    metrics::{Metrics, Of},
    patience::Patience,
    runs,
    subscribers::{self, Subscriber},
    trace,
};
use machine::{Data, TenantId, Time, fault, id, time::Span};
use std::{collections::HashMap, sync::Arc};
use store::{
    Commit, Conflict, Outcome, Write,
    rows::{DeliveryRow, OutboxRow},
};
use uuid::Uuid;
use worker::{Class, Declaration, Effects, Emit, Failure, Handled, RetryPolicy};

/// How long whatever met a moved watermark waits, more or less.
const MOVED_WAIT: Span = Span::from_millis(20);

/// What one row comes to.
#[derive(Default)]
struct End {
    writes: Vec<Write>,
    /// When the next one that comes back is due.
    again_at: Option<Time>,
    emits: bool,
    /// A schedule goes on with it.
    follows: bool,
    buried: Vec<(Uuid, &'static str)>,
    outcomes: Outcomes,
}

impl End {
    /// A run of a worker's schedule has ended: the next may follow it.
    fn follow(&mut self, settling: &Settling, event: Uuid, data: &Data) {
        let schedule = settling.subscriber.as_ref().and_then(|one| one.terms.schedule.as_ref());
        let follows = schedule.and_then(|spec| {
            runs::follows(&settling.engine, &settling.tenant, &settling.worker, spec, event, data)
        });
        self.follows |= follows.is_some();
        self.writes.extend(follows);
    }
}

/// Who settles what.
pub(crate) struct Settling {
    engine: Arc<Engine>,
    tenant: TenantId,
    worker: String,
    /// Not known if the worker was forgotten meanwhile.
    subscriber: Option<Arc<Subscriber>>,
    retry: RetryPolicy,
    now: Time,
    /// The attempt was counted when the delivery was lent, and whoever answers may be too late.
    lent: bool,
}

/// What came of an answer from somewhere else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Settled {
    Done,
    /// The delivery is not the caller's any more.
    Late,
    /// A watermark was moved meanwhile; the delivery comes again.
    Moved,
}

/// A row and its events with their ids.
pub(crate) type RowOf<'a> = (&'a DeliveryRow, &'a [(Uuid, Data)]);

/// What handlers answered, by the keys of the events.
pub(crate) type Answers = HashMap<String, Handled>;

/// Makes durable what the answers say, as long as it takes. What was given up waits for the next flush, and nobody for it.
pub(super) async fn settle(
    engine: &Arc<Engine>,
    tenant: &TenantId,
    worker: &Declaration,
    taken: Vec<Taken>,
    (answers, mut keys, micros): (Answers, Keys, u64),
) {
    let settling = Arc::new(Settling::of_own(engine, tenant, &worker.name, &worker.retry));
    let ends = taken.into_iter().map(|one| (settling.end((&one.row, &one.events), &answers, &mut keys), one));
    let (failed, rest): (Vec<_>, Vec<_>) = ends.partition(|(end, _)| !end.buried.is_empty());
    for (end, taken) in failed {
        let settling = settling.clone();
        engine.tasks.spawn(async move { settling.give_up(end, taken, micros).await });
    }
    let rows: Vec<RowOf<'_>> = rest.iter().map(|(_, one)| (&one.row, one.events.as_slice())).collect();
    settling.land_all(&rows, &answers, &mut keys, micros).await;
}

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
    pub(crate) async fn settle_all(&self, rows: &[RowOf<'_>], answers: &Answers, micros: u64) {
        let mut keys = Keys::default();
        let ends = rows.iter().map(|row| (self.end(*row, answers, &mut keys), *row));
        let (failed, rest): (Vec<_>, Vec<_>) = ends.partition(|(end, _)| !end.buried.is_empty());
        let rest: Vec<RowOf<'_>> = rest.into_iter().map(|(_, row)| row).collect();
        self.land_all(&rest, answers, &mut keys, micros).await;
        for (end, _) in failed {
            let writes = end.writes.clone();
            if flush_patiently(&self.engine, &self.tenant, writes, HoldsUp::Somebody).await {
                self.landed(&end, micros);
            }
        }
    }

    async fn land_all(&self, rows: &[RowOf<'_>], answers: &Answers, keys: &mut Keys, micros: u64) {
        if rows.is_empty() || self.land(rows, answers, keys, micros).await || rows.len() == 1 {
            return;
        }
        // One of them is somebody else's by now: the others count nevertheless.
        for row in rows {
            self.land(&[*row], answers, keys, micros).await;
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
            subscriber: engine.subscribers.find(tenant, worker),
            retry: *retry,
            now: engine.now(),
            lent: true,
        }
    }

    /// Settles one row.
    pub(crate) async fn settle_one(
        &self,
        row: &DeliveryRow,
        events: &[(Uuid, Data)],
        answers: Answers,
        micros: u64,
    ) -> Result<Settled, store::Error> {
        let mut keys = Keys::default();
        loop {
            let end = self.end((row, events), &answers, &mut keys);
            let commit = Commit { tenant: self.tenant.clone(), writes: end.writes.clone() };
            let outcome = match end.buried.is_empty() {
                true => {
                    self.engine.metrics.cost(&commit);
                    self.engine.committer.commit(commit).await?
                }
                // Whoever answered waits, and its hand with it.
                false => flush::commit(&self.engine, commit, HoldsUp::Somebody).await?,
            };
            match outcome {
                Outcome::Committed => {
                    self.landed(&end, micros);
                    return Ok(Settled::Done);
                }
                Outcome::Conflict(Conflict::Duplicate) => keys.learn(&self.engine, &self.tenant).await?,
                Outcome::Conflict(Conflict::Version) => {
                    self.put_back(&[(row, events)]).await;
                    return Ok(Settled::Moved);
                }
                _ => return Ok(Settled::Late),
            }
        }
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

    fn end(&self, (row, events): RowOf<'_>, answers: &Answers, keys: &mut Keys) -> End {
        let mut end = End::default();
        let alone = row.events.count() == 1;
        let mut stays = false;
        for (event, data) in events {
            let key = key_of(*event, &self.worker);
            let (failure, after) = match answers.get(&key) {
                None => (unanswered(), None),
                Some(Handled::Done(effects)) => {
                    self.effects(row, (*event, data, &key), effects, keys, &mut end);
                    continue;
                }
                Some(Handled::Retry { failure, after }) => (failure.clone(), *after),
                Some(Handled::Fail(failure)) => {
                    self.bury(row, (*event, data), failure.clone(), Reason::Refused, &mut end);
                    continue;
                }
            };
            let Some(delay) = self.retry.delay(self.made(row), self.engine.entropy.unit()) else {
                self.bury(row, (*event, data), failure, Reason::RetriesExhausted, &mut end);
                continue;
            };
            stays |= alone;
            let again = self.again(row, *event, alone, failure, delay.max(after.unwrap_or(Span::ZERO)));
            end.outcomes.add(data, "retried");
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

    /// What follows from an event that is done: nothing if another with its domain key was first.
    fn effects(
        &self,
        row: &DeliveryRow,
        (event, data, key): (Uuid, &Data, &str),
        effects: &Effects,
        keys: &mut Keys,
        end: &mut End,
    ) {
        let domain = self.subscriber.as_ref().and_then(|one| one.domain_key(data));
        if let Some(domain) = domain
            && !keys.claim(once::of_domain(&domain), self.now, &mut end.writes)
        {
            // Another event with the same domain key was first.
            end.outcomes.add(data, "duplicate");
            return;
        }
        end.outcomes.add(data, "processed");
        end.writes.extend(effects.moves.iter().map(|to| watermarks::moved(&self.worker, to, self.now)));
        end.follow(self, event, data);
        for claim in &effects.claims {
            keys.claim(once::of_claim(claim, &self.worker), self.now, &mut end.writes);
        }
        for (at, emit) in effects.emits.iter().enumerate() {
            let once = emit.once.as_ref().map(|key| once::of_claim(key, &self.worker));
            if once.is_none_or(|once| keys.claim(once, self.now, &mut end.writes)) {
                end.emits = true;
                let write = self.outbox(row, event, data, (key, format!("{key}-{at}")), emit);
                end.writes.push(write);
            }
        }
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
        let (id, owner) = (row.id, row.owner);
        let write = match alone {
            true => Write::RetryDelivery { id, owner, visible_at, attempt, last_error },
            false => Write::Delivery(Box::new(DeliveryRow {
                id: self.engine.entropy.id(self.now),
                events: [event].into_iter().collect(),
                visible_at,
                attempt,
                last_error,
                owner: None,
                traced: row.traced.clone().by_event(),
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
        if let Some(subscriber) = &self.subscriber {
            let given_up =
                GivenUp { worker, letter, event, reason: reason.word(), detail: &detail, attempts };
            let key = key_of(event, worker);
            for (at, emit) in terminal::emits(&subscriber.terms.terminal, data, &given_up).iter().enumerate()
            {
                end.emits = true;
                let id = format!("{}-{at}", id::show(id::Kind::DeadLetter, letter));
                end.writes.push(self.outbox(row, event, data, (&key, id), emit));
            }
        }
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
        end.follow(self, event, data);
        end.buried.push((letter, reason.word()));
        end.outcomes.add(data, "dead-lettered");
    }

    /// An emitted event is a row of the outbox: it is published, inside and outside, once this commit is durable.
    fn outbox(
        &self,
        row: &DeliveryRow,
        event: Uuid,
        cause: &Data,
        (key, id): (&str, String),
        emit: &Emit,
    ) -> Write {
        let text = |name: &str| cause.get(name).filter(|value| value.as_str().is_some());
        let parent = text("traceparent");
        let mut entries = vec![
            ("specversion".to_owned(), Data::text("1.0")),
            ("id".to_owned(), Data::text(id)),
            ("source".to_owned(), Data::text(subscribers::source_of(&self.worker))),
            ("type".to_owned(), Data::text(emit.event_type.clone())),
            ("time".to_owned(), Data::text(self.now.rfc3339())),
            ("tenantid".to_owned(), Data::text(self.tenant.as_str())),
            (
                "traceparent".to_owned(),
                Data::text(trace::child(parent.as_ref().and_then(Data::as_str), event, key)),
            ),
            ("causationid".to_owned(), Data::text(machine::id::show(machine::id::Kind::Event, event))),
            (machine::event::HOPS.to_owned(), Data::int(i64::from(machine::event::hops(cause)) + 1)),
            ("datacontenttype".to_owned(), Data::text("application/json")),
        ];
        entries
            .extend(emit.subject.iter().map(|subject| ("subject".to_owned(), Data::text(subject.clone()))));
        entries.extend(text("correlationid").map(|value| ("correlationid".to_owned(), value)));
        entries.push(("data".to_owned(), emit.data.clone()));
        Write::Outbox(OutboxRow {
            id: self.engine.entropy.id(self.now),
            key: row.order_key.clone().unwrap_or_else(|| key.to_owned()),
            event_type: emit.event_type.clone(),
            event: Data::map(entries).to_bytes(),
            created_at: self.now,
        })
    }

    /// `false` if a row is not this node's any more, or the node stops.
    async fn land(&self, rows: &[RowOf<'_>], answers: &Answers, keys: &mut Keys, micros: u64) -> bool {
        let engine = &self.engine;
        let mut patience = Patience::new();
        loop {
            keys.begin();
            let ends: Vec<End> = rows.iter().map(|row| self.end(*row, answers, keys)).collect();
            let writes = ends.iter().flat_map(|end| end.writes.iter().cloned()).collect();
            let commit = Commit { tenant: self.tenant.clone(), writes };
            engine.metrics.cost(&commit);
            let learnt = match engine.committer.commit(commit).await {
                Ok(Outcome::Committed) => {
                    ends.iter().for_each(|end| self.landed(end, micros));
                    return true;
                }
                Ok(Outcome::Conflict(Conflict::Duplicate)) => keys.learn(engine, &self.tenant).await,
                Ok(Outcome::Conflict(Conflict::Version)) => {
                    self.put_back(rows).await;
                    return true;
                }
                Ok(outcome) => {
                    Metrics::add(&engine.metrics.conflicts);
                    tracing::debug!(tenant = %self.tenant, worker = self.worker, ?outcome, "deliveries not settled");
                    return false;
                }
                Err(error) => Err(error),
            };
            if let Err(error) = learnt {
                engine.tasks.heed(&error);
                if !patience.wait(engine).await {
                    return false;
                }
            }
        }
    }

    /// A watermark was moved by somebody else: the rows come again soon, and no attempt is counted.
    async fn put_back(&self, rows: &[RowOf<'_>]) {
        let wait = Span((MOVED_WAIT.0 as f64 * (0.5 + self.engine.entropy.unit())) as i64);
        let visible_at = self.engine.now().after(wait);
        let write = |(row, _): &RowOf<'_>| Write::RetryDelivery {
            id: row.id,
            owner: row.owner,
            visible_at,
            attempt: row.attempt,
            last_error: Some(b"a watermark was moved by somebody else".to_vec()),
        };
        Metrics::add(&self.engine.metrics.conflicts);
        commit_patiently(&self.engine, &self.tenant, rows.iter().map(write).collect()).await;
        self.engine.wake.deliveries.at(visible_at);
        self.engine.polled.notify_waiters();
    }

    fn landed(&self, end: &End, micros: u64) {
        let engine = &self.engine;
        Metrics::add(&engine.metrics.commits);
        for (event_type, outcome, count) in end.outcomes.iter() {
            let of = Of { tenant: self.tenant.as_str(), target: &self.worker, event_type, outcome };
            engine.metrics.messages(of, count, micros);
        }
        if end.emits {
            engine.wake.outbox();
        }
        if end.follows {
            engine.wake.slots.at(engine.now());
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

fn unanswered() -> Failure {
    Failure { class: Class::Transient, message: "the worker gave no answer".to_owned() }
}
