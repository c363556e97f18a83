//! Reads request bodies: bounded before anything is kept, strict about what they hold.
//!
//! [`Document`] is raw text with its media type, [`Json`] a parsed value, [`Fields`] an object taken apart key by
//! key so that a wrong or unknown key is named with its JSON pointer.

use crate::{
    app::App,
    code,
    options::Options,
    problem::{Problem, excerpt},
    query::Parameters,
};
use axum::{
    body::Body,
    extract::{FromRequest, Request},
    http::{HeaderMap, header},
};
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use machine::{Data, language::Format};
use std::time::Duration;

/// An oversized body is read and thrown away up to this much, so that a client which writes before it reads sees
/// the answer rather than a reset connection.
const DISCARD_BYTES_MAX: usize = 128 * 1024 * 1024;
const DISCARD_TIMEOUT: Duration = Duration::from_secs(2);

/// A definition document.
pub(crate) struct Document {
    pub source: Bytes,
    pub format: Format,
}

impl FromRequest<App> for Document {
    type Rejection = Problem;
    async fn from_request(request: Request, app: &App) -> Result<Document, Problem> {
        let format = match media_type(request.headers()).as_str() {
            "application/json" => Format::Json,
            "application/yaml" | "application/x-yaml" | "text/yaml" => Format::Yaml,
            other => return Err(wrong_media_type(other, "application/yaml or application/json")),
        };
        let source = read(request, app.options.body_bytes_max, &app.options).await?;
        check_utf8(&source)?;
        Ok(Document { source, format })
    }
}

/// A JSON value; `None` if the body is empty.
pub(crate) struct Json(pub Option<Data>);

impl FromRequest<App> for Json {
    type Rejection = Problem;
    async fn from_request(request: Request, app: &App) -> Result<Json, Problem> {
        Json::read(request, app.options.body_bytes_max, &app.options).await
    }
}

impl Json {
    /// Reads a body of at most `bytes_max`.
    pub(crate) async fn read(request: Request, bytes_max: usize, options: &Options) -> Result<Json, Problem> {
        let media_type = media_type(request.headers());
        let bytes = match media_type.as_str() {
            "application/json" | "" => read(request, bytes_max, options).await?,
            other => return Err(wrong_media_type(other, "application/json")),
        };
        match (bytes.is_empty(), media_type.is_empty()) {
            (true, _) => Ok(Json(None)),
            (false, true) => Err(wrong_media_type("", "application/json")),
            (false, false) => {
                check_utf8(&bytes)?;
                Ok(Json(Some(Data::parse(&bytes)?)))
            }
        }
    }

    /// The value as an object with known keys.
    pub(crate) fn fields(self, known: &'static [&'static str]) -> Result<Fields, Problem> {
        match self.0 {
            Some(data) => Fields::new(&data, "", known),
            None => Err(Problem::at(code::INVALID_JSON, "", "a JSON object is needed, the body is empty")),
        }
    }
}

/// For routes that take neither body nor query parameters: refuses both. An empty object is fine.
pub(crate) struct Nothing;

impl FromRequest<App> for Nothing {
    type Rejection = Problem;
    async fn from_request(request: Request, app: &App) -> Result<Nothing, Problem> {
        Parameters::read(request.uri(), &[])?;
        match Json::from_request(request, app).await?.0 {
            Some(data) => Fields::new(&data, "", &[]).map(|_| Nothing),
            None => Ok(Nothing),
        }
    }
}

/// The media type without parameters, lower case; empty if there is none.
pub(crate) fn media_type(headers: &HeaderMap) -> String {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
    value.split(';').next().unwrap_or("").trim().to_ascii_lowercase()
}

pub(crate) fn wrong_media_type(given: &str, wanted: &str) -> Problem {
    let given = if given.is_empty() { "none".into() } else { excerpt(given) };
    Problem::new(code::UNSUPPORTED_MEDIA_TYPE, format!("the content type is {given}; send {wanted}"))
}

pub(crate) fn check_utf8(bytes: &[u8]) -> Result<(), Problem> {
    match std::str::from_utf8(bytes) {
        Ok(_) => Ok(()),
        Err(error) => Err(Problem::at(
            code::INVALID_UTF8,
            "",
            format!("the byte at offset {} is not UTF-8", error.valid_up_to()),
        )),
    }
}

/// Bodies come as they are.
pub(crate) fn refuse_encoding(headers: &HeaderMap) -> Result<(), Problem> {
    match headers.get(header::CONTENT_ENCODING).is_some_and(|encoding| encoding != "identity") {
        true => Err(Problem::new(code::UNSUPPORTED_MEDIA_TYPE, "send the body without Content-Encoding")),
        false => Ok(()),
    }
}

pub(crate) async fn read(request: Request, bytes_max: usize, options: &Options) -> Result<Bytes, Problem> {
    refuse_encoding(request.headers())?;
    let too_large =
        || Problem::new(code::BODY_TOO_LARGE, format!("the body may have at most {bytes_max} bytes"));
    let headers = request.headers();
    let declared = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    let waits = headers.contains_key(header::EXPECT);
    let mut body = request.into_body();
    if declared.is_some_and(|bytes: u64| bytes > bytes_max as u64) {
        if !waits {
            discard(body).await;
        }
        return Err(too_large());
    }
    match tokio::time::timeout(options.body_timeout, collect(&mut body, bytes_max)).await {
        Err(_) => Err(Problem::new(code::REQUEST_TIMEOUT, "the body did not arrive in time")),
        Ok(Err(_)) => Err(Problem::new(code::INTERRUPTED_BODY, "the body could not be read to its end")),
        Ok(Ok(Some(bytes))) => Ok(bytes),
        Ok(Ok(None)) => {
            discard(body).await;
            Err(too_large())
        }
    }
}

/// The whole body, or `None` as soon as it is longer than `bytes_max`.
async fn collect(body: &mut Body, bytes_max: usize) -> Result<Option<Bytes>, axum::Error> {
    let mut stream = std::mem::take(body).into_data_stream();
    let mut kept = BytesMut::new();
    while let Some(chunk) = stream.next().await {
        let chunk = chunk?;
        if kept.len() + chunk.len() > bytes_max {
            *body = Body::from_stream(stream);
            return Ok(None);
        }
        kept.extend_from_slice(&chunk);
    }
    Ok(Some(kept.freeze()))
}

async fn discard(body: Body) {
    let mut stream = body.into_data_stream();
    let mut bytes = 0;
    let all = async {
        while let Some(Ok(chunk)) = stream.next().await {
            bytes += chunk.len();
            if bytes > DISCARD_BYTES_MAX {
                break;
            }
        }
    };
    // Past the time limit the connection is simply closed.
    tokio::time::timeout(DISCARD_TIMEOUT, all).await.ok();
}

/// An object of the body. Unknown keys are refused when it is opened.
pub(crate) struct Fields {
    data: Data,
    pointer: String,
}

impl Fields {
    pub(crate) fn new(data: &Data, pointer: &str, known: &[&str]) -> Result<Fields, Problem> {
        let Some(entries) = data.entries() else {
            return Err(Problem::at(code::INVALID_VALUE, pointer, "this must be an object"));
        };
        for (key, _) in &entries {
            if !known.contains(&key.as_str()) {
                let place = format!("{pointer}/{}", escape_pointer(&excerpt(key)));
                return Err(Problem::at(code::UNKNOWN_KEY, place, "this key is not known here")
                    .with_hint(crate::query::nearest_hint(key, known)));
            }
        }
        Ok(Fields { data: data.clone(), pointer: pointer.to_owned() })
    }

    /// The value under `key`; JSON null counts as absent.
    pub(crate) fn value(&self, key: &str) -> Option<Data> {
        self.data.get(key).filter(|value| !value.is_null())
    }

    /// Text of 1 to `bytes_max` bytes.
    pub(crate) fn text(&self, key: &str, bytes_max: usize) -> Result<Option<String>, Problem> {
        let Some(value) = self.value(key) else { return Ok(None) };
        match value.as_str() {
            Some(text) if !text.is_empty() && text.len() <= bytes_max => Ok(Some(text.to_owned())),
            _ => Err(Problem::at(
                code::INVALID_VALUE,
                self.place(key),
                format!("this must be text of 1 to {bytes_max} bytes"),
            )),
        }
    }

    /// Text that people and logs know somebody or something by: in one line, and nothing in it that steers a terminal.
    pub(crate) fn label(&self, key: &str, bytes_max: usize) -> Result<Option<String>, Problem> {
        let text = self.text(key, bytes_max)?;
        match text.as_deref().is_some_and(|text| text.contains(machine::data::is_steering)) {
            true => {
                Err(Problem::at(code::INVALID_VALUE, self.place(key), "this must hold no control characters"))
            }
            false => Ok(text),
        }
    }

    pub(crate) fn required_label(&self, key: &str, bytes_max: usize) -> Result<String, Problem> {
        self.label(key, bytes_max)?.ok_or_else(|| self.missing(key))
    }

    pub(crate) fn required_text(&self, key: &str, bytes_max: usize) -> Result<String, Problem> {
        self.text(key, bytes_max)?.ok_or_else(|| self.missing(key))
    }

    /// A whole number within bounds.
    pub(crate) fn int(
        &self,
        key: &str,
        within: std::ops::RangeInclusive<i64>,
    ) -> Result<Option<i64>, Problem> {
        let Some(value) = self.value(key) else { return Ok(None) };
        match value.as_i64().filter(|number| within.contains(number)) {
            Some(number) => Ok(Some(number)),
            None => Err(Problem::at(
                code::INVALID_VALUE,
                self.place(key),
                format!("this must be a whole number of {} to {}", within.start(), within.end()),
            )),
        }
    }

    pub(crate) fn object(&self, key: &str, known: &[&str]) -> Result<Fields, Problem> {
        let value = self.value(key).ok_or_else(|| self.missing(key))?;
        Fields::new(&value, &self.place(key), known)
    }

    /// The elements under `key`, at most `items_max`.
    pub(crate) fn items(&self, key: &str, items_max: usize) -> Result<Vec<Data>, Problem> {
        let value = self.value(key).ok_or_else(|| self.missing(key))?;
        if value.len() > items_max {
            return Err(Problem::at(
                code::TOO_MANY_ITEMS,
                self.place(key),
                format!("{} items; at most {items_max} are allowed", value.len()),
            ));
        }
        match value.items() {
            Some(items) => Ok(items.collect()),
            None => Err(Problem::at(code::INVALID_VALUE, self.place(key), "this must be an array")),
        }
    }

    pub(crate) fn place(&self, key: &str) -> String {
        format!("{}/{}", self.pointer, escape_pointer(key))
    }

    fn missing(&self, key: &str) -> Problem {
        Problem::at(code::MISSING_KEY, self.place(key), "this key is required")
    }
}

fn escape_pointer(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}
