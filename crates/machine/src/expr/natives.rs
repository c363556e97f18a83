//! Functions of the expression language that are written in Rust: what the engine's own versions would do
//! without a meter, with unbounded recursion or against JSON.

use super::{
    meter::{self, spend, text_price},
    order::{self, Keyed, compare, equal},
    regex,
    value::{DEPTH_IN, ValR, Value},
};
use crate::data::Data;
use jaq_core::{
    Bind, Ctx, Cv, Error, Exn, Native, ValXs,
    box_iter::box_once,
    data::JustLut,
    native::{Filter, bome, unary, v},
};
use jaq_json::Val;

/// How the interpreter is instantiated.
pub(super) type Engine = JustLut<Value>;
pub(super) type Fun = Filter<Native<Engine>>;
type Run = jaq_core::RunPtr<Engine>;

/// Name, number of arguments by value, and body of the functions without filter arguments.
const PLAIN: [(&str, usize, Run); 20] = [
    ("windlass_tick", 0, |_| match meter::enter_call() {
        true => box_once(Ok(Value::default())),
        // Halting cannot be caught by the expression.
        false => box_once(Err(Exn::halt(1))),
    }),
    ("windlass_spend", 1, |cv| {
        unary(cv, |input, units| spend(units.integer().unwrap_or(0).unsigned_abs()).map(|()| input))
    }),
    ("null", 0, |_| box_once(Ok(Value::default()))),
    ("true", 0, |_| box_once(Ok(Value::from(true)))),
    ("false", 0, |_| box_once(Ok(Value::from(false)))),
    ("not", 0, |cv| box_once(Ok(Value::from(!jaq_core::ValT::as_bool(&cv.1))))),
    ("type", 0, |cv| box_once(Ok(Value::text(type_name(&cv.1.val))))),
    ("windlass_text", 0, |cv| bome(cv.1.to_text(true))),
    ("tojson", 0, |cv| bome(cv.1.to_text(false))),
    ("fromjson", 0, |cv| bome(from_json(cv.1))),
    ("length", 0, |cv| bome(length(cv.1))),
    ("contains", 1, |cv| unary(cv, |a, b| Ok(Value::from(contains(&a.val, &b.val))))),
    ("has", 1, |cv| unary(cv, has)),
    ("indices", 1, |cv| unary(cv, indices)),
    ("bsearch", 1, |cv| unary(cv, binary_search)),
    ("join", 1, |cv| unary(cv, join)),
    ("sort", 0, |cv| bome(sort(cv.1))),
    ("matches", 2, |cv| bome(regex::parts(cv, regex::Wanted::Matches))),
    ("split_", 2, |cv| bome(regex::parts(cv, regex::Wanted::Between))),
    ("split_matches", 2, |cv| bome(regex::parts(cv, regex::Wanted::Both))),
];

/// The functions of this file.
pub(super) fn funs() -> impl Iterator<Item = Fun> {
    let plain =
        PLAIN.into_iter().map(|(name, arguments, run)| (name, v(arguments), Native::<Engine>::new(run)));
    let filters: [(&str, Run); 2] = [
        ("sort_by", |cv| {
            with_filter(cv, |input, by| Ok(by(input)?.into_iter().map(|(_, item)| item).collect()))
        }),
        ("group_by", |cv| with_filter(cv, |input, by| Ok(group(by(input)?)))),
    ];
    let filters = filters.into_iter().map(|(name, run)| {
        let arguments: Box<[Bind]> = Box::new([Bind::Fun(())]);
        (name, arguments, Native::<Engine>::new(run))
    });
    plain.chain(filters)
}

type Sorted<'a> = Result<Vec<Keyed<Value>>, Exn<'a, Value>>;

/// Hands `finish` a function that sorts an array by the outputs of the native's filter argument.
fn with_filter<'a>(
    mut cv: Cv<'a, Engine>,
    finish: impl Fn(Value, &dyn Fn(Value) -> Sorted<'a>) -> Result<Value, Exn<'a, Value>>,
) -> ValXs<'a, Value> {
    let (filter, context): (_, Ctx<'a, Engine>) = cv.0.pop_fun();
    let by = move |input: Value| -> Sorted<'a> {
        let keyed = elements(input)?.into_iter().map(|item| {
            let keys: Result<Vec<Value>, _> = filter.run((context.clone(), item.clone())).collect();
            keys.map(|keys| (keys, item))
        });
        Ok(order::sort(keyed.collect::<Result<Vec<_>, _>>()?))
    };
    box_once(finish(cv.1, &by))
}

fn elements(input: Value) -> ValR<Vec<Value>> {
    jaq_std::ValT::into_seq::<Vec<Value>>(input).or_else(|input| input.type_error("array"))
}

fn sort(input: Value) -> ValR {
    let keyed = elements(input)?.into_iter().map(|item| (vec![item], ())).collect();
    let sorted = order::sort(keyed);
    spend(0)?;
    Ok(sorted.into_iter().flat_map(|(keys, ())| keys).collect())
}

fn group(sorted: Vec<Keyed<Value>>) -> Value {
    let mut groups: Vec<(Vec<Value>, Vec<Value>)> = Vec::new();
    for (keys, item) in sorted {
        match groups.last_mut() {
            Some((last, items)) if *last == keys => items.push(item),
            _ => groups.push((keys, vec![item])),
        }
    }
    groups.into_iter().map(|(_, items)| items.into_iter().collect::<Value>()).collect()
}

fn type_name(value: &Val) -> &'static str {
    match value {
        Val::Null => "null",
        Val::Bool(_) => "boolean",
        Val::Num(_) => "number",
        Val::TStr(_) | Val::BStr(_) => "string",
        Val::Arr(_) => "array",
        Val::Obj(_) => "object",
    }
}

/// Reads one JSON text; the reader limits the nesting itself.
fn from_json(input: Value) -> ValR {
    let Val::TStr(text) = &input.val else { return input.type_error("string") };
    spend(2 * text_price(text.len()))?;
    match serde_json::from_slice::<Data>(text) {
        Ok(data) => Ok(Value::new(data.0, DEPTH_IN)),
        Err(error) => Err(Error::str(format_args!("cannot parse {input} as JSON: {error}"))),
    }
}

fn length(input: Value) -> ValR {
    Ok(match &input.val {
        Val::Null => Value::from(0usize),
        Val::Num(_) if input < Value::from(0usize) => return -input,
        Val::Num(_) => input,
        Val::TStr(text) => {
            spend(text_price(text.len()))?;
            Value::from(text.iter().filter(|byte| !(0x80..0xC0).contains(*byte)).count())
        }
        Val::Arr(items) => Value::from(items.len()),
        Val::Obj(map) => Value::from(map.len()),
        _ => return Err(Error::str(format_args!("{input} has no length"))),
    })
}

/// True if `part` is a part of `whole`: text within text, elements and fields recursively.
fn contains(whole: &Val, part: &Val) -> bool {
    meter::charge(1);
    if meter::is_stopped() {
        return false;
    }
    match (whole, part) {
        (Val::TStr(whole), Val::TStr(part)) => {
            meter::charge(text_price(whole.len()));
            String::from_utf8_lossy(whole).contains(&*String::from_utf8_lossy(part))
        }
        (Val::Arr(whole), Val::Arr(part)) => part.iter().all(|p| whole.iter().any(|w| contains(w, p))),
        (Val::Obj(whole), Val::Obj(part)) => {
            part.iter().all(|(key, p)| whole.get(key).is_some_and(|w| contains(w, p)))
        }
        _ => equal(whole, part),
    }
}

fn has(input: Value, key: Value) -> ValR {
    match (&input.val, &key.val) {
        (Val::Obj(map), Val::TStr(_)) => Ok(Value::from(map.contains_key(&key.val))),
        (Val::Arr(items), Val::Num(_)) => {
            Ok(Value::from(key.integer().is_some_and(|i| i >= 0 && (i as usize) < items.len())))
        }
        _ => Err(Error::str(format_args!("cannot check whether {input} has the key {key}"))),
    }
}

/// The elements as one text; null joins as nothing, as in jq.
fn join(input: Value, separator: Value) -> ValR {
    let mut joined = Vec::new();
    for (i, item) in elements(input)?.into_iter().enumerate() {
        let (separator, item) = match (&separator.val, item.val) {
            (Val::TStr(separator), Val::Null) => (separator, Value::text("")),
            (Val::TStr(separator), val) => (separator, Value { val, ..item }.to_text(true)?),
            _ => return separator.type_error("string"),
        };
        let Val::TStr(item) = &item.val else { return item.type_error("string") };
        spend(text_price(separator.len() + item.len()))?;
        if i > 0 {
            joined.extend_from_slice(separator);
        }
        joined.extend_from_slice(item);
    }
    Ok(Value { val: Val::utf8_str(joined), depth: 0 })
}

/// Where `wanted` occurs: characters in text, positions in arrays.
fn indices(input: Value, wanted: Value) -> ValR {
    let places = match (&input.val, &wanted.val) {
        (Val::Null, _) => return Ok(Value::default()),
        (Val::TStr(text), Val::TStr(wanted)) if wanted.is_empty() || text.is_empty() => Vec::new(),
        (Val::TStr(text), Val::TStr(wanted)) => {
            spend(text.len().saturating_mul(1 + wanted.len() / 64))?;
            let starts = (0..text.len()).filter(|i| !(0x80..0xC0).contains(&text[*i]));
            let found = starts.enumerate().filter(|(_, start)| text[*start..].starts_with(wanted));
            found.map(|(i, _)| i).collect()
        }
        (Val::Arr(items), Val::Arr(wanted)) => windows(items, wanted)?,
        (Val::Arr(items), wanted) => {
            items.iter().enumerate().filter(|(_, item)| equal(item, wanted)).map(|(i, _)| i).collect()
        }
        _ => return Err(Error::index(input, wanted)),
    };
    Ok(places.into_iter().map(Value::from).collect())
}

/// Where the array `wanted` occurs within `items`.
pub(super) fn windows(items: &[Val], wanted: &[Val]) -> ValR<Vec<usize>> {
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let same = |window: &[Val]| window.iter().zip(wanted).all(|(l, r)| equal(l, r));
    let found = items.windows(wanted.len()).enumerate().filter(|(_, window)| same(window));
    let places = found.map(|(i, _)| i).collect();
    spend(0)?;
    Ok(places)
}

/// The position of `wanted` in a sorted array, or `-1 - place` where it would be.
fn binary_search(input: Value, wanted: Value) -> ValR {
    let Val::Arr(items) = &input.val else { return input.type_error("array") };
    Ok(match items.binary_search_by(|item| compare(item, &wanted.val)) {
        Ok(i) => Value::from(i),
        Err(i) => Value::from(-1 - i as isize),
    })
}
