//! Access and update of values: the interface through which the interpreter sees [`Value`].
//!
//! Differences from the engine's own value type, all towards jq: floats without a fraction serve as indices,
//! object keys must be text, and iterating does not copy the container.

use super::{
    meter::{spend, text_price},
    value::{ValR, Value},
};
use jaq_core::{Error, Exn, box_iter::BoxIter, path::Opt, val};
use jaq_json::{Map, Num, Val};
use std::sync::Arc;

type ValX<'a> = jaq_core::ValX<'a, Value>;

/// Longer number literals are refused.
const LITERAL_BYTES_MAX: usize = 400;

impl jaq_core::ValT for Value {
    fn from_num(literal: &str) -> ValR {
        if literal.len() > LITERAL_BYTES_MAX {
            return Err(Error::str("a number has too many digits"));
        }
        spend(1)?;
        let val = match Val::from_num(literal) {
            Ok(Val::Num(Num::Dec(text))) => Val::Num(Num::from_dec_str(&text)),
            Ok(val) => val,
            Err(_) => return Err(Error::str("not a number")),
        };
        Ok(Value { val, depth: 0 })
    }

    fn from_map<I: IntoIterator<Item = (Value, Value)>>(entries: I) -> ValR {
        let mut map = Map::default();
        let mut depth = 0;
        for (key, value) in entries {
            spend(4)?;
            let Val::TStr(_) = key.val else {
                return Err(Error::str(format_args!("object keys must be text, not {key}")));
            };
            depth = depth.max(value.depth);
            map.insert(key.val, value.val);
        }
        Ok(Value::built(Val::obj(map), depth))
    }

    fn key_values(self) -> BoxIter<'static, ValR<(Value, Value)>> {
        let entry = |value: &Value, i: usize| match &value.val {
            Val::Arr(items) => items.get(i).map(|item| (Value::from(i), value.child(item.clone()))),
            Val::Obj(map) => map.get_index(i).map(|(k, v)| (value.child(k.clone()), value.child(v.clone()))),
            _ => None,
        };
        iterate(self, entry)
    }

    fn values(self) -> Box<dyn Iterator<Item = ValR>> {
        let entry = |value: &Value, i: usize| match &value.val {
            Val::Arr(items) => items.get(i).map(|item| value.child(item.clone())),
            Val::Obj(map) => map.get_index(i).map(|(_, v)| value.child(v.clone())),
            _ => None,
        };
        iterate(self, entry)
    }

    fn index(self, index: &Value) -> ValR {
        spend(1)?;
        match (&self.val, &index.val) {
            (Val::Null, _) => Ok(Value::default()),
            (Val::Obj(map), Val::TStr(_)) => {
                Ok(map.get(&index.val).map(|v| self.child(v.clone())).unwrap_or_default())
            }
            (Val::Arr(items), Val::Num(_)) => {
                let item = position(index, items.len()).and_then(|i| items.get(i));
                Ok(item.map(|item| self.child(item.clone())).unwrap_or_default())
            }
            (Val::Arr(items), Val::Arr(wanted)) => {
                let places = super::natives::windows(items, wanted)?;
                Ok(places.into_iter().map(Value::from).collect())
            }
            (Val::Arr(_) | Val::TStr(_), Val::Obj(bounds)) => {
                let bound = |name: &str| bounds.get(&Value::text(name).val).cloned().map(|v| index.child(v));
                let (start, end) = (bound("start"), bound("end"));
                self.range(start.as_ref()..end.as_ref())
            }
            _ => Err(Error::index(self, index.clone())),
        }
    }

    fn range(self, range: val::Range<&Value>) -> ValR {
        let (start, end) = bounds(&range)?;
        match &self.val {
            Val::Null => Ok(self),
            Val::Arr(items) => {
                let (from, to) = clip(start, end, items.len());
                spend(1 + to - from)?;
                Ok(Value::new(items[from..to].iter().cloned().collect(), self.depth))
            }
            Val::TStr(text) => {
                let (from, to) = clip_text(start, end, text)?;
                Ok(Value { val: Val::utf8_str(text.slice(from..to)), depth: 0 })
            }
            _ => self.type_error("rangeable (array or string)"),
        }
    }

    fn map_values<'a, I: Iterator<Item = ValX<'a>>>(self, opt: Opt, f: impl Fn(Value) -> I) -> ValX<'a> {
        match &self.val {
            Val::Arr(_) => self.values().flat_map(|item| Each::new(item, &f)).collect(),
            Val::Obj(_) => {
                let (mut map, mut depth) = (Map::default(), 0);
                for entry in self.key_values() {
                    let (key, value) = entry?;
                    if let Some(new) = f(value).next().transpose()? {
                        depth = depth.max(new.depth);
                        map.insert(key.val, new.val);
                    }
                }
                Ok(Value::built(Val::obj(map), depth))
            }
            _ => opt.fail(self, |v| Exn::from(Error::typ(v, "iterable (array or object)"))),
        }
    }

    fn map_index<'a, I: Iterator<Item = ValX<'a>>>(
        self,
        index: &Value,
        opt: Opt,
        f: impl Fn(Value) -> I,
    ) -> ValX<'a> {
        match (&self.val, &index.val) {
            (Val::Arr(_) | Val::TStr(_), Val::Obj(bounds)) => {
                let bound = |name: &str| bounds.get(&Value::text(name).val).cloned().map(|v| index.child(v));
                let (start, end) = (bound("start"), bound("end"));
                self.map_range(start.as_ref()..end.as_ref(), opt, f)
            }
            (Val::Obj(_), Val::TStr(_)) => update_field(self, index, f),
            (Val::Null, Val::TStr(_)) => update_field(Value::built(Val::obj(Map::default()), 0), index, f),
            (Val::Null, Val::Num(_)) => Value::from_iter([]).map_index(index, opt, f),
            (Val::Arr(items), Val::Num(_)) => match position(index, items.len()) {
                Some(i) => update_item(self, i, f),
                None => {
                    opt.fail(self, |_| Exn::from(Error::str(format_args!("index {index} out of bounds"))))
                }
            },
            _ => opt.fail(self, |v| Exn::from(Error::index(v, index.clone()))),
        }
    }

    fn map_range<'a, I: Iterator<Item = ValX<'a>>>(
        self,
        range: val::Range<&Value>,
        opt: Opt,
        f: impl Fn(Value) -> I,
    ) -> ValX<'a> {
        let (start, end) = match bounds(&range) {
            Ok(bounds) => bounds,
            Err(error) => return opt.fail(self, |_| Exn::from(error)),
        };
        match &self.val {
            Val::Arr(items) => {
                let (from, to) = clip(start, end, items.len());
                spend(2 * items.len() + 1)?;
                let slice = Value::new(items[from..to].iter().cloned().collect(), self.depth);
                let new = f(slice).next().transpose()?.unwrap_or_else(|| Value::from_iter([]));
                let Val::Arr(middle) = &new.val else { return Ok(new.type_error("array")?) };
                spend(middle.len())?;
                let all = items[..from].iter().chain(middle.iter()).chain(&items[to..]).cloned();
                Ok(Value::new(all.collect(), self.depth.max(new.depth)))
            }
            Val::TStr(text) => {
                let (from, to) = clip_text(start, end, text)?;
                let slice = Value { val: Val::utf8_str(text.slice(from..to)), depth: 0 };
                let new = f(slice).next().transpose()?.unwrap_or_else(|| Value::text(""));
                let Val::TStr(middle) = &new.val else { return Ok(new.type_error("string")?) };
                spend(text_price(text.len() + middle.len()))?;
                Ok(Value { val: Val::utf8_str([&text[..from], middle, &text[to..]].concat()), depth: 0 })
            }
            _ => opt.fail(self, |v| Exn::from(Error::typ(v, "rangeable (array or string)"))),
        }
    }

    fn as_bool(&self) -> bool {
        !matches!(self.val, Val::Null | Val::Bool(false))
    }

    fn into_string(self) -> Value {
        self.to_text(true).unwrap_or_default()
    }
}

impl jaq_std::ValT for Value {
    fn into_seq<S: FromIterator<Value>>(self) -> Result<S, Value> {
        match &self.val {
            Val::Arr(items) => {
                super::meter::charge(items.len());
                Ok(items.iter().map(|item| self.child(item.clone())).collect())
            }
            _ => Err(self),
        }
    }

    fn is_int(&self) -> bool {
        self.integer().is_some() || matches!(self.val, Val::Num(Num::BigInt(_)))
    }

    fn as_isize(&self) -> Option<isize> {
        self.integer()
    }

    fn as_f64(&self) -> Option<f64> {
        jaq_std::ValT::as_f64(&self.val)
    }

    fn is_utf8_str(&self) -> bool {
        matches!(self.val, Val::TStr(_))
    }

    fn as_bytes(&self) -> Option<&[u8]> {
        match &self.val {
            Val::TStr(text) => {
                super::meter::charge(text_price(text.len()));
                Some(text)
            }
            _ => None,
        }
    }

    fn as_sub_str(&self, part: &[u8]) -> Value {
        match &self.val {
            Val::TStr(text) => Value { val: Val::utf8_str(text.slice_ref(part)), depth: 0 },
            _ => Value::default(),
        }
    }

    fn from_utf8_bytes(bytes: impl AsRef<[u8]> + Send + 'static) -> Value {
        super::meter::charge(text_price(bytes.as_ref().len()));
        Value { val: <Val as jaq_std::ValT>::from_utf8_bytes(bytes), depth: 0 }
    }
}

/// Yields the entries of a container by position; ends with an error when the meter stops.
fn iterate<T: 'static>(value: Value, entry: fn(&Value, usize) -> Option<T>) -> BoxIter<'static, ValR<T>> {
    if !matches!(value.val, Val::Arr(_) | Val::Obj(_)) {
        return Box::new(std::iter::once(value.type_error("iterable (array or object)")));
    }
    let mut at = 0;
    let mut done = false;
    Box::new(std::iter::from_fn(move || {
        if done {
            return None;
        }
        let item = entry(&value, at)?;
        at += 1;
        let paid = spend(1);
        done = paid.is_err();
        Some(paid.map(|()| item))
    }))
}

/// The outputs of an update function, or the error that prevented it.
enum Each<'a, I> {
    Outputs(I),
    Failed(Option<Exn<'a, Value>>),
}

impl<I> Each<'_, I> {
    fn new(item: ValR, f: impl Fn(Value) -> I) -> Self {
        match item {
            Ok(item) => Each::Outputs(f(item)),
            Err(error) => Each::Failed(Some(Exn::from(error))),
        }
    }
}

impl<'a, I: Iterator<Item = ValX<'a>>> Iterator for Each<'a, I> {
    type Item = ValX<'a>;
    fn next(&mut self) -> Option<ValX<'a>> {
        match self {
            Each::Outputs(outputs) => outputs.next(),
            Each::Failed(error) => error.take().map(Err),
        }
    }
}

fn update_field<'a, I: Iterator<Item = ValX<'a>>>(
    value: Value,
    key: &Value,
    f: impl Fn(Value) -> I,
) -> ValX<'a> {
    let depth = value.depth;
    let Val::Obj(mut map) = value.val else { return Ok(value.type_error("object")?) };
    spend(2 + if Arc::strong_count(&map) > 1 { 4 * map.len() } else { 0 })?;
    let fields = Arc::make_mut(&mut map);
    let old = fields.get_mut(&key.val).map(std::mem::take).unwrap_or_default();
    let inner = match f(Value::new(old, depth.saturating_sub(1))).next().transpose()? {
        Some(new) => {
            fields.insert(key.val.clone(), new.val);
            new.depth
        }
        None => {
            spend(fields.len() / 4)?;
            fields.shift_remove(&key.val);
            0
        }
    };
    Ok(Value::built(Val::Obj(map), inner.max(depth.saturating_sub(1))))
}

/// Updates one element; a position behind the end is filled up with nulls.
fn update_item<'a, I: Iterator<Item = ValX<'a>>>(
    value: Value,
    position: usize,
    f: impl Fn(Value) -> I,
) -> ValX<'a> {
    let depth = value.depth;
    let Val::Arr(mut items) = value.val else { return Ok(value.type_error("array")?) };
    spend(2 + if Arc::strong_count(&items) > 1 { items.len() } else { 0 })?;
    let slots = Arc::make_mut(&mut items);
    let old = slots.get_mut(position).map(std::mem::take).unwrap_or_default();
    let inner = match f(Value::new(old, depth.saturating_sub(1))).next().transpose()? {
        Some(new) => {
            if position >= slots.len() {
                spend(position - slots.len())?;
                slots.resize(position + 1, Val::Null);
            }
            slots[position] = new.val;
            new.depth
        }
        None if position < slots.len() => {
            spend(slots.len() / 16)?;
            slots.remove(position);
            0
        }
        None => 0,
    };
    Ok(Value::built(Val::Arr(items), inner.max(depth.saturating_sub(1))))
}

/// The position an index means; negative ones count from the end. It may lie behind the end.
fn position(index: &Value, len: usize) -> Option<usize> {
    let i = match index.integer() {
        Some(i) => i,
        None => jaq_std::ValT::as_f64(index).filter(|f| f.is_finite())?.floor() as isize,
    };
    if i < 0 { len.checked_sub(i.unsigned_abs()) } else { Some(i as usize) }
}

type Bound = Option<isize>;

fn bounds(range: &val::Range<&Value>) -> ValR<(Bound, Bound)> {
    let bound = |value: Option<&Value>| match value {
        None | Some(Value { val: Val::Null, .. }) => Ok(None),
        Some(value) => match value.integer() {
            Some(i) => Ok(Some(i)),
            None => value.clone().type_error("integer"),
        },
    };
    Ok((bound(range.start)?, bound(range.end)?))
}

/// Absolute bounds within `len`; never reversed.
fn clip(start: Bound, end: Bound, len: usize) -> (usize, usize) {
    let place = |bound: isize| match bound < 0 {
        true => len.saturating_sub(bound.unsigned_abs()),
        false => len.min(bound as usize),
    };
    let from = start.map_or(0, place);
    (from, end.map_or(len, place).max(from))
}

/// As [`clip`], counting characters and answering byte positions.
fn clip_text(start: Bound, end: Bound, text: &[u8]) -> ValR<(usize, usize)> {
    spend(text_price(text.len()))?;
    let starts = || (0..text.len()).filter(|i| !(0x80..0xC0).contains(&text[*i]));
    let place = |bound: isize| match bound < 0 {
        true => starts().rev().nth(bound.unsigned_abs() - 1).unwrap_or(0),
        false => starts().nth(bound as usize).unwrap_or(text.len()),
    };
    let from = start.map_or(0, place);
    Ok((from, end.map_or(text.len(), place).max(from)))
}
