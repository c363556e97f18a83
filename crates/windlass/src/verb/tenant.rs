//! `windlass tenant`: create, change and list tenants. Needs a platform key.

use super::{Context, ListArgs, change, list};
use crate::{
    client::{Ask, segment},
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
    /// Change a tenant's title or weight
    ///
    /// Where tenants wait for the same thing, one of weight 2 is given twice as much as one of weight 1. A change counts at
    /// once, for what is queued already too.
    #[command(after_long_help = "Examples:\n  windlass tenant change acme --weight 5")]
    Change {
        /// The tenant's id
        #[arg(value_name = "ID")]
        id: String,
        /// The new title
        #[arg(long, required_unless_present = "weight")]
        title: Option<String>,
        /// 1 to 1000; 1 unless changed
        #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000))]
        weight: Option<u32>,
    },
    /// List tenants by id
    #[command(after_long_help = "Examples:\n  windlass tenant list -o id")]
    List {
        #[command(flatten)]
        page: ListArgs,
    },
}

const COLUMNS: &[Column] = &[
    plain("id", "id"),
    plain("title", "title"),
    state("status", "status"),
    plain("weight", "weight"),
    time("created", "created_at"),
];

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
        Verb::Change { id, title, weight } => {
            let mut body = json!({});
            if let Some(title) = title {
                body["title"] = title.into();
            }
            if let Some(weight) = weight {
                body["weight"] = weight.into();
            }
            let fields = [plain("id", "id"), plain("title", "title"), plain("weight", "weight")];
            let ask = Ask::patch(format!("/tenants/{}", segment(&id))).json(&body);
            change(context, ask, &fields, "windlass tenant list").await.map(drop)
        }
        Verb::List { page } => list(context, &page, COLUMNS, || Ask::get("/tenants")).await,
    }
}
