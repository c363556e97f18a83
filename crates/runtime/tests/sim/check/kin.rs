//! Parents and children: no child without a parent, none left open, each item done once.

use super::Failures;
use std::collections::BTreeMap;
use store::views::InstanceView;

pub(super) fn check(own: &[&InstanceView], children: &[&InstanceView], failures: &mut Failures) {
    let mut done = BTreeMap::<_, usize>::new();
    for child in children {
        let Some(parent) = child.row.parent else { continue };
        let Some(of) = own.iter().find(|view| view.row.id == parent.instance) else {
            failures.push(format!("{} is a child of nobody", child.row.id));
            continue;
        };
        if child.row.ended_at.is_none() {
            failures.push(format!("{} is {} though its parent ended", child.row.id, child.row.status));
        }
        match child.row.status.as_str() {
            "completed" => *done.entry((parent.instance, parent.item)).or_default() += 1,
            // Nobody else cancels a child; a faulted map closes those that are left.
            "cancelled" if of.row.status != "cancelled" && of.row.name != "many" => {
                failures.push(format!("{} is cancelled though its parent is not", child.row.id));
            }
            _ => {}
        }
        if of.row.name == "keep" && child.row.status == "cancelled" {
            failures.push(format!("{} was to be outlived, not cancelled", child.row.id));
        }
    }
    for ((parent, item), count) in done.iter().filter(|((_, item), count)| item.is_some() && **count > 1) {
        failures.push(format!("{parent} did item {item:?} {count} times"));
    }
    for view in own {
        let wanted: &[Option<u32>] = match view.row.name.as_str() {
            "nest" | "keep" => &[None],
            "many" => &[Some(0), Some(1), Some(2), Some(3), Some(4), Some(5), Some(6)],
            _ => continue,
        };
        let missing = wanted.iter().filter(|item| !done.contains_key(&(view.row.id, **item))).count();
        if view.row.status == "completed" && missing > 0 {
            failures.push(format!("{} completed, but {missing} of its children did not", view.row.id));
        }
    }
}
