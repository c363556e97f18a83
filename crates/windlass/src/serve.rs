//! `windlass serve`: an engine for real use, from a configuration file. Makes nothing but, on an empty store, the
//! first platform key.

use crate::{
    config::{self, Config},
    failure::Failure,
    host, logs, otlp,
    out::{Format, Out},
    outward,
};
use machine::TenantId;
use runtime::{Handle, api::Refusal};
use serde_json::json;
use std::path::{Path, PathBuf};
use store::postgres;

/// The tenant that platform keys belong to.
const PLATFORM_TENANT: &str = "platform";

#[derive(clap::Args)]
#[command(after_long_help = "Examples:\n  \
    windlass serve --config windlass.toml\n  \
    windlass serve --print-config > windlass.toml      a file to begin with: all values, at their defaults\n  \
    WINDLASS_SERVER_LISTEN=0.0.0.0:8400 windlass serve\n  \
    windlass serve --store postgres://windlass_app@db/windlass      many of these make a cluster\n  \
    windlass serve --bus main=nats://bus:4222      what is emitted goes out over NATS JetStream\n  \
    windlass serve --egress-allow-private 10.0.0.0/8 --egress-ca corporate.pem\n\n\
    Every value of the file can be set by WINDLASS_SECTION_KEY; --print-config shows them all.\n\
    On an empty store a platform key is printed once. With it: `windlass tenant create`, `windlass key create`.")]
pub(crate) struct Args {
    /// Configuration file; without one every value has its default
    #[arg(long, value_name = "FILE", env = "WINDLASS_CONFIG")]
    config: Option<PathBuf>,
    /// PostgreSQL database to keep everything in, instead of the file; as `[store] url` does
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    /// What carries hints between nodes: postgres, off, redis://… or nats://…; as `[hints] url` does
    #[arg(long, value_name = "URL")]
    hints: Option<String>,
    /// A server that events go out over, such as main=nats://host:4222; as `[buses.main] url` does
    #[arg(long = "bus", value_name = "NAME=URL")]
    buses: Vec<String>,
    /// Make tables that are missing first; needs the role that owns them
    #[arg(long)]
    migrate: bool,
    /// Print the effective values and end
    #[arg(long)]
    print_config: bool,
    /// Let definitions have scripts (`run.script`), as `[scripts] allow = true` does
    #[arg(long)]
    allow_scripts: bool,
    /// Make another platform key, for when the first was lost
    #[arg(long)]
    new_platform_key: bool,
    #[command(flatten)]
    egress: outward::Args,
}

pub(crate) async fn run(args: Args, out: Out) -> Result<(), Failure> {
    let mut config = Config::load(args.config.as_deref())?;
    config.scripts.allow |= args.allow_scripts;
    if let Some(url) = &args.store {
        config.store.url.clone_from(url);
    }
    if let Some(url) = &args.hints {
        config.hints.url.clone_from(url);
    }
    for bus in &args.buses {
        let (name, url) = bus.split_once('=').ok_or_else(|| Failure::usage("--bus is NAME=URL"))?;
        config.buses.entry(name.to_owned()).or_default().url = url.to_owned();
    }
    if args.print_config {
        return print(&config, &out);
    }
    logs::start("info", config.log.format)?;
    let stop = host::Stop::new()?;
    let address = config.listen().ok_or_else(|| Failure::usage("server.listen is no address"))?;
    let place = host::Place::of(&config.store.url, &config.store.data)?;
    if args.migrate {
        place.migrate(None).await?;
    }
    let way = config.hints.way(&config.store.url).map_err(Failure::usage)?;
    let connections_max = usize::try_from(config.store.connections_max).unwrap_or_default();
    let database = postgres::Options {
        listen_url: Some(config.store.listen_url.clone()).filter(|url| !url.is_empty()),
        ..postgres::Options::with_connections(connections_max)
    };
    let store = place.open(database, &way).await?;
    tokio::spawn(crate::doctor::warn(config.clone()));
    let (listener, url) = host::listen(address).await?;
    let mut options = config.runtime_options();
    args.egress.apply(&mut options.egress)?;
    let key_file = Some(config.secrets.key_file.as_str()).filter(|file| !file.is_empty());
    let secrets = outward::keyring(key_file.map(Path::new))?;
    let buses = config::buses::open(&config.buses).map_err(Failure::usage)?;
    let recipe = host::Recipe::new(store, place.is_sole(), vec![], options, secrets)?
        .carrying(buses)
        .spans(otlp::spans(&config.telemetry)?);
    let node = recipe.start().await?;
    let key = platform_key(&node.handle(), args.new_platform_key).await?;
    match out.format {
        Format::Table => greet(&out, &url, &place.to_string(), key.as_deref())?,
        _ => out.line(&json!({ "url": url, "platform_key": key }).to_string())?,
    }
    if !address.ip().is_loopback() {
        tracing::warn!(%address, "this listens beyond this machine without encryption: put a TLS proxy in front");
    }
    host::serve(listener, recipe, node, config.server_options(), stop).await
}

fn print(config: &Config, out: &Out) -> Result<(), Failure> {
    let mut config = config.clone();
    let own = [&mut config.store.url, &mut config.store.listen_url, &mut config.hints.url];
    for url in own.into_iter().chain(config.buses.values_mut().map(|bus| &mut bus.url)) {
        *url = host::masked(url);
    }
    for line in &mut config.telemetry.otlp_headers {
        *line = format!("{}=***", line.split('=').next().unwrap_or_default());
    }
    let text = match out.format {
        Format::Table | Format::Id => {
            toml::to_string(&config).map_err(|error| Failure::failed(error.to_string()))?
        }
        Format::Json | Format::Jsonl => json!(config).to_string(),
    };
    out.line(text.trim_end())
}

/// A platform key if the store has no tenant yet, or if one is asked for.
async fn platform_key(handle: &Handle, wanted: bool) -> Result<Option<String>, Failure> {
    let failed = |error: String| Failure::failed(format!("no platform key: {error}"));
    let tenants = handle.store().tenants().await.map_err(|error| failed(error.to_string()))?;
    if !tenants.is_empty() && !wanted {
        return Ok(None);
    }
    let tenant = TenantId::new(PLATFORM_TENANT).map_err(|error| failed(error.to_string()))?;
    match handle.create_tenant(&tenant, "Platform").await {
        Ok(()) | Err(Refusal::Conflict { .. }) => {}
        Err(refusal) => return Err(failed(refusal.to_string())),
    }
    let made = handle.create_key(&tenant, "bootstrap", &["platform".to_owned()], None).await;
    let made = made.map_err(|refusal| failed(refusal.to_string()))?;
    Ok(Some(format!("wlk_{}_{}", made.id, made.secret)))
}

fn greet(out: &Out, url: &str, file: &str, key: Option<&str>) -> Result<(), Failure> {
    out.line(&format!("windlass {} serves {url} from {file}", env!("CARGO_PKG_VERSION")))?;
    let Some(key) = key else { return Ok(()) };
    out.line(&format!(
        "
The store is new. This platform key is shown this once; it makes tenants and keys:

  export WINDLASS_URL={url}
  export WINDLASS_KEY={key}
  windlass tenant create acme
  windlass key create --tenant acme --name admin --role admin"
    ))
}
