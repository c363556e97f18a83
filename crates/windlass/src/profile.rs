//! Finds out which server to ask and with which key.
//!
//! Flag, then environment, then profile, then whatever `windlass up` left in its data folder. The key in that folder
//! is sent only to the address that is noted beside it.

use crate::{
    client::{Client, Secret},
    failure::Failure,
    out,
};
use serde::Deserialize;
use std::{
    collections::BTreeMap,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

/// Where a server listens unless told otherwise.
pub(crate) const DEFAULT_URL: &str = "http://127.0.0.1:8400";
/// Where `up` keeps its data unless told otherwise.
pub(crate) const DEFAULT_DATA: &str = "./windlass-data";
/// Files in the data folder of `up`.
pub(crate) const KEY_FILE: &str = "demo-key";
/// The key that seals the secrets of tenants.
pub(crate) const SECRETS_KEY_FILE: &str = "secrets-key";
pub(crate) const URL_FILE: &str = "demo-url";

/// What was given on the command line or in the environment.
#[derive(Default)]
pub(crate) struct Given {
    pub(crate) url: Option<String>,
    pub(crate) key: Option<String>,
    pub(crate) profile: Option<String>,
    pub(crate) trace: bool,
}

/// `config.toml`.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// The profile to use when none is named.
    default: Option<String>,
    #[serde(default)]
    profiles: BTreeMap<String, Profile>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Profile {
    url: Option<String>,
    key: Option<String>,
}

/// A client for the server that is meant.
pub(crate) fn client(given: Given) -> Result<Client, Failure> {
    let profile = match config_path() {
        Some(path) => read(&path, given.profile.as_deref())?,
        None => Profile::default(),
    };
    let local = local();
    let url = given.url.or(profile.url);
    let url = url.or_else(|| local.as_ref().map(|(url, _)| url.clone()));
    let url = url.unwrap_or_else(|| DEFAULT_URL.to_owned());
    let key = given.key.or(profile.key).filter(|key| !key.is_empty());
    let key = key.or_else(|| {
        let (local_url, key) = local?;
        (local_url.trim_end_matches('/') == url.trim_end_matches('/')).then_some(key)
    });
    Client::new(&url, key.map(Secret), given.trace)
}

/// What a running `up` noted about itself.
fn local() -> Option<(String, String)> {
    let folder = std::env::var_os("WINDLASS_DATA").map_or_else(|| PathBuf::from(DEFAULT_DATA), PathBuf::from);
    let read =
        |file: &str| std::fs::read_to_string(folder.join(file)).ok().map(|text| text.trim().to_owned());
    Some((read(URL_FILE)?, read(KEY_FILE)?))
}

fn config_path() -> Option<PathBuf> {
    let folder = match std::env::var_os("XDG_CONFIG_HOME") {
        Some(folder) if !folder.is_empty() => PathBuf::from(folder),
        _ => PathBuf::from(std::env::var_os("HOME")?).join(".config"),
    };
    Some(folder.join("windlass/config.toml"))
}

fn read(path: &Path, wanted: Option<&str>) -> Result<Profile, Failure> {
    let unreadable = |error: String| Failure::usage(format!("{}: {error}", path.display()));
    let file = match std::fs::read_to_string(path) {
        Ok(text) => toml::from_str::<File>(&text).map_err(|error| unreadable(error.to_string()))?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => File::default(),
        Err(error) => return Err(unreadable(error.to_string())),
    };
    let Some(name) = wanted.or(file.default.as_deref()) else { return Ok(Profile::default()) };
    let profile = file.profiles.get(name).cloned().ok_or_else(|| {
        let known: Vec<&str> = file.profiles.keys().map(String::as_str).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        Failure::usage(format!("there is no profile {name:?} in {}; there is: {known}", path.display()))
    })?;
    if profile.key.is_some() && is_open(path) {
        out::note(&format!("warning: {} holds a key and others can read it: chmod 600 it", path.display()));
    }
    Ok(profile)
}

/// True if somebody other than the owner may read the file.
fn is_open(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|file| file.permissions().mode() & 0o077 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Exit;

    fn check(text: &str, wanted: Option<&str>) -> Result<Option<String>, Exit> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.toml");
        std::fs::write(&path, text).unwrap();
        read(&path, wanted).map(|profile| profile.url).map_err(|failure| failure.exit())
    }

    #[test]
    fn profiles_are_chosen_by_name_or_default() {
        let text = "default = 'a'\n[profiles.a]\nurl = 'http://a'\n[profiles.b]\nurl = 'http://b'\n";
        assert_eq!(check(text, None), Ok(Some("http://a".to_owned())));
        assert_eq!(check(text, Some("b")), Ok(Some("http://b".to_owned())));
        assert_eq!(check(text, Some("c")), Err(Exit::Usage));
        assert_eq!(check("[profiles.a]\nurll = 'x'\n", None), Err(Exit::Usage), "unknown keys are refused");
        assert_eq!(check("", None), Ok(None));
    }
}
