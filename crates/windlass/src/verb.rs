//! The client verbs, one file per noun, and what they share: lists, JSON arguments, lengths of time.
//!
//! A verb makes requests and shows answers. It decides nothing about workflows.

use crate::{
    client::{Answer, Ask, Client},
    failure::{Exit, Failure},
    out::{Format, Out},
    view::{self, Column, Page},
};
use machine::id::Kind;
use std::{io::Read, time::Duration};

pub(crate) mod acl;
pub(crate) mod admin;
pub(crate) mod api;
pub(crate) mod audit;
pub(crate) mod batch;
pub(crate) mod breaker;
pub(crate) mod bus;
pub(crate) mod dataset;
pub(crate) mod def;
pub(crate) mod delivery;
pub(crate) mod dev;
pub(crate) mod dlq;
pub(crate) mod error;
pub(crate) mod event;
mod event_type;
pub(crate) mod fmt;
pub(crate) mod graph;
pub(crate) mod instance;
pub(crate) mod key;
mod lines;
mod moving;
pub(crate) mod queue;
pub(crate) mod record;
pub(crate) mod record_kind;
pub(crate) mod schedule;
pub(crate) mod secret;
pub(crate) mod start;
pub(crate) mod tail;
pub(crate) mod task;
pub(crate) mod tenant;
pub(crate) mod version;
pub(crate) mod watch;
pub(crate) mod webhook;
pub(crate) mod worker;

/// What every verb needs.
pub(crate) struct Context {
    pub(crate) client: Client,
    pub(crate) out: Out,
}

/// How much of a list to show.
#[derive(clap::Args)]
pub(crate) struct ListArgs {
    /// Items per page, 1 to 200
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=200))]
    limit: Option<u16>,
    /// Where to begin: `next` of the page before
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
    /// All pages, not only the first
    #[arg(long)]
    all: bool,
}

/// What a list is filtered by.
#[derive(clap::Args)]
pub(crate) struct QueryArgs {
    /// Only what meets this query, such as 'status:faulted started:>-1h' (docs/queries.md)
    #[arg(long, short, value_name = "QUERY")]
    query: Option<String>,
}

impl QueryArgs {
    fn text(&self) -> Option<String> {
        self.query.clone()
    }
}

impl ListArgs {
    /// For lists that have one page.
    pub(crate) fn whole() -> ListArgs {
        ListArgs { limit: None, cursor: None, all: false }
    }
}

/// Most items a page holds; asked for when all pages are wanted.
const PAGE_MAX: u16 = 200;

/// Shows a list: one page, or all of them.
pub(crate) async fn list(
    context: &Context,
    args: &ListArgs,
    columns: &[Column],
    ask: impl Fn() -> Ask,
) -> Result<(), Failure> {
    let limit = args.limit.or(args.all.then_some(PAGE_MAX)).map(|limit| limit.to_string());
    let page = async |cursor: Option<String>| {
        context.client.ask(ask().query_if("limit", limit.clone()).query_if("cursor", cursor)).await
    };
    let mut answer = page(args.cursor.clone()).await?;
    let out = &context.out;
    if !args.all {
        if out.format == Format::Json {
            return out.data(&answer.body);
        }
        let Page { items, next } = Page::read(&answer.body)?;
        view::items(out, &items, columns)?;
        if let Some(next) = next {
            out.hint(&format!("there is more: --cursor {next}, or --all"));
        }
        return Ok(());
    }
    let mut collected = Vec::new();
    loop {
        let Page { items, next } = Page::read(&answer.body)?;
        match out.format {
            // Widths of a table and brackets of JSON need the whole.
            Format::Json | Format::Table => collected.extend(items),
            Format::Jsonl | Format::Id => view::items(out, &items, columns)?,
        }
        let Some(next) = next else { break };
        answer = page(Some(next)).await?;
    }
    match out.format {
        Format::Json => {
            let items: Vec<&str> = collected.iter().map(|item| item.get()).collect();
            out.line(&format!("{{\"items\":[{}],\"next\":null}}", items.join(",")))
        }
        Format::Table => view::items(out, &collected, columns),
        Format::Jsonl | Format::Id => Ok(()),
    }
}

/// The whole id of what a person typed the beginning of. What cannot be a beginning is the server's to judge.
pub(crate) async fn whole_id(
    context: &Context,
    list: &str,
    kind: Kind,
    typed: &str,
) -> Result<String, Failure> {
    let mark = kind.prefix();
    let digits = typed.strip_prefix(mark).and_then(|rest| rest.strip_prefix('_')).unwrap_or(typed);
    if digits.is_empty() || digits.len() >= 32 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Ok(typed.to_owned());
    }
    let answer = context.client.ask(Ask::get(list).query("id", typed).query("limit", "4")).await?;
    let Page { items, .. } = Page::read(&answer.body)?;
    let ids: Vec<String> = items
        .iter()
        .map(|item| Ok(view::id_of(&view::value(item.get().as_bytes())?)))
        .collect::<Result<_, Failure>>()?;
    match ids.as_slice() {
        [] => Err(Failure::new(Exit::NotFound, format!("no id here begins with {mark}_{digits}"))),
        [id] => Ok(id.clone()),
        several => {
            Err(Failure::usage(format!("several ids begin with {mark}_{digits}: {}", several.join(", ")))
                .hint("type more of it"))
        }
    }
}

/// A JSON value given as `@file`, `@-` (stdin) or itself.
pub(crate) fn read_json(argument: &str, flag: &str) -> Result<serde_json::Value, Failure> {
    let (text, from) = match argument.strip_prefix('@') {
        Some("-") => {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text)?;
            (text, "stdin".to_owned())
        }
        Some(path) => {
            let text = std::fs::read_to_string(path)
                .map_err(|error| Failure::usage(format!("cannot read {path}: {error}")))?;
            (text, path.to_owned())
        }
        None => (argument.to_owned(), flag.to_owned()),
    };
    // Checked here for the position in the file; the server checks the rest.
    serde_json::from_str(&text).map_err(|error| {
        let place = format!("{from}:{}:{}", error.line(), error.column());
        Failure::usage(format!("{place}: this is not JSON: {error}")).hint(
            "give JSON, or a file as @file.json; text needs double quotes inside the shell's single ones",
        )
    })
}

/// A length such as `30s`, `500ms`, `5m`, `2h`; a bare number is seconds.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let millis = match unit.trim() {
        "ms" => 1,
        "" | "s" => 1_000,
        "m" | "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err("give a length such as 30s, 500ms, 5m or 2h".to_owned()),
    };
    let number: u64 = number.parse().map_err(|_| "give a length such as 30s, 500ms, 5m or 2h".to_owned())?;
    number.checked_mul(millis).map(Duration::from_millis).ok_or_else(|| "that is too long".to_owned())
}

/// Makes a change and shows what came of it.
pub(crate) async fn change(
    context: &Context,
    ask: Ask,
    fields: &[Column],
    next: &str,
) -> Result<Answer, Failure> {
    let answer = context.client.ask(ask).await?;
    view::object(&context.out, &answer.body, fields)?;
    if !next.is_empty() {
        context.out.hint(next);
    }
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_time() {
        assert_eq!(duration("30s"), Ok(Duration::from_secs(30)));
        assert_eq!(duration("7"), Ok(Duration::from_secs(7)));
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("2h"), Ok(Duration::from_secs(7200)));
        for wrong in ["", "s", "-1s", "1y", "1.5s", "99999999999999999999s"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn bad_json_is_placed() {
        let failure = read_json("{\"a\": }", "--input").unwrap_err();
        assert!(failure.text().contains("--input:1:7"), "{}", failure.text());
    }
}
