//! Puts secrets into a request, and keeps them out of everything that comes back.
//!
//! A call is stored with marks where its secrets belong. [`Revealed`] knows the values for as long as one attempt
//! takes: it replaces marks, remembers every form in which a value went out, and blots these out of answers and
//! messages. It has no `Debug`.

use super::{Egress, exchange::wrong};
use crate::{
    secrets::{self, Missing, Opened},
    unbegun::{Stop, Unbegun},
};
use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD},
};
use machine::{
    Data, Fault, TenantId,
    command::{Call, Placeholder},
};
use std::borrow::Cow;

/// Shorter values are not looked for in answers: they would be found everywhere.
const BLOT_BYTES_MIN: usize = 4;

/// The secrets of one attempt.
pub(crate) struct Revealed {
    known: Vec<Known>,
    /// Every form to blot out, with what stands there instead; the longest first.
    blots: Vec<(String, String)>,
}

struct Known {
    mark: String,
    /// As messages call it.
    shown: String,
    value: Data,
    hosts: Vec<String>,
}

impl Egress {
    /// Opens the secrets that a call names.
    pub(super) async fn reveal(&self, tenant: &TenantId, call: &Call) -> Result<Revealed, Stop> {
        let mut revealed = Revealed { known: Vec::new(), blots: Vec::new() };
        for Placeholder { mark, path } in &call.secrets {
            let (name, keys) = path.split_first().ok_or_else(|| wrong("a secret has no name".to_owned()))?;
            let Opened { mut value, hosts } = self.secret(tenant, name).await?;
            for key in keys {
                value = value
                    .get(key)
                    .ok_or_else(|| wrong(format!("the secret `{name}` has no field `{key}`")))?;
            }
            revealed.hide_data(name, &value);
            let shown = shown(name);
            revealed.known.push(Known { mark: mark.clone(), shown, value, hosts });
        }
        Ok(revealed)
    }

    /// The input of a worker's call with its secrets in place, and what keeps them out of its answer.
    pub(crate) async fn reveal_to_worker(
        &self,
        tenant: &TenantId,
        call: &Call,
    ) -> Result<(Data, Revealed), Stop> {
        let revealed = self.reveal(tenant, call).await?;
        self.begin()?;
        if let Some(bound) = revealed.known.iter().find(|known| !known.hosts.is_empty()) {
            return Err(wrong(format!("{} is bound to hosts, so no worker can have it", bound.shown)).into());
        }
        Ok((revealed.data(&call.input), revealed))
    }

    /// Opens one secret.
    pub(super) async fn secret(&self, tenant: &TenantId, name: &str) -> Result<Opened, Stop> {
        let found = secrets::open(&self.keys, self.store.as_ref(), tenant, name).await;
        found.map_err(|missing| match missing {
            Missing::Unset => {
                wrong(format!("the secret `{name}` is not set: `windlass secret set {name}`")).into()
            }
            Missing::Unreadable => {
                wrong(format!("the secret `{name}` cannot be opened by the keys of this node")).into()
            }
            Missing::Store(error) => Unbegun::Away(error).into(),
        })
    }
}

fn shown(name: &str) -> String {
    format!("[secret {name}]")
}

impl Revealed {
    /// Refuses if a secret in `raw` (which still has its marks) is bound to other hosts.
    pub(super) fn check_hosts(&self, raw: &str, host: &str) -> Result<(), Fault> {
        let bound = self.known.iter().filter(|known| raw.contains(&known.mark));
        bound
            .map(|known| (known.shown.as_str(), &known.hosts))
            .try_for_each(|(name, hosts)| fits(name, hosts, host))
    }

    /// True if a secret stands in `raw`.
    pub(super) fn is_in(&self, raw: &str) -> bool {
        self.known.iter().any(|known| raw.contains(&known.mark))
    }

    /// `raw` with values in place of marks.
    pub(super) fn text(&self, raw: &str) -> String {
        self.replace(raw, |_, value| value.to_text())
    }

    /// The same for a URL: values are percent-encoded, but for one that begins it, which may be a whole URL.
    pub(super) fn url(&self, raw: &str) -> String {
        self.replace(raw, |at, value| match at {
            0 => value.to_text(),
            _ => encode(&value.to_text()),
        })
    }

    /// `raw` with names in place of marks, for messages.
    pub(super) fn named(&self, raw: &str) -> String {
        self.known.iter().fold(raw.to_owned(), |text, known| text.replace(&known.mark, &known.shown))
    }

    fn replace(&self, raw: &str, form: impl Fn(usize, &Data) -> String) -> String {
        let mut text = raw.to_owned();
        for Known { mark, value, .. } in &self.known {
            while let Some(at) = text.find(mark.as_str()) {
                text.replace_range(at..at + mark.len(), &form(at, value));
            }
        }
        text
    }

    /// Data with values in place of marks; a text that is nothing but a mark becomes the value as it is.
    pub(super) fn data(&self, raw: &Data) -> Data {
        if self.known.is_empty() {
            return raw.clone();
        }
        let whole =
            |text: &str| self.known.iter().find(|known| known.mark == text).map(|known| known.value.clone());
        map(raw, &|text| whole(text).unwrap_or_else(|| Data::text(self.text(text))), &|key| self.text(key))
    }

    /// Remembers a value, and every text inside it, as one that must not come back.
    pub(super) fn hide_data(&mut self, name: &str, value: &Data) {
        match (value.entries(), value.as_str()) {
            (Some(entries), _) => entries.iter().for_each(|(_, inner)| self.hide_data(name, inner)),
            (None, Some(text)) => self.hide(name, text),
            (None, None) => {}
        }
    }

    /// Remembers a text in every form in which it could come back.
    pub(super) fn hide(&mut self, name: &str, text: &str) {
        let json = serde_json::to_string(text).unwrap_or_default();
        let form: String = url::form_urlencoded::byte_serialize(text.as_bytes()).collect();
        let forms = [
            text.to_owned(),
            json.trim_matches('"').to_owned(),
            form,
            encode(text),
            encode(text).to_lowercase(),
            STANDARD.encode(text),
            STANDARD_NO_PAD.encode(text),
            URL_SAFE.encode(text),
            URL_SAFE_NO_PAD.encode(text),
        ];
        for form in
            forms.into_iter().filter(|form| form.len() >= BLOT_BYTES_MIN && text.len() >= BLOT_BYTES_MIN)
        {
            if !self.blots.iter().any(|(known, _)| *known == form) {
                self.blots.push((form, shown(name)));
            }
        }
        self.blots.sort_by_key(|(form, _)| std::cmp::Reverse(form.len()));
    }

    /// A text that came from outside, without any secret that went out.
    pub(crate) fn blot<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut text = Cow::Borrowed(text);
        for (form, instead) in &self.blots {
            if text.contains(form.as_str()) {
                text = Cow::Owned(text.replace(form.as_str(), instead));
            }
        }
        text
    }

    /// The same for bytes that are about to be encoded, after which nobody would recognise a secret in them.
    pub(super) fn blot_bytes(&self, bytes: &[u8]) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        for (form, instead) in &self.blots {
            let mut from = 0;
            while let Some(at) = bytes[from..].windows(form.len()).position(|part| part == form.as_bytes()) {
                let at = from + at;
                bytes.splice(at..at + form.len(), instead.bytes());
                from = at + instead.len();
            }
        }
        bytes
    }

    /// The same for data, keys and numbers included.
    pub(crate) fn blot_data(&self, data: Data) -> Data {
        if self.blots.is_empty() {
            return data;
        }
        let blot = |text: &str| self.blot(text).into_owned();
        map(&data, &|text| Data::text(blot(text)), &blot)
    }

    /// The same for a fault.
    pub(super) fn blot_fault(&self, mut fault: Fault) -> Fault {
        for text in [&mut fault.title, &mut fault.detail].into_iter().flatten() {
            *text = self.blot(text).into_owned();
        }
        fault
    }
}

/// Refuses a host that a secret is not bound to.
pub(super) fn fits(name: &str, hosts: &[String], host: &str) -> Result<(), Fault> {
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    let fits = |bound: &String| match bound.to_ascii_lowercase().strip_prefix("*.") {
        Some(end) => host.strip_suffix(end).is_some_and(|start| start.ends_with('.')),
        None => bound.eq_ignore_ascii_case(&host),
    };
    match hosts.is_empty() || hosts.iter().any(fits) {
        true => Ok(()),
        false => Err(wrong(format!("{name} may not be sent to {host:?}: it is bound to other hosts"))),
    }
}

/// Changes every text in `data`, and every key.
fn map(data: &Data, text: &dyn Fn(&str) -> Data, key: &dyn Fn(&str) -> String) -> Data {
    if let Some(value) = data.as_str() {
        return text(value);
    }
    if let Some(items) = data.items() {
        return Data::array(items.map(|item| map(&item, text, key)).collect::<Vec<_>>());
    }
    match data.entries() {
        Some(entries) => {
            Data::map(entries.into_iter().map(|(name, value)| (key(&name), map(&value, text, key))))
        }
        None => match matches!(data.to_text().as_str(), "null" | "true" | "false") {
            true => data.clone(),
            // A number is left as it is unless it spells a secret.
            false => {
                let spelled = data.to_text();
                let changed = text(&spelled);
                if changed.as_str() == Some(spelled.as_str()) { data.clone() } else { changed }
            }
        },
    }
}

/// Percent-encodes everything but unreserved characters.
pub(super) fn encode(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~');
    text.bytes()
        .map(|byte| if plain(byte) { (byte as char).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn revealed(value: serde_json::Value) -> Revealed {
        let value = Data::from_json(value);
        let mut revealed = Revealed { known: Vec::new(), blots: Vec::new() };
        revealed.hide_data("s", &value);
        let (mark, shown) = ("secret-0123".to_owned(), shown("s"));
        revealed.known.push(Known { mark, shown, value, hosts: vec!["*.example.com".to_owned()] });
        revealed
    }

    #[test]
    fn values_take_the_place_of_marks() {
        let secrets = revealed(json!("p&q/ü"));
        assert_eq!(secrets.text("Bearer secret-0123!"), "Bearer p&q/ü!");
        assert_eq!(secrets.url("https://a/x?k=secret-0123"), "https://a/x?k=p%26q%2F%C3%BC");
        assert_eq!(secrets.url("secret-0123/x"), "p&q/ü/x");
        assert_eq!(secrets.named("GET https://a/secret-0123"), "GET https://a/[secret s]");
        let raw = Data::from_json(json!({ "a": ["secret-0123", 1, null], "b": { "c": "<secret-0123>" } }));
        assert_eq!(secrets.data(&raw).to_json(), json!({ "a": ["p&q/ü", 1, null], "b": { "c": "<p&q/ü>" } }));
        let whole = revealed(json!({ "user": "u", "password": "long enough" }));
        assert_eq!(
            whole.data(&Data::text("secret-0123")).to_json(),
            json!({ "user": "u", "password": "long enough" })
        );
    }

    #[test]
    fn values_are_blotted_out_in_every_form() {
        let secrets = revealed(json!({ "a": "p\"w/ü-1234", "n": "815815" }));
        for text in [
            "p\"w/ü-1234",
            "p\\\"w/ü-1234",
            "p%22w%2F%C3%BC-1234",
            "p%22w%2f%c3%bc-1234",
            &STANDARD.encode("p\"w/ü-1234"),
            &URL_SAFE_NO_PAD.encode("p\"w/ü-1234"),
            "815815",
        ] {
            assert_eq!(secrets.blot(&format!("<{text}>")), "<[secret s]>", "{text}");
        }
        let answer = Data::from_json(json!({ "p\"w/ü-1234": [815815, 8158, true, { "x": "is 815815." }] }));
        let clean = json!({ "[secret s]": ["[secret s]", 8158, true, { "x": "is [secret s]." }] });
        assert_eq!(secrets.blot_data(answer).to_json(), clean);
    }

    #[test]
    fn a_bound_secret_goes_nowhere_else() {
        let secrets = revealed(json!("value"));
        assert!(secrets.check_hosts("x secret-0123", "api.example.com").is_ok());
        assert!(secrets.check_hosts("x secret-0123", "API.Example.COM.").is_ok());
        for host in ["example.com", "evilexample.com", "api.example.com.evil", "127.0.0.1"] {
            assert!(secrets.check_hosts("x secret-0123", host).is_err(), "{host}");
        }
        assert!(secrets.check_hosts("no secret here", "evil").is_ok());
    }
}
