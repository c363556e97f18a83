//! Values that tie an event to whoever waits for it, in the form an index keeps them.
//!
//! [`path`] says whether an index can use an expression at all, [`key`] how it writes a value down, [`look_up`] reads
//! the value from an event. What no index can use is decided by the machine, when it is told about the event.

use crate::data::Data;

/// The longest value that an index keeps.
const KEY_BYTES_MAX: usize = 512;

/// The expression, if all it does is to follow members: `.data.order.id`.
pub fn path(from: &str) -> Option<String> {
    let from = from.trim();
    let names = from.strip_prefix('.')?.split('.');
    let is_name = |name: &str| {
        name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    names.clone().all(is_name).then(|| from.to_owned())
}

/// How the index writes a value: texts, integers and flags, the rest not at all. Equal values are written alike.
pub fn key(value: &Data) -> Option<String> {
    let text = match (value.as_str(), value.as_i64()) {
        (Some(_), _) => String::from_utf8(value.to_bytes()).ok()?,
        (None, Some(number)) => number.to_string(),
        (None, None) if *value == Data::bool(true) => "true".to_owned(),
        (None, None) if *value == Data::bool(false) => "false".to_owned(),
        (None, None) => return None,
    };
    (text.len() <= KEY_BYTES_MAX).then_some(text)
}

/// What an event has at `path`, as the index writes it.
pub fn look_up(path: &str, event: &Data) -> Option<String> {
    let mut names = path.strip_prefix('.')?.split('.');
    let value = names.try_fold(event.clone(), |value, name| value.get(name))?;
    key(&value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_plain_paths_are_indexed() {
        assert_eq!(path(" .data.order_id "), Some(".data.order_id".to_owned()));
        for other in [".", ".data[0]", ".data | .id", ".a.", "$context.x", ".data.\"a b\"", ".data?.x", ".1a"]
        {
            assert_eq!(path(other), None, "{other}");
        }
    }

    #[test]
    fn equal_values_are_written_alike() {
        let event =
            Data::from_json(json!({ "data": { "n": 2.0, "t": "2", "o": {}, "b": true }, "subject": "s" }));
        assert_eq!(look_up(".data.n", &event), key(&Data::int(2)));
        assert_eq!(look_up(".data.t", &event), Some("\"2\"".to_owned()));
        assert_eq!(look_up(".data.b", &event), Some("true".to_owned()));
        assert_eq!(look_up(".subject", &event), key(&Data::text("s")));
        for none in [".data.o", ".data.x", ".subject.x"] {
            assert_eq!(look_up(none, &event), None);
        }
        assert_eq!(key(&Data::text("x".repeat(600))), None);
    }
}
