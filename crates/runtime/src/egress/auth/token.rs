//! Tokens from OAuth 2.0 and OpenID Connect: asked for once, kept until shortly before they expire.

use super::{Attempt, Policy, fits, unauthenticated};
use crate::egress::{
    exchange::{Request, Response, shown, url_of, wrong},
    reveal::encode,
};
use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use bytes::Bytes;
use hyper::{Method, StatusCode};
use machine::{Data, Fault, Time, fault::Kind, ir::Scheme, time::Span};
use parking_lot::Mutex;
use ring::hmac;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use url::Url;

/// Tokens kept in memory; those that expire first make room.
const TOKENS_MAX: usize = 4096;
/// Requests for different tokens at once; those for the same one wait for each other.
const LANES: usize = 64;
/// The longest answer of a token endpoint or of a discovery document.
const ANSWER_BYTES_MAX: usize = 256 * 1024;
/// A token is replaced this long before it expires, or a tenth of its life if that is shorter.
const MARGIN: Span = Span::from_secs(30);
/// How long a token is used that does not say how long it lives, and the longest that any is.
const LIFE_DEFAULT_SECONDS: i64 = 60;
const LIFE_SECONDS_MAX: i64 = 24 * 3600;
/// How long an assertion of our own is good for.
const ASSERTION_SECONDS: i64 = 60;

type Key = [u8; 32];

/// The tokens of this node.
pub(in crate::egress) struct Tokens {
    kept: Mutex<HashMap<Key, Kept>>,
    lanes: Vec<tokio::sync::Mutex<()>>,
}

struct Kept {
    /// `Bearer …`.
    value: String,
    until: Time,
}

impl Default for Tokens {
    fn default() -> Tokens {
        let lanes = (0..LANES).map(|_| tokio::sync::Mutex::new(())).collect();
        Tokens { kept: Mutex::default(), lanes }
    }
}

impl Tokens {
    fn find(&self, key: &Key, now: Time) -> Option<String> {
        self.kept.lock().get(key).filter(|kept| kept.until > now).map(|kept| kept.value.clone())
    }

    fn keep(&self, key: Key, value: String, now: Time, seconds: i64) {
        let life = Span::from_secs(seconds.clamp(0, LIFE_SECONDS_MAX));
        let margin = Span(MARGIN.0.min(life.0 / 10));
        let mut kept = self.kept.lock();
        if kept.len() >= TOKENS_MAX {
            kept.retain(|_, kept| kept.until > now);
        }
        if kept.len() >= TOKENS_MAX {
            let first = kept.iter().min_by_key(|(_, kept)| kept.until).map(|(key, _)| *key);
            first.map(|key| kept.remove(&key));
        }
        kept.insert(key, Kept { value, until: now.after(Span(life.0 - margin.0)) });
    }
}

impl Attempt<'_> {
    /// The value for `Authorization`; `fresh` if the one kept is no longer taken.
    pub(super) async fn token(&mut self, policy: &Policy, fresh: bool) -> Result<String, Fault> {
        let egress = self.egress;
        let mut hash = Sha256::new();
        hash.update(self.tenant.as_str());
        hash.update([0, policy.scheme as u8]);
        hash.update(policy.members.to_bytes());
        let key: Key = hash.finalize().into();
        let _lane = egress.tokens.lanes[usize::from(key[0]) % LANES].lock().await;
        if let Some(value) = egress.tokens.find(&key, egress.clock.now()).filter(|_| !fresh) {
            return Ok(value);
        }
        let url = self.token_url(policy).await?;
        let host = url.host_str().unwrap_or_default().to_owned();
        fits(&policy.name, &policy.hosts, &host)?;
        self.secrets.check_hosts(&policy.raw, &host)?;
        let request = self.token_request(policy, url)?;
        let shown = request.shown.clone();
        let response = egress.send(request).await?;
        let granted = self.granted(policy, &shown, &response)?;
        egress.tokens.keep(key, granted.0.clone(), egress.clock.now(), granted.1);
        Ok(granted.0)
    }

    /// Where tokens are given out.
    async fn token_url(&self, policy: &Policy) -> Result<Url, Fault> {
        let authority = policy.text("authority")?;
        let authority = authority.trim_end_matches('/');
        if policy.scheme == Scheme::Oauth2 {
            let path = policy.optional("endpoints.token").unwrap_or_else(|| "/oauth2/token".to_owned());
            let url = match path.contains("://") {
                true => path,
                false => format!("{authority}/{}", path.trim_start_matches('/')),
            };
            return url_of(&url, &url);
        }
        let place = format!("{authority}/.well-known/openid-configuration");
        let request = Request::get(url_of(&place, &place)?, ANSWER_BYTES_MAX);
        let at = request.shown.clone();
        let response = self.egress.send(request).await?;
        let document = Data::parse(&response.body).ok().filter(|_| response.status.is_success());
        let document = document.ok_or_else(|| {
            let detail = format!("{at} answered {}, and no OpenID configuration", response.status);
            ungranted(response.status, detail)
        })?;
        let issuer = document.get("issuer").map(|issuer| issuer.to_text()).unwrap_or_default();
        check_issuer(policy, &issuer)?;
        // A list names whom else to trust; without one whoever is asked speaks for himself alone.
        if !lists_issuers(policy) && issuer.trim_end_matches('/') != authority {
            return Err(unauthenticated(format!(
                "{at} speaks for the issuer {issuer:?}, not for {authority:?}"
            )));
        }
        let endpoint = document.get("token_endpoint").and_then(|url| url.as_str().map(str::to_owned));
        let endpoint = endpoint.ok_or_else(|| unauthenticated(format!("{at} names no token endpoint")))?;
        url_of(&endpoint, &endpoint)
    }

    fn token_request(&self, policy: &Policy, url: Url) -> Result<Request, Fault> {
        let grant = policy.optional("grant").unwrap_or_else(|| "client_credentials".to_owned());
        let mut fields = vec![("grant_type", grant.clone())];
        match grant.as_str() {
            "client_credentials" => {}
            "password" => {
                fields.push(("username", policy.text("username")?));
                fields.push(("password", policy.text("password")?));
            }
            "refresh_token" => fields.push(("refresh_token", policy.text("subject.token")?)),
            "urn:ietf:params:oauth:grant-type:token-exchange" => {
                fields.push(("subject_token", policy.text("subject.token")?));
                fields.push(("subject_token_type", policy.text("subject.type")?));
                if let Some(token) = policy.optional("actor.token") {
                    fields.push(("actor_token", token));
                    fields.push(("actor_token_type", policy.text("actor.type")?));
                }
            }
            other => return Err(wrong(format!("the grant {other:?} cannot be used without a person"))),
        }
        let list = |key: &str| -> Vec<String> {
            let list = policy.members.get(key).unwrap_or_default();
            list.items().map(|items| items.map(|item| item.to_text()).collect()).unwrap_or_default()
        };
        let mut scopes = list("scopes");
        if policy.scheme == Scheme::Oidc && !scopes.iter().any(|scope| scope == "openid") {
            scopes.insert(0, "openid".to_owned());
        }
        if !scopes.is_empty() {
            fields.push(("scope", scopes.join(" ")));
        }
        let audiences = list("audiences");
        if !audiences.is_empty() {
            fields.push(("audience", audiences.join(" ")));
        }
        let mut request = Request::get(url, ANSWER_BYTES_MAX);
        request.shown = format!("POST {}", shown(&request.url));
        request.method = Method::POST;
        request.private_body = true;
        self.client(policy, &mut request, &mut fields)?;
        request.header("accept", "application/json", false)?;
        let is_json = policy.optional("request.encoding").as_deref() == Some("application/json");
        let (kind, body) = match is_json {
            true => {
                let members = fields.into_iter().map(|(name, value)| (name.to_owned(), Data::text(value)));
                ("application/json", Data::map(members).to_bytes())
            }
            false => {
                let mut form = url::form_urlencoded::Serializer::new(String::new());
                form.extend_pairs(fields);
                ("application/x-www-form-urlencoded", form.finish().into_bytes())
            }
        };
        request.header("content-type", kind, false)?;
        request.body = Some(Bytes::from(body));
        Ok(request)
    }

    /// Says which client asks, in the way the policy names.
    fn client(
        &self,
        policy: &Policy,
        request: &mut Request,
        fields: &mut Vec<(&'static str, String)>,
    ) -> Result<(), Fault> {
        let id = policy.optional("client.id");
        let secret = policy.optional("client.secret");
        let method =
            policy.optional("client.authentication").unwrap_or_else(|| "client_secret_post".to_owned());
        if method == "client_secret_basic" {
            let pair =
                format!("{}:{}", encode(&policy.text("client.id")?), encode(&policy.text("client.secret")?));
            return request.header("authorization", &format!("Basic {}", STANDARD.encode(pair)), true);
        }
        fields.extend(id.clone().map(|id| ("client_id", id)));
        let assertion = match (method.as_str(), policy.optional("client.assertion")) {
            ("client_secret_jwt" | "private_key_jwt", Some(assertion)) => assertion,
            ("client_secret_jwt", None) => {
                let (id, secret) = (policy.text("client.id")?, policy.text("client.secret")?);
                assertion(&id, &secret, request.url.as_str(), self.egress.clock.now())?
            }
            ("client_secret_post", _) => {
                fields.extend(secret.map(|secret| ("client_secret", secret)));
                return Ok(());
            }
            ("none", _) => return Ok(()),
            (other, _) => {
                return Err(wrong(format!("client authentication {other:?} lacks `client.assertion`")));
            }
        };
        fields.push((
            "client_assertion_type",
            "urn:ietf:params:oauth:client-assertion-type:jwt-bearer".to_owned(),
        ));
        fields.push(("client_assertion", assertion));
        Ok(())
    }

    /// The token in the answer, and its life in seconds.
    fn granted(&mut self, policy: &Policy, at: &str, response: &Response) -> Result<(String, i64), Fault> {
        let answer = Data::parse(&response.body).unwrap_or_default();
        let text = |key: &str| answer.get(key).and_then(|value| value.as_str().map(str::to_owned));
        let token = text("access_token").filter(|token| !token.is_empty() && response.status.is_success());
        let Some(token) = token else {
            // Only the code of the error: descriptions of some servers repeat what they were sent.
            let code: String =
                text("error").unwrap_or_default().chars().filter(|c| !c.is_control()).take(60).collect();
            let code = if code.is_empty() { "no token".to_owned() } else { code };
            let detail = format!("{at} answered {}: {}", response.status, self.secrets.blot(&code));
            return Err(ungranted(response.status, detail));
        };
        for key in ["access_token", "refresh_token", "id_token"] {
            if let Some(text) = text(key) {
                self.secrets.hide("token", &text);
            }
        }
        if let Some(issuer) = issuer_of(&token) {
            check_issuer(policy, &issuer)?;
        }
        let kind = text("token_type").filter(|kind| !kind.eq_ignore_ascii_case("bearer"));
        let life =
            answer.get("expires_in").and_then(|life| life.as_i64().or_else(|| life.to_text().parse().ok()));
        Ok((
            format!("{} {token}", kind.unwrap_or_else(|| "Bearer".to_owned())),
            life.unwrap_or(LIFE_DEFAULT_SECONDS),
        ))
    }
}

/// No token was given. A server that is overloaded or broken has refused nobody: asking again later may help.
fn ungranted(status: StatusCode, detail: String) -> Fault {
    if !status.is_server_error() && status != StatusCode::TOO_MANY_REQUESTS {
        return unauthenticated(detail);
    }
    let mut fault = Fault::new(Kind::Communication, detail);
    fault.status = status.as_u16();
    fault
}

fn lists_issuers(policy: &Policy) -> bool {
    policy.members.get("issuers").is_some_and(|listed| !listed.is_empty())
}

/// Refuses an issuer that the policy does not list, if it lists any.
fn check_issuer(policy: &Policy, issuer: &str) -> Result<(), Fault> {
    let listed = policy.members.get("issuers").unwrap_or_default();
    let listed: Vec<String> =
        listed.items().map(|items| items.map(|item| item.to_text()).collect()).unwrap_or_default();
    match listed.is_empty() || listed.iter().any(|known| known == issuer) {
        true => Ok(()),
        false => Err(unauthenticated(format!("the issuer {issuer:?} is not one that the policy lists"))),
    }
}

/// Who issued a token, if it is a JWT that says so. Whoever is called checks its signature.
fn issuer_of(token: &str) -> Option<String> {
    let claims = URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?).ok()?;
    Data::parse(&claims).ok()?.get("iss")?.as_str().map(str::to_owned)
}

/// A JWT signed with the client's secret (HS256).
fn assertion(id: &str, secret: &str, audience: &str, now: Time) -> Result<String, Fault> {
    let mut unique = [0; 16];
    getrandom::fill(&mut unique).map_err(|_| unauthenticated("no randomness for an assertion".to_owned()))?;
    let seconds = now.0.div_euclid(1_000_000);
    let claims = serde_json::json!({
        "iss": id, "sub": id, "aud": audience, "jti": URL_SAFE_NO_PAD.encode(unique),
        "iat": seconds, "exp": seconds + ASSERTION_SECONDS,
    });
    let head = URL_SAFE_NO_PAD.encode(br#"{"alg":"HS256","typ":"JWT"}"#);
    let signed = format!("{head}.{}", URL_SAFE_NO_PAD.encode(claims.to_string()));
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()), signed.as_bytes());
    Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(tag.as_ref())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_kept_until_shortly_before_it_expires() {
        let (tokens, key) = (Tokens::default(), [7; 32]);
        tokens.keep(key, "Bearer t".to_owned(), Time(0), 3600);
        assert_eq!(tokens.find(&key, Time(3_569_000_000)).as_deref(), Some("Bearer t"));
        assert_eq!(tokens.find(&key, Time(3_570_000_000)), None);
        tokens.keep(key, "Bearer short".to_owned(), Time(0), 10);
        assert_eq!(tokens.find(&key, Time(8_999_999)).as_deref(), Some("Bearer short"));
        assert_eq!(tokens.find(&key, Time(9_000_000)), None);
        tokens.keep(key, "Bearer dead".to_owned(), Time(0), -5);
        assert_eq!(tokens.find(&key, Time(0)), None);
    }

    #[test]
    fn tokens_are_bounded() {
        let tokens = Tokens::default();
        for i in 0..TOKENS_MAX + 10 {
            let key: Key = Sha256::digest(i.to_be_bytes()).into();
            tokens.keep(key, String::new(), Time(0), 100 + i as i64);
        }
        assert_eq!(tokens.kept.lock().len(), TOKENS_MAX);
    }

    #[test]
    fn an_assertion_is_signed_with_the_secret() {
        let made = assertion("me", "key", "https://a/token", Time(1_000_000)).unwrap();
        let (signed, tag) = made.rsplit_once('.').unwrap();
        let key = hmac::Key::new(hmac::HMAC_SHA256, b"key");
        hmac::verify(&key, signed.as_bytes(), &URL_SAFE_NO_PAD.decode(tag).unwrap()).unwrap();
        assert_eq!(issuer_of(&made).as_deref(), Some("me"));
        assert_eq!(issuer_of("opaque"), None);
    }
}
