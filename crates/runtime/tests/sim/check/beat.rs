//! The schedule's slots and the events of the tenant that has them: each once, none lost.

use super::Failures;
use crate::{
    beat::{self, EVENTS},
    world::World,
};
use machine::id;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use store::{Store, views::*};

pub(super) async fn check(world: &World, failures: &mut Failures) {
    let (store, tenant) = (&world.store, &beat::tenant());
    let schedule = id::schedule(tenant, "sim", "ticks");
    let row = store.schedule(tenant, schedule).await.expect("answers").expect("it was deployed");
    let mut slots = Vec::new();
    let mut before = None;
    loop {
        let page = store.slots(tenant, schedule, before, PAGE_MAX).await.expect("answers");
        before = page.last().map(|slot| slot.slot);
        slots.extend(page);
        if before.is_none() {
            break;
        }
    }
    slots.reverse();
    let mut started = BTreeSet::new();
    for (number, slot) in slots.iter().enumerate() {
        let wanted = row.anchor.0 + (number as i64 + 1) * 1_000_000;
        if (slot.slot.0, slot.outcome.as_str()) != (wanted, "fired") {
            failures.push(format!("slot {number} is {slot:?}, anchor {:?}", row.anchor));
        }
        let there = match slot.instance {
            Some(instance) => store.instance(tenant, instance).await.expect("answers"),
            None => None,
        };
        match there {
            Some(view) if started.insert(view.row.id) => {}
            _ => failures.push(format!("slot {number} has no instance of its own: {slot:?}")),
        }
    }
    if slots.is_empty() {
        failures.push("the schedule never fired".to_owned());
    }
    let ticks = all(world, "ticks").await;
    if ticks.len() != started.len() && slots.len() < PAGE_MAX {
        failures.push(format!("{} instances for {} slots", ticks.len(), started.len()));
    }
    events(world, failures).await;
}

async fn events(world: &World, failures: &mut Failures) {
    let numbers: Vec<Value> = (0..EVENTS).map(|number| json!(number)).collect();
    let mut reacted: Vec<Value> =
        all(world, "reacts").await.into_iter().map(|output| output["n"].clone()).collect();
    reacted.sort_by_key(Value::as_u64);
    if reacted != numbers {
        failures.push(format!("events started instances for {reacted:?} instead of {numbers:?}"));
    }
    let collected = all(world, "collects").await;
    if collected != [Value::Array(numbers)] {
        failures.push(format!("the collector came to {collected:?}"));
    }
}

/// The outputs of all instances of one definition, at most a page of them.
async fn all(world: &World, name: &str) -> Vec<Value> {
    let filter = InstanceFilter { name: Some(name.to_owned()), ..InstanceFilter::default() };
    let page = Page { after: None, limit: PAGE_MAX };
    let views = world.store.instances(&beat::tenant(), &filter, &page).await.expect("answers");
    let output = |view: InstanceView| {
        view.row.output.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
    };
    views.into_iter().map(output).collect()
}
