//! `windlass tenant`: create and list tenants. Needs a platform key.

use super::{Context, ListArgs, change, list};
use crate::{
    client::Ask,
    failure::Failure,
    view::{Column, plain, state, time},
};
use clap::Subcommand;
use serde_json::json;

#[derive(Subcommand)]
pub(crate) enum Verb {
    /// Create a tenant
    #[command(after_long_help = "Examples:\n  windlass tenant create acme --title 'Acme Ltd'")]
    Create {
        /// 1 to 63 of a-z, 0-9 and '-'
        #[arg(value_name = "ID")]
        id: String,
        /// The id unless given
        #[arg(long)]
        title: Option<String>,
    },
    /// List tenants by id
    #[command(after_long_help = "Examples:\n  windlass tenant list -o id")]
    List {
        #[command(flatten)]
        page: ListArgs,
    },
}

const COLUMNS: &[Column] =
    &[plain("id", "id"), plain("title", "title"), state("status", "status"), time("created", "created_at")];

pub(crate) async fn run(verb: Verb, context: &Context) -> Result<(), Failure> {
    match verb {
        Verb::Create { id, title } => {
            let mut body = json!({ "id": id });
            if let Some(title) = title {
                body["title"] = title.into();
            }
            let next =
                format!("make its first key: windlass key create --tenant {id} --name admin --role admin");
            let fields = [plain("id", "id"), plain("title", "title")];
            change(context, Ask::post("/tenants").json(&body), &fields, &next).await.map(drop)
        }
        Verb::List { page } => list(context, &page, COLUMNS, || Ask::get("/tenants")).await,
    }
}
