//! The allow-list: lines that lift a rule for one file, each with a sentence that says why.
//!
//! A line is `rule path[:item] Sentence.`; a path that ends in `/` stands for the folder. A line that lifts nothing
//! is itself a finding, so that the list only shrinks or stays true.

use super::{Finding, Tree};

pub(crate) const PATH: &str = "xtask/tidy-allow.txt";

/// Words a reason needs at least; less is a label, not a reason.
const REASON_WORDS_MIN: usize = 4;

pub(crate) struct List {
    lines: Vec<Line>,
    complaints: Vec<Finding>,
}

struct Line {
    number: usize,
    rule: String,
    path: String,
    item: Option<String>,
    used: bool,
}

impl List {
    pub(crate) fn read(tree: &Tree) -> List {
        let mut list = List { lines: vec![], complaints: vec![] };
        for (index, text) in tree.text(PATH).unwrap_or_default().lines().enumerate() {
            let text = text.trim();
            if text.is_empty() || text.starts_with('#') {
                continue;
            }
            match parse(index + 1, text) {
                Ok(line) => list.lines.push(line),
                Err(message) => list.complaints.push(Finding::new(PATH, index + 1, "line", message)),
            }
        }
        list
    }

    /// Whether a line lifts the finding; that line then counts as used.
    pub(crate) fn lifts(&mut self, rule: &str, finding: &Finding) -> bool {
        let mut lifted = false;
        for line in &mut self.lines {
            let path = finding.path == line.path
                || (line.path.ends_with('/') && finding.path.starts_with(&line.path));
            let item = line.item.as_ref().is_none_or(|item| *item == finding.item);
            if line.rule == rule && path && item {
                line.used = true;
                lifted = true;
            }
        }
        lifted
    }

    pub(crate) fn complaints(self) -> Vec<Finding> {
        let mut complaints = self.complaints;
        for line in self.lines.iter().filter(|line| !line.used) {
            let message = format!("lifts nothing any more: remove the line for {} {}", line.rule, line.path);
            complaints.push(Finding::new(PATH, line.number, &line.rule, message));
        }
        complaints
    }
}

fn parse(number: usize, text: &str) -> Result<Line, String> {
    let mut parts = text.splitn(3, ' ').map(str::trim);
    let (Some(rule), Some(place), Some(reason)) = (parts.next(), parts.next(), parts.next()) else {
        return Err("a line is: rule path[:item] Sentence that says why.".into());
    };
    if !super::RULES.iter().any(|known| known.name == rule) {
        return Err(format!("there is no rule {rule}; cargo xtask tidy --list shows them"));
    }
    if reason.split_whitespace().count() < REASON_WORDS_MIN || !reason.ends_with('.') {
        return Err("the reason is a sentence: some words and a full stop".into());
    }
    let (path, item) = match place.split_once(':') {
        Some((path, item)) => (path, Some(item.to_owned())),
        None => (place, None),
    };
    Ok(Line { number, rule: rule.into(), path: path.into(), item, used: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(list: &str, rule: &str, finding: &Finding) -> (bool, Vec<String>) {
        let mut list = List::read(&Tree::of(&[(PATH, list)]));
        let lifted = list.lifts(rule, finding);
        (lifted, list.complaints().into_iter().map(|finding| finding.message).collect())
    }

    #[test]
    fn lifts_by_file_folder_and_item() {
        let finding = Finding::new("a/b.rs", 3, "long", "too long");
        let why = "One table that reads best whole.";
        for place in ["a/b.rs", "a/", "a/b.rs:long"] {
            assert_eq!(complaints(&format!("length {place} {why}"), "length", &finding), (true, vec![]));
        }
        for line in ["length a/c.rs", "length a/b.rs:other", "sql a/b.rs"] {
            let (lifted, complaints) = complaints(&format!("{line} {why}"), "length", &finding);
            assert!(!lifted && complaints[0].contains("lifts nothing"), "{line}");
        }
    }

    #[test]
    fn a_reason_is_a_sentence() {
        let finding = Finding::new("a.rs", 1, "x", "y");
        for line in
            ["length a.rs", "length a.rs too long", "length a.rs it is just too long", "size a.rs A b c d."]
        {
            let (lifted, complaints) = complaints(line, "length", &finding);
            assert!(!lifted && complaints.len() == 1, "{line}");
        }
        assert_eq!(complaints("# words\n\n", "length", &finding), (false, vec![]));
    }
}
