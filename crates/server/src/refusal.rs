//! Turns what the runtime and the store refuse into problems: the only place that knows both vocabularies.

use crate::{
    code,
    problem::{Problem, flaws},
};
use axum::http::header;
use machine::id::{self, Kind};
use runtime::api::Refusal;

/// How long a client is asked to stay away, in seconds.
const BUSY_RETRY_AFTER: &str = "1";
/// Somebody has to free space first.
const FULL_RETRY_AFTER: &str = "30";
const UNAVAILABLE_RETRY_AFTER: &str = "2";

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Problem {
        let detail = refusal.to_string();
        match refusal {
            Refusal::NotFound(_) => Problem::new(code::NOT_FOUND, detail),
            Refusal::Invalid { code, problems, .. } => invalid(code, detail, problems),
            Refusal::Conflict { code, existing, .. } => {
                let known = code::by_word(code).filter(|known| known.status == 409);
                let problem = match known.filter(|known| *known != code::CONFLICT) {
                    Some(known) => Problem::new(known, detail),
                    None => conflict(&detail),
                };
                match existing {
                    Some(id) => problem.with_header(header::LOCATION, &instance_address(id)),
                    None => problem,
                }
            }
            Refusal::KeyReused => Problem::new(code::IDEMPOTENCY_KEY_REUSED, detail),
            Refusal::Stale { current } => {
                Problem::new(code::STALE, detail).with_header(header::ETAG, &format!("\"{current}\""))
            }
            Refusal::Parked { code, .. } | Refusal::Forbidden { code, .. } => {
                let known = code::by_word(code).filter(|known| known.status == 403);
                Problem::new(known.unwrap_or(code::FORBIDDEN), detail)
            }
            Refusal::Limited { code, after, .. } => {
                let known = code::by_word(code).filter(|known| known.status == 429);
                let seconds = (after.0.max(0) as u64).div_ceil(1_000_000).max(1).to_string();
                Problem::new(known.unwrap_or(code::BUSY), detail).with_header(header::RETRY_AFTER, &seconds)
            }
            Refusal::Busy => {
                Problem::new(code::BUSY, detail).with_header(header::RETRY_AFTER, BUSY_RETRY_AFTER)
            }
            Refusal::Full => Problem::new(
                code::STORE_FULL,
                "the store has no room left: nothing was written; reads still work",
            )
            .with_header(header::RETRY_AFTER, FULL_RETRY_AFTER),
            Refusal::Unavailable(cause) => unavailable(&cause),
        }
    }
}

fn invalid(word: &'static str, detail: String, problems: Vec<machine::language::Problem>) -> Problem {
    let known = code::by_word(word).filter(|known| matches!(known.status, 400 | 413 | 415 | 422));
    let code = match known {
        Some(code::REFUSED_BY_STORE) => {
            let refused =
                Problem::new(code::REFUSED_BY_STORE, "the store does not take this; nothing was written");
            return refused.with_cause(detail);
        }
        Some(known) => known,
        None if problems.is_empty() => code::INVALID_REQUEST,
        None => code::DEFINITION_INVALID,
    };
    let mut problem = Problem::new(code, detail);
    problem.errors = flaws(problems);
    problem
}

/// A conflict nobody named. Its detail speaks of rows, which are no business of a client.
fn conflict(cause: &str) -> Problem {
    Problem::new(code::CONFLICT, "somebody else changed the object at the same time; look again")
        .with_cause(cause)
}

fn unavailable(cause: &str) -> Problem {
    // The cause may quote the store (file names, SQL), so it is logged and not shown.
    Problem::new(code::UNAVAILABLE, "the server cannot do this right now; nothing was acknowledged")
        .with_header(header::RETRY_AFTER, UNAVAILABLE_RETRY_AFTER)
        .with_cause(cause)
}

impl From<store::Error> for Problem {
    fn from(error: store::Error) -> Problem {
        match error {
            store::Error::Corrupt(cause) | store::Error::Misconfigured(cause) => Problem::internal(cause),
            other => unavailable(&other.to_string()),
        }
    }
}

/// The address of an instance, for `Location`.
pub(crate) fn instance_address(id: uuid::Uuid) -> String {
    format!("/api/v1/instances/{}", id::show(Kind::Instance, id))
}
