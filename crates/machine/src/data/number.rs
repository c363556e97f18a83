//! Numbers as texts write them: what 64 bits cannot hold is refused, not changed.

use super::DataError;

/// How much of a number a message repeats.
const SHOWN_MAX: usize = 40;
/// So many characters without an exponent always fit.
const SURE_TO_FIT: usize = 18;

/// Why the number cannot be kept, if it cannot. A fraction may be rounded, as everywhere; an integer may not, and
/// what is more than zero must not become zero.
pub(crate) fn refusal(text: &str) -> Option<&'static str> {
    let unsigned = text.trim_start_matches(['-', '+']);
    if unsigned.bytes().all(|byte| byte.is_ascii_digit()) {
        let fits = text.parse::<i64>().is_ok() || text.parse::<u64>().is_ok();
        return (!fits).then_some("is an integer that does not fit into 64 bits");
    }
    let mantissa = unsigned.split(['e', 'E']).next().unwrap_or_default();
    let number = text.parse::<f64>().unwrap_or(f64::NAN);
    if !number.is_finite() {
        return Some("is outside the range of a 64-bit float");
    }
    let lost = number == 0.0 && mantissa.bytes().any(|byte| matches!(byte, b'1'..=b'9'));
    lost.then_some("is too small for a 64-bit float")
}

/// True if a parser that makes floats of what it cannot hold otherwise may have changed the number: an integer beyond
/// 64 bits, or a fraction that has become nothing. The text tells.
pub(super) fn is_doubtful(parsed: f64) -> bool {
    const INTEGERS_END: f64 = 9_223_372_036_854_775_808.0;
    parsed == 0.0 || parsed.abs() >= INTEGERS_END
}

/// The number and what is wrong with it, for a message.
pub(crate) fn complaint(text: &str, why: &str) -> String {
    let shown: String = text.chars().take(SHOWN_MAX).collect();
    let dots = if shown.len() < text.len() { "…" } else { "" };
    format!("{shown}{dots} {why}")
}

/// Looks for a number that cannot be kept in bytes that are known to be JSON.
pub(super) fn check(json: &[u8]) -> Result<(), DataError> {
    let is_part = |byte: &u8| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E');
    let mut at = 0;
    while let Some(byte) = json.get(at) {
        match byte {
            b'"' => at = string_end(json, at),
            b'-' | b'0'..=b'9' => {
                let end =
                    json[at..].iter().position(|byte| !is_part(byte)).map_or(json.len(), |end| at + end);
                let token = std::str::from_utf8(&json[at..end]).unwrap_or_default();
                if (token.len() > SURE_TO_FIT || token.contains(['e', 'E']))
                    && let Some(why) = refusal(token)
                {
                    return Err(DataError::Number(complaint(token, why)));
                }
                at = end;
            }
            _ => at += 1,
        }
    }
    Ok(())
}

/// Where the string that begins at `start` is over.
fn string_end(json: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(byte) = json.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    at
}
