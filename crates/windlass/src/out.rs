//! The one place that writes to the terminal: data to stdout, everything else to stderr.
//!
//! A reader that goes away (`windlass instance list | head -1`) ends the command quietly.

use crate::failure::{Exit, Failure};
use clap::ValueEnum;
use std::io::{self, IsTerminal, Write};

/// What stdout is to look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// A table on a terminal, tab-separated values without a heading when piped.
    Table,
    /// The API's JSON, unchanged.
    Json,
    /// One JSON value per line.
    Jsonl,
    /// Ids only, one per line.
    Id,
}

/// How to write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Out {
    pub(crate) format: Format,
    /// Stdout is a terminal: tables, symbols, relative times.
    pub(crate) tty: bool,
    pub(crate) color: bool,
}

impl Out {
    pub(crate) fn new(format: Format) -> Out {
        let tty = io::stdout().is_terminal();
        let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Out { format, tty, color: tty && !no_color }
    }

    /// Writes bytes to stdout as they are, ending the line if they do not.
    pub(crate) fn data(&self, bytes: &[u8]) -> Result<(), Failure> {
        let mut stdout = io::stdout().lock();
        let end: &[u8] = if bytes.ends_with(b"\n") { b"" } else { b"\n" };
        let written =
            stdout.write_all(bytes).and_then(|()| stdout.write_all(end)).and_then(|()| stdout.flush());
        written.map_err(|error| match error.kind() {
            // As a process that SIGPIPE ends.
            io::ErrorKind::BrokenPipe => Failure::silent(Exit::Failed),
            _ => Failure::failed(format!("cannot write the output: {error}")),
        })
    }

    pub(crate) fn line(&self, text: &str) -> Result<(), Failure> {
        self.data(text.as_bytes())
    }

    /// Says something beside the data.
    pub(crate) fn note(&self, text: &str) {
        note(text);
    }

    /// Suggests the next step after a change; scripts are spared it.
    pub(crate) fn hint(&self, text: &str) {
        if self.format == Format::Table {
            note(&format!("→ {text}"));
        }
    }
}

/// Writes a line to stderr.
pub(crate) fn note(text: &str) {
    // Nobody is left to tell when stderr is gone.
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Prints how a command failed.
pub(crate) fn failure(failure: &Failure, format: Format) {
    if let (Format::Json | Format::Jsonl, Some(body)) = (format, failure.body()) {
        return note(&String::from_utf8_lossy(body));
    }
    let text = failure.text();
    if !text.is_empty() {
        note(&text);
    }
}
