//! Logs on stderr, filtered by `WINDLASS_LOG`.

use crate::failure::Failure;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use tracing_subscriber::{filter::Targets, layer::SubscriberExt, util::SubscriberInitExt};

/// What a line of the log looks like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Format {
    #[default]
    Text,
    Json,
}

/// Begins logging at `level` unless `WINDLASS_LOG` says otherwise.
pub(crate) fn start(level: &str, format: Format) -> Result<(), Failure> {
    let wanted = std::env::var("WINDLASS_LOG").ok().filter(|text| !text.is_empty());
    // What clients of NATS and Kafka have to say, whoever uses them says once and in the product's words.
    let text = &wanted.unwrap_or_else(|| format!("{level},async_nats=off,krafka=off"));
    let filter: Targets = text
        .parse()
        .map_err(|error| Failure::usage(format!("WINDLASS_LOG={text:?} is no log filter: {error}")))?;
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let log = tracing_subscriber::registry().with(filter);
    let begun = match format {
        Format::Text => log.with(lines.with_target(false).with_ansi(is_colorful())).try_init(),
        Format::Json => log.with(lines.json().flatten_event(true)).try_init(),
    };
    begun.map_err(|error| Failure::failed(format!("no log: {error}")))
}

/// Makes panics say where, but not what, while a call is made: what they say may hold a secret.
pub(crate) fn keep_panics_discreet() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if runtime::egress::is_discreet() {
            let place = panic.location().map(ToString::to_string).unwrap_or_default();
            tracing::error!(place, "a call panicked; its message is withheld, because it may hold a secret");
        } else {
            usual(panic);
        }
    }));
}

fn is_colorful() -> bool {
    use std::io::IsTerminal;
    std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
