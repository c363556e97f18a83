//! Compares what came out with what the scenario says: numbers as numbers, objects exactly.

use serde_json::Value;

/// Where the two differ, or nothing.
pub(crate) fn difference(found: &Value, wanted: &Value) -> Option<String> {
    at("", found, wanted)
}

fn at(path: &str, found: &Value, wanted: &Value) -> Option<String> {
    let differ =
        || Some(format!("at {:?}: found {found}, wanted {wanted}", if path.is_empty() { "/" } else { path }));
    match (found, wanted) {
        (Value::Number(a), Value::Number(b)) if a.as_f64() == b.as_f64() => None,
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            a.iter().zip(b).enumerate().find_map(|(index, (a, b))| at(&format!("{path}/{index}"), a, b))
        }
        (Value::Object(a), Value::Object(b)) if a.len() == b.len() => {
            b.iter().find_map(|(key, b)| match a.get(key) {
                Some(a) => at(&format!("{path}/{key}"), a, b),
                None => differ(),
            })
        }
        (a, b) if a == b => None,
        _ => differ(),
    }
}

/// Like [`difference`], but of an object only the wanted members count.
pub(crate) fn difference_of_members(found: &Value, wanted: &Value) -> Option<String> {
    let Some(members) = wanted.as_object() else { return difference(found, wanted) };
    members.iter().find_map(|(key, wanted)| at(&format!("/{key}"), &found[key], wanted))
}

/// The member at a dotted path.
pub(crate) fn member<'v>(value: &'v Value, path: &str) -> Option<&'v Value> {
    path.split('.').try_fold(value, |value, key| value.get(key))
}
