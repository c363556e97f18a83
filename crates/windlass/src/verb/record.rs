//! `windlass record`: a tenant's own entities.

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
    /// Make a record
    #[command(after_long_help = "Examples:\n  \
        windlass record create --kind order --id o-1 --body '{\"status\": \"open\"}'\n  \
        windlass record create --kind page --parent folder-7 --body @page.json --acl @grants.json")]
    Create {
        #[arg(long)]
        kind: String,
        /// A fresh one unless given
        #[arg(long)]
        id: Option<String>,
        /// The record that it is below
        #[arg(long, value_name = "ID")]
        parent: Option<String>,
        /// The body as JSON, @file or @- for stdin
        #[arg(long, value_name = "JSON|@FILE")]
        body: String,
        /// Grants as JSON, @file or @- for stdin
        #[arg(long, value_name = "JSON|@FILE")]
        acl: Option<String>,
    },
    /// List records, by id or by a key of their kind
    #[command(after_long_help = "Examples:\n  \
        windlass record list --kind order --filter '{\"status\": \"open\", \"total\": {\">=\": 100}}' --sort -total\n  \
        windlass record list --parent folder-7 --all")]
    List {
        #[arg(long)]
        kind: Option<String>,
        /// Only those below this record
        #[arg(long, value_name = "ID")]
        parent: Option<String>,
        /// Keys and what they must be, as JSON
        #[arg(long, value_name = "JSON")]
        filter: Option<String>,
        /// A key of the kind; - in front for the largest first
        #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
        sort: Option<String>,
        #[command(flatten)]
        page: ListArgs,
    },
    /// Show a record
    #[command(after_long_help = "Examples:\n  windlass record show o-1")]
    Show { id: String },
    /// Change the body, the parent or the grants of a record
    #[command(after_long_help = "Examples:\n  \
        windlass record set o-1 --body '{\"status\": \"paid\"}' --if-version 3\n  \
        windlass record set page-1 --parent folder-8\n  \
        windlass record set folder-8 --top --acl '{\"grants\": [{\"to\": \"group:sales\", \"rights\": [\"read\"]}]}'")]
    Set {
        id: String,
        #[arg(long, value_name = "JSON|@FILE")]
        body: Option<String>,
        #[arg(long, value_name = "ID")]
        parent: Option<String>,
        /// It is below nothing
        #[arg(long, conflicts_with = "parent")]
        top: bool,
        #[arg(long, value_name = "JSON|@FILE")]
        acl: Option<String>,
        /// Only if it is at this version
        #[arg(long, value_name = "VERSION")]
        if_version: Option<i64>,
    },
    /// Delete a record that has nothing below it
    #[command(after_long_help = "Examples:\n  windlass record delete o-1")]
    Delete {
        id: String,
        /// Only if it is at this version
        #[arg(long, value_name = "VERSION")]
        if_version: Option<i64>,
    },
}

const COLUMNS: &[Column] = &[
    plain("id", "id"),
    plain("kind", "kind"),
    plain("parent", "parent"),
    plain("version", "version"),
    time("updated", "updated_at"),
];

const FIELDS: &[Column] = &[
    plain("id", "id"),
    plain("kind", "kind"),
    plain("parent", "parent"),
    plain("version", "version"),
    time("created", "created_at"),
    time("updated", "updated_at"),
    plain("body", "body"),
    plain("acl", "acl"),
    plain("effective", "effective"),
];

pub(crate) async fn run(verb: Verb, context: &Context) -> Result<(), Failure> {
    let path = |id: &str| format!("/records/{}", segment(id));
    let tag = |version: Option<i64>| version.map(|version| format!("\"{version}\""));
    match verb {
        Verb::Create { kind, id, parent, body, acl } => {
            let (body, acl) = (read_json(&body, "--body")?, grants(acl)?);
            let wanted = json!({ "kind": kind, "id": id, "parent": parent, "body": body, "acl": acl });
            change(context, Ask::post("/records").json(&wanted), FIELDS, "").await.map(drop)
        }
        Verb::List { kind, parent, filter, sort, page } => {
            let ask = || {
                let ask =
                    Ask::get("/records").query_if("kind", kind.clone()).query_if("parent", parent.clone());
                ask.query_if("filter", filter.clone()).query_if("sort", sort.clone())
            };
            list(context, &page, COLUMNS, ask).await
        }
        Verb::Show { id } => {
            let answer = context.client.ask(Ask::get(path(&id))).await?;
            view::object(&context.out, &answer.body, FIELDS)
        }
        Verb::Set { id, body, parent, top, acl, if_version } => {
            let mut wanted = serde_json::Map::new();
            if let Some(body) = body {
                wanted.insert("body".to_owned(), read_json(&body, "--body")?);
            }
            if top || parent.is_some() {
                wanted.insert("parent".to_owned(), json!(parent));
            }
            if let Some(acl) = grants(acl)? {
                wanted.insert("acl".to_owned(), acl);
            }
            let ask = Ask::put(path(&id)).header_if("If-Match", tag(if_version)).json(&Value::Object(wanted));
            change(context, ask, FIELDS, "").await.map(drop)
        }
        Verb::Delete { id, if_version } => {
            context.client.ask(Ask::delete(path(&id)).header_if("If-Match", tag(if_version))).await?;
            context.out.note(&format!("{id} is gone"));
            Ok(())
        }
    }
}

fn grants(acl: Option<String>) -> Result<Option<Value>, Failure> {
    acl.map(|acl| read_json(&acl, "--acl")).transpose()
}
