//! Writes a layout.

use super::comments::Note;
use super::layout::{Entry, Layout, Value};

/// What may stand on one line.
const WIDTH_MAX: usize = 110;

pub(super) fn write(layout: &Layout) -> String {
    let mut writer = Writer { layout, out: String::new() };
    writer.entries(&layout.root, 0, false);
    writer.out
}

struct Writer<'l> {
    layout: &'l Layout,
    out: String,
}

impl Writer<'_> {
    /// `in_line` if the first entry follows what is already on the line.
    fn entries(&mut self, ids: &[usize], indent: usize, in_line: bool) {
        for (position, id) in ids.iter().enumerate() {
            let entry = &self.layout.entries[*id];
            let first = position == 0;
            self.notes(&entry.before, indent, first);
            if entry.blank && !(first && entry.before.is_empty()) {
                self.blank();
            }
            if !(first && in_line) {
                self.pad(indent);
            }
            self.entry(entry, indent);
            self.notes(&entry.after, indent, false);
        }
    }

    fn notes(&mut self, notes: &[Note], indent: usize, mut first: bool) {
        for note in notes {
            if note.blank && !std::mem::take(&mut first) {
                self.blank();
            }
            first = false;
            self.pad(indent);
            self.out.push_str(&note.text);
            self.out.push('\n');
        }
    }

    /// One blank line, never two, and none at the start.
    fn blank(&mut self) {
        if !self.out.is_empty() && !self.out.ends_with("\n\n") {
            self.out.push('\n');
        }
    }

    fn pad(&mut self, indent: usize) {
        self.out.extend(std::iter::repeat_n(' ', indent));
    }

    fn entry(&mut self, entry: &Entry, indent: usize) {
        match &entry.key {
            Some(key) => {
                self.out.push_str(key);
                self.out.push(':');
            }
            None => self.out.push('-'),
        }
        match &entry.value {
            Value::Empty => self.end_line(entry),
            Value::Scalar(lines) => self.scalar(entry, lines, indent),
            Value::Block(header, lines) => {
                self.out.push(' ');
                self.out.push_str(header);
                self.end_line(entry);
                for line in lines {
                    if !line.is_empty() {
                        self.pad(indent + 2);
                        self.out.push_str(line);
                    }
                    self.out.push('\n');
                }
            }
            Value::List { entries, one_line } | Value::Object { entries, one_line } => {
                self.collection(entry, entries, *one_line, indent);
            }
        }
    }

    fn end_line(&mut self, entry: &Entry) {
        if let Some(comment) = &entry.behind {
            self.out.push(' ');
            self.out.push_str(comment);
        }
        self.out.push('\n');
    }

    fn scalar(&mut self, entry: &Entry, lines: &[String], indent: usize) {
        self.out.push(' ');
        for (position, line) in lines.iter().enumerate() {
            if position > 0 {
                self.out.push('\n');
                if !line.is_empty() {
                    self.pad(indent + 2);
                }
            }
            self.out.push_str(line);
        }
        self.end_line(entry);
    }

    fn collection(&mut self, entry: &Entry, ids: &[usize], one_line: bool, indent: usize) {
        let line = if ids.is_empty() || one_line { Some(self.line(&entry.value)) } else { None };
        let column = self.out.len() - self.out.rfind('\n').map_or(0, |newline| newline + 1);
        if let Some(line) =
            line.filter(|line| ids.is_empty() || column + 1 + line.chars().count() <= WIDTH_MAX)
        {
            self.out.push(' ');
            self.out.push_str(&line);
            return self.end_line(entry);
        }
        let in_line =
            entry.key.is_none() && entry.behind.is_none() && self.layout.entries[ids[0]].before.is_empty();
        match in_line {
            true => self.out.push(' '),
            false => self.end_line(entry),
        }
        self.entries(ids, indent + 2, in_line);
    }

    /// The value on one line.
    fn line(&self, value: &Value) -> String {
        match value {
            Value::Empty => "null".to_owned(),
            Value::Scalar(lines) => lines.join(" "),
            Value::Block(..) => String::new(),
            Value::List { entries, .. } => {
                let items = entries.iter().map(|id| self.line(&self.layout.entries[*id].value));
                format!("[{}]", items.collect::<Vec<_>>().join(", "))
            }
            Value::Object { entries, .. } if entries.is_empty() => "{}".to_owned(),
            Value::Object { entries, .. } => {
                let members = entries.iter().map(|id| {
                    let entry = &self.layout.entries[*id];
                    format!("{}: {}", entry.key.as_deref().unwrap_or_default(), self.line(&entry.value))
                });
                format!("{{ {} }}", members.collect::<Vec<_>>().join(", "))
            }
        }
    }
}
