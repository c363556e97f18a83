//! Records: what their ids look like, and the keys that lists of them are filtered and sorted by.
//!
//! A kind declares keys; [`KeyDeclaration::of`] reads one from a record's body, [`sortable`] turns it into bytes whose order is
//! the order of the values, so that every store sorts alike.

#[cfg(test)]
mod tests;

use crate::data::Data;
use serde::{Deserialize, Serialize};

/// The longest id of a record.
pub const ID_BYTES_MAX: usize = 128;
/// The most keys that a kind declares.
pub const KEYS_MAX: usize = 16;
/// The longest text that can be a key.
pub const KEY_BYTES_MAX: usize = 1024;
/// How deep a tree of records may be.
pub const DEPTH_MAX: usize = 64;

/// What is wrong with an id, if anything.
pub fn id_problem(id: &str) -> Option<String> {
    let is_id = (1..=ID_BYTES_MAX).contains(&id.len())
        && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:~".contains(&byte))
        && !matches!(id, "." | "..");
    (!is_id).then(|| format!("an id has 1 to {ID_BYTES_MAX} letters, digits, `-`, `_`, `.`, `:` or `~`"))
}

/// What lists of a kind can be filtered and sorted by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyDeclaration {
    pub name: String,
    /// JSON pointer into the body.
    pub path: String,
}

impl KeyDeclaration {
    /// The key of a record with this body.
    pub fn of(&self, body: &Data) -> Result<Vec<u8>, String> {
        let value = body.pointer(&self.path).unwrap_or(Data::NULL);
        sortable(&value).map_err(|why| format!("the key `{}` at {} {why}", self.name, self.path))
    }

    /// What is wrong with it, if anything.
    pub fn problem(&self) -> Option<String> {
        let is_name = (1..=100).contains(&self.name.len())
            && self.name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
        let is_path = self.path.len() <= KEY_BYTES_MAX && self.path.starts_with('/');
        match (is_name, is_path) {
            (false, _) => Some("a key's name has 1 to 100 letters, digits, `-`, `_` or `.`".to_owned()),
            (_, false) => Some(format!("the path of `{}` is a JSON pointer such as /status", self.name)),
            (true, true) => None,
        }
    }
}

/// Bytes in the order of the values: null, false, true, numbers, texts. Arrays and objects have none.
pub fn sortable(value: &Data) -> Result<Vec<u8>, &'static str> {
    let json = value.to_json();
    match &json {
        serde_json::Value::Null => Ok(vec![0]),
        serde_json::Value::Bool(flag) => Ok(vec![1 + u8::from(*flag)]),
        serde_json::Value::Number(number) => {
            let float = number.as_f64().unwrap_or(0.0);
            // Zero has two forms and is one number.
            let bits = (float + 0.0).to_bits();
            let ordered = if bits >> 63 == 1 { !bits } else { bits | 1 << 63 };
            // Whole numbers that a float cannot tell apart are told apart here.
            let exact = number.as_i64().unwrap_or(float as i64).cast_unsigned() ^ 1 << 63;
            Ok([&[3][..], &ordered.to_be_bytes(), &exact.to_be_bytes()].concat())
        }
        serde_json::Value::String(text) if text.len() <= KEY_BYTES_MAX => {
            Ok([&[4], text.as_bytes()].concat())
        }
        serde_json::Value::String(_) => Err("is a text of more than 1024 bytes"),
        _ => Err("is an array or an object, which is no key"),
    }
}
