//! Digest authentication (RFC 7616): asks, is challenged, answers.

use super::{Attempt, Policy, unauthenticated};
use crate::egress::exchange::{Request, Response};
use hyper::{HeaderMap, StatusCode, header};
use machine::Fault;
use md5::Md5;
use sha2::{Digest, Sha256};

impl Attempt<'_> {
    pub(super) async fn digest(&mut self, request: Request, policy: &Policy) -> Result<Response, Fault> {
        let (username, password) = (policy.text("username")?, policy.text("password")?);
        // The challenge must come from the host itself, and costs no effect: it is refused for lack of credentials.
        let first = self.egress.send(request.clone()).await?;
        if first.status != StatusCode::UNAUTHORIZED {
            return Ok(first);
        }
        let Some(challenge) = Challenge::best(&first.headers) else {
            return Err(unauthenticated(format!(
                "{}: no digest challenge that can be answered",
                request.shown
            )));
        };
        let mut nonce = [0; 16];
        getrandom::fill(&mut nonce).map_err(|_| unauthenticated("no randomness for a digest".to_owned()))?;
        let path = match request.url.query() {
            Some(query) => format!("{}?{query}", request.url.path()),
            None => request.url.path().to_owned(),
        };
        let answer = Answer {
            username: &username,
            password: &password,
            method: request.method.as_str(),
            path: &path,
            client_nonce: &hex(&nonce),
        };
        let value = challenge.answer(&answer);
        self.authorized(request, &value).await
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Algorithm {
    Md5,
    Sha256,
}

/// What the server asks to be hashed.
#[derive(Debug, PartialEq)]
struct Challenge {
    algorithm: Algorithm,
    /// Hash user, realm and password together with the nonces.
    session: bool,
    realm: String,
    nonce: String,
    opaque: Option<String>,
    /// Without it the answer is that of RFC 2069.
    qop: bool,
    /// As the server spelled it.
    named: Option<String>,
}

struct Answer<'a> {
    username: &'a str,
    password: &'a str,
    method: &'a str,
    path: &'a str,
    client_nonce: &'a str,
}

impl Challenge {
    /// The strongest challenge among the headers that can be answered.
    fn best(headers: &HeaderMap) -> Option<Challenge> {
        let texts = headers.get_all(header::WWW_AUTHENTICATE).iter().filter_map(|value| value.to_str().ok());
        let found = texts.flat_map(challenges).filter_map(|fields| Challenge::read(&fields));
        found.max_by_key(|challenge| challenge.algorithm)
    }

    fn read(fields: &[(String, String)]) -> Option<Challenge> {
        let get =
            |wanted: &str| fields.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.clone());
        let named = get("algorithm");
        let word = named.as_deref().unwrap_or("MD5").to_ascii_uppercase();
        let (word, session) = match word.strip_suffix("-SESS") {
            Some(word) => (word.to_owned(), true),
            None => (word, false),
        };
        let algorithm = match word.as_str() {
            "MD5" => Algorithm::Md5,
            "SHA-256" => Algorithm::Sha256,
            _ => return None,
        };
        let qop = match get("qop") {
            Some(offered) if offered.split(',').any(|one| one.trim().eq_ignore_ascii_case("auth")) => true,
            Some(_) => return None,
            None => false,
        };
        Some(Challenge {
            algorithm,
            session,
            realm: get("realm")?,
            nonce: get("nonce")?,
            opaque: get("opaque"),
            qop,
            named,
        })
    }

    fn hash(&self, text: &str) -> String {
        match self.algorithm {
            Algorithm::Md5 => hex(&Md5::digest(text)),
            Algorithm::Sha256 => hex(&Sha256::digest(text)),
        }
    }

    /// The value of the `Authorization` header.
    fn answer(&self, answer: &Answer<'_>) -> String {
        const COUNT: &str = "00000001";
        let Answer { username, password, method, path, client_nonce } = answer;
        let Challenge { realm, nonce, .. } = self;
        let mut who = self.hash(&format!("{username}:{realm}:{password}"));
        if self.session {
            who = self.hash(&format!("{who}:{nonce}:{client_nonce}"));
        }
        let what = self.hash(&format!("{method}:{path}"));
        let response = match self.qop {
            true => self.hash(&format!("{who}:{nonce}:{COUNT}:{client_nonce}:auth:{what}")),
            false => self.hash(&format!("{who}:{nonce}:{what}")),
        };
        let mut value = format!(
            "Digest username={}, realm={}, nonce={}, uri={}, response=\"{response}\"",
            quoted(username),
            quoted(realm),
            quoted(nonce),
            quoted(path)
        );
        if let Some(named) = &self.named {
            value.push_str(&format!(", algorithm={named}"));
        }
        if self.qop {
            value.push_str(&format!(", qop=auth, nc={COUNT}, cnonce=\"{client_nonce}\""));
        }
        if let Some(opaque) = &self.opaque {
            value.push_str(&format!(", opaque={}", quoted(opaque)));
        }
        value
    }
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The fields of every digest challenge in one header value; names in lower case.
fn challenges(header: &str) -> Vec<Vec<(String, String)>> {
    let mut found: Vec<Vec<(String, String)>> = Vec::new();
    let mut in_digest = false;
    let mut rest = header.trim();
    while !rest.is_empty() {
        rest = rest.trim_start_matches([',', ' ', '\t']);
        let end = rest.find([' ', '=', ',']).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        match after.trim_start().strip_prefix('=') {
            Some(value) => {
                let (value, after) = field_value(value.trim_start());
                if let (true, Some(fields)) = (in_digest, found.last_mut()) {
                    fields.push((word.to_ascii_lowercase(), value));
                }
                rest = after;
            }
            None => {
                in_digest = word.eq_ignore_ascii_case("digest");
                if in_digest {
                    found.push(Vec::new());
                }
                rest = after.trim_start();
            }
        }
    }
    found
}

/// A value, quoted or not, and what follows it.
fn field_value(text: &str) -> (String, &str) {
    let Some(inner) = text.strip_prefix('"') else {
        let end = text.find([',', ' ']).unwrap_or(text.len());
        return (text[..end].to_owned(), &text[end..]);
    };
    let mut value = String::new();
    let mut chars = inner.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return (value, &inner[at + 1..]),
            '\\' => value.extend(chars.next().map(|(_, c)| c)),
            c => value.push(c),
        }
    }
    (value, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: Answer<'_> = Answer {
        username: "Mufasa",
        password: "Circle of Life",
        method: "GET",
        path: "/dir/index.html",
        client_nonce: "f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ",
    };

    fn rfc(algorithm: &str) -> HeaderMap {
        let challenge = format!(
            "Digest realm=\"http-auth@example.org\", qop=\"auth, auth-int\", algorithm={algorithm}, \
             nonce=\"7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v\", opaque=\"FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS\""
        );
        HeaderMap::from_iter([(header::WWW_AUTHENTICATE, challenge.parse().unwrap())])
    }

    #[test]
    fn the_examples_of_the_rfc_come_out() {
        for (algorithm, response) in [
            ("MD5", "8ca523f5e9506fed4657c9700eebdbec"),
            ("SHA-256", "753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1"),
        ] {
            let value = Challenge::best(&rfc(algorithm)).unwrap().answer(&ANSWER);
            assert!(value.contains(&format!("response=\"{response}\"")), "{value}");
            assert!(value.contains("qop=auth, nc=00000001") && value.contains("opaque=\"FQhe/"), "{value}");
        }
    }

    #[test]
    fn the_strongest_known_challenge_is_taken() {
        let mut headers = rfc("MD5");
        headers.append(
            header::WWW_AUTHENTICATE,
            "Basic realm=\"x\", Digest realm=\"a,\\\"b\", nonce=n, algorithm=SHA-256".parse().unwrap(),
        );
        headers.append(
            header::WWW_AUTHENTICATE,
            "Digest realm=\"x\", nonce=\"n\", algorithm=SHA-512-256".parse().unwrap(),
        );
        let best = Challenge::best(&headers).unwrap();
        assert_eq!((best.algorithm, best.realm.as_str(), best.qop), (Algorithm::Sha256, "a,\"b", false));
        for hopeless in [
            "Basic realm=x",
            "Digest realm=x, nonce=n, qop=auth-int",
            "Digest realm=x",
            "",
            "Digest",
            "=,=\"",
            "\"\\",
        ] {
            let headers = HeaderMap::from_iter([(header::WWW_AUTHENTICATE, hopeless.parse().unwrap())]);
            assert_eq!(Challenge::best(&headers), None, "{hopeless}");
        }
    }

    #[test]
    fn an_old_challenge_without_quality_is_answered_as_of_old() {
        let old = "Digest realm=\"testrealm@host.com\", nonce=\"dcd98b7102dd2f0e8b11d0f600bfb0c093\"";
        let headers = HeaderMap::from_iter([(header::WWW_AUTHENTICATE, old.parse().unwrap())]);
        let value = Challenge::best(&headers).unwrap().answer(&Answer { password: "CircleOfLife", ..ANSWER });
        assert!(value.contains("response=\"1949323746fe6a43ef61f9606e7febea\""), "{value}");
    }
}
