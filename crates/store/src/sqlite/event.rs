//! Events addressed to nobody, and who wants them.
//!
//! Both sides meet inside the writer's transaction: a published event is told to every wait that is there, a wait that
//! begins is told about every event that is kept. Whichever commits second sees the other, so none is missed.

use super::{
    core::Core,
    error::error,
    list::Query,
    read::{Read, id, optional_time, time, token},
    statement::{Prepared, Statement as S},
    write::{self, int},
};
use crate::{
    commit::Conflict,
    feed::{FeedCursor, FeedItem},
    port::Result,
    rows::*,
    told::{KEPT_PER_TYPE_MAX, PATHS_MAX, TOLD_MAX, Told},
    views::*,
};
use machine::{Data, TenantId, Time, correlation, query::Subject};
use rusqlite::{ErrorCode, OptionalExtension as _, Row, ffi, params};
use std::{cell::LazyCell, rc::Rc};
use uuid::Uuid;

const EVENT: &str =
    "SELECT id, source, event_id, event_type, received_at, kept_until, expires_at, told, taken, started,
    collected, event, delivered, emitted_by, trace_id, correlation_id FROM events WHERE tenant = ?1";
const FEED: &str =
    "SELECT id, source, event_id, event_type, received_at, kept_until, expires_at, told, taken, started,
    collected, event, delivered, emitted_by, trace_id, correlation_id, position FROM events WHERE tenant = ?1 AND position > ?2
    ORDER BY position LIMIT ?3";
const LAST_POSITION: &str = "SELECT seq FROM sqlite_sequence WHERE name = 'events'";
const BY_SOURCE: &str = " AND source = ?2 AND event_id = ?3";
const SCHEDULES_ON: &str = "SELECT DISTINCT owner FROM subscriptions
    WHERE tenant = ?1 AND kind = 'schedule' AND event_type IN (?2, '') LIMIT ?3";
const KEEPS: &str = "SELECT EXISTS (SELECT 1 FROM events WHERE kept_until IS NOT NULL)";
/// An event stays while a delivery that may be of it is there: one made before it, or within a minute of it.
const PURGE: &str = "DELETE FROM events WHERE (tenant, id) IN
    (SELECT tenant, id FROM events e WHERE expires_at <= ?1 AND (delivered = 0 OR NOT EXISTS (SELECT 1
        FROM deliveries d WHERE d.tenant = e.tenant AND d.created_at <= e.received_at + 60000000))
    ORDER BY expires_at LIMIT ?2)";

impl Read<'_> {
    pub fn event(&self, tenant: &TenantId, id: Uuid) -> Result<Option<EventRow>> {
        self.one(&format!("{EVENT} AND id = ?2"), params![tenant.as_str(), id.as_bytes()], event)
    }

    /// Those of them that are there, in the order given.
    pub fn events_of(&self, tenant: &TenantId, ids: &[Uuid]) -> Result<Vec<EventRow>> {
        let mut statement =
            self.connection().prepare_cached(&format!("{EVENT} AND id = ?2")).map_err(error)?;
        let mut events = Vec::with_capacity(ids.len());
        for id in ids {
            let found = statement.query_row(params![tenant.as_str(), id.as_bytes()], event);
            events.extend(found.optional().map_err(error)?);
        }
        Ok(events)
    }

    pub fn event_of(&self, tenant: &TenantId, source: &str, event_id: &str) -> Result<Option<EventRow>> {
        self.one(&format!("{EVENT}{BY_SOURCE}"), params![tenant.as_str(), source, event_id], event)
    }

    pub fn events(&self, tenant: &TenantId, filter: &EventFilter, page: &Page) -> Result<Vec<EventRow>> {
        let mut query = Query::new(EVENT, tenant);
        query.equals("event_type", filter.event_type.as_deref());
        query.equals("source", filter.source.as_deref());
        query.meets(Subject::Events, &filter.conditions);
        query.page("id", page);
        self.many(&query.sql, &query.values(), event)
    }

    /// One writer: whatever a reader sees is all that was committed before.
    pub fn feed(&self, tenant: &TenantId, after: FeedCursor, limit: usize) -> Result<Option<Vec<FeedItem>>> {
        let position = i64::try_from(after.commit).unwrap_or(i64::MAX);
        let limit = limit.clamp(1, PAGE_MAX) as i64;
        let items = self.many(FEED, params![tenant.as_str(), position, limit], |row| {
            let commit = row.get::<_, i64>(16)?.cast_unsigned();
            Ok(FeedItem { cursor: FeedCursor { commit, ..FeedCursor::default() }, row: event(row)? })
        })?;
        if items.is_empty() && after != FeedCursor::default() {
            let last: Option<i64> = self.one(LAST_POSITION, &[], |row| row.get(0))?;
            return Ok((after.commit <= last.unwrap_or(0).cast_unsigned()).then_some(items));
        }
        Ok(Some(items))
    }

    /// Schedules that want events of this type, or of any.
    pub fn schedules_on(&self, tenant: &TenantId, event_type: &str, limit: usize) -> Result<Vec<Uuid>> {
        self.many(SCHEDULES_ON, params![tenant.as_str(), event_type, limit as i64], |row| id(row, 0))
    }

    /// True if any tenant has an event that nothing has taken.
    pub fn keeps_events(&self) -> Result<bool> {
        Ok(self.one(KEEPS, &[], |row| row.get(0))?.unwrap_or(false))
    }
}

impl Core {
    /// Deletes events that expired before `now`, at most `limit`.
    pub fn purge_events(&mut self, now: Time, limit: usize) -> Result<u64> {
        self.transaction(|connection| {
            let purged = connection
                .prepare_cached(PURGE)
                .and_then(|mut purge| purge.execute(params![now.0, limit as i64]));
            purged.map(|rows| rows as u64).map_err(error)
        })
    }
}

/// Inserts the event and tells every wait that wants it.
pub(super) fn publish(
    to: &mut Prepared<'_>,
    tenant: &str,
    row: &EventRow,
) -> rusqlite::Result<Option<Conflict>> {
    let values = params![
        tenant,
        row.id.as_bytes(),
        row.source,
        row.event_id,
        row.event_type,
        row.received_at.0,
        row.kept_until.map(|time| time.0),
        row.expires_at.0,
        row.started.cast_signed(),
        row.collected.cast_signed(),
        row.event,
        row.delivered.cast_signed(),
        row.emitted_by,
        row.traced.trace_id,
        row.traced.correlation_id,
    ];
    if to.get(S::CreateEvent)?.execute(values)? == 0 {
        return Ok(Some(Conflict::Duplicate));
    }
    let event = LazyCell::new(|| Data::parse(&row.event).unwrap_or_default());
    let mut told = 0;
    for event_type in [row.event_type.as_str(), ""] {
        for path in paths(to, tenant, event_type)?.iter() {
            let value = match path.as_str() {
                "" => Some(String::new()),
                path => correlation::look_up(path, &event),
            };
            let Some(value) = value else { continue };
            for (instance, token) in wanting(to, tenant, event_type, path, &value)? {
                let teller =
                    Told { tenant, instance, token, event: row.id, at: row.received_at, direct: true };
                note_told(to, &teller)?;
                told += tell(to, &teller, row.visible_at)?;
            }
        }
    }
    if told > TOLD_MAX {
        return Err(too_many());
    }
    if told > 0 {
        to.get(S::EventTold)?.execute(params![tenant, row.id.as_bytes(), told as i64])?;
    }
    if row.kept_until.is_some() {
        to.get(S::EventsCrowded)?.execute(params![tenant, row.event_type, KEPT_PER_TYPE_MAX as i64])?;
    }
    Ok(None)
}

/// Replaces what a subscriber wants and tells it about events that came before.
pub(super) fn subscribe(
    to: &mut Prepared<'_>,
    tenant: &str,
    subscriber: &Subscriber,
    wants: &[SubscriptionRow],
    (now, visible_at): (Time, Time),
) -> rusqlite::Result<Option<Conflict>> {
    unsubscribe(to, tenant, subscriber)?;
    let (kind, owner, own_token) = named(subscriber);
    to.paths.clear();
    for (position, want) in wants.iter().enumerate() {
        let (path, value) = want.key.clone().unwrap_or_default();
        let event_type = want.event_type.as_deref().unwrap_or("");
        let position = position as i64;
        to.get(S::Subscribe)?.execute(params![
            tenant,
            kind,
            owner.as_bytes(),
            int(own_token),
            position,
            event_type,
            path,
            value
        ])?;
    }
    let Subscriber::Listen { instance, token } = *subscriber else { return Ok(None) };
    for want in wants {
        for (event, bytes) in kept(to, tenant, want.event_type.as_deref(), now)? {
            let fits = want.key.as_ref().is_none_or(|(path, value)| {
                let event = Data::parse(&bytes).unwrap_or_default();
                correlation::look_up(path, &event).as_ref() == Some(value)
            });
            let teller = Told { tenant, instance, token, event, at: now, direct: false };
            if fits && note_told(to, &teller)? {
                tell(to, &teller, visible_at)?;
            }
        }
    }
    Ok(None)
}

pub(super) fn unsubscribe(
    to: &mut Prepared<'_>,
    tenant: &str,
    subscriber: &Subscriber,
) -> rusqlite::Result<Option<Conflict>> {
    let (kind, owner, token) = named(subscriber);
    to.get(S::Unsubscribe)?.execute(params![tenant, kind, owner.as_bytes(), int(token)])?;
    Ok(None)
}

fn named(subscriber: &Subscriber) -> (&'static str, Uuid, u64) {
    match *subscriber {
        Subscriber::Listen { instance, token } => ("listen", instance, token),
        Subscriber::Schedule { id } => ("schedule", id, 0),
    }
}

/// Records that the instance was told; `false` if it was before.
fn note_told(to: &mut Prepared<'_>, told: &Told<'_>) -> rusqlite::Result<bool> {
    let (scope, key) = told.note();
    let nothing: &[u8] = &[];
    let values = params![told.tenant, scope, key, told.at.0, nothing, nothing];
    Ok(to.get(S::ClaimKey)?.execute(values)? > 0)
}

/// Queues the signal; answers how many rows that made.
fn tell(to: &mut Prepared<'_>, told: &Told<'_>, visible_at: Time) -> rusqlite::Result<usize> {
    let row = told.signal(visible_at);
    write::signal(to, told.tenant, &row)
}

/// The places in which waits for this type look for their value: one step along the index each.
fn paths(to: &mut Prepared<'_>, tenant: &str, event_type: &str) -> rusqlite::Result<Rc<[String]>> {
    let key = (tenant.to_owned(), event_type.to_owned());
    if let Some(paths) = to.paths.get(&key) {
        return Ok(paths.clone());
    }
    let statement = to.get(S::NextPath)?;
    let mut paths: Vec<String> = Vec::new();
    for _ in 0..PATHS_MAX {
        let last = paths.last().map(String::as_str);
        let next: Option<String> =
            statement.query_row(params![tenant, event_type, last], |row| row.get(0))?;
        match next {
            Some(next) => paths.push(next),
            None => break,
        }
    }
    let paths: Rc<[String]> = paths.into();
    to.paths.insert(key, paths.clone());
    Ok(paths)
}

fn wanting(
    to: &mut Prepared<'_>,
    tenant: &str,
    event_type: &str,
    path: &str,
    value: &str,
) -> rusqlite::Result<Vec<(Uuid, u64)>> {
    let statement = to.get(S::Wanting)?;
    let limit = TOLD_MAX as i64 + 1;
    let rows = statement.query_map(params![tenant, event_type, path, value, limit], |row| {
        Ok((id(row, 0)?, token(row, 1)?))
    })?;
    rows.collect()
}

fn kept(
    to: &mut Prepared<'_>,
    tenant: &str,
    event_type: Option<&str>,
    now: Time,
) -> rusqlite::Result<Vec<(Uuid, Vec<u8>)>> {
    let statement = to.get(if event_type.is_some() { S::KeptOfType } else { S::Kept })?;
    let rows = statement
        .query_map(params![tenant, event_type.unwrap_or(""), now.0, KEPT_PER_TYPE_MAX as i64], |row| {
            Ok((id(row, 0)?, row.get(1)?))
        })?;
    rows.collect()
}

/// Ends the commit as one that the store refuses.
fn too_many() -> rusqlite::Error {
    let code = ffi::Error { code: ErrorCode::TooBig, extended_code: ffi::SQLITE_TOOBIG };
    rusqlite::Error::SqliteFailure(code, Some(format!("more than {TOLD_MAX} waits want this event")))
}

fn event(row: &Row<'_>) -> rusqlite::Result<EventRow> {
    let count = |at: usize| row.get::<_, i64>(at).map(i64::unsigned_abs);
    Ok(EventRow {
        id: id(row, 0)?,
        source: row.get(1)?,
        event_id: row.get(2)?,
        event_type: row.get(3)?,
        received_at: time(row, 4)?,
        visible_at: Time(0),
        kept_until: optional_time(row, 5)?,
        expires_at: time(row, 6)?,
        told: count(7)?,
        taken: count(8)?,
        started: count(9)?,
        collected: count(10)?,
        delivered: count(12)?,
        emitted_by: row.get(13)?,
        traced: Traced { trace_id: row.get(14)?, correlation_id: row.get(15)? },
        event: row.get(11)?,
    })
}
