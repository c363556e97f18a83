//! Events addressed to nobody, and who wants them.
//!
//! A published event is told to every wait that is there, a wait that begins is told about every event that is kept.
//! Two transactions at the same time would not see each other, so both sides lock what they have in common, the type of
//! the event, before they look: publishers together, a wait that begins alone. Whichever comes second sees the other.

use super::{
    bind,
    session::Session,
    solo::{Ended, Trouble, plain},
    statement::Statement,
    value::{Column, Text, Value, bytes, get, id, int, maybe_time, text, time, token},
};
use crate::{
    commit::*,
    rows::*,
    told::{KEPT_PER_TYPE_MAX, PATHS_MAX, TOLD_MAX, Told},
};
use machine::{Data, Time, correlation};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use uuid::Uuid;

const CREATE: &str =
    "INSERT INTO events (tenant, id, source, event_id, event_type, received_at, kept_until, expires_at,
    told, taken, started, event) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 0, 0, $9, $10)
    ON CONFLICT DO NOTHING RETURNING 1";
const SET_TOLD: &str = "UPDATE events SET told = $3 WHERE tenant = $1 AND id = $2";
pub(super) const TAKEN: &str =
    "UPDATE events SET taken = taken + 1, kept_until = NULL WHERE tenant = $1 AND id = $2";
const CROWDED: &str = "WITH crowded AS MATERIALIZED (SELECT id FROM events
        WHERE tenant = $1 AND event_type = $2 AND kept_until IS NOT NULL ORDER BY id DESC OFFSET $3)
    UPDATE events e SET kept_until = NULL FROM crowded c WHERE e.tenant = $1 AND e.id = c.id";
const SUBSCRIBE: &str =
    "INSERT INTO subscriptions (tenant, kind, owner, token, position, event_type, path, value)
    SELECT * FROM unnest($1, $2, $3, $4, $5, $6, $7, $8)";
const UNSUBSCRIBE: &str =
    "DELETE FROM subscriptions WHERE tenant = $1 AND kind = $2 AND owner = $3 AND token = $4";
/// The places in which waits for these types look for their value: one step along the index each.
const PATHS: &str = "WITH RECURSIVE paths(event_type, path) AS (
        SELECT t, (SELECT min(path) FROM subscriptions WHERE tenant = $1 AND kind = 'listen' AND event_type = t)
        FROM unnest($2) AS t
        UNION ALL SELECT p.event_type, (SELECT min(s.path) FROM subscriptions s WHERE s.tenant = $1
            AND s.kind = 'listen' AND s.event_type = p.event_type AND s.path > p.path)
        FROM paths p WHERE p.path IS NOT NULL)
    SELECT event_type, path FROM paths WHERE path IS NOT NULL LIMIT $3";
const WANTING: &str = "SELECT s.owner, s.token FROM unnest($2, $3, $4) AS r(event_type, path, value)
    JOIN subscriptions s ON s.tenant = $1 AND s.kind = 'listen' AND s.event_type = r.event_type
        AND s.path = r.path AND s.value = r.value LIMIT $5";
const KEPT_OF_TYPE: &str = "SELECT id, event FROM events
    WHERE tenant = $1 AND event_type = $2 AND kept_until > $3 ORDER BY id LIMIT $4";
pub(super) const PURGE: &str = "WITH gone AS MATERIALIZED (SELECT tenant, id FROM events
        WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2)
    DELETE FROM events e USING gone g WHERE e.tenant = g.tenant AND e.id = g.id RETURNING 1";
const KEPT: &str = "SELECT id, event FROM events WHERE tenant = $1 AND event_type >= $2 AND kept_until > $3
    ORDER BY event_type, id LIMIT $4";

/// How a lock of the deployment is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Lock {
    Shared,
    Exclusive,
}

/// Adds what the commit must lock before it looks for waits or for kept events.
pub(super) fn locks(commit: &Commit, locks: &mut BTreeMap<i64, Lock>) {
    let tenant = commit.tenant.as_str();
    let mut add = |event_type: &str, lock: Lock| {
        let held = locks.entry(key(tenant, event_type)).or_insert(lock);
        *held = lock.max(*held);
    };
    for write in &commit.writes {
        match write {
            Write::Publish(row) => {
                add(&row.event_type, Lock::Shared);
                add("", Lock::Shared);
            }
            Write::Subscribe { subscriber: Subscriber::Listen { .. }, wants, .. } => {
                for want in wants {
                    add(want.event_type.as_deref().unwrap_or(""), Lock::Exclusive);
                }
            }
            _ => {}
        }
    }
}

/// The key of the lock for events of one type; an empty type is any.
fn key(tenant: &str, event_type: &str) -> i64 {
    let digest = Sha256::new()
        .chain_update(b"event\0")
        .chain_update(tenant)
        .chain_update(b"\0")
        .chain_update(event_type)
        .finalize();
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&digest[..8]);
    i64::from_be_bytes(bytes)
}

/// Inserts the event and tells every wait that wants it.
pub(super) async fn publish(to: &Session, tenant: &str, row: &EventRow) -> Ended {
    let values = [
        text(tenant),
        id(row.id),
        text(&row.source),
        text(&row.event_id),
        text(&row.event_type),
        time(row.received_at),
        maybe_time(row.kept_until),
        time(row.expires_at),
        int(row.started.cast_signed()),
        bytes(&row.event),
    ];
    if to.query(CREATE, &values).await?.is_empty() {
        return Ok(Some(Conflict::Duplicate));
    }
    let waits = wanting(to, tenant, row).await?;
    if waits.len() > TOLD_MAX {
        return Err(Trouble::Refused(format!("more than {TOLD_MAX} waits want this event")));
    }
    let told: Vec<Told<'_>> = waits
        .into_iter()
        .map(|(instance, token)| Told {
            tenant,
            instance,
            token,
            event: row.id,
            at: row.received_at,
            direct: true,
        })
        .collect();
    if !told.is_empty() {
        note(to, &told).await?;
        let count = tell(to, &told, row.visible_at).await?;
        plain(to, SET_TOLD, &[text(tenant), id(row.id), int(count as i64)]).await?;
    }
    if row.kept_until.is_some() {
        plain(to, CROWDED, &[text(tenant), text(&row.event_type), int(KEPT_PER_TYPE_MAX as i64)]).await?;
    }
    Ok(None)
}

/// Replaces what a subscriber wants and tells it about events that came before.
pub(super) async fn subscribe(
    to: &Session,
    tenant: &str,
    subscriber: &Subscriber,
    wants: &[SubscriptionRow],
    (now, visible_at): (Time, Time),
) -> Ended {
    unsubscribe(to, tenant, subscriber).await?;
    let (kind, owner, own_token) = named(subscriber);
    let rows = wants.iter().enumerate().map(|(position, want)| {
        let (path, value) =
            want.key.as_ref().map_or(("", ""), |(path, value)| (path.as_str(), value.as_str()));
        let event_type = want.event_type.as_deref().unwrap_or("");
        [
            text(tenant),
            text(kind),
            id(owner),
            token(own_token),
            int(position as i64),
            text(event_type),
            text(path),
            text(value),
        ]
    });
    many(to, SUBSCRIBE, rows).await?;
    let Subscriber::Listen { instance, token } = *subscriber else { return Ok(None) };
    let mut fitting = BTreeSet::new();
    for want in wants {
        let sql = if want.event_type.is_some() { KEPT_OF_TYPE } else { KEPT };
        let event_type = want.event_type.as_deref().unwrap_or("");
        let values = [text(tenant), text(event_type), time(now), int(KEPT_PER_TYPE_MAX as i64)];
        for row in to.query(sql, &values).await? {
            let (event, body): (Uuid, &[u8]) = (row.try_get(0)?, row.try_get(1)?);
            let fits = want.key.as_ref().is_none_or(|(path, value)| {
                let body = Data::parse(body).unwrap_or_default();
                correlation::look_up(path, &body).as_ref() == Some(value)
            });
            if fits {
                fitting.insert(event);
            }
        }
    }
    let mut told: Vec<Told<'_>> = fitting
        .into_iter()
        .map(|event| Told { tenant, instance, token, event, at: now, direct: false })
        .collect();
    let fresh = note(to, &told).await?;
    told.retain(|told| fresh.contains(&told.note()));
    tell(to, &told, visible_at).await?;
    Ok(None)
}

pub(super) async fn unsubscribe(to: &Session, tenant: &str, subscriber: &Subscriber) -> Ended {
    let (kind, owner, own_token) = named(subscriber);
    plain(to, UNSUBSCRIBE, &[text(tenant), text(kind), id(owner), token(own_token)]).await
}

fn named(subscriber: &Subscriber) -> (&'static str, Uuid, u64) {
    match *subscriber {
        Subscriber::Listen { instance, token } => ("listen", instance, token),
        Subscriber::Schedule { id } => ("schedule", id, 0),
    }
}

/// The waits that want the event, at most one more than may be told.
async fn wanting(to: &Session, tenant: &str, row: &EventRow) -> Result<Vec<(Uuid, u64)>, Trouble> {
    let types = [Text(&row.event_type), Text("")];
    let places = to.query(PATHS, &[text(tenant), Value::Texts(&types), int(2 * PATHS_MAX as i64)]).await?;
    if places.is_empty() {
        return Ok(Vec::new());
    }
    let event = Data::parse(&row.event).unwrap_or_default();
    let mut wanted: Vec<(String, String, String)> = Vec::new();
    for place in &places {
        let (event_type, path): (String, String) = (get(place, 0)?, get(place, 1)?);
        let value = if path.is_empty() { Some(String::new()) } else { correlation::look_up(&path, &event) };
        wanted.extend(value.map(|value| (event_type, path, value)));
    }
    let types: Vec<Text<'_>> = wanted.iter().map(|(event_type, _, _)| Text(event_type)).collect();
    let paths: Vec<Text<'_>> = wanted.iter().map(|(_, path, _)| Text(path)).collect();
    let found: Vec<Text<'_>> = wanted.iter().map(|(_, _, value)| Text(value)).collect();
    let values = [
        text(tenant),
        Value::Texts(&types),
        Value::Texts(&paths),
        Value::Texts(&found),
        int(TOLD_MAX as i64 + 1),
    ];
    let rows = to.query(WANTING, &values).await?;
    let mut waits = Vec::with_capacity(rows.len());
    for row in rows {
        waits.push((row.try_get(0)?, row.try_get::<_, i64>(1)?.cast_unsigned()));
    }
    Ok(waits)
}

/// Records who was told; answers those that were not before.
async fn note(to: &Session, told: &[Told<'_>]) -> Result<HashSet<(String, String)>, Trouble> {
    let notes: Vec<(String, String)> = told.iter().map(Told::note).collect();
    let rows = told.iter().zip(&notes).map(|(told, (scope, key))| {
        [text(told.tenant), text(scope), text(key), time(told.at), bytes(&[]), bytes(&[])]
    });
    let fresh = many(to, Statement::ClaimKey.sql(), rows).await?;
    let fresh = fresh.iter().map(|row| Ok((get(row, 1)?, get(row, 2)?)));
    fresh.collect::<Result<_, tokio_postgres::Error>>().map_err(Trouble::Pg)
}

/// Queues the signals; answers how many there were not before.
async fn tell(to: &Session, told: &[Told<'_>], visible_at: Time) -> Result<usize, Trouble> {
    const SIGNALS: &str =
        "INSERT INTO wf_signal_q (tenant, id, instance, signal_type, created_at, visible_at, attempt,
        owner, envelope) SELECT * FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9)
        ON CONFLICT DO NOTHING RETURNING 1";
    let signals: Vec<(&str, SignalRow)> =
        told.iter().map(|told| (told.tenant, told.signal(visible_at))).collect();
    let rows = signals.iter().map(|(tenant, row)| bind::signal(tenant, row));
    Ok(many(to, SIGNALS, rows).await?.len())
}

/// One statement over the rows, if there are any.
async fn many<'a, R>(
    to: &Session,
    sql: &str,
    rows: impl Iterator<Item = R>,
) -> Result<Vec<tokio_postgres::Row>, Trouble>
where
    R: IntoIterator<Item = Value<'a>>,
{
    let mut columns: Vec<Column<'a>> = Vec::new();
    for row in rows {
        for (at, value) in row.into_iter().enumerate() {
            if columns.len() == at {
                columns.push(Column::like(&value));
            }
            columns[at].push(value);
        }
    }
    if columns.is_empty() {
        return Ok(Vec::new());
    }
    let params = columns.iter().map(Column::param).collect();
    to.prepare(sql, &params).await?;
    Ok(to.ask(sql, params).await?)
}
