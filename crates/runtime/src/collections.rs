//! What an event is to schedules: it starts an instance, or is collected until there are enough.
//!
//! [`offer`] decides for every schedule that wants the event. What follows is written in the commit that publishes it,
//! guarded by the version of what was collected, so that an event counts once and is not lost on the way.

use crate::{
    api::Refusal,
    asked,
    engine::Engine,
    refusal, rows, schedules,
    turn::{self, Undecided},
};
use machine::{
    Command, Data, Program, Subject, TenantId, Time,
    collect::{self, Offered},
    command::Trace,
    id,
    ir::{Consume, Strategy, When},
    state::Listening,
    time::Span,
};
use std::{collections::BTreeSet, sync::Arc};
use store::{
    Write,
    rows::{EventRow, SlotRow},
};
use tokio::sync::{Mutex, MutexGuard};
use uuid::Uuid;

/// Schedules that one event may start; an event that more want is refused.
const STARTS_MAX: usize = 100;
/// Schedules that share a turn are as many as there are, divided by this.
const TURNS: usize = 64;

/// Lets events that are collected by the same schedule come one after the other. Only saves conflicts: what keeps
/// collections right is the guard of the commit.
pub(crate) struct Collecting {
    turns: [Mutex<()>; TURNS],
}

impl Default for Collecting {
    fn default() -> Collecting {
        Collecting { turns: [const { Mutex::const_new(()) }; TURNS] }
    }
}

impl Collecting {
    /// Waits for the turns of all schedules that would collect the event, always in the same order.
    pub(crate) async fn turn(&self, wanting: &[Wanting]) -> Vec<MutexGuard<'_, ()>> {
        let turns =
            wanting.iter().filter(|one| one.collects).map(|one| one.schedule.as_u128() as usize % TURNS);
        let mut held = Vec::new();
        for turn in turns.collect::<BTreeSet<_>>() {
            held.push(self.turns[turn].lock().await);
        }
        held
    }
}

/// A schedule that wants events of this type.
pub(crate) struct Wanting {
    schedule: Uuid,
    /// It takes more than one event to start an instance.
    collects: bool,
}

/// An instance that the event starts.
pub(crate) struct Starting {
    pub(crate) subject: Subject,
    pub(crate) program: Arc<Program>,
    pub(crate) decision: machine::Decision,
}

/// What follows from an event.
#[derive(Default)]
pub(crate) struct Caused {
    pub(crate) started: Vec<Starting>,
    /// Schedules that took it and have not enough yet.
    pub(crate) collected: u64,
    /// What changes about collections.
    pub(crate) writes: Vec<Write>,
}

/// The active schedules that want events of this type.
pub(crate) async fn wanting(
    engine: &Arc<Engine>,
    tenant: &TenantId,
    row: &EventRow,
) -> Result<Vec<Wanting>, Refusal> {
    let schedules = asked::schedules_on(engine, tenant, &row.event_type, STARTS_MAX + 1).await;
    let schedules = schedules.map_err(refusal::of_store)?;
    if schedules.len() > STARTS_MAX {
        let detail = format!("more than {STARTS_MAX} schedules want this event");
        return Err(Refusal::Invalid { code: "invalid-event", detail, problems: vec![] });
    }
    let mut wanting = Vec::with_capacity(schedules.len());
    for schedule in schedules {
        if let Some(program) = active(engine, tenant, schedule).await? {
            wanting.push(Wanting { schedule, collects: strategy(&program).is_some_and(collects) });
        }
    }
    Ok(wanting)
}

/// The definition that a schedule follows, if it is to start anything.
async fn active(
    engine: &Arc<Engine>,
    tenant: &TenantId,
    schedule: Uuid,
) -> Result<Option<Arc<Program>>, Refusal> {
    match schedules::load(engine, tenant, schedule).await {
        Ok((row, program)) => Ok((row.status == "active").then_some(program)),
        Err(Refusal::NotFound(_)) => Ok(None),
        Err(refusal) => Err(refusal),
    }
}

fn strategy(program: &Program) -> Option<&Strategy> {
    match program.ir.schedule.as_ref().map(|schedule| &schedule.when) {
        Some(When::On(strategy)) => Some(strategy),
        _ => None,
    }
}

fn collects(strategy: &Strategy) -> bool {
    strategy.until.is_some() || (strategy.consume == Consume::All && strategy.filters.len() > 1)
}

/// Decides what follows from the event for every schedule that wants it.
pub(crate) async fn offer(
    engine: &Arc<Engine>,
    tenant: &TenantId,
    wanting: &[Wanting],
    row: &EventRow,
    event: &Data,
    now: Time,
) -> Result<Caused, Refusal> {
    let mut caused = Caused::default();
    for Wanting { schedule, .. } in wanting {
        let offering = Offering { engine, tenant, schedule: *schedule, row, event, now };
        offering.decide(&mut caused).await?;
    }
    Ok(caused)
}

/// One event and one schedule that wants it.
struct Offering<'a> {
    engine: &'a Arc<Engine>,
    tenant: &'a TenantId,
    schedule: Uuid,
    row: &'a EventRow,
    event: &'a Data,
    now: Time,
}

impl Offering<'_> {
    async fn decide(&self, caused: &mut Caused) -> Result<(), Refusal> {
        let Offering { engine, tenant, schedule, .. } = *self;
        // Read before the definition: a version deployed in between raises this one, and the commit is refused.
        let before = engine.store.collection(tenant, schedule).await.map_err(refusal::of_store)?;
        let Some(program) = active(engine, tenant, schedule).await? else { return Ok(()) };
        let Some(to) = strategy(&program) else { return Ok(()) };
        let open = self.read(&before.open, caused);
        let had_any = !before.open.is_empty();
        let Offered { taken, open, complete, given_up, failed } = self.offered(&program, to, open).await?;
        if let Some(fault) = failed {
            let why = fault.detail.as_deref().unwrap_or("it faulted");
            tracing::warn!(%tenant, %schedule, why, "an event was left out: `until` cannot be computed with it");
            let shown = format!(
                "event {} was left out: `until` cannot be computed with it: {why}",
                self.row.event_id
            );
            caused.writes.push(self.ledger(shown));
        }
        if !taken {
            return Ok(());
        }
        if had_any || !open.is_empty() {
            let open = if open.is_empty() { vec![] } else { rows::to_json(&open) };
            caused.writes.push(Write::PutCollection { schedule, open, expected_version: before.version });
        }
        if given_up > 0 {
            tracing::warn!(%tenant, %schedule, given_up, "a schedule gave up what it had collected");
            let events = if given_up == 1 { "event was" } else { "events were" };
            let why = format!("{given_up} {events} given up: more were collected than a schedule keeps");
            caused.writes.push(self.ledger(why));
        }
        match complete {
            None => caused.collected += 1,
            Some(events) => caused.started.extend(self.start(program, events).await?),
        }
        Ok(())
    }

    /// The collections under way. What cannot be read must not keep events from being published, nor go silently.
    fn read(&self, open: &[u8], caused: &mut Caused) -> Vec<Listening> {
        if open.is_empty() {
            return vec![];
        }
        serde_json::from_slice(open).unwrap_or_else(|error| {
            let Offering { tenant, schedule, .. } = self;
            tracing::error!(%tenant, %schedule, %error, "what a schedule has collected cannot be read");
            caused
                .writes
                .push(self.ledger(format!("what was collected cannot be read and is given up: {error}")));
            vec![]
        })
    }

    async fn offered(
        &self,
        program: &Program,
        to: &Strategy,
        open: Vec<Listening>,
    ) -> Result<Offered, Undecided> {
        let mut answers = Vec::new();
        loop {
            match collect::offer(program, to, open.clone(), self.event, &answers) {
                Ok(offered) => return Ok(offered),
                Err(evaluation) => match turn::evaluated(self.engine, self.tenant, *evaluation).await {
                    Some(answer) => answers.push(answer),
                    None => return Err(Undecided::Stopping),
                },
            }
        }
    }

    async fn start(&self, program: Arc<Program>, events: Data) -> Result<Option<Starting>, Refusal> {
        let Offering { engine, tenant, now, .. } = *self;
        let subject = engine.subject(tenant, id::started_by(self.derived(), now));
        let text = |name: &str| self.event.get(name).and_then(|text| text.as_str().map(str::to_owned));
        let trace = Trace {
            traceparent: text("traceparent"),
            tracestate: None,
            correlation_id: text("correlationid"),
            hops: Some(machine::event::hops(self.event)),
        };
        let command = Command::Start { input: events, business: None, trace, parent: None };
        match turn::decide_on(engine, &program, &subject, None, &command, now).await {
            Ok(decision) => Ok(decision.map(|decision| Starting { subject, program, decision })),
            // Not to be acknowledged without the instance it is to start.
            Err(stopping @ Undecided::Stopping) => Err(stopping.into()),
            Err(Undecided::Broken(detail)) => {
                tracing::warn!(%tenant, detail, "an event could not start an instance");
                Ok(None)
            }
        }
    }

    /// What stands for (schedule, event) in the id of the started instance.
    fn derived(&self) -> Uuid {
        use sha2::{Digest, Sha256};
        let hash = Sha256::new().chain_update(self.schedule.as_bytes());
        let hash = hash.chain_update(self.row.source.as_bytes()).chain_update([0]);
        let digest = hash.chain_update(self.row.event_id.as_bytes()).finalize();
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&digest[..16]);
        uuid::Builder::from_custom_bytes(bytes).into_uuid()
    }

    fn ledger(&self, detail: String) -> Write {
        Write::Slot(SlotRow {
            schedule: self.schedule,
            slot: self.now,
            outcome: "failed".to_owned(),
            count: 1,
            instance: None,
            late: Span::ZERO,
            at: self.now,
            detail: Some(detail),
        })
    }
}
