//! Where events and waits of a batch meet: after the statements of a wave, over all its commits at once.
//!
//! Publishers and waits of one type are never in the same wave, so whichever came first in the batch is there when the
//! other one looks. A commit done alone comes here write by write.

use super::{
    bind,
    session::{Session, in_order},
    statement::Statement,
    value::{Column, Value, bytes, get, id, int, text, time},
};
use crate::{
    commit::*,
    rows::*,
    told::{KEPT_PER_TYPE_MAX, PATHS_MAX, TOLD_MAX, Told},
};
use machine::{Data, TenantId, Time, correlation};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use tokio_postgres::{Error as PgError, Row};
use uuid::Uuid;

/// Waits that all events of one wave are told to; a batch with more is halved.
const WAVE_TOLD_MAX: usize = 5 * TOLD_MAX;
/// Why an event is refused.
pub(super) const TOO_MANY: &str = "more waits want this event than one event is told to";

/// The places in which waits for these types look for their value: one step along the index each.
const PATHS: &str = "WITH RECURSIVE paths(tenant, event_type, path, number) AS (
        SELECT t.tenant, t.event_type, (SELECT min(s.path) FROM subscriptions s WHERE s.tenant = t.tenant
            AND s.kind = 'listen' AND s.event_type = t.event_type), 1
        FROM unnest($1, $2) AS t(tenant, event_type)
        UNION ALL SELECT p.tenant, p.event_type, (SELECT min(s.path) FROM subscriptions s WHERE s.tenant = p.tenant
            AND s.kind = 'listen' AND s.event_type = p.event_type AND s.path > p.path), p.number + 1
        FROM paths p WHERE p.path IS NOT NULL AND p.number < $3)
    SELECT tenant, event_type, path FROM paths WHERE path IS NOT NULL";
const WANTING: &str =
    "SELECT r.number, s.owner, s.token FROM unnest($1, $2, $3, $4, $5) AS r(number, tenant, event_type, path, value)
    JOIN subscriptions s ON s.tenant = r.tenant AND s.kind = 'listen' AND s.event_type = r.event_type
        AND s.path = r.path AND s.value = r.value LIMIT $6";
const KEPT: &str =
    "SELECT t.tenant, t.event_type, e.id, e.kept_until, e.event FROM unnest($1, $2, $3) AS t(tenant, event_type, now)
    CROSS JOIN LATERAL (SELECT id, kept_until, event FROM events WHERE tenant = t.tenant AND event_type = t.event_type
        AND kept_until > t.now ORDER BY id LIMIT $4) e";
/// The same for waits that want events of any type.
const KEPT_OF_ALL: &str =
    "SELECT t.tenant, '', e.id, e.kept_until, e.event FROM unnest($1, $2, $3) AS t(tenant, event_type, now)
    CROSS JOIN LATERAL (SELECT id, kept_until, event FROM events WHERE tenant = t.tenant AND event_type >= t.event_type
        AND kept_until > t.now ORDER BY event_type, id LIMIT $4) e";
const CROWDED: &str =
    "WITH crowded AS MATERIALIZED (SELECT t.tenant, c.id FROM unnest($1, $2) AS t(tenant, event_type)
        CROSS JOIN LATERAL (SELECT id FROM events WHERE tenant = t.tenant AND event_type = t.event_type
            AND kept_until IS NOT NULL ORDER BY id DESC OFFSET $3) c)
    UPDATE events e SET kept_until = NULL FROM crowded c WHERE e.tenant = c.tenant AND e.id = c.id";
const SIGNALS: &str =
    "INSERT INTO wf_signal_q (tenant, id, instance, signal_type, created_at, visible_at, attempt, owner, envelope)
    SELECT * FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT DO NOTHING RETURNING tenant, id";
const SET_TOLD: &str = "UPDATE events e SET told = r.told FROM unnest($1, $2, $3) AS r(tenant, id, told)
    WHERE e.tenant = r.tenant AND e.id = r.id";

/// A wait that begins, and one thing that it wants.
struct Begun<'a> {
    tenant: &'a str,
    instance: Uuid,
    token: u64,
    want: &'a SubscriptionRow,
    now: Time,
    visible_at: Time,
}

/// A signal to be, and when it may be seen.
type Telling<'a> = (Told<'a>, Time);

/// Tenant, scope and key of a record that somebody was told.
type Noted = (String, String, String);

/// What a wave publishes and who begins to wait in it.
#[derive(Default)]
struct Meeting<'a> {
    published: Vec<(&'a str, &'a EventRow)>,
    begun: Vec<Begun<'a>>,
}

/// True if the write has to look for others after it is done.
pub(super) fn looks(write: &Write) -> bool {
    matches!(write, Write::Publish(_) | Write::Subscribe { subscriber: Subscriber::Listen { .. }, .. })
}

/// Tells every wait that wants an event of the wave, and every wait that begins in it of the events kept. `false` if more
/// would be told than may be.
pub(super) async fn tell(session: &Session, writes: &[(&TenantId, &Write)]) -> Result<bool, PgError> {
    let meeting = Meeting::of(writes);
    if meeting.published.is_empty() && meeting.begun.is_empty() {
        return Ok(true);
    }
    let Some(mut telling) = meeting.wanting(session).await? else { return Ok(false) };
    telling.extend(meeting.kept(session).await?);
    if !telling.is_empty() {
        let mut fresh = note(session, &telling).await?;
        telling.retain(|(told, _)| {
            let (scope, key) = told.note();
            // Each instance once, whatever else of it begins to wait here.
            told.direct || fresh.remove(&(told.tenant.to_owned(), scope, key))
        });
        signal(session, &telling).await?;
    }
    Ok(true)
}

impl<'a> Meeting<'a> {
    fn of(writes: &[(&'a TenantId, &'a Write)]) -> Meeting<'a> {
        let mut meeting = Meeting::default();
        for (tenant, write) in writes {
            let tenant = tenant.as_str();
            match write {
                Write::Publish(row) => meeting.published.push((tenant, row)),
                Write::Subscribe {
                    subscriber: Subscriber::Listen { instance, token },
                    wants,
                    now,
                    visible_at,
                } => {
                    meeting.begun.extend(wants.iter().map(|want| Begun {
                        tenant,
                        instance: *instance,
                        token: *token,
                        want,
                        now: *now,
                        visible_at: *visible_at,
                    }));
                }
                _ => {}
            }
        }
        meeting
    }

    /// The waits that want what is published; `None` if they are too many. Events of a type that is crowded are kept no
    /// longer, the oldest first.
    async fn wanting(&self, session: &Session) -> Result<Option<Vec<Telling<'a>>>, PgError> {
        if self.published.is_empty() {
            return Ok(Some(Vec::new()));
        }
        let typed = |(tenant, row): &(&'a str, &'a EventRow)| (*tenant, row.event_type.as_str());
        let mut types: BTreeSet<(&str, &str)> = self.published.iter().map(typed).collect();
        types.extend(self.published.iter().map(|(tenant, _)| (*tenant, "")));
        let kept = self.published.iter().filter(|(_, row)| row.kept_until.is_some());
        let crowded: BTreeSet<(&str, &str)> = kept.map(typed).collect();
        let paths = Rows::new(types.into_iter().map(|(tenant, kind)| [text(tenant), text(kind)]));
        let crowded = Rows::new(crowded.into_iter().map(|(tenant, kind)| [text(tenant), text(kind)]));
        let asked = [
            (PATHS, &paths, Some(int(PATHS_MAX as i64))),
            (CROWDED, &crowded, Some(int(KEPT_PER_TYPE_MAX as i64))),
        ];
        let mut answers = ask(session, &asked).await?;
        let wanted = self.wanted(&answers.swap_remove(0))?;
        if wanted.is_empty() {
            return Ok(Some(Vec::new()));
        }
        let rows = Rows::new(wanted.iter().map(|(number, kind, path, value)| {
            let (tenant, _) = self.published[*number];
            [int(*number as i64), text(tenant), text(kind), text(path), text(value)]
        }));
        let limit = Some(int(WAVE_TOLD_MAX as i64 + 1));
        let found = ask(session, &[(WANTING, &rows, limit)]).await?.swap_remove(0);
        self.directly(&found)
    }

    /// What waits would have to want: the event's place in the wave, type, path and the value found there.
    fn wanted(&self, places: &[Row]) -> Result<Vec<(usize, String, String, String)>, PgError> {
        let mut paths: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
        for place in places {
            paths.entry((get(place, 0)?, get(place, 1)?)).or_default().push(get(place, 2)?);
        }
        let mut wanted = Vec::new();
        if paths.is_empty() {
            return Ok(wanted);
        }
        for (number, (tenant, row)) in self.published.iter().enumerate() {
            let mut body = None;
            for kind in [row.event_type.as_str(), ""] {
                for path in paths.get(&((*tenant).to_owned(), kind.to_owned())).into_iter().flatten() {
                    let value = match path.is_empty() {
                        true => Some(String::new()),
                        false => {
                            let parsed = || Data::parse(&row.event).unwrap_or_default();
                            correlation::look_up(path, body.get_or_insert_with(parsed))
                        }
                    };
                    wanted.extend(value.map(|value| (number, kind.to_owned(), path.clone(), value)));
                }
            }
        }
        Ok(wanted)
    }

    fn directly(&self, found: &[Row]) -> Result<Option<Vec<Telling<'a>>>, PgError> {
        let mut telling = Vec::with_capacity(found.len());
        let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
        for wait in found {
            let number = get::<i64>(wait, 0)? as usize;
            let (tenant, row) = self.published[number];
            *counts.entry(number).or_default() += 1;
            let (instance, token) = (get(wait, 1)?, get::<i64>(wait, 2)?.cast_unsigned());
            let (event, at) = (row.id, row.received_at);
            telling.push((Told { tenant, instance, token, event, at, direct: true }, row.visible_at));
        }
        let too_many = found.len() > WAVE_TOLD_MAX || counts.values().any(|count| *count > TOLD_MAX);
        Ok((!too_many).then_some(telling))
    }

    /// The kept events that waits which begin want.
    async fn kept(&self, session: &Session) -> Result<Vec<Telling<'a>>, PgError> {
        let mut types: BTreeMap<(&'a str, &'a str), Time> = BTreeMap::new();
        for begun in &self.begun {
            let kind = begun.want.event_type.as_deref().unwrap_or_default();
            let from = types.entry((begun.tenant, kind)).or_insert(begun.now);
            *from = begun.now.min(*from);
        }
        if types.is_empty() {
            return Ok(Vec::new());
        }
        let (of_all, of_type): (Vec<_>, Vec<_>) =
            types.into_iter().partition(|((_, kind), _)| kind.is_empty());
        let rows = |types: Vec<((&'a str, &'a str), Time)>| {
            Rows::new(types.into_iter().map(|((tenant, kind), now)| [text(tenant), text(kind), time(now)]))
        };
        let limit = Some(int(KEPT_PER_TYPE_MAX as i64));
        let asked = [(KEPT, &rows(of_type), limit), (KEPT_OF_ALL, &rows(of_all), limit)];
        let found = ask(session, &asked).await?;
        let mut telling: BTreeMap<(&str, Uuid, u64, Uuid), Telling<'a>> = BTreeMap::new();
        for row in found.iter().flatten() {
            let (tenant, kind): (String, String) = (get(row, 0)?, get(row, 1)?);
            let (event, until): (Uuid, i64) = (get(row, 2)?, get(row, 3)?);
            let mut body = None;
            for begun in &self.begun {
                let wants = begun.want.event_type.as_deref().unwrap_or_default() == kind;
                if begun.tenant != tenant || !wants || until <= begun.now.0 {
                    continue;
                }
                let fits = begun.want.key.as_ref().is_none_or(|(path, value)| {
                    let parsed = || {
                        let bytes: &[u8] = row.try_get(4).unwrap_or_default();
                        Data::parse(bytes).unwrap_or_default()
                    };
                    correlation::look_up(path, body.get_or_insert_with(parsed)).as_ref() == Some(value)
                });
                if fits {
                    let Begun { tenant, instance, token, now: at, visible_at, .. } = *begun;
                    let told = Told { tenant, instance, token, event, at, direct: false };
                    telling.insert((tenant, instance, token, event), (told, visible_at));
                }
            }
        }
        Ok(telling.into_values().collect())
    }
}

/// Records who was told; answers those that were not before.
async fn note(session: &Session, telling: &[Telling<'_>]) -> Result<HashSet<Noted>, PgError> {
    let mut notes: Vec<(&str, (String, String), Time)> =
        telling.iter().map(|(told, _)| (told.tenant, told.note(), told.at)).collect();
    // In one order, as everything that locks.
    notes.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
    let rows = notes.iter().map(|(tenant, (scope, key), at)| {
        [text(tenant), text(scope), text(key), time(*at), bytes(&[]), bytes(&[])]
    });
    let rows = Rows::new(rows);
    let fresh = ask(session, &[(Statement::ClaimKey.sql(), &rows, None)]).await?.swap_remove(0);
    fresh.iter().map(|row| Ok((get(row, 0)?, get(row, 1)?, get(row, 2)?))).collect()
}

/// Queues the signals and notes on the events how many there were not before.
async fn signal(session: &Session, telling: &[Telling<'_>]) -> Result<(), PgError> {
    let mut signals: Vec<(&str, SignalRow, Option<Uuid>)> = telling
        .iter()
        .map(|(told, at)| (told.tenant, told.signal(*at), told.direct.then_some(told.event)))
        .collect();
    signals.sort_by_key(|(tenant, row, _)| (*tenant, row.id));
    let rows = Rows::new(signals.iter().map(|(tenant, row, _)| bind::signal(tenant, row)));
    let queued = ask(session, &[(SIGNALS, &rows, None)]).await?.swap_remove(0);
    let queued = queued.iter().map(|row| Ok((get(row, 0)?, get(row, 1)?)));
    let mut queued: HashSet<(String, Uuid)> = queued.collect::<Result<_, PgError>>()?;
    let mut counts: BTreeMap<(&str, Uuid), i64> = BTreeMap::new();
    for (tenant, row, event) in &signals {
        if let Some(event) = event {
            // A wait that wants it for two reasons is told once.
            *counts.entry((tenant, *event)).or_default() +=
                i64::from(queued.remove(&((*tenant).to_owned(), row.id)));
        }
    }
    let rows = counts.into_iter().map(|((tenant, event), told)| [text(tenant), id(event), int(told)]);
    ask(session, &[(SET_TOLD, &Rows::new(rows), None)]).await.map(drop)
}

/// Rows as arrays.
struct Rows<'a>(Vec<Column<'a>>);

impl<'a> Rows<'a> {
    fn new<R: IntoIterator<Item = Value<'a>>>(rows: impl Iterator<Item = R>) -> Rows<'a> {
        let mut columns: Vec<Column<'a>> = Vec::new();
        for row in rows {
            for (at, value) in row.into_iter().enumerate() {
                if columns.len() == at {
                    columns.push(Column::like(&value));
                }
                columns[at].push(value);
            }
        }
        Rows(columns)
    }
}

/// Statements over rows, each with one value more if it takes one, sent together. One without rows is not sent and
/// answers nothing.
async fn ask(
    session: &Session,
    statements: &[(&'static str, &Rows<'_>, Option<Value<'_>>)],
) -> Result<Vec<Vec<Row>>, PgError> {
    let mut asked = Vec::new();
    for (sql, rows, more) in statements.iter().filter(|(_, rows, _)| !rows.0.is_empty()) {
        let mut params: super::session::Params<'_> = rows.0.iter().map(Column::param).collect();
        params.extend(more.iter().map(Value::param));
        session.prepare(sql, &params).await?;
        asked.push(session.ask(sql, params));
    }
    let mut answers = in_order(asked).await.into_iter();
    let answer = |(_, rows, _): &(&str, &Rows<'_>, Option<Value<'_>>)| match rows.0.is_empty() {
        true => Ok(Vec::new()),
        false => answers.next().unwrap_or_else(|| Ok(Vec::new())),
    };
    statements.iter().map(answer).collect()
}
