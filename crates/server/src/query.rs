//! Reads what stands in the address and in headers: query parameters, path parameters, ids, idempotency keys.
//!
//! Nothing is ignored silently: an unknown parameter is refused and the nearest known name suggested.

use crate::{
    code,
    problem::{Problem, excerpt},
};
use axum::{
    extract::{FromRequestParts, Path, Query},
    http::{HeaderMap, Uri, request::Parts},
};
use machine::{Time, id};
use serde::de::DeserializeOwned;
use uuid::Uuid;

/// The longest value of a parameter.
const VALUE_BYTES_MAX: usize = 1024;
/// The longest idempotency key.
pub(crate) const IDEMPOTENCY_KEY_BYTES_MAX: usize = 255;

/// The query parameters of a request, all of them known.
#[derive(Debug)]
pub(crate) struct Parameters(Vec<(String, String)>);

impl Parameters {
    pub(crate) fn read(uri: &Uri, known: &[&str]) -> Result<Parameters, Problem> {
        let Ok(Query(pairs)) = Query::<Vec<(String, String)>>::try_from_uri(uri) else {
            return Err(Problem::new(code::INVALID_PARAMETER, "the query string is not well formed"));
        };
        for (at, (name, value)) in pairs.iter().enumerate() {
            if !known.contains(&name.as_str()) {
                return Err(Problem::at(
                    code::UNKNOWN_PARAMETER,
                    excerpt(name),
                    "this parameter is not known here",
                )
                .with_hint(nearest_hint(name, known)));
            }
            if pairs[..at].iter().any(|(earlier, _)| earlier == name) {
                return Err(invalid(name, "this parameter is given twice"));
            }
            if value.len() > VALUE_BYTES_MAX || value.chars().any(|c| c.is_control() || c == '\u{fffd}') {
                return Err(invalid(name, "this must be valid text without control characters"));
            }
        }
        Ok(Parameters(pairs))
    }

    /// The value of a parameter; an empty one counts as absent.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }

    pub(crate) fn owned(&self, name: &str) -> Option<String> {
        self.text(name).map(str::to_owned)
    }

    /// A comma-separated list.
    pub(crate) fn list(&self, name: &str) -> Vec<String> {
        let text = self.text(name).unwrap_or("");
        text.split(',').map(str::trim).filter(|word| !word.is_empty()).map(str::to_owned).collect()
    }

    /// A comma-separated list of known words.
    pub(crate) fn words(&self, name: &str, known: &[&str]) -> Result<Vec<String>, Problem> {
        let words = self.list(name);
        match words.iter().find(|word| !known.contains(&word.as_str())) {
            None => Ok(words),
            Some(word) => Err(invalid(name, format!("{:?} is none of {}", excerpt(word), known.join(", ")))
                .with_hint(nearest_hint(word, known))),
        }
    }

    /// One known word.
    pub(crate) fn one(&self, name: &str, known: &[&str]) -> Result<Option<String>, Problem> {
        let mut words = self.words(name, known)?;
        match words.len() {
            0 | 1 => Ok(words.pop()),
            _ => Err(invalid(name, "only one may be given")),
        }
    }

    pub(crate) fn time(&self, name: &str) -> Result<Option<Time>, Problem> {
        let Some(text) = self.text(name) else { return Ok(None) };
        match Time::parse_rfc3339(text) {
            Some(time) => Ok(Some(time)),
            None => Err(invalid(name, "this must be a time such as 2026-01-31T12:00:00Z")),
        }
    }

    /// A flag may stand alone: `?dry_run` is `?dry_run=true`.
    pub(crate) fn flag(&self, name: &str) -> Result<bool, Problem> {
        match self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str()) {
            None | Some("false") => Ok(false),
            Some("" | "true") => Ok(true),
            Some(_) => Err(invalid(name, "this must be true or false")),
        }
    }

    pub(crate) fn id(&self, name: &str, kind: id::Kind) -> Result<Option<Uuid>, Problem> {
        let Some(text) = self.text(name) else { return Ok(None) };
        id::parse(kind, text).map(Some).map_err(|error| invalid(name, error.to_string()))
    }
}

/// For routes that take no query parameters: refuses any.
pub(crate) struct NoParameters;

impl<S: Send + Sync> FromRequestParts<S> for NoParameters {
    type Rejection = Problem;
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<NoParameters, Problem> {
        Parameters::read(&parts.uri, &[]).map(|_| NoParameters)
    }
}

pub(crate) fn invalid(name: &str, message: impl Into<String>) -> Problem {
    Problem::at(code::INVALID_PARAMETER, excerpt(name), message)
}

/// The parts of the path.
pub(crate) struct Named<T>(pub T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Named<T> {
    type Rejection = Problem;
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Named<T>, Problem> {
        match Path::<T>::from_request_parts(parts, state).await {
            Ok(Path(value)) => Ok(Named(value)),
            Err(rejection) => Err(Problem::new(code::INVALID_ID, rejection.body_text())),
        }
    }
}

/// The id in a path.
pub(crate) fn path_id(kind: id::Kind, text: &str) -> Result<Uuid, Problem> {
    id::parse(kind, text).map_err(|_| {
        let form = format!("an id of the form {}_<32 hexadecimal digits> is needed", kind.prefix());
        Problem::new(code::INVALID_ID, form)
    })
}

/// The value of a header of at most `bytes_max` visible characters.
pub(crate) fn header(headers: &HeaderMap, name: &str, bytes_max: usize) -> Result<Option<String>, Problem> {
    let Some(value) = headers.get(name) else { return Ok(None) };
    match value.to_str().map(str::trim) {
        Ok(text) if (1..=bytes_max).contains(&text.len()) => Ok(Some(text.to_owned())),
        _ => Err(Problem::at(
            code::INVALID_HEADER,
            name,
            format!("this must be 1 to {bytes_max} visible ASCII characters"),
        )),
    }
}

pub(crate) fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    header(headers, "idempotency-key", IDEMPOTENCY_KEY_BYTES_MAX)
}

/// "did you mean …" if a known word is near.
pub(crate) fn nearest_hint(word: &str, known: &[&str]) -> Option<String> {
    const WORD_CHARS_MAX: usize = 64;
    let near = known.iter().filter(|_| word.chars().count() <= WORD_CHARS_MAX);
    let (distance, nearest) = near.map(|known| (edit_distance(word, known), known)).min()?;
    match distance <= 1 + nearest.len() / 3 {
        true => Some(format!("did you mean {nearest:?}?")),
        false => Some(format!("known here: {}", known.join(", "))),
    }
}

fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let cost = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = cost.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}
