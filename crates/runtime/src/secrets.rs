//! Secrets of tenants: sealed before they are stored, opened only for an outward call.
//!
//! [`Keyring`] holds the operator's keys, the newest first: it seals with the first and opens with whichever key a
//! row names. A sealed value is bound to its tenant, name and key, so a row moved elsewhere does not open.
//! Nothing here has `Debug` or `Serialize`: a value can leave only where it is asked for by name.

use crate::{api::Refusal, engine::Engine, refusal::of_store};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use machine::{Data, TenantId};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use sha2::{Digest, Sha256};
use std::{str::FromStr, sync::Arc};
use store::{Commit, Conflict, Outcome, Write, rows::SecretRow};

const KEY_BYTES: usize = 32;
const KEY_ID_BYTES_MAX: usize = 64;
/// Secrets of one tenant.
pub const SECRETS_MAX: usize = 1000;
/// Bytes of one value as JSON.
pub const VALUE_BYTES_MAX: usize = 64 * 1024;
pub const NAME_BYTES_MAX: usize = 128;
/// Hosts one secret may be bound to.
pub const HOSTS_MAX: usize = 50;

/// The operator's keys, newest first. Empty if none are configured: then there are no secrets.
#[derive(Clone, Default)]
pub struct Keyring {
    keys: Arc<Vec<(String, LessSafeKey)>>,
}

impl Keyring {
    /// One new key, and the text to keep it as.
    pub fn fresh() -> (Keyring, String) {
        let mut bytes = [0; KEY_BYTES];
        getrandom::fill(&mut bytes).expect("the system has randomness");
        let text = STANDARD.encode(bytes);
        let ring = text.parse().expect("32 bytes are a key");
        (ring, text)
    }

    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// The id of the key that seals now.
    fn current(&self) -> Option<&str> {
        self.keys.first().map(|(id, _)| id.as_str())
    }

    /// Seals with the newest key: its id, and nonce and ciphertext.
    fn seal(&self, tenant: &TenantId, name: &str, plain: &[u8]) -> Option<(String, Vec<u8>)> {
        let (id, key) = self.keys.first()?;
        let mut nonce = [0; NONCE_LEN];
        getrandom::fill(&mut nonce).ok()?;
        let mut sealed = plain.to_vec();
        let bound = Aad::from(bound_to(tenant, name, id));
        key.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), bound, &mut sealed).ok()?;
        Some((id.clone(), [&nonce[..], &sealed].concat()))
    }

    fn open(&self, tenant: &TenantId, row: &SecretRow) -> Option<Vec<u8>> {
        let (id, key) = self.keys.iter().find(|(id, _)| *id == row.key_id)?;
        let (nonce, sealed) = row.sealed.split_first_chunk::<NONCE_LEN>()?;
        let mut sealed = sealed.to_vec();
        let bound = Aad::from(bound_to(tenant, &row.name, id));
        let plain = key.open_in_place(Nonce::assume_unique_for_key(*nonce), bound, &mut sealed).ok()?;
        Some(plain.to_vec())
    }
}

fn bound_to(tenant: &TenantId, name: &str, key_id: &str) -> Vec<u8> {
    [tenant.as_str(), name, key_id].join("\0").into_bytes()
}

impl FromStr for Keyring {
    type Err = String;

    /// Keys separated by line ends or commas, newest first: 32 bytes in base64, each with `ID:` before it if it is
    /// to have a name. Lines that begin with `#` are skipped.
    fn from_str(text: &str) -> Result<Keyring, String> {
        let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
        let mut keys: Vec<(String, LessSafeKey)> = Vec::new();
        for (at, entry) in
            lines.flat_map(|line| line.split(',')).map(str::trim).filter(|e| !e.is_empty()).enumerate()
        {
            // The text itself is never repeated in a message.
            let wrong = |what: &str| format!("key {}: {what}", at + 1);
            let (id, encoded) = match entry.split_once(':') {
                Some((id, encoded)) => (Some(id.trim()), encoded.trim()),
                None => (None, entry),
            };
            let bytes = STANDARD.decode(encoded).ok().filter(|bytes| bytes.len() == KEY_BYTES);
            let bytes = bytes.ok_or_else(|| {
                wrong("a key is 32 bytes in base64, such as `openssl rand -base64 32` makes")
            })?;
            let id = match id {
                Some(id) if is_name(id) && id.len() <= KEY_ID_BYTES_MAX => id.to_owned(),
                Some(_) => return Err(wrong("its id may have letters, digits, `.`, `_` and `-`")),
                None => Sha256::digest(&bytes)[..4].iter().map(|byte| format!("{byte:02x}")).collect(),
            };
            if keys.iter().any(|(known, _)| *known == id) {
                return Err(wrong("its id is there twice"));
            }
            let key = UnboundKey::new(&AES_256_GCM, &bytes).map_err(|_| wrong("it is no key"))?;
            keys.push((id, LessSafeKey::new(key)));
        }
        match keys.is_empty() {
            true => Err("there is no key".to_owned()),
            false => Ok(Keyring { keys: Arc::new(keys) }),
        }
    }
}

/// True for names of secrets and keys.
fn is_name(text: &str) -> bool {
    let fine = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    (1..=NAME_BYTES_MAX).contains(&text.len()) && text.bytes().all(fine)
}

/// A secret as it was given: text, or an object of texts.
pub(crate) struct Opened {
    pub(crate) value: Data,
    pub(crate) hosts: Vec<String>,
}

/// Why a secret cannot be had.
pub(crate) enum Missing {
    Unset,
    /// Sealed by a key this node does not have, or not what was sealed.
    Unreadable,
    Store(store::Error),
}

/// Opens a secret. Only outward calls do this.
pub(crate) async fn open(
    keys: &Keyring,
    store: &dyn store::Store,
    tenant: &TenantId,
    name: &str,
) -> Result<Opened, Missing> {
    let row = store.secret(tenant, name).await.map_err(Missing::Store)?.ok_or(Missing::Unset)?;
    let plain = keys.open(tenant, &row).ok_or(Missing::Unreadable)?;
    let value = Data::parse(&plain).map_err(|_| Missing::Unreadable)?;
    let hosts = serde_json::from_slice(&row.hosts).map_err(|_| Missing::Unreadable)?;
    Ok(Opened { value, hosts })
}

/// Seals and stores a secret; true if the name is new.
pub(crate) async fn put(
    engine: &Engine,
    tenant: &TenantId,
    name: &str,
    value: &Data,
    hosts: &[String],
) -> Result<bool, Refusal> {
    check(name, value, hosts)?;
    let known = engine.store.secrets(tenant).await.map_err(of_store)?;
    let created = !known.iter().any(|row| row.name == name);
    if created && known.len() >= SECRETS_MAX {
        return Err(invalid(format!("a tenant has at most {SECRETS_MAX} secrets")));
    }
    let Some((key_id, sealed)) = engine.secrets.seal(tenant, name, &value.to_bytes()) else {
        return Err(Refusal::Conflict {
            code: "secrets-disabled",
            detail: "this node has no key to seal secrets with; its operator can give it one".to_owned(),
            existing: None,
        });
    };
    let now = engine.now();
    let hosts = crate::rows::to_json(&hosts);
    let row = SecretRow {
        name: name.to_owned(),
        version: 1,
        key_id,
        sealed,
        hosts,
        created_at: now,
        updated_at: now,
    };
    match commit(engine, tenant, Write::PutSecret { row: Box::new(row), expected_version: None }).await? {
        Outcome::Committed => Ok(created),
        other => Err(Refusal::Unavailable(format!("{other:?}"))),
    }
}

pub(crate) async fn delete(engine: &Engine, tenant: &TenantId, name: &str) -> Result<(), Refusal> {
    match commit(engine, tenant, Write::DeleteSecret { name: name.to_owned() }).await? {
        Outcome::Committed => Ok(()),
        Outcome::Conflict(Conflict::Gone) => Err(Refusal::NotFound("secret".to_owned())),
        other => Err(Refusal::Unavailable(format!("{other:?}"))),
    }
}

async fn commit(engine: &Engine, tenant: &TenantId, write: Write) -> Result<Outcome, Refusal> {
    let commit = Commit { tenant: tenant.clone(), writes: vec![write] };
    engine.committer.commit(commit).await.map_err(of_store)
}

/// Seals what an older key sealed with the newest one. What cannot be opened is left and told.
pub(crate) async fn reseal(engine: &Engine) -> store::Result<()> {
    let keys = &engine.secrets;
    let Some(current) = keys.current() else { return Ok(()) };
    for tenant in engine.store.tenants().await? {
        for row in engine.store.secrets(&tenant.id).await?.into_iter().filter(|row| row.key_id != current) {
            let plain = keys.open(&tenant.id, &row);
            let Some((key_id, sealed)) = plain.and_then(|plain| keys.seal(&tenant.id, &row.name, &plain))
            else {
                tracing::warn!(tenant = %tenant.id, secret = row.name, key = row.key_id, "no key opens this secret");
                continue;
            };
            let expected_version = Some(row.version);
            let row = Box::new(SecretRow { key_id, sealed, updated_at: engine.now(), ..row });
            let write = Write::PutSecret { row, expected_version };
            let commit = Commit { tenant: tenant.id.clone(), writes: vec![write] };
            // Whoever replaced it meanwhile did so with a key of their own choice.
            engine.committer.commit(commit).await?;
        }
    }
    Ok(())
}

fn invalid(detail: String) -> Refusal {
    Refusal::Invalid { code: "invalid-value", detail, problems: vec![] }
}

fn check(name: &str, value: &Data, hosts: &[String]) -> Result<(), Refusal> {
    if !is_name(name) {
        let detail = format!("a name has 1 to {NAME_BYTES_MAX} letters, digits, `.`, `_` and `-`");
        return Err(invalid(detail));
    }
    let is_object = value.entries().is_some_and(|entries| !entries.is_empty());
    if !(is_object || value.as_str().is_some_and(|text| !text.is_empty())) {
        return Err(invalid("a secret is text or an object, and not empty".to_owned()));
    }
    if value.to_bytes().len() > VALUE_BYTES_MAX {
        return Err(invalid(format!("a secret has at most {VALUE_BYTES_MAX} bytes")));
    }
    let is_host = |host: &String| {
        let host = host.strip_prefix("*.").unwrap_or(host);
        (1..=253).contains(&host.len())
            && host
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b':' | b'[' | b']'))
    };
    if hosts.len() > HOSTS_MAX || !hosts.iter().all(is_host) {
        let detail = format!("hosts are at most {HOSTS_MAX} names such as api.example.com or *.example.com");
        return Err(invalid(detail));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::Time;

    fn row(ring: &Keyring, tenant: &str, name: &str) -> SecretRow {
        let tenant = TenantId::new(tenant).unwrap();
        let (key_id, sealed) = ring.seal(&tenant, name, b"\"canary\"").unwrap();
        let (created_at, updated_at) = (Time(0), Time(0));
        SecretRow {
            name: name.to_owned(),
            version: 1,
            key_id,
            sealed,
            hosts: b"[]".to_vec(),
            created_at,
            updated_at,
        }
    }

    #[test]
    fn what_is_sealed_opens_only_where_it_belongs() {
        let ring = Keyring::fresh().0;
        let (acme, other) = (TenantId::new("acme").unwrap(), TenantId::new("other").unwrap());
        let sealed = row(&ring, "acme", "a");
        assert_eq!(ring.open(&acme, &sealed).unwrap(), b"\"canary\"");
        assert!(!sealed.sealed.windows(6).any(|part| part == b"canary"));
        assert!(ring.open(&other, &sealed).is_none());
        assert!(ring.open(&acme, &SecretRow { name: "b".to_owned(), ..sealed.clone() }).is_none());
        assert!(Keyring::fresh().0.open(&acme, &sealed).is_none());
        for at in 0..sealed.sealed.len() {
            let mut bent = sealed.clone();
            bent.sealed[at] ^= 1;
            assert!(ring.open(&acme, &bent).is_none(), "byte {at}");
        }
        assert_ne!(sealed.sealed, row(&ring, "acme", "a").sealed, "no nonce is used twice");
    }

    #[test]
    fn a_new_key_seals_and_the_old_one_still_opens() {
        let (old, old_text) = Keyring::fresh();
        let sealed = row(&old, "acme", "a");
        let both: Keyring = format!("new:{}\n{old_text}", Keyring::fresh().1).parse().unwrap();
        assert!(both.open(&TenantId::new("acme").unwrap(), &sealed).is_some());
        assert_eq!(row(&both, "acme", "a").key_id, "new");
    }

    #[test]
    fn keys_are_read_strictly_and_never_repeated() {
        let key = Keyring::fresh().1;
        for text in [
            "",
            "#",
            "short",
            "YWJj",
            &format!("a b:{key}"),
            &format!("a:{key},a:{key}"),
            &format!("{key}{key}"),
        ] {
            let error = text.parse::<Keyring>().err().unwrap();
            assert!(!error.contains(&key), "{error}");
        }
        let ring: Keyring = format!("# kept\n 2026-01:{key} ,\n").parse().unwrap();
        assert_eq!(ring.current(), Some("2026-01"));
    }

    #[test]
    fn names_values_and_hosts_are_checked() {
        let text = Data::text("x");
        assert!(
            check("my-api.key_2", &text, &["api.example.com".to_owned(), "*.example.com".to_owned()]).is_ok()
        );
        for name in ["", "a b", "a/b", "ä", &"x".repeat(NAME_BYTES_MAX + 1)] {
            assert!(check(name, &text, &[]).is_err(), "{name:?}");
        }
        for value in [
            Data::NULL,
            Data::text(""),
            Data::int(1),
            Data::object(),
            Data::text("x".repeat(VALUE_BYTES_MAX)),
        ] {
            assert!(check("a", &value, &[]).is_err());
        }
        for host in ["", "http://a", "a/b", "*", "a b"] {
            assert!(check("a", &text, &[host.to_owned()]).is_err(), "{host:?}");
        }
    }
}
