//! `windlass secret`: values that calls need and nobody may read.

use super::{Context, ListArgs, change, list};
use crate::{
    client::{Ask, segment},
    failure::Failure,
    view::{Column, plain, time},
};
use clap::Subcommand;
use serde_json::{Value, json};
use std::{
    io::{IsTerminal, Read},
    path::PathBuf,
};

#[derive(Subcommand)]
pub(crate) enum Verb {
    /// Set a secret, from stdin or a file: command lines can be seen by others
    #[command(after_long_help = "Examples:\n  \
        windlass secret set api-key < key.txt\n  \
        windlass secret set api-key --file key.txt --host api.example.com\n  \
        printf '%s' '{\"username\":\"ann\",\"password\":\"…\"}' | windlass secret set shop --json\n\n\
        One line end at the end of the value is dropped.")]
    Set {
        name: String,
        /// Read the value from this file instead of stdin
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
        /// The value is JSON, such as an object with username and password
        #[arg(long)]
        json: bool,
        /// Host the secret may be sent to, such as api.example.com or *.example.com; may be given several times
        #[arg(long = "host", value_name = "HOST")]
        hosts: Vec<String>,
    },
    /// List secrets by name; values are never shown
    #[command(after_long_help = "Examples:\n  windlass secret list")]
    List,
    /// Delete a secret
    #[command(after_long_help = "Examples:\n  windlass secret delete api-key")]
    Delete { name: String },
}

const COLUMNS: &[Column] = &[
    plain("name", "name"),
    plain("version", "version"),
    plain("hosts", "hosts"),
    time("created", "created_at"),
    time("updated", "updated_at"),
];

pub(crate) async fn run(verb: Verb, context: &Context) -> Result<(), Failure> {
    match verb {
        Verb::Set { name, file, json, hosts } => {
            let value = read(file, json)?;
            let ask = Ask::put(format!("/secrets/{}", segment(&name)));
            let ask = ask.json(&json!({ "value": value, "hosts": hosts }));
            change(context, ask, COLUMNS, "name it in a definition: `use: { secrets: [ … ] }`")
                .await
                .map(drop)
        }
        Verb::List => {
            let page = ListArgs { limit: None, cursor: None, all: false };
            list(context, &page, COLUMNS, || Ask::get("/secrets")).await
        }
        Verb::Delete { name } => {
            context.client.ask(Ask::delete(format!("/secrets/{}", segment(&name)))).await?;
            context.out.note(&format!("{name} is deleted"));
            Ok(())
        }
    }
}

fn read(file: Option<PathBuf>, is_json: bool) -> Result<Value, Failure> {
    let text = match file {
        Some(path) => std::fs::read_to_string(&path)
            .map_err(|error| Failure::usage(format!("cannot read {}: {error}", path.display())))?,
        None => {
            if std::io::stdin().is_terminal() {
                crate::out::note("type the value, then end with Ctrl-D");
            }
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text)?;
            text
        }
    };
    let text = text.strip_suffix('\n').map_or(text.as_str(), |text| text.strip_suffix('\r').unwrap_or(text));
    match is_json {
        // The message must not repeat the value.
        true => serde_json::from_str(text).map_err(|error| {
            Failure::usage(format!(
                "the value is not JSON at line {}, column {}",
                error.line(),
                error.column()
            ))
        }),
        false => Ok(Value::String(text.to_owned())),
    }
}
