//! Events addressed to nobody: publishing them, and what instances and schedules want of them.
//!
//! Publishing is one commit: the event, a signal for every wait that wants it, and every instance it starts. Matching
//! happens inside the store's transaction, so an event and a wait that begin at the same moment do not miss each
//! other. A signal only names its event; it is read when the signal is delivered.

use crate::{
    addressing::{self, Addressed},
    api::{Published, Refusal},
    collections::{self, Caused},
    engine::Engine,
    errors, event_types,
    metrics::Metrics,
    patience::Patience,
    refusal,
    rows::{self, Born},
    spans, trace, turn,
};
use machine::{
    Data, Program, State, TenantId, Time,
    command::ENVELOPE_MAX,
    correlation, envelope, event,
    ir::When,
    state::{Interest, WaitKind},
    time::Span,
};
use std::sync::{Arc, atomic::Ordering};
use store::{
    Commit, Conflict, Outcome, Write,
    rows::{EventRow, Subscriber, SubscriptionRow},
};

/// Times an event is offered again when somebody else changed what was collected meanwhile.
const TRIES_MAX: i64 = 8;
/// The longest id, source and type of an event.
const ATTRIBUTE_BYTES_MAX: usize = 1024;
/// How long the row of an event stays: so long publishing it again has no second effect.
const RECORD_SPAN: Span = Span::from_secs(7 * 86_400);
/// What an event that follows from too many others is refused with.
pub(crate) const LOOP: &str = "event-loop";
/// Expired events deleted at a time.
const PURGE_MAX: usize = 1_000;

/// Publishes one event; with the same source and id again it has no second effect.
pub(crate) async fn publish(
    engine: &Arc<Engine>,
    tenant: &TenantId,
    event: Data,
) -> Result<Published, Refusal> {
    publish_of(engine, tenant, event, None).await
}

/// The same for an event that an instance or a worker emitted: it is carried out as well.
pub(crate) async fn publish_of(
    engine: &Arc<Engine>,
    tenant: &TenantId,
    event: Data,
    emitted_by: Option<&str>,
) -> Result<Published, Refusal> {
    is_open(engine, tenant)?;
    let now = engine.now_of(tenant);
    let (mut row, event) = read(engine, tenant, event, now)?;
    row.emitted_by = emitted_by.map(str::to_owned);
    if let Err(refusal) = event_types::check(engine, tenant, &row.event_type, &event).await {
        // One that was published before the schema became what it is was taken, and still is.
        return published_before(engine, tenant, &row).await?.ok_or(refusal);
    }
    let wanting = collections::wanting(engine, tenant, &row).await?;
    let _turn = engine.collecting.turn(&wanting).await;
    for attempt in 0..TRIES_MAX {
        let caused =
            collections::offer(engine, tenant, &wanting, &row, &event, now.after(Span(attempt))).await?;
        let publishing = Publishing {
            engine: engine.clone(),
            tenant: tenant.clone(),
            row: row.clone(),
            event: event.clone(),
            caused,
            now,
        };
        if let Some(published) = crate::starts::to_the_end(engine, publishing.commit()).await? {
            return Ok(published);
        }
    }
    Err(Refusal::Busy)
}

/// Whether anything is taken at all now.
pub(crate) fn is_open(engine: &Engine, tenant: &TenantId) -> Result<(), Refusal> {
    if !engine.is_accepting() {
        return Err(Refusal::Unavailable("the node is stopping".to_owned()));
    }
    if engine.committer.is_full(tenant) { Err(Refusal::Busy) } else { Ok(()) }
}

/// Checks an event in either of its forms and makes it a row.
pub(crate) fn read(
    engine: &Engine,
    tenant: &TenantId,
    event: Data,
    now: Time,
) -> Result<(EventRow, Data), Refusal> {
    let invalid = |detail: String| Refusal::Invalid { code: "invalid-event", detail, problems: vec![] };
    let event = match envelope::is_envelope(&event) {
        true => envelope::to_cloud_event(&event).map_err(invalid)?,
        false => event,
    };
    let Some(mut entries) = event.entries() else {
        return Err(invalid("a CloudEvent is an object".to_owned()));
    };
    let text = |name: &str| -> Result<String, Refusal> {
        let found = event.get(name);
        match found.as_ref().and_then(Data::as_str) {
            Some(text) if !text.is_empty() && text.len() <= ATTRIBUTE_BYTES_MAX => Ok(text.to_owned()),
            _ => Err(invalid(format!(
                "the CloudEvent needs `{name}`, a text of 1 to {ATTRIBUTE_BYTES_MAX} bytes"
            ))),
        }
    };
    let (event_id, source, event_type) = (text("id")?, text("source")?, text("type")?);
    if text("specversion")? != "1.0" {
        return Err(invalid("only `specversion` 1.0 is known here".to_owned()));
    }
    if event.get("tenantid").is_some_and(|named| named.as_str() != Some(tenant.as_str())) {
        return Err(invalid("`tenantid` names another tenant than the one it is published to".to_owned()));
    }
    let (hops, hops_max) = (event::hops(&event), engine.options.hops_max);
    if hops > hops_max {
        let detail = format!(
            "{hops} emitted events follow each other up to this one, more than the {hops_max} allowed: is it a loop?"
        );
        return Err(Refusal::Invalid { code: LOOP, detail, problems: vec![] });
    }
    if event.get("time").is_none() {
        entries.push(("time".to_owned(), Data::text(now.rfc3339())));
    }
    let event = Data::map(entries);
    let bytes = event.to_bytes();
    if bytes.len() > ENVELOPE_MAX {
        let detail = format!("the event has {} bytes, more than the {ENVELOPE_MAX} allowed", bytes.len());
        return Err(Refusal::Invalid { code: "event-too-large", detail, problems: vec![] });
    }
    let row = EventRow {
        id: engine.entropy.id(now),
        source,
        event_id,
        event_type,
        received_at: now,
        visible_at: engine.now(),
        kept_until: Some(now.after(engine.options.events_kept)),
        expires_at: engine.now().after(RECORD_SPAN.max(engine.options.events_kept)),
        told: 0,
        taken: 0,
        started: 0,
        collected: 0,
        delivered: 0,
        emitted_by: None,
        traced: trace::traced(&event),
        event: bytes,
    };
    Ok((row, event))
}

struct Publishing {
    engine: Arc<Engine>,
    tenant: TenantId,
    row: EventRow,
    event: Data,
    caused: Caused,
    now: Time,
}

impl Publishing {
    /// Nothing if what was collected has changed meanwhile: the event is to be offered again.
    async fn commit(mut self) -> Result<Option<Published>, Refusal> {
        let engine = self.engine.clone();
        self.row.started = self.caused.started.len() as u64;
        self.row.collected = self.caused.collected;
        if self.row.started + self.row.collected > 0 {
            self.row.kept_until = None;
        }
        let mut addressed = [(self.row.clone(), std::mem::take(&mut self.event))];
        let deliveries = addressing::address(&engine, &self.tenant, &mut addressed);
        let [(row, _)] = addressed;
        let mut writes = vec![Write::Publish(Box::new(row))];
        deliveries.write(&mut writes);
        writes.append(&mut self.caused.writes);
        let mut born = Vec::new();
        for start in &self.caused.started {
            let change = rows::Change {
                engine: &engine,
                subject: &start.subject,
                program: &start.program,
                before: None,
                decision: &start.decision,
                signal: None,
                failed_call: None,
                moved: false,
                now: self.now,
            };
            born.push(change.write(&mut writes).await.map_err(refusal::of_store)?);
        }
        errors::fold(&mut writes);
        let commit = Commit { tenant: self.tenant.clone(), writes };
        engine.metrics.cost(&commit);
        match self.settle(commit).await? {
            Outcome::Committed => Ok(Some(self.landed(born, deliveries).await)),
            Outcome::Conflict(Conflict::Duplicate) => self.known().await.map(Some),
            // A collection, or the ledger's row of one that is given up.
            Outcome::Conflict(Conflict::Version | Conflict::Exists) => Ok(None),
            Outcome::Conflict(conflict @ Conflict::Gone) => {
                let detail = format!("{conflict:?}");
                Err(Refusal::Conflict { code: "conflict", detail, existing: None })
            }
            Outcome::Rejected(detail) => {
                Err(Refusal::Invalid { code: "refused-by-store", detail, problems: vec![] })
            }
        }
    }

    /// Commits; an unknown outcome is read back by source and id before it is tried again.
    async fn settle(&self, commit: Commit) -> Result<Outcome, Refusal> {
        let engine = &self.engine;
        let mut patience = Patience::new();
        loop {
            match engine.committer.commit(commit.clone()).await {
                Err(store::Error::Unknown(_)) => {}
                other => return other.map_err(refusal::of_store),
            }
            loop {
                match engine.store.event_of(&self.tenant, &self.row.source, &self.row.event_id).await {
                    Ok(Some(there)) if there.id == self.row.id => return Ok(Outcome::Committed),
                    Ok(Some(_)) => return Ok(Outcome::Conflict(Conflict::Duplicate)),
                    Ok(None) => break,
                    Err(error) => {
                        if !patience.wait(engine).await {
                            return Err(refusal::of_store(error));
                        }
                    }
                }
            }
        }
    }

    async fn landed(self, born: Vec<Born>, deliveries: Addressed) -> Published {
        let engine = &self.engine;
        Metrics::add(&engine.metrics.commits);
        engine.keeps_events.store(true, Ordering::Release);
        spans::of_event(engine, &self.tenant, &self.row);
        let started = self.caused.started.iter().map(|start| start.subject.instance).collect();
        for (start, born) in self.caused.started.iter().zip(born) {
            Metrics::add(&engine.metrics.instances_started);
            turn::after(engine, &start.subject, None, &start.decision.state, 1, self.now);
            born.dispatch(engine, &start.subject);
        }
        // Signals of the waits it was told to are backlog.
        engine.backlog();
        deliveries.dispatch(engine, &self.tenant);
        Published { id: self.row.id, replayed: false, started }
    }

    async fn known(&self) -> Result<Published, Refusal> {
        let there = published_before(&self.engine, &self.tenant, &self.row).await?;
        there.ok_or_else(|| Refusal::Unavailable("the event moved; retry".to_owned()))
    }
}

/// What is answered for an event of which there is one with the same source and id.
async fn published_before(
    engine: &Engine,
    tenant: &TenantId,
    row: &EventRow,
) -> Result<Option<Published>, Refusal> {
    let there = engine.store.event_of(tenant, &row.source, &row.event_id).await;
    let there = there.map_err(refusal::of_store)?;
    Ok(there.map(|there| Published { id: there.id, replayed: true, started: vec![] }))
}

/// What a decision changes about the subscriptions of its instance. `true` if it begins to listen.
pub(crate) fn subscribe(change: &rows::Change<'_>, visible_at: Time, writes: &mut Vec<Write>) -> bool {
    let program = change.program;
    let wants = |state: &State| -> Vec<(u64, Vec<Interest>)> {
        let waits = state.waits.iter().filter(|wait| wait.kind == WaitKind::Event);
        waits.map(|wait| (wait.token, wait.interests(program, state))).collect()
    };
    let before = change.before.map(|(state, _)| wants(state)).unwrap_or_default();
    let after = wants(&change.decision.state);
    let instance = change.subject.instance;
    for (token, _) in before.iter().filter(|(token, _)| after.iter().all(|(other, _)| other != token)) {
        writes.push(Write::Unsubscribe { subscriber: Subscriber::Listen { instance, token: *token } });
    }
    let mut begins = false;
    for one in after.into_iter().filter(|one| !before.contains(one)) {
        let (token, interests) = one;
        begins = true;
        writes.push(Write::Subscribe {
            subscriber: Subscriber::Listen { instance, token },
            wants: interests.iter().map(subscription).collect(),
            now: change.now,
            visible_at,
        });
    }
    begins
}

fn subscription(interest: &Interest) -> SubscriptionRow {
    let key = interest.key.as_ref();
    let key = key.and_then(|key| Some((correlation::path(&key.from)?, correlation::key(&key.value)?)));
    SubscriptionRow { event_type: interest.event_type.clone(), key }
}

/// What a schedule that events start wants, by type.
pub(crate) fn wanted_types(program: &Program) -> Vec<SubscriptionRow> {
    let Some(When::On(strategy)) = program.ir.schedule.as_ref().map(|schedule| &schedule.when) else {
        return vec![];
    };
    let mut wants: Vec<SubscriptionRow> = Vec::new();
    for filter in strategy.all_filters() {
        let literal = filter.with.iter().find_map(|(name, value)| match value {
            machine::ir::Template::Literal(value) if name == "type" => value.as_str().map(str::to_owned),
            _ => None,
        });
        let want = SubscriptionRow { event_type: literal.filter(|text| !event::is_pattern(text)), key: None };
        if !wants.contains(&want) {
            wants.push(want);
        }
    }
    if strategy.filters.is_empty() {
        wants.push(SubscriptionRow::default());
    }
    wants
}

/// Deletes events whose time is over, a bounded number at a time.
pub(crate) async fn purge(engine: &Engine) -> Result<(), store::Error> {
    while engine.store.purge_events(engine.now(), PURGE_MAX).await? == PURGE_MAX as u64 {
        tokio::task::yield_now().await;
    }
    Ok(())
}
