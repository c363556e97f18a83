//! CloudEvents as the language sees them: how a wanted attribute is compared with the one found.

use crate::data::Data;

/// The longest attribute that is looked at as a pattern, or by one.
const PATTERN_BYTES_MAX: usize = 1024;

/// The attribute that counts how many emitted events follow each other up to this one.
pub const HOPS: &str = "hops";

/// How many emitted events follow each other up to this one; 0 if it does not say. In binary mode a number is a text.
pub fn hops(event: &Data) -> u32 {
    let Some(given) = event.get(HOPS) else { return 0 };
    let number = given.as_i64().or_else(|| given.as_str()?.parse().ok());
    number.map_or(0, |number| u32::try_from(number.max(0)).unwrap_or(u32::MAX))
}

/// True if a wanted text is a regular expression and not just itself. A dot alone does not make it one: event types
/// are full of them.
pub fn is_pattern(text: &str) -> bool {
    text.contains(['\\', '^', '$', '*', '+', '?', '(', ')', '[', ']', '{', '}', '|'])
}

/// True if `found` is what is wanted: equal, or a text that the wanted text matches as a regular expression from end
/// to end.
pub fn attribute_fits(wanted: &Data, found: &Data) -> bool {
    if wanted == found {
        return true;
    }
    let (Some(pattern), Some(text)) = (wanted.as_str(), found.as_str()) else { return false };
    if !is_pattern(pattern) || pattern.len() > PATTERN_BYTES_MAX || text.len() > PATTERN_BYTES_MAX {
        return false;
    }
    regex(pattern).is_ok_and(|pattern| pattern.is_match(text))
}

fn regex(pattern: &str) -> Result<regex_bites::Regex, String> {
    regex_bites::Regex::new(&format!("^(?:{pattern})$")).map_err(|error| error.to_string())
}

/// What makes a wanted text a pattern that nothing can fit.
pub(crate) fn pattern_problem(text: &str) -> Option<String> {
    if !is_pattern(text) {
        return None;
    }
    match text.len() > PATTERN_BYTES_MAX {
        true => Some(format!("it has more than {PATTERN_BYTES_MAX} bytes")),
        false => regex(text).err(),
    }
}
