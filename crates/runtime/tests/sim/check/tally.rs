//! P3, P5, P13: every acknowledged event was handled, each order counted once.

use super::Failures;
use crate::{
    tally::{self, COUNTED, EVENTS, NOTED, ORDERS},
    world::World,
};
use machine::Data;
use std::collections::BTreeMap;
use store::{Store, views::*};

pub(super) async fn check(world: &World, failures: &mut Failures) {
    let orders = (0..ORDERS).map(|order| order.to_string());
    once(world, COUNTED, "order", orders.collect(), failures).await;
    let events = (0..EVENTS).map(|number| format!("paid-{number}"));
    once(world, NOTED, "event", events.collect(), failures).await;
}

/// Of every value there is one event of the type.
async fn once(world: &World, kind: &str, member: &str, wanted: Vec<String>, failures: &mut Failures) {
    let filter = EventFilter { event_type: Some(kind.to_owned()), ..EventFilter::default() };
    let page = Page { after: None, limit: PAGE_MAX };
    let emitted = world.store.events(&tally::tenant(), &filter, &page).await.expect("answers");
    let mut found = BTreeMap::<String, u64>::new();
    for row in &emitted {
        let data = Data::parse(&row.event).unwrap_or_default().get("data").unwrap_or_default();
        *found.entry(data.get(member).unwrap_or_default().to_text()).or_default() += 1;
    }
    for value in wanted {
        match found.remove(&value) {
            Some(1) => {}
            count => {
                failures.push(format!("P3: {kind} {value} is there {} times", count.unwrap_or_default()))
            }
        }
    }
    if !found.is_empty() {
        failures.push(format!("P3: {kind} of what nobody published: {found:?}"));
    }
}
