//! `windlass record-kind`: what bodies of records look like, and what lists of them go by.

use super::{Context, ListArgs, change, list, read_json};
use crate::{
    client::{Ask, segment},
    failure::Failure,
    view::{self, Column, plain, time},
};
use clap::Subcommand;
use serde_json::{Value, json};

#[derive(Subcommand)]
pub(crate) enum Verb {
    /// Make or change a kind
    #[command(after_long_help = "Examples:\n  \
        windlass record-kind set order --list-by status=/status --list-by total=/total --schema @order.schema.json")]
    Set {
        name: String,
        /// JSON Schema of bodies as JSON, @file or @- for stdin
        #[arg(long, value_name = "JSON|@FILE")]
        schema: Option<String>,
        /// What lists can be filtered and sorted by; may be given several times
        #[arg(long = "list-by", value_name = "NAME=POINTER", value_parser = key)]
        keys: Vec<(String, String)>,
    },
    /// List kinds
    #[command(after_long_help = "Examples:\n  windlass record-kind list")]
    List,
    /// Show a kind
    #[command(after_long_help = "Examples:\n  windlass record-kind show order")]
    Show { name: String },
    /// Forget a kind that no record is of
    #[command(after_long_help = "Examples:\n  windlass record-kind delete order")]
    Delete { name: String },
}

const COLUMNS: &[Column] = &[
    plain("name", "name"),
    plain("version", "version"),
    plain("keys", "keys"),
    time("updated", "updated_at"),
];

const FIELDS: &[Column] = &[
    plain("name", "name"),
    plain("version", "version"),
    plain("keys", "keys"),
    time("created", "created_at"),
    time("updated", "updated_at"),
    plain("schema", "schema"),
];

fn key(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').ok_or("a key is a name, = and a JSON pointer, such as status=/status")?;
    Ok((pair.0.to_owned(), pair.1.to_owned()))
}

pub(crate) async fn run(verb: Verb, context: &Context) -> Result<(), Failure> {
    let path = |name: &str| format!("/record-kinds/{}", segment(name));
    match verb {
        Verb::Set { name, schema, keys } => {
            let schema = schema.map(|schema| read_json(&schema, "--schema")).transpose()?;
            let keys: Vec<Value> =
                keys.iter().map(|(name, path)| json!({ "name": name, "path": path })).collect();
            let ask = Ask::put(path(&name)).json(&json!({ "schema": schema, "keys": keys }));
            change(context, ask, FIELDS, "").await.map(drop)
        }
        Verb::List => list(context, &ListArgs::whole(), COLUMNS, || Ask::get("/record-kinds")).await,
        Verb::Show { name } => {
            let answer = context.client.ask(Ask::get(path(&name))).await?;
            view::object(&context.out, &answer.body, FIELDS)
        }
        Verb::Delete { name } => {
            context.client.ask(Ask::delete(path(&name))).await?;
            context.out.note(&format!("{name} is gone"));
            Ok(())
        }
    }
}
