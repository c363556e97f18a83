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
    regex_bites::Regex::new(&format!("^(?:{pattern})$")).is_ok_and(|pattern| pattern.is_match(text))
}
