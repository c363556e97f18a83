//! What people do with tasks: claim, release, assign, complete. Each act is one commit with one task event.

use crate::{
    api::{Refusal, TaskAct},
    engine::Engine,
    refusal, rows,
    turn::{self, Work},
};
use machine::{
    Command, Data, TenantId,
    language::Problem,
    schema::{Schema, Violation},
};
use std::sync::Arc;
use store::{Commit, Conflict, Outcome, Write, rows::*};
use uuid::Uuid;

/// Lost races before the caller is told to look again.
const ATTEMPTS_MAX: usize = 5;

pub(crate) async fn act(
    engine: &Arc<Engine>,
    tenant: &TenantId,
    id: Uuid,
    act: TaskAct,
    actor: &str,
    if_version: Option<i64>,
) -> Result<TaskRow, Refusal> {
    for _ in 0..ATTEMPTS_MAX {
        let there = engine.store.task(tenant, id).await.map_err(refusal::of_store)?;
        let before = there.ok_or_else(|| Refusal::NotFound("task".to_owned()))?;
        if if_version.is_some_and(|seen| seen != before.version) {
            return Err(Refusal::Stale { current: before.version });
        }
        let (after, kind) = change(&before, &act, actor, engine.now_of(tenant))?;
        let landed = match &act {
            TaskAct::Complete { result } => {
                fits(&before, result)?;
                complete(engine, tenant, &before, &after, result.clone(), actor).await?
            }
            _ => store_act(engine, tenant, &before, &after, kind, actor).await?,
        };
        if landed {
            engine.hub.changed(tenant, "task", id, &after.status, after.version, after.updated_at);
            return Ok(after);
        }
    }
    Err(Refusal::Conflict {
        code: "task-busy",
        detail: "others keep changing the task; look again".to_owned(),
        existing: None,
    })
}

/// Holds a result against the task's form.
fn fits(task: &TaskRow, result: &Data) -> Result<(), Refusal> {
    let Some(form) = task.form.as_deref() else { return Ok(()) };
    // A form that is no schema was refused when the task was made; an older one binds nobody.
    let Some(form) = Data::parse(form).ok().and_then(|form| Schema::new(&form).ok()) else { return Ok(()) };
    let problem = |Violation { path, message }: Violation| Problem::of_data(path, message);
    form.check(result).map_err(|violations| Refusal::Invalid {
        code: "task-result-invalid",
        detail: "the result does not fit the task's form".to_owned(),
        problems: violations.into_iter().map(problem).collect(),
    })
}

/// The task after the act, and the word of its event; or why the act is not possible.
fn change(
    before: &TaskRow,
    act: &TaskAct,
    actor: &str,
    now: machine::Time,
) -> Result<(TaskRow, &'static str), Refusal> {
    let conflict = |code: &'static str, detail: String| Refusal::Conflict { code, detail, existing: None };
    if before.ended_at.is_some() {
        return Err(conflict("task-ended", format!("the task is {}", before.status)));
    }
    let mut after = before.clone();
    after.version += 1;
    after.updated_at = now;
    let holder = before.assignee.as_deref();
    let kind = match act {
        TaskAct::Claim => {
            if let Some(holder) = holder.filter(|holder| *holder != actor) {
                return Err(conflict("task-claimed", format!("{holder} has claimed the task")));
            }
            after.assignee = Some(actor.to_owned());
            after.status = "claimed".to_owned();
            "assigned"
        }
        TaskAct::Release => {
            match holder {
                None => return Err(conflict("task-not-claimed", "nobody has claimed the task".to_owned())),
                Some(holder) if holder != actor => {
                    return Err(conflict(
                        "task-claimed",
                        format!("{holder} has claimed the task, not {actor}"),
                    ));
                }
                Some(_) => {}
            }
            after.assignee = None;
            after.status = "open".to_owned();
            "released"
        }
        TaskAct::Assign { to } => {
            after.assignee = Some(to.clone());
            after.status = "claimed".to_owned();
            if holder.is_some() { "reassigned" } else { "assigned" }
        }
        TaskAct::Complete { result } => {
            if let Some(holder) = holder.filter(|holder| *holder != actor) {
                return Err(conflict("task-claimed", format!("{holder} has claimed the task")));
            }
            after.status = "completed".to_owned();
            after.result = Some(result.to_bytes());
            after.ended_at = Some(now);
            "completed"
        }
    };
    Ok((after, kind))
}

fn event(after: &TaskRow, kind: &str, actor: &str) -> Write {
    let detail = match &after.assignee {
        Some(assignee) => rows::to_json(&serde_json::json!({ "assignee": assignee })),
        None => b"{}".to_vec(),
    };
    Write::TaskEvent(TaskEventRow {
        task: after.id,
        sequence: after.version,
        kind: kind.to_owned(),
        actor: actor.to_owned(),
        at: after.updated_at,
        detail,
    })
}

fn guard(before: &TaskRow, after: &TaskRow) -> Write {
    Write::UpdateTask { task: Box::new(after.clone()), expected_version: before.version }
}

/// `false` if somebody changed the task in between.
async fn store_act(
    engine: &Engine,
    tenant: &TenantId,
    before: &TaskRow,
    after: &TaskRow,
    kind: &str,
    actor: &str,
) -> Result<bool, Refusal> {
    let writes = vec![guard(before, after), event(after, kind, actor)];
    match engine.committer.commit(Commit { tenant: tenant.clone(), writes }).await {
        Ok(Outcome::Committed) => Ok(true),
        Ok(Outcome::Conflict(Conflict::Version)) => Ok(false),
        Ok(other) => {
            Err(Refusal::Conflict { code: "conflict", detail: format!("{other:?}"), existing: None })
        }
        // Looking again shows whether it landed.
        Err(store::Error::Unknown(_)) => {
            let there = engine.store.task(tenant, after.id).await.map_err(refusal::of_store)?;
            Ok(there.as_ref() == Some(after))
        }
        Err(error) => Err(refusal::of_store(error)),
    }
}

/// Completes the task and resumes its instance in one commit. `false` if somebody was faster.
async fn complete(
    engine: &Arc<Engine>,
    tenant: &TenantId,
    before: &TaskRow,
    after: &TaskRow,
    result: machine::Data,
    actor: &str,
) -> Result<bool, Refusal> {
    let command = Command::TaskDone { token: before.token, result };
    let work = Work {
        guards: vec![guard(before, after)],
        also: vec![event(after, "completed", actor)],
        ..Work::new(tenant.clone(), before.instance, command)
    };
    match turn::ask(engine, work).await {
        Ok(turned) if turned.changed => Ok(true),
        Ok(turned) => Err(Refusal::Conflict {
            code: "task-not-awaited",
            detail: format!("the instance is {} and no longer waits for this task", turned.status),
            existing: None,
        }),
        Err(Refusal::Stale { .. }) => Ok(false),
        Err(refusal) => Err(refusal),
    }
}
