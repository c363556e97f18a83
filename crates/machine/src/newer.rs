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
    fn a_member_that_is_lost_is_named() {
        let stored = json!({ "a": [{ "b": 1 }, { "b": 1, "new": { "x": 1 } }] });
        assert_eq!(lost(&stored, &json!({ "a": [{ "b": 1 }, { "b": 1 }] })).as_deref(), Some("/a/1/new"));
    }
}
