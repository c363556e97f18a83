//! Lists and counts, over any connection. Newest first means by descending id: ids are made in order of time.

use super::{
    error::error,
    read::{
        DEAD_LETTER, INSTANCE, Read, SECRET, TASK, TENANT, dead_letter, id, instance, key, secret, task,
        tenant_row, time,
    },
    semver,
};
use crate::{
    filter::{self, Bind, Clause, Dialect, MARK, WHOSE},
    port::Result,
    rows::*,
    views::*,
};
use machine::{
    TenantId,
    query::{Condition, Subject},
    state::{ENDED_WORDS, OPEN_WORDS},
};
use rusqlite::{Row, ToSql, params, types::Value};
use std::{cmp::Reverse, collections::BTreeSet};
use uuid::Uuid;

/// The most rows that lists without pages return at once.
pub(super) const ROWS_MAX: usize = 10_000;

const BY_KEY: &str = " AND i.business_key = ?2 ORDER BY i.ended_at IS NULL DESC, i.id DESC LIMIT 1";
const HISTORY: &str = "SELECT instance, version, at, events FROM wf_history
    WHERE tenant = ?1 AND instance = ?2 AND version > ?3 ORDER BY version LIMIT ?4";
/// Runs along the primary key, whatever the documents weigh.
pub(super) const NAMES: &str = "SELECT DISTINCT namespace, name FROM definitions
    WHERE tenant = ?1 AND (namespace, name) > (?2, ?3) AND (?4 IS NULL OR namespace = ?4)
    ORDER BY namespace, name LIMIT ?5";
const SUMMARY: &str = "SELECT namespace, name, version, title, media_type, created_at
    FROM definitions WHERE tenant = ?1 AND namespace = ?2 AND name = ?3";
const TASK_EVENTS: &str = "SELECT task, sequence, kind, actor, at, detail FROM wf_task_events
    WHERE tenant = ?1 AND task = ?2 ORDER BY sequence";
const KEYS: &str =
    "SELECT id, name, hash, roles, created_at, expires_at, revoked_at, tenant, subject FROM api_keys
    WHERE tenant = ?1 ORDER BY created_at, id";
/// The worker or endpoint a given-up call or delivery was for; NULL for other dead letters.
const ORIGIN_WORKER: &str =
    "iif(source IN ('call', 'delivery'), json_extract(CAST(origin AS TEXT), '$.name'), NULL)";
/// How this database reads what is not a plain column.
const DIALECT: Dialect = Dialect {
    text_of: |column| format!("CAST({column} AS TEXT)"),
    member: |column| format!("json_extract(CAST({column} AS TEXT), {MARK})"),
    path: |name| format!("$.\"{name}\""),
    position: |text| format!("instr(lower({text}), {MARK})"),
    letter_worker: ORIGIN_WORKER,
    holds: |events, event| format!("instr({events}, {event}) > 0"),
};
const COUNT_INSTANCES: &str = "SELECT status, count(*) FROM wf_instances";
const COUNT_REST: [(&str, &str); 7] = [
    ("wf_signal_q", ""),
    ("wf_schedule_q", ""),
    ("calls", ""),
    ("deliveries", ""),
    ("wf_dlq", ""),
    ("outbox", ""),
    ("wf_tasks", "status IN ('open', 'claimed')"),
];

impl Read<'_> {
    pub fn instances(
        &self,
        tenant: &TenantId,
        filter: &InstanceFilter,
        page: &Page,
    ) -> Result<Vec<InstanceView>> {
        let filter = &filter.narrowed();
        let by_status = |status: Option<&str>| self.instances_of(tenant, filter, status, page);
        // Children lie in the index by status.
        let all: Vec<String>;
        let statuses = match filter.parent.is_some() && filter.statuses.is_empty() {
            true => {
                all = OPEN_WORDS.iter().chain(&ENDED_WORDS).map(|word| (*word).to_owned()).collect();
                &all
            }
            false => &filter.statuses,
        };
        self.merged(statuses, page, by_status, |view| view.row.id)
    }

    fn instances_of(
        &self,
        tenant: &TenantId,
        filter: &InstanceFilter,
        status: Option<&str>,
        page: &Page,
    ) -> Result<Vec<InstanceView>> {
        let mut query = Query::new(INSTANCE, tenant);
        query.equals("i.status", status);
        query.compare("i.parent =", filter.parent.map(blob));
        query.equals("i.namespace", filter.namespace.as_deref());
        query.equals("i.name", filter.name.as_deref());
        query.equals("i.version", filter.version.as_deref());
        query.equals("i.business_key", filter.business_key.as_deref());
        for (name, value) in &filter.business_parts {
            query.part(name, value);
        }
        query.compare("i.created_at >=", filter.created_from.map(|time| Value::Integer(time.0)));
        query.compare("i.created_at <", filter.created_to.map(|time| Value::Integer(time.0)));
        query.meets(Subject::Instances, &filter.conditions);
        query.page("i.id", page);
        self.many(&query.sql, &query.values(), instance)
    }

    /// The instance that holds `business_key` and has not ended, else the newest that held it.
    pub fn instance_by_key(&self, tenant: &TenantId, business_key: &str) -> Result<Option<InstanceView>> {
        self.one(&format!("{INSTANCE}{BY_KEY}"), params![tenant.as_str(), business_key], instance)
    }

    /// Oldest first, versions above `after`.
    pub fn history(
        &self,
        tenant: &TenantId,
        instance: Uuid,
        after: i64,
        limit: usize,
    ) -> Result<Vec<HistoryRow>> {
        let limit = limit.min(ROWS_MAX) as i64;
        self.many(HISTORY, params![tenant.as_str(), instance.as_bytes(), after, limit], |row| {
            Ok(HistoryRow {
                instance: id(row, 0)?,
                version: row.get(1)?,
                at: time(row, 2)?,
                events: row.get(3)?,
            })
        })
    }

    /// The newest version of each name, by namespace and name.
    pub fn definitions(
        &self,
        tenant: &TenantId,
        filter: &DefinitionFilter,
    ) -> Result<Vec<DefinitionSummary>> {
        let (namespace, name) = filter.after.clone().unwrap_or_default();
        let limit = filter.limit.clamp(1, PAGE_MAX) as i64;
        let names: Vec<(String, String)> =
            self.many(NAMES, params![tenant.as_str(), namespace, name, filter.namespace, limit], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })?;
        let newest = |(namespace, name): (String, String)| {
            let Some(version) = self.newest(tenant, &namespace, &name)? else { return Ok(None) };
            let values = params![tenant.as_str(), namespace, name, version];
            self.one(&format!("{SUMMARY} AND version = ?4"), values, summary)
        };
        names.into_iter().filter_map(|name| newest(name).transpose()).collect()
    }

    /// All versions of one name, newest first.
    pub fn versions(&self, tenant: &TenantId, namespace: &str, name: &str) -> Result<Vec<DefinitionSummary>> {
        let mut rows = self.many(SUMMARY, params![tenant.as_str(), namespace, name], summary)?;
        rows.sort_by(|a, b| semver::compare(&b.version, &a.version));
        Ok(rows)
    }

    pub fn tasks(&self, tenant: &TenantId, filter: &TaskFilter, page: &Page) -> Result<Vec<TaskRow>> {
        let by_status = |status: Option<&str>| self.tasks_of(tenant, filter, status, page);
        self.merged(&filter.statuses, page, by_status, |task| task.id)
    }

    fn tasks_of(
        &self,
        tenant: &TenantId,
        filter: &TaskFilter,
        status: Option<&str>,
        page: &Page,
    ) -> Result<Vec<TaskRow>> {
        let mut query = Query::new(TASK, tenant);
        query.equals("status", status);
        query.equals("assignee", filter.assignee.as_deref());
        query.compare("instance =", filter.instance.map(blob));
        if !filter.groups.is_empty() {
            query.sql += " AND EXISTS (SELECT 1 FROM json_each(CAST(candidate_groups AS TEXT)) WHERE true";
            query.any_of("value", &filter.groups);
            query.sql += ")";
        }
        query.page("id", page);
        self.many(&query.sql, &query.values(), task)
    }

    /// One list per status, each along its index, merged newest first. One query over several statuses would read
    /// and sort every row that has any of them.
    fn merged<T>(
        &self,
        statuses: &[String],
        page: &Page,
        list: impl Fn(Option<&str>) -> Result<Vec<T>>,
        id: impl Fn(&T) -> Uuid,
    ) -> Result<Vec<T>> {
        if statuses.is_empty() {
            return list(None);
        }
        let distinct: BTreeSet<&str> = statuses.iter().map(String::as_str).collect();
        let snapshot = self.connection().unchecked_transaction().map_err(error)?;
        let mut rows = Vec::new();
        for status in distinct {
            rows.extend(list(Some(status))?);
        }
        snapshot.finish().map_err(error)?;
        rows.sort_by_key(|row| Reverse(id(row)));
        rows.truncate(page.rows());
        Ok(rows)
    }

    pub fn task_events(&self, tenant: &TenantId, task: Uuid) -> Result<Vec<TaskEventRow>> {
        self.many(TASK_EVENTS, params![tenant.as_str(), task.as_bytes()], |row| {
            Ok(TaskEventRow {
                task: id(row, 0)?,
                sequence: row.get(1)?,
                kind: row.get(2)?,
                actor: row.get(3)?,
                at: time(row, 4)?,
                detail: row.get(5)?,
            })
        })
    }

    pub fn dead_letters(
        &self,
        tenant: &TenantId,
        filter: &DeadLetterFilter,
        page: &Page,
    ) -> Result<Vec<DeadLetterRow>> {
        let mut query = Query::new(DEAD_LETTER, tenant);
        query.equals("reason", filter.reason.as_deref());
        query.equals("source", filter.source.as_deref());
        query.compare("instance =", filter.instance.map(blob));
        query.equals(ORIGIN_WORKER, filter.worker.as_deref());
        query.compare("error_group =", filter.group.map(blob));
        query.meets(Subject::DeadLetters, &filter.conditions);
        query.page("id", page);
        self.many(&query.sql, &query.values(), dead_letter)
    }

    pub fn tenants(&self) -> Result<Vec<TenantRow>> {
        self.many(&format!("{TENANT} ORDER BY tenant"), &[], tenant_row)
    }

    /// By name.
    pub fn secrets(&self, tenant: &TenantId) -> Result<Vec<SecretRow>> {
        self.many(&format!("{SECRET} ORDER BY name"), params![tenant.as_str()], secret)
    }

    pub fn keys(&self, tenant: &TenantId) -> Result<Vec<KeyRow>> {
        self.many(KEYS, params![tenant.as_str()], key)
    }

    /// Counts for one tenant, or over all; of one moment.
    pub fn counts(&self, tenant: Option<&TenantId>) -> Result<Counts> {
        let snapshot = self.connection().unchecked_transaction().map_err(error)?;
        let of = if tenant.is_some() { " WHERE tenant = ?1" } else { "" };
        let values: &[&dyn ToSql] = match &tenant {
            Some(tenant) => &[&tenant.as_str()],
            None => &[],
        };
        let sql = format!("{COUNT_INSTANCES}{of} GROUP BY status ORDER BY status");
        let instances = self.many(&sql, values, |row| Ok((row.get(0)?, row.get::<_, i64>(1)? as u64)))?;
        let mut rest = [0; COUNT_REST.len()];
        for (count, (table, such)) in rest.iter_mut().zip(COUNT_REST) {
            let and = if of.is_empty() { " WHERE " } else { " AND " };
            let such = if such.is_empty() { String::new() } else { format!("{and}{such}") };
            let sql = format!("SELECT count(*) FROM {table}{of}{such}");
            *count = self.one(&sql, values, |row| row.get::<_, i64>(0))?.unwrap_or(0) as u64;
        }
        snapshot.finish().map_err(error)?;
        let [signals, timers, calls, deliveries, dead_letters, outbox, tasks_open] = rest;
        Ok(Counts { instances, signals, timers, calls, deliveries, dead_letters, outbox, tasks_open })
    }
}

fn blob(id: Uuid) -> Value {
    Value::Blob(id.as_bytes().to_vec())
}

/// A list's text and values, grown filter by filter. Values are always bound, never part of the text.
pub(super) struct Query {
    pub(super) sql: String,
    values: Vec<Value>,
}

impl Query {
    /// `base` ends in a condition on the tenant, the first value.
    pub(super) fn new(base: &str, tenant: &TenantId) -> Query {
        Query { sql: base.to_owned(), values: vec![Value::Text(tenant.as_str().to_owned())] }
    }

    pub(super) fn equals(&mut self, column: &str, value: Option<&str>) {
        self.compare(&format!("{column} ="), value.map(|text| Value::Text(text.to_owned())));
    }

    /// A part of the business key; `name` holds nothing that means something in a path into JSON.
    fn part(&mut self, name: &str, value: &str) {
        self.sql += " AND i.business_parts IS NOT NULL";
        self.values.push(Value::Text(format!("$.\"{name}\"")));
        let path = self.values.len();
        self.equals(&format!("json_extract(CAST(i.business_parts AS TEXT), ?{path})"), Some(value));
    }

    pub(super) fn compare(&mut self, left: &str, value: Option<Value>) {
        if let Some(value) = value {
            self.values.push(value);
            self.sql += &format!(" AND {left} ?{}", self.values.len());
        }
    }

    /// What a query says.
    pub(super) fn meets(&mut self, subject: Subject, conditions: &[Condition]) {
        for Clause { sql, binds } in filter::clauses(subject, conditions, &DIALECT) {
            let mut binds = binds.into_iter();
            self.sql += " AND ";
            for letter in sql.chars() {
                if letter == WHOSE {
                    self.sql += "?1";
                    continue;
                }
                let bind = if letter == MARK { binds.next() } else { None };
                let Some(bind) = bind else {
                    self.sql.push(letter);
                    continue;
                };
                self.values.push(match bind {
                    Bind::Text(text) => Value::Text(text),
                    Bind::Id(id) => blob(id),
                    Bind::Int(number) => Value::Integer(number),
                });
                self.sql += &format!("?{}", self.values.len());
            }
        }
    }

    fn any_of(&mut self, column: &str, values: &[String]) {
        if values.is_empty() {
            return;
        }
        let mut marks = Vec::with_capacity(values.len());
        for value in values {
            self.values.push(Value::Text(value.clone()));
            marks.push(format!("?{}", self.values.len()));
        }
        self.sql += &format!(" AND {column} IN ({})", marks.join(", "));
    }

    pub(super) fn page(&mut self, id: &str, page: &Page) {
        self.compare(&format!("{id} <"), page.after.map(blob));
        self.sql += &format!(" ORDER BY {id} DESC LIMIT {}", page.rows());
    }

    /// Newest first by two columns, those before the pair that is given.
    pub(super) fn before(&mut self, [at, id]: [&str; 2], pair: Option<(Value, Uuid)>, limit: usize) {
        if let Some((time, named)) = pair {
            self.values.extend([time, blob(named)]);
            let last = self.values.len();
            self.sql += &format!(" AND ({at}, {id}) < (?{}, ?{last})", last - 1);
        }
        self.sql += &format!(" ORDER BY {at} DESC, {id} DESC LIMIT {limit}");
    }

    /// Oldest first, deliveries that came after this one.
    pub(super) fn after_delivery(&mut self, after: Option<Uuid>, limit: usize) {
        if let Some(after) = after {
            self.values.push(blob(after));
            let at = self.values.len();
            self.sql += &format!(
                " AND seq > coalesce((SELECT seq FROM deliveries WHERE tenant = ?1 AND id = ?{at}), 0)"
            );
        }
        self.sql += &format!(" ORDER BY seq LIMIT {limit}");
    }

    pub(super) fn values(&self) -> Vec<&dyn ToSql> {
        self.values.iter().map(|value| value as &dyn ToSql).collect()
    }
}

fn summary(row: &Row<'_>) -> rusqlite::Result<DefinitionSummary> {
    Ok(DefinitionSummary {
        namespace: row.get(0)?,
        name: row.get(1)?,
        version: row.get(2)?,
        title: row.get(3)?,
        media_type: row.get(4)?,
        created_at: time(row, 5)?,
    })
}
