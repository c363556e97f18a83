//! The HTTP exchange on stderr, for `--trace`. Whatever looks like a key loses its secret part.

use super::{Ask, Secret};
use crate::out;
use reqwest::Url;

/// The most bytes of a body that a trace shows.
const TRACED_BYTES_MAX: usize = 4096;

pub(super) fn request(ask: &Ask, url: &Url, key: Option<&Secret>) {
    out::note(&format!("> {} {url}", ask.method));
    if let Some(Secret(key)) = key {
        out::note(&format!("> authorization: Bearer {}", mask(key)));
    }
    for (name, value) in &ask.headers {
        out::note(&format!("> {}: {}", name.to_lowercase(), mask(value)));
    }
    if let Some((media_type, bytes)) = &ask.body {
        out::note(&format!("> content-type: {media_type}"));
        match url.path().contains("/secrets/") {
            true => out::note(&format!("> **** {} bytes", bytes.len())),
            false => body(">", bytes),
        }
    }
}

pub(super) fn response(response: &reqwest::Response) {
    out::note(&format!("< {}", response.status()));
    for (name, value) in response.headers() {
        out::note(&format!("< {name}: {}", mask(&String::from_utf8_lossy(value.as_bytes()))));
    }
}

pub(super) fn body(mark: &str, bytes: &[u8]) {
    let shown = &bytes[..bytes.len().min(TRACED_BYTES_MAX)];
    let text = mask(&String::from_utf8_lossy(shown));
    for line in text.lines() {
        out::note(&format!("{mark} {line}"));
    }
    if shown.len() < bytes.len() {
        out::note(&format!("{mark} … {} bytes in all", bytes.len()));
    }
}

/// Hides the secret part of every key in a text: `wlk_<id>_****`.
fn mask(text: &str) -> String {
    let mut masked = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("wlk_") {
        let (before, token) = rest.split_at(at);
        masked.push_str(before);
        let end =
            token.find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '-').unwrap_or(token.len());
        let id_end = token[4..end].find('_').map_or(4, |id| 4 + id + 1);
        masked.push_str(&token[..id_end]);
        masked.push_str("****");
        rest = &token[end..];
    }
    masked + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_masked_wherever_they_stand() {
        assert_eq!(mask("Bearer wlk_ab12_deadbeef"), "Bearer wlk_ab12_****");
        assert_eq!(
            mask(r#"{"secret":"wlk_ab_cd","x":"wlk_ef_01"}"#),
            r#"{"secret":"wlk_ab_****","x":"wlk_ef_****"}"#
        );
        assert_eq!(mask("wlk_nounderscore"), "wlk_****");
        assert_eq!(mask("nothing here"), "nothing here");
    }
}
