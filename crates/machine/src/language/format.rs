//! Formats the text of a document: indentation, spacing and blank lines; never its meaning, never a comment.
//!
//! [`format`] lays YAML out in blocks of two spaces. Keys keep their order, scalars their quotes, and a list or
//! object that fits on its one line stays on it. Comments stay with what they stand before, behind or after.
//! The result is read again and compared before it is answered. Formatting twice is formatting once.

mod comments;
mod layout;
mod write;

use super::{Format, Problem, report::Report, source};
use crate::data::Data;
use layout::Layout;

/// The document laid out; the error is what is wrong with its syntax.
pub fn format(text: &[u8], format: Format) -> Result<String, Vec<Problem>> {
    let data = read(text, format)?;
    let text = std::str::from_utf8(text).unwrap_or_default();
    let text = text.strip_prefix('\u{feff}').unwrap_or(text).replace("\r\n", "\n");
    if format == Format::Json {
        let mut pretty = serde_json::to_string_pretty(&data).unwrap_or_default();
        pretty.push('\n');
        return Ok(pretty);
    }
    let layout = Layout::read(&text).map_err(|problem| vec![*problem])?;
    let comments = layout.comments.clone();
    let written = write::write(&layout.with_comments());
    let same = read(written.as_bytes(), format).is_ok_and(|again| again == data)
        && Layout::read(&written).is_ok_and(|again| again.texts() == texts(&comments));
    match same {
        true => Ok(written),
        false => {
            let place = source::start();
            let message = "this document cannot be formatted without changing it";
            Err(vec![Problem::new(place, "not-formatted", message).hint("leave it as it is")])
        }
    }
}

fn read(text: &[u8], format: Format) -> Result<Data, Vec<Problem>> {
    let mut report = Report::default();
    match source::read(text, format, &mut report) {
        Ok(tree) => {
            let data = tree.root().to_data();
            let errors = report.into_errors();
            if errors.is_empty() { Ok(data) } else { Err(errors) }
        }
        Err(problem) => {
            report.error(problem);
            Err(report.into_errors())
        }
    }
}

fn texts(comments: &[comments::Comment]) -> Vec<&str> {
    comments.iter().map(|comment| comment.text.as_str()).collect()
}
