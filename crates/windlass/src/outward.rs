//! Outward calls and secrets as the operator sets them: flags of `up` and `serve`, and where keys come from.

use crate::failure::Failure;
use runtime::{egress, secrets::Keyring};
use std::path::{Path, PathBuf};

/// The variable that holds the keys of secrets; better than a flag, which others on the machine can see.
pub(crate) const KEY_VARIABLE: &str = "WINDLASS_SECRETS_KEY";

/// Rules for calls that leave this engine.
#[derive(clap::Args)]
#[group(id = "egress")]
#[command(next_help_heading = "Outward calls")]
pub(crate) struct Args {
    /// Dial this address for a host and port, even a private one; `*` is any host; may be given several times
    #[arg(long = "egress-resolve", value_name = "HOST:PORT=ADDRESS", value_parser = fits::<egress::Resolve>)]
    resolve: Vec<egress::Resolve>,
    /// PEM file with root certificates to trust beside the system's; may be given several times
    #[arg(long = "egress-ca", value_name = "FILE")]
    ca: Vec<PathBuf>,
    /// Range that may be called although it is not public, or `loopback`, or `all`; may be given several times
    #[arg(long = "egress-allow-private", value_name = "CIDR", value_parser = egress::private_ranges)]
    allow_private: Vec<std::vec::Vec<egress::Range>>,
    /// HTTP proxy for outward calls; the environment's proxy variables are not read
    #[arg(long = "egress-proxy", value_name = "URL", value_parser = fits::<egress::Proxy>)]
    proxy: Option<egress::Proxy>,
}

fn fits<T: std::str::FromStr<Err = String>>(text: &str) -> Result<T, String> {
    text.parse()
}

impl Args {
    /// Adds what was given to what is there.
    pub(crate) fn apply(self, settings: &mut egress::Settings) -> Result<(), Failure> {
        settings.resolve.splice(0..0, self.resolve);
        settings.allow_private.extend(self.allow_private.into_iter().flatten());
        settings.proxy = self.proxy.or(settings.proxy.take());
        for file in self.ca {
            settings.roots.extend(roots(&file)?);
        }
        Ok(())
    }
}

/// The root certificates in a PEM file.
pub(crate) fn roots(file: &Path) -> Result<Vec<Vec<u8>>, Failure> {
    let pem = std::fs::read(file)
        .map_err(|error| Failure::usage(format!("cannot read {}: {error}", file.display())))?;
    egress::roots(&pem).map_err(|error| Failure::usage(format!("{}: {error}", file.display())))
}

/// The keys of secrets: from the environment, else from the file, else none.
pub(crate) fn keyring(file: Option<&Path>) -> Result<Keyring, Failure> {
    let wrong = |from: &str, error: String| Failure::usage(format!("{from}: {error}"));
    if let Some(text) = std::env::var(KEY_VARIABLE).ok().filter(|text| !text.is_empty()) {
        return text.parse().map_err(|error| wrong(KEY_VARIABLE, error));
    }
    let Some(file) = file else { return Ok(Keyring::default()) };
    let text = std::fs::read_to_string(file)
        .map_err(|error| Failure::usage(format!("cannot read {}: {error}", file.display())))?;
    text.parse().map_err(|error| wrong(&file.display().to_string(), error))
}
