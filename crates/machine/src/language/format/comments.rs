//! Comments: where they stand, and which entry they stay with.

use super::layout::{Entry, Layout};
use std::collections::HashSet;

/// A comment of the document.
#[derive(Clone, Debug)]
pub(super) struct Comment {
    /// With its `#`.
    pub(super) text: String,
    /// In characters from the start of the document.
    start: usize,
    line: usize,
    column: usize,
    /// True if nothing stands before it on its line.
    alone: bool,
    /// True if a blank line stands before it.
    blank: bool,
}

/// A comment on a line of its own.
#[derive(Clone, Debug)]
pub(super) struct Note {
    pub(super) text: String,
    pub(super) blank: bool,
}

/// Every comment: a `#` at the start of a line or after a space, outside of all scalars.
pub(super) fn find(
    lines: &[(usize, &str)],
    covered: &[(usize, usize)],
    kept_lines: &HashSet<usize>,
) -> Vec<Comment> {
    let mut covered = covered.to_vec();
    covered.sort_unstable();
    let mut comments = Vec::new();
    for (line, (line_start, text)) in lines.iter().enumerate() {
        let mut before = ' ';
        for (column, character) in text.chars().enumerate() {
            let start = line_start + column;
            let inside = covered.partition_point(|(from, _)| *from <= start);
            let inside = inside > 0 && covered[inside - 1].1 > start;
            if character == '#' && !inside && before.is_whitespace() {
                let rest: String = text.chars().skip(column).collect();
                comments.push(Comment {
                    text: rest.trim_end().to_owned(),
                    start,
                    line,
                    column,
                    alone: text.chars().take(column).all(char::is_whitespace),
                    blank: line > 0
                        && !kept_lines.contains(&(line - 1))
                        && lines[line - 1].1.trim().is_empty(),
                });
                break;
            }
            before = character;
        }
    }
    comments
}

impl Layout {
    /// Gives every comment to an entry.
    pub(super) fn with_comments(mut self) -> Layout {
        // True while comments between the same two entries go to the later one: their order must stay.
        let mut to_next: Option<usize> = None;
        for comment in std::mem::take(&mut self.comments) {
            if let Some(id) = self.on_line_of(&comment) {
                self.entries[id].behind = Some(comment.text);
                continue;
            }
            let next = self.entries.iter().position(|entry| entry.start > comment.start && entry.own_line);
            let after = match next {
                Some(next) if to_next == Some(next) => None,
                next => self.ended_before(&comment, next),
            };
            let note = Note { text: comment.text, blank: comment.blank };
            match (after, next) {
                (Some(id), _) => self.entries[id].after.push(note),
                (None, Some(next)) => {
                    to_next = Some(next);
                    self.entries[next].before.push(note);
                }
                (None, None) => {}
            }
        }
        self
    }

    /// The entry whose line the comment ends.
    fn on_line_of(&self, comment: &Comment) -> Option<usize> {
        if comment.alone {
            return None;
        }
        let on_line =
            |entry: &Entry| entry.own_line && entry.line == comment.line && entry.start < comment.start;
        self.entries.iter().rposition(on_line).filter(|id| self.entries[*id].behind.is_none())
    }

    /// The entry the comment stands below, if it belongs there rather than to the next one: it is indented as
    /// deep as that entry, and deeper than the next.
    fn ended_before(&self, comment: &Comment, next: Option<usize>) -> Option<usize> {
        let next_column = next.map(|next| self.entries[next].column);
        if next_column.is_some_and(|column| column >= comment.column) {
            return None;
        }
        let mut id = self.entries.iter().rposition(|entry| entry.start < comment.start)?;
        while !self.entries[id].own_line || self.entries[id].column > comment.column {
            match self.entries[id].parent {
                Some(parent) => id = parent,
                None => break,
            }
        }
        let deeper = next_column.is_none_or(|column| self.entries[id].column > column);
        deeper.then_some(id)
    }
}
