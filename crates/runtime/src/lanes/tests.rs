//! Lanes are served in turn, by weight and within bounds.

use super::*;
use crate::held::Held;
use machine::Time;
use uuid::Uuid;

fn tenant(name: &str) -> TenantId {
    TenantId::new(name).expect("valid")
}

fn push(queue: &Queue<CallRow>, held: &Held, of: &str, token: u64, target: &str) {
    let row = CallRow {
        instance: Uuid::from_u128(1),
        token,
        target: target.to_owned(),
        envelope: vec![],
        created_at: Time(0),
        visible_at: Time(0),
        attempt: 1,
        last_error: None,
        owner: None,
        taken_over: 0,
    };
    let tenant = tenant(of);
    let reservation = queue.reserve(&tenant).expect("there is room");
    let hold = held.hold(&tenant, row.key());
    queue.push(tenant, row, reservation, hold);
}

fn tokens(queue: &Queue<CallRow>) -> Vec<u64> {
    let mut handled = Vec::new();
    while let Some(item) = queue.next() {
        handled.push(item.row.token);
        queue.done(&item.tenant, &item.row.target);
    }
    handled
}

#[test]
fn a_dropped_call_is_left_out_and_frees_its_room() {
    let (queue, held) = (Queue::new(2, 10, BTreeMap::new()), Held::default());
    push(&queue, &held, "acme", 1, "a");
    push(&queue, &held, "acme", 2, "a");
    assert!(queue.reserve(&tenant("acme")).is_none());
    held.drop_row(&tenant("acme"), QueueKey::Call { instance: Uuid::from_u128(1), token: 1 });
    assert_eq!(tokens(&queue), [2]);
    let lanes = queue.shared.lanes.lock();
    assert!(lanes.tenants.is_empty() && lanes.busy.is_empty() && lanes.ring.is_empty());
}

#[test]
fn a_tenant_takes_half_at_most_while_others_wait() {
    let (queue, held) = (Queue::new(8, 4, BTreeMap::new()), Held::default());
    for token in 0..8 {
        push(&queue, &held, "acme", token, "a");
    }
    assert_eq!(queue.full(), [tenant("acme")]);
    let first = queue.next().expect("alone, it may take all");
    let second = queue.next().expect("alone, it may take all");
    push(&queue, &held, "zoo", 10, "a");
    push(&queue, &held, "zoo", 11, "a");
    let others = [queue.next(), queue.next()].map(|item| item.expect("room is left").row.token);
    assert_eq!(others, [10, 11], "acme has its half");
    assert!(queue.next().is_none(), "all are taken");
    drop((first, second));
}

#[test]
fn a_parked_tenant_takes_nothing_on_and_gives_back_what_waits() {
    let (queue, held) = (Queue::new(8, 4, BTreeMap::new()), Held::default());
    for token in 0..3 {
        push(&queue, &held, "acme", token, if token == 2 { "b" } else { "a" });
    }
    push(&queue, &held, "zoo", 10, "a");
    let under_way = queue.next().expect("there is room");
    assert!(queue.take_parked().is_empty(), "nobody is parked");
    let parked = Rule { parked: true, ..Rule::default() };
    queue.rule(BTreeMap::from([(tenant("acme"), parked)]));
    assert!(queue.reserve(&tenant("acme")).is_none());
    assert_eq!(queue.next().map(|item| item.row.token), Some(10), "only others are served");
    let given_back: Vec<u64> = queue.take_parked().iter().map(|item| item.row.token).collect();
    assert_eq!(given_back, [1, 2]);
    queue.done(&under_way.tenant, &under_way.row.target);
    drop(under_way);
    queue.done(&tenant("zoo"), "a");
    assert_eq!(queue.lanes(), 0, "nothing of it is left");
    queue.rule(BTreeMap::new());
    push(&queue, &held, "acme", 7, "a");
    assert_eq!(tokens(&queue), [7]);
}

#[test]
fn a_tenant_has_no_more_under_way_than_its_limit() {
    let (queue, held) = (Queue::new(8, 8, BTreeMap::new()), Held::default());
    let rule = Rule { in_flight_max: 2, ..Rule::default() };
    queue.rule(BTreeMap::from([(tenant("acme"), rule)]));
    for token in 0..4 {
        push(&queue, &held, "acme", token, "a");
    }
    push(&queue, &held, "zoo", 10, "a");
    let under_way: Vec<u64> = std::iter::from_fn(|| queue.next()).map(|item| item.row.token).collect();
    assert_eq!(under_way, [0, 10, 1]);
    assert_eq!(queue.full_for(&tenant("acme"), "a"), Some(Full::Tenant(2)));
    assert_eq!(queue.full_for(&tenant("zoo"), "a"), None);
    queue.done(&tenant("acme"), "a");
    assert_eq!(queue.next().map(|item| item.row.token), Some(2));
}

#[test]
fn a_tenant_is_served_as_often_as_its_weight_says() {
    let (queue, held) = (Queue::new(10, 10, BTreeMap::new()), Held::default());
    queue.rule(BTreeMap::from([(tenant("acme"), Rule { weight: 3, ..Rule::default() })]));
    for token in 0..6 {
        push(&queue, &held, "acme", token, "a");
    }
    for token in 10..14 {
        push(&queue, &held, "zoo", token, "a");
    }
    assert_eq!(tokens(&queue), [0, 1, 2, 10, 3, 4, 5, 11, 12, 13]);
    // What is queued already is served by the weights as they are.
    for token in 0..4 {
        push(&queue, &held, "acme", token, "a");
        push(&queue, &held, "zoo", 10 + token, "a");
    }
    assert_eq!(queue.next().map(|item| item.row.token), Some(0));
    queue.rule(BTreeMap::new());
    let rest: Vec<u64> = std::iter::from_fn(|| queue.next()).map(|item| item.row.token).collect();
    assert_eq!(rest, [1, 2, 10, 3, 11, 12, 13], "a turn that has begun is finished");
}

#[test]
fn weight_is_worth_room_while_others_wait() {
    let (queue, held) = (Queue::new(20, 8, BTreeMap::new()), Held::default());
    queue.rule(BTreeMap::from([(tenant("acme"), Rule { weight: 3, ..Rule::default() })]));
    for token in 0..8 {
        push(&queue, &held, "acme", token, "a");
        push(&queue, &held, "zoo", 10 + token, "a");
    }
    let taken: Vec<Item<CallRow>> = std::iter::from_fn(|| queue.next()).collect();
    let of_acme = taken.iter().filter(|item| item.tenant == tenant("acme")).count();
    assert_eq!((taken.len(), of_acme), (8, 6));
}

#[test]
fn tenants_and_their_targets_are_served_in_turn() {
    let (queue, held) = (Queue::new(10, 10, BTreeMap::new()), Held::default());
    for (token, target) in [(1, "a"), (2, "a"), (3, "b"), (4, "a")] {
        push(&queue, &held, "acme", token, target);
    }
    push(&queue, &held, "zoo", 10, "a");
    assert_eq!(tokens(&queue), [1, 10, 3, 2, 4]);
}

#[test]
fn more_of_the_same_is_taken_along() {
    let (queue, held) = (Queue::new(10, 10, BTreeMap::new()), Held::default());
    for (token, target) in [(1, "a"), (2, "a"), (3, "b"), (4, "a"), (5, "a")] {
        push(&queue, &held, "acme", token, target);
    }
    let first = queue.next().expect("one is there");
    held.drop_row(&tenant("acme"), QueueKey::Call { instance: Uuid::from_u128(1), token: 2 });
    let more = queue.more(&first.tenant, "a", 1);
    assert_eq!(more.iter().map(|item| item.row.token).collect::<Vec<_>>(), [4]);
    queue.done(&first.tenant, "a");
    assert_eq!(tokens(&queue), [3, 5]);
    let all: Vec<_> = {
        push(&queue, &held, "acme", 6, "a");
        queue.more(&tenant("acme"), "a", 9)
    };
    assert_eq!(all.len(), 1);
    drop((first, more, all));
    let lanes = queue.shared.lanes.lock();
    assert!(lanes.tenants.is_empty() && lanes.busy.is_empty() && lanes.ring.is_empty());
}
