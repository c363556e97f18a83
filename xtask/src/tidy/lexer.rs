//! Cuts Rust text into identifiers, string literals, comments and punctuation, with line numbers.
//!
//! Just enough to tell code from comments from strings. It never fails: text that is not Rust gives odd tokens.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Identifier,
    /// A string literal of any kind; the text is what stands between the quotes, escapes as written.
    Text,
    /// A comment of any kind, with its marks.
    Comment,
    /// One character of punctuation.
    Mark,
    /// Numbers, character literals, lifetimes.
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token<'a> {
    pub(crate) kind: Kind,
    pub(crate) text: &'a str,
    /// 1-based line of its first character.
    pub(crate) line: usize,
}

impl Token<'_> {
    pub(crate) fn is_mark(&self, mark: &str) -> bool {
        self.kind == Kind::Mark && self.text == mark
    }

    pub(crate) fn is_identifier(&self, name: &str) -> bool {
        self.kind == Kind::Identifier && self.text == name
    }
}

pub(crate) fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let (mut at, mut line) = (0, 1);
    while let Some(c) = text[at..].chars().next() {
        let rest = &text[at..];
        if c.is_whitespace() {
            line += usize::from(c == '\n');
            at += c.len_utf8();
            continue;
        }
        let (kind, length, inner) = one(rest, c);
        tokens.push(Token { kind, text: &rest[inner.0..inner.1], line });
        line += rest[..length].matches('\n').count();
        at += length;
    }
    tokens
}

/// The kind of the token at the start, its length, and the range of it that counts as its text.
fn one(rest: &str, first: char) -> (Kind, usize, (usize, usize)) {
    let whole = |kind, length| (kind, length, (0, length));
    if rest.starts_with("//") {
        return whole(Kind::Comment, rest.find('\n').unwrap_or(rest.len()));
    }
    if rest.starts_with("/*") {
        return whole(Kind::Comment, block_comment(rest));
    }
    if let Some((length, inner)) = string(rest) {
        return (Kind::Text, length, inner);
    }
    if first == '\'' {
        return whole(Kind::Other, quote(rest));
    }
    if first.is_alphanumeric() || first == '_' {
        let length = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        let kind = if first.is_ascii_digit() { Kind::Other } else { Kind::Identifier };
        return whole(kind, length);
    }
    whole(Kind::Mark, first.len_utf8())
}

fn block_comment(rest: &str) -> usize {
    let (mut depth, mut at) = (0usize, 0);
    while at < rest.len() {
        let here = &rest.as_bytes()[at..];
        if here.starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if here.starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    rest.len()
}

/// A string literal at the start: its length and the range between the quotes.
fn string(rest: &str) -> Option<(usize, (usize, usize))> {
    let prefix = ["br", "cr", "b", "c", "r", ""].into_iter().find(|prefix| {
        let after = rest.strip_prefix(prefix).unwrap_or_default();
        after.trim_start_matches('#').starts_with('"') && (prefix.ends_with('r') || after.starts_with('"'))
    })?;
    let hashes = rest[prefix.len()..].bytes().take_while(|b| *b == b'#').count();
    let start = prefix.len() + hashes + 1;
    if prefix.ends_with('r') {
        let close = format!("\"{}", "#".repeat(hashes));
        let end = rest[start..].find(&close).map_or(rest.len(), |found| start + found);
        return Some(((end + close.len()).min(rest.len()), (start, end)));
    }
    let bytes = rest.as_bytes();
    let mut at = start;
    while at < bytes.len() && bytes[at] != b'"' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    let end = at.min(rest.len());
    Some(((end + 1).min(rest.len()), (start, end)))
}

/// A character literal or a lifetime.
fn quote(rest: &str) -> usize {
    let mut characters = rest.char_indices().skip(1);
    match (characters.next(), characters.next()) {
        (Some((_, '\\')), Some((escaped, _))) => {
            rest[escaped + 1..].find('\'').map_or(rest.len(), |found| escaped + 1 + found + 1)
        }
        (Some(_), Some((close, '\''))) => close + 1,
        (Some((start, _)), _) => {
            let name = &rest[start..];
            start + name.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(name.len())
        }
        _ => rest.len(),
    }
}

/// The tokens without those of items marked `#[cfg(test)]`.
pub(crate) fn without_tests(tokens: Vec<Token<'_>>) -> Vec<Token<'_>> {
    let mut kept = Vec::with_capacity(tokens.len());
    let mut at = 0;
    while at < tokens.len() {
        if is_test_attribute(&tokens[at..]) {
            at = item_end(&tokens, at);
        } else {
            kept.push(tokens[at]);
            at += 1;
        }
    }
    kept
}

fn is_test_attribute(tokens: &[Token<'_>]) -> bool {
    let [hash, open, cfg, ..] = tokens else { return false };
    if !(hash.is_mark("#") && open.is_mark("[") && cfg.is_identifier("cfg")) {
        return false;
    }
    let inside = tokens.iter().take_while(|token| !token.is_mark("]"));
    let mut names = inside.filter(|token| token.kind == Kind::Identifier).skip(1);
    let first = names.next();
    first.is_some_and(|name| {
        name.text == "test" || (name.text == "all" && names.any(|name| name.text == "test"))
    })
}

/// Where the item that starts at `start` (with its attributes) ends: after its `;` or its closing brace.
fn item_end(tokens: &[Token<'_>], start: usize) -> usize {
    let mut depth = 0usize;
    for (at, token) in tokens.iter().enumerate().skip(start) {
        if token.kind != Kind::Mark {
            continue;
        }
        match token.text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" => depth = depth.saturating_sub(1),
            "}" => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return at + 1;
                }
            }
            ";" if depth == 0 => return at + 1,
            _ => {}
        }
    }
    tokens.len()
}

/// A function with a body.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Function<'a> {
    pub(crate) name: &'a str,
    pub(crate) first_line: usize,
    pub(crate) last_line: usize,
}

/// Every function with a body, nested ones too.
pub(crate) fn functions<'a>(tokens: &[Token<'a>]) -> Vec<Function<'a>> {
    let mut functions = Vec::new();
    for (at, pair) in tokens.windows(2).enumerate() {
        if !pair[0].is_identifier("fn") || pair[1].kind != Kind::Identifier {
            continue;
        }
        let Some(open) = body_start(tokens, at) else { continue };
        let end = item_end(tokens, open);
        functions.push(Function {
            name: pair[1].text,
            first_line: pair[0].line,
            last_line: tokens[end - 1].line,
        });
    }
    functions
}

fn body_start(tokens: &[Token<'_>], start: usize) -> Option<usize> {
    let mut depth = 0usize;
    for (at, token) in tokens.iter().enumerate().skip(start) {
        match token.text {
            _ if token.kind != Kind::Mark => {}
            "(" | "[" => depth += 1,
            ")" | "]" => depth = depth.saturating_sub(1),
            "{" if depth == 0 => return Some(at),
            ";" if depth == 0 => return None,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str, kind: Kind) -> Vec<&str> {
        tokens(text).into_iter().filter(|token| token.kind == kind).map(|token| token.text).collect()
    }

    #[test]
    fn strings_of_every_kind() {
        let text = r###"f("a\"b", r#"c"d"#, b"e", br"f", 'g', '"', "h", r"i\")"###;
        assert_eq!(texts(text, Kind::Text), ["a\\\"b", "c\"d", "e", "f", "h", "i\\"]);
        assert_eq!(texts(text, Kind::Identifier), ["f"]);
    }

    #[test]
    fn characters_and_lifetimes() {
        assert_eq!(texts(r"'a' '\'' '\u{1b}' &'a str", Kind::Other), ["'a'", r"'\''", r"'\u{1b}'", "'a"]);
        assert_eq!(texts("'\"' x", Kind::Identifier), ["x"]);
    }

    #[test]
    fn comments_hide_code() {
        let text = "a // b \"c\n/* d /* e */ f */ g /// h";
        assert_eq!(texts(text, Kind::Comment), ["// b \"c", "/* d /* e */ f */", "/// h"]);
        assert_eq!(texts(text, Kind::Identifier), ["a", "g"]);
        assert_eq!(tokens(text)[3].line, 2);
    }

    #[test]
    fn raw_identifiers_are_not_strings() {
        assert_eq!(texts("r#type break b", Kind::Identifier), ["r", "type", "break", "b"]);
    }

    #[test]
    fn odd_text_does_not_stop_it() {
        for text in ["\"", "'", "r#\"", "/*", "b", "\"\\", "é'é'", "''", "'\\", "\"\\é\""] {
            tokens(text);
        }
    }

    #[test]
    fn test_items_go() {
        let text = "a(); #[cfg(test)] #[rustfmt::skip] mod tests { fn x() { y } } b(); \
                    #[cfg(all(test, unix))] use c; #[cfg(not(test))] d();";
        let kept = without_tests(tokens(text));
        let names: Vec<_> = kept.iter().filter(|t| t.kind == Kind::Identifier).map(|t| t.text).collect();
        assert_eq!(names, ["a", "b", "cfg", "not", "test", "d"]);
    }

    #[test]
    fn functions_with_their_lines() {
        let text = "trait T { fn no(&self); }\nfn one(f: fn(u8) -> [u8; 2]) {\n  fn two() {}\n}\n";
        let tokens = tokens(text);
        let seen: Vec<_> = functions(&tokens).iter().map(|f| (f.name, f.first_line, f.last_line)).collect();
        assert_eq!(seen, [("one", 2, 4), ("two", 3, 3)]);
    }
}
