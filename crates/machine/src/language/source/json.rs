//! Reads JSON into the tree.
//!
//! serde_json decides whether the text is JSON at all; the reader here then only has to find out where
//! everything stands, and looks for what serde_json lets through: duplicate keys, NUL, numbers it changes, our depth
//! limit.

use super::{
    DEPTH_MAX, KEY_BYTES_MAX, Mark, NodeId, Origin, Problem, ROOT, Report, Segment, Tree, Value, scalar,
};

pub(super) fn read(text: &str, report: &mut Report) -> Result<Tree, Problem> {
    if let Err(error) = serde_json::from_str::<serde_json::Value>(text) {
        return Err(syntax(text, &error));
    }
    let mut reader = Reader { text, offset: 0, mark: Mark::START, tree: Tree::default(), report };
    reader.value(ROOT, Segment::Root, 0)?;
    Ok(reader.tree)
}

fn syntax(text: &str, error: &serde_json::Error) -> Problem {
    let line = text.lines().nth(error.line().saturating_sub(1)).unwrap_or_default();
    let column = line.char_indices().take_while(|(start, _)| start + 1 < error.column()).count() + 1;
    let place = Mark { line: error.line().max(1) as u32, column: column as u32 }.place();
    let text = error.to_string();
    let reason = text.rsplit_once(" at line ").map_or(text.as_str(), |(reason, _)| reason);
    match reason {
        "recursion limit exceeded" => too_deep(place),
        "number out of range" => {
            Problem::new(place, "number-range", "the number is outside the range of a 64-bit float")
        }
        "unexpected end of hex escape" | "lone leading surrogate in hex escape" => {
            let message = "the `\\u` escape is only half of a character (a lone surrogate)";
            Problem::new(place, "lone-surrogate", message).hint("write both halves, or the character itself")
        }
        _ => Problem::new(place, "syntax", format!("this is not valid JSON: {reason}")),
    }
}

pub(super) fn too_deep(place: super::Place) -> Problem {
    Problem::new(place, "too-deep", format!("the document is nested deeper than {DEPTH_MAX} levels"))
        .hint("split it into several definitions, or pass deep literals as input")
}

/// Walks text that is known to be JSON.
struct Reader<'a> {
    text: &'a str,
    offset: usize,
    mark: Mark,
    tree: Tree,
    report: &'a mut Report,
}

impl Reader<'_> {
    fn value(&mut self, parent: NodeId, segment: Segment, depth: usize) -> Result<(), Problem> {
        self.space();
        let mark = self.mark;
        match self.text[self.offset..].bytes().next() {
            Some(open @ (b'{' | b'[')) => {
                let value = if open == b'{' { Value::Object(Vec::new()) } else { Value::List(Vec::new()) };
                let id = self.tree.add(parent, segment, mark, value);
                if depth >= DEPTH_MAX {
                    return Err(too_deep(self.tree.at(id).place()));
                }
                self.children(id, open == b'{', depth + 1)?;
            }
            Some(b'"') => {
                let (text, origin) = self.string();
                let id = self.tree.add(parent, segment, mark, Value::Text { text, origin });
                self.refuse_nul(id);
            }
            _ => {
                let end = self.text[self.offset..].find([',', ']', '}', ' ', '\t', '\r', '\n']);
                let end = end.map_or(self.text.len(), |end| self.offset + end);
                let (value, refused) = match &self.text[self.offset..end] {
                    "null" => (Value::Null, None),
                    "true" => (Value::Bool(true), None),
                    "false" => (Value::Bool(false), None),
                    number => match scalar::number(number) {
                        Ok(number) => (Value::Number(number), None),
                        Err(message) => (Value::Null, Some(message)),
                    },
                };
                self.advance(end - self.offset);
                let id = self.tree.add(parent, segment, mark, value);
                if let Some(message) = refused {
                    self.report.error(number_range(self.tree.at(id).place(), message));
                }
            }
        }
        Ok(())
    }

    fn children(&mut self, id: NodeId, keyed: bool, depth: usize) -> Result<(), Problem> {
        let mut keys = std::collections::HashSet::new();
        self.advance(1);
        loop {
            self.space();
            match self.text[self.offset..].bytes().next() {
                Some(b',') => self.advance(1),
                Some(b'}' | b']') | None => {
                    self.advance(1);
                    return Ok(());
                }
                Some(_) if keyed => {
                    let mark = self.mark;
                    let (key, _) = self.string();
                    refuse_long(&key, mark)?;
                    self.space();
                    self.advance(1);
                    let duplicate = !keys.insert(key.clone());
                    let child = self.tree.nodes.len();
                    self.value(id, Segment::Key { key, mark }, depth)?;
                    self.check_key(child, duplicate);
                }
                Some(_) => {
                    let segment = Segment::Index(self.tree.len(id));
                    self.value(id, segment, depth)?;
                }
            }
        }
    }

    fn check_key(&mut self, id: NodeId, duplicate: bool) {
        let at = self.tree.at(id);
        if duplicate {
            self.report.error(duplicate_key(at));
        }
        if at.key().is_some_and(|key| key.contains('\0')) {
            self.report.error(nul(at.key_place()));
        }
    }

    fn refuse_nul(&mut self, id: NodeId) {
        let at = self.tree.at(id);
        if at.text().is_some_and(|text| text.contains('\0')) {
            self.report.error(nul(at.place()));
        }
    }

    /// Reads the string that starts here.
    fn string(&mut self) -> (String, Origin) {
        let rest = &self.text[self.offset..];
        let mut escaped = false;
        let end = rest.char_indices().skip(1).find(|(_, character)| match (escaped, character) {
            (true, _) => {
                escaped = false;
                false
            }
            (false, '\\') => {
                escaped = true;
                false
            }
            (false, character) => *character == '"',
        });
        let raw = &rest[..end.map_or(rest.len(), |(end, _)| end + 1)];
        self.advance(raw.len());
        let origin = if raw.contains('\\') { Origin::Start } else { Origin::Shifted(1) };
        (serde_json::from_str(raw).unwrap_or_default(), origin)
    }

    fn space(&mut self) {
        let rest = &self.text[self.offset..];
        self.advance(rest.len() - rest.trim_start_matches([' ', '\t', '\r', '\n']).len());
    }

    fn advance(&mut self, bytes: usize) {
        let end = (self.offset + bytes).min(self.text.len());
        for character in self.text[self.offset..end].chars() {
            match character {
                '\n' => self.mark = Mark { line: self.mark.line + 1, column: 1 },
                _ => self.mark.column += 1,
            }
        }
        self.offset = end;
    }
}

pub(super) fn duplicate_key(at: super::At<'_>) -> Problem {
    let message = format!("{} is given twice in the same object", at.label());
    Problem::new(at.key_place(), "duplicate-key", message).hint("remove or rename one of the two")
}

pub(super) fn refuse_long(key: &str, mark: Mark) -> Result<(), Problem> {
    match key.len() > KEY_BYTES_MAX {
        true => {
            let message = format!("the key has {} bytes, more than the allowed {KEY_BYTES_MAX}", key.len());
            Err(Problem::new(mark.place(), "too-large", message).hint("choose a shorter key"))
        }
        false => Ok(()),
    }
}

pub(super) fn number_range(place: super::Place, message: String) -> Problem {
    Problem::new(place, "number-range", message).hint("quote it if it is meant as text")
}

pub(super) fn nul(place: super::Place) -> Problem {
    Problem::new(place, "nul-character", "the text holds a NUL character").hint("remove the `\\0` escape")
}
