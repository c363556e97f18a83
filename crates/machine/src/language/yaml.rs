//! Writes data as YAML for people: block style, two spaces, quotes only where something would change without them.
//!
//! [`write`] is deterministic, and what it writes is read back as the same data by any reader of YAML 1.1 or 1.2.

use super::source::is_plain_text;
use crate::data::Data;

/// `data` as a YAML document, ending in a line break.
pub fn write(data: &Data) -> String {
    let mut out = String::new();
    match data.entries() {
        Some(members) if !members.is_empty() => object(&mut out, &members, 0, false),
        _ => value(&mut out, data, 0),
    }
    out
}

/// Writes what follows `key:` or `-`, up to and including the line break.
fn value(out: &mut String, data: &Data, indent: usize) {
    if let Some(members) = data.entries().filter(|members| !members.is_empty()) {
        out.push('\n');
        return object(out, &members, indent, false);
    }
    if let Some(items) = data.items().filter(|_| !data.is_empty()) {
        out.push('\n');
        return items.for_each(|item| element(out, &item, indent));
    }
    if !out.is_empty() {
        out.push(' ');
    }
    match data.as_str() {
        Some(text) => scalar(out, text, indent),
        None => out.push_str(&data.to_text()),
    }
    out.push('\n');
}

/// `in_line` if the first member follows what is already on the line.
fn object(out: &mut String, members: &[(String, Data)], indent: usize, mut in_line: bool) {
    for (key, member) in members {
        if !std::mem::take(&mut in_line) {
            pad(out, indent);
        }
        out.push_str(&quoted(key));
        out.push(':');
        value(out, member, indent + 2);
    }
}

fn element(out: &mut String, item: &Data, indent: usize) {
    pad(out, indent);
    out.push('-');
    match item.entries() {
        Some(members) if !members.is_empty() => {
            out.push(' ');
            object(out, &members, indent + 2, true);
        }
        _ => value(out, item, indent + 2),
    }
}

fn pad(out: &mut String, indent: usize) {
    out.extend(std::iter::repeat_n(' ', indent));
}

/// A text, as a block if it has several lines.
fn scalar(out: &mut String, text: &str, indent: usize) {
    if !is_block(text) {
        return out.push_str(&quoted(text));
    }
    // The document itself has no indentation of its own, but a block needs some.
    let indent = indent.max(2);
    out.push('|');
    if text.starts_with([' ', '\n']) {
        out.push('2');
    }
    let body = match text.strip_suffix('\n') {
        None => {
            out.push('-');
            text
        }
        Some(body) if body.ends_with('\n') => {
            out.push('+');
            body
        }
        Some(body) => body,
    };
    for line in body.split('\n') {
        out.push('\n');
        if !line.is_empty() {
            pad(out, indent);
            out.push_str(line);
        }
    }
}

/// True if the text reads the same from a literal block.
fn is_block(text: &str) -> bool {
    text.trim_end_matches('\n').contains('\n')
        && text.chars().all(|character| character == '\n' || is_printable(character))
        && text.split('\n').all(|line| line.is_empty() || !line.trim_matches(' ').is_empty())
}

fn is_printable(character: char) -> bool {
    !character.is_control()
        && !matches!(character, '\u{feff}' | '\u{2028}' | '\u{2029}' | '\u{fffe}' | '\u{ffff}')
}

/// A text on one line, in quotes if it needs them.
pub(super) fn quoted(text: &str) -> String {
    if !text.chars().all(is_printable) {
        return escaped(text);
    }
    if is_plain(text) {
        return text.to_owned();
    }
    match text.contains('\'') && !text.contains(['"', '\\']) {
        true => format!("\"{text}\""),
        false => format!("'{}'", text.replace('\'', "''")),
    }
}

fn escaped(text: &str) -> String {
    let mut out = String::from("\"");
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            other if is_printable(other) => out.push(other),
            other if u32::from(other) < 0x100 => out.push_str(&format!("\\x{:02x}", u32::from(other))),
            other => out.push_str(&format!("\\u{:04x}", u32::from(other))),
        }
    }
    out.push('"');
    out
}

/// True if the text can stand without quotes, in YAML 1.1 too.
fn is_plain(text: &str) -> bool {
    const INDICATORS: &[char] = &[
        '-', '?', ':', ',', '[', ']', '{', '}', '#', '&', '*', '!', '|', '>', '\'', '"', '%', '@', '`', '=',
    ];
    let safe_start = !text.starts_with(INDICATORS) || text.starts_with('-') && starts_word(&text[1..]);
    safe_start
        && !text.is_empty()
        && text.trim() == text
        && !text.contains(": ")
        && !text.ends_with(':')
        && !text.contains(" #")
        && text != "<<"
        && text != "..."
        && is_plain_text(text)
        && !is_old_word(text)
}

fn starts_word(rest: &str) -> bool {
    rest.starts_with(|character: char| character.is_alphabetic())
}

/// True for what YAML 1.1 takes for something else than text: other booleans, dates, base-60 numbers.
fn is_old_word(text: &str) -> bool {
    let word = text.to_ascii_lowercase();
    let boolean = ["y", "n", "yes", "no", "on", "off", "true", "false", "null"].contains(&word.as_str());
    let digits = |byte: u8| byte.is_ascii_digit() || matches!(byte, b':' | b'-' | b'_' | b'.' | b'+');
    let numeric = word.starts_with(|first: char| first.is_ascii_digit() || matches!(first, '+' | '-' | '.'))
        && word.contains([':', '_', '-'])
        && word.bytes().all(|byte| digits(byte) || matches!(byte, b't' | b'z' | b' '));
    boolean || numeric
}
