//! `windlass up`: an engine with demo data, for the first five minutes and for developing against.
//!
//! Keeps what it stores unless told otherwise. The demo key lies in the data folder, readable by the owner only, so
//! that a restart prints the same one and the client verbs find it.

use crate::{
    config::{Config, Telemetry},
    demo,
    failure::Failure,
    host, logs, otlp,
    out::{Format, Out},
    outward,
    profile::{DEFAULT_DATA, KEY_FILE, SECRETS_KEY_FILE, URL_FILE},
};
use machine::{TenantId, time::Span};
use runtime::{Handle, secrets::Keyring};
use std::{
    io::Write,
    net::{IpAddr, SocketAddr},
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};
use store::sqlite::Sqlite;

#[derive(clap::Args)]
#[command(after_long_help = "Examples:\n  \
    windlass up\n  \
    windlass up --ephemeral --port 0\n  \
    windlass up --egress-resolve petstore.swagger.io:443=127.0.0.1:8443 --egress-ca stub.pem\n  \
    windlass up --data /tmp/demo -o json      one line {\"url\",\"tenant\",\"key\"} once ready\n\n\
    WINDLASS_RUNTIME_… and WINDLASS_HINTS_… set what they set for `windlass serve`; --print-config there shows them all.")]
pub(crate) struct Args {
    /// Address to listen on
    #[arg(long, default_value = "127.0.0.1", value_name = "IP")]
    host: IpAddr,
    /// Port to listen on; 0 picks a free one
    #[arg(long, default_value_t = 8400)]
    port: u16,
    /// Folder that keeps the data
    #[arg(long, default_value = DEFAULT_DATA, env = "WINDLASS_DATA", value_name = "FOLDER")]
    data: PathBuf,
    /// Keep what is stored in this PostgreSQL database instead of a file; its tables are made if they are missing
    #[arg(
        long,
        default_value = "",
        hide_default_value = true,
        value_name = "URL",
        conflicts_with = "ephemeral"
    )]
    store: String,
    /// Keep nothing: everything is in memory and gone at the end
    #[arg(long)]
    ephemeral: bool,
    #[command(flatten)]
    egress: outward::Args,
}

pub(crate) async fn run(args: Args, out: Out) -> Result<(), Failure> {
    logs::start(if out.format == Format::Table { "info" } else { "warn" }, logs::Format::Text)?;
    let config = Config::of_environment()?;
    let stop = host::Stop::new()?;
    let folder = (!args.ephemeral).then_some(args.data.as_path());
    // The demo's keys and its address lie in the folder, whatever holds the rest.
    folder.map_or(Ok(()), host::make_folder)?;
    let place = folder.map(|folder| host::Place::of(&args.store, folder)).transpose()?;
    let store = match &place {
        Some(place) => {
            place.migrate(None).await?;
            place
                .open(
                    store::postgres::Options::default(),
                    &config.hints.way(&args.store).map_err(Failure::usage)?,
                )
                .await?
        }
        None => in_memory()?,
    };
    let sole = place.as_ref().is_none_or(host::Place::is_sole);
    let (listener, url) = host::listen(SocketAddr::new(args.host, args.port)).await?;
    let workers = demo::workers();
    let workers_count = workers.len();
    // One person's own engine: scripts are as good as expressions there.
    let mut options = runtime::Options {
        public_url: url.clone(),
        dev_clock: true,
        scripts: true,
        // Some of the demo's workers fail on purpose.
        kill_switch: None,
        retry_budget: false,
        ..config.runtime_options()
    };
    // A developer's own services run on this machine; every other range that is not public stays closed.
    options.egress.allow_private = runtime::egress::Range::LOOPBACK.to_vec();
    args.egress.apply(&mut options.egress)?;
    let recipe = host::Recipe::new(store, sole, workers, options, keyring(folder)?)?
        .spans(otlp::spans(&Telemetry::default())?);
    let node = recipe.start().await?;
    let handle = node.handle();
    let tenant = demo::set_up(&handle).await?;
    let key = key(&handle, &tenant, folder).await?;
    if let Some(folder) = folder {
        write_private(&folder.join(URL_FILE), &url)?;
    }
    let options = server::Options::default();
    let console = console(&options, &url, &key);
    if !args.host.is_loopback() {
        out.note("warning: this listens beyond this machine, without encryption, with a key that may do everything");
    }
    match out.format {
        Format::Table => {
            let greeting = Greeting { url: &url, console: &console, key: &key, workers: workers_count };
            greet(&out, &greeting, place.as_ref().zip(folder))?;
        }
        _ => {
            let line =
                serde_json::json!({ "url": url, "tenant": tenant.as_str(), "key": key, "console": console });
            out.line(&line.to_string())?;
        }
    }
    let served = host::serve(listener, recipe, node, options, stop).await;
    if let Some(folder) = folder {
        // Nobody answers there any more.
        let _ = std::fs::remove_file(folder.join(URL_FILE));
    }
    served
}

/// The keys of secrets: given, kept in the folder, or made now.
fn keyring(folder: Option<&Path>) -> Result<Keyring, Failure> {
    let Some(file) = folder.map(|folder| folder.join(SECRETS_KEY_FILE)) else {
        let given = outward::keyring(None)?;
        return Ok(if given.is_empty() { Keyring::fresh().0 } else { given });
    };
    if !file.exists() && std::env::var_os(outward::KEY_VARIABLE).is_none() {
        write_private(&file, &Keyring::fresh().1)?;
    }
    outward::keyring(Some(&file))
}

fn in_memory() -> Result<host::Shared, Failure> {
    let store =
        Sqlite::in_memory().map_err(|error| Failure::failed(format!("no store in memory: {error}")))?;
    Ok(host::Shared::with_nobody(store.shared()))
}

/// The demo key: the one kept in the folder if the store still knows it, else a new one.
async fn key(handle: &Handle, tenant: &TenantId, folder: Option<&Path>) -> Result<String, Failure> {
    let path = folder.map(|folder| folder.join(KEY_FILE));
    if let Some(kept) = path.as_ref().and_then(|path| std::fs::read_to_string(path).ok()) {
        let kept = kept.trim().to_owned();
        if is_known(handle, tenant, &kept).await? {
            return Ok(kept);
        }
    }
    let made = handle
        .create_key(tenant, "demo", &["admin".to_owned(), "platform".to_owned(), "monitor".to_owned()], None)
        .await;
    let made = made.map_err(|refusal| Failure::failed(format!("no key: {refusal}")))?;
    let key = format!("wlk_{}_{}", made.id, made.secret);
    if let Some(path) = path {
        write_private(&path, &key)?;
    }
    Ok(key)
}

async fn is_known(handle: &Handle, tenant: &TenantId, key: &str) -> Result<bool, Failure> {
    let Some((id, secret)) = key.strip_prefix("wlk_").and_then(|rest| rest.split_once('_')) else {
        return Ok(false);
    };
    let found = handle.store().key_by_id(id).await.map_err(|error| Failure::failed(error.to_string()))?;
    let now = runtime::clock::Clock::now(&runtime::clock::SystemClock);
    Ok(found.is_some_and(|(owner, row)| owner == *tenant && row.is_opened_by(secret, now)))
}

/// Writes a file that only its owner may read, whole or not at all.
fn write_private(path: &Path, text: &str) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::failed(format!("cannot write {}: {error}", path.display()));
    let part = path.with_extension("part");
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&part)
        .map_err(failed)?;
    // The mode above counts only for a file that was not there.
    file.set_permissions(std::fs::Permissions::from_mode(0o600)).map_err(failed)?;
    writeln!(file, "{text}").and_then(|()| file.sync_all()).map_err(failed)?;
    std::fs::rename(&part, path).map_err(failed)
}

/// The console's address with a link that logs in once; the address alone if no link can be made.
fn console(options: &server::Options, url: &str, key: &str) -> String {
    const LINK_LIFE: Span = Span::from_millis(60 * 60 * 1000);
    let key_id = key.strip_prefix("wlk_").and_then(|rest| rest.split_once('_')).map_or("", |(id, _)| id);
    match options.links.make(key_id, options.clock.now().after(LINK_LIFE)) {
        // After the #, so that it is in no log and no referrer, and looking at it uses nothing up.
        Some(token) => format!("{url}/#link={token}"),
        None => format!("{url}/"),
    }
}

/// What the greeting names.
struct Greeting<'g> {
    url: &'g str,
    console: &'g str,
    key: &'g str,
    workers: usize,
}

fn greet(out: &Out, greeting: &Greeting<'_>, kept: Option<(&host::Place, &Path)>) -> Result<(), Failure> {
    let Greeting { url, console, key, workers } = greeting;
    let version = env!("CARGO_PKG_VERSION");
    let data = match kept {
        Some((place, _)) => format!("{place} (kept; --ephemeral to forget)"),
        None => "in memory, gone at the end".to_owned(),
    };
    let exports = match kept.map(|(_, folder)| folder) {
        Some(folder) if folder == Path::new(DEFAULT_DATA) => {
            "In a second terminal, from this folder:".to_owned()
        }
        Some(folder) => {
            let folder = std::path::absolute(folder)?;
            format!("In a second terminal, after `export WINDLASS_DATA={}`:", folder.display())
        }
        None => {
            "In a second terminal, with url and key from above in WINDLASS_URL and WINDLASS_KEY:".to_owned()
        }
    };
    let end = if kept.is_some() { "what was acknowledged is kept" } else { "everything is gone then" };
    out.line(&format!(
        "windlass {version}

  console {console}
          (this link logs in once, within the hour; later, log in with the key)
  url     {url}
  key     {key}
  tenant  {tenant}
  data    {data}
  docs    {url}/api/docs

{workers} demo workers are ready, three example definitions are deployed, and one instance of each has started:
one of them waits for a person.

{exports}

  windlass task list                                        the approval that waits
  windlass task complete TASK --result '{{\"approved\": true}}'
  windlass instance list
  windlass instance start invoice-run --input @examples/invoice-run.input.json --watch

Ctrl-C stops; {end}.",
        tenant = demo::TENANT,
    ))
}
