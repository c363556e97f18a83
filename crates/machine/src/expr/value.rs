//! The value type the interpreter computes with: [`jaq_json::Val`] whose every operation is metered.
//!
//! A [`Value`] also carries an upper bound of its nesting depth, so that no value can grow deeper than the
//! recursive code that drops, compares and prints it can bear. Object keys are always text, as in JSON.
//! The operators are here; access and update are in `access.rs`, order and equality in `order.rs`.

use super::{
    meter::{self, charge, spend, text_price},
    order,
};
use crate::data::Data;
use jaq_core::{Error, ops::Math};
use jaq_json::{Num, Val};
use std::fmt::{self, Write as _};
use std::ops::{Add, Div, Mul, Neg, Rem, Sub};
use std::sync::Arc;

/// How deep a value may be nested during an evaluation; results are held to [`crate::data::DEPTH_MAX`].
const DEPTH_MAX: u32 = 512;
/// Assumed of data that comes in; [`Data::parse`] and results stay below.
pub(super) const DEPTH_IN: u32 = 128;
/// Larger integers become floats.
const INTEGER_BITS_MAX: u64 = 1024;
/// How much of a value an error message shows.
const SHOWN_BYTES_MAX: usize = 120;

pub(super) type ValR<T = Value> = Result<T, Error<Value>>;

/// One value of an evaluation.
#[derive(Debug, Default)]
pub(super) struct Value {
    pub(super) val: Val,
    /// At least the nesting depth: 0 for scalars, 1 for flat containers.
    pub(super) depth: u32,
}

impl Value {
    /// A value of which only the greatest possible depth is known.
    pub(super) fn new(val: Val, depth_max: u32) -> Value {
        match val {
            Val::Arr(_) | Val::Obj(_) => Value { val, depth: depth_max },
            _ => Value { val, depth: 0 },
        }
    }

    /// A container just built around values of at most `inner` levels.
    pub(super) fn built(val: Val, inner: u32) -> Value {
        if inner >= DEPTH_MAX {
            meter::stop(meter::Stop::Depth);
        }
        Value { val, depth: inner + 1 }
    }

    /// A value found inside this one.
    pub(super) fn child(&self, val: Val) -> Value {
        Value::new(val, self.depth.saturating_sub(1))
    }

    pub(super) fn text(text: impl Into<String>) -> Value {
        Value::from(text.into())
    }

    pub(super) fn type_error<T>(self, wanted: &'static str) -> ValR<T> {
        Err(Error::typ(self, wanted))
    }

    /// The integer this number is: also floats without a fraction count.
    pub(super) fn integer(&self) -> Option<isize> {
        match &self.val {
            Val::Num(Num::Float(f)) if f.fract() == 0.0 && f.abs() < 9.0e15 => Some(*f as isize),
            Val::Num(n) => n.as_isize(),
            _ => None,
        }
    }

    /// JSON text of the value; text itself when `plain`.
    pub(super) fn to_text(&self, plain: bool) -> ValR {
        if plain && let Val::TStr(_) = self.val {
            return Ok(self.clone());
        }
        let mut writer = MeteredWriter(Vec::new());
        match serde_json::to_writer(&mut writer, &Data(self.val.clone())) {
            Ok(()) => Ok(Value { val: Val::utf8_str(writer.0), depth: 0 }),
            Err(_) => Err(Error::str(meter::Stop::Work.message())),
        }
    }
}

struct MeteredWriter(Vec<u8>);

impl std::io::Write for MeteredWriter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        spend(text_price(bytes.len())).map_err(|_| std::io::ErrorKind::OutOfMemory)?;
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Clone for Value {
    fn clone(&self) -> Value {
        charge(1);
        Value { val: self.val.clone(), depth: self.depth }
    }
}

impl From<bool> for Value {
    fn from(b: bool) -> Value {
        charge(1);
        Value { val: Val::Bool(b), depth: 0 }
    }
}

impl From<isize> for Value {
    fn from(n: isize) -> Value {
        charge(1);
        Value { val: Val::Num(Num::Int(n)), depth: 0 }
    }
}

impl From<usize> for Value {
    fn from(n: usize) -> Value {
        charge(1);
        Value { val: Val::Num(Num::from_integral(n)), depth: 0 }
    }
}

impl From<f64> for Value {
    fn from(f: f64) -> Value {
        charge(1);
        Value { val: Val::Num(Num::Float(f)), depth: 0 }
    }
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        charge(text_price(text.len()));
        Value { val: Val::from(text), depth: 0 }
    }
}

impl From<jaq_core::val::Range<Value>> for Value {
    fn from(range: jaq_core::val::Range<Value>) -> Value {
        charge(4);
        Value { val: Val::from(range.start.map(|v| v.val)..range.end.map(|v| v.val)), depth: 1 }
    }
}

impl FromIterator<Value> for Value {
    /// Collecting ends early once the meter has stopped: the result is then never seen.
    fn from_iter<T: IntoIterator<Item = Value>>(items: T) -> Value {
        let mut depth = 0;
        let items = items.into_iter().take_while(|_| {
            charge(1);
            !meter::is_stopped()
        });
        let vec: Vec<Val> = items
            .map(|item| {
                depth = depth.max(item.depth);
                item.val
            })
            .collect();
        Value::built(Val::Arr(Arc::new(vec)), depth)
    }
}

/// Copying a shared container costs its length; an unshared one is changed in place.
fn copy_price<T>(shared: &Arc<T>, len: usize) -> usize {
    if Arc::strong_count(shared) > 1 { len } else { 0 }
}

impl Add for Value {
    type Output = ValR;
    fn add(self, other: Value) -> ValR {
        let depth = self.depth.max(other.depth);
        let price = match (&self.val, &other.val) {
            (Val::Null, _) | (_, Val::Null) | (Val::Num(_), Val::Num(_)) => 1,
            (Val::TStr(l), Val::TStr(r)) => text_price(r.len() + if l.is_unique() { 0 } else { l.len() }),
            (Val::Arr(l), Val::Arr(r)) => 1 + r.len() + copy_price(l, l.len()),
            (Val::Obj(l), Val::Obj(r)) => 1 + 4 * (r.len() + copy_price(l, l.len())),
            _ => return Err(Error::math(self, Math::Add, other)),
        };
        spend(price)?;
        finish(self.val + other.val, depth)
    }
}

/// Takes the result of an operation that was checked to be defined.
fn finish(result: jaq_json::ValR, depth: u32) -> ValR {
    match result {
        Ok(val) => Ok(Value::new(limit_integer(val), depth)),
        Err(_) => Err(Error::str("cannot calculate with these values")),
    }
}

/// Integers too long to be worth their exactness become floats.
fn limit_integer(val: Val) -> Val {
    match &val {
        Val::Num(Num::BigInt(n)) if n.bits() > INTEGER_BITS_MAX => {
            Val::Num(Num::from_dec_str(&format!("{n}.0")))
        }
        _ => val,
    }
}

impl Sub for Value {
    type Output = ValR;
    fn sub(self, other: Value) -> ValR {
        match (&self.val, &other.val) {
            (Val::Num(_), Val::Num(_)) => {
                spend(1)?;
                finish(self.val - other.val, 0)
            }
            (Val::Arr(l), Val::Arr(r)) => {
                spend(1 + l.len() + r.len())?;
                let unwanted: std::collections::BTreeSet<order::Key<'_>> = r.iter().map(order::Key).collect();
                let rest = l.iter().filter(|item| !unwanted.contains(&order::Key(item))).cloned();
                Ok(Value::new(rest.collect(), self.depth))
            }
            _ => Err(Error::math(self, Math::Sub, other)),
        }
    }
}

impl Mul for Value {
    type Output = ValR;
    fn mul(self, other: Value) -> ValR {
        let depth = self.depth.max(other.depth);
        match (&self.val, &other.val) {
            (Val::Num(_), Val::Num(_)) => {
                spend(1)?;
                finish(self.val * other.val, 0)
            }
            (Val::TStr(text), Val::Num(_)) => match other.integer().map(usize::try_from) {
                Some(Ok(0)) | Some(Err(_)) => Ok(Value::default()),
                Some(Ok(count)) => {
                    spend(text_price(text.len().saturating_mul(count)))?;
                    Ok(Value { val: Val::utf8_str(text.repeat(count)), depth: 0 })
                }
                None => Err(Error::math(self, Math::Mul, other)),
            },
            (Val::Num(_), Val::TStr(_)) => other * self,
            (Val::Obj(_), Val::Obj(_)) => Ok(Value::new(merge(self.val, other.val)?, depth)),
            _ => Err(Error::math(self, Math::Mul, other)),
        }
    }
}

/// Recursive merge of two objects; anything else is replaced by the right one.
fn merge(left: Val, right: Val) -> ValR<Val> {
    let (Val::Obj(mut l), Val::Obj(r)) = (left, right.clone()) else { return Ok(right) };
    spend(1 + 4 * (r.len() + copy_price(&l, l.len())))?;
    let map = Arc::make_mut(&mut l);
    for (key, value) in r.iter() {
        match map.get_mut(key) {
            Some(slot) => *slot = merge(std::mem::take(slot), value.clone())?,
            None => _ = map.insert(key.clone(), value.clone()),
        }
    }
    Ok(Val::Obj(l))
}

impl Div for Value {
    type Output = ValR;
    fn div(self, other: Value) -> ValR {
        match (&self.val, &other.val) {
            (Val::Num(Num::Int(l)), Val::Num(Num::Int(r))) if l.checked_rem(*r) == Some(0) => {
                spend(1)?;
                Ok(Value::from(l / r))
            }
            (Val::Num(_), Val::Num(_)) => {
                spend(1)?;
                finish(self.val / other.val, 0)
            }
            (Val::TStr(text), Val::TStr(separator)) => {
                let pieces_max = text.len() / separator.len().max(1);
                spend(text_price(text.len()) + pieces_max.min(text.len() / 4))?;
                let pieces = finish(self.val / other.val, 1)?;
                if let Val::Arr(pieces) = &pieces.val {
                    spend(2 * pieces.len())?;
                }
                Ok(pieces)
            }
            _ => Err(Error::math(self, Math::Div, other)),
        }
    }
}

impl Rem for Value {
    type Output = ValR;
    fn rem(self, other: Value) -> ValR {
        match (&self.val, &other.val) {
            (Val::Num(_), Val::Num(_)) if other.integer() != Some(0) => {
                spend(1)?;
                finish(self.val % other.val, 0)
            }
            _ => Err(Error::math(self, Math::Rem, other)),
        }
    }
}

impl Neg for Value {
    type Output = ValR;
    fn neg(self) -> ValR {
        match self.val {
            Val::Num(_) => finish(-self.val, 0),
            _ => self.type_error("number"),
        }
    }
}

/// Shows the beginning of the value, for messages.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = Shown(String::new());
        match write!(shown, "{}", self.val) {
            Ok(()) => f.write_str(&shown.0),
            Err(_) => write!(f, "{}...", shown.0),
        }
    }
}

struct Shown(String);

impl fmt::Write for Shown {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut end = text.len().min(SHOWN_BYTES_MAX - self.0.len());
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        self.0.push_str(&text[..end]);
        if end < text.len() { Err(fmt::Error) } else { Ok(()) }
    }
}
