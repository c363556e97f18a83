//! Shows answers of the API: tables and fields by a list of columns, or the JSON as it came.
//!
//! `-o json` is the API's JSON unchanged, so that path never parses and re-writes a body.

use crate::{
    failure::Failure,
    out::{Format, Out},
};
use comfy_table::{Attribute, Cell, Color, ColumnConstraint, ContentArrangement, Row, Table, presets};
use machine::Time;
use runtime::clock::{Clock, SystemClock};
use serde::Deserialize;
use serde_json::{Value, value::RawValue};

/// Longer JSON is shown over several lines on a terminal.
const LINE_MAX: usize = 60;

/// One column of a table, or one field of an object.
pub(crate) struct Column {
    title: &'static str,
    /// Members to follow, separated by dots; several paths are joined by the characters that stand between them.
    path: &'static str,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Plain,
    State,
    Time,
    Counts,
    Span,
}

/// A column with a member as text.
pub(crate) const fn plain(title: &'static str, path: &'static str) -> Column {
    Column { title, path, kind: Kind::Plain }
}

/// A status word; with its symbol on a terminal.
pub(crate) const fn state(title: &'static str, path: &'static str) -> Column {
    Column { title, path, kind: Kind::State }
}

/// A point in time; relative on a terminal.
pub(crate) const fn time(title: &'static str, path: &'static str) -> Column {
    Column { title, path, kind: Kind::Time }
}

/// An object of numbers; as words on a terminal, and nothing if there are none.
pub(crate) const fn counts(title: &'static str, path: &'static str) -> Column {
    Column { title, path, kind: Kind::Counts }
}

/// A length in milliseconds; in words on a terminal.
pub(crate) const fn length(title: &'static str, path: &'static str) -> Column {
    Column { title, path, kind: Kind::Span }
}

/// A page of a list, with its items as they came.
#[derive(Deserialize)]
pub(crate) struct Page {
    pub(crate) items: Vec<Box<RawValue>>,
    #[serde(default)]
    pub(crate) next: Option<String>,
}

impl Page {
    pub(crate) fn read(body: &[u8]) -> Result<Page, Failure> {
        serde_json::from_slice(body)
            .map_err(|error| Failure::failed(format!("the answer is not a list: {error}")))
    }
}

/// Parses an answer.
pub(crate) fn value(body: &[u8]) -> Result<Value, Failure> {
    serde_json::from_slice(body).map_err(|error| Failure::failed(format!("the answer is not JSON: {error}")))
}

/// Shows the items of a list. Not for `-o json`, which shows the page.
pub(crate) fn items(out: &Out, items: &[Box<RawValue>], columns: &[Column]) -> Result<(), Failure> {
    match out.format {
        Format::Json | Format::Jsonl => items.iter().try_for_each(|item| out.line(item.get())),
        Format::Id => items.iter().try_for_each(|item| out.line(&id_of(&value(item.get().as_bytes())?))),
        Format::Table => {
            let rows: Vec<Value> =
                items.iter().map(|item| value(item.get().as_bytes())).collect::<Result<_, _>>()?;
            if out.tty { table(out, &rows, columns) } else { tab_separated(out, &rows, columns) }
        }
    }
}

/// Shows one object, field by field.
pub(crate) fn object(out: &Out, body: &[u8], fields: &[Column]) -> Result<(), Failure> {
    match out.format {
        Format::Json => out.data(body),
        Format::Jsonl => out.line(&value(body)?.to_string()),
        Format::Id => match id_of(&value(body)?) {
            id if id.is_empty() => Ok(()),
            id => out.line(&id),
        },
        Format::Table => {
            let value = value(body)?;
            let width = fields.iter().map(|field| field.title.len()).max().unwrap_or(0);
            for field in fields {
                match (out.tty, text(out, field, &value)) {
                    (_, text) if text.is_empty() => {}
                    (false, text) => out.line(&format!("{}\t{text}", field.title))?,
                    (true, text) if text.len() > LINE_MAX && text.starts_with(['{', '[']) => {
                        out.line(&format!("{}\n{}", field.title, indented(&text)))?;
                    }
                    (true, text) => out.line(&format!("{:width$}  {text}", field.title))?,
                }
            }
            Ok(())
        }
    }
}

/// JSON over several lines, moved in a little.
fn indented(text: &str) -> String {
    let pretty = serde_json::from_str::<Value>(text).and_then(|value| serde_json::to_string_pretty(&value));
    let lines = pretty.unwrap_or_else(|_| text.to_owned());
    lines.lines().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}

/// The id of anything the API shows; a definition's is its name and version.
pub(crate) fn id_of(value: &Value) -> String {
    let text = |key: &str| value.get(key).and_then(Value::as_str);
    match (text("id"), text("namespace"), text("name"), text("version")) {
        (Some(id), ..) => id.to_owned(),
        (None, Some(namespace), Some(name), Some(version)) => format!("{namespace}/{name}@{version}"),
        _ => String::new(),
    }
}

/// A table for a terminal, one line per row. Columns without any value are left out. The first one names the row and
/// stays whole, so that it can be copied; long texts are cut where the terminal is narrow.
fn table(out: &Out, rows: &[Value], columns: &[Column]) -> Result<(), Failure> {
    if rows.is_empty() {
        out.note("nothing here");
        return Ok(());
    }
    let has_value = |column: &&Column| rows.iter().any(|row| !member(column.path, row).is_empty());
    let mut columns: Vec<&Column> = columns.iter().filter(has_value).collect();
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    match table.width() {
        Some(width) => leave_out(&mut columns, usize::from(width), |column| least_width(out, column, rows)),
        None => drop(table.set_content_arrangement(ContentArrangement::Disabled)),
    }
    table.set_truncation_indicator("…");
    let mut header = Row::from(columns.iter().map(|column| {
        let cell = Cell::new(column.title.to_uppercase());
        if out.color { cell.add_attribute(Attribute::Bold) } else { cell }
    }));
    header.max_height(1);
    table.set_header(header);
    for row in rows {
        let mut row = Row::from(columns.iter().map(|column| {
            let cell = Cell::new(text(out, column, row));
            match (column.kind, out.color) {
                (Kind::State, true) => cell.fg(color(&member(column.path, row))),
                _ => cell,
            }
        }));
        row.max_height(1);
        table.add_row(row);
    }
    for (at, column) in columns.iter().enumerate() {
        if let Some(whole) = table.column_mut(at).filter(|_| at == 0 || column.kind != Kind::Plain) {
            whole.set_constraint(ColumnConstraint::ContentWidth);
        }
    }
    let text: Vec<String> = table.lines().map(|line| line.trim_end().to_owned()).collect();
    out.line(&text.join("\n"))
}

/// A text may be cut to this many characters before a column is left out.
const TEXT_MIN: usize = 28;

/// What a column needs to be worth its place.
fn least_width(out: &Out, column: &Column, rows: &[Value]) -> usize {
    let longest = rows.iter().map(|row| text(out, column, row).chars().count()).max().unwrap_or(0);
    let needed = match column.kind {
        Kind::Plain if column.title != "id" => longest.min(TEXT_MIN),
        _ => longest,
    };
    needed.max(column.title.len())
}

/// Leaves out the last columns where there is no room for all; `-o json` has everything.
fn leave_out(columns: &mut Vec<&Column>, width: usize, least: impl Fn(&Column) -> usize) {
    const GAP: usize = 2;
    while columns.len() > 2 && columns.iter().map(|column| least(column) + GAP).sum::<usize>() > width {
        columns.pop();
    }
}

fn tab_separated(out: &Out, rows: &[Value], columns: &[Column]) -> Result<(), Failure> {
    for row in rows {
        let cells: Vec<String> =
            columns.iter().map(|column| text(out, column, row).replace(['\t', '\n', '\r'], " ")).collect();
        out.line(&cells.join("\t"))?;
    }
    Ok(())
}

fn text(out: &Out, column: &Column, row: &Value) -> String {
    let text = shown(member(column.path, row));
    match column.kind {
        Kind::State if out.tty && !text.is_empty() => format!("{} {text}", symbol(&text)),
        Kind::Counts if out.tty => counted(&text),
        Kind::Span if out.tty => match text.parse::<u64>() {
            Ok(millis) => span(millis / 1000),
            Err(_) => text,
        },
        Kind::Time if out.tty => relative(&text, SystemClock.now()),
        _ => text,
    }
}

/// Data may hold anything: what would steer the terminal is shown as what it is.
fn shown(text: String) -> String {
    let steers = |c: char| machine::data::is_steering(c) && !matches!(c, '\t' | '\n');
    match text.contains(steers) {
        false => text,
        true => text
            .chars()
            .map(|c| if steers(c) { c.escape_unicode().to_string() } else { c.to_string() })
            .collect(),
    }
}

/// `{"completed": 3, "running": 1}` as "3 completed, 1 running".
fn counted(text: &str) -> String {
    let counts: serde_json::Map<String, Value> = serde_json::from_str(text).unwrap_or_default();
    counts.iter().map(|(word, count)| format!("{count} {word}")).collect::<Vec<_>>().join(", ")
}

/// The text of a member; several paths in one are joined as written.
fn member(path: &str, row: &Value) -> String {
    let mut text = String::new();
    let mut word = String::new();
    let take = |word: &mut String, text: &mut String| {
        if !word.is_empty() {
            let found = word.split('.').try_fold(row, |value, key| value.get(key));
            text.push_str(&found.map(plain_text).unwrap_or_default());
            word.clear();
        }
    };
    for c in path.chars() {
        match c.is_ascii_alphanumeric() || matches!(c, '_' | '.') {
            true => word.push(c),
            false => {
                take(&mut word, &mut text);
                text.push(c);
            }
        }
    }
    take(&mut word, &mut text);
    text
}

fn plain_text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(items) if items.iter().all(Value::is_string) => {
            items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", ")
        }
        other => other.to_string(),
    }
}

/// A status is a word and a symbol, never a colour alone.
pub(crate) fn symbol(status: &str) -> &'static str {
    match status {
        "completed" | "active" => "✓",
        "faulted" => "✗",
        "cancelled" | "suspended" => "⊘",
        "cancelling" => "↺",
        "paused" => "‖",
        "waiting" | "claimed" => "◐",
        "running" => "●",
        _ => "○",
    }
}

fn color(status: &str) -> Color {
    match status {
        "completed" | "active" => Color::Green,
        "faulted" => Color::Red,
        "waiting" | "claimed" | "open" => Color::Yellow,
        "running" => Color::Blue,
        _ => Color::Grey,
    }
}

/// `3 min ago` for a point in time; the text itself if it is none.
pub(crate) fn relative(text: &str, now: Time) -> String {
    let Some(at) = Time::parse_rfc3339(text) else { return text.to_owned() };
    let micros = now.since(at).0;
    let length = span(micros.unsigned_abs() / 1_000_000);
    if micros >= 0 { format!("{length} ago") } else { format!("in {length}") }
}

fn span(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn members_are_found_and_joined() {
        let row =
            json!({"definition": {"namespace": "a", "name": "b", "version": "1.0.0"}, "n": 3, "x": null});
        assert_eq!(member("definition.namespace/definition.name@definition.version", &row), "a/b@1.0.0");
        assert_eq!(member("n", &row), "3");
        assert_eq!(member("x", &row), "");
        assert_eq!(member("absent.deeper", &row), "");
    }

    #[test]
    fn ids_of_everything() {
        assert_eq!(id_of(&json!({"id": "ins_1"})), "ins_1");
        assert_eq!(id_of(&json!({"namespace": "a", "name": "b", "version": "1.0.0"})), "a/b@1.0.0");
    }

    #[test]
    fn a_narrow_terminal_shows_fewer_columns_rather_than_stumps() {
        let all = [plain("id", "id"), state("status", "s"), plain("title", "t"), time("since", "c")];
        let widths = |column: &Column| if column.title == "id" { 36 } else { 12 };
        let kept = |width| {
            let mut columns: Vec<&Column> = all.iter().collect();
            leave_out(&mut columns, width, widths);
            columns.len()
        };
        assert_eq!([kept(200), kept(70), kept(66), kept(20)], [4, 3, 3, 2]);
    }

    #[test]
    fn data_does_not_steer_the_terminal() {
        assert_eq!(shown("\u{1b}[31mRED\u{9b}0m".to_owned()), "\\u{1b}[31mRED\\u{9b}0m");
        assert_eq!(shown("a\u{202e}b".to_owned()), "a\\u{202e}b", "nor turns its writing round");
        assert_eq!(shown("two\nlines\tand é".to_owned()), "two\nlines\tand é");
    }

    #[test]
    fn times_are_near_or_far() {
        let now = Time::parse_rfc3339("2026-01-31T12:00:00Z").unwrap();
        assert_eq!(relative("2026-01-31T11:59:30Z", now), "30 s ago");
        assert_eq!(relative("2026-01-31T13:00:00Z", now), "in 60 min");
        assert_eq!(relative("2026-01-21T12:00:00Z", now), "10 d ago");
        assert_eq!(relative("", now), "");
    }
}
