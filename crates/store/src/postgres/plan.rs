//! Which commits of a batch may share a statement.
//!
//! Commits that touch no common row take effect in any order with the same result, so they go together: one wave. A
//! commit that shares a row with an earlier one goes into a later wave. Inside a wave every statement runs once, over the
//! rows of all its commits. Rows are compared by hash: two that collide by chance cost a wave, nothing else.

use super::{
    bind::{self, Bound, bind},
    event::subscriber_key,
    statement::Statement,
    tell,
    value::{Column, Value},
};
use crate::commit::*;
use crate::rows::{QueueKey, Subscriber};
use std::{
    cmp::Ordering,
    collections::{BTreeMap, HashMap},
    hash::{DefaultHasher, Hash, Hasher},
};

/// Commits that share no row, by their place in the batch.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Wave {
    pub(super) together: Vec<usize>,
    /// Those with a rare write, or that touch one row twice: one by one, after the others.
    pub(super) alone: Vec<usize>,
    /// Some of those that go together publish, or begin to wait.
    pub(super) tells: bool,
}

/// How a commit meets what it has in common with others. Commits of one wave meet it in the same way, or only one does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Alone,
    /// As one of many that publish events of a type.
    Publishing,
    /// As one of many that begin to wait for events of a type.
    Waiting,
    /// As one of many that add to an error group or to the counts of a batch, or that bring the same audit entry.
    Adding,
}

impl Way {
    fn goes_with(self, other: Way) -> bool {
        self == other && self != Way::Alone
    }
}

/// One statement over the rows of many commits.
pub(super) struct Rows<'a> {
    pub(super) statement: Statement,
    pub(super) columns: Vec<Column<'a>>,
    pub(super) of: Vec<Source>,
}

/// Where a row comes from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Source {
    pub(super) commit: usize,
    /// Place among the commit's writes.
    pub(super) write: usize,
    pub(super) guard: Option<Conflict>,
}

/// The waves of the commits named in `left`.
pub(super) fn waves(commits: &[Commit], left: &[usize]) -> Vec<Wave> {
    let mut last: HashMap<u64, (usize, Way)> = HashMap::with_capacity(left.len() * 8);
    let mut waves: Vec<Wave> = Vec::new();
    let mut keys = Vec::new();
    for at in left {
        let commit = &commits[*at];
        keys.clear();
        for write in &commit.writes {
            touched(commit.tenant.as_str(), write, &mut keys);
        }
        let mut met = HashMap::with_capacity(keys.len());
        let again = |(key, way): &(u64, Way)| met.insert(*key, *way).is_some_and(|met| !met.goes_with(*way));
        let twice = keys.iter().any(again);
        let after = |(key, way): &(u64, Way)| {
            last.get(key).map(|(wave, before)| wave + usize::from(!before.goes_with(*way)))
        };
        let wave = keys.iter().filter_map(after).max().unwrap_or(0);
        for (key, way) in &keys {
            last.insert(*key, (wave, *way));
        }
        if waves.len() <= wave {
            waves.resize_with(wave + 1, Wave::default);
        }
        let alone = twice || commit.writes.iter().any(is_rare);
        if alone {
            waves[wave].alone.push(*at);
        } else {
            waves[wave].together.push(*at);
            waves[wave].tells |= commit.writes.iter().any(tell::looks);
        }
    }
    waves
}

/// The statements of commits that go together, in their order.
pub(super) fn statements<'a>(commits: &'a [Commit], together: &[usize]) -> Vec<Rows<'a>> {
    let mut by_statement: BTreeMap<Statement, Vec<(Source, Vec<Value<'a>>)>> = BTreeMap::new();
    for at in together {
        let commit = &commits[*at];
        for (place, write) in commit.writes.iter().enumerate() {
            let bound = bind(commit.tenant.as_str(), write, bind::place(*at, place));
            let bound = bound.expect("what is not rare has rows");
            for Bound { statement, guard, values } in bound {
                let source = Source { commit: *at, write: place, guard };
                by_statement.entry(statement).or_default().push((source, values));
            }
        }
    }
    by_statement.into_iter().map(|(statement, rows)| columns(statement, rows)).collect()
}

fn columns<'a>(statement: Statement, mut rows: Vec<(Source, Vec<Value<'a>>)>) -> Rows<'a> {
    // Two batches that meet the same rows meet them in the same order, so that neither waits for the other in a
    // circle. Rows that are worked off in the order in which they came keep it.
    if !matches!(statement, Statement::Outbox | Statement::Delivery) {
        rows.sort_by(|(_, a), (_, b)| by_key(a, b));
    }
    let first = rows.first().map(|(_, values)| values.as_slice()).unwrap_or_default();
    let mut columns: Vec<Column<'a>> = first.iter().map(Column::like).collect();
    let mut of = Vec::with_capacity(rows.len());
    for (source, values) in rows {
        of.push(source);
        for (column, value) in columns.iter_mut().zip(values) {
            column.push(value);
        }
    }
    Rows { statement, columns, of }
}

fn by_key(a: &[Value<'_>], b: &[Value<'_>]) -> Ordering {
    let pairs = a.iter().zip(b).take(3);
    pairs
        .map(|pair| match pair {
            (Value::Text(a), Value::Text(b)) => a.cmp(b),
            (Value::Id(a), Value::Id(b)) => a.cmp(b),
            (Value::Int(a), Value::Int(b)) => a.cmp(b),
            _ => Ordering::Equal,
        })
        .find(|order| order.is_ne())
        .unwrap_or(Ordering::Equal)
}

/// Every write is named: one that is forgotten would be left out without a word.
fn is_rare(write: &Write) -> bool {
    use Write::*;
    match write {
        CreateDefinition(_)
        | CreateTenant(_)
        | ChangeTenant(_)
        | SetStanding { .. }
        | PutSecret { .. }
        | DeleteSecret { .. }
        | PutSchedule { expected_version: 0, .. }
        | PutCollection { .. }
        | PutBatch { .. }
        | BatchItems { .. }
        | ResetCollection { .. }
        | MoveInstance { .. }
        | CreateKey(_)
        | RevokeKey { .. }
        | ScheduleFollows { .. }
        | PutWorker { .. }
        | DeleteWorker { .. }
        | PutEventType { .. }
        | DeleteEventType { .. }
        | Record(_)
        | AdvanceClock { .. } => true,
        ConsumeSignal { .. }
        | ConsumeTimer { .. }
        | ConsumeCall { .. }
        | ConsumeDelivery { .. }
        | ExtendDelivery { .. }
        | Delivery(_)
        | Debounce { .. }
        | MoveWatermark { .. }
        | RetryDelivery { .. }
        | ConsumeDeadLetter { .. }
        | ClaimKey(_)
        | CreateInstance { .. }
        | UpdateState(_)
        | UpdateTask { .. }
        | Publish(_)
        | UpdateInstance(_)
        | History(_)
        | Signal(_)
        | Timer(_)
        | Call(_)
        | RetryCall { .. }
        | RetrySignal { .. }
        | RetryTimer { .. }
        | Release { .. }
        | DropCall { .. }
        | DropTimer { .. }
        | CreateTask(_)
        | TaskEvent(_)
        | Outbox(_)
        | DeadLetter(_)
        | Errors(_)
        | Dataset(_)
        | Items(_)
        | OutboxSent { .. }
        | Subscribe { .. }
        | Unsubscribe { .. }
        | EventTaken { .. }
        | PutSchedule { .. }
        | SettleItem(_)
        | Audit(_)
        | Slot(_) => false,
    }
}

/// Adds a hash for every row that the write may meet. Rare writes are done one by one, after the others of their wave,
/// so only what they share with other kinds counts.
fn touched(tenant: &str, write: &Write, keys: &mut Vec<(u64, Way)>) {
    let mut meet = |way: Way, table: &str, row: &dyn Fn(&mut DefaultHasher)| {
        let mut hasher = DefaultHasher::new();
        (table, tenant).hash(&mut hasher);
        row(&mut hasher);
        keys.push((hasher.finish(), way));
    };
    match write {
        // An empty type is any.
        Write::Publish(row) => {
            meet(Way::Alone, "event", &|h| row.id.hash(h));
            meet(Way::Alone, "source", &|h| (&row.source, &row.event_id).hash(h));
            meet(Way::Publishing, "type", &|h| row.event_type.hash(h));
            meet(Way::Publishing, "type", &|h| "".hash(h));
        }
        Write::Subscribe { subscriber, wants, .. } => {
            meet(Way::Alone, "subscriber", &|h| subscriber_key(subscriber).hash(h));
            for want in wants.iter().filter(|_| matches!(subscriber, Subscriber::Listen { .. })) {
                let kind = want.event_type.as_deref().unwrap_or("");
                meet(Way::Waiting, "type", &|h| kind.hash(h));
            }
        }
        Write::Errors(rows) => {
            rows.iter().for_each(|row| meet(Way::Adding, "error group", &|h| row.id.hash(h)));
        }
        Write::SettleItem(of) => {
            meet(Way::Alone, "batch item", &|h| (of.batch, of.item).hash(h));
            meet(Way::Adding, "batch", &|h| of.batch.hash(h));
        }
        Write::Audit(row) => meet(Way::Adding, "audit", &|h| row.id.hash(h)),
        Write::Unsubscribe { subscriber } => {
            meet(Way::Alone, "subscriber", &|h| subscriber_key(subscriber).hash(h));
        }
        _ => touched_rows(write, &mut |table, row| meet(Way::Alone, table, row)),
    }
}

/// Notes a row by its table and whatever else names it.
type Meet<'a> = dyn FnMut(&str, &dyn Fn(&mut DefaultHasher)) + 'a;

/// The same for writes that meet rows by their keys alone.
fn touched_rows(write: &Write, key: &mut Meet<'_>) {
    match write {
        Write::ConsumeSignal { id } | Write::RetrySignal { id, .. } => key("signal", &|h| id.hash(h)),
        Write::Signal(row) => key("signal", &|h| row.id.hash(h)),
        Write::ConsumeTimer { instance, token }
        | Write::DropTimer { instance, token }
        | Write::RetryTimer { instance, token, .. } => key("timer", &|h| (instance, token).hash(h)),
        Write::Timer(row) => key("timer", &|h| (&row.instance, &row.token).hash(h)),
        Write::ConsumeCall { instance, token }
        | Write::DropCall { instance, token }
        | Write::RetryCall { instance, token, .. } => key("call", &|h| (instance, token).hash(h)),
        Write::Call(row) => key("call", &|h| (&row.instance, &row.token).hash(h)),
        Write::Release { row, .. } => match row {
            QueueKey::Signal { id } => key("signal", &|h| id.hash(h)),
            QueueKey::Timer { instance, token } => key("timer", &|h| (instance, token).hash(h)),
            QueueKey::Call { instance, token } => key("call", &|h| (instance, token).hash(h)),
            QueueKey::Delivery { id } => key("delivery", &|h| id.hash(h)),
        },
        Write::ConsumeDelivery { id, .. }
        | Write::ExtendDelivery { id, .. }
        | Write::RetryDelivery { id, .. } => key("delivery", &|h| id.hash(h)),
        Write::Delivery(row) => key("delivery", &|h| row.id.hash(h)),
        Write::Debounce { row, key: of, .. } => {
            key("delivery", &|h| row.id.hash(h));
            key("debounced", &|h| (&row.worker, of).hash(h));
        }
        Write::MoveWatermark { worker, row, .. } => key("watermark", &|h| (worker, &row.name).hash(h)),
        Write::ConsumeDeadLetter { id } => key("letter", &|h| id.hash(h)),
        Write::DeadLetter(row) => key("letter", &|h| row.id.hash(h)),
        Write::ClaimKey(row) => key("inbox", &|h| (&row.scope, &row.key).hash(h)),
        Write::CreateInstance { instance, state } => {
            key("instance", &|h| instance.id.hash(h));
            key("state", &|h| state.instance.hash(h));
            if let (Some(business_key), None) = (&instance.business_key, instance.ended_at) {
                key("business", &|h| business_key.hash(h));
            }
        }
        Write::UpdateState(row) => key("state", &|h| row.instance.hash(h)),
        Write::UpdateInstance(row) => key("instance", &|h| row.id.hash(h)),
        Write::UpdateTask { task, .. } => key("task", &|h| task.id.hash(h)),
        Write::CreateTask(row) => key("task", &|h| row.id.hash(h)),
        Write::History(row) => key("history", &|h| (&row.instance, row.version).hash(h)),
        Write::TaskEvent(row) => key("task event", &|h| (&row.task, row.sequence).hash(h)),
        Write::Outbox(row) => key("outbox", &|h| row.id.hash(h)),
        Write::OutboxSent { ids } => ids.iter().for_each(|id| key("outbox", &|h| id.hash(h))),
        Write::PutSchedule { schedule, .. } => key("schedule", &|h| schedule.id.hash(h)),
        Write::PutBatch { row, .. } => key("batch", &|h| row.id.hash(h)),
        Write::ScheduleFollows { id, .. } => key("schedule", &|h| id.hash(h)),
        Write::Slot(row) => key("slot", &|h| (&row.schedule, row.slot.0).hash(h)),
        Write::Dataset(row) => key("dataset", &|h| row.id.hash(h)),
        Write::Items(row) => key("items", &|h| (&row.dataset, row.first, row.round).hash(h)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::{EventRow, SubscriptionRow};
    use machine::{TenantId, Time};
    use uuid::Uuid;

    fn commit(writes: Vec<Write>) -> Commit {
        Commit { tenant: TenantId::new("acme").unwrap(), writes }
    }

    fn consume(number: u128) -> Write {
        Write::ConsumeSignal { id: Uuid::from_u128(number) }
    }

    fn drop_call(token: u64) -> Write {
        Write::DropCall { instance: Uuid::from_u128(1), token }
    }

    #[test]
    fn commits_that_share_a_row_come_one_after_the_other() {
        let batch = [
            commit(vec![consume(1), drop_call(1)]),
            commit(vec![consume(2)]),
            commit(vec![consume(1)]),
            commit(vec![drop_call(1), consume(3)]),
            commit(vec![consume(1)]),
        ];
        let waves = waves(&batch, &[0, 1, 2, 3, 4]);
        let together: Vec<_> = waves.iter().map(|wave| wave.together.clone()).collect();
        assert_eq!(together, [vec![0, 1], vec![2, 3], vec![4]]);
        // The same signal of another tenant is another row.
        let other = Commit { tenant: TenantId::new("other").unwrap(), writes: vec![consume(1)] };
        assert_eq!(super::waves(&[batch[0].clone(), other], &[0, 1]).len(), 1);
    }

    #[test]
    fn rare_writes_and_rows_met_twice_are_done_alone() {
        let twice = commit(vec![consume(1), consume(1)]);
        let rare = commit(vec![Write::RevokeKey { id: "k".into(), at: Time(1) }]);
        let waves = waves(&[twice, rare, commit(vec![consume(2)])], &[0, 1, 2]);
        assert_eq!(waves, [Wave { together: vec![2], alone: vec![0, 1], tells: false }]);
    }

    #[test]
    fn publishers_go_together_and_so_do_waits_but_never_both_for_one_type() {
        let publish = |number: u128, kind: &str| {
            let row = EventRow {
                id: Uuid::from_u128(number),
                source: "s".into(),
                event_id: number.to_string(),
                event_type: kind.into(),
                received_at: Time(1),
                visible_at: Time(1),
                kept_until: None,
                expires_at: Time(2),
                told: 0,
                taken: 0,
                started: 0,
                collected: 0,
                delivered: 0,
                emitted_by: None,
                traced: crate::rows::Traced::default(),
                event: vec![],
            };
            commit(vec![Write::Publish(Box::new(row))])
        };
        let wait = |number: u128, kind: Option<&str>| {
            let subscriber = Subscriber::Listen { instance: Uuid::from_u128(number), token: 1 };
            let wants = vec![SubscriptionRow { event_type: kind.map(str::to_owned), key: None }];
            commit(vec![Write::Subscribe { subscriber, wants, now: Time(1), visible_at: Time(1) }])
        };
        let batch = [
            publish(1, "a"),
            publish(2, "a"),
            publish(3, "b"),
            wait(4, Some("a")),
            wait(5, Some("a")),
            wait(6, Some("c")),
            publish(7, "a"),
            wait(8, None),
        ];
        let waves = waves(&batch, &Vec::from_iter(0..batch.len()));
        let together: Vec<_> = waves.iter().map(|wave| wave.together.clone()).collect();
        assert_eq!(together, [vec![0, 1, 2, 5], vec![3, 4], vec![6], vec![7]]);
        assert!(waves.iter().all(|wave| wave.tells));
    }

    #[test]
    fn a_kind_of_row_is_one_statement_sorted_by_key() {
        let batch =
            [commit(vec![consume(9)]), commit(vec![consume(3), drop_call(1)]), commit(vec![consume(5)])];
        let statements = statements(&batch, &[0, 1, 2]);
        let kinds: Vec<Statement> = statements.iter().map(|rows| rows.statement).collect();
        assert_eq!(kinds, [Statement::DeleteSignal, Statement::DeleteCall]);
        let order: Vec<usize> = statements[0].of.iter().map(|source| source.commit).collect();
        assert_eq!(order, [1, 2, 0]);
        assert!(statements[0].of.iter().all(|source| source.guard == Some(Conflict::Gone)));
        assert_eq!(statements[1].of[0].guard, None);
    }
}
