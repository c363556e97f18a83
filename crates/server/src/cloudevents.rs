//! Events as they come over HTTP: structured, in batches, or binary (attributes in headers). Those that come one on each
//! line are a stream: `event_lines`.
//!
//! Objects may be CloudEvents or envelopes ([`machine::envelope`]); which it is, publishing finds out.

use crate::{app::App, body, code, problem::Problem, wire::Stored};
use axum::{
    extract::{FromRequest, Request},
    http::HeaderMap,
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use machine::{Data, envelope};
use percent_encoding::percent_decode_str;

/// What the headers of a binary event begin with.
const PREFIX: &str = "ce-";

/// The form in which an event is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Form {
    #[default]
    CloudEvent,
    Envelope,
}

impl Form {
    pub(crate) fn read(word: Option<&str>, place: &str) -> Result<Form, Problem> {
        match word {
            None | Some("cloudevent") => Ok(Form::CloudEvent),
            Some("envelope") => Ok(Form::Envelope),
            Some(_) => Err(Problem::at(code::INVALID_VALUE, place, "this must be cloudevent or envelope")),
        }
    }

    /// A stored event in this form.
    pub(crate) fn show(self, event: &[u8]) -> Stored {
        match (self, Data::parse(event)) {
            (Form::Envelope, Ok(event)) => Stored::of(&envelope::to_envelope(&event).to_bytes()),
            _ => Stored::of(event),
        }
    }
}

/// The events of one request.
pub(crate) struct CloudEvents(pub Vec<Data>);

impl FromRequest<App> for CloudEvents {
    type Rejection = Problem;
    async fn from_request(request: Request, app: &App) -> Result<CloudEvents, Problem> {
        let bytes_max = app.options.body_bytes_max;
        if request.headers().contains_key("ce-specversion") {
            let headers = request.headers().clone();
            let bytes = body::read(request, bytes_max, &app.options).await?;
            return Ok(CloudEvents(vec![binary(&headers, &bytes)?]));
        }
        let wanted = "application/cloudevents+json, application/cloudevents-batch+json, application/json, \
            application/x-ndjson, or the attributes in ce- headers";
        match body::media_type(request.headers()).as_str() {
            "application/json" | "application/cloudevents+json" | "application/cloudevents-batch+json" => {}
            other => return Err(body::wrong_media_type(other, wanted)),
        }
        let bytes = body::read(request, bytes_max, &app.options).await?;
        body::check_utf8(&bytes)?;
        let data = Data::parse(&bytes)?;
        let events = data.items().map(Iterator::collect);
        Ok(CloudEvents(events.unwrap_or_else(|| vec![data])))
    }
}

/// One event whose attributes are headers and whose data is the body.
fn binary(headers: &HeaderMap, bytes: &[u8]) -> Result<Data, Problem> {
    let mut attributes = Vec::new();
    for (name, value) in headers {
        let Some(attribute) = name.as_str().strip_prefix(PREFIX) else { continue };
        let wrong = |detail: &str| Problem::new(code::INVALID_EVENT, format!("header {name}: {detail}"));
        if !envelope::is_attribute(attribute) || attribute.starts_with("data") {
            return Err(wrong("this is no name of an attribute: lower-case letters and digits"));
        }
        if headers.get_all(name).iter().count() > 1 {
            return Err(wrong("this is there more than once"));
        }
        let text = value.to_str().map_err(|_| wrong("other characters than ASCII are percent-encoded"))?;
        let text = percent_decode_str(text.trim_matches('"')).decode_utf8();
        let text = text.map_err(|_| wrong("what is percent-encoded is not UTF-8"))?;
        attributes.push((attribute.to_owned(), Data::text(text)));
    }
    let media_type = body::media_type(headers);
    if !bytes.is_empty() {
        attributes.push(data(&media_type, bytes)?);
    }
    if !media_type.is_empty() {
        attributes.push(("datacontenttype".to_owned(), Data::text(media_type)));
    }
    Ok(Data::map(attributes))
}

/// JSON is itself, text is a text, everything else is base64.
fn data(media_type: &str, bytes: &[u8]) -> Result<(String, Data), Problem> {
    let is_json = media_type.is_empty() || media_type == "application/json" || media_type.ends_with("+json");
    let data = if is_json {
        body::check_utf8(bytes)?;
        Data::parse(bytes)?
    } else if media_type.starts_with("text/") {
        body::check_utf8(bytes)?;
        Data::text(String::from_utf8_lossy(bytes))
    } else {
        return Ok(("data_base64".to_owned(), Data::text(STANDARD.encode(bytes))));
    };
    Ok(("data".to_owned(), data))
}
