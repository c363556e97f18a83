//! What the API answers when it does not do what was asked: RFC 9457 `application/problem+json`.
//!
//! Handlers return [`Problem`]; it travels as a response extension until [`crate::frame`], the outermost layer,
//! adds the request's id and address and writes the body. Nothing internal (SQL, paths, addresses) goes in here.

use crate::code::{self, Code};
use axum::{
    http::{HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use machine::data::DataError;
use serde::Serialize;
use std::borrow::Cow;
use utoipa::ToSchema;

/// Where the codes are explained; served by this server.
pub const ERRORS_PATH: &str = "/docs/errors.md";

/// One problem on its way to the client.
#[derive(Clone, Debug)]
pub struct Problem {
    pub code: Code,
    pub detail: String,
    pub errors: Vec<Flaw>,
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// What happened inside: for the log, never for the client. Boxed, because every handler hands this on.
    pub cause: Option<Box<String>>,
}

/// One thing wrong inside the request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, ToSchema)]
pub struct Flaw {
    /// JSON pointer into the body, or the name of the query parameter or header.
    pub pointer: String,
    pub message: String,
    /// 1-based line, when the body is a document.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// 1-based column.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub column: Option<u32>,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Stable word for this flaw, when it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<&'static str>,
}

/// The body of every answer with a status of 400 or more.
#[derive(Serialize, ToSchema)]
pub struct ProblemBody<'a> {
    /// Address of the code's explanation, relative to the server.
    #[serde(rename = "type")]
    pub kind: String,
    pub title: &'a str,
    pub status: u16,
    pub detail: &'a str,
    /// The address that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance: Option<&'a str>,
    /// Stable kebab-case word; every one has a section in docs/errors.md.
    pub code: &'a str,
    #[serde(skip_serializing_if = "<[Flaw]>::is_empty")]
    pub errors: &'a [Flaw],
    /// True if sending the same request again later may succeed.
    pub retryable: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<&'a str>,
}

impl Problem {
    pub fn new(code: Code, detail: impl Into<String>) -> Problem {
        Problem { code, detail: detail.into(), errors: Vec::new(), headers: Vec::new(), cause: None }
    }

    /// Nothing of that name in this tenant.
    pub fn not_found(what: &str) -> Problem {
        Problem::new(code::NOT_FOUND, format!("{what} not found"))
    }

    /// A fault of ours: the cause goes to the log, never to the client.
    pub fn internal(cause: impl std::fmt::Display) -> Problem {
        Problem::new(code::INTERNAL, "the server made an error; its log has the cause under this request id")
            .with_cause(cause)
    }

    pub fn with_cause(mut self, cause: impl std::fmt::Display) -> Problem {
        self.cause = Some(Box::new(cause.to_string()));
        self
    }

    /// Writes the cause to the log, where the request's id leads to it.
    pub(crate) fn log(&self, request_id: &str) {
        let (code, status) = (self.code.word, self.code.status);
        match &self.cause {
            Some(cause) if status == 500 => tracing::error!(request_id, code, cause, "request failed inside"),
            Some(cause) => tracing::warn!(request_id, code, cause, "request refused"),
            None if status >= 500 => {
                tracing::warn!(request_id, code, detail = self.detail, "request refused")
            }
            None => {}
        }
    }

    /// One flaw at `pointer`; the detail says the same in a sentence.
    pub fn at(code: Code, pointer: impl Into<String>, message: impl Into<String>) -> Problem {
        let (pointer, message) = (pointer.into(), message.into());
        let place = if pointer.is_empty() { "the body".to_owned() } else { pointer.clone() };
        Problem::new(code, format!("{place}: {message}")).with_flaw(Flaw {
            pointer,
            message,
            ..Flaw::default()
        })
    }

    pub fn with_flaw(mut self, flaw: Flaw) -> Problem {
        self.errors.push(flaw);
        self
    }

    /// Adds what to do about it to the last flaw.
    pub fn with_hint(mut self, hint: Option<String>) -> Problem {
        if let Some(flaw) = self.errors.last_mut() {
            flaw.hint = hint;
        }
        self
    }

    pub fn with_header(mut self, name: HeaderName, value: &str) -> Problem {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.push((name, value));
        }
        self
    }

    /// A header that the answer will have.
    pub fn header(&self, name: &HeaderName) -> Option<&str> {
        let (_, value) = self.headers.iter().find(|(own, _)| own == name)?;
        value.to_str().ok()
    }

    pub fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.code.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// The JSON body, with what only the request knows.
    pub fn body<'a>(&'a self, instance: Option<&'a str>, request_id: Option<&'a str>) -> ProblemBody<'a> {
        ProblemBody {
            kind: format!("{ERRORS_PATH}#{}", self.code.word),
            title: self.code.title,
            status: self.code.status,
            detail: &self.detail,
            instance,
            code: self.code.word,
            errors: &self.errors,
            retryable: self.code.retryable,
            request_id,
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(mut self) -> Response {
        let mut response = self.status().into_response();
        response.headers_mut().extend(std::mem::take(&mut self.headers));
        response
            .headers_mut()
            .insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        response.extensions_mut().insert(self);
        response
    }
}

impl From<DataError> for Problem {
    fn from(error: DataError) -> Problem {
        let (code, hint): (Code, Option<&str>) = match &error {
            DataError::Depth => (code::TOO_DEEP, Some("flatten the value")),
            DataError::Number(_) => (code::NUMBER_OUT_OF_RANGE, Some("write it as text")),
            DataError::Nul => (code::NUL_CHARACTER, Some("send binary data as base64 text")),
            DataError::DuplicateKey(_) => (code::DUPLICATE_KEY, Some("keep one of them")),
            DataError::Syntax(message) if is_lone_surrogate(message) => (code::LONE_SURROGATE, None),
            DataError::Syntax(_) => (code::INVALID_JSON, None),
        };
        Problem::at(code, "", error.to_string()).with_hint(hint.map(Into::into))
    }
}

fn is_lone_surrogate(message: &str) -> bool {
    message.contains("surrogate") || message.contains("unexpected end of hex escape")
}

/// Problems of a definition document as flaws.
pub fn flaws(problems: Vec<machine::language::Problem>) -> Vec<Flaw> {
    let flaw = |problem: machine::language::Problem| Flaw {
        pointer: problem.pointer,
        message: problem.message,
        line: Some(problem.line).filter(|line| *line > 0),
        column: Some(problem.column).filter(|column| *column > 0),
        hint: problem.hint,
        code: Some(problem.code),
    };
    problems.into_iter().map(flaw).collect()
}

/// Shortens client text that is repeated in an answer.
pub fn excerpt(text: &str) -> Cow<'_, str> {
    const EXCERPT_MAX: usize = 80;
    match text.char_indices().nth(EXCERPT_MAX) {
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
        None => Cow::Borrowed(text),
    }
}
