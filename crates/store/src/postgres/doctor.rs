//! Looks at a database and at how the server is set up, and says what to do where something is wrong.

use super::{
    base::begin,
    error::{error, said},
    migrate, pool,
    pool::{Address, Options},
    session::{Scope, Session},
    value::{Value, int},
};
use crate::{
    doctor::{Finding, OVERDUE_SECS, STUCK_NAMED_MAX, STUCK_SECS, backlog, dead_letters, stuck},
    port::Result,
};
use machine::id;
use std::time::Duration;
use tokio_postgres::Row;
use uuid::Uuid;

/// A transaction that is open for longer keeps dead rows and the feed's horizon from moving on.
const SNAPSHOT_SECS_MAX: i64 = 300;
/// Dead rows of a table that are worth a word, if they are also more than the living.
const DEAD_ROWS_MAX: i64 = 50_000;
/// A round trip that makes every commit slow.
const ROUND_TRIP_MAX: Duration = Duration::from_millis(20);
/// A machine's clock that is further off is worth setting, although nothing rests on it.
const SKEW_SECS_MAX: i64 = 5;
/// Transactions that a standby may be behind before it is worth a word: minutes of a busy deployment.
const BEHIND_MAX: i64 = 100_000;
/// Connections one node may use.
const PER_NODE: i64 = 13;

const VERSION: &str =
    "SELECT current_setting('server_version_num')::bigint, current_setting('server_version')";
const ROLE: &str = "SELECT current_user::text, rolsuper, rolbypassrls,
    coalesce((SELECT pg_get_userbyid(relowner) = current_user FROM pg_class WHERE oid = to_regclass('wf_instances')), false),
    pg_has_role(current_user, 'pg_read_all_stats', 'USAGE')
    FROM pg_roles WHERE rolname = current_user";
const SETTINGS: &str = "SELECT current_setting('fsync'), current_setting('full_page_writes'),
    current_setting('synchronous_commit'), current_setting('autovacuum'),
    current_setting('synchronous_standby_names')";
const STANDBYS: &str =
    "SELECT count(*), count(*) FILTER (WHERE sync_state IN ('sync', 'quorum')) FROM pg_stat_replication";
const CONNECTIONS: &str = "SELECT current_setting('max_connections')::bigint
        - current_setting('superuser_reserved_connections')::bigint,
    (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'),
    (SELECT rolconnlimit::bigint FROM pg_roles WHERE rolname = current_user)";
/// Whoever holds back the horizon for longest: a transaction or a prepared one.
const OLDEST: &str = "SELECT what, secs FROM (
    SELECT format('process %s (%s, %s)', pid, coalesce(nullif(application_name, ''), 'no name'), state) AS what,
        extract(epoch FROM clock_timestamp() - xact_start)::bigint AS secs
    FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND xact_start IS NOT NULL
        AND (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL) AND backend_type = 'client backend'
    UNION ALL SELECT format('prepared transaction %s', gid), extract(epoch FROM clock_timestamp() - prepared)::bigint
    FROM pg_prepared_xacts WHERE database = current_database()) held ORDER BY secs DESC LIMIT 1";
/// Standbys hold the horizon back as well, over a slot or, with hot_standby_feedback, over their connection. They say which
/// transaction is the oldest they need, not since when: what counts is how many have begun after it.
const FARTHEST: &str = "SELECT what, back FROM (
    SELECT format('replication slot %s (%s)', slot_name, CASE WHEN active THEN 'in use' ELSE 'nobody uses it' END) AS what,
        greatest(age(xmin), age(catalog_xmin))::bigint AS back
    FROM pg_replication_slots WHERE xmin IS NOT NULL OR catalog_xmin IS NOT NULL
    UNION ALL SELECT format('standby %s at process %s', coalesce(nullif(application_name, ''), 'without a name'), pid),
        age(backend_xmin)::bigint
    FROM pg_stat_replication WHERE backend_xmin IS NOT NULL) held ORDER BY back DESC LIMIT 1";
const DEAD_ROWS: &str = "SELECT relname::text, n_dead_tup, n_live_tup FROM pg_stat_user_tables
    WHERE schemaname = current_schema() AND n_dead_tup > $1 AND n_dead_tup > n_live_tup ORDER BY n_dead_tup DESC LIMIT 3";
const NOW_US: &str = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint";
/// When the server process behind this connection began.
const BEGAN: &str = "SELECT (extract(epoch FROM backend_start) * 1000000)::bigint FROM pg_stat_activity
    WHERE pid = pg_backend_pid()";
const NODES: &str = "SELECT count(*) FILTER (WHERE NOT fenced AND until_utc >= n), count(*) FILTER (WHERE NOT fenced AND until_utc < n),
    count(*) FILTER (WHERE fenced), coalesce(min(until_utc - n) FILTER (WHERE NOT fenced AND until_utc >= n), 0)::bigint
    FROM wf_host_locks, (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS n) AS clock WHERE kind = 'node'";
const BACKLOG: &str = "SELECT 'signals', count(*), coalesce(($1 - min(visible_at)) / 1000000, 0)::bigint
    FROM wf_signal_q WHERE owner IS NULL AND visible_at <= $1
    UNION ALL SELECT 'timers', count(*), coalesce(($1 - min(due_at)) / 1000000, 0)::bigint
    FROM wf_schedule_q WHERE owner IS NULL AND due_at <= $1
    UNION ALL SELECT 'calls', count(*), coalesce(($1 - min(visible_at)) / 1000000, 0)::bigint
    FROM calls WHERE owner IS NULL AND visible_at <= $1
    UNION ALL SELECT 'deliveries', count(*), coalesce(($1 - min(visible_at)) / 1000000, 0)::bigint
    FROM deliveries WHERE owner IS NULL AND visible_at <= $1";
/// Rows whose owner has no lease row, or only one that ended: nobody will do them until somebody takes over.
const ORPHANS: &str = "WITH living AS (SELECT name FROM wf_host_locks WHERE kind = 'node' AND NOT fenced)
    SELECT (SELECT count(*) FROM wf_signal_q WHERE owner IS NOT NULL AND owner NOT IN (SELECT name FROM living))
    + (SELECT count(*) FROM wf_schedule_q WHERE owner IS NOT NULL AND owner NOT IN (SELECT name FROM living))
    + (SELECT count(*) FROM calls WHERE owner IS NOT NULL AND owner NOT IN (SELECT name FROM living))
    + (SELECT count(*) FROM deliveries WHERE owner IS NOT NULL AND owner NOT IN (SELECT name FROM living))";
const STUCK: &str = "SELECT i.tenant, i.id FROM wf_instances i
    JOIN wf_runtime_states s ON s.tenant = i.tenant AND s.runtime_instance_id = i.id
    WHERE i.status IN ('running', 'waiting', 'cancelling') AND i.updated_at < $1
    AND ((s.waiting_kind = 'Call'
            AND NOT EXISTS (SELECT 1 FROM calls c WHERE c.tenant = i.tenant AND c.instance = i.id))
        OR (s.waiting_kind IN ('Timer', 'Retry')
            AND NOT EXISTS (SELECT 1 FROM wf_schedule_q t WHERE t.tenant = i.tenant AND t.instance = i.id)))
    LIMIT $2";
const DEAD_LETTERS: &str = "SELECT count(*) FROM wf_dlq";

/// Checks the database at `url`; `listen_url` is where hints are listened to, if that is elsewhere. `elapsed` times, and
/// `clock_us` is the time of this machine.
pub async fn doctor(
    url: &str,
    listen_url: Option<&str>,
    elapsed: &(dyn Fn() -> Duration + Sync),
    clock_us: i64,
) -> Vec<Finding> {
    let (address, options, session) = match reached(url).await {
        Ok(reached) => reached,
        Err(err) => return vec![unreachable_because(&err.to_string())],
    };
    let look = Look { session: &session, address: &address, options: &options, listen_url };
    let mut findings = look.settings().await;
    findings.extend(told([
        look.server(elapsed).await,
        look.connections().await,
        look.snapshots().await,
        look.vacuum().await,
        look.clock(clock_us).await,
    ]));
    // Nothing further can be asked of tables that are not there.
    match migrate::check(&session).await {
        Err(err) => {
            findings.push(Finding::bad("migrations", err.to_string(), "run `windlass migrate` as the owner"))
        }
        Ok(()) => {
            findings.push(Finding::good("migrations", "the tables are those that this program needs"));
            findings.extend(told([
                look.nodes().await,
                look.queues().await,
                look.stuck().await,
                look.dead_letters().await,
            ]));
        }
    }
    findings
}

/// What promises rest on and few questions answer: for a node that starts.
pub async fn settings(url: &str, listen_url: Option<&str>) -> Vec<Finding> {
    match reached(url).await {
        Ok((address, options, session)) => {
            Look { session: &session, address: &address, options: &options, listen_url }.settings().await
        }
        Err(err) => vec![unreachable_because(&err.to_string())],
    }
}

async fn reached(url: &str) -> Result<(Address, Options, Session)> {
    let mut options = Options::default();
    let address = pool::address(url, &mut options)?;
    let session = pool::connect(&address, options.pooled).await?;
    Ok((address, options, session))
}

/// A question that was not answered is a finding as well.
fn told<const N: usize>(answers: [Found; N]) -> impl Iterator<Item = Finding> {
    answers.into_iter().flat_map(|found| found.unwrap_or_else(|err| vec![failed(&err)]))
}

fn unreachable_because(why: &str) -> Finding {
    let remedy = "check the address, the password, pg_hba.conf and that the server runs";
    Finding::bad("connection", why, remedy)
}

fn failed(err: &crate::Error) -> Finding {
    Finding::warning(
        "question",
        format!("not answered: {err}"),
        "try again; a slow answer means a busy server",
    )
}

type Found = Result<Vec<Finding>>;

struct Look<'a> {
    session: &'a Session,
    address: &'a Address,
    options: &'a Options,
    listen_url: Option<&'a str>,
}

impl Look<'_> {
    async fn settings(&self) -> Vec<Finding> {
        told([self.role().await, self.durability().await, self.standby().await, self.pooler().await])
            .collect()
    }

    /// The rows of one question, over all tenants.
    async fn ask(&self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>> {
        let answer = self.session.transact(&begin(Scope::All, ""), sql, values).await;
        if answer.is_err() {
            // Whatever failed, the next question begins anew.
            let _ = self.session.command("ROLLBACK").await;
        }
        answer
    }

    async fn row(&self, sql: &str, values: &[Value<'_>]) -> Result<Row> {
        let row = self.ask(sql, values).await?.into_iter().next();
        row.ok_or_else(|| crate::Error::Unavailable("no answer".into()))
    }

    async fn server(&self, elapsed: &(dyn Fn() -> Duration + Sync)) -> Found {
        let row = self.row(VERSION, &[]).await?;
        let (number, name): (i64, String) = (get(&row, 0)?, get(&row, 1)?);
        let began = elapsed();
        for _ in 0..5 {
            self.session.query("SELECT 1", &[]).await.map_err(error)?;
        }
        let trip = (elapsed() - began) / 5;
        let found = format!("PostgreSQL {name}, {:.1} ms per round trip", trip.as_secs_f64() * 1000.0);
        Ok(vec![if number < 150_000 {
            Finding::bad("connection", found, "use PostgreSQL 15 or newer")
        } else if trip > ROUND_TRIP_MAX {
            Finding::warning(
                "connection",
                found,
                "put nodes near the database: a commit takes two round trips",
            )
        } else {
            Finding::good("connection", found)
        }])
    }

    async fn role(&self) -> Found {
        let row = self.row(ROLE, &[]).await?;
        let role: String = get(&row, 0)?;
        let (above, owner): (bool, bool) = (get::<bool>(&row, 1)? || get::<bool>(&row, 2)?, get(&row, 3)?);
        Ok(vec![if above {
            let found = format!("{role} is not bound by row security");
            Finding::bad(
                "role",
                found,
                "let nodes connect as a role without SUPERUSER and BYPASSRLS; see docs/postgres.md",
            )
        } else if owner {
            let remedy = "let nodes connect as the role given to `windlass migrate --app-role`";
            Finding::warning("role", format!("{role} owns the tables and may change them"), remedy)
        } else {
            Finding::good("role", format!("{role}, bound by row security"))
        }])
    }

    async fn durability(&self) -> Found {
        let row = self.row(SETTINGS, &[]).await?;
        let (fsync, pages, commit): (String, String, String) = (get(&row, 0)?, get(&row, 1)?, get(&row, 2)?);
        let found = format!("fsync {fsync}, full_page_writes {pages}, synchronous_commit {commit}");
        Ok(vec![if fsync == "off" || pages == "off" || commit == "off" {
            let remedy =
                "set all three to on: what was acknowledged can be lost or damaged by a crash as it is";
            Finding::bad("durability", found, remedy)
        } else {
            Finding::good("durability", found)
        }])
    }

    async fn standby(&self) -> Found {
        let settings = self.row(SETTINGS, &[]).await?;
        let (commit, names): (String, String) = (get(&settings, 2)?, get(&settings, 4)?);
        let row = self.row(STANDBYS, &[]).await?;
        let (all, synchronous): (i64, i64) = (get(&row, 0)?, get(&row, 1)?);
        let found = format!("{all} connected, {synchronous} of them synchronous");
        Ok(vec![match (names.is_empty(), commit == "local") {
            (true, _) if all == 0 => Finding::good(
                "standby",
                "none: an acknowledged commit survives a crash, not the loss of the disk",
            ),
            (true, _) => Finding::warning(
                "standby",
                format!("{found}; synchronous_standby_names is empty"),
                "name standbys there: a fail-over to one that is behind loses acknowledged commits",
            ),
            (false, true) => Finding::warning(
                "standby",
                format!("{found}; synchronous_commit is local"),
                "set synchronous_commit to on: commits do not wait for the standby as it is",
            ),
            (false, false) if all == 0 => Finding::bad(
                "standby",
                format!("synchronous_standby_names is {names:?}, but none is connected"),
                "bring a standby back: commits wait for one",
            ),
            (false, false) => Finding::good("standby", found),
        }])
    }

    async fn connections(&self) -> Found {
        let row = self.row(CONNECTIONS, &[]).await?;
        let (most, used, role): (i64, i64, i64) = (get(&row, 0)?, get(&row, 1)?, get(&row, 2)?);
        let most = if role >= 0 { most.min(role) } else { most };
        let found = format!("{used} of {most} in use; a node uses up to {PER_NODE}");
        Ok(vec![match most - used < PER_NODE {
            true => Finding::warning(
                "connections",
                found,
                "raise max_connections or the role's limit, or put a pooler in between",
            ),
            false => Finding::good("connections", found),
        }])
    }

    async fn snapshots(&self) -> Found {
        let role = self.row(ROLE, &[]).await?;
        if !get::<bool>(&role, 4)? {
            let remedy = "GRANT pg_read_all_stats to the role, or run this as one that has it";
            return Ok(vec![Finding::warning(
                "oldest snapshot",
                "others' transactions are not visible",
                remedy,
            )]);
        }
        let oldest = match self.ask(OLDEST, &[]).await?.first() {
            Some(row) => held(&get::<String>(row, 0)?, get(row, 1)?),
            None => Finding::good("oldest snapshot", "none is held"),
        };
        let farthest = match self.ask(FARTHEST, &[]).await?.first() {
            Some(row) => Some(held_back(&get::<String>(row, 0)?, get(row, 1)?)),
            None => None,
        };
        Ok([oldest].into_iter().chain(farthest).collect())
    }

    async fn vacuum(&self) -> Found {
        let settings = self.row(SETTINGS, &[]).await?;
        if get::<String>(&settings, 3)? == "off" {
            return Ok(vec![Finding::bad(
                "bloat",
                "autovacuum is off",
                "set autovacuum to on: queues grow without end",
            )]);
        }
        let rows = self.ask(DEAD_ROWS, &[int(DEAD_ROWS_MAX)]).await?;
        let mut tables = vec![];
        for row in &rows {
            let (table, dead, live): (String, i64, i64) = (get(row, 0)?, get(row, 1)?, get(row, 2)?);
            tables.push(format!("{table}: {dead} dead rows, {live} living"));
        }
        Ok(vec![match tables.is_empty() {
            true => Finding::good("bloat", "no table has more dead rows than living ones"),
            false => Finding::warning(
                "bloat",
                tables.join("; "),
                "see what holds an old snapshot; then VACUUM these tables, and let autovacuum have more workers",
            ),
        }])
    }

    /// A server process that began before the connection was asked for belongs to a pooler.
    async fn pooler(&self) -> Found {
        let before: i64 = get(&self.row(NOW_US, &[]).await?, 0)?;
        let other = pool::connect(self.address, self.options.pooled).await?;
        let began = other.query(BEGAN, &[]).await.map_err(error)?;
        let began: i64 = began.first().map_or(Ok(i64::MAX), |row| get(row, 0))?;
        Ok(vec![match (began < before, self.options.pooled) {
            (true, false) => Finding::bad(
                "pooler",
                "a pooler stands in between",
                "add pooled=true to the URL, and give the database's own address as store.listen_url",
            ),
            (true, true) if self.listen_url.is_none() => Finding::warning(
                "pooler",
                "a pooler stands in between, and nodes cannot wake each other through it",
                "give the database's own address as store.listen_url: without it work waits up to half a minute",
            ),
            (true, true) => Finding::good("pooler", "in between; hints go past it"),
            (false, true) => Finding::warning(
                "pooler",
                "none was seen, but the URL says pooled=true",
                "leave that out if there is none: prepared statements are faster",
            ),
            (false, false) => Finding::good("pooler", "none"),
        }])
    }

    async fn clock(&self, clock_us: i64) -> Found {
        let there: i64 = get(&self.row(NOW_US, &[]).await?, 0)?;
        let skew = (there - clock_us) / 1_000_000;
        let found = format!("the database's clock is {skew} s ahead of this machine's");
        Ok(vec![match skew.abs() > SKEW_SECS_MAX {
            true => Finding::warning(
                "clock",
                found,
                "nodes go by the database's clock, so nothing breaks; set this machine's, logs are hard to read as it is",
            ),
            false => Finding::good("clock", "this machine and the database agree"),
        }])
    }

    async fn nodes(&self) -> Found {
        let row = self.row(NODES, &[]).await?;
        let (living, ended, fenced, left): (i64, i64, i64, i64) =
            (get(&row, 0)?, get(&row, 1)?, get(&row, 2)?, get(&row, 3)?);
        let found = format!("{living} alive, {ended} with a lease that ended, {fenced} fenced");
        Ok(vec![match (living, ended) {
            (0, 0) => Finding::good("nodes", format!("{found}: nothing is done until one starts")),
            (0, _) => {
                Finding::warning("nodes", found, "start a node: it takes over what the ended ones left")
            }
            _ => {
                Finding::good("nodes", format!("{found}; the shortest lease has {} s left", left / 1_000_000))
            }
        }])
    }

    async fn queues(&self) -> Found {
        let now: i64 = get(&self.row(NOW_US, &[]).await?, 0)?;
        let mut queues = vec![];
        for row in self.ask(BACKLOG, &[int(now)]).await? {
            queues.push((get::<String>(&row, 0)?, get(&row, 1)?, get(&row, 2)?));
        }
        let orphans: i64 = get(&self.row(ORPHANS, &[]).await?, 0)?;
        let owners = match orphans {
            0 => Finding::good("owners", "every row that is taken is a living node's"),
            rows => Finding::warning(
                "owners",
                format!("{rows} rows belong to nodes that are gone"),
                format!(
                    "a node that starts takes them over; if they stay for {OVERDUE_SECS} s beside living nodes, report it"
                ),
            ),
        };
        Ok(vec![backlog(&queues), owners])
    }

    async fn stuck(&self) -> Found {
        let now: i64 = get(&self.row(NOW_US, &[]).await?, 0)?;
        let since = now - STUCK_SECS * 1_000_000;
        let rows = self.ask(STUCK, &[int(since), int(STUCK_NAMED_MAX + 1)]).await?;
        let mut named = vec![];
        for row in rows.iter().take(STUCK_NAMED_MAX as usize) {
            let (tenant, instance): (String, Uuid) = (get(row, 0)?, get(row, 1)?);
            named.push(format!("{tenant}/{}", id::show(id::Kind::Instance, instance)));
        }
        Ok(vec![stuck(&named, rows.len() > named.len())])
    }

    async fn dead_letters(&self) -> Found {
        Ok(vec![dead_letters(get(&self.row(DEAD_LETTERS, &[]).await?, 0)?)])
    }
}

fn get<'r, T: tokio_postgres::types::FromSql<'r>>(row: &'r Row, at: usize) -> Result<T> {
    row.try_get(at).map_err(|err| crate::Error::Unavailable(said(&err)))
}

/// What is said of the oldest snapshot.
fn held(what: &str, secs: i64) -> Finding {
    match secs > SNAPSHOT_SECS_MAX {
        true => Finding::warning(
            "oldest snapshot",
            format!("{what} holds one for {secs} s: dead rows stay and the feed waits"),
            "end it (pg_terminate_backend, ROLLBACK PREPARED); set idle_in_transaction_session_timeout",
        ),
        false => Finding::good("oldest snapshot", format!("{what} holds one for {secs} s")),
    }
}

/// What is said of the standby that holds back the horizon farthest.
fn held_back(what: &str, back: i64) -> Finding {
    match back > BEHIND_MAX {
        true => Finding::warning(
            "standby's snapshot",
            format!("{what} holds back {back} transactions: dead rows stay"),
            "drop the slot if nobody uses it (pg_drop_replication_slot); else end the long query on the standby, or turn hot_standby_feedback off there",
        ),
        false => Finding::good("standby's snapshot", format!("{what} holds back {back} transactions")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::State;

    #[test]
    fn a_standby_is_worth_a_word_once_it_is_far_behind() {
        assert_eq!(held_back("slot a", BEHIND_MAX).state, State::Good);
        let far = held_back("slot a", BEHIND_MAX + 1);
        assert!(far.state == State::Warning && far.found.contains("slot a") && !far.remedy.is_empty());
    }

    #[test]
    fn a_snapshot_is_worth_a_word_once_it_is_old() {
        assert_eq!(held("process 7", SNAPSHOT_SECS_MAX).state, State::Good);
        let old = held("process 7", SNAPSHOT_SECS_MAX + 1);
        assert!(old.state == State::Warning && old.found.contains("process 7") && !old.remedy.is_empty());
    }
}
