//! The document as entries (members and elements) that know where they stand in the text.

use super::comments::{Comment, Note};
use crate::language::{Problem, source};
use saphyr_parser::{Event, Parser, ScalarStyle, Span};

/// One member of an object or element of a list.
#[derive(Debug)]
pub(super) struct Entry {
    /// The key as written; none for elements.
    pub(super) key: Option<String>,
    pub(super) value: Value,
    pub(super) parent: Option<usize>,
    /// Where it starts, in characters from the start of the document.
    pub(super) start: usize,
    pub(super) line: usize,
    pub(super) column: usize,
    /// False inside a list or object that stays on one line.
    pub(super) own_line: bool,
    /// True if a blank line stands before it.
    pub(super) blank: bool,
    pub(super) before: Vec<Note>,
    pub(super) behind: Option<String>,
    pub(super) after: Vec<Note>,
}

#[derive(Debug)]
pub(super) enum Value {
    Empty,
    /// The lines of a plain or quoted scalar, without indentation.
    Scalar(Vec<String>),
    /// Header and lines of a block scalar, without indentation.
    Block(String, Vec<String>),
    List {
        entries: Vec<usize>,
        one_line: bool,
    },
    Object {
        entries: Vec<usize>,
        one_line: bool,
    },
}

/// Characters that belong to a scalar: from, to (exclusive).
type Covered = (usize, usize);

#[derive(Debug, Default)]
pub(super) struct Layout {
    pub(super) entries: Vec<Entry>,
    pub(super) root: Vec<usize>,
    pub(super) comments: Vec<Comment>,
}

impl Layout {
    pub(super) fn read(text: &str) -> Result<Layout, Box<Problem>> {
        let mut reader = Reader::new(text);
        for event in Parser::new_from_str(text) {
            let (event, span) = event.map_err(|error| {
                Box::new(Problem::new(source::start(), "syntax", format!("not valid YAML: {}", error.info())))
            })?;
            reader.event(event, span)?;
        }
        let covered = std::mem::take(&mut reader.covered);
        let kept = std::mem::take(&mut reader.kept_lines);
        let comments = super::comments::find(&reader.lines, &covered, &kept);
        let blank = |line: usize| {
            line > 0 && !kept.contains(&(line - 1)) && reader.lines[line - 1].1.trim().is_empty()
        };
        let mut entries = reader.entries;
        entries.iter_mut().for_each(|entry| entry.blank = blank(entry.line));
        Ok(Layout { entries, root: reader.root, comments })
    }

    pub(super) fn texts(&self) -> Vec<&str> {
        super::texts(&self.comments)
    }
}

/// A list or object whose end has not been seen.
struct Open {
    owner: Option<usize>,
    keyed: bool,
    flow: bool,
    line: usize,
    column: usize,
    entries: Vec<usize>,
    /// The entry whose value comes next.
    waiting: Option<usize>,
}

struct Reader<'t> {
    characters: Vec<char>,
    /// Start of each line in characters, and the line.
    lines: Vec<(usize, &'t str)>,
    entries: Vec<Entry>,
    root: Vec<usize>,
    open: Vec<Open>,
    covered: Vec<Covered>,
    /// Lines inside block scalars.
    kept_lines: std::collections::HashSet<usize>,
}

impl<'t> Reader<'t> {
    fn new(text: &'t str) -> Reader<'t> {
        let mut lines = Vec::new();
        let mut start = 0;
        for line in text.split('\n') {
            lines.push((start, line));
            start += line.chars().count() + 1;
        }
        Reader {
            characters: text.chars().collect(),
            lines,
            entries: Vec::new(),
            root: Vec::new(),
            open: Vec::new(),
            covered: Vec::new(),
            kept_lines: Default::default(),
        }
    }

    fn event(&mut self, event: Event<'_>, span: Span) -> Result<(), Box<Problem>> {
        let unformatted = |what: &str| {
            let message = format!("documents with {what} are not formatted");
            Err(Box::new(Problem::new(source::start(), "not-formatted", message)))
        };
        match event {
            Event::Alias(_) => return unformatted("aliases"),
            Event::Scalar(_, _, anchor, _)
            | Event::SequenceStart(anchor, _)
            | Event::MappingStart(anchor, _)
                if anchor != 0 =>
            {
                return unformatted("anchors");
            }
            Event::Scalar(_, _, _, Some(_))
            | Event::SequenceStart(_, Some(_))
            | Event::MappingStart(_, Some(_)) => return unformatted("tags"),
            Event::Scalar(text, style, _, None) => self.scalar(&text, style, span),
            Event::SequenceStart(..) => self.begin(false, span),
            Event::MappingStart(..) => self.begin(true, span),
            Event::SequenceEnd | Event::MappingEnd => self.end(span),
            _ => {}
        }
        Ok(())
    }

    fn begin(&mut self, keyed: bool, span: Span) {
        let start = span.start.index();
        let bracket = if keyed { '{' } else { '[' };
        let flow = self.characters.get(start) == Some(&bracket);
        let owner = self.value_owner(span);
        let (line, column) = (span.start.line() - 1, span.start.col());
        self.open.push(Open { owner, keyed, flow, line, column, entries: vec![], waiting: None });
    }

    fn end(&mut self, span: Span) {
        let Some(open) = self.open.pop() else { return };
        let one_line = open.flow && span.end.line() - 1 == open.line;
        if one_line {
            self.keep_in_line(&open.entries);
        }
        let entries = open.entries;
        match open.owner {
            None => self.root = entries,
            Some(owner) if open.keyed => self.entries[owner].value = Value::Object { entries, one_line },
            Some(owner) => self.entries[owner].value = Value::List { entries, one_line },
        }
    }

    fn keep_in_line(&mut self, entries: &[usize]) {
        for id in entries {
            self.entries[*id].own_line = false;
        }
    }

    /// The entry a value belongs to; an element makes one.
    fn value_owner(&mut self, span: Span) -> Option<usize> {
        let open = self.open.last_mut()?;
        if open.keyed {
            return open.waiting.take();
        }
        let column = if open.flow { span.start.col() } else { open.column };
        Some(self.add(None, span, column))
    }

    fn add(&mut self, key: Option<String>, span: Span, column: usize) -> usize {
        let id = self.entries.len();
        let parent = self.open.last().and_then(|open| open.owner);
        self.entries.push(Entry {
            key,
            value: Value::Empty,
            parent,
            start: span.start.index(),
            line: span.start.line() - 1,
            column,
            own_line: true,
            blank: false,
            before: vec![],
            behind: None,
            after: vec![],
        });
        if let Some(open) = self.open.last_mut() {
            open.entries.push(id);
        }
        id
    }

    fn scalar(&mut self, text: &str, style: ScalarStyle, span: Span) {
        let raw: String = self.characters[span.start.index()..span.end.index()].iter().collect();
        let raw = raw.trim_end().to_owned();
        let wants_key = self.open.last().is_some_and(|open| open.keyed && open.waiting.is_none());
        let block = matches!(style, ScalarStyle::Literal | ScalarStyle::Folded);
        if !block {
            self.covered.push((span.start.index(), span.start.index() + raw.chars().count()));
        }
        if wants_key {
            let id = self.add(Some(raw), span, span.start.col());
            if let Some(open) = self.open.last_mut() {
                open.waiting = Some(id);
            }
            return;
        }
        let absent = style == ScalarStyle::Plain && (raw.is_empty() || text == "~" && raw != "~");
        let parent_column = self.parent_column();
        let Some(owner) = self.value_owner(span) else { return };
        self.entries[owner].value = match (absent, block) {
            (true, _) => Value::Empty,
            (_, true) => self.block(span, parent_column, text.chars().all(|c| c == '\n')),
            (_, false) => {
                let lines = raw.split('\n').enumerate();
                Value::Scalar(lines.map(|(at, line)| trimmed(line, at == 0)).collect())
            }
        };
    }

    /// The column that the content of a block scalar must stand right of; none at the root.
    fn parent_column(&self) -> Option<usize> {
        let open = self.open.last()?;
        match open.waiting {
            Some(id) => Some(self.entries[id].column),
            None => Some(open.column),
        }
    }

    /// Line and position of a block scalar's `|` or `>`. The parser tells where its content starts, if it has any.
    fn header(&self, span: Span, is_empty: bool) -> (usize, usize) {
        let mut line = span.start.line() - 1;
        if is_empty {
            return (line, span.start.index());
        }
        line = line.saturating_sub(1);
        while line > 0 && self.lines[line].1.trim().is_empty() {
            line -= 1;
        }
        let from = self.covered.last().map_or(0, |covered| covered.1).max(self.lines[line].0);
        let found = self.characters[from..].iter().position(|c| matches!(c, '|' | '>'));
        (line, from + found.unwrap_or(0))
    }

    /// A block scalar, whose lines are found by their indentation.
    fn block(&mut self, span: Span, parent: Option<usize>, is_empty: bool) -> Value {
        let (line, at) = self.header(span, is_empty);
        let header: String = self.characters[at..].iter().take_while(|c| !c.is_whitespace()).collect();
        self.covered.push((at, at + header.chars().count()));
        let base = parent.map_or(0, |column| column + 1);
        let indent = match header.chars().find_map(|c| c.to_digit(10)) {
            Some(digit) => parent.unwrap_or(0) + digit as usize,
            None => {
                let first = self.lines[line + 1..].iter().find(|(_, text)| !text.trim().is_empty());
                first.map_or(base, |(_, text)| indent_of(text)).max(base)
            }
        };
        let mut end = line + 1;
        while end < self.lines.len()
            && (self.lines[end].1.trim().is_empty() || indent_of(self.lines[end].1) >= indent)
        {
            end += 1;
        }
        // The text's own last line break makes no line.
        if end == self.lines.len() && self.lines[end - 1].1.is_empty() {
            end -= 1;
        }
        if !header.contains('+') {
            while end > line + 1 && self.lines[end - 1].1.trim().is_empty() {
                end -= 1;
            }
        }
        let mut content = Vec::new();
        for at in line + 1..end {
            let (start, text) = self.lines[at];
            self.kept_lines.insert(at);
            self.covered.push((start, start + text.chars().count()));
            content.push(text.get(indent.min(text.len())..).unwrap_or_default().to_owned());
        }
        Value::Block(header.replace(|c: char| c.is_ascii_digit(), "2"), content)
    }
}

fn indent_of(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

fn trimmed(line: &str, first: bool) -> String {
    if first { line.trim_end().to_owned() } else { line.trim().to_owned() }
}
