//! `windlass instance start`: one instance, or many with a progress bar.

use super::{Context, def, read_json, watch};
use crate::{
    client::{Answer, Ask},
    failure::Failure,
    out::Format,
    view::{self, plain},
};
use machine::time::Span;
use runtime::clock::{Clock, Dice, Entropy, SystemClock};
use serde_json::{Value, json};

/// Instances per request when many are started.
const CHUNK_MAX: usize = 500;
/// Bytes of input per request when many are started; the server takes 8 MiB.
const CHUNK_BYTES_MAX: usize = 4 << 20;
/// How often a busy server is asked again.
const TRIES_MAX: u32 = 60;
const BUSY_PAUSE: Span = Span::from_millis(500);

#[derive(clap::Args)]
#[command(after_long_help = "Examples:\n  \
    windlass instance start order-approval --input @examples/order-approval.input.json --watch\n  \
    windlass instance start examples/provisioning@1.0.0 --input '{\"name\":\"harbour\",\"region\":\"eu-north\"}'\n  \
    windlass instance start order-approval --input @order.json --business-key order-1001 -o id\n  \
    windlass instance start examples/invoice-run --input @run.json --count 1000")]
pub(crate) struct Args {
    /// namespace/name, namespace/name@version, or the name alone if it is unique
    #[arg(value_name = "DEF")]
    definition: String,
    /// Input as JSON, @file or @- for stdin
    #[arg(long, value_name = "JSON|@FILE")]
    input: Option<String>,
    /// Business key: at most one open instance holds it
    #[arg(long, value_name = "KEY")]
    business_key: Option<String>,
    /// Starting again with the same key gives the same instance
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// Follow the instance to its end; the exit code is its outcome
    #[arg(long, short, conflicts_with = "count")]
    watch: bool,
    /// Start this many
    #[arg(long, value_name = "N", conflicts_with = "business_key", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    count: Option<u32>,
}

pub(crate) async fn run(args: Args, context: &Context) -> Result<(), Failure> {
    let input = args.input.as_deref().map(|input| read_json(input, "--input")).transpose()?;
    let definition = def::resolve(context, &args.definition).await?;
    let mut start = json!({ "definition": { "namespace": definition.namespace, "name": definition.name } });
    if let Some(version) = definition.version {
        start["definition"]["version"] = Value::String(version);
    }
    if let Some(input) = input {
        start["input"] = input;
    }
    if let Some(key) = args.business_key {
        start["key"] = Value::String(key);
    }
    // Without a key of the user's, one of our own still makes sending again safe.
    let key = args.idempotency_key.unwrap_or_else(|| fresh_key("cli"));
    if let Some(count) = args.count {
        return many(context, &start, count as usize, &key).await;
    }
    let answer =
        context.client.ask(Ask::post("/instances").header("Idempotency-Key", key).json(&start)).await?;
    let id = view::id_of(&view::value(&answer.body)?);
    if args.watch {
        context.out.note(&format!("started {id}"));
        return watch::follow(context, &id).await;
    }
    view::object(&context.out, &answer.body, &[plain("id", "id")])?;
    context.out.hint(&format!("follow it with: windlass instance watch {id}"));
    Ok(())
}

fn fresh_key(lead: &str) -> String {
    format!("{lead}-{}", Dice::from_os().id(SystemClock.now()).simple())
}

/// Starts `count` equal instances in requests of many.
async fn many(context: &Context, start: &Value, count: usize, key: &str) -> Result<(), Failure> {
    let size = start.to_string().len() + 1;
    let chunk = CHUNK_MAX.min(CHUNK_BYTES_MAX / size).max(1);
    let bar = def::progress(count as u64, "starting");
    let mut items = Vec::with_capacity(count);
    let mut begun = 0;
    while begun < count {
        let now = chunk.min(count - begun);
        let body = json!({ "items": vec![start; now] });
        let ask =
            || Ask::post("/instances/bulk").header("Idempotency-Key", format!("{key}-{begun}")).json(&body);
        let answer = patiently(context, ask).await?;
        let Value::Object(mut answered) = view::value(&answer.body)? else {
            return Err(Failure::failed("the answer is not understood"));
        };
        if let Some(Value::Array(answers)) = answered.remove("items") {
            items.extend(answers);
        }
        begun += now;
        bar.set_position(begun as u64);
    }
    bar.finish_and_clear();
    report(context, items)
}

/// Asks again while the server is busy; the idempotency key keeps that from starting anything twice.
pub(super) async fn patiently(context: &Context, ask: impl Fn() -> Ask) -> Result<Answer, Failure> {
    let mut tries = 0;
    loop {
        match context.client.ask(ask()).await {
            Err(failure) if failure.is_passing() && tries < TRIES_MAX => {
                tries += 1;
                SystemClock.sleep_until(SystemClock.now().after(BUSY_PAUSE)).await;
            }
            other => return other,
        }
    }
}

fn report(context: &Context, items: Vec<Value>) -> Result<(), Failure> {
    let out = &context.out;
    let failed: Vec<&Value> = items.iter().filter(|item| item.get("id").is_none()).collect();
    let problem = failed.first().map(|item| item["problem"].to_string().into_bytes());
    let count = failed.len();
    let total = items.len();
    match out.format {
        Format::Json => out.line(&json!({ "items": items }).to_string())?,
        Format::Jsonl => items.iter().try_for_each(|item| out.line(&item.to_string()))?,
        Format::Id | Format::Table => {
            let mut ids = items.iter().filter_map(|item| item["id"].as_str());
            ids.try_for_each(|id| out.line(id))?;
        }
    }
    out.note(&format!("{} of {total} started", total - count));
    match problem {
        Some(problem) => Err(Failure::of_answer(422, problem)),
        None => Ok(()),
    }
}
