//! Why an instance does not go on.

use super::{Explanation, Reason, call, of_tenant};
use crate::{api::Refusal, engine::Engine, refusal, slots::Cached, turn};
use machine::{
    TenantId, id,
    state::{Body, Interest, Wait, WaitKind},
};
use store::{
    rows::TaskRow,
    views::{DeadLetterFilter, InstanceView, Page, TaskFilter},
};
use uuid::Uuid;

/// Calls, tasks and dead letters that are looked at.
const ROWS_MAX: usize = 100;

pub(crate) async fn instance(
    engine: &Engine,
    tenant: &TenantId,
    instance: Uuid,
) -> Result<Explanation, Refusal> {
    let view = engine.store.instance(tenant, instance).await.map_err(refusal::of_store)?;
    let view = view.ok_or_else(|| Refusal::NotFound("instance".to_owned()))?;
    let letters = letters(engine, tenant, instance).await?;
    if view.row.ended_at.is_some() {
        return Ok(Explanation::of([vec![ended(&view)], letters].concat()));
    }
    let mut reasons: Vec<Reason> = of_tenant(engine, tenant).into_iter().collect();
    match view.row.status.as_str() {
        "paused" => {
            let text = "an operator paused it; what comes meanwhile is kept until it is resumed";
            reasons.push(Reason::new("paused", text));
        }
        "cancelling" => {
            reasons.push(Reason::new("cancelling", "it was told to cancel and still undoes what it did"));
        }
        _ => {}
    }
    let waits = match turn::look(engine, tenant, instance).await {
        Ok(current) => of_waits(engine, tenant, instance, &current).await?,
        Err(Refusal::Conflict { detail, .. }) => {
            vec![Reason::new("broken", format!("it cannot be read by this program: {detail}"))]
        }
        Err(refusal) => return Err(refusal),
    };
    reasons.extend(waits);
    reasons.extend(letters);
    if reasons.is_empty() {
        let node = Some(view.last_executed_by);
        let text = "its next step is being decided: it goes on by itself";
        reasons.push(Reason { node, ..Reason::new("turn", text) });
    }
    Ok(Explanation::of(reasons))
}

fn ended(view: &InstanceView) -> Reason {
    let at = view.row.ended_at.map(|at| at.rfc3339()).unwrap_or_default();
    let status = &view.row.status;
    let text = match (status.as_str(), &view.last_error_code) {
        ("faulted", Some(code)) => format!("it faulted at {at} with {code}; an operator can retry the step"),
        ("faulted", None) => format!("it faulted at {at}; an operator can retry the step"),
        _ => format!("it ended at {at}: {status}"),
    };
    Reason::new("ended", text)
}

async fn letters(engine: &Engine, tenant: &TenantId, instance: Uuid) -> Result<Vec<Reason>, Refusal> {
    let filter = DeadLetterFilter { instance: Some(instance), ..DeadLetterFilter::default() };
    let page = Page { after: None, limit: ROWS_MAX };
    let letters = engine.store.dead_letters(tenant, &filter, &page).await.map_err(refusal::of_store)?;
    let of = |letter: store::rows::DeadLetterRow| {
        let shown = id::show(id::Kind::DeadLetter, letter.id);
        let text = format!("dead letter {shown} ({}) waits to be replayed: {}", letter.reason, letter.detail);
        Reason {
            dead_letter: Some(letter.id),
            attempt: Some(letter.attempts),
            ..Reason::new("dead-letter", text)
        }
    };
    Ok(letters.into_iter().map(of).collect())
}

/// Limits come after what they limit.
async fn of_waits(
    engine: &Engine,
    tenant: &TenantId,
    instance: Uuid,
    current: &Cached,
) -> Result<Vec<Reason>, Refusal> {
    let (mut reasons, mut limits) = (Vec::new(), Vec::new());
    let tasks = tasks(engine, tenant, instance, current).await?;
    for wait in &current.state.waits {
        let reason = match wait.kind {
            WaitKind::Call => continue,
            WaitKind::TaskCompletion => of_task(tasks.iter().find(|task| task.token == wait.token)),
            _ => of_wait(current, wait),
        };
        let reason = Reason { step: step_of(current, wait), until: wait.until, ..reason };
        match wait.kind.is_limit() {
            true => limits.push(reason),
            false => reasons.push(reason),
        }
    }
    if current.state.waits.iter().any(|wait| wait.kind == WaitKind::Call) {
        let calls = engine.store.calls(tenant, instance, ROWS_MAX).await.map_err(refusal::of_store)?;
        for row in &calls {
            reasons.extend(call::reasons(engine, tenant, row).await?);
        }
    }
    reasons.extend(limits);
    Ok(reasons)
}

async fn tasks(
    engine: &Engine,
    tenant: &TenantId,
    instance: Uuid,
    current: &Cached,
) -> Result<Vec<TaskRow>, Refusal> {
    if !current.state.waits.iter().any(|wait| wait.kind == WaitKind::TaskCompletion) {
        return Ok(vec![]);
    }
    let filter = TaskFilter { instance: Some(instance), ..TaskFilter::default() };
    let page = Page { after: None, limit: ROWS_MAX };
    engine.store.tasks(tenant, &filter, &page).await.map_err(refusal::of_store)
}

fn step_of(current: &Cached, wait: &Wait) -> Option<String> {
    let frames = &current.state.branch(wait.branch)?.frames;
    let frame = frames.iter().find(|frame| frame.sequence == wait.frame)?;
    Some(current.program.step(frame.step?).reference.clone())
}

fn of_wait(current: &Cached, wait: &Wait) -> Reason {
    let until = wait.until.map(|until| until.rfc3339()).unwrap_or_default();
    match wait.kind {
        WaitKind::Timer => Reason::new("timer", format!("it waits until {until}")),
        WaitKind::Retry => Reason::new("retry", format!("it tries again at {until}")),
        WaitKind::Timeout => Reason::new("time-limit", format!("it is given up at {until}")),
        WaitKind::AttemptTimeout => Reason::new("time-limit", format!("the attempt is given up at {until}")),
        WaitKind::Event => of_event(&wait.interests(&current.program, &current.state)),
        WaitKind::Child => of_child(wait),
        WaitKind::Map => of_map(current, wait),
        WaitKind::Continue => Reason::new("turn", "it has much to compute and goes on by itself"),
        WaitKind::Call | WaitKind::TaskCompletion => Reason::new("turn", "it is being looked after"),
    }
}

fn of_task(task: Option<&TaskRow>) -> Reason {
    let Some(task) = task else { return Reason::new("task", "it waits for a person") };
    let words = |json: &[u8]| serde_json::from_slice::<Vec<String>>(json).unwrap_or_default().join(", ");
    let (users, groups) = (words(&task.candidate_users), words(&task.candidate_groups));
    let shown = id::show(id::Kind::Task, task.id);
    let who = match (&task.assignee, users.as_str(), groups.as_str()) {
        (Some(assignee), _, _) => format!("{assignee}, who has claimed it"),
        (None, "", "") => "anybody to claim it".to_owned(),
        (None, users, "") => format!("one of {users} to claim it"),
        (None, "", groups) => format!("somebody of {groups} to claim it"),
        (None, users, groups) => format!("one of {users}, or somebody of {groups}, to claim it"),
    };
    let text = format!("task {shown} “{}” waits for {who}", task.title);
    Reason { task: Some(task.id), ..Reason::new("task", text) }
}

fn of_event(interests: &[Interest]) -> Reason {
    let shown = |interest: &Interest| {
        let kind = interest.event_type.as_deref().map_or("any type".to_owned(), |kind| format!("`{kind}`"));
        match &interest.key {
            Some(key) => format!("{kind} with {} = {}", key.from, key.value.to_text()),
            None => kind,
        }
    };
    let wanted: Vec<String> = interests.iter().map(shown).collect();
    let event_types = interests.iter().filter_map(|interest| interest.event_type.clone()).collect();
    let text = format!("it waits for an event, or a signal, of {}", wanted.join(" or "));
    Reason { event_types, ..Reason::new("event", text) }
}

fn of_child(wait: &Wait) -> Reason {
    let Some(child) = &wait.child else { return Reason::new("child", "it waits for an instance it started") };
    let shown = id::show(id::Kind::Instance, child.instance);
    let text = match child.started {
        true => format!("it waits for instance {shown}, which it started, to end"),
        false => format!("it waits for instance {shown} to be started"),
    };
    Reason { instance: Some(child.instance), ..Reason::new("child", text) }
}

fn of_map(current: &Cached, wait: &Wait) -> Reason {
    let frames = current.state.branch(wait.branch).map(|branch| branch.frames.as_slice()).unwrap_or_default();
    let body = frames.iter().find(|frame| frame.sequence == wait.frame).map(|frame| &frame.body);
    let text = match body {
        Some(Body::Map(map)) => {
            let done = map.succeeded + map.failed;
            let total = map.total.map_or("all".to_owned(), |total| total.to_string());
            format!(
                "it waits for the instances of its items: {done} of {total} ended, {} under way",
                map.running
            )
        }
        _ => "it waits for the instances of its items".to_owned(),
    };
    Reason::new("children", text)
}
