//! `windlass event`: events addressed to nobody.

use super::{Context, ListArgs, QueryArgs, event_type, lines, list, read_json, tail};
use crate::{
    client::{Ask, segment},
    failure::Failure,
    out::Format,
    view::{self, Column, plain, time},
};
use clap::Subcommand;
use machine::Time;
use runtime::clock::{Clock, Dice, Entropy, SystemClock};
use serde_json::{Value, json};

#[derive(Subcommand)]
pub(crate) enum Verb {
    /// Publish an event: listen steps that match are told, schedules with `on` start
    #[command(after_long_help = "Examples:\n  \
        windlass event publish com.example.order.paid --data '{\"order\": \"o-1\"}'\n  \
        windlass event publish com.example.order.paid --id pay-77 --source https://shop.example/pay --data @paid.json\n  \
        windlass event publish --file events.json          CloudEvents as JSON, one or an array\n  \
        windlass event publish --lines events.ndjson       one on each line, as many as there are\n\n\
        Publishing again with the same source and id has no second effect.")]
    Publish {
        /// Type of the event
        #[arg(value_name = "TYPE", required_unless_present_any = ["file", "lines"])]
        event_type: Option<String>,
        /// Data as JSON, @file or @- for stdin
        #[arg(long, value_name = "JSON|@FILE", conflicts_with = "file")]
        data: Option<String>,
        /// A fresh one unless given
        #[arg(long, conflicts_with = "file")]
        id: Option<String>,
        #[arg(long, default_value = "windlass/cli", conflicts_with = "file")]
        source: String,
        #[arg(long, conflicts_with = "file")]
        subject: Option<String>,
        /// Whole events from a file, - for stdin
        #[arg(long, value_name = "FILE", conflicts_with = "event_type")]
        file: Option<String>,
        /// Whole events, one on each line, from a file of any length; - for stdin
        #[arg(long, value_name = "FILE", conflicts_with_all = ["event_type", "file", "data", "id", "source", "subject"])]
        lines: Option<String>,
    },
    /// List events, newest first
    #[command(after_long_help = "Examples:\n  \
        windlass event list --type com.example.order.paid\n  \
        windlass event list -q 'trace:4bf92f3577b34da6a3ce929d0e0e4736'       all that one trace went through\n  \
        windlass event list -q 'correlation:c-9 received:>-1h'")]
    List {
        #[command(flatten)]
        query: QueryArgs,
        #[arg(long = "type", value_name = "TYPE")]
        event_type: Option<String>,
        #[arg(long)]
        source: Option<String>,
        #[command(flatten)]
        page: ListArgs,
    },
    /// Follow events in the order of their commits, from the oldest one that is kept
    #[command(after_long_help = "Examples:\n  \
        windlass event tail --type com.example.order.paid\n  \
        windlass event tail -o jsonl --after \"$CURSOR\"        go on where the last line's `cursor` stood\n\n\
        No event is left out: one that commits late comes late.")]
    Tail(tail::Args),
    /// Say what the data of a type of events has to look like
    #[command(subcommand, alias = "types")]
    Type(event_type::Verb),
    /// Show an event: what matched, or why nothing did
    #[command(after_long_help = "Examples:\n  \
        windlass event show evt_0192…\n  \
        windlass event show pay-77 --source https://shop.example/pay       by the name its publisher gave it")]
    Show {
        /// The id that publishing answered; with --source the id of the event itself
        #[arg(value_name = "ID")]
        id: String,
        /// The event's source
        #[arg(long)]
        source: Option<String>,
    },
}

const COLUMNS: &[Column] = &[
    plain("id", "id"),
    plain("type", "type"),
    plain("source", "source"),
    plain("event id", "event_id"),
    plain("told", "told"),
    plain("taken", "taken"),
    plain("started", "started"),
    plain("delivered", "delivered"),
    time("received", "received_at"),
];

const FIELDS: &[Column] = &[
    plain("id", "id"),
    plain("type", "type"),
    plain("source", "source"),
    plain("event id", "event_id"),
    time("received", "received_at"),
    plain("verdict", "verdict"),
    plain("workers", "workers"),
    time("kept until", "kept_until"),
    plain("event", "event"),
];

const PUBLISHED: &[Column] =
    &[plain("id", "id"), plain("published before", "replayed"), plain("started", "started")];

pub(crate) async fn run(verb: Verb, context: &Context) -> Result<(), Failure> {
    match verb {
        Verb::Publish { lines: Some(file), .. } => lines::publish(context, &file).await,
        Verb::Publish { event_type, data, id, source, subject, file, lines: None } => {
            let body = match (file, event_type) {
                (Some(file), _) => read_json(&format!("@{file}"), "--file")?,
                (None, event_type) => {
                    let data = data.map(|data| read_json(&data, "--data")).transpose()?;
                    let now = SystemClock.now();
                    let id = id.unwrap_or_else(|| Dice::from_os().id(now).to_string());
                    event(&id, &source, &event_type.unwrap_or_default(), subject, data, now)
                }
            };
            publish(context, &body).await
        }
        Verb::List { query, event_type, source, page } => {
            let ask = || {
                let ask = Ask::get("/events").query_if("q", query.text());
                ask.query_if("type", event_type.clone()).query_if("source", source.clone())
            };
            list(context, &page, COLUMNS, ask).await
        }
        Verb::Type(verb) => event_type::run(verb, context).await,
        Verb::Tail(args) => tail::follow(context, args).await,
        Verb::Show { id, source } => {
            let ask = match source {
                Some(source) => Ask::get("/events/by-name").query("source", source).query("id", id),
                None => Ask::get(format!("/events/{}", segment(&id))),
            };
            let answer = context.client.ask(ask).await?;
            view::object(&context.out, &answer.body, FIELDS)
        }
    }
}

fn event(
    id: &str,
    source: &str,
    event_type: &str,
    subject: Option<String>,
    data: Option<Value>,
    now: Time,
) -> Value {
    let mut event = json!({ "specversion": "1.0", "id": id, "source": source, "type": event_type, "time": now.rfc3339() });
    if let Some(subject) = subject {
        event["subject"] = subject.into();
    }
    if let Some(data) = data {
        event["datacontenttype"] = "application/json".into();
        event["data"] = data;
    }
    event
}

async fn publish(context: &Context, body: &Value) -> Result<(), Failure> {
    let answer = context.client.ask(Ask::post("/events").json(body)).await?;
    if context.out.format == Format::Json {
        return context.out.data(&answer.body);
    }
    let page = view::Page::read(&answer.body)?;
    match page.items.as_slice() {
        [one] => view::object(&context.out, one.get().as_bytes(), PUBLISHED)?,
        items => view::items(&context.out, items, PUBLISHED)?,
    }
    context.out.hint("what became of it: windlass event show ID");
    Ok(())
}
