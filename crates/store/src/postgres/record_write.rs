//! What is written about records: one statement for each kind of row, over arrays, and a lock on every row that a guard is
//! about, so that what it says still holds when the transaction lands.

use super::{
    session::Session,
    solo::{Ended, guard, plain},
    value::{Column, Text, Value, bytes, id, int, maybe_bytes, maybe_text, text, time},
};
use crate::{commit::Conflict, records::*, rows::*};
use std::collections::BTreeSet;
use tokio_postgres::{Error as PgError, Row};

const AT_GENERATION: &str = "SELECT r.id FROM unnest($2, $3) AS u(id, generation)
    JOIN records r ON r.tenant = $1 AND r.id = u.id AND r.generation = u.generation ORDER BY r.id FOR SHARE OF r";
const AT_PARENT: &str = "SELECT r.id FROM unnest($2, $3) AS u(id, parent)
    JOIN records r ON r.tenant = $1 AND r.id = u.id AND r.parent IS NOT DISTINCT FROM u.parent ORDER BY r.id FOR SHARE OF r";
const INSERT: &str =
    "INSERT INTO records (tenant, id, kind, parent, version, generation, effective, created_at, updated_at,
    acl, body) SELECT $1, id, kind, parent, version, generation, effective, created_at, updated_at, acl, body
    FROM unnest($2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
    AS r(id, kind, parent, version, generation, effective, created_at, updated_at, acl, body)
    ON CONFLICT DO NOTHING RETURNING 1";
const UPDATE: &str = "UPDATE records SET parent = $4, version = $5, generation = $6, effective = $7, updated_at = $8, acl = $9,
    body = $10 WHERE tenant = $1 AND id = $2 AND version = $11 AND generation = $3 RETURNING 1";
const LOCK: &str = "SELECT 1 FROM records WHERE tenant = $1 AND id = $2 AND version = $3 FOR UPDATE";
const DELETE: &str = "DELETE FROM records WHERE tenant = $1 AND id = $2
    AND NOT EXISTS (SELECT 1 FROM records c WHERE c.tenant = $1 AND c.parent = $2) RETURNING 1";
const KEYS: &str = "INSERT INTO record_keys (tenant, record, name, kind, value)
    SELECT $1, record, name, kind, value FROM unnest($2, $3, $4, $5) AS r(record, name, kind, value)";
const DROP_KEYS: &str = "DELETE FROM record_keys WHERE tenant = $1 AND record = $2";
const DROP_WORK: &str = "DELETE FROM acl_work WHERE tenant = $1 AND record = $2";
const HAND: &str = "UPDATE records q SET effective = r.effective, generation = q.generation + 1
    FROM unnest($2, $3, $4, $5) AS r(id, parent, generation, effective)
    WHERE q.tenant = $1 AND q.id = r.id AND q.parent IS NOT DISTINCT FROM r.parent AND q.generation = r.generation";
const DONE: &str = "DELETE FROM acl_work q USING unnest($2, $3) AS r(record, version)
    WHERE q.tenant = $1 AND q.record = r.record AND q.row_version = r.version RETURNING 1";
const GO_ON: &str = "UPDATE acl_work SET cursor = $4, row_version = row_version + 1
    WHERE tenant = $1 AND record = $2 AND row_version = $3 RETURNING 1";
const LATER: &str =
    "UPDATE acl_work SET due_at = $4, attempt = $5, error = $6, cursor = NULL, row_version = row_version + 1
    WHERE tenant = $1 AND record = $2 AND row_version = $3 RETURNING 1";
const WORK: &str = "INSERT INTO acl_work AS w (tenant, record, root, rank, level, since, due_at, cursor, attempt, error, row_version)
    SELECT $1, r.record, r.root, r.rank, r.level, r.since, r.due_at, r.cursor, r.attempt, r.error, 1
    FROM unnest($2, $3, $4, $5, $6, $7, $8, $9, $10)
    AS r(record, root, rank, level, since, due_at, cursor, attempt, error)
    WHERE r.error IS NOT NULL OR EXISTS (SELECT 1 FROM acl_work x WHERE x.tenant = $1 AND x.record = r.record)
    OR EXISTS (SELECT 1 FROM records c WHERE c.tenant = $1 AND c.parent = r.record)
    ON CONFLICT (tenant, record) DO UPDATE SET root = excluded.root, rank = least(w.rank, excluded.rank),
    level = excluded.level, since = least(w.since, excluded.since), due_at = excluded.due_at, cursor = NULL,
    attempt = excluded.attempt, error = excluded.error, row_version = w.row_version + 1";
const LISTS: &str =
    "INSERT INTO acl_lists (tenant, id, list) SELECT $1, id, list FROM unnest($2, $3) AS r(id, list)
    ON CONFLICT DO NOTHING";
const ENTRIES: &str = "INSERT INTO acl_entries (tenant, principal, list, allow, deny)
    SELECT $1, principal, list, allow, deny FROM unnest($2, $3, $4, $5) AS r(principal, list, allow, deny)
    ON CONFLICT DO NOTHING";
const CREATE_KIND: &str =
    "INSERT INTO record_kinds (tenant, name, row_version, created_at, updated_at, schema, keys)
    VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING RETURNING 1";
const UPDATE_KIND: &str = "UPDATE record_kinds SET row_version = $3, updated_at = $5, schema = $6, keys = $7
    WHERE tenant = $1 AND name = $2 AND row_version = $4 RETURNING 1";
const DELETE_KIND: &str = "DELETE FROM record_kinds WHERE tenant = $1 AND name = $2
    AND NOT EXISTS (SELECT 1 FROM records WHERE tenant = $1 AND kind = $2) RETURNING 1";
const CREATE_GROUP: &str =
    "INSERT INTO groups (tenant, name, row_version, created_at, updated_at, members, roles)
    VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING RETURNING 1";
const UPDATE_GROUP: &str = "UPDATE groups SET row_version = $3, updated_at = $5, members = $6, roles = $7
    WHERE tenant = $1 AND name = $2 AND row_version = $4 RETURNING 1";
const DELETE_GROUP: &str = "DELETE FROM groups WHERE tenant = $1 AND name = $2 RETURNING 1";
const DROP_MEMBERS: &str = "DELETE FROM group_members WHERE tenant = $1 AND name = $2";
const MEMBERS: &str =
    "INSERT INTO group_members (tenant, member, name) SELECT $1, member, $2 FROM unnest($3) AS r(member)
    ON CONFLICT DO NOTHING";

/// Does one write. Answers which guard did not hold, if any.
pub(super) async fn write(to: &Session, tenant: &str, write: &RecordWrite) -> Ended {
    match write {
        RecordWrite::Create(all) => create(to, tenant, all).await,
        RecordWrite::Update { new, version, generation, path } => {
            let ids = Column::Text(path.iter().map(|(id, _)| Some(Text(id))).collect());
            let parents = Column::Text(path.iter().map(|(_, parent)| parent.as_deref().map(Text)).collect());
            if over(to, AT_PARENT, tenant, &[ids, parents]).await?.len() < path.len() {
                return Ok(Some(Conflict::Version));
            }
            update(to, tenant, new, (*version, *generation)).await
        }
        RecordWrite::Delete { id, version } => delete(to, tenant, id, *version).await,
        RecordWrite::HandDown { parents, children } => hand_down(to, tenant, parents, children).await,
        RecordWrite::SettleWork(steps) => settle(to, tenant, steps).await,
        RecordWrite::PutKind { row, expected_version } => put_kind(to, tenant, row, *expected_version).await,
        RecordWrite::DeleteKind { name } => {
            guard(to, DELETE_KIND, &[text(tenant), text(name)], Conflict::Gone).await
        }
        RecordWrite::PutGroup { row, expected_version } => {
            put_group(to, tenant, row, *expected_version).await
        }
        RecordWrite::DeleteGroup { name } => {
            let lost = guard(to, DELETE_GROUP, &[text(tenant), text(name)], Conflict::Gone).await?;
            plain(to, DROP_MEMBERS, &[text(tenant), text(name)]).await?;
            Ok(lost)
        }
        RecordWrite::Lists(lists) => put_lists(to, tenant, lists).await,
        RecordWrite::PutWork(rows) => put_work(to, tenant, rows).await,
    }
}

/// One statement over columns.
async fn over(to: &Session, sql: &str, tenant: &str, columns: &[Column<'_>]) -> Result<Vec<Row>, PgError> {
    let tenant = text(tenant);
    let params = || std::iter::once(tenant.param()).chain(columns.iter().map(Column::param)).collect();
    to.prepare(sql, &params()).await?;
    to.ask(sql, params()).await
}

fn texts<'a>(values: impl Iterator<Item = &'a str>) -> Column<'a> {
    Column::Text(values.map(|value| Some(Text(value))).collect())
}

fn ints<'a>(values: impl Iterator<Item = i64>) -> Column<'a> {
    Column::Int(values.map(Some).collect())
}

/// False if one of these is not there, or at another generation.
async fn have_generation(
    to: &Session,
    tenant: &str,
    wanted: &BTreeSet<(&str, i64)>,
) -> Result<bool, PgError> {
    if wanted.is_empty() {
        return Ok(true);
    }
    let columns = [texts(wanted.iter().map(|one| one.0)), ints(wanted.iter().map(|one| one.1))];
    Ok(over(to, AT_GENERATION, tenant, &columns).await?.len() == wanted.len())
}

/// The parents that records were made for; nothing if one has none that was read.
fn parents<'a>(all: impl IntoIterator<Item = &'a NewRecord>) -> Option<BTreeSet<(&'a str, i64)>> {
    let named = all.into_iter().filter_map(|new| Some((new.row.parent.as_deref()?, new.parent_generation)));
    named.map(|(parent, generation)| Some((parent, generation?))).collect()
}

async fn create(to: &Session, tenant: &str, all: &[NewRecord]) -> Ended {
    let Some(wanted) = parents(all) else { return Ok(Some(Conflict::Version)) };
    if !have_generation(to, tenant, &wanted).await? {
        return Ok(Some(Conflict::Version));
    }
    let rows = || all.iter().map(|new| &new.row);
    let columns = [
        texts(rows().map(|row| row.id.as_str())),
        texts(rows().map(|row| row.kind.as_str())),
        Column::Text(rows().map(|row| row.parent.as_deref().map(Text)).collect()),
        ints(rows().map(|row| row.version)),
        ints(rows().map(|row| row.generation)),
        Column::Id(rows().map(|row| Some(row.effective)).collect()),
        ints(rows().map(|row| row.created_at.0)),
        ints(rows().map(|row| row.updated_at.0)),
        Column::Bytes(rows().map(|row| Some(row.acl.as_slice())).collect()),
        Column::Bytes(rows().map(|row| Some(row.body.as_slice())).collect()),
    ];
    if over(to, INSERT, tenant, &columns).await?.len() < all.len() {
        return Ok(Some(Conflict::Exists));
    }
    put_keys(to, tenant, all.iter()).await
}

async fn put_keys(to: &Session, tenant: &str, all: impl Iterator<Item = &NewRecord> + Clone) -> Ended {
    let keys = || all.clone().flat_map(|new| new.keys.iter().map(move |key| (&new.row, key)));
    if keys().next().is_none() {
        return Ok(None);
    }
    let columns = [
        texts(keys().map(|(row, _)| row.id.as_str())),
        texts(keys().map(|(_, key)| key.name.as_str())),
        texts(keys().map(|(row, _)| row.kind.as_str())),
        Column::Bytes(keys().map(|(_, key)| Some(key.value.as_slice())).collect()),
    ];
    over(to, KEYS, tenant, &columns).await?;
    Ok(None)
}

async fn update(to: &Session, tenant: &str, new: &NewRecord, (version, generation): (i64, i64)) -> Ended {
    let wanted = parents([new]).unwrap_or_default();
    if !have_generation(to, tenant, &wanted).await? {
        return Ok(Some(Conflict::Version));
    }
    let row = &new.row;
    let values = [
        text(tenant),
        text(&row.id),
        int(generation),
        maybe_text(row.parent.as_deref()),
        int(row.version),
        int(row.generation),
        id(row.effective),
        time(row.updated_at),
        bytes(&row.acl),
        bytes(&row.body),
        int(version),
    ];
    if let lost @ Some(_) = guard(to, UPDATE, &values, Conflict::Version).await? {
        return Ok(lost);
    }
    plain(to, DROP_KEYS, &[text(tenant), text(&row.id)]).await?;
    put_keys(to, tenant, std::iter::once(new)).await
}

/// First the lock, then the look: whoever puts something below it holds the record until that has landed.
async fn delete(to: &Session, tenant: &str, record: &str, version: i64) -> Ended {
    let named = [text(tenant), text(record)];
    let mut lost = guard(to, LOCK, &[text(tenant), text(record), int(version)], Conflict::Version).await?;
    if lost.is_none() {
        lost = guard(to, DELETE, &named, Conflict::Version).await?;
    }
    if lost.is_some() {
        return Ok(lost);
    }
    plain(to, DROP_KEYS, &named).await?;
    plain(to, DROP_WORK, &named).await
}

async fn hand_down(to: &Session, tenant: &str, parents: &[(String, i64)], children: &[Handed]) -> Ended {
    let wanted = parents.iter().map(|(parent, generation)| (parent.as_str(), *generation)).collect();
    if !have_generation(to, tenant, &wanted).await? {
        return Ok(Some(Conflict::Version));
    }
    if children.is_empty() {
        return Ok(None);
    }
    let columns = [
        texts(children.iter().map(|child| child.id.as_str())),
        Column::Text(children.iter().map(|child| child.parent.as_deref().map(Text)).collect()),
        ints(children.iter().map(|child| child.generation)),
        Column::Id(children.iter().map(|child| Some(child.effective)).collect()),
    ];
    over(to, HAND, tenant, &columns).await?;
    Ok(None)
}

async fn settle(to: &Session, tenant: &str, steps: &[WorkStep]) -> Ended {
    let done = || steps.iter().filter(|step| step.then == WorkThen::Done);
    if done().next().is_some() {
        let columns =
            [texts(done().map(|step| step.record.as_str())), ints(done().map(|step| step.row_version))];
        if over(to, DONE, tenant, &columns).await?.len() < done().count() {
            return Ok(Some(Conflict::Gone));
        }
    }
    for WorkStep { record, row_version, then } in steps {
        let mut values = vec![text(tenant), text(record), int(*row_version)];
        let sql = match then {
            WorkThen::Done => continue,
            WorkThen::GoOn(cursor) => {
                values.push(text(cursor));
                GO_ON
            }
            WorkThen::Later { due_at, attempt, error } => {
                values.extend([time(*due_at), int((*attempt).into()), text(error)]);
                LATER
            }
        };
        if let lost @ Some(_) = guard(to, sql, &values, Conflict::Gone).await? {
            return Ok(lost);
        }
    }
    Ok(None)
}

async fn put_lists(to: &Session, tenant: &str, lists: &[AclListRow]) -> Ended {
    let columns = [
        Column::Id(lists.iter().map(|list| Some(list.id)).collect()),
        Column::Bytes(lists.iter().map(|list| Some(list.list.as_slice())).collect()),
    ];
    over(to, LISTS, tenant, &columns).await?;
    let entries = || lists.iter().flat_map(|list| list.entries.iter().map(|entry| (list.id, entry)));
    if entries().next().is_none() {
        return Ok(None);
    }
    let columns = [
        texts(entries().map(|(_, entry)| entry.0.as_str())),
        Column::Id(entries().map(|(list, _)| Some(list)).collect()),
        ints(entries().map(|(_, entry)| entry.1)),
        ints(entries().map(|(_, entry)| entry.2)),
    ];
    over(to, ENTRIES, tenant, &columns).await?;
    Ok(None)
}

async fn put_work(to: &Session, tenant: &str, rows: &[AclWorkRow]) -> Ended {
    let columns = [
        texts(rows.iter().map(|row| row.record.as_str())),
        texts(rows.iter().map(|row| row.root.as_str())),
        ints(rows.iter().map(|row| i64::from(!row.revokes))),
        ints(rows.iter().map(|row| row.level)),
        ints(rows.iter().map(|row| row.since.0)),
        ints(rows.iter().map(|row| row.due_at.0)),
        Column::Text(rows.iter().map(|row| row.cursor.as_deref().map(Text)).collect()),
        ints(rows.iter().map(|row| i64::from(row.attempt))),
        Column::Text(rows.iter().map(|row| row.error.as_deref().map(Text)).collect()),
    ];
    over(to, WORK, tenant, &columns).await?;
    Ok(None)
}

async fn put_kind(to: &Session, tenant: &str, row: &RecordKindRow, expected: i64) -> Ended {
    let (sql, third) = match expected {
        0 => (CREATE_KIND, time(row.created_at)),
        expected => (UPDATE_KIND, int(expected)),
    };
    let (version, updated) = (int(row.row_version), time(row.updated_at));
    let values =
        [text(tenant), text(&row.name), version, third, updated, maybe_bytes(&row.schema), bytes(&row.keys)];
    guard(to, sql, &values, Conflict::Version).await
}

async fn put_group(to: &Session, tenant: &str, row: &GroupRow, expected: i64) -> Ended {
    let json = |names: &[String]| serde_json::to_vec(names).unwrap_or_default();
    let (sql, third) = match expected {
        0 => (CREATE_GROUP, time(row.created_at)),
        expected => (UPDATE_GROUP, int(expected)),
    };
    let (members, roles) = (json(&row.members), json(&row.roles));
    let (version, updated) = (int(row.row_version), time(row.updated_at));
    let values = [text(tenant), text(&row.name), version, third, updated, bytes(&members), bytes(&roles)];
    if let lost @ Some(_) = guard(to, sql, &values, Conflict::Version).await? {
        return Ok(lost);
    }
    plain(to, DROP_MEMBERS, &[text(tenant), text(&row.name)]).await?;
    let names: Vec<Text<'_>> = row.members.iter().map(|name| Text(name)).collect();
    plain(to, MEMBERS, &[text(tenant), text(&row.name), Value::Texts(&names)]).await
}
