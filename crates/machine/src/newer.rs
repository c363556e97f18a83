//! Tells what a newer build wrote from what is damaged.
//!
//! Whatever is stored says so by its version if its meaning changed. A newer build that only adds writes no higher version:
//! what it adds is a member or a word that older ones do not know. Such a thing is never read without what it adds, because
//! it would be written back without it.

use serde_json::Value;

/// True if the text was well formed, and held a member or a word that this build does not know.
pub fn says_unknown(error: &serde_json::Error) -> bool {
    // It tells this apart in words only.
    let said = error.to_string();
    ["unknown field", "unknown variant"].iter().any(|words| said.starts_with(words))
}

/// The pointer of a member that is in `stored` and was lost when it was read and written again as `read`. What says
/// nothing (null, false, 0, empty) is not lost if it is not there.
pub fn lost(stored: &Value, read: &Value) -> Option<String> {
    let within =
        |key: &dyn std::fmt::Display, found: Option<String>| found.map(|rest| format!("/{key}{rest}"));
    match (stored, read) {
        (Value::Object(stored), Value::Object(read)) => stored.iter().find_map(|(key, value)| {
            let found = match read.get(key) {
                Some(read) => lost(value, read),
                None => says_something(value).then(String::new),
            };
            within(key, found)
        }),
        (Value::Array(stored), Value::Array(read)) => {
            let mut pairs = stored.iter().zip(read).enumerate();
            pairs.find_map(|(at, (stored, read))| within(&at, lost(stored, read)))
        }
        _ => None,
    }
}

/// The pointer of a member of `given` that `read` does without, whatever it says: for what is written with all its members.
pub fn unknown(given: &Value, read: &Value) -> Option<String> {
    let (Value::Object(given), Value::Object(read)) = (given, read) else { return None };
    given.iter().find_map(|(key, value)| match read.get(key) {
        Some(read) => unknown(value, read).map(|rest| format!("/{key}{rest}")),
        None => Some(format!("/{key}")),
    })
}

/// Puts into `fresh` what this build does not know of `stored`: the members that were lost when it was read as `read`.
pub fn keep(stored: &Value, read: &Value, fresh: &mut Value) {
    let (Value::Object(stored), Value::Object(read), Value::Object(fresh)) = (stored, read, fresh) else {
        return;
    };
    for (key, value) in stored {
        match (read.get(key), fresh.get_mut(key)) {
            (None, None) => drop(fresh.insert(key.clone(), value.clone())),
            (Some(read), Some(fresh)) => keep(value, read, fresh),
            _ => {}
        }
    }
}

fn says_something(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(is) => *is,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(members) => !members.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_says_nothing_is_not_lost() {
        let stored = json!({ "a": 1, "b": null, "c": [], "d": { "e": false, "f": "x" } });
        assert_eq!(lost(&stored, &json!({ "a": 2, "d": { "f": "y", "g": 1 } })), None);
    }

    #[test]
    fn what_is_not_known_is_kept_and_what_is_known_is_replaced() {
        let stored = json!({ "a": 1, "new": [1], "b": { "c": 1, "newer": 2 }, "d": { "newest": 3 } });
        let read = json!({ "a": 1, "b": { "c": 1 }, "d": null });
        let mut fresh = json!({ "a": 2, "b": { "c": null }, "d": null });
        keep(&stored, &read, &mut fresh);
        assert_eq!(fresh, json!({ "a": 2, "new": [1], "b": { "c": null, "newer": 2 }, "d": null }));
    }

    #[test]
    fn a_member_that_is_not_known_is_named_even_if_it_says_nothing() {
        let read = json!({ "a": { "b": 1 }, "c": null });
        assert_eq!(unknown(&json!({ "a": { "b": 2 } }), &read), None);
        assert_eq!(unknown(&json!({ "a": { "b": 2, "new": false } }), &read).as_deref(), Some("/a/new"));
    }

    #[test]
    fn a_member_that_is_lost_is_named() {
        let stored = json!({ "a": [{ "b": 1 }, { "b": 1, "new": { "x": 1 } }] });
        assert_eq!(lost(&stored, &json!({ "a": [{ "b": 1 }, { "b": 1 }] })).as_deref(), Some("/a/1/new"));
    }
}
