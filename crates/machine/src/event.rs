//! CloudEvents as the language sees them: how a wanted attribute is compared with the one found.

use crate::data::Data;

/// The longest attribute that is looked at as a pattern, or by one.
const PATTERN_BYTES_MAX: usize = 1024;

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
