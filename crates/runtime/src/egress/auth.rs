//! Proves who calls: basic, bearer, digest, and tokens from OAuth 2.0 and OpenID Connect.
//!
//! Credentials come from the policy or from a secret, and live for one attempt; tokens are kept in memory until
//! shortly before they expire. Token endpoints are called through the same client, under the same rules.

mod digest;
mod token;

pub(super) use token::Tokens;

use super::{
    Egress,
    exchange::{Request, Response, wrong},
    reveal::{Revealed, fits},
};
use crate::unbegun::Stop;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use hyper::{StatusCode, header};
use machine::{
    Data, Fault, TenantId,
    command::{Authentication, Credentials},
    fault::Kind,
    ir::Scheme,
};

/// One attempt to call somebody: who calls, and the secrets involved.
pub(super) struct Attempt<'a> {
    pub(super) egress: &'a Egress,
    pub(super) tenant: &'a TenantId,
    pub(super) secrets: Revealed,
}

/// A policy with its credentials.
struct Policy {
    scheme: Scheme,
    members: Data,
    /// The members with their marks: what is asked for a token goes to another host than the call.
    raw: String,
    /// Hosts the credentials are bound to; any if empty.
    hosts: Vec<String>,
    /// How messages call them.
    name: String,
}

impl Attempt<'_> {
    /// Sends the request with what the policy demands.
    pub(super) async fn send(
        &mut self,
        request: Request,
        authentication: Option<&Authentication>,
    ) -> Result<Response, Stop> {
        let Some(authentication) = authentication else {
            self.egress.begin()?;
            return Ok(self.egress.send(request).await?);
        };
        let host = request.url.host_str().unwrap_or_default().to_owned();
        let policy = self.policy(authentication, &host).await?;
        self.egress.begin()?;
        let sent = match policy.scheme {
            Scheme::Basic => {
                let pair = format!("{}:{}", policy.text("username")?, policy.text("password")?);
                let value = format!("Basic {}", STANDARD.encode(pair));
                self.authorized(request, &value).await
            }
            Scheme::Bearer => {
                let token = policy.text("token")?;
                self.authorized(request, &format!("Bearer {token}")).await
            }
            Scheme::Digest => self.digest(request, &policy).await,
            Scheme::Oauth2 | Scheme::Oidc => return self.with_token(request, &policy).await,
        };
        Ok(sent?)
    }

    /// The policy, its marks replaced and checked against the host that will see them.
    async fn policy(&mut self, authentication: &Authentication, host: &str) -> Result<Policy, Stop> {
        let scheme = authentication.scheme;
        let is_direct = !matches!(scheme, Scheme::Oauth2 | Scheme::Oidc);
        match &authentication.credentials {
            Credentials::With(raw) => {
                let text = raw.to_text();
                let members = self.secrets.data(raw);
                if is_direct {
                    self.secrets.check_hosts(&text, host)?;
                }
                Ok(Policy { scheme, members, raw: text, hosts: vec![], name: "the policy".to_owned() })
            }
            Credentials::Secret(name) => {
                let opened = self.egress.secret(self.tenant, name).await?;
                self.secrets.hide_data(name, &opened.value);
                let members = match (opened.value.as_str(), scheme) {
                    (Some(_), Scheme::Bearer) => Data::map([("token".to_owned(), opened.value.clone())]),
                    (Some(_), _) => {
                        return Err(wrong(format!(
                            "the secret `{name}` must be an object with the members of the policy"
                        ))
                        .into());
                    }
                    (None, _) => opened.value,
                };
                let name = format!("the secret `{name}`");
                if is_direct {
                    fits(&name, &opened.hosts, host)?;
                }
                Ok(Policy { scheme, members, raw: String::new(), hosts: opened.hosts, name })
            }
        }
    }

    /// Sends with an `Authorization` header, which is remembered as a secret itself.
    async fn authorized(&mut self, mut request: Request, value: &str) -> Result<Response, Fault> {
        if let Some((_, credentials)) = value.split_once(' ') {
            self.secrets.hide("authorization", credentials);
        }
        request.headers.remove(header::AUTHORIZATION);
        request.header("authorization", value, true)?;
        self.egress.send(request).await
    }

    /// Sends with a token; one that is no longer taken is replaced once.
    async fn with_token(&mut self, request: Request, policy: &Policy) -> Result<Response, Stop> {
        let value = self.token(policy, false).await?;
        self.egress.begin()?;
        let response = self.authorized(request.clone(), &value).await?;
        if response.status != StatusCode::UNAUTHORIZED {
            return Ok(response);
        }
        let value = self.token(policy, true).await?;
        self.egress.begin()?;
        Ok(self.authorized(request, &value).await?)
    }
}

impl Policy {
    fn text(&self, key: &str) -> Result<String, Fault> {
        self.optional(key).ok_or_else(|| wrong(format!("{} has no `{key}`", self.name)))
    }

    /// A text of the policy, named by a path such as `client.id`.
    fn optional(&self, path: &str) -> Option<String> {
        let found = path.split('.').try_fold(self.members.clone(), |value, key| value.get(key))?;
        (!found.is_null()).then(|| found.to_text())
    }
}

/// The fault of credentials that nobody takes.
fn unauthenticated(detail: String) -> Fault {
    Fault::new(Kind::Authentication, detail)
}
