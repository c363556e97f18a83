//! Making, changing and deleting records. What is read is guarded in the commit; a commit that loses reads again.

use super::{TRIES_MAX, commit, event, invalid, is_allowed, kinds, list_of, list_row, read, write};
use crate::{
    api::{Asker, RecordChange, RecordDraft, Refusal},
    engine::Engine,
    refusal,
};
use machine::{
    Data, TenantId, Time,
    acl::{Acl, Effective, Grant, Right},
    record::{self, DEPTH_MAX},
};
use store::{
    Conflict, Outcome, RecordWrite, Write,
    records::RecordView,
    rows::{AclWorkRow, NewRecord, RecordRow},
};

/// A parent as it was read.
struct Above {
    list: Effective,
    generation: i64,
    /// It and those above it, and the parent of each.
    path: Vec<(String, Option<String>)>,
}

/// Makes a record.
pub(crate) async fn create(
    engine: &Engine,
    tenant: &TenantId,
    asker: &Asker,
    draft: RecordDraft,
) -> Result<RecordView, Refusal> {
    let now = engine.now();
    let id = match draft.id {
        Some(id) => match record::id_problem(&id) {
            None => id,
            Some(problem) => return Err(invalid("invalid-value", problem)),
        },
        None => engine.entropy.id(now).simple().to_string(),
    };
    let keys = kinds::check(engine, tenant, &draft.kind, &draft.body).await?;
    let acl = match (draft.acl, asker.user(), &draft.parent) {
        (Some(acl), ..) => acl,
        // Whoever puts something at the top would lose it otherwise.
        (None, Some(user), None) => owned_by(user),
        (None, ..) => Acl::default(),
    };
    is_usable(&acl)?;
    for _ in 0..TRIES_MAX {
        let above = match &draft.parent {
            Some(parent) => Some(above(engine, tenant, asker, parent).await?),
            None => None,
        };
        let list = Effective::of(above.as_ref().map(|above| &above.list), &acl);
        let row = RecordRow {
            id: id.clone(),
            kind: draft.kind.clone(),
            parent: draft.parent.clone(),
            version: 1,
            body: draft.body.to_bytes(),
            acl: acl.to_bytes(),
            effective: list.id(),
            generation: 1,
            created_at: now,
            updated_at: now,
        };
        let new = NewRecord {
            row: row.clone(),
            keys: keys.clone(),
            parent_generation: above.map(|above| above.generation),
        };
        let writes = vec![
            write(RecordWrite::Create(vec![new])),
            write(RecordWrite::Lists(vec![list_row(&list)])),
            event(engine, tenant, "record.created", (&id, told(&row)), now),
        ];
        match commit(engine, tenant, writes).await? {
            Outcome::Committed => return Ok(RecordView { row, list: list.to_bytes() }),
            Outcome::Conflict(Conflict::Exists) => {
                let detail = format!("there is a record `{id}` already");
                return Err(Refusal::Conflict { code: "record-exists", detail, existing: None });
            }
            _ => {}
        }
    }
    Err(Refusal::Busy)
}

fn owned_by(user: &str) -> Acl {
    let all = Grant { to: user.to_owned(), rights: Right::ALL.to_vec(), deny: false };
    Acl { inherits: true, grants: vec![all] }
}

fn is_usable(acl: &Acl) -> Result<(), Refusal> {
    acl.problem().map_or(Ok(()), |problem| Err(invalid("acl-invalid", problem)))
}

/// What an event tells of a record. Not its body: events are read by others than those who may read the record.
fn told(row: &RecordRow) -> Data {
    let parent = row.parent.as_ref().map_or(Data::NULL, |parent| Data::text(parent.clone()));
    Data::map([
        ("id".to_owned(), Data::text(row.id.clone())),
        ("kind".to_owned(), Data::text(row.kind.clone())),
        ("version".to_owned(), Data::int(row.version)),
        ("parent".to_owned(), parent),
    ])
}

/// The parent to be, which whoever asks must be allowed to write.
async fn above(engine: &Engine, tenant: &TenantId, asker: &Asker, parent: &str) -> Result<Above, Refusal> {
    let unknown = || invalid("record-parent-unknown", format!("there is no record `{parent}` to be below"));
    match read(engine, tenant, asker, parent).await {
        Ok(view) => is_allowed(asker, &view, Right::Write)?,
        Err(Refusal::NotFound(_)) => return Err(unknown()),
        Err(other) => return Err(other),
    }
    let path = engine.store.records().ancestors(tenant, parent, DEPTH_MAX).await;
    let path = path.map_err(refusal::of_store)?;
    let Some(nearest) = path.first() else { return Err(unknown()) };
    if path.len() >= DEPTH_MAX {
        return Err(invalid("record-too-deep", format!("a tree of records has at most {DEPTH_MAX} levels")));
    }
    Ok(Above {
        list: list_of(nearest)?,
        generation: nearest.row.generation,
        path: path.into_iter().map(|view| (view.row.id, view.row.parent)).collect(),
    })
}

/// The parent a record has already: nobody needs a right for that, and no circle can come of it.
async fn parent_of(engine: &Engine, tenant: &TenantId, row: &RecordRow) -> Result<Option<Above>, Refusal> {
    let Some(parent) = &row.parent else { return Ok(None) };
    let view = read(engine, tenant, &Asker::of_all(), parent).await?;
    Ok(Some(Above { list: list_of(&view)?, generation: view.row.generation, path: vec![] }))
}

/// Changes a record; answers it as it is then. What changes nothing makes no version.
pub(crate) async fn change(
    engine: &Engine,
    tenant: &TenantId,
    asker: &Asker,
    id: &str,
    change: &RecordChange,
) -> Result<RecordView, Refusal> {
    change.acl.as_ref().map_or(Ok(()), is_usable)?;
    for _ in 0..TRIES_MAX {
        let before = read(engine, tenant, asker, id).await?;
        if let Some(wanted) = change.version.filter(|wanted| *wanted != before.row.version) {
            tracing::debug!(record = id, wanted, "a change came too late");
            return Err(Refusal::Stale { current: before.row.version });
        }
        if let Some(after) = try_change(engine, tenant, asker, &before, change).await? {
            return Ok(after);
        }
    }
    Err(Refusal::Busy)
}

/// `None` if somebody else was faster.
async fn try_change(
    engine: &Engine,
    tenant: &TenantId,
    asker: &Asker,
    before: &RecordView,
    change: &RecordChange,
) -> Result<Option<RecordView>, Refusal> {
    let was = &before.row;
    let body = change.body.as_ref().map_or_else(|| was.body.clone(), Data::to_bytes);
    let acl = change.acl.as_ref().map_or_else(|| was.acl.clone(), Acl::to_bytes);
    let parent = change.parent.clone().unwrap_or_else(|| was.parent.clone());
    let (moves, regrants) = (parent != was.parent, acl != was.acl);
    if body != was.body {
        is_allowed(asker, before, Right::Write)?;
    }
    if moves || regrants {
        is_allowed(asker, before, Right::Share)?;
    }
    if !moves && !regrants && body == was.body {
        return Ok(Some(before.clone()));
    }
    let parsed = Data::parse(&body).map_err(|error| invalid("invalid-json", error.to_string()))?;
    let keys = kinds::check(engine, tenant, &was.kind, &parsed).await?;
    let now = engine.now();
    let mut after = RecordView {
        row: RecordRow { body, acl, parent, version: was.version + 1, updated_at: now, ..was.clone() },
        list: before.list.clone(),
    };
    let (mut path, mut parent_generation) = (vec![], None);
    let mut also = vec![event(engine, tenant, "record.changed", (&was.id, told(&after.row)), now)];
    if moves || regrants {
        let above = match (&after.row.parent, moves) {
            (Some(parent), true) => {
                let above = above(engine, tenant, asker, parent).await?;
                is_no_circle(&was.id, &above)?;
                path = above.path.clone();
                Some(above)
            }
            _ => parent_of(engine, tenant, &after.row).await?,
        };
        let own = Acl::parse(&after.row.acl).map_err(|problem| invalid("acl-invalid", problem))?;
        let list = Effective::of(above.as_ref().map(|above| &above.list), &own);
        parent_generation = above.map(|above| above.generation);
        also.extend(relist(engine, tenant, before, &mut after, &list)?);
    }
    let new = NewRecord { row: after.row.clone(), keys, parent_generation };
    let (version, generation) = (was.version, was.generation);
    let update = RecordWrite::Update { new: Box::new(new), version, generation, path };
    let outcome = commit(engine, tenant, [vec![write(update)], also].concat()).await?;
    Ok((outcome == Outcome::Committed).then_some(after))
}

fn is_no_circle(id: &str, above: &Above) -> Result<(), Refusal> {
    match above.path.iter().any(|(one, _)| one == id) {
        false => Ok(()),
        true => {
            let detail = format!("record `{id}` would be below itself");
            Err(Refusal::Conflict { code: "record-cycle", detail, existing: None })
        }
    }
}

/// Gives the record its new list: the writes for it, for the one event that tells of it, and for the work below.
fn relist(
    engine: &Engine,
    tenant: &TenantId,
    before: &RecordView,
    after: &mut RecordView,
    list: &Effective,
) -> Result<Vec<Write>, Refusal> {
    let now: Time = engine.now();
    let was = list_of(before)?;
    let revokes = was.loses_in(list);
    after.row.generation = before.row.generation + 1;
    after.row.effective = list.id();
    after.list = list.to_bytes();
    let data = Data::map([
        ("record".to_owned(), Data::text(after.row.id.clone())),
        ("generation".to_owned(), Data::int(after.row.generation)),
        ("revokes".to_owned(), Data::bool(revokes)),
    ]);
    let mut writes = vec![
        write(RecordWrite::Lists(vec![list_row(list)])),
        event(engine, tenant, "RecalculateAcl", (&after.row.id, data), now),
    ];
    if was != *list {
        writes.push(write(RecordWrite::PutWork(vec![AclWorkRow {
            record: after.row.id.clone(),
            root: after.row.id.clone(),
            revokes,
            level: 0,
            since: now,
            due_at: now,
            cursor: None,
            attempt: 0,
            error: None,
            row_version: 1,
        }])));
    }
    Ok(writes)
}

/// Deletes a record that has nothing below it.
pub(crate) async fn delete(
    engine: &Engine,
    tenant: &TenantId,
    asker: &Asker,
    id: &str,
    version: Option<i64>,
) -> Result<(), Refusal> {
    for _ in 0..TRIES_MAX {
        let before = read(engine, tenant, asker, id).await?;
        is_allowed(asker, &before, Right::Write)?;
        if version.is_some_and(|wanted| wanted != before.row.version) {
            return Err(Refusal::Stale { current: before.row.version });
        }
        if engine.store.records().has_children(tenant, id).await.map_err(refusal::of_store)? {
            let detail = format!("there are records below `{id}`; delete or move them first");
            return Err(Refusal::Conflict { code: "record-has-children", detail, existing: None });
        }
        let now = engine.now();
        let writes = vec![
            write(RecordWrite::Delete { id: id.to_owned(), version: before.row.version }),
            event(engine, tenant, "record.deleted", (id, told(&before.row)), now),
        ];
        if commit(engine, tenant, writes).await? == Outcome::Committed {
            return Ok(());
        }
    }
    Err(Refusal::Busy)
}
