//! Order and equality of values, metered, and a sort that does not mind when the meter stops in its middle.
//!
//! The order is jq's: null, booleans, numbers, text, arrays, objects. After a stop everything compares equal;
//! that is no consistent order any more, which is why `slice::sort` (it may panic then) is not used.

use super::{
    meter::{charge, is_stopped},
    value::Value,
};
use jaq_json::Val;
use std::cmp::Ordering;

/// Compares two values.
pub(super) fn compare(left: &Val, right: &Val) -> Ordering {
    charge(1);
    if is_stopped() {
        return Ordering::Equal;
    }
    match (left, right) {
        (Val::TStr(l), Val::TStr(r)) => {
            charge(l.len().min(r.len()) / 64);
            l.cmp(r)
        }
        (Val::Arr(l), Val::Arr(r)) => {
            let unequal = l.iter().zip(r.iter()).map(|(l, r)| compare(l, r)).find(|order| order.is_ne());
            unequal.unwrap_or_else(|| l.len().cmp(&r.len()))
        }
        (Val::Obj(l), Val::Obj(r)) => compare_objects(l, r),
        // Values of different types, or scalars: cheap whatever they hold.
        _ => left.cmp(right),
    }
}

/// Objects compare by their sorted keys first, then by the values in that order.
fn compare_objects(left: &jaq_json::Map, right: &jaq_json::Map) -> Ordering {
    charge(4 * (left.len() + right.len()));
    let sorted = |map: &jaq_json::Map| {
        let mut entries: Vec<(Val, Val)> = map.iter().map(|(k, v)| (k.clone(), v.clone())).collect();
        entries.sort_by(|(l, _), (r, _)| l.cmp(r));
        entries
    };
    let (left, right) = (sorted(left), sorted(right));
    let keys = left.iter().map(|(k, _)| k).cmp(right.iter().map(|(k, _)| k));
    let values = || left.iter().zip(&right).map(|((_, l), (_, r))| compare(l, r)).find(|order| order.is_ne());
    keys.then_with(|| values().unwrap_or(Ordering::Equal))
}

/// True if two values are the same JSON.
pub(super) fn equal(left: &Val, right: &Val) -> bool {
    charge(1);
    if is_stopped() {
        return true;
    }
    match (left, right) {
        (Val::TStr(l), Val::TStr(r)) => {
            charge(l.len().min(r.len()) / 64);
            l == r
        }
        (Val::Arr(l), Val::Arr(r)) => l.len() == r.len() && l.iter().zip(r.iter()).all(|(l, r)| equal(l, r)),
        (Val::Obj(l), Val::Obj(r)) => {
            l.len() == r.len() && l.iter().all(|(k, l)| r.get(k).is_some_and(|r| equal(l, r)))
        }
        (Val::Arr(_) | Val::Obj(_), _) | (_, Val::Arr(_) | Val::Obj(_)) => false,
        _ => left == right,
    }
}

/// A borrowed value as a key of an ordered collection.
pub(super) struct Key<'a>(pub(super) &'a Val);

impl Ord for Key<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        compare(self.0, other.0)
    }
}
impl PartialOrd for Key<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl PartialEq for Key<'_> {
    fn eq(&self, other: &Self) -> bool {
        equal(self.0, other.0)
    }
}
impl Eq for Key<'_> {}

impl Ord for Value {
    fn cmp(&self, other: &Self) -> Ordering {
        compare(&self.val, &other.val)
    }
}
impl PartialOrd for Value {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        equal(&self.val, &other.val)
    }
}
impl Eq for Value {}

/// A thing and the keys it is sorted by.
pub(super) type Keyed<T> = (Vec<Value>, T);

/// Sorts by keys, keeping the order of equal ones: a merge sort from the bottom up.
pub(super) fn sort<T>(items: Vec<Keyed<T>>) -> Vec<Keyed<T>> {
    let mut runs: Vec<Vec<Keyed<T>>> = items.into_iter().map(|item| vec![item]).collect();
    while runs.len() > 1 {
        let mut old = runs.into_iter();
        runs = Vec::new();
        while let Some(left) = old.next() {
            runs.push(match old.next() {
                Some(right) => merge(left, right),
                None => left,
            });
        }
    }
    runs.pop().unwrap_or_default()
}

fn merge<T>(left: Vec<Keyed<T>>, right: Vec<Keyed<T>>) -> Vec<Keyed<T>> {
    let mut merged = Vec::with_capacity(left.len() + right.len());
    let (mut left, mut right) = (left.into_iter().peekable(), right.into_iter().peekable());
    while let (Some((l, _)), Some((r, _))) = (left.peek(), right.peek()) {
        merged.extend(if r < l { right.next() } else { left.next() });
    }
    merged.extend(left);
    merged.extend(right);
    merged
}
