//! Follows the feed of events: one line per event, in the order of their commits, none left out.

use super::Context;
use crate::{
    client::Ask,
    failure::Failure,
    out::Format,
    view::{self, Page},
};
use serde_json::Value;
use std::time::Duration;

/// How long to wait before looking again when nothing has followed.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Which events to show, and from where on.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Go on behind this event: the `cursor` of an item of the feed
    #[arg(long, value_name = "CURSOR")]
    after: Option<String>,
    /// Only events of this type
    #[arg(long = "type", value_name = "TYPE")]
    event_type: Option<String>,
    /// End where the feed ends now
    #[arg(long)]
    no_follow: bool,
}

/// Prints what the feed holds and what follows, until somebody ends it.
pub(crate) async fn follow(context: &Context, args: Args) -> Result<(), Failure> {
    let mut after = args.after;
    loop {
        let ask = Ask::get("/feed").query("limit", "200").query_if("after", after.clone());
        let Page { items, next } = Page::read(&context.client.ask(ask).await?.body)?;
        let idle = items.is_empty();
        for item in items {
            let event = view::value(item.get().as_bytes())?;
            if args.event_type.as_ref().is_some_and(|wanted| event["type"] != wanted.as_str()) {
                continue;
            }
            match context.out.format {
                Format::Table => context.out.line(&line(&event))?,
                Format::Json | Format::Jsonl => context.out.line(item.get())?,
                Format::Id => context.out.line(&view::id_of(&event))?,
            }
        }
        after = next.or(after);
        if idle && args.no_follow {
            return Ok(());
        }
        if idle {
            // Nothing ever comes here: this only waits.
            let _ = tokio::time::timeout(LOOK_EVERY, std::future::pending::<()>()).await;
        }
    }
}

/// `2026-05-09T10:00:00Z  com.example.paid  evt_0192…  shop/pay-77`.
fn line(event: &Value) -> String {
    let text = |key: &str| event[key].as_str().unwrap_or_default();
    format!(
        "{}  {:<28}  {}  {}/{}",
        text("received_at"),
        text("type"),
        text("id"),
        text("source"),
        text("event_id")
    )
}
