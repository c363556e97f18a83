//! The configuration of `serve`: a TOML file, then the environment, then checks.
//!
//! Every value has a name in the file (`[section] key`) and one in the environment (`WINDLASS_SECTION_KEY`). Unknown
//! names and values out of range are refused at the start, with the name that is wrong.

mod breakers;
pub(crate) mod buses;
mod environment;
mod hints;
mod retention;
mod workers;

pub(crate) use self::hints::Way;
use self::{
    breakers::Breakers, buses::Buses, environment::Environment, hints::Hints, retention::Retention,
    workers::Workers,
};
use crate::{failure::Failure, logs, otlp, outward};
use machine::{ir::Lifecycle, time::Span};
use serde::{Deserialize, Serialize};
use std::{
    net::SocketAddr,
    ops::RangeInclusive,
    path::{Path, PathBuf},
    time::Duration,
};
use toml::{Table, Value};

/// What an operator can set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Config {
    pub(crate) server: Server,
    pub(crate) store: Store,
    pub(crate) hints: Hints,
    pub(crate) buses: Buses,
    pub(crate) runtime: Runtime,
    pub(crate) breakers: Breakers,
    pub(crate) workers: Workers,
    pub(crate) egress: Egress,
    pub(crate) secrets: Secrets,
    pub(crate) scripts: Scripts,
    pub(crate) retention: Retention,
    pub(crate) log: Log,
    pub(crate) telemetry: Telemetry,
    pub(crate) dev: Dev,
}

/// For engines that definitions are tried out on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Dev {
    /// Tenants may move their clocks forward.
    pub(crate) clock: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Server {
    pub(crate) listen: String,
    /// The most bytes of a request body.
    pub(crate) body_bytes_max: i64,
    pub(crate) connections_max: i64,
    /// How long requests in flight may go on after a stop was asked for.
    pub(crate) drain_seconds: i64,
    /// How long a request that changes something waits for the store before it is told that the outcome is not known.
    pub(crate) write_timeout_seconds: i64,
    /// `/metrics` without a key.
    pub(crate) metrics_public: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Store {
    /// Folder of the embedded store.
    pub(crate) data: PathBuf,
    /// A PostgreSQL database instead of it, such as `postgres://user@host/database`. May hold a password: prefer the
    /// environment, WINDLASS_STORE_URL.
    pub(crate) url: String,
    /// The same database past a transaction pooler, for the one connection that listens to other nodes.
    pub(crate) listen_url: String,
    /// Connections to that database that this node uses at most.
    pub(crate) connections_max: i64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Runtime {
    /// How long the backlog may go unlooked at when no wake came.
    pub(crate) dequeue_wait_seconds: i64,
    /// Rows that one claim takes from the backlog.
    pub(crate) dequeue_size: i64,
    /// Calls handled at once.
    pub(crate) max_concurrent_handlers: i64,
    /// Tries after the first before a signal or timer is given up.
    pub(crate) max_poison_retries: i64,
    pub(crate) dead_letter_policy: DeadLetterPolicy,
    /// Commits in one batch.
    pub(crate) batch_max: i64,
    /// Calls of one tenant kept in memory; beyond it they stay in the store.
    pub(crate) calls_queued_per_tenant_max: i64,
    pub(crate) lease_seconds: i64,
    /// Errors that one flush records.
    pub(crate) errors_flushed_max: i64,
    /// How long fewer wait for it.
    pub(crate) errors_kept_ms: i64,
    pub(crate) stop_grace_seconds: i64,
    pub(crate) http_timeout_seconds: i64,
    pub(crate) answer_bytes_max: i64,
    /// Which changes of instances are told as events: none, workflow or all.
    pub(crate) lifecycle_events: Lifecycle,
    /// The address under which others reach this server; signal tokens name it.
    pub(crate) public_url: String,
}

/// Rules of outward calls.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Egress {
    /// `HOST:PORT=ADDRESS`: dial this address for that host and port.
    pub(crate) resolve: Vec<String>,
    /// Ranges that may be called although they are not public; `all` for every one.
    pub(crate) allow_private: Vec<String>,
    /// PEM files of root certificates to trust beside the system's.
    pub(crate) ca_files: Vec<String>,
    /// `http://host:port`; the environment's proxy variables are not read.
    pub(crate) proxy: String,
    /// Ports that may be called; all if empty.
    pub(crate) ports: Vec<String>,
    pub(crate) connect_timeout_seconds: i64,
    pub(crate) redirects_max: i64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Secrets {
    /// File with the keys that seal secrets, the newest first; `WINDLASS_SECRETS_KEY` may hold them instead.
    pub(crate) key_file: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Scripts {
    /// Whether tenants may deploy definitions with `run.script`.
    pub(crate) allow: bool,
}

/// What becomes of a message that is given up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum DeadLetterPolicy {
    /// It is kept as a dead letter until somebody replays or discards it.
    #[default]
    Keep,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Log {
    pub(crate) format: logs::Format,
}

impl Telemetry {
    fn flaw(&self) -> Option<String> {
        let address = (!self.otlp_url.is_empty()).then(|| otlp::address(&self.otlp_url).err()).flatten();
        let headers = otlp::headers(&self.otlp_headers).err();
        let named = |key: &'static str| move |why: String| format!("telemetry.{key}: {why}");
        address.map(named("otlp_url")).or(headers.map(named("otlp_headers")))
    }
}

/// Traces, for a collector of OpenTelemetry.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Telemetry {
    /// Where spans are sent as OTLP over HTTP, such as `http://collector:4318`; nowhere if empty, unless
    /// OTEL_EXPORTER_OTLP_ENDPOINT names one.
    pub(crate) otlp_url: String,
    /// `name=value` each. May hold a key: prefer the environment, WINDLASS_TELEMETRY_OTLP_HEADERS.
    pub(crate) otlp_headers: Vec<String>,
}

impl Default for Server {
    fn default() -> Server {
        let options = server::Options::default();
        Server {
            listen: "127.0.0.1:8400".to_owned(),
            body_bytes_max: whole(options.body_bytes_max),
            connections_max: whole(options.connections_max),
            drain_seconds: i64::try_from(options.drain_timeout.as_secs()).unwrap_or(i64::MAX),
            write_timeout_seconds: i64::try_from(options.write_timeout.as_secs()).unwrap_or(i64::MAX),
            metrics_public: options.metrics_public,
        }
    }
}

impl Default for Store {
    fn default() -> Store {
        Store {
            data: crate::profile::DEFAULT_DATA.into(),
            url: String::new(),
            listen_url: String::new(),
            connections_max: store::postgres::CONNECTIONS_MAX as i64,
        }
    }
}

impl Default for Egress {
    fn default() -> Egress {
        let settings = runtime::egress::Settings::default();
        Egress {
            resolve: vec![],
            allow_private: vec![],
            ca_files: vec![],
            proxy: String::new(),
            ports: vec![],
            connect_timeout_seconds: settings.connect_timeout.0 / 1_000_000,
            redirects_max: whole(settings.redirects_max),
        }
    }
}

impl Egress {
    /// What the client works with; the error names what is wrong.
    fn settings(&self) -> Result<runtime::egress::Settings, String> {
        let mut settings = runtime::egress::Settings {
            connect_timeout: Span::from_secs(self.connect_timeout_seconds),
            redirects_max: count(self.redirects_max),
            ..runtime::egress::Settings::default()
        };
        for line in &self.resolve {
            settings.resolve.push(line.parse().map_err(|error| format!("egress.resolve: {error}"))?);
        }
        for range in &self.allow_private {
            let ranges = runtime::egress::private_ranges(range);
            settings.allow_private.extend(ranges.map_err(|error| format!("egress.allow_private: {error}"))?);
        }
        for file in &self.ca_files {
            let roots = outward::roots(file.as_ref());
            settings.roots.extend(roots.map_err(|failure| format!("egress.ca_files: {}", failure.text()))?);
        }
        for port in &self.ports {
            let port = port.parse().map_err(|_| format!("egress.ports: {port:?} is no port"));
            settings.ports.push(port?);
        }
        if !self.proxy.is_empty() {
            settings.proxy = Some(self.proxy.parse().map_err(|error| format!("egress.proxy: {error}"))?);
        }
        Ok(settings)
    }
}

impl Default for Runtime {
    fn default() -> Runtime {
        let options = runtime::Options::default();
        Runtime {
            dequeue_wait_seconds: options.rescan.map_or(30, |span| span.0 / 1_000_000),
            dequeue_size: whole(options.claim_max),
            max_concurrent_handlers: whole(options.calls_in_flight_max),
            max_poison_retries: i64::from(options.poison.attempts_max) - 1,
            dead_letter_policy: DeadLetterPolicy::Keep,
            batch_max: whole(options.batch_max),
            calls_queued_per_tenant_max: whole(options.calls_queued_per_tenant_max),
            lease_seconds: options.lease.0 / 1_000_000,
            errors_flushed_max: whole(options.errors_flushed_max),
            errors_kept_ms: options.errors_kept.as_millis(),
            stop_grace_seconds: options.stop_grace.0 / 1_000_000,
            http_timeout_seconds: options.http_timeout.0 / 1_000_000,
            answer_bytes_max: whole(options.answer_bytes_max),
            lifecycle_events: options.lifecycle,
            public_url: options.public_url,
        }
    }
}

fn whole(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

impl Config {
    /// The file at `path`, if there is one, overridden by the environment, checked.
    pub(crate) fn load(path: Option<&Path>) -> Result<Config, Failure> {
        let text = match path {
            Some(path) => std::fs::read_to_string(path)
                .map_err(|error| Failure::usage(format!("cannot read {}: {error}", path.display())))?,
            None => String::new(),
        };
        Config::read(&text, &environment::read())
    }

    /// What the environment says of `[runtime]`, `[hints]` and `[workers]`, for whoever decides the rest by itself.
    pub(crate) fn of_environment() -> Result<Config, Failure> {
        let mut env = environment::read();
        let read = ["WINDLASS_RUNTIME_", "WINDLASS_HINTS_", "WINDLASS_WORKERS_"];
        env.retain(|name, _| read.iter().any(|of| name.starts_with(of)));
        Config::read("", &env)
    }

    /// The file's text, overridden by the environment, checked.
    pub(crate) fn read(text: &str, env: &Environment) -> Result<Config, Failure> {
        let wrong = |detail: String| Failure::usage("the configuration is not valid").detail(detail);
        // Once for the file alone, so that a mistake in it is shown with its line.
        let mut table: Table = text.parse().map_err(|error: toml::de::Error| wrong(error.to_string()))?;
        toml::from_str::<Config>(text).map_err(|error| wrong(error.to_string()))?;
        environment::put_over(&mut table, env).map_err(wrong)?;
        if let Some(name) = placeholder(&table) {
            return Err(wrong(format!("{name} still holds a placeholder: give it a value of your own")));
        }
        let config: Config =
            table.try_into().map_err(|error: toml::de::Error| wrong(error.message().to_owned()))?;
        match config.flaws() {
            flaws if flaws.is_empty() => Ok(config),
            flaws => Err(wrong(flaws.join("\n"))),
        }
    }

    /// What is out of range, each with its name.
    fn flaws(&self) -> Vec<String> {
        let Config {
            server,
            store,
            hints,
            buses,
            runtime,
            breakers,
            workers,
            egress,
            retention,
            secrets: _,
            scripts: _,
            log: _,
            telemetry,
            dev: _,
        } = self;
        let mut flaws = Vec::new();
        let mut check = |name: &str, value: i64, range: RangeInclusive<i64>| {
            if !range.contains(&value) {
                flaws.push(format!("{name} is {value}; it must be {} to {}", range.start(), range.end()));
            }
        };
        check("server.body_bytes_max", server.body_bytes_max, 1024..=64 << 20);
        check("server.connections_max", server.connections_max, 1..=1_000_000);
        check("server.drain_seconds", server.drain_seconds, 0..=3600);
        check("server.write_timeout_seconds", server.write_timeout_seconds, 1..=3600);
        let connections_min = store::postgres::CONNECTIONS_MIN as i64;
        check("store.connections_max", store.connections_max, connections_min..=1_000);
        check("runtime.dequeue_wait_seconds", runtime.dequeue_wait_seconds, 1..=3600);
        check("runtime.dequeue_size", runtime.dequeue_size, 1..=10_000);
        check("runtime.max_concurrent_handlers", runtime.max_concurrent_handlers, 1..=100_000);
        check("runtime.max_poison_retries", runtime.max_poison_retries, 0..=1000);
        check("runtime.batch_max", runtime.batch_max, 1..=10_000);
        check("runtime.calls_queued_per_tenant_max", runtime.calls_queued_per_tenant_max, 1..=1_000_000);
        check("runtime.lease_seconds", runtime.lease_seconds, 3..=600);
        check("runtime.errors_flushed_max", runtime.errors_flushed_max, 1..=1_000);
        check("runtime.errors_kept_ms", runtime.errors_kept_ms, 1..=10_000);
        check("runtime.stop_grace_seconds", runtime.stop_grace_seconds, 0..=3600);
        check("runtime.http_timeout_seconds", runtime.http_timeout_seconds, 1..=3600);
        check("runtime.answer_bytes_max", runtime.answer_bytes_max, 1024..=64 << 20);
        check("egress.connect_timeout_seconds", egress.connect_timeout_seconds, 1..=600);
        check("egress.redirects_max", egress.redirects_max, 0..=20);
        flaws.extend(retention.settings().err().unwrap_or_default());
        flaws.extend(egress.settings().err());
        flaws.extend(hints.flaw());
        flaws.extend(telemetry.flaw());
        flaws.extend(buses::flaws(buses));
        flaws.extend(breakers.flaws());
        flaws.extend(workers::flaws(workers));
        if self.listen().is_none() {
            flaws.push(format!(
                "server.listen is {:?}; it must be an address such as 127.0.0.1:8400",
                server.listen
            ));
        }
        if store.data.as_os_str().is_empty() {
            flaws.push("store.data is empty; name a folder".to_owned());
        }
        flaws
    }

    /// The address to listen on, if it is one.
    pub(crate) fn listen(&self) -> Option<SocketAddr> {
        self.server.listen.parse().ok()
    }

    pub(crate) fn runtime_options(&self) -> runtime::Options {
        let Runtime {
            dequeue_wait_seconds,
            dequeue_size,
            max_concurrent_handlers,
            max_poison_retries,
            dead_letter_policy: DeadLetterPolicy::Keep,
            batch_max,
            calls_queued_per_tenant_max,
            lease_seconds,
            errors_flushed_max,
            errors_kept_ms,
            stop_grace_seconds,
            http_timeout_seconds,
            answer_bytes_max,
            lifecycle_events,
            ref public_url,
        } = self.runtime;
        let mut options = runtime::Options {
            batch_max: count(batch_max),
            calls_queued_per_tenant_max: count(calls_queued_per_tenant_max),
            calls_in_flight_max: count(max_concurrent_handlers),
            claim_max: count(dequeue_size),
            rescan: Some(Span::from_secs(dequeue_wait_seconds)),
            lease: Span::from_secs(lease_seconds),
            errors_flushed_max: count(errors_flushed_max),
            errors_kept: Span::from_millis(errors_kept_ms),
            stop_grace: Span::from_secs(stop_grace_seconds),
            http_timeout: Span::from_secs(http_timeout_seconds),
            answer_bytes_max: count(answer_bytes_max),
            lifecycle: lifecycle_events,
            public_url: public_url.trim_end_matches('/').to_owned(),
            egress: self.egress.settings().unwrap_or_default(),
            // Refused when it was read.
            retention: self.retention.settings().unwrap_or_default(),
            audit_kept: self.retention.audit().unwrap_or_default(),
            dev_clock: self.dev.clock,
            scripts: self.scripts.allow,
            workers: workers::options(&self.workers),
            ..runtime::Options::default()
        };
        self.breakers.put_into(&mut options);
        options.poison.attempts_max = u32::try_from(max_poison_retries + 1).unwrap_or(u32::MAX);
        options
    }

    pub(crate) fn server_options(&self) -> server::Options {
        let Server {
            listen: _,
            body_bytes_max,
            connections_max,
            drain_seconds,
            write_timeout_seconds,
            metrics_public,
        } = &self.server;
        server::Options {
            body_bytes_max: count(*body_bytes_max),
            connections_max: count(*connections_max),
            drain_timeout: Duration::from_secs(drain_seconds.unsigned_abs()),
            write_timeout: Duration::from_secs(write_timeout_seconds.unsigned_abs()),
            metrics_public: *metrics_public,
            ..server::Options::default()
        }
    }
}

fn count(number: i64) -> usize {
    usize::try_from(number).unwrap_or(0)
}

/// The name of a text that was left as a template has it.
fn placeholder(table: &Table) -> Option<String> {
    const WORDS: &[&str] =
        &["changeme", "change-me", "change_me", "replaceme", "replace-me", "replace_me", "placeholder"];
    for (key, value) in table {
        match value {
            Value::Table(inner) => {
                if let Some(found) = placeholder(inner) {
                    return Some(format!("{key}.{found}"));
                }
            }
            Value::String(text) => {
                let small = text.to_lowercase();
                let bracketed = small.contains("${") || (small.contains('<') && small.contains('>'));
                if bracketed || WORDS.iter().any(|word| small.contains(word)) {
                    return Some(key.clone());
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, env: &[(&str, &str)]) -> Result<Config, String> {
        let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Config::read(text, &env).map_err(|failure| failure.text())
    }

    #[test]
    fn nothing_given_is_the_runtimes_own_defaults() {
        let config = check("", &[]).unwrap();
        let (ours, theirs) = (config.runtime_options(), runtime::Options::default());
        assert_eq!(format!("{ours:?}"), format!("{theirs:?}"));
    }

    #[test]
    fn the_environment_wins_over_the_file() {
        let text = "[server]\nlisten = '127.0.0.1:1'\n[runtime]\nmax_poison_retries = 2\n";
        let env = [("WINDLASS_SERVER_LISTEN", "127.0.0.1:2"), ("WINDLASS_RUNTIME_DEQUEUE_WAIT_SECONDS", "7")];
        let config = check(text, &env).unwrap();
        assert_eq!(config.server.listen, "127.0.0.1:2");
        assert_eq!(config.runtime_options().poison.attempts_max, 3);
        assert_eq!(config.runtime_options().rescan, Some(Span::from_secs(7)));
    }

    #[test]
    fn bounds_of_workers_come_from_the_file_and_the_environment() {
        let text = "[workers.mail]\nconcurrency_max = 4\nprefetch = 9\n[workers.'a.b']\nprefetch = 1\n";
        let env = [("WINDLASS_WORKERS_MAIL_PREFETCH", "7"), ("WINDLASS_WORKERS_SHIP_CONCURRENCY_MAX", "1")];
        let workers = check(text, &env).unwrap().runtime_options().workers;
        let found: Vec<_> = workers
            .iter()
            .map(|(name, said)| (name.as_str(), said.concurrency_max, said.prefetch_max))
            .collect();
        assert_eq!(found, [("a.b", None, Some(1)), ("mail", Some(4), Some(7)), ("ship", Some(1), None)]);
    }

    #[test]
    fn lists_come_from_the_environment_too() {
        let env = [
            ("WINDLASS_EGRESS_ALLOW_PRIVATE", "10.0.0.0/8, fd00::/8"),
            ("WINDLASS_EGRESS_RESOLVE", "a.example:443=127.0.0.1"),
            ("WINDLASS_EGRESS_PORTS", "443"),
        ];
        let egress = check("", &env).unwrap().runtime_options().egress;
        assert_eq!((egress.allow_private.len(), egress.resolve.len(), egress.ports), (2, 1, vec![443]));
    }

    #[test]
    fn what_is_wrong_is_named() {
        type Case = (&'static str, &'static [(&'static str, &'static str)], &'static str);
        let cases: &[Case] = &[
            ("[runtime]\nmax_poison_retires = 2\n", &[], "max_poison_retires"),
            ("[runtime]\ndequeue_size = 0\n", &[], "runtime.dequeue_size is 0; it must be 1 to 10000"),
            ("[runtime]\ndequeue_size = 'many'\n", &[], "line 2"),
            ("[runtime]\ndead_letter_policy = 'burn'\n", &[], "dead_letter_policy"),
            ("[server]\nlisten = 'everywhere'\n", &[], "server.listen"),
            ("[store]\ndata = '/var/lib/changeme'\n", &[], "store.data still holds a placeholder"),
            ("[retention]\nkeys = '23h'\n", &[], "retention.keys is \"23h\"; it must be 1d to 36500d"),
            ("[retention]\nended = '0s'\n", &[], "retention.ended is \"0s\"; it must be 1s to"),
            (
                "[retention]\nended = '30'\n",
                &[],
                "retention.ended is \"30\"; it must be a length with its unit",
            ),
            ("[retention]\nevery = 'never'\n", &[], "retention.every is \"never\"; it must be a length"),
            ("nonsense", &[], "line 1"),
            ("", &[("WINDLASS_RUNTIME_BATCH_MAX", "lots")], "WINDLASS_RUNTIME_BATCH_MAX"),
            ("", &[("WINDLASS_LOG_FORMAT", "xml")], "xml"),
            (
                "",
                &[("WINDLASS_RUNTIME_BATCH_MAXX", "9")],
                "WINDLASS_RUNTIME_BATCH_MAXX is not known; is WINDLASS_RUNTIME_BATCH_MAX meant?",
            ),
            ("", &[("WINDLASS_LISTEN", "127.0.0.1:1")], "WINDLASS_LISTEN is not known"),
            ("", &[("WINDLASS_SECRET_KEY", "x")], "is WINDLASS_SECRETS_KEY meant?"),
            (
                "[egress]\nresolve = ['nonsense']\n",
                &[],
                "egress.resolve: \"nonsense\" is not HOST:PORT=ADDRESS",
            ),
            ("[egress]\nallow_private = ['10.0.0.0/99']\n", &[], "egress.allow_private"),
            ("[egress]\nca_files = ['/nowhere/ca.pem']\n", &[], "/nowhere/ca.pem"),
            ("[egress]\nproxy = 'socks5://p'\n", &[], "egress.proxy"),
            ("[egress]\nports = ['many']\n", &[], "egress.ports"),
            ("[breakers]\nworker_failed_percent = 0\n", &[], "breakers.worker_failed_percent is 0"),
            ("[breakers]\nkill_switch = false\n", &[], "kill_switch"),
            ("", &[("WINDLASS_BREAKERS_RETRY_BUDGET", "maybe")], "WINDLASS_BREAKERS_RETRY_BUDGET"),
            ("[workers.mail]\nprefetch = 0\n", &[], "workers.mail.prefetch is 0; it must be 1 to 1000000"),
            ("", &[("WINDLASS_WORKERS_MAIL_PREFETCH", "lots")], "WINDLASS_WORKERS_MAIL_PREFETCH"),
            ("[egress]\nredirects_max = 99\n", &[], "egress.redirects_max is 99"),
            ("", &[("WINDLASS_HINTS_URL", "kafka://k")], "hints.url: Kafka carries no hints"),
        ];
        for (text, env, expected) in cases {
            let said = check(text, env).unwrap_err();
            assert!(said.contains(expected), "{text:?}: {said}");
        }
    }
}
