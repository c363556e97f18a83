//! The call pump: takes calls from their lanes and hands them to workers or endpoints.

use crate::{
    children,
    dead_letters::{self, Reason},
    egress::{self, Revealed},
    engine::Engine,
    guards::{self, Blocked, Target, TargetKind},
    held::Hold,
    lanes::Item,
    lost, scripts, slots, spans, trace,
    turn::{Source, Work},
    unbegun::{self, Stop, Unbegun},
};
use futures_util::FutureExt;
use machine::{
    Command, Data, Fault, TenantId,
    command::{Call, GivenUp, SCRIPT},
    fault::{self},
    id,
    newer::says_unknown,
    time::Span,
};
use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};
use store::{Write, rows::CallRow};
use tracing::Instrument;
use worker::{Class, Context, Declaration, Failure, Outcome};

/// The targets of `call: http` and `call: openapi` steps; every other is the name of a worker.
const HTTP: &str = "http";
const OPENAPI: &str = "openapi";
/// How long a call waits before it is looked at again when no worker of its name is registered.
const NO_WORKER_WAIT: Span = Span::from_secs(5);

/// Whether the target is a part of the engine and no worker.
pub(crate) fn is_built_in(target: &str) -> bool {
    [HTTP, OPENAPI, SCRIPT].contains(&target)
}

/// Hands out every call that may run now, unless the lease may be over.
pub(crate) fn pump(engine: &Arc<Engine>) {
    if engine.is_stopping() || !engine.may_begin() {
        // The renewal of the lease comes back here.
        return;
    }
    lost::give_back(engine, engine.calls.take_parked());
    while let Some(item) = engine.calls.next() {
        let engine_of_call = engine.clone();
        engine.tasks.spawn(async move {
            let (tenant, target) = (item.tenant.clone(), item.row.target.clone());
            handle(&engine_of_call, item).await;
            engine_of_call.calls.done(&tenant, &target);
            pump(&engine_of_call);
        });
    }
}

/// How one attempt ended, in the runtime's own terms.
pub(crate) enum Attempted {
    Done(Data),
    /// The step faults with this; `exhausted` if it would have been tried again.
    Failed {
        fault: Fault,
        exhausted: bool,
    },
    Again {
        after: Span,
        attempt: u32,
        failure: String,
    },
}

impl Attempted {
    /// What metrics call it.
    fn outcome(&self) -> &'static str {
        match self {
            Attempted::Done(_) => "processed",
            Attempted::Again { .. } => "retried",
            Attempted::Failed { exhausted: true, .. } => "dead-lettered",
            Attempted::Failed { .. } => "failed",
        }
    }

    /// Why it came to nothing, if it did.
    fn failure(&self) -> Option<String> {
        match self {
            Attempted::Done(_) => None,
            Attempted::Failed { fault, .. } => Some(fault.error_type.clone()),
            Attempted::Again { failure, .. } => Some(failure.clone()),
        }
    }
}

async fn handle(engine: &Arc<Engine>, item: Item<CallRow>) {
    let Item { tenant, row, reservation, hold } = item;
    let began = engine.clock.steady_micros();
    if let Some(detail) = dead_letters::fatal(engine, row.taken_over) {
        let mut work = work(&tenant, &row, Command::Pause, hold);
        return dead_letters::bury(engine, &mut work, Reason::Poison, &detail);
    }
    let mut call: Call = match serde_json::from_slice(&row.envelope) {
        Ok(call) => call,
        Err(error) if says_unknown(&error) => {
            drop(reservation);
            return unbegun::put_back(engine, &tenant, &row, Unbegun::Newer(error.to_string()), hold).await;
        }
        Err(error) => {
            let mut work = work(&tenant, &row, Command::Pause, hold);
            return dead_letters::bury(engine, &mut work, Reason::Deserialization, &error.to_string());
        }
    };
    if children::is_own(&row.target) {
        return children::handle(engine, &tenant, &row, &call, hold).await;
    }
    let target = Target::of_call(&row, &call);
    // A retry that the definition asks for is one too.
    let is_retry = row.attempt > 1 || call.again;
    if let Some(blocked) = blocked(engine, &tenant, target.as_ref(), is_retry) {
        drop(reservation);
        return park(engine, &tenant, &row, blocked, hold).await;
    }
    call.trace.traceparent = Some(trace::of_call(row.instance, &call));
    let span = tracing::error_span!(
        "call",
        %tenant,
        instance = id::show(id::Kind::Instance, row.instance),
        step = call.step,
        target = row.target,
        attempt = row.attempt,
        traceparent = call.trace.traceparent,
    );
    let attempted = egress::discreetly(attempt(engine, &tenant, &row, &call).instrument(span));
    let Some(attempted) = while_wanted(attempted, &row, &hold).await else { return };
    let attempted = match attempted {
        Ok(attempted) => attempted,
        Err(unbegun) => {
            drop(reservation);
            return unbegun::put_back(engine, &tenant, &row, unbegun, hold).await;
        }
    };
    note(engine, &tenant, target.as_ref(), &row, &attempted);
    let micros = engine.clock.steady_micros() - began;
    // Tenants choose names at will; only those this node knows become labels.
    let known = is_built_in(&row.target) || engine.callees.is_known(&row.target);
    let target = if known { row.target.as_str() } else { "other" };
    engine.metrics.message(tenant.as_str(), target, attempted.outcome(), micros);
    spans::of_call(engine, &tenant, &row, &call, (micros, attempted.failure()));
    let ended = Item { tenant, row, reservation, hold };
    settle(engine, ended, attempted).await;
}

/// Makes durable what the attempt came to.
async fn settle(engine: &Arc<Engine>, item: Item<CallRow>, attempted: Attempted) {
    let Item { tenant, row, reservation, hold } = item;
    match attempted {
        Attempted::Done(result) => {
            let command = Command::CallDone { token: row.token, result };
            slots::submit(engine, work(&tenant, &row, command, hold));
        }
        Attempted::Failed { fault, exhausted } => {
            let given_up = exhausted.then(|| GivenUp {
                token: row.token,
                target: row.target.clone(),
                attempts: row.attempt,
                envelope: String::from_utf8_lossy(&row.envelope).into_owned(),
            });
            let command = Command::CallFailed { token: row.token, fault, given_up };
            // Its place goes to the next; its room in the lane, when the failure is acknowledged.
            let work = Work { room: Some(reservation), ..work(&tenant, &row, command, hold) };
            slots::submit(engine, work);
        }
        Attempted::Again { after, attempt, failure } => {
            drop(reservation);
            engine.slots.forget(&(tenant.clone(), row.instance));
            try_again(engine, &tenant, &row, after, attempt, failure).await;
            drop(hold);
        }
    }
}

/// What is in the way of the attempt, if anything.
fn blocked(engine: &Engine, tenant: &TenantId, target: Option<&Target>, is_retry: bool) -> Option<Blocked> {
    let chance = || engine.entropy.unit();
    engine.guards.admit(tenant, target?, is_retry, engine.now(), chance).err()
}

/// Puts the call back for later; no attempt is counted.
async fn park(engine: &Arc<Engine>, tenant: &TenantId, row: &CallRow, blocked: Blocked, hold: Hold) {
    engine.slots.forget(&(tenant.clone(), row.instance));
    let after = blocked.until.since(engine.now());
    try_again(engine, tenant, row, after, row.attempt, blocked.why).await;
    drop(hold);
}

/// Tells the target's guard how the attempt ended.
fn note(engine: &Engine, tenant: &TenantId, target: Option<&Target>, row: &CallRow, attempted: &Attempted) {
    let Some(target) = target else { return };
    let well = match (target.kind, attempted) {
        (_, Attempted::Done(_)) => true,
        // No worker was there: nothing was attempted.
        (_, Attempted::Again { attempt, .. }) if *attempt == row.attempt => return,
        (_, Attempted::Again { .. }) => false,
        (TargetKind::Worker, Attempted::Failed { exhausted, .. }) => !exhausted,
        (TargetKind::Endpoint, Attempted::Failed { fault, .. }) => !guards::is_endpoints(fault),
    };
    engine.guards.record(tenant, target, &[well], engine.now());
}

/// Makes the attempt. Nothing comes of a script that nobody waits for any more: it leaves its place in the sandbox to
/// others. Any other call has effects outside, and comes to its end.
async fn while_wanted(
    attempt: impl Future<Output = Result<Attempted, Unbegun>>,
    row: &CallRow,
    hold: &Hold,
) -> Option<Result<Attempted, Unbegun>> {
    let attempted = tokio::select! {
        biased;
        attempted = AssertUnwindSafe(attempt).catch_unwind() => attempted,
        () = hold.dropped(), if row.target == SCRIPT => return None,
    };
    Some(attempted.unwrap_or_else(|_| {
        let fault = Fault::new(fault::Kind::Runtime, "handling the call panicked");
        Ok(Attempted::Failed { fault, exhausted: true })
    }))
}

/// Hands the call to its worker or endpoint.
async fn attempt(
    engine: &Engine,
    tenant: &TenantId,
    row: &CallRow,
    call: &Call,
) -> Result<Attempted, Unbegun> {
    match row.target.as_str() {
        HTTP => return engine.egress.http(tenant, call).await,
        OPENAPI => return engine.egress.openapi(tenant, call).await,
        _ => {}
    }
    if row.target == SCRIPT {
        return scripts::attempt(engine, tenant, row, call).await;
    }
    match engine.callees.worker(&row.target, call.version.as_deref()) {
        Ok(worker) => run_worker(engine, worker, tenant, row, call).await,
        Err(failure) => Ok(Attempted::Again { after: NO_WORKER_WAIT, attempt: row.attempt, failure }),
    }
}

pub(crate) fn work(tenant: &TenantId, row: &CallRow, command: Command, hold: Hold) -> Work {
    Work {
        guards: vec![Write::ConsumeCall { instance: row.instance, token: row.token }],
        source: Source::Call(Box::new(row.clone())),
        hold: Some(hold),
        ..Work::new(tenant.clone(), row.instance, command)
    }
}

/// Puts the call back into the backlog for later. The row is the truth: if this commit fails, the re-scan or the
/// next node finds the row as it was.
pub(crate) async fn try_again(
    engine: &Arc<Engine>,
    tenant: &TenantId,
    row: &CallRow,
    after: Span,
    attempt: u32,
    failure: String,
) {
    let visible_at = engine.now().after(after);
    let write = Write::RetryCall {
        instance: row.instance,
        token: row.token,
        owner: row.owner,
        visible_at,
        attempt,
        last_error: Some(fault::storable(failure).into_bytes()),
    };
    dead_letters::commit_patiently(engine, tenant, vec![write]).await;
    engine.wake.at(visible_at);
}

async fn run_worker(
    engine: &Engine,
    worker: &Declaration,
    tenant: &TenantId,
    row: &CallRow,
    call: &Call,
) -> Result<Attempted, Unbegun> {
    let context = Context {
        tenant: tenant.clone(),
        instance: id::show(id::Kind::Instance, row.instance),
        step: call.step.clone(),
        key: call.key.clone(),
        attempt: row.attempt,
        traceparent: call.trace.traceparent.clone(),
        correlation_id: call.trace.correlation_id.clone(),
    };
    let limit = Duration::from_micros(worker.timeout.0.max(0) as u64);
    let (input, secrets) = match call.secrets.is_empty() {
        true => (call.input.clone(), None),
        false => match engine.egress.reveal_to_worker(tenant, call).await {
            Ok((input, secrets)) => (input, Some(secrets)),
            Err(Stop::Fault(fault)) => return Ok(Attempted::Failed { fault, exhausted: false }),
            Err(Stop::Unbegun(unbegun)) => return Err(unbegun),
        },
    };
    let handling = AssertUnwindSafe(worker.worker.handle(&context, input)).catch_unwind();
    let outcome = match tokio::time::timeout(limit, handling).await {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(_)) => Outcome::fail(Class::Poison, "the worker panicked"),
        Err(_) => Outcome::retry(format!("the worker took longer than {} ms", limit.as_millis())),
    };
    let outcome = match secrets {
        Some(secrets) => without(&secrets, outcome),
        None => outcome,
    };
    let (failure, after) = match outcome {
        Outcome::Done(data) => return Ok(accept(engine, data)),
        Outcome::Fail(failure) => {
            return Ok(Attempted::Failed {
                exhausted: failure.class == Class::Poison,
                fault: fault_of(&failure),
            });
        }
        Outcome::Retry { failure, after } => (failure, after),
    };
    Ok(match worker.retry.delay(row.attempt, engine.entropy.unit()) {
        None => Attempted::Failed { fault: fault_of(&failure), exhausted: true },
        Some(delay) => Attempted::Again {
            after: delay.max(after.unwrap_or(Span::ZERO)),
            attempt: row.attempt + 1,
            failure: failure.message,
        },
    })
}

/// A worker's answer without the secrets it was given.
fn without(secrets: &Revealed, outcome: Outcome) -> Outcome {
    let clean =
        |failure: Failure| Failure { message: secrets.blot(&failure.message).into_owned(), ..failure };
    match outcome {
        Outcome::Done(data) => Outcome::Done(secrets.blot_data(data)),
        Outcome::Retry { failure, after } => Outcome::Retry { failure: clean(failure), after },
        Outcome::Fail(failure) => Outcome::Fail(clean(failure)),
    }
}

/// An answer the engine can keep: JSON without a NUL, within its size.
pub(crate) fn accept(engine: &Engine, data: Data) -> Attempted {
    let refuse = |detail: String| Attempted::Failed {
        fault: Fault::new(fault::Kind::Runtime, detail),
        exhausted: false,
    };
    if data.has_no_json_form() {
        return refuse(
            "the worker's answer holds NaN, an infinity or bytes, which JSON cannot say".to_owned(),
        );
    }
    if data.holds_nul() {
        return refuse(
            "the worker's answer holds a NUL character; send binary data as base64 text".to_owned(),
        );
    }
    let size = data.to_bytes().len();
    let max = engine.options.answer_bytes_max;
    match size > max {
        true => refuse(format!("the worker's answer has {size} bytes, more than the {max} allowed")),
        false => Attempted::Done(data),
    }
}

fn fault_of(failure: &Failure) -> Fault {
    let kind = match failure.class {
        Class::Transient | Class::RateLimited => fault::Kind::Communication,
        Class::Auth => fault::Kind::Authentication,
        Class::Validation => fault::Kind::Validation,
        Class::Poison => fault::Kind::Runtime,
    };
    Fault::new(kind, failure.message.clone())
}
