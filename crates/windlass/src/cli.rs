//! Every command and flag, and their help. Completion is generated from the same tree.

use crate::{
    bench, doctor,
    failure::Failure,
    migrate,
    out::{Format, Out},
    profile::Given,
    serve, up,
    verb::{
        acl, admin, api, audit, batch, breaker, bus, dataset, def, delivery, dev, dlq, error, event,
        instance, key, queue, record, record_kind, schedule, secret, task, tenant, webhook, worker,
    },
};
use clap::{Args, CommandFactory, Parser, Subcommand};

pub(crate) const VERSION: &str = concat!("windlass ", env!("CARGO_PKG_VERSION"));

const EXIT_CODES: &str = "Exit codes:
  0 ok · 1 command or instance failed · 2 usage · 3 not found · 4 forbidden · 5 conflict
  6 cannot connect · 124 wait timed out · 130 interrupted

Data goes to stdout, everything else to stderr. NO_COLOR turns colours off, WINDLASS_LOG=debug turns logs on.";

/// Durable workflows for many tenants, in one binary
///
/// `windlass up` starts an engine with demo data. The other commands talk to a running engine: the one that `up`
/// started from this folder, or the one that --url and --key (or a profile) name.
#[derive(Parser)]
#[command(name = "windlass", version, arg_required_else_help = true, after_help = EXIT_CODES)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Flags of every command.
#[derive(Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// Address of the server
    #[arg(long, global = true, env = "WINDLASS_URL", value_name = "URL")]
    url: Option<String>,
    /// API key; better given as WINDLASS_KEY, since other people on this machine can see command lines
    #[arg(long, global = true, env = "WINDLASS_KEY", hide_env_values = true, value_name = "KEY")]
    key: Option<String>,
    /// Profile of ~/.config/windlass/config.toml
    #[arg(long, global = true, env = "WINDLASS_PROFILE", value_name = "NAME")]
    profile: Option<String>,
    /// What stdout looks like; json is the API's JSON, unchanged
    #[arg(long, short, global = true, value_enum, value_name = "FORMAT")]
    output: Option<Format>,
    /// Print the HTTP exchange on stderr, secrets masked
    #[arg(long, global = true)]
    trace: bool,
}

impl Global {
    pub(crate) fn format(&self) -> Format {
        self.output.unwrap_or(Format::Table)
    }

    pub(crate) fn given(self) -> Given {
        // An empty variable is one that is not set.
        let text = |value: Option<String>| value.filter(|value| !value.is_empty());
        Given { url: text(self.url), key: text(self.key), profile: text(self.profile), trace: self.trace }
    }
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Start an engine with demo data: the way to begin
    Up(up::Args),
    /// Start an engine from a configuration file
    Serve(serve::Args),
    /// Make the tables of a PostgreSQL database, or change them to what this program needs
    Migrate(migrate::Args),
    /// Check the store and how its server is set up, and say what to do where something is wrong
    Doctor(doctor::Args),
    /// Definitions: deploy, validate, list, show, fmt, diff, preflight
    #[command(subcommand, visible_alias = "definition", aliases = ["defs", "definitions"])]
    Def(def::Verb),
    /// Instances: start, list, show, watch, signal, cancel, pause, resume, retry, migrate, result,
    /// history, explain
    #[command(subcommand, alias = "instances")]
    Instance(instance::Verb),
    /// Tasks for people: list, show, claim, release, assign, complete
    #[command(subcommand, alias = "tasks")]
    Task(task::Verb),
    /// Events addressed to nobody: publish, list, show
    #[command(subcommand, alias = "events")]
    Event(event::Verb),
    /// Schedules: list, show, slots, next, pause, resume, trigger
    #[command(subcommand, alias = "schedules")]
    Schedule(schedule::Verb),
    /// Datasets: items for fan-outs and their results: upload, show, items
    #[command(subcommand, alias = "datasets")]
    Dataset(dataset::Verb),
    /// What failed for good, by what is alike: list, show
    #[command(subcommand, alias = "errors")]
    Error(error::Verb),
    /// Dead letters: list, groups, show, replay, discard
    #[command(subcommand, visible_alias = "dead-letter", alias = "dead-letters")]
    Dlq(dlq::Verb),
    /// Acts on all that a query finds: create, list, show, watch, items, pause, resume, rate, cancel
    #[command(subcommand, alias = "batches")]
    Batch(batch::Verb),
    /// Tenants: create, change, show, list, limit, suspend, degrade, resume, delete, restore
    #[command(subcommand, alias = "tenants")]
    Tenant(tenant::Verb),
    /// API keys: create, list, revoke
    #[command(subcommand, alias = "keys")]
    Key(key::Verb),
    /// Secrets that calls need: set, list, delete
    #[command(subcommand, alias = "secrets")]
    Secret(secret::Verb),
    /// Records, a tenant's own entities: create, list, show, set, delete
    #[command(subcommand, alias = "records")]
    Record(record::Verb),
    /// Kinds of records: set, list, show, delete
    #[command(subcommand, alias = "record-kinds")]
    RecordKind(record_kind::Verb),
    /// Who may do what with records: explain, status
    #[command(subcommand)]
    Acl(acl::Verb),
    /// Groups of users: set, list, delete
    #[command(subcommand, alias = "groups")]
    Group(acl::GroupVerb),
    /// What people, keys and workers did: list, export, verify
    #[command(subcommand)]
    Audit(audit::Verb),
    /// Workers that are somewhere else and ask for events: declare, list, delete
    #[command(subcommand, alias = "workers")]
    Worker(worker::Verb),
    /// Addresses that events are sent to, signed: set, list, delete
    #[command(subcommand, alias = "webhooks")]
    Webhook(webhook::Verb),
    /// Servers that events go out over: list, show, resend
    #[command(subcommand, alias = "buses")]
    Bus(bus::Verb),
    /// How much workers have to do: list, show
    #[command(subcommand, alias = "queues")]
    Queue(queue::Verb),
    /// Breakers of endpoints and workers that fail: list, probe
    #[command(subcommand, alias = "breakers")]
    Breaker(breaker::Verb),
    /// Deliveries that are not done yet: list, show, explain
    #[command(subcommand, alias = "deliveries")]
    Delivery(delivery::Verb),
    /// Back up and restore the data of an embedded engine; move tenants from store to store
    #[command(subcommand)]
    Admin(admin::Verb),
    /// Measure throughput and latency on this machine, beside what the machine itself can do
    Bench(bench::Args),
    /// For trying definitions out: the tenant's clock
    #[command(subcommand)]
    Dev(dev::Verb),
    /// Any request of the REST API
    Api(api::Args),
    /// Print a completion script for a shell
    #[command(after_long_help = "Examples:\n  \
        windlass completion bash > /etc/bash_completion.d/windlass\n  \
        windlass completion zsh > ~/.zfunc/_windlass\n  \
        windlass completion fish > ~/.config/fish/completions/windlass.fish")]
    Completion {
        #[arg(value_enum)]
        shell: clap_complete::Shell,
    },
    /// Print the version
    Version,
}

/// Writes a shell's completion script.
pub(crate) fn completion(shell: clap_complete::Shell, out: &Out) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "windlass", &mut script);
    out.data(&script)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_verb_has_an_example() {
        fn check(command: &clap::Command, path: &str) {
            let path = format!("{path} {}", command.get_name());
            if command.get_subcommands().next().is_some() {
                command.get_subcommands().for_each(|inner| check(inner, &path));
            } else if !command.is_hide_set() && command.get_name() != "version" {
                let help = command.get_after_long_help().or(command.get_after_help());
                let help = help.map(ToString::to_string).unwrap_or_default();
                assert!(help.contains("Examples:"), "{path} has no example");
            }
        }
        check(&Cli::command(), "");
    }
}
