//! `windlass schedule`: what starts by itself.

use super::{Context, ListArgs, change, list};
use crate::{
    client::{Ask, segment},
    failure::{Exit, Failure},
    out::Format,
    view::{self, Column, plain, state, time},
};
use clap::Subcommand;

#[derive(Subcommand)]
pub(crate) enum Verb {
    /// List schedules by name
    #[command(
        after_long_help = "Examples:\n  windlass schedule list\n  windlass schedule list --status paused -o id"
    )]
    List {
        #[arg(long)]
        namespace: Option<String>,
        /// active, paused or ended
        #[arg(long)]
        status: Option<String>,
        #[command(flatten)]
        page: ListArgs,
    },
    /// Show a schedule
    #[command(after_long_help = "Examples:\n  windlass schedule show examples/nightly")]
    Show {
        /// Id, or namespace/name of its definition
        #[arg(value_name = "SCHEDULE")]
        id: String,
    },
    /// List what became of its slots, newest first
    #[command(after_long_help = "Examples:\n  windlass schedule slots examples/nightly --limit 10")]
    Slots {
        /// Id, or namespace/name of its definition
        #[arg(value_name = "SCHEDULE")]
        id: String,
        #[command(flatten)]
        page: ListArgs,
    },
    /// Print its next times, one per line
    #[command(after_long_help = "Examples:\n  windlass schedule next examples/nightly --count 20")]
    Next {
        /// Id, or namespace/name of its definition
        #[arg(value_name = "SCHEDULE")]
        id: String,
        /// How many, up to 100
        #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u8).range(1..=100))]
        count: u8,
    },
    /// Hold it: nothing fires until it is resumed
    #[command(after_long_help = "Examples:\n  windlass schedule pause examples/nightly")]
    Pause {
        /// Id, or namespace/name of its definition
        #[arg(value_name = "SCHEDULE")]
        id: String,
    },
    /// Let it go on with its next slot
    #[command(after_long_help = "Examples:\n  windlass schedule resume examples/nightly")]
    Resume {
        /// Id, or namespace/name of its definition
        #[arg(value_name = "SCHEDULE")]
        id: String,
    },
    /// Start an instance now, beside its own slots
    #[command(after_long_help = "Examples:\n  windlass schedule trigger examples/nightly -o id")]
    Trigger {
        /// Id, or namespace/name of its definition
        #[arg(value_name = "SCHEDULE")]
        id: String,
    },
}

const COLUMNS: &[Column] = &[
    plain("id", "id"),
    plain("definition", "namespace/name"),
    plain("version", "version"),
    state("status", "status"),
    plain("kind", "kind"),
    plain("spec", "spec"),
    plain("zone", "time_zone"),
    time("next", "next_slot"),
    time("last", "last_slot"),
];

const FIELDS: &[Column] = &[
    plain("id", "id"),
    plain("definition", "namespace/name"),
    plain("version", "version"),
    state("status", "status"),
    plain("kind", "kind"),
    plain("spec", "spec"),
    plain("zone", "time_zone"),
    plain("missed", "missed"),
    time("last", "last_slot"),
    plain("waits for", "instance"),
    plain("next", "next"),
];

const SLOTS: &[Column] = &[
    plain("slot", "slot"),
    plain("outcome", "outcome"),
    plain("count", "count"),
    plain("instance", "instance"),
    plain("late ms", "late_ms"),
    plain("detail", "detail"),
];

const CHANGED: &[Column] = &[plain("id", "id"), state("status", "status"), time("next", "next_slot")];

pub(crate) async fn run(verb: Verb, context: &Context) -> Result<(), Failure> {
    match verb {
        Verb::List { namespace, status, page } => {
            let ask = || {
                Ask::get("/schedules")
                    .query_if("namespace", namespace.clone())
                    .query_if("status", status.clone())
            };
            list(context, &page, COLUMNS, ask).await
        }
        Verb::Show { id } => {
            let answer = context.client.ask(Ask::get(address(context, &id).await?)).await?;
            view::object(&context.out, &answer.body, FIELDS)
        }
        Verb::Slots { id, page } => {
            let path = format!("{}/slots", address(context, &id).await?);
            list(context, &page, SLOTS, || Ask::get(&path)).await
        }
        Verb::Next { id, count } => next(context, &id, count).await,
        Verb::Pause { id } => {
            let path = format!("{}/pause", address(context, &id).await?);
            let next = format!("let it go on: windlass schedule resume {id}");
            change(context, Ask::post(path), CHANGED, &next).await.map(drop)
        }
        Verb::Resume { id } => {
            let path = format!("{}/resume", address(context, &id).await?);
            change(context, Ask::post(path), CHANGED, "").await.map(drop)
        }
        Verb::Trigger { id } => {
            let path = format!("{}/trigger", address(context, &id).await?);
            let answer = context.client.ask(Ask::post(path)).await?;
            match context.out.format {
                Format::Id => {
                    let instance = view::value(&answer.body)?;
                    context.out.line(instance["instance"].as_str().unwrap_or_default())
                }
                _ => view::object(&context.out, &answer.body, &[plain("instance", "instance")]),
            }
        }
    }
}

async fn next(context: &Context, id: &str, count: u8) -> Result<(), Failure> {
    let ask = Ask::get(address(context, id).await?).query_if("next", Some(count.to_string()));
    let answer = context.client.ask(ask).await?;
    if matches!(context.out.format, Format::Json) {
        return context.out.data(&answer.body);
    }
    let schedule = view::value(&answer.body)?;
    let times = schedule["next"].as_array().cloned().unwrap_or_default();
    if times.is_empty() {
        context.out.hint("no time is known: it is paused, has ended, or waits for an instance or an event");
    }
    times.iter().try_for_each(|time| context.out.line(time.as_str().unwrap_or_default()))
}

/// The path of a schedule given by id or by the name of its definition.
async fn address(context: &Context, id: &str) -> Result<String, Failure> {
    let Some((namespace, name)) = id.split_once('/') else {
        return Ok(format!("/schedules/{}", segment(id)));
    };
    let ask = Ask::get("/schedules")
        .query_if("namespace", Some(namespace.to_owned()))
        .query_if("name", Some(name.to_owned()));
    let found = view::value(&context.client.ask(ask).await?.body)?;
    match found["items"][0]["id"].as_str() {
        Some(id) => Ok(format!("/schedules/{}", segment(id))),
        None => Err(Failure::new(Exit::NotFound, format!("{id} has no schedule"))),
    }
}
