//! Follows an instance to its end: one line per event, and the outcome as exit code.
//!
//! The stream of changes only says *that* something happened; history says what. So a lost or refused stream costs
//! nothing but delay.

use super::Context;
use crate::{
    client::{Ask, Stream, segment},
    failure::{Exit, Failure},
    out::Format,
    view::{self, Page},
};
use machine::Time;
use serde_json::Value;
use std::time::Duration;

/// How long to wait for a sign of change before looking anyway.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Prints what has happened and what happens, until the instance ends.
pub(crate) async fn follow(context: &Context, id: &str) -> Result<(), Failure> {
    let topic = Ask::get("/stream").query("topics", id);
    // Opened before the first look, so that nothing falls between.
    let mut stream = context.client.open(topic).await.ok();
    let mut history = History::new(id);
    loop {
        history.print_new(context).await?;
        let answer = context.client.ask(Ask::get(format!("/instances/{}/result", segment(id)))).await?;
        if answer.status == 200 {
            // What came between the two requests.
            history.print_new(context).await?;
            return end(context, &answer.body);
        }
        pause(&mut stream).await;
    }
}

/// Waits for a sign of change, or a while.
async fn pause(stream: &mut Option<Stream>) {
    let alive = match stream {
        Some(open) => tokio::time::timeout(LOOK_EVERY, open.arrived()).await.unwrap_or(true),
        None => {
            let _ = tokio::time::timeout(LOOK_EVERY, std::future::pending::<()>()).await;
            true
        }
    };
    if !alive {
        *stream = None;
    }
}

fn end(context: &Context, body: &[u8]) -> Result<(), Failure> {
    let result = view::value(body)?;
    let status = result["status"].as_str().unwrap_or("ended");
    if context.out.format == Format::Table {
        let sign = if context.out.tty { format!("{} ", view::symbol(status)) } else { String::new() };
        context.out.line(&format!("{sign}{status}"))?;
    } else if context.out.format != Format::Id {
        context.out.data(body)?;
    }
    outcome(&result)
}

/// The exit code of an instance that has ended.
pub(crate) fn outcome(result: &Value) -> Result<(), Failure> {
    match result["status"].as_str() {
        Some("completed") => Ok(()),
        Some("faulted") => {
            let error = &result["error"];
            let title = error["title"].as_str().or(error["type"].as_str()).unwrap_or("no error was recorded");
            let detail = error["detail"].as_str().unwrap_or_default();
            let place = error["instance"].as_str().map(|step| format!("at {step}: ")).unwrap_or_default();
            Err(Failure::failed(format!("the instance faulted: {title}"))
                .detail(format!("{place}{detail}"))
                .hint("`windlass instance retry ID` runs the faulted step again"))
        }
        Some(status) => Err(Failure::new(Exit::Failed, format!("the instance is {status}"))),
        None => Err(Failure::failed("the answer is not understood")),
    }
}

/// How far an instance's history has been read. Cursors exist only between pages, so the last page is read again and
/// its known items are skipped.
struct History {
    path: String,
    page: Option<String>,
    seen: usize,
    began: Option<Time>,
}

impl History {
    fn new(id: &str) -> History {
        History { path: format!("/instances/{}/history", segment(id)), page: None, seen: 0, began: None }
    }

    async fn print_new(&mut self, context: &Context) -> Result<(), Failure> {
        loop {
            let ask = Ask::get(&self.path).query("limit", "100").query_if("cursor", self.page.clone());
            let Page { items, next } = Page::read(&context.client.ask(ask).await?.body)?;
            for item in items.iter().skip(self.seen) {
                match context.out.format {
                    Format::Table => context.out.line(&self.line(&view::value(item.get().as_bytes())?))?,
                    Format::Jsonl => context.out.line(item.get())?,
                    Format::Json | Format::Id => {}
                }
            }
            self.seen = items.len().max(self.seen);
            match next {
                Some(next) => (self.page, self.seen) = (Some(next), 0),
                None => return Ok(()),
            }
        }
    }

    /// `  0.012 s  step.completed  /do/0/charge`.
    fn line(&mut self, item: &Value) -> String {
        let text = |key: &str| item[key].as_str().unwrap_or_default();
        let at = Time::parse_rfc3339(text("time"));
        let began = *self.began.get_or_insert(at.unwrap_or(Time(0)));
        let seconds = at.map_or(0.0, |at| at.since(began).0 as f64 / 1e6);
        format!("{seconds:>9.3} s  {:<16} {}", text("kind"), text("step")).trim_end().to_owned()
    }
}
