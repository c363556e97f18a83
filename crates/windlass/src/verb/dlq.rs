//! `windlass dlq`: dead letters, what could not be done.

use super::{
    Context, ListArgs, QueryArgs,
    batch::{self, PaceArgs},
    list,
};
use crate::{
    client::{Ask, segment},
    failure::Failure,
    out::Format,
    view::{self, Column, plain, time},
};
use clap::Subcommand;
use machine::id::Kind;
use serde_json::{Value, json};

#[derive(Subcommand)]
pub(crate) enum Verb {
    /// List dead letters, newest first
    #[command(
        after_long_help = "Examples:\n  windlass dlq list\n  windlass dlq list --reason retries-exhausted --source call -o id\n  windlass dlq list -q 'worker:mail error~refused failed:>-1h'"
    )]
    List {
        #[command(flatten)]
        query: QueryArgs,
        /// deserialization, definition-missing, snapshot-inconsistent, retries-exhausted, saga-stuck, refused, poison or loop
        #[arg(long)]
        reason: Option<String>,
        /// signal, timer, call or saga
        #[arg(long)]
        source: Option<String>,
        /// Only calls to this worker, or http
        #[arg(long)]
        worker: Option<String>,
        /// Only those of this instance
        #[arg(long, value_name = "ID")]
        instance: Option<String>,
        /// Only those of this error group
        #[arg(long, value_name = "ID")]
        group: Option<String>,
        #[command(flatten)]
        page: ListArgs,
    },
    /// Count dead letters by what is alike, the group with the newest first
    #[command(after_long_help = "Examples:\n  windlass dlq groups\n  windlass dlq list --group err_9f86…")]
    Groups {
        #[command(flatten)]
        page: ListArgs,
    },
    /// Show a dead letter and what it carried
    #[command(after_long_help = "Examples:\n  windlass dlq show dl_0192…")]
    Show {
        #[arg(value_name = "ID")]
        id: String,
    },
    /// Put dead letters back where they came from, with their original keys, or with other data
    ///
    /// A whole group, or all that a query finds, is put back by a batch; with --ramp one first, then ten, then a hundred,
    /// then the rest, halting as soon as one fails again.
    #[command(
        after_long_help = "Examples:\n  windlass dlq replay dl_0192…\n  windlass dlq replay --group err_9f86… --ramp --follow\n  windlass dlq replay -q 'worker:mail failed:>-1d' --rate 20 --yes\n  windlass dlq replay dl_0192… --data '{\"order\": \"o-1\"}'"
    )]
    Replay {
        /// Give the worker this data instead: JSON, @file or @- for stdin; for one dead letter of a delivery
        #[arg(long, conflicts_with_all = ["group", "query"])]
        data: Option<String>,
        /// All of this error group
        #[arg(long, value_name = "ID", conflicts_with = "ids")]
        group: Option<String>,
        /// All that meet this query (docs/queries.md)
        #[arg(long, short, value_name = "QUERY", conflicts_with = "ids")]
        query: Option<String>,
        /// A few first, and more only if those go well
        #[arg(long, conflicts_with = "ids")]
        ramp: bool,
        #[command(flatten)]
        pace: PaceArgs,
        #[arg(required_unless_present_any = ["group", "query"], value_name = "ID")]
        ids: Vec<String>,
    },
    /// Give dead letters up for good
    #[command(
        after_long_help = "Examples:\n  windlass dlq discard dl_0192…\n  windlass dlq discard dl_0192… --reason 'a test order'"
    )]
    Discard {
        /// Why; history keeps it
        #[arg(long)]
        reason: Option<String>,
        #[arg(required = true, value_name = "ID")]
        ids: Vec<String>,
    },
}

const COLUMNS: &[Column] = &[
    plain("id", "id"),
    plain("reason", "reason"),
    time("failed", "failed_at"),
    plain("worker", "worker"),
    plain("detail", "detail"),
    plain("source", "source"),
    plain("instance", "instance"),
    plain("attempts", "attempts"),
];

const GROUPS: &[Column] = &[
    plain("letters", "letters"),
    plain("worker", "group.worker"),
    plain("class", "group.class"),
    time("last failed", "last_failed"),
    plain("message", "group.message"),
    plain("newest", "newest"),
    plain("group", "group.id"),
    time("first failed", "first_failed"),
];

const FIELDS: &[Column] = &[
    plain("id", "id"),
    plain("source", "source"),
    plain("reason", "reason"),
    plain("worker", "worker"),
    plain("detail", "detail"),
    plain("instance", "instance"),
    plain("attempts", "attempts"),
    plain("group", "group"),
    plain("node", "last_node"),
    time("failed", "failed_at"),
    plain("origin", "origin"),
    plain("envelope", "envelope"),
    plain("envelope", "envelope_text"),
];

pub(crate) async fn run(verb: Verb, context: &Context) -> Result<(), Failure> {
    match verb {
        Verb::List { query, reason, source, worker, instance, group, page } => {
            let ask = || {
                Ask::get("/dead-letters")
                    .query_if("q", query.text())
                    .query_if("reason", reason.clone())
                    .query_if("source", source.clone())
                    .query_if("worker", worker.clone())
                    .query_if("instance", instance.clone())
                    .query_if("group", group.clone())
            };
            list(context, &page, COLUMNS, ask).await
        }
        Verb::Groups { page } => list(context, &page, GROUPS, || Ask::get("/dead-letters/groups")).await,
        Verb::Show { id } => {
            let id = whole(context, &id).await?;
            let answer = context.client.ask(Ask::get(format!("/dead-letters/{}", segment(&id)))).await?;
            view::object(&context.out, &answer.body, FIELDS)?;
            context.out.hint(&format!("once the cause is gone: windlass dlq replay {id}"));
            Ok(())
        }
        Verb::Replay { ids: _, data: _, group, query, ramp, pace } if group.is_some() || query.is_some() => {
            let group = group.map(|group| format!("group:{group}"));
            let query: Vec<String> = group.into_iter().chain(query).collect();
            batch::create(context, json!({ "act": "replay", "q": query.join(" "), "ramp": ramp }), &pace)
                .await
        }
        Verb::Replay { ids, data, .. } => {
            if data.is_some() && ids.len() > 1 {
                return Err(Failure::usage("--data is for one dead letter at a time"));
            }
            let data = data.map(|data| super::read_json(&data, "--data")).transpose()?;
            act(context, &ids, "replay", data.map(|data| json!({ "data": data }))).await
        }
        Verb::Discard { ids, reason } => {
            act(context, &ids, "discard", reason.map(|reason| json!({ "reason": reason }))).await
        }
    }
}

async fn whole(context: &Context, id: &str) -> Result<String, Failure> {
    super::whole_id(context, "/dead-letters", Kind::DeadLetter, id).await
}

async fn act(context: &Context, ids: &[String], verb: &str, body: Option<Value>) -> Result<(), Failure> {
    let bar = super::def::progress(ids.len() as u64, "dead letters");
    for id in ids {
        let id = &whole(context, id).await?;
        let ask = Ask::post(format!("/dead-letters/{}/{verb}", segment(id)));
        let ask = match &body {
            Some(body) => ask.json(body),
            None => ask,
        };
        let answer = context.client.ask(ask).await?;
        bar.suspend(|| match context.out.format {
            Format::Table => context.out.line(&format!("{id}\t{}", status(&answer.body))),
            Format::Id => context.out.line(id),
            Format::Json | Format::Jsonl => context.out.data(&answer.body),
        })?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    context.out.hint("what is left: windlass dlq list");
    Ok(())
}

fn status(body: &[u8]) -> String {
    let status = view::value(body).ok().and_then(|answer| answer["status"].as_str().map(str::to_owned));
    status.unwrap_or_else(|| "done".to_owned())
}
