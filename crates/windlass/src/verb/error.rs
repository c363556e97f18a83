//! `windlass error`: what failed for good, by what is alike.

use super::{Context, ListArgs, list};
use crate::{
    client::{Ask, segment},
    failure::Failure,
    view::{self, Column, plain, time},
};
use clap::Subcommand;

#[derive(Subcommand)]
pub(crate) enum Verb {
    /// List error groups, those seen last first
    #[command(
        after_long_help = "Examples:\n  windlass error list\n  windlass error list --worker charge --class communication -o json"
    )]
    List {
        /// Only of this worker, endpoint or definition
        #[arg(long)]
        worker: Option<String>,
        /// Only of this class, such as transient, validation or communication
        #[arg(long)]
        class: Option<String>,
        #[command(flatten)]
        page: ListArgs,
    },
    /// Show an error group with samples
    #[command(after_long_help = "Examples:\n  windlass error show err_9f86…")]
    Show {
        /// The whole id, as `error list` shows it
        #[arg(value_name = "ID")]
        id: String,
    },
}

const COLUMNS: &[Column] = &[
    plain("id", "id"),
    plain("worker", "worker"),
    plain("class", "class"),
    plain("count", "count"),
    time("last seen", "last_seen"),
    plain("message", "message"),
    plain("step", "step"),
    plain("source", "source"),
    time("first seen", "first_seen"),
];

const FIELDS: &[Column] = &[
    plain("id", "id"),
    plain("source", "source"),
    plain("worker", "worker"),
    plain("class", "class"),
    plain("step", "step"),
    plain("message", "message"),
    plain("count", "count"),
    time("first seen", "first_seen"),
    time("last seen", "last_seen"),
    plain("first", "first"),
    plain("samples", "samples"),
];

pub(crate) async fn run(verb: Verb, context: &Context) -> Result<(), Failure> {
    match verb {
        Verb::List { worker, class, page } => {
            let ask =
                || Ask::get("/errors").query_if("worker", worker.clone()).query_if("class", class.clone());
            list(context, &page, COLUMNS, ask).await
        }
        Verb::Show { id } => {
            let answer = context.client.ask(Ask::get(format!("/errors/{}", segment(&id)))).await?;
            view::object(&context.out, &answer.body, FIELDS)?;
            context.out.hint(&format!("what can be replayed of it: windlass dlq list --group {id}"));
            Ok(())
        }
    }
}
