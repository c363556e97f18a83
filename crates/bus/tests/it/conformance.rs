//! What every adapter of the port of hints keeps to (B32, P10).

use crate::places::{self, Place};
use scratch::Kind;
use std::{collections::BTreeSet, sync::Arc, time::Duration};
use store::{
    Hint, Hints,
    hint::{Ended, NAMED_MAX},
};
use tokio::time::timeout;
use uuid::Uuid;

/// How long anything may take on a slow, busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// One function per promise, one test per promise and adapter.
macro_rules! over_every_adapter {
    ($($promise:ident),* $(,)?) => {
        mod redis { $(super::over_every_adapter!(@ $promise, super::places::broker(super::Kind::Redis));)* }
        mod nats { $(super::over_every_adapter!(@ $promise, super::places::broker(super::Kind::Nats));)* }
        mod postgres { $(super::over_every_adapter!(@ $promise, super::places::postgres().await);)* }
    };
    (@ $promise:ident, $place:expr) => {
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $promise() {
            let Some(place) = $place else { return };
            super::$promise(place).await;
        }
    };
}
use over_every_adapter;

over_every_adapter![
    what_is_told_is_heard_by_others_and_not_by_oneself,
    a_burst_becomes_few_hints,
    after_an_outage_everything_is_looked_for_and_hints_come_again,
    a_node_that_starts_during_an_outage_hears_once_it_is_over,
    doubled_and_foreign_words_do_no_harm,
    deployments_do_not_hear_each_other,
];

async fn heard(node: &Arc<dyn Hints>) -> Hint {
    timeout(PATIENCE, node.heard()).await.expect("a hint comes")
}

/// A node that listens: it has said so by looking for everything, once.
async fn listening(place: &dyn Place, deployment: usize) -> Arc<dyn Hints> {
    let node = place.node(deployment).await;
    assert_eq!(heard(&node).await, Hint::everything());
    node
}

/// Tells this end until the other hears of it; answers what else was heard on the way.
async fn until_heard(from: &Arc<dyn Hints>, to: &Arc<dyn Hints>, id: u128) -> Hint {
    let id = Uuid::from_u128(id);
    let mut all = Hint::default();
    let hearing = async {
        loop {
            from.tell(Hint::ended(id));
            if let Ok(hint) = timeout(Duration::from_millis(200), to.heard()).await {
                let is_it = matches!(&hint.ended, Ended::These(ids) if ids.contains(&id));
                all.merge(hint);
                if is_it {
                    return;
                }
            }
        }
    };
    timeout(PATIENCE, hearing).await.expect("hints come again");
    all
}

async fn what_is_told_is_heard_by_others_and_not_by_oneself(place: Box<dyn Place>) {
    let place = &*place;
    let nodes = [listening(place, 0).await, listening(place, 0).await, listening(place, 0).await];
    let one = Hint::ended(Uuid::from_u128(1));
    nodes[0].tell(one.clone());
    for other in &nodes[1..] {
        assert_eq!(heard(other).await, one);
    }
    // Whatever it would hear of itself came before this.
    let clocks = Hint { clocks: true, ..Hint::default() };
    nodes[1].tell(clocks.clone());
    assert_eq!(heard(&nodes[0]).await, clocks);
    nodes[2].tell(Hint::queues());
    assert_eq!(heard(&nodes[0]).await, Hint::queues());
}

async fn a_burst_becomes_few_hints(place: Box<dyn Place>) {
    const BURST: u128 = 2_000;
    let (from, to) = (listening(&*place, 0).await, listening(&*place, 0).await);
    for number in 0..BURST {
        from.tell(Hint::ended(Uuid::from_u128(number)));
        if number % 500 == 0 {
            tokio::task::yield_now().await;
        }
    }
    from.tell(Hint { clocks: true, ..Hint::default() });
    let (mut count, mut named, mut many) = (0, BTreeSet::new(), false);
    loop {
        let hint = heard(&to).await;
        count += 1;
        match hint.ended {
            Ended::These(ids) => {
                assert!(ids.len() <= NAMED_MAX);
                named.extend(ids);
            }
            Ended::Many => many = true,
        }
        if hint.clocks {
            break;
        }
    }
    assert!(many || named.len() == BURST as usize, "every end was told of, or that they are many");
    assert!(count < 100, "{BURST} ends in {count} hints");
}

async fn after_an_outage_everything_is_looked_for_and_hints_come_again(mut place: Box<dyn Place>) {
    let (a, b) = (listening(&*place, 0).await, listening(&*place, 0).await);
    place.down().await;
    // Never waits, however much there is and whoever hears it.
    for number in 0..10_000 {
        a.tell(Hint::ended(Uuid::from_u128(number)));
    }
    place.up().await;
    for node in [&a, &b] {
        let mut hint = heard(node).await;
        while !hint.queues {
            // The other one was quicker, and has told already.
            hint = heard(node).await;
        }
        assert!(hint.clocks && hint.ended == Ended::Many, "{hint:?}");
    }
    until_heard(&a, &b, 77).await;
    until_heard(&b, &a, 78).await;
    // Connected again once, looked for everything once.
    let extra = until_heard(&a, &b, 79).await;
    assert!(!extra.queues && !extra.clocks, "{extra:?}");
}

async fn a_node_that_starts_during_an_outage_hears_once_it_is_over(mut place: Box<dyn Place>) {
    let a = listening(&*place, 0).await;
    place.down().await;
    let b = place.node(0).await;
    b.tell(Hint::ended(Uuid::from_u128(5)));
    place.up().await;
    assert_eq!(heard(&b).await, Hint::everything());
    until_heard(&a, &b, 6).await;
    until_heard(&b, &a, 7).await;
}

async fn doubled_and_foreign_words_do_no_harm(place: Box<dyn Place>) {
    let (a, b) = (listening(&*place, 0).await, listening(&*place, 0).await);
    let said = format!("somebody q {}", Uuid::from_u128(9).simple());
    for _ in 0..2 {
        place.garbage(&said).await;
        for node in [&a, &b] {
            let hint = heard(node).await;
            assert!(hint.queues && hint.ended.may_be(Uuid::from_u128(9)), "{hint:?}");
        }
    }
    for foreign in ["nonsense", "a b c d e", "x  no-id,-,zz"] {
        place.garbage(foreign).await;
    }
    until_heard(&a, &b, 10).await;
    until_heard(&b, &a, 11).await;
}

async fn deployments_do_not_hear_each_other(place: Box<dyn Place>) {
    let (ours, theirs) = (listening(&*place, 0).await, listening(&*place, 1).await);
    let (also_ours, also_theirs) = (listening(&*place, 0).await, listening(&*place, 1).await);
    ours.tell(Hint::queues());
    assert_eq!(heard(&also_ours).await, Hint::queues());
    let end = Hint::ended(Uuid::from_u128(3));
    theirs.tell(end.clone());
    // Were it heard at all, the other deployment's hint would have come first.
    assert_eq!(heard(&also_theirs).await, end);
    let clocks = Hint { clocks: true, ..Hint::default() };
    ours.tell(clocks.clone());
    assert_eq!(heard(&also_ours).await, clocks);
}
