//! Lists and counts. Newest first means by descending id: ids are made in order of time.

use super::{
    base::{Postgres, of},
    read::{DEAD_LETTER, INSTANCE, TASK, dead_letter as letter, instance, optional_time, task, time},
    session::Scope,
    store::newest_first,
    value::{Text, Value, get, int, maybe_text, text},
};
use crate::{
    filter::{self, Bind, Clause, Dialect, MARK, WHOSE},
    port::Result,
    rows::*,
    views::*,
};
use machine::{
    TenantId, Time,
    query::{Condition, Subject},
    state::{ENDED_WORDS, OPEN_WORDS},
};
use std::collections::BTreeSet;
use tokio_postgres::{Error as PgError, Row};
use uuid::Uuid;

/// The most rows that lists without pages return at once.
pub(super) const ROWS_MAX: usize = 10_000;

pub(super) const BY_KEY: &str =
    " AND i.business_key = $2 ORDER BY i.ended_at IS NULL DESC, i.id DESC LIMIT 1";
/// History whose instance has gone may still be there, for its day's partition to go.
pub(super) const HISTORY: &str = "SELECT instance, version, at, events FROM wf_history
    WHERE tenant = $1 AND instance = $2 AND version > $3
    AND EXISTS (SELECT 1 FROM wf_instances WHERE tenant = $1 AND id = $2) ORDER BY version LIMIT $4";
/// Runs along the primary key, whatever the documents weigh.
const NAMES: &str = "SELECT DISTINCT namespace, name FROM definitions
    WHERE tenant = $1 AND (namespace, name) > ($2, $3) AND ($4 IS NULL OR namespace = $4)
    ORDER BY namespace, name LIMIT $5";
pub(super) const SUMMARY: &str = "SELECT namespace, name, version, title, media_type, created_at
    FROM definitions WHERE tenant = $1 AND namespace = $2 AND name = $3";
pub(super) const TASK_EVENTS: &str = "SELECT task, sequence, kind, actor, at, detail FROM wf_task_events
    WHERE tenant = $1 AND task = $2 ORDER BY sequence";
pub(super) const TENANTS: &str =
    "SELECT tenant, title, status, created_at, weight, purge_at, open_max, starts_per_second, concurrency_max,
    degraded_per_second FROM tenants ORDER BY tenant";
pub(super) const KEYS: &str =
    "SELECT id, name, hash, roles, created_at, expires_at, revoked_at, tenant, subject FROM api_keys
    WHERE tenant = $1 ORDER BY created_at, id";
pub(super) const EVENT_COLUMNS: &str =
    "id, source, event_id, event_type, received_at, kept_until, expires_at, told, taken,
    started, collected, event, delivered, emitted_by, trace_id, correlation_id";
pub(super) const EVENT: &str =
    "SELECT id, source, event_id, event_type, received_at, kept_until, expires_at, told, taken, started,
    collected, event, delivered, emitted_by, trace_id, correlation_id FROM events WHERE tenant = $1";
pub(super) const EVENTS_OF: &str =
    "SELECT e.id, source, event_id, event_type, received_at, kept_until, expires_at, told, taken, started,
    collected, event, delivered, emitted_by, trace_id, correlation_id FROM unnest($2) WITH ORDINALITY AS r(id, ord)
    JOIN events e ON e.tenant = $1 AND e.id = r.id ORDER BY r.ord";
pub(super) const SCHEDULES_ON: &str = "SELECT DISTINCT owner FROM subscriptions
    WHERE tenant = $1 AND kind = 'schedule' AND event_type IN ($2, '') LIMIT $3";
pub(super) const KEEPS: &str = "SELECT EXISTS (SELECT 1 FROM events WHERE kept_until IS NOT NULL)";
/// The worker or endpoint a given-up call or delivery was for; NULL for other dead letters.
const ORIGIN_WORKER: &str =
    "CASE WHEN source IN ('call', 'delivery') THEN convert_from(origin, 'UTF8')::json ->> 'name' END";
/// How this database reads what is not a plain column. Columns are compared by their bytes, and so is what is read from them.
const DIALECT: Dialect = Dialect {
    text_of: |column| format!("convert_from({column}, 'UTF8')"),
    member: |column| format!("(convert_from({column}, 'UTF8')::json ->> {MARK} COLLATE \"C\")"),
    path: str::to_owned,
    position: |text| format!("strpos(lower({text} COLLATE \"C\"), {MARK})"),
    letter_worker: "(CASE WHEN source IN ('call', 'delivery') THEN convert_from(origin, 'UTF8')::json ->> 'name' END COLLATE \"C\")",
    holds: |events, event| format!("position(uuid_send({event}) IN {events}) > 0"),
};
/// All of one moment: one statement.
const COUNTS: &str = "SELECT
    (SELECT count(*) FROM wf_signal_q WHERE $1 IS NULL OR tenant = $1),
    (SELECT count(*) FROM wf_schedule_q WHERE $1 IS NULL OR tenant = $1),
    (SELECT count(*) FROM calls WHERE $1 IS NULL OR tenant = $1),
    (SELECT count(*) FROM deliveries WHERE $1 IS NULL OR tenant = $1),
    (SELECT count(*) FROM wf_dlq WHERE $1 IS NULL OR tenant = $1),
    (SELECT count(*) FROM outbox WHERE $1 IS NULL OR tenant = $1),
    (SELECT count(*) FROM wf_tasks WHERE ($1 IS NULL OR tenant = $1) AND status IN ('open', 'claimed')),
    (SELECT json_object_agg(status, n ORDER BY status)::text FROM
        (SELECT status, count(*) AS n FROM wf_instances WHERE $1 IS NULL OR tenant = $1 GROUP BY status) AS by_status)";

impl Postgres {
    pub(super) async fn list_instances(
        &self,
        tenant: &TenantId,
        filter: &InstanceFilter,
        page: &Page,
    ) -> Result<Vec<InstanceView>> {
        let filter = &*filter.narrowed();
        let clauses = clauses(Subject::Instances, &filter.conditions);
        // Children lie in the index by status.
        let all = filter.parent.is_some() && filter.statuses.is_empty();
        let statuses: BTreeSet<&str> = match all {
            true => OPEN_WORDS.into_iter().chain(ENDED_WORDS).collect(),
            false => filter.statuses.iter().map(String::as_str).collect(),
        };
        // One part per status, each along its index: a condition over several statuses would read and sort every row
        // that has any of them.
        let mut query = Query::new(tenant);
        let parts: Vec<Option<&str>> =
            if statuses.is_empty() { vec![None] } else { statuses.into_iter().map(Some).collect() };
        for status in parts {
            query.begin(INSTANCE);
            query.equals("i.status", status);
            query.compare("i.parent =", filter.parent.map(|id| Value::Id(Some(id))));
            query.equals("i.namespace", filter.namespace.as_deref());
            query.equals("i.name", filter.name.as_deref());
            query.equals("i.version", filter.version.as_deref());
            query.equals("i.business_key", filter.business_key.as_deref());
            for (name, value) in &filter.business_parts {
                query.part(name, value);
            }
            query.compare("i.created_at >=", filter.created_from.map(|time| int(time.0)));
            query.compare("i.created_at <", filter.created_to.map(|time| int(time.0)));
            query.meets(&clauses);
            query.page("i.id", page);
        }
        let mut rows = match clauses.is_empty() {
            true => self.many(of(tenant), &query.sql, &query.values, instance).await?,
            false => self.many_once(of(tenant), &query.sql, &query.values, instance).await?,
        };
        newest_first(&mut rows, page, |view| view.row.id);
        Ok(rows)
    }

    pub(super) async fn list_definitions(
        &self,
        tenant: &TenantId,
        filter: &DefinitionFilter,
    ) -> Result<Vec<DefinitionSummary>> {
        let (namespace, name) = filter.after.clone().unwrap_or_default();
        let values = [
            text(tenant.as_str()),
            text(&namespace),
            text(&name),
            maybe_text(filter.namespace.as_deref()),
            int(filter.limit.clamp(1, PAGE_MAX) as i64),
        ];
        let names: Vec<(String, String)> =
            self.many(of(tenant), NAMES, &values, |row| Ok((get(row, 0)?, get(row, 1)?))).await?;
        let mut newest = Vec::with_capacity(names.len());
        for (namespace, name) in names {
            let values = [text(tenant.as_str()), text(&namespace), text(&name)];
            let versions = self.many(of(tenant), SUMMARY, &values, summary).await?;
            newest.extend(versions.into_iter().max_by(|a, b| crate::by_preference(&a.version, &b.version)));
        }
        Ok(newest)
    }

    pub(super) async fn list_tasks(
        &self,
        tenant: &TenantId,
        filter: &TaskFilter,
        page: &Page,
    ) -> Result<Vec<TaskRow>> {
        let statuses: BTreeSet<&str> = filter.statuses.iter().map(String::as_str).collect();
        let parts: Vec<Option<&str>> =
            if statuses.is_empty() { vec![None] } else { statuses.into_iter().map(Some).collect() };
        let groups: Vec<Text<'_>> = filter.groups.iter().map(|group| Text(group)).collect();
        let mut query = Query::new(tenant);
        for status in parts {
            query.begin(TASK);
            query.equals("status", status);
            query.equals("assignee", filter.assignee.as_deref());
            query.compare("instance =", filter.instance.map(|id| Value::Id(Some(id))));
            let groups = (!groups.is_empty()).then_some(Value::Texts(&groups));
            query.compare("convert_from(candidate_groups, 'UTF8')::jsonb ?|", groups);
            query.page("id", page);
        }
        let mut rows = self.many(of(tenant), &query.sql, &query.values, task).await?;
        newest_first(&mut rows, page, |task| task.id);
        Ok(rows)
    }

    pub(super) async fn list_dead_letters(
        &self,
        tenant: &TenantId,
        filter: &DeadLetterFilter,
        page: &Page,
    ) -> Result<Vec<DeadLetterRow>> {
        let clauses = clauses(Subject::DeadLetters, &filter.conditions);
        let mut query = Query::new(tenant);
        query.begin(DEAD_LETTER);
        query.equals("reason", filter.reason.as_deref());
        query.equals("source", filter.source.as_deref());
        query.compare("instance =", filter.instance.map(|id| Value::Id(Some(id))));
        query.equals(ORIGIN_WORKER, filter.worker.as_deref());
        query.compare("error_group =", filter.group.map(|id| Value::Id(Some(id))));
        query.meets(&clauses);
        query.page("id", page);
        match clauses.is_empty() {
            true => self.many(of(tenant), &query.sql, &query.values, letter).await,
            false => self.many_once(of(tenant), &query.sql, &query.values, letter).await,
        }
    }

    pub(super) async fn list_events(
        &self,
        tenant: &TenantId,
        filter: &EventFilter,
        page: &Page,
    ) -> Result<Vec<EventRow>> {
        let clauses = clauses(Subject::Events, &filter.conditions);
        let mut query = Query::new(tenant);
        query.begin(EVENT);
        query.equals("event_type", filter.event_type.as_deref());
        query.equals("source", filter.source.as_deref());
        query.meets(&clauses);
        query.page("id", page);
        match clauses.is_empty() {
            true => self.many(of(tenant), &query.sql, &query.values, event).await,
            false => self.many_once(of(tenant), &query.sql, &query.values, event).await,
        }
    }

    pub(super) async fn list_counts(&self, tenant: Option<&TenantId>) -> Result<Counts> {
        let scope = tenant.map_or(Scope::All, of);
        let map = |row: &Row| {
            let count = |at: usize| get::<i64>(row, at).map(|count| count as u64);
            let by_status: Option<String> = get(row, 7)?;
            let by_status = by_status.unwrap_or_else(|| "{}".to_owned());
            let by_status: serde_json::Map<String, serde_json::Value> =
                serde_json::from_str(&by_status).unwrap_or_default();
            let number = |value: serde_json::Value| value.as_u64().unwrap_or_default();
            Ok(Counts {
                instances: by_status.into_iter().map(|(status, count)| (status, number(count))).collect(),
                signals: count(0)?,
                timers: count(1)?,
                calls: count(2)?,
                deliveries: count(3)?,
                dead_letters: count(4)?,
                outbox: count(5)?,
                tasks_open: count(6)?,
            })
        };
        let values = [maybe_text(tenant.map(TenantId::as_str))];
        Ok(self.one(scope, COUNTS, &values, map).await?.unwrap_or_default())
    }
}

/// What a query says, as this database is asked it.
pub(super) fn clauses(subject: Subject, conditions: &[Condition]) -> Vec<Clause> {
    filter::clauses(subject, conditions, &DIALECT)
}

/// A list's text and values, grown filter by filter. Values are always bound, never part of the text. Several parts are
/// read as one list.
pub(super) struct Query<'a> {
    pub(super) sql: String,
    pub(super) values: Vec<Value<'a>>,
}

impl<'a> Query<'a> {
    /// The tenant is the first value of every part.
    pub(super) fn new(tenant: &'a TenantId) -> Query<'a> {
        Query { sql: String::new(), values: vec![text(tenant.as_str())] }
    }

    pub(super) fn begin(&mut self, base: &str) {
        self.sql += if self.sql.is_empty() { "(" } else { " UNION ALL (" };
        self.sql += base;
    }

    pub(super) fn equals(&mut self, column: &str, value: Option<&'a str>) {
        self.compare(&format!("{column} ="), value.map(text));
    }

    fn compare(&mut self, left: &str, value: Option<Value<'a>>) {
        if let Some(value) = value {
            self.values.push(value);
            self.sql += &format!(" AND {left} ${}", self.values.len());
        }
    }

    /// What a query says.
    pub(super) fn meets(&mut self, clauses: &'a [Clause]) {
        for Clause { sql, binds } in clauses {
            let mut binds = binds.iter();
            self.sql += " AND ";
            for letter in sql.chars() {
                if letter == WHOSE {
                    self.sql += "$1";
                    continue;
                }
                let bind = if letter == MARK { binds.next() } else { None };
                let Some(bind) = bind else {
                    self.sql.push(letter);
                    continue;
                };
                self.values.push(match bind {
                    Bind::Text(value) => text(value),
                    Bind::Id(id) => Value::Id(Some(*id)),
                    Bind::Int(number) => int(*number),
                });
                self.sql += &format!("${}", self.values.len());
            }
        }
    }

    /// A part of the business key.
    fn part(&mut self, name: &'a str, value: &'a str) {
        self.sql += " AND i.business_parts IS NOT NULL";
        self.values.push(text(name));
        let name = self.values.len();
        self.equals(&format!("convert_from(i.business_parts, 'UTF8')::json ->> ${name}"), Some(value));
    }

    /// Newest first by two columns, those before the pair that is given. Ends the part.
    pub(super) fn before(&mut self, [at, id]: [&str; 2], pair: Option<(Time, Uuid)>, limit: usize) {
        if let Some((time, named)) = pair {
            self.values.extend([int(time.0), Value::Id(Some(named))]);
            let last = self.values.len();
            self.sql += &format!(" AND ({at}, {id}) < (${}, ${last})", last - 1);
        }
        self.sql += &format!(" ORDER BY {at} DESC, {id} DESC LIMIT {limit})");
    }

    /// Oldest first, deliveries that came after this one. Ends the part.
    pub(super) fn after_delivery(&mut self, after: Option<Uuid>, limit: usize) {
        if let Some(after) = after {
            self.values.push(Value::Id(Some(after)));
            let at = self.values.len();
            self.sql += &format!(
                " AND q.seq > coalesce((SELECT seq FROM deliveries WHERE tenant = $1 AND id = ${at}), 0)"
            );
        }
        self.sql += &format!(" ORDER BY q.seq LIMIT {limit})");
    }

    /// Ends the part.
    pub(super) fn page(&mut self, id: &str, page: &Page) {
        self.compare(&format!("{id} <"), page.after.map(|id| Value::Id(Some(id))));
        self.sql += &format!(" ORDER BY {id} DESC LIMIT {})", page.rows());
    }
}

pub(super) fn status_count(row: &Row) -> std::result::Result<(String, u64), PgError> {
    Ok((get(row, 0)?, get::<i64>(row, 1)? as u64))
}

pub(super) fn history(row: &Row) -> std::result::Result<HistoryRow, PgError> {
    Ok(HistoryRow { instance: get(row, 0)?, version: get(row, 1)?, at: time(row, 2)?, events: get(row, 3)? })
}

pub(super) fn summary(row: &Row) -> std::result::Result<DefinitionSummary, PgError> {
    Ok(DefinitionSummary {
        namespace: get(row, 0)?,
        name: get(row, 1)?,
        version: get(row, 2)?,
        title: get(row, 3)?,
        media_type: get(row, 4)?,
        created_at: time(row, 5)?,
    })
}

pub(super) fn task_event(row: &Row) -> std::result::Result<TaskEventRow, PgError> {
    Ok(TaskEventRow {
        task: get(row, 0)?,
        sequence: get(row, 1)?,
        kind: get(row, 2)?,
        actor: get(row, 3)?,
        at: time(row, 4)?,
        detail: get(row, 5)?,
    })
}

pub(super) fn event(row: &Row) -> std::result::Result<EventRow, PgError> {
    let count = |at: usize| get::<i64>(row, at).map(i64::unsigned_abs);
    Ok(EventRow {
        id: get(row, 0)?,
        source: get(row, 1)?,
        event_id: get(row, 2)?,
        event_type: get(row, 3)?,
        received_at: time(row, 4)?,
        visible_at: machine::Time(0),
        kept_until: optional_time(row, 5)?,
        expires_at: time(row, 6)?,
        told: count(7)?,
        taken: count(8)?,
        started: count(9)?,
        collected: count(10)?,
        event: get(row, 11)?,
        delivered: count(12)?,
        emitted_by: get(row, 13)?,
        traced: Traced { trace_id: get(row, 14)?, correlation_id: get(row, 15)? },
    })
}
