//! JSON values as the machine handles them: cheap to clone, order-preserving, exact integers.
//!
//! [`Data`] wraps the expression engine's value type so that evaluating never converts. Every value that enters
//! through [`Data::parse`] has passed the limits of [`Limits`]; every value that leaves is plain JSON.

pub(crate) mod number;

use jaq_json::Num;
pub use jaq_json::Val;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::{cell::Cell, fmt};

/// One JSON value.
#[derive(Clone, Default)]
pub struct Data(pub Val);

/// What a payload may be.
pub const DEPTH_MAX: usize = 64;

/// The most bytes one value may take as JSON.
pub const BYTES_MAX: usize = 4 * 1024 * 1024;

/// Why bytes are not acceptable JSON.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DataError {
    #[error("not valid JSON: {0}")]
    Syntax(String),
    #[error("nested deeper than {DEPTH_MAX} levels")]
    Depth,
    /// Which number, and why.
    #[error("number {0}")]
    Number(String),
    #[error("text holds a NUL character")]
    Nul,
    #[error("duplicate key {0:?}")]
    DuplicateKey(String),
}

impl Data {
    pub const NULL: Data = Data(Val::Null);

    pub fn object() -> Data {
        Data(Val::obj(Default::default()))
    }

    pub fn text(text: impl Into<String>) -> Data {
        Data(Val::utf8_str(text.into().into_bytes()))
    }

    pub fn int(n: i64) -> Data {
        Data(Val::Num(Num::from_integral(n)))
    }

    pub fn bool(b: bool) -> Data {
        Data(Val::Bool(b))
    }

    pub fn array(items: impl IntoIterator<Item = Data>) -> Data {
        Data(items.into_iter().map(|item| item.0).collect())
    }

    pub fn map(entries: impl IntoIterator<Item = (String, Data)>) -> Data {
        Data(Val::obj(entries.into_iter().map(|(k, v)| (Data::text(k).0, v.0)).collect()))
    }

    /// Reads JSON from outside: UTF-8, within the depth limit, no duplicate keys, no NUL, no number that 64 bits
    /// cannot hold.
    pub fn parse(bytes: &[u8]) -> Result<Data, DataError> {
        let mut reader = serde_json::Deserializer::from_slice(bytes);
        let doubtful = Cell::new(false);
        let seed = Strict { depth: 0, doubtful: &doubtful };
        let value = serde::de::DeserializeSeed::deserialize(seed, &mut reader)
            .map_err(|error| strict_error(&error.to_string()))?;
        reader.end().map_err(|error| strict_error(&error.to_string()))?;
        if doubtful.get() {
            number::check(bytes)?;
        }
        Ok(Data(value))
    }

    pub fn from_json(json: serde_json::Value) -> Data {
        serde_json::from_value(json).unwrap_or_default()
    }

    pub fn to_json(&self) -> serde_json::Value {
        serde_json::to_value(self).unwrap_or(serde_json::Value::Null)
    }

    /// Compact JSON text.
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_else(|_| b"null".to_vec())
    }

    pub fn is_null(&self) -> bool {
        matches!(self.0, Val::Null)
    }

    /// jq truth: everything but `false` and `null`.
    pub fn is_true(&self) -> bool {
        !matches!(self.0, Val::Null | Val::Bool(false))
    }

    pub fn as_str(&self) -> Option<&str> {
        match &self.0 {
            Val::TStr(bytes) => std::str::from_utf8(bytes).ok(),
            _ => None,
        }
    }

    /// The value as it stands in a text: texts as they are, everything else as JSON.
    pub fn to_text(&self) -> String {
        match self.as_str() {
            Some(text) => text.to_owned(),
            None => String::from_utf8_lossy(&self.to_bytes()).into_owned(),
        }
    }

    pub fn as_i64(&self) -> Option<i64> {
        match &self.0 {
            Val::Num(Num::Float(f)) if f.fract() == 0.0 && f.abs() < 9.0e15 => Some(*f as i64),
            Val::Num(n) => n.as_isize().map(|n| n as i64),
            _ => None,
        }
    }

    /// The value under `key` if this is an object that has it.
    pub fn get(&self, key: &str) -> Option<Data> {
        match &self.0 {
            Val::Obj(map) => map.get(&Data::text(key).0).cloned().map(Data),
            _ => None,
        }
    }

    /// The value at a JSON pointer.
    pub fn pointer(&self, pointer: &str) -> Option<Data> {
        let mut at = self.clone();
        for segment in pointer.split('/').skip(1) {
            at = match &at.0 {
                Val::Arr(items) => Data(items.get(segment.parse::<usize>().ok()?)?.clone()),
                _ => at.get(&segment.replace("~1", "/").replace("~0", "~"))?,
            };
        }
        Some(at)
    }

    /// The elements if this is an array.
    pub fn items(&self) -> Option<impl Iterator<Item = Data> + '_> {
        match &self.0 {
            Val::Arr(items) => Some(items.iter().cloned().map(Data)),
            _ => None,
        }
    }

    pub fn len(&self) -> usize {
        match &self.0 {
            Val::Arr(items) => items.len(),
            Val::Obj(map) => map.len(),
            _ => 0,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The entries if this is an object; keys as text.
    pub fn entries(&self) -> Option<Vec<(String, Data)>> {
        match &self.0 {
            Val::Obj(map) => Some(map.iter().map(|(k, v)| (key_text(k), Data(v.clone()))).collect()),
            _ => None,
        }
    }

    /// Why the value is too much to keep, if it is: nested deeper than [`DEPTH_MAX`] or larger than [`BYTES_MAX`] as
    /// JSON. Shared parts count each time they occur, and counting stops at the limit.
    pub fn too_much(&self) -> Option<&'static str> {
        fn weigh(val: &Val, depth: usize, left: &mut usize) -> Result<(), &'static str> {
            if depth > DEPTH_MAX {
                return Err("nested deeper than 64 levels");
            }
            let own = match val {
                Val::TStr(bytes) | Val::BStr(bytes) => bytes.len() + 2,
                _ => 4,
            };
            *left = left.checked_sub(own).ok_or("larger than 4 MiB")?;
            match val {
                Val::Arr(items) => items.iter().try_for_each(|item| weigh(item, depth + 1, left)),
                Val::Obj(map) => map.iter().try_for_each(|(key, value)| {
                    weigh(key, depth + 1, left)?;
                    weigh(value, depth + 1, left)
                }),
                _ => Ok(()),
            }
        }
        weigh(&self.0, 0, &mut BYTES_MAX.clone()).err()
    }

    /// True if a NaN, an infinity or a byte string hides inside: such a value has no JSON form.
    pub fn has_no_json_form(&self) -> bool {
        fn bad(val: &Val) -> bool {
            match val {
                Val::Num(Num::Float(f)) => !f.is_finite(),
                Val::BStr(_) => true,
                Val::Arr(items) => items.iter().any(bad),
                Val::Obj(map) => map.iter().any(|(k, v)| !matches!(k, Val::TStr(_)) || bad(v)),
                _ => false,
            }
        }
        bad(&self.0)
    }

    /// True if a text or a key inside holds a NUL, which databases do not keep.
    pub fn holds_nul(&self) -> bool {
        fn holds(val: &Val) -> bool {
            match val {
                Val::TStr(bytes) => bytes.contains(&0),
                Val::Arr(items) => items.iter().any(holds),
                Val::Obj(map) => map.iter().any(|(key, value)| holds(key) || holds(value)),
                _ => false,
            }
        }
        holds(&self.0)
    }
}

/// True for characters that show nothing of themselves but change how a terminal or a page shows the rest: control
/// characters, and those that turn the direction of writing.
pub fn is_steering(c: char) -> bool {
    c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn key_text(key: &Val) -> String {
    match key {
        Val::TStr(bytes) | Val::BStr(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        other => other.to_string(),
    }
}

impl PartialEq for Data {
    fn eq(&self, other: &Data) -> bool {
        self.0 == other.0
    }
}

impl fmt::Debug for Data {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.to_bytes()))
    }
}

impl Serialize for Data {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        write_val(&self.0, serializer)
    }
}

fn write_val<S: Serializer>(val: &Val, serializer: S) -> Result<S::Ok, S::Error> {
    match val {
        Val::Null => serializer.serialize_unit(),
        Val::Bool(b) => serializer.serialize_bool(*b),
        Val::Num(Num::Int(n)) => serializer.serialize_i64(*n as i64),
        Val::Num(Num::Float(f)) => write_float(*f, serializer),
        Val::Num(number) => {
            let text = number.to_string();
            match (text.parse::<i128>(), text.parse::<f64>()) {
                (Ok(n), _) if i64::try_from(n).is_ok() => serializer.serialize_i64(n as i64),
                (Ok(n), _) if u64::try_from(n).is_ok() => serializer.serialize_u64(n as u64),
                (_, Ok(f)) => write_float(f, serializer),
                _ => serializer.serialize_unit(),
            }
        }
        Val::TStr(bytes) | Val::BStr(bytes) => serializer.serialize_str(&String::from_utf8_lossy(bytes)),
        Val::Arr(items) => serializer.collect_seq(items.iter().map(Borrowed)),
        Val::Obj(map) => {
            serializer.collect_map(map.iter().map(|(key, value)| (key_text(key), Borrowed(value))))
        }
    }
}

/// Integral floats print as integers, as jq does: `10/5` is `2`.
fn write_float<S: Serializer>(f: f64, serializer: S) -> Result<S::Ok, S::Error> {
    if f.fract() == 0.0 && f.abs() < 9_007_199_254_740_992.0 {
        serializer.serialize_i64(f as i64)
    } else if f.is_finite() {
        serializer.serialize_f64(f)
    } else {
        serializer.serialize_unit()
    }
}

struct Borrowed<'a>(&'a Val);

impl Serialize for Borrowed<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        write_val(self.0, serializer)
    }
}

impl<'de> Deserialize<'de> for Data {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Data, D::Error> {
        Val::deserialize(deserializer).map(Data)
    }
}

/// A value that JSON cannot say, for testing that nothing lets it through.
pub fn not_a_number() -> Val {
    Val::Num(Num::Float(f64::NAN))
}

/// Reads an optional value that is there: `null` is a value like any other, only a missing key is `None`.
pub(crate) fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Data>, D::Error> {
    Data::deserialize(deserializer).map(Some)
}

/// Reads a value while enforcing what outside data must obey.
#[derive(Clone, Copy)]
struct Strict<'a> {
    depth: usize,
    /// Set if a number may be another one than was written.
    doubtful: &'a Cell<bool>,
}

const DEPTH_MARK: &str = "!depth";
const NUL_MARK: &str = "!nul";
const KEY_MARK: &str = "!key ";

fn strict_error(message: &str) -> DataError {
    let bare = message.split(" at line ").next().unwrap_or(message);
    match bare {
        DEPTH_MARK => DataError::Depth,
        NUL_MARK => DataError::Nul,
        _ if bare.starts_with(KEY_MARK) => DataError::DuplicateKey(bare[KEY_MARK.len()..].to_owned()),
        _ if bare == "recursion limit exceeded" => DataError::Depth,
        _ if bare == "number out of range" => {
            let place = message.rsplit("out of range").next().unwrap_or("").trim();
            DataError::Number(format!("{place} is outside the range of a 64-bit float"))
        }
        _ => DataError::Syntax(message.to_owned()),
    }
}

impl<'de> serde::de::DeserializeSeed<'de> for Strict<'_> {
    type Value = Val;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Val, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> serde::de::Visitor<'de> for Strict<'_> {
    type Value = Val;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }
    fn visit_bool<E>(self, value: bool) -> Result<Val, E> {
        Ok(Val::Bool(value))
    }
    fn visit_i64<E>(self, value: i64) -> Result<Val, E> {
        Ok(Val::Num(Num::from_integral(value)))
    }
    fn visit_u64<E>(self, value: u64) -> Result<Val, E> {
        Ok(Val::Num(Num::from_integral(value)))
    }
    fn visit_f64<E>(self, value: f64) -> Result<Val, E> {
        if number::is_doubtful(value) {
            self.doubtful.set(true);
        }
        Ok(Val::Num(Num::Float(value)))
    }
    fn visit_unit<E>(self) -> Result<Val, E> {
        Ok(Val::Null)
    }
    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<Val, E> {
        match value.contains('\0') {
            true => Err(E::custom(NUL_MARK)),
            false => Ok(Data::text(value).0),
        }
    }
    fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut seq: A) -> Result<Val, A::Error> {
        let inner = self.deeper()?;
        let mut items = Vec::new();
        while let Some(item) = seq.next_element_seed(inner)? {
            items.push(item);
        }
        Ok(items.into_iter().collect())
    }
    fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Val, A::Error> {
        let inner = self.deeper()?;
        let mut object = jaq_json::Map::default();
        while let Some(key) = map.next_key::<String>()? {
            if key.contains('\0') {
                return Err(serde::de::Error::custom(NUL_MARK));
            }
            let value = map.next_value_seed(inner)?;
            if object.insert(Data::text(key.as_str()).0, value).is_some() {
                return Err(serde::de::Error::custom(format!("{KEY_MARK}{key}")));
            }
        }
        Ok(Val::obj(object))
    }
}

impl Strict<'_> {
    fn deeper<E: serde::de::Error>(self) -> Result<Self, E> {
        match self.depth >= DEPTH_MAX {
            true => Err(E::custom(DEPTH_MARK)),
            false => Ok(Strict { depth: self.depth + 1, ..self }),
        }
    }
}
