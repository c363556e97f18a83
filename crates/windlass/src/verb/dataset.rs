//! `windlass dataset`: items for fan-outs, and their results.

use super::{Context, ListArgs, change, list};
use crate::{
    client::{Ask, segment},
    failure::Failure,
    view::{self, Column, plain, time},
};
use clap::Subcommand;
use std::{io::Read, time::Duration};

/// How long an upload may take beyond what any answer may.
const UPLOAD_TIMEOUT: Duration = Duration::from_secs(1800);

#[derive(Subcommand)]
pub(crate) enum Verb {
    /// Upload items, one JSON value per line; a `map` step takes the id it prints
    #[command(after_long_help = "Examples:\n  \
        windlass dataset upload invoices.ndjson\n  \
        jq -c '.[]' invoices.json | windlass dataset upload - -o id")]
    Upload {
        /// A file of lines, or - for stdin
        #[arg(value_name = "FILE")]
        file: String,
    },
    /// Show how many items a dataset has
    #[command(after_long_help = "Examples:\n  windlass dataset show ds_0192…")]
    Show {
        #[arg(value_name = "ID")]
        id: String,
    },
    /// List the items of a dataset, or the results of a map step, in order
    #[command(after_long_help = "Examples:\n  windlass dataset items ds_0192… --all -o jsonl")]
    Items {
        #[arg(value_name = "ID")]
        id: String,
        #[command(flatten)]
        page: ListArgs,
    },
}

const FIELDS: &[Column] = &[plain("id", "id"), plain("items", "count"), time("created", "created_at")];
const RESULTS: &[Column] =
    &[plain("index", "index"), plain("status", "status"), plain("output", "output"), plain("error", "error")];

pub(crate) async fn run(verb: Verb, context: &Context) -> Result<(), Failure> {
    match verb {
        Verb::Upload { file } => {
            let mut lines = Vec::new();
            match file.as_str() {
                "-" => std::io::stdin().read_to_end(&mut lines).map(drop)?,
                path => {
                    lines = std::fs::read(path)
                        .map_err(|error| Failure::usage(format!("cannot read {path}: {error}")))?;
                }
            }
            let ask = Ask::post("/datasets").body("application/x-ndjson", lines).patience(UPLOAD_TIMEOUT);
            change(context, ask, FIELDS, "a map step takes the id as its items").await.map(drop)
        }
        Verb::Show { id } => {
            let answer = context.client.ask(Ask::get(format!("/datasets/{}", segment(&id)))).await?;
            view::object(&context.out, &answer.body, FIELDS)
        }
        Verb::Items { id, page } => {
            let ask = || Ask::get(format!("/datasets/{}/items", segment(&id)));
            list(context, &page, RESULTS, ask).await
        }
    }
}
