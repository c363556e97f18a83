//! Authentication policies and the secrets they name.

use super::{Lowering, expression::Site};
use crate::{
    ir::{Authentication, Scheme},
    language::source::At,
};

impl Lowering<'_, '_> {
    /// An authentication policy where it is used: on the spot, or by name.
    pub(super) fn authentication(&mut self, at: At<'_>) -> Option<Authentication> {
        match at.get("use").and_then(|name| Some((name, name.text()?))) {
            Some((at, name)) => self.used("authentications", name, at).and_then(|policy| self.policy(policy)),
            None => self.policy(at),
        }
    }

    /// An authentication policy; `None` if there is none that can be applied.
    pub(super) fn policy(&mut self, at: At<'_>) -> Option<Authentication> {
        let (word, policy) = at.entries().next()?;
        let scheme = match word {
            "basic" => Scheme::Basic,
            "bearer" => Scheme::Bearer,
            "digest" => Scheme::Digest,
            "oauth2" => Scheme::Oauth2,
            "oidc" => Scheme::Oidc,
            _ => return None,
        };
        if let Some((secret, name)) = policy.get("use").and_then(|secret| Some((secret, secret.text()?))) {
            self.secret(secret, name);
            return Some(Authentication::Secret { scheme, name: name.to_owned() });
        }
        match scheme {
            Scheme::Basic => Some(Authentication::Basic {
                username: self.template_in(policy, "username", Site::With)?,
                password: self.template_in(policy, "password", Site::With)?,
            }),
            Scheme::Bearer => {
                Some(Authentication::Bearer { token: self.template_in(policy, "token", Site::With)? })
            }
            Scheme::Digest => {
                Some(Authentication::Policy { scheme, with: self.template(policy, Site::With) })
            }
            Scheme::Oauth2 | Scheme::Oidc => {
                self.token_policy(policy, word);
                Some(Authentication::Policy { scheme, with: self.template(policy, Site::With) })
            }
        }
    }

    /// Finds in a policy that asks for a token what could never give one.
    fn token_policy(&mut self, policy: At<'_>, word: &str) {
        let text = |key: &str| policy.get(key).and_then(At::text);
        let client = |key: &str| policy.get("client").and_then(|client| client.get(key)).and_then(At::text);
        let lacks = |key: &str| policy.get(key).is_none();
        let grant = text("grant").unwrap_or("client_credentials");
        let missing = match grant {
            _ if lacks("authority") => Some("`authority`"),
            "password" if lacks("username") || lacks("password") => Some("`username` and `password`"),
            "urn:ietf:params:oauth:grant-type:token-exchange" | "refresh_token" if lacks("subject") => {
                Some("`subject`, the token to exchange")
            }
            _ => None,
        };
        if let Some(missing) = missing {
            let message = format!("`{word}` authentication with the grant `{grant}` needs {missing}");
            self.error(policy.key_place(), "missing-key", message, None);
        }
        if grant == "authorization_code" {
            let what = "the grant `authorization_code`, which needs a person with a browser";
            self.unsupported(policy.key_place(), what);
        }
        let method = client("authentication").unwrap_or_default();
        if method == "private_key_jwt" && client("assertion").is_none() {
            let message = "`private_key_jwt` needs `client.assertion`, the signed token".to_owned();
            self.error(policy.key_place(), "missing-key", message, None);
        }
    }

    /// Checks that a secret is declared.
    pub(super) fn secret(&mut self, at: At<'_>, name: &str) {
        if at.is_elsewhere() {
            let message = format!("a function from elsewhere cannot use the secret `{name}`");
            let hint = "declare the function in this document, in `use.functions`".to_owned();
            self.error(at.place(), "secret-exposed", message, Some(hint));
            return;
        }
        let secrets = self.root.get("use").and_then(|declared| declared.get("secrets"));
        if !secrets.into_iter().flat_map(At::items).any(|secret| secret.text() == Some(name)) {
            let message = format!("the secret `{name}` is not declared in `use.secrets`");
            self.error(
                at.place(),
                "unknown-reference",
                message,
                Some(format!("add `- {name}` to `use.secrets`")),
            );
        }
    }
}
