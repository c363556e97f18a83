//! `windlass dlq`: dead letters, what could not be done.

use super::{Context, ListArgs, list};
use crate::{
    client::{Ask, segment},
    failure::Failure,
    out::Format,
    view::{self, Column, plain, time},
};
use clap::Subcommand;
use machine::id::Kind;

#[derive(Subcommand)]
pub(crate) enum Verb {
    /// List dead letters, newest first
    #[command(
        after_long_help = "Examples:\n  windlass dlq list\n  windlass dlq list --reason retries-exhausted --source call -o id"
    )]
    List {
        /// deserialization, definition-missing, snapshot-inconsistent, retries-exhausted or saga-stuck
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
        #[command(flatten)]
        page: ListArgs,
    },
    /// Show a dead letter and what it carried
    #[command(after_long_help = "Examples:\n  windlass dlq show dl_0192…")]
    Show {
        #[arg(value_name = "ID")]
        id: String,
    },
    /// Put dead letters back where they came from, with their original keys
    #[command(
        after_long_help = "Examples:\n  windlass dlq replay dl_0192…\n  windlass dlq replay $(windlass dlq list --worker charge --all -o id)"
    )]
    Replay {
        #[arg(required = true, value_name = "ID")]
        ids: Vec<String>,
    },
    /// Give dead letters up for good
    #[command(after_long_help = "Examples:\n  windlass dlq discard dl_0192…")]
    Discard {
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

const FIELDS: &[Column] = &[
    plain("id", "id"),
    plain("source", "source"),
    plain("reason", "reason"),
    plain("worker", "worker"),
    plain("detail", "detail"),
    plain("instance", "instance"),
    plain("attempts", "attempts"),
    plain("node", "last_node"),
    time("failed", "failed_at"),
    plain("origin", "origin"),
    plain("envelope", "envelope"),
    plain("envelope", "envelope_text"),
];

pub(crate) async fn run(verb: Verb, context: &Context) -> Result<(), Failure> {
    match verb {
        Verb::List { reason, source, worker, instance, page } => {
            let ask = || {
                Ask::get("/dead-letters")
                    .query_if("reason", reason.clone())
                    .query_if("source", source.clone())
                    .query_if("worker", worker.clone())
                    .query_if("instance", instance.clone())
            };
            list(context, &page, COLUMNS, ask).await
        }
        Verb::Show { id } => {
            let id = whole(context, &id).await?;
            let answer = context.client.ask(Ask::get(format!("/dead-letters/{}", segment(&id)))).await?;
            view::object(&context.out, &answer.body, FIELDS)?;
            context.out.hint(&format!("once the cause is gone: windlass dlq replay {id}"));
            Ok(())
        }
        Verb::Replay { ids } => act(context, &ids, "replay").await,
        Verb::Discard { ids } => act(context, &ids, "discard").await,
    }
}

async fn whole(context: &Context, id: &str) -> Result<String, Failure> {
    super::whole_id(context, "/dead-letters", Kind::DeadLetter, id).await
}

async fn act(context: &Context, ids: &[String], verb: &str) -> Result<(), Failure> {
    let bar = super::def::progress(ids.len() as u64, "dead letters");
    for id in ids {
        let id = &whole(context, id).await?;
        let ask = Ask::post(format!("/dead-letters/{}/{verb}", segment(id)));
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
