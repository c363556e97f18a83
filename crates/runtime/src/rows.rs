//! Turns a decision into rows, and hands rows born on this node to its pumps once they are durable.

mod kin;

pub(crate) use kin::parent_closed;

use crate::{dead_letters, engine::Engine, errors, events, lanes::Reservation, lost, slots, telling, turn};
use machine::{
    Command, Decision, Effect, Program, State, Subject, TenantId, Time,
    command::{RUNTIME_PROVIDER, SignalEnvelope, SignalType, Task},
    id,
    ir::When,
    snapshot::{self, SCHEMA_VERSION},
    state::Status,
};
use std::sync::{Arc, atomic::Ordering};
use store::{Write, rows::*};
use tokio::sync::OwnedSemaphorePermit;
use uuid::Uuid;

/// One decision about to be written.
pub(crate) struct Change<'a> {
    pub(crate) engine: &'a Engine,
    pub(crate) subject: &'a Subject,
    /// The version the instance goes on in.
    pub(crate) program: &'a Program,
    /// True if it was in another one before.
    pub(crate) moved: bool,
    /// `None` for a start.
    pub(crate) before: Option<(&'a State, i64)>,
    pub(crate) decision: &'a Decision,
    pub(crate) signal: Option<Uuid>,
    /// The call whose failure the decision is about.
    pub(crate) failed_call: Option<&'a CallRow>,
    pub(crate) now: Time,
}

/// Rows of this commit that this node will work on itself.
#[derive(Default)]
pub(crate) struct Born {
    pub(crate) state_json: Vec<u8>,
    calls: Vec<(CallRow, Reservation<CallRow>)>,
    continues: Vec<(SignalRow, OwnedSemaphorePermit)>,
    /// For other instances.
    signals: Vec<(SignalRow, OwnedSemaphorePermit)>,
    /// Tokens of calls that are no longer wanted.
    dropped: Vec<u64>,
    tasks: Vec<(Uuid, &'static str, i64)>,
    /// Due time of the earliest timer.
    timer: Option<Time>,
    /// When the schedule that waited for the instance's end is due again.
    slot: Option<Time>,
    /// Rows were left to the backlog because the queue is full.
    backlog: bool,
    /// Signals about events that came before may be there.
    heard: bool,
    emitted: bool,
    /// The decision leaves a failure behind that nobody handled, and the commit its record.
    pub(crate) failed: bool,
}

impl Change<'_> {
    pub(crate) async fn write(&self, writes: &mut Vec<Write>) -> Result<Born, store::Error> {
        let version = self.before.map_or(1, |(_, version)| version + 1);
        let shot = snapshot::write(self.program, &self.decision.state);
        let mut born = Born { state_json: shot.json.clone(), ..Born::default() };
        let state = Box::new(self.state_row(version, shot));
        match self.before {
            None => writes.push(Write::CreateInstance { instance: Box::new(self.instance_row()), state }),
            Some((before, _)) => {
                writes.push(Write::UpdateState(state));
                writes.extend(self.projection(before));
                writes.extend(self.moved.then(|| Write::MoveInstance {
                    instance: self.subject.instance,
                    definition_version: self.program.ir.version.clone(),
                }));
            }
        }
        let events = serde_json::to_vec(&self.decision.events).expect("events are plain JSON");
        let instance = self.subject.instance;
        writes.push(Write::History(HistoryRow { instance, version, at: self.now, events }));
        for effect in &self.decision.effects {
            self.effect(effect, version, writes, &mut born).await?;
        }
        self.follow(writes, &mut born);
        let failures = errors::of(self);
        born.failed = !failures.is_empty();
        writes.extend(failures.into_iter().map(|failure| Write::Errors(vec![failure.row()])));
        let begins = events::subscribe(self, self.real(self.now), writes);
        // Events that came before the listening are told by backlog signals, if any are kept.
        born.heard |= begins && self.engine.keeps_events.load(Ordering::Acquire);
        Ok(born)
    }

    async fn effect(
        &self,
        effect: &Effect,
        version: i64,
        writes: &mut Vec<Write>,
        born: &mut Born,
    ) -> Result<(), store::Error> {
        let instance = self.subject.instance;
        match effect {
            Effect::Call(call) => writes.push(self.call(call, born)),
            Effect::Timer { token, due_at, signal_type } => {
                let envelope = self.envelope(*signal_type, *token, version, Some(*due_at));
                // Another node may know better what time it is, and must not find the timer due early.
                let due_at = self.real(*due_at).after(self.engine.clock.doubt());
                born.timer = Some(born.timer.map_or(due_at, |due| due.min(due_at)));
                writes.push(self.timer(*token, due_at, &envelope));
            }
            Effect::Continue { token } => {
                let envelope = self.envelope(SignalType::InternalContinue, *token, version, None);
                writes.push(self.continuation(&envelope, born));
            }
            Effect::Task(task) => self.task(task, writes, born),
            Effect::Emit { id, event } => {
                born.emitted = true;
                writes.push(self.event(*id, event));
            }
            Effect::DeadLetter(call) => {
                let group = self.failure("call");
                let state = &self.decision.state;
                writes.push(dead_letters::of_call(self.engine, (call, group), instance, state, self.now));
            }
            Effect::Incident(incident) => {
                let group = self.failure("saga");
                writes.push(dead_letters::of_incident(self.engine, (incident, group), instance, self.now));
            }
            Effect::TellParent(told) => self.tell_parent(told, version, writes, born),
            Effect::CloseChild { child } => {
                let row = parent_closed(&self.subject.tenant, *child, self.now);
                writes.push(self.signal(row, born));
            }
            Effect::Dataset { id, count, items } => self.dataset(*id, *count, items, writes),
            Effect::DropCall { token } => {
                writes.push(Write::DropCall { instance, token: *token });
                born.dropped.push(*token);
            }
            Effect::DropTimer { token } => writes.push(Write::DropTimer { instance, token: *token }),
            Effect::CancelTask { token } => self.cancel_task(*token, writes, born).await?,
        }
        Ok(())
    }

    /// The error group that the decision's failure of this source belongs to.
    fn failure(&self, source: &str) -> Option<Uuid> {
        let failures = errors::of(self);
        failures.iter().find(|failure| failure.source == source).map(errors::Failure::group)
    }

    fn real(&self, time: Time) -> Time {
        self.engine.real(&self.subject.tenant, time)
    }

    /// The next slot of a schedule that waits for this instance's end.
    fn follow(&self, writes: &mut Vec<Write>, born: &mut Born) {
        let ir = &self.program.ir;
        let Some(When::After(span)) = ir.schedule.as_ref().map(|schedule| &schedule.when) else { return };
        if !turn::ends(self.before.map(|(state, _)| state), &self.decision.state) {
            return;
        }
        let next_slot = self.now.after(*span);
        let due_at = self.real(next_slot);
        let id = id::schedule(&self.subject.tenant, &ir.namespace, &ir.name);
        born.slot = Some(due_at);
        writes.push(Write::ScheduleFollows { id, instance: self.subject.instance, next_slot, due_at });
    }

    fn timer(&self, token: u64, due_at: Time, envelope: &SignalEnvelope) -> Write {
        Write::Timer(TimerRow {
            instance: self.subject.instance,
            token,
            due_at,
            envelope: to_json(envelope),
            attempt: 0,
            owner: None,
            taken_over: 0,
        })
    }

    fn continuation(&self, envelope: &SignalEnvelope, born: &mut Born) -> Write {
        let row = SignalRow {
            id: envelope.signal_id,
            instance: self.subject.instance,
            signal_type: "InternalContinue".to_owned(),
            envelope: to_json(envelope),
            created_at: self.now,
            visible_at: self.real(self.now),
            attempt: 0,
            owner: None,
            taken_over: 0,
        };
        self.signal(row, born)
    }

    /// Born claimed if this node has room for one more turn.
    fn signal(&self, mut row: SignalRow, born: &mut Born) -> Write {
        let parked = self.engine.tenants.standing(&self.subject.tenant).is_parked();
        match self.engine.turns.clone().try_acquire_owned() {
            Ok(permit) if !parked => {
                row.owner = Some(self.engine.node);
                match row.instance == self.subject.instance {
                    true => born.continues.push((row.clone(), permit)),
                    false => born.signals.push((row.clone(), permit)),
                }
            }
            _ => born.backlog = true,
        }
        Write::Signal(row)
    }

    fn event(&self, id: Uuid, event: &machine::Data) -> Write {
        Write::Outbox(OutboxRow {
            id,
            key: id::show(id::Kind::Instance, self.subject.instance),
            event_type: event.get("type").map(|name| name.to_text()).unwrap_or_default(),
            event: event.to_bytes(),
            created_at: self.now,
        })
    }

    /// A call this node has room for is born claimed: it goes straight to the queue in memory.
    fn call(&self, call: &machine::command::Call, born: &mut Born) -> Write {
        let reservation = self.engine.calls.reserve(&self.subject.tenant);
        let row = CallRow {
            instance: self.subject.instance,
            token: call.token,
            target: call.target.clone(),
            envelope: to_json(call),
            created_at: self.now,
            visible_at: self.real(self.now),
            attempt: 1,
            last_error: None,
            owner: reservation.is_some().then_some(self.engine.node),
            taken_over: 0,
        };
        match reservation {
            Some(reservation) => born.calls.push((row.clone(), reservation)),
            None => born.backlog = true,
        }
        Write::Call(row)
    }

    fn task(&self, task: &Task, writes: &mut Vec<Write>, born: &mut Born) {
        let claimed = task.assignee.is_some();
        born.tasks.push((task.id, if claimed { "claimed" } else { "open" }, 1));
        writes.push(Write::CreateTask(Box::new(TaskRow {
            id: task.id,
            instance: self.subject.instance,
            token: task.token,
            step: task.step.clone(),
            title: task.title.clone(),
            status: if claimed { "claimed" } else { "open" }.to_owned(),
            assignee: task.assignee.clone(),
            candidate_users: to_json(&task.candidate_users),
            candidate_groups: to_json(&task.candidate_groups),
            payload: task.payload.to_bytes(),
            form: task.form.as_ref().map(machine::Data::to_bytes),
            result: None,
            priority: task.priority,
            due_at: task.due_at,
            version: 1,
            created_at: self.now,
            updated_at: self.now,
            ended_at: None,
        })));
        writes.push(Write::TaskEvent(TaskEventRow {
            task: task.id,
            sequence: 1,
            kind: "created".to_owned(),
            actor: "workflow".to_owned(),
            at: self.now,
            detail: b"{}".to_vec(),
        }));
    }

    async fn cancel_task(
        &self,
        token: u64,
        writes: &mut Vec<Write>,
        born: &mut Born,
    ) -> Result<(), store::Error> {
        let task_id = id::derive(self.subject.instance, token);
        let Some(mut task) = self.engine.store.task(&self.subject.tenant, task_id).await? else {
            return Ok(());
        };
        if task.ended_at.is_some() {
            return Ok(());
        }
        let expected_version = task.version;
        task.version += 1;
        task.status = "cancelled".to_owned();
        task.updated_at = self.now;
        task.ended_at = Some(self.now);
        born.tasks.push((task_id, "cancelled", task.version));
        writes.push(Write::TaskEvent(TaskEventRow {
            task: task_id,
            sequence: task.version,
            kind: "cancelled".to_owned(),
            actor: "workflow".to_owned(),
            at: self.now,
            detail: b"{}".to_vec(),
        }));
        writes.push(Write::UpdateTask { task: Box::new(task), expected_version });
        Ok(())
    }

    fn envelope(
        &self,
        signal_type: SignalType,
        token: u64,
        version: i64,
        due: Option<Time>,
    ) -> SignalEnvelope {
        SignalEnvelope {
            signal_id: id::derive(self.subject.instance, token),
            workflow_instance_id: self.subject.instance,
            runtime_provider: RUNTIME_PROVIDER.to_owned(),
            signal_type,
            expected_version: version,
            waiting_token: Some(token.to_string()),
            occurred_at_utc: self.now.rfc3339(),
            due_at_utc: due.map(Time::rfc3339),
            payload: machine::Data::object(),
            tenant_id: Some(self.subject.tenant.to_string()),
            trace_id: self.decision.state.trace.traceparent.clone(),
            correlation_id: self.decision.state.trace.correlation_id.clone(),
        }
    }

    fn state_row(&self, version: i64, shot: snapshot::Snapshot) -> StateRow {
        let state = &self.decision.state;
        let shown = state.shown_wait();
        let task = shown.filter(|wait| wait.kind == machine::state::WaitKind::TaskCompletion);
        StateRow {
            instance: self.subject.instance,
            expected_version: version - 1,
            state_version: version,
            snapshot_schema_version: SCHEMA_VERSION,
            runtime_status: state.runtime_status().to_owned(),
            waiting_until: shown.and_then(|wait| wait.until),
            waiting_kind: shot.waiting.as_ref().map(|waiting| waiting.kind.clone()),
            waiting_token: shot.waiting.map(|waiting| waiting.token),
            active_task_id: task.map(|wait| id::derive(self.subject.instance, wait.token)),
            resume_pointer_json: shot.resume.as_ref().map(to_json),
            last_signal_id: self.signal,
            last_error_code: state.error.as_ref().map(|fault| fault.error_type.clone()),
            last_error_json: state.error.as_ref().map(to_json),
            last_executed_by: self.engine.node,
            last_executed_on: self.now,
            state_json: shot.json,
        }
    }

    fn instance_row(&self) -> InstanceRow {
        let state = &self.decision.state;
        let ir = &self.program.ir;
        let parts = state.business.as_ref().filter(|business| !business.parts.is_empty());
        InstanceRow {
            id: self.subject.instance,
            namespace: ir.namespace.clone(),
            name: ir.name.clone(),
            version: ir.version.clone(),
            business_key: state.business.as_ref().map(|business| business.key.clone()),
            business_parts: parts.map(|business| business.parts.to_bytes()),
            status: state.status_word().to_owned(),
            input: state.input.to_bytes(),
            output: state.output.as_ref().map(machine::Data::to_bytes),
            error: state.error.as_ref().map(to_json),
            context: (!state.context.is_null()).then(|| state.context.to_bytes()),
            traceparent: state.trace.traceparent.clone(),
            correlation_id: state.trace.correlation_id.clone(),
            parent: state.parent.as_ref().map(|parent| ParentRow {
                instance: parent.instance,
                token: parent.token,
                item: parent.item.map(|item| item.index),
            }),
            created_at: self.now,
            updated_at: self.now,
            ended_at: state.status.is_ended().then_some(self.now),
        }
    }

    /// The projection's change, if people would see a difference.
    fn projection(&self, before: &State) -> Option<Write> {
        let state = &self.decision.state;
        let context = (state.context != before.context).then(|| state.context.to_bytes());
        let reopened = before.status == Status::Faulted && !state.status.is_ended();
        let ends = turn::ends(Some(before), state);
        if state.status_word() == before.status_word() && context.is_none() && !ends {
            return None;
        }
        Some(Write::UpdateInstance(Box::new(InstanceChange {
            id: self.subject.instance,
            status: state.status_word().to_owned(),
            output: state.output.as_ref().map(machine::Data::to_bytes),
            error: match &state.error {
                Some(fault) => Some(Some(to_json(fault))),
                None => reopened.then_some(None),
            },
            context,
            updated_at: self.now,
            ended_at: match ends {
                true => Some(Some(self.now)),
                false => reopened.then_some(None),
            },
        })))
    }
}

impl Born {
    /// True if this node will be back at the instance in a moment.
    pub(crate) fn brings_back(&self) -> bool {
        !(self.calls.is_empty() && self.continues.is_empty())
    }

    /// The commit is durable: this node's own rows go to their pumps without a claim.
    pub(crate) fn dispatch(self, engine: &Arc<Engine>, subject: &Subject) {
        let Subject { tenant, instance, .. } = subject;
        let instance = *instance;
        let now = engine.now();
        for token in self.dropped {
            engine.held.drop_row(tenant, QueueKey::Call { instance, token });
        }
        for (row, reservation) in self.calls {
            let hold = engine.held.hold(tenant, row.key());
            engine.calls.push(tenant.clone(), row, reservation, hold);
        }
        crate::calls::pump(engine);
        // A stop gives them back: an instance that yields again and again must not hold it up.
        let continues = if engine.is_stopping() { vec![] } else { self.continues };
        for (row, permit) in continues {
            let (instance, token) = (row.instance, continue_token(&row));
            let hold = Some(engine.held.hold(tenant, row.key()));
            slots::submit(
                engine,
                turn::Work {
                    guards: vec![Write::ConsumeSignal { id: row.id }],
                    permit: Some(permit),
                    hold,
                    source: turn::Source::Signal(Box::new(row)),
                    ..turn::Work::new(tenant.clone(), instance, Command::Continue { token })
                },
            );
        }
        let signals = if engine.is_stopping() { vec![] } else { self.signals };
        for (row, permit) in signals {
            let (owned, claimed) = (engine.clone(), Claimed { tenant: tenant.clone(), row });
            engine.tasks.spawn(async move { telling::deliver_signal(&owned, claimed, Some(permit)).await });
        }
        for (task, status, version) in self.tasks {
            engine.hub.changed(tenant, "task", task, status, version, now);
        }
        if let Some(due) = self.timer {
            engine.wake.at(due);
        }
        if let Some(due) = self.slot {
            engine.wake.slots.at(due);
        }
        if self.heard {
            engine.wake.at(now);
        }
        if self.backlog {
            engine.backlog();
        }
        if self.emitted {
            engine.wake.outbox();
        }
    }

    /// Nobody knows whether the commit landed. If it did, its rows are owned by this node but not in its memory:
    /// they become backlog. If it did not, this writes nothing.
    pub(crate) async fn put_back(self, engine: &Arc<Engine>, tenant: &TenantId) {
        let calls = self.calls.iter().map(|(row, _)| row.key());
        let signals = self.continues.iter().chain(&self.signals).map(|(row, _)| row.key());
        let rows: Vec<QueueKey> = calls.chain(signals).collect();
        lost::release(engine, tenant, &rows).await;
        engine.wake.at(engine.now());
    }
}

fn continue_token(row: &SignalRow) -> u64 {
    serde_json::from_slice::<SignalEnvelope>(&row.envelope)
        .ok()
        .and_then(|envelope| envelope.waiting_token?.parse().ok())
        .unwrap_or(0)
}

pub(crate) fn to_json(value: &impl serde::Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("rows are plain JSON")
}
