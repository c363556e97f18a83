//! One message to a webhook: signed, to a checked address, its answer hardly read.

use super::{
    Egress,
    exchange::{Request, url_of, wrong},
    reveal::fits,
};
use crate::{
    unbegun::Stop,
    webhooks::sign::{self, Secret},
};
use hyper::{Method, header};
use machine::{Fault, TenantId, Time, fault::Kind, time::Span};
use std::time::Duration;
use url::Url;

/// How long a receiver may take to answer.
const ANSWER_MAX: Duration = Duration::from_secs(20);
/// The longest wait that a receiver may ask for.
const RETRY_AFTER_MAX: i64 = 86_400;

/// What is sent.
pub(crate) struct Message<'a> {
    pub(crate) url: &'a str,
    /// Names of the secrets that sign it.
    pub(crate) secrets: &'a [String],
    /// The same on every attempt.
    pub(crate) id: &'a str,
    pub(crate) body: &'a [u8],
}

/// What a receiver answered.
pub(crate) struct Answered {
    pub(crate) status: u16,
    pub(crate) retry_after: Option<Span>,
}

impl Egress {
    /// A URL that messages may be sent to: https, or http where the operator has opened private networks.
    pub(crate) fn webhook_url(&self, text: &str) -> Result<Url, Fault> {
        let url = url_of(text, text)?;
        match url.scheme() == "https" || !self.settings.allow_private.is_empty() {
            true => Ok(url),
            false => Err(wrong("a webhook needs https: what is sent is not for others to read".to_owned())),
        }
    }

    /// The secrets of these names, if they may sign what goes to that host.
    pub(crate) async fn webhook_secrets(
        &self,
        tenant: &TenantId,
        names: &[String],
        host: &str,
    ) -> Result<Vec<Secret>, Stop> {
        let mut secrets = Vec::with_capacity(names.len());
        for name in names {
            let opened = self.secret(tenant, name).await?;
            fits(&format!("[secret {name}]"), &opened.hosts, host)?;
            let text = opened.value.as_str().unwrap_or_default();
            secrets.push(Secret::read(text).map_err(|why| wrong(format!("the secret `{name}`: {why}")))?);
        }
        Ok(secrets)
    }

    /// Sends a message once. Redirects are answers like any other, and bodies of answers are not read.
    pub(crate) async fn send_webhook(
        &self,
        tenant: &TenantId,
        message: &Message<'_>,
    ) -> Result<Answered, Stop> {
        let url = self.webhook_url(message.url)?;
        let secrets =
            self.webhook_secrets(tenant, message.secrets, url.host_str().unwrap_or_default()).await?;
        self.begin()?;
        let timestamp = self.clock.now().0 / 1_000_000;
        let signature = sign::signature(&secrets, message.id, timestamp, message.body);
        let mut request = Request::get(url, 0);
        request.method = Method::POST;
        request.shown = request.shown.replacen("GET", "POST", 1);
        request.body = Some(message.body.to_vec().into());
        for (name, value) in [
            ("webhook-id", message.id),
            ("webhook-timestamp", &timestamp.to_string()),
            ("webhook-signature", &signature),
            ("content-type", "application/cloudevents+json"),
        ] {
            request.header(name, value, false)?;
        }
        let limit = ANSWER_MAX.min(self.limit);
        let exchanged = tokio::time::timeout(limit, self.exchange(&request)).await;
        let late = |_| Fault::new(Kind::Timeout, format!("no answer within {} s", limit.as_secs()));
        let response = exchanged.map_err(late)??;
        let retry_after = response.headers().get(header::RETRY_AFTER).and_then(|value| value.to_str().ok());
        Ok(Answered {
            status: response.status().as_u16(),
            retry_after: retry_after.and_then(|text| wait_asked(text, self.clock.now())),
        })
    }
}

/// How long `Retry-After` asks to wait: so many seconds, or until a date.
fn wait_asked(text: &str, now: Time) -> Option<Span> {
    let text = text.trim();
    let span = match text.parse::<i64>() {
        Ok(seconds) => Span::from_secs(seconds.clamp(0, RETRY_AFTER_MAX)),
        Err(_) => Time::parse_http(text)?.since(now),
    };
    Some(span.clamp(Span::ZERO, Span::from_secs(RETRY_AFTER_MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_asked_for_in_seconds_or_until_a_date() {
        let now = Time::parse_rfc3339("1994-11-06T08:49:37Z").expect("valid");
        let seconds = |text: &str| wait_asked(text, now).map(|span| span.0 / 1_000_000);
        for (text, expected) in [
            ("120", Some(120)),
            (" 7 ", Some(7)),
            ("-5", Some(0)),
            ("99999999999999999", Some(86_400)),
            ("Sun, 06 Nov 1994 08:59:37 GMT", Some(600)),
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(0)),
            ("Sat, 05 Nov 1994 08:49:37 GMT", Some(0)),
            ("Fri, 06 Nov 2099 08:49:37 GMT", Some(86_400)),
            ("soon", None),
            ("", None),
        ] {
            assert_eq!(seconds(text), expected, "{text:?}");
        }
    }
}
