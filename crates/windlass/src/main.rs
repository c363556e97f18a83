//! Wires. The `windlass` binary: the engine (`up`, `serve`) and the command line that talks to it.
//!
//! This file parses and dispatches; nothing else. The way in: [`cli`] (every command), [`verb`] (what the client
//! verbs do), [`up`] and [`serve`] (what starts an engine), [`failure`] (exit codes), [`out`] (stdout and stderr).

mod bench;
mod cli;
mod client;
mod config;
mod demo;
mod doctor;
mod failure;
mod host;
mod logs;
mod migrate;
mod otlp;
mod out;
mod outward;
mod profile;
mod serve;
mod up;
mod verb;
mod view;

use clap::Parser;
use cli::{Cli, Command};
use failure::{Exit, Failure};
use out::{Format, Out};
use std::process::ExitCode;
use verb::Context;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // Not a command of the tree: help and completion must not offer it.
    if std::env::args_os().nth(1).is_some_and(|argument| argument == host::SANDBOX_ARGUMENT) {
        runtime::sandbox::evaluator_main();
        return ExitCode::SUCCESS;
    }
    logs::keep_panics_discreet();
    client::choose_ciphers();
    let cli = Cli::parse();
    let format = cli.global.format();
    match dispatch(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            out::failure(&failure, format);
            failure.code()
        }
    }
}

fn dispatch(cli: Cli) -> Result<(), Failure> {
    let out = Out::new(cli.global.format());
    match cli.command {
        Command::Up(args) => engine(up::run(args, out)),
        Command::Serve(args) => engine(serve::run(args, out)),
        Command::Migrate(args) => engine(migrate::run(args, out)),
        Command::Doctor(args) => engine(doctor::run(args, out)),
        Command::Completion { shell } => cli::completion(shell, &out),
        Command::Version => match out.format {
            Format::Json | Format::Jsonl => {
                out.line(&format!("{{\"version\":\"{}\"}}", env!("CARGO_PKG_VERSION")))
            }
            _ => out.line(cli::VERSION),
        },
        Command::Def(verb) => ask(cli.global, out, async |context| verb::def::run(verb, &context).await),
        Command::Instance(verb) => {
            ask(cli.global, out, async |context| verb::instance::run(verb, &context).await)
        }
        Command::Task(verb) => ask(cli.global, out, async |context| verb::task::run(verb, &context).await),
        Command::Event(verb) => ask(cli.global, out, async |context| verb::event::run(verb, &context).await),
        Command::Schedule(verb) => {
            ask(cli.global, out, async |context| verb::schedule::run(verb, &context).await)
        }
        Command::Dev(verb) => ask(cli.global, out, async |context| verb::dev::run(verb, &context).await),
        Command::Dataset(verb) => {
            ask(cli.global, out, async |context| verb::dataset::run(verb, &context).await)
        }
        Command::Error(verb) => ask(cli.global, out, async |context| verb::error::run(verb, &context).await),
        Command::Dlq(verb) => ask(cli.global, out, async |context| verb::dlq::run(verb, &context).await),
        Command::Batch(verb) => ask(cli.global, out, async |context| verb::batch::run(verb, &context).await),
        Command::Tenant(verb) => {
            ask(cli.global, out, async |context| verb::tenant::run(verb, &context).await)
        }
        Command::Key(verb) => ask(cli.global, out, async |context| verb::key::run(verb, &context).await),
        Command::Secret(verb) => {
            ask(cli.global, out, async |context| verb::secret::run(verb, &context).await)
        }
        Command::Record(verb) => {
            ask(cli.global, out, async |context| verb::record::run(verb, &context).await)
        }
        Command::RecordKind(verb) => {
            ask(cli.global, out, async |context| verb::record_kind::run(verb, &context).await)
        }
        Command::Acl(verb) => ask(cli.global, out, async |context| verb::acl::run(verb, &context).await),
        Command::Group(verb) => ask(cli.global, out, async |context| verb::acl::group(verb, &context).await),
        Command::Audit(verb::audit::Verb::Verify { files, key }) => {
            verb::audit::verify_files(&files, key.as_deref(), &out)
        }
        Command::Audit(verb) => ask(cli.global, out, async |context| verb::audit::run(verb, &context).await),
        Command::Worker(verb) => {
            ask(cli.global, out, async |context| verb::worker::run(verb, &context).await)
        }
        Command::Webhook(verb) => {
            ask(cli.global, out, async |context| verb::webhook::run(verb, &context).await)
        }
        Command::Bus(verb) => ask(cli.global, out, async |context| verb::bus::run(verb, &context).await),
        Command::Queue(verb) => ask(cli.global, out, async |context| verb::queue::run(verb, &context).await),
        Command::Breaker(verb) => {
            ask(cli.global, out, async |context| verb::breaker::run(verb, &context).await)
        }
        Command::Delivery(verb) => {
            ask(cli.global, out, async |context| verb::delivery::run(verb, &context).await)
        }
        Command::Admin(verb) => engine(verb::admin::run(verb, &out)),
        Command::Bench(args) => engine(async {
            bench::run(args, &out).await.map_err(|error| Failure::failed(format!("{error:#}")))
        }),
        Command::Api(args) => ask(cli.global, out, async |context| verb::api::run(args, &context).await),
    }
}

/// Runs what needs all cores.
fn engine(work: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(work)
}

/// Runs a client verb; Ctrl-C ends it with its own exit code.
fn ask(
    global: cli::Global,
    out: Out,
    work: impl AsyncFnOnce(Context) -> Result<(), Failure>,
) -> Result<(), Failure> {
    logs::start("warn", logs::Format::Text)?;
    let client = profile::client(global.given())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        tokio::select! {
            done = work(Context { client, out }) => done,
            _ = tokio::signal::ctrl_c() => Err(Failure::silent(Exit::Interrupted)),
        }
    })
}
