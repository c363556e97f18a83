//! What a plain scalar means: the YAML 1.2 core schema, with `true` and `false` as the only booleans.

use super::Value;
use crate::data::{Data, number};

/// A plain scalar as a value; `None` if it is text.
pub(super) fn resolve(plain: &str) -> Option<Result<Value, String>> {
    match plain {
        "" | "~" | "null" | "Null" | "NULL" => Some(Ok(Value::Null)),
        "true" => Some(Ok(Value::Bool(true))),
        "false" => Some(Ok(Value::Bool(false))),
        ".nan" | ".NaN" | ".NAN" => Some(Err("not-a-number has no JSON form".to_owned())),
        _ if is_infinity(plain) => Some(Err("infinity has no JSON form".to_owned())),
        _ => radix(plain).or_else(|| decimal(plain)).map(|number| number.map(Value::Number)),
    }
}

/// True for a number that other YAML readers may take for octal: `012`.
pub(super) fn has_leading_zero(plain: &str) -> bool {
    let digits = plain.trim_start_matches(['+', '-']);
    digits.len() > 1 && digits.starts_with('0') && digits.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_infinity(plain: &str) -> bool {
    matches!(plain.trim_start_matches(['+', '-']), ".inf" | ".Inf" | ".INF")
}

fn radix(plain: &str) -> Option<Result<Data, String>> {
    let (digits, base) = match plain.split_at_checked(2)? {
        ("0o", digits) => (digits, 8),
        ("0x", digits) => (digits, 16),
        _ => return None,
    };
    if digits.is_empty() || !digits.chars().all(|digit| digit.is_digit(base)) {
        return None;
    }
    let number = i64::from_str_radix(digits, base).map(Data::int);
    Some(number.map_err(|_| format!("number {plain} does not fit into 64 bits")))
}

fn decimal(plain: &str) -> Option<Result<Data, String>> {
    let unsigned = plain.strip_prefix(['+', '-']).unwrap_or(plain);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let exponent_ok = exponent.is_none_or(|exponent| {
        let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        !exponent.is_empty() && digits(exponent)
    });
    if (whole.is_empty() && fraction.is_empty()) || !digits(whole) || !digits(fraction) || !exponent_ok {
        return None;
    }
    Some(number(plain.strip_prefix('+').unwrap_or(plain)))
}

/// A decimal number: an integer of 64 bits, or the nearest float of one that is written as a fraction.
pub(super) fn number(text: &str) -> Result<Data, String> {
    if let Some(why) = number::refusal(text) {
        return Err(format!("number {}", number::complaint(text, why)));
    }
    if let Ok(number) = text.parse::<i64>() {
        return Ok(Data::int(number));
    }
    if let Ok(number) = text.parse::<u64>() {
        return Ok(Data::from_json(number.into()));
    }
    Ok(Data::from_json(text.parse::<f64>().unwrap_or_default().into()))
}
