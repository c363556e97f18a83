//! What is asked about records. Who may not read a record does not find it: that is part of every query.

use super::{
    base::{Postgres, of},
    read::{tenant as tenant_at, time},
    session::Scope,
    value::{Text, Value, bytes, get, int, maybe_text, text, time as at_time},
};
use crate::{port::Result, records::*, rows::*, views::PAGE_MAX};
use async_trait::async_trait;
use machine::{TenantId, Time};
use tokio_postgres::{Error as PgError, Row};
use uuid::Uuid;

const VIEW: &str =
    "SELECT r.id, r.kind, r.parent, r.version, r.generation, r.effective, r.created_at, r.updated_at, r.acl,
    r.body, l.list";
const LIST_OF: &str = " JOIN acl_lists l ON l.tenant = r.tenant AND l.id = r.effective";
const BY_ID: &str =
    "SELECT r.id, r.kind, r.parent, r.version, r.generation, r.effective, r.created_at, r.updated_at, r.acl,
    r.body, l.list FROM records r JOIN acl_lists l ON l.tenant = r.tenant AND l.id = r.effective
    WHERE r.tenant = $1 AND r.id = $2";
/// The lists by which somebody who is all of $3 may read.
const SEEN: &str =
    " AND r.effective IN (SELECT e.list FROM acl_entries e WHERE e.tenant = $1 AND e.principal = ANY ($3)
    GROUP BY e.list HAVING max(e.allow & 1) = 1 AND max(e.deny & 1) = 0)";
const ANCESTORS: &str = "WITH RECURSIVE above(id, depth) AS (SELECT $2 COLLATE \"C\", 1::bigint
    UNION ALL SELECT r.parent, a.depth + 1 FROM above a JOIN records r ON r.tenant = $1 AND r.id = a.id
    WHERE r.parent IS NOT NULL AND a.depth < $3)
    SELECT r.id, r.kind, r.parent, r.version, r.generation, r.effective, r.created_at, r.updated_at, r.acl, r.body, l.list
    FROM above a JOIN records r ON r.tenant = $1 AND r.id = a.id
    JOIN acl_lists l ON l.tenant = r.tenant AND l.id = r.effective ORDER BY a.depth";
const HAS_CHILDREN: &str = "SELECT 1 FROM records WHERE tenant = $1 AND parent = $2 LIMIT 1";
const KINDS: &str = "SELECT name, schema, keys, row_version, created_at, updated_at FROM record_kinds
    WHERE tenant = $1 AND ($2 IS NULL OR name = $2) ORDER BY name";
const GROUPS: &str = "SELECT name, members, roles, row_version, created_at, updated_at FROM groups
    WHERE tenant = $1 AND ($2 IS NULL OR name = $2) ORDER BY name";
const GROUPS_OF: &str = "SELECT g.name, g.members, g.roles, g.row_version, g.created_at, g.updated_at
    FROM group_members m JOIN groups g ON g.tenant = m.tenant AND g.name = m.name
    WHERE m.tenant = $1 AND m.member = $2 ORDER BY g.name";
const NODES: &str = "SELECT id, parent, acl, effective, generation FROM records
    WHERE tenant = $1 AND id = ANY ($2) ORDER BY id";
const CHILDREN: &str = "SELECT c.id, c.parent, c.acl, c.effective, c.generation FROM unnest($2) AS p(id)
    CROSS JOIN LATERAL (SELECT * FROM records r WHERE r.tenant = $1 AND r.parent = p.id AND ($3 IS NULL OR r.id > $3)
        ORDER BY r.id LIMIT $4) AS c ORDER BY c.parent, c.id LIMIT $4";
const LISTS: &str = "SELECT id, list FROM acl_lists WHERE tenant = $1 AND id = ANY ($2)";
const WORK: &str = "SELECT w.record, w.root, w.rank, w.level, w.since, w.due_at, w.cursor, w.attempt, w.error, w.row_version,
    w.tenant FROM acl_work w";
/// Every tenant has its share, along its own part of the index.
const DUE: &str = "WITH RECURSIVE busy(tenant) AS (SELECT min(tenant) FROM acl_work
    UNION ALL SELECT (SELECT min(n.tenant) FROM acl_work n WHERE n.tenant > busy.tenant)
    FROM busy WHERE busy.tenant IS NOT NULL)
    SELECT w.record, w.root, w.rank, w.level, w.since, w.due_at, w.cursor, w.attempt, w.error, w.row_version, w.tenant
    FROM busy CROSS JOIN LATERAL (SELECT * FROM acl_work q WHERE q.tenant = busy.tenant AND q.due_at <= $1
        ORDER BY q.rank, q.level, q.record LIMIT $2) AS w
    WHERE NOT EXISTS (SELECT 1 FROM tenants p WHERE p.tenant = w.tenant AND p.status IN ('suspended', 'deleted'))
    ORDER BY w.tenant, w.rank, w.level, w.record LIMIT 10000";
const OF_TENANT: &str = " WHERE tenant = $1 ORDER BY error IS NULL, rank, level, record LIMIT $2";
const NEXT: &str = "SELECT min(due_at) FROM acl_work w WHERE NOT EXISTS (SELECT 1 FROM tenants p
    WHERE p.tenant = w.tenant AND p.status IN ('suspended', 'deleted'))";
const PENDING: &str =
    "SELECT count(*), count(*) FILTER (WHERE rank = 0), count(error), min(since) FROM acl_work
    WHERE $1 IS NULL OR tenant = $1";
const PROPAGATES: &str = "SELECT 1 FROM acl_work WHERE tenant = $1 AND root = $2 LIMIT 1";

type Read<T> = std::result::Result<T, PgError>;

fn names(all: &[String]) -> Vec<Text<'_>> {
    all.iter().map(|name| Text(name)).collect()
}

fn view(row: &Row) -> Read<RecordView> {
    Ok(RecordView {
        row: RecordRow {
            id: get(row, 0)?,
            kind: get(row, 1)?,
            parent: get(row, 2)?,
            version: get(row, 3)?,
            generation: get(row, 4)?,
            effective: get(row, 5)?,
            created_at: time(row, 6)?,
            updated_at: time(row, 7)?,
            acl: get(row, 8)?,
            body: get(row, 9)?,
        },
        list: get(row, 10)?,
    })
}

fn kind(row: &Row) -> Read<RecordKindRow> {
    Ok(RecordKindRow {
        name: get(row, 0)?,
        schema: get(row, 1)?,
        keys: get(row, 2)?,
        row_version: get(row, 3)?,
        created_at: time(row, 4)?,
        updated_at: time(row, 5)?,
    })
}

fn group(row: &Row) -> Read<GroupRow> {
    let names = |at: usize| -> Read<Vec<String>> {
        Ok(serde_json::from_slice(&get::<Vec<u8>>(row, at)?).unwrap_or_default())
    };
    Ok(GroupRow {
        name: get(row, 0)?,
        members: names(1)?,
        roles: names(2)?,
        row_version: get(row, 3)?,
        created_at: time(row, 4)?,
        updated_at: time(row, 5)?,
    })
}

fn node(row: &Row) -> Read<AclNode> {
    Ok(AclNode {
        id: get(row, 0)?,
        parent: get(row, 1)?,
        acl: get(row, 2)?,
        effective: get(row, 3)?,
        generation: get(row, 4)?,
    })
}

fn work(row: &Row) -> Read<AclWorkRow> {
    Ok(AclWorkRow {
        record: get(row, 0)?,
        root: get(row, 1)?,
        revokes: get::<i64>(row, 2)? == 0,
        level: get(row, 3)?,
        since: time(row, 4)?,
        due_at: time(row, 5)?,
        cursor: get(row, 6)?,
        attempt: u32::try_from(get::<i64>(row, 7)?).unwrap_or(u32::MAX),
        error: get(row, 8)?,
        row_version: get(row, 9)?,
    })
}

/// A list's text and values. Values are always bound, never part of the text.
struct Query<'a> {
    sql: String,
    values: Vec<Value<'a>>,
}

impl<'a> Query<'a> {
    fn bind(&mut self, value: Value<'a>) -> String {
        self.values.push(value);
        format!("${}", self.values.len())
    }

    fn of(tenant: &'a str, ask: &'a RecordAsk, seen: Value<'a>) -> Query<'a> {
        // The second place is the id where one is asked for, so that the third is always who asks.
        let mut query = Query { sql: String::new(), values: vec![text(tenant), text(""), seen] };
        query.sql = match &ask.sort {
            Some(_) => format!(
                "{VIEW}, k.value FROM record_keys k JOIN records r ON r.tenant = k.tenant AND r.id = k.record{LIST_OF}"
            ),
            None => format!("{VIEW}, ''::bytea FROM records r{LIST_OF}"),
        };
        query.sql += " WHERE r.tenant = $1 AND $2 = ''";
        query.sql += if ask.seen_by.is_some() { SEEN } else { " AND $3 IS NOT NULL" };
        if let (Some(sort), Some(kind)) = (&ask.sort, &ask.kind) {
            let (kind, name) = (query.bind(text(kind)), query.bind(text(sort)));
            query.sql += &format!(" AND k.tenant = $1 AND k.kind = {kind} AND k.name = {name}");
        }
        for (column, wanted) in [("r.kind", &ask.kind), ("r.parent", &ask.parent)] {
            if let Some(wanted) = wanted {
                let place = query.bind(text(wanted));
                query.sql += &format!(" AND {column} = {place}");
            }
        }
        ask.conditions.iter().for_each(|condition| query.condition(ask, condition));
        query.page(ask);
        query
    }

    fn condition(&mut self, ask: &'a RecordAsk, condition: &'a KeyCondition) {
        let kind = self.bind(text(ask.kind.as_deref().unwrap_or_default()));
        let name = self.bind(text(&condition.name));
        self.sql += &format!(
            " AND r.id IN (SELECT f.record FROM record_keys f WHERE f.tenant = $1 AND f.kind = {kind} AND f.name = {name}"
        );
        for (bound, sign) in [(&condition.from, ">"), (&condition.to, "<")] {
            if let Some((value, without)) = bound {
                let equal = if *without { "" } else { "=" };
                let place = self.bind(bytes(value));
                self.sql += &format!(" AND f.value {sign}{equal} {place}");
            }
        }
        self.sql += ")";
    }

    fn page(&mut self, ask: &'a RecordAsk) {
        let (sign, order) = if ask.descending { ("<", " DESC") } else { (">", "") };
        if let Some((value, id)) = &ask.after {
            let id = self.bind(text(id));
            let after = match ask.sort {
                Some(_) => format!(" AND (k.value, k.record) {sign} ({}, {id})", self.bind(bytes(value))),
                None => format!(" AND r.id {sign} {id}"),
            };
            self.sql += &after;
        }
        let by = match ask.sort {
            Some(_) => format!("k.value{order}, k.record{order}"),
            None => format!("r.id{order}"),
        };
        self.sql += &format!(" ORDER BY {by} LIMIT {}", ask.limit.clamp(1, PAGE_MAX));
    }
}

#[async_trait]
impl Records for Postgres {
    async fn record(
        &self,
        tenant: &TenantId,
        id: &str,
        seen_by: Option<&[String]>,
    ) -> Result<Option<RecordView>> {
        let mut values = vec![text(tenant.as_str()), text(id)];
        let Some(seen_by) = seen_by else { return self.one(of(tenant), BY_ID, &values, view).await };
        let seen = names(seen_by);
        values.push(Value::Texts(&seen));
        self.one(of(tenant), &format!("{BY_ID}{SEEN}"), &values, view).await
    }

    async fn records(&self, tenant: &TenantId, ask: &RecordAsk) -> Result<Vec<Listed>> {
        let seen = names(ask.seen_by.as_deref().unwrap_or_default());
        let query = Query::of(tenant.as_str(), ask, Value::Texts(&seen));
        let map = |row: &Row| Ok(Listed { view: view(row)?, value: get(row, 11)? });
        self.many_once(of(tenant), &query.sql, &query.values, map).await
    }

    async fn ancestors(&self, tenant: &TenantId, id: &str, limit: usize) -> Result<Vec<RecordView>> {
        let values = [text(tenant.as_str()), text(id), int(limit as i64)];
        self.many(of(tenant), ANCESTORS, &values, view).await
    }

    async fn has_children(&self, tenant: &TenantId, id: &str) -> Result<bool> {
        let values = [text(tenant.as_str()), text(id)];
        Ok(self.one(of(tenant), HAS_CHILDREN, &values, |_| Ok(())).await?.is_some())
    }

    async fn record_kind(&self, tenant: &TenantId, name: &str) -> Result<Option<RecordKindRow>> {
        self.one(of(tenant), KINDS, &[text(tenant.as_str()), text(name)], kind).await
    }

    async fn record_kinds(&self, tenant: &TenantId) -> Result<Vec<RecordKindRow>> {
        self.many(of(tenant), KINDS, &[text(tenant.as_str()), maybe_text(None)], kind).await
    }

    async fn group(&self, tenant: &TenantId, name: &str) -> Result<Option<GroupRow>> {
        self.one(of(tenant), GROUPS, &[text(tenant.as_str()), text(name)], group).await
    }

    async fn groups(&self, tenant: &TenantId, member: Option<&str>) -> Result<Vec<GroupRow>> {
        let sql = if member.is_some() { GROUPS_OF } else { GROUPS };
        self.many(of(tenant), sql, &[text(tenant.as_str()), maybe_text(member)], group).await
    }

    async fn acl_nodes(&self, tenant: &TenantId, ids: &[String]) -> Result<Vec<AclNode>> {
        let ids = names(ids);
        self.many(of(tenant), NODES, &[text(tenant.as_str()), Value::Texts(&ids)], node).await
    }

    async fn acl_children(
        &self,
        tenant: &TenantId,
        parents: &[String],
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<AclNode>> {
        let parents = names(parents);
        let values = [text(tenant.as_str()), Value::Texts(&parents), maybe_text(after), int(limit as i64)];
        self.many(of(tenant), CHILDREN, &values, node).await
    }

    async fn acl_lists(&self, tenant: &TenantId, ids: &[Uuid]) -> Result<Vec<(Uuid, Vec<u8>)>> {
        let map = |row: &Row| Ok((get(row, 0)?, get(row, 1)?));
        self.many(of(tenant), LISTS, &[text(tenant.as_str()), Value::Ids(ids)], map).await
    }

    async fn due_acl_work(&self, now: Time, limit: usize) -> Result<Vec<Claimed<AclWorkRow>>> {
        let map = |row: &Row| Ok(Claimed { tenant: tenant_at(row, 10)?, row: work(row)? });
        self.many(Scope::All, DUE, &[at_time(now), int(limit as i64)], map).await
    }

    async fn next_acl_work(&self) -> Result<Option<Time>> {
        let map = |row: &Row| Ok(get::<Option<i64>>(row, 0)?.map(Time));
        Ok(self.one(Scope::All, NEXT, &[], map).await?.flatten())
    }

    async fn acl_pending(&self, tenant: Option<&TenantId>) -> Result<Pending> {
        let map = |row: &Row| {
            let count = |at: usize| get::<i64>(row, at).map(i64::unsigned_abs);
            Ok(Pending {
                records: count(0)?,
                revoking: count(1)?,
                failed: count(2)?,
                since: get::<Option<i64>>(row, 3)?.map(Time),
            })
        };
        let scope = tenant.map_or(Scope::All, of);
        let values = [maybe_text(tenant.map(TenantId::as_str))];
        Ok(self.one(scope, PENDING, &values, map).await?.unwrap_or_default())
    }

    async fn acl_work(&self, tenant: &TenantId, limit: usize) -> Result<Vec<AclWorkRow>> {
        let values = [text(tenant.as_str()), int(limit.clamp(1, PAGE_MAX) as i64)];
        self.many(of(tenant), &format!("{WORK}{OF_TENANT}"), &values, work).await
    }

    async fn acl_propagates(&self, tenant: &TenantId, root: &str) -> Result<bool> {
        let values = [text(tenant.as_str()), text(root)];
        Ok(self.one(of(tenant), PROPAGATES, &values, |_| Ok(())).await?.is_some())
    }
}
