//! Queries of the one grammar (`docs/queries.md`) where the API takes them: as the parameter `q` of lists, and in bodies.

use crate::{app::App, auth::Caller, code, problem::Problem, query::Parameters};
use machine::query::{self, Condition, Subject};

/// The parameter of lists.
pub(crate) const Q: &str = "q";

/// What the parameter `q` says; nothing if it is not given.
pub(crate) fn conditions(
    app: &App,
    caller: &Caller,
    parameters: &Parameters,
    subject: Subject,
) -> Result<Vec<Condition>, Problem> {
    let text = parameters.text(Q).unwrap_or_default();
    let now = app.handle.clock(&caller.tenant).now;
    query::parse(subject, text, now).map_err(|error| refused(Q, error))
}

/// What is wrong with the query at `place`.
pub(crate) fn refused(place: &str, error: query::Error) -> Problem {
    let message = error.to_string();
    Problem::at(code::INVALID_QUERY, place, message).with_hint(error.hint)
}
