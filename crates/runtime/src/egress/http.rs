//! `call: http` steps.
//!
//! One attempt per call row: a failure raises `communication` with the answer's status, and the definition's own
//! try/retry decides what happens. The call's stable key travels as `Idempotency-Key`, the instance's trace
//! as `traceparent` and `correlation-id`.

use super::{
    Egress,
    auth::Attempt,
    exchange::{Request, Response, url_of, wrong},
};
use crate::{
    calls::Attempted,
    unbegun::{self, Stop, Unbegun},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use hyper::{HeaderMap, Method, header};
use machine::{
    Data, Fault, TenantId,
    command::{Call, HttpRequest},
    fault::Kind,
    ir::HttpOutput,
};

impl Egress {
    /// Makes the call of a `call: http` step.
    pub(crate) async fn http(&self, tenant: &TenantId, call: &Call) -> Result<Attempted, Unbegun> {
        ended(self.try_http(tenant, call).await)
    }

    async fn try_http(&self, tenant: &TenantId, call: &Call) -> Result<Data, Stop> {
        let asked: HttpRequest = unbegun::read(call, "an HTTP request")?;
        let secrets = self.reveal(tenant, call).await?;
        let mut attempt = Attempt { egress: self, tenant, secrets };
        let done = attempt.http(call, &asked).await;
        attempt.clean(done)
    }
}

/// An attempt's outcome in the runtime's terms. What failed is for the definition to try again, not for the engine.
pub(super) fn ended(done: Result<Data, Stop>) -> Result<Attempted, Unbegun> {
    match done {
        Ok(data) => Ok(Attempted::Done(data)),
        Err(Stop::Fault(fault)) => Ok(Attempted::Failed { fault, exhausted: false }),
        Err(Stop::Unbegun(unbegun)) => Err(unbegun),
    }
}

impl Attempt<'_> {
    /// What leaves the egress layer holds no secret, whoever sent it back.
    pub(super) fn clean(&self, done: Result<Data, Stop>) -> Result<Data, Stop> {
        match done {
            Ok(data) => Ok(self.secrets.blot_data(data)),
            Err(Stop::Fault(fault)) => Err(self.secrets.blot_fault(fault).into()),
            Err(unbegun) => Err(unbegun),
        }
    }

    pub(super) async fn http(&mut self, call: &Call, asked: &HttpRequest) -> Result<Data, Stop> {
        let request = self.request(call, asked)?;
        let response = self.send(request.clone(), asked.authentication.as_ref()).await?;
        Ok(self.answer(asked, &request, response)?)
    }

    fn request(&self, call: &Call, asked: &HttpRequest) -> Result<Request, Fault> {
        let method = Method::from_bytes(asked.method.as_bytes())
            .map_err(|_| wrong(format!("{:?} is not an HTTP method", asked.method)))?;
        let secrets = &self.secrets;
        let named = secrets.named(asked.url.split('?').next().unwrap_or_default());
        let url = url_of(&secrets.url(&asked.url), &named)?;
        let host = url.host_str().unwrap_or_default().to_owned();
        let body = asked.body.as_ref().map(Data::to_text).unwrap_or_default();
        let texts =
            asked.headers.iter().map(|(_, value)| value.as_str()).chain([asked.url.as_str(), body.as_str()]);
        for raw in texts {
            secrets.check_hosts(raw, &host)?;
        }
        let mut request = Request::get(url, self.egress.answer_bytes_max);
        request.shown = format!("{method} {named}");
        request.method = method;
        request.follow = asked.redirect;
        for (name, value) in &asked.headers {
            // The key is what makes a repeated call harmless; it is not the definition's to choose.
            if !name.eq_ignore_ascii_case("idempotency-key") {
                let private = secrets.is_in(value) || name.eq_ignore_ascii_case("authorization");
                request.header(name, &secrets.text(value), private)?;
            }
        }
        request.header("idempotency-key", &call.key, false)?;
        let trace = &call.trace;
        let traces = [
            ("traceparent", &trace.traceparent),
            ("tracestate", &trace.tracestate),
            ("correlation-id", &trace.correlation_id),
        ];
        for (name, value) in traces {
            // What the definition says itself wins.
            if let Some(value) = value.as_ref().filter(|_| !request.headers.contains_key(name)) {
                request.header(name, value, false)?;
            }
        }
        if let Some(raw) = &asked.body {
            request.private_body = secrets.is_in(&body);
            request.body = Some(body_of(&secrets.data(raw), &mut request.headers)?);
        }
        Ok(request)
    }

    /// The step's output, or the fault that the answer's status means.
    fn answer(&self, asked: &HttpRequest, request: &Request, response: Response) -> Result<Data, Fault> {
        let status = response.status;
        if !(status.is_success() || asked.redirect && status.is_redirection()) {
            // Secrets go before the text is cut: half a secret would not be found.
            let said = String::from_utf8_lossy(&response.body);
            let said: String = self.secrets.blot(said.trim()).chars().take(ERROR_CHARS_MAX).collect();
            let colon = if said.is_empty() { "" } else { ": " };
            let mut fault =
                Fault::new(Kind::Communication, format!("{} answered {status}{colon}{said}", request.shown));
            fault.status = status.as_u16();
            return Err(fault);
        }
        Ok(match asked.output {
            HttpOutput::Content => self.content(&response)?,
            HttpOutput::Raw => Data::text(STANDARD.encode(self.secrets.blot_bytes(&response.body))),
            HttpOutput::Response => Data::map([
                ("request".to_owned(), request_data(request)),
                ("statusCode".to_owned(), Data::int(i64::from(status.as_u16()))),
                ("headers".to_owned(), headers_data(&response.headers)),
                ("content".to_owned(), self.content(&response)?),
            ]),
        })
    }

    /// The body as data: JSON if it says so, else text, else base64.
    fn content(&self, response: &Response) -> Result<Data, Fault> {
        let kind = response.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        if kind.is_some_and(|kind| kind.to_ascii_lowercase().contains("json")) {
            return match response.body.is_empty() {
                true => Ok(Data::NULL),
                false => Data::parse(&response.body).map_err(|error| {
                    Fault::new(Kind::Communication, format!("the answer is not acceptable JSON: {error}"))
                }),
            };
        }
        Ok(Data::text(match std::str::from_utf8(&response.body) {
            Ok(text) if !text.contains('\0') => text.to_owned(),
            _ => STANDARD.encode(self.secrets.blot_bytes(&response.body)),
        }))
    }
}

/// How much of an answer's text an error repeats.
const ERROR_CHARS_MAX: usize = 500;

/// The bytes of a body: JSON, unless the content type says that it is a form or text.
fn body_of(body: &Data, headers: &mut HeaderMap) -> Result<Bytes, Fault> {
    let given = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let given = given.unwrap_or_default().to_ascii_lowercase();
    if given.is_empty() {
        headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
    }
    let is_json = given.is_empty() || given.contains("json");
    if !is_json && let Some(text) = body.as_str() {
        return Ok(Bytes::from(text.to_owned()));
    }
    if given.starts_with("application/x-www-form-urlencoded") {
        let entries =
            body.entries().ok_or_else(|| wrong("the body of a form must be an object or text".to_owned()))?;
        let mut form = url::form_urlencoded::Serializer::new(String::new());
        for (name, value) in entries {
            match value.items() {
                Some(items) => items.for_each(|item| _ = form.append_pair(&name, &item.to_text())),
                None => _ = form.append_pair(&name, &value.to_text()),
            }
        }
        return Ok(Bytes::from(form.finish()));
    }
    Ok(Bytes::from(body.to_bytes()))
}

fn headers_data(headers: &HeaderMap) -> Data {
    let mut found: Vec<(String, String)> = Vec::new();
    for (name, value) in headers.iter().filter(|(_, value)| !value.is_sensitive()) {
        let value = String::from_utf8_lossy(value.as_bytes());
        match found.iter_mut().find(|(known, _)| known == name.as_str()) {
            Some((_, values)) => *values = format!("{values}, {value}"),
            None => found.push((name.as_str().to_owned(), value.into_owned())),
        }
    }
    Data::map(found.into_iter().map(|(name, value)| (name, Data::text(value))))
}

fn request_data(request: &Request) -> Data {
    Data::map([
        ("method".to_owned(), Data::text(request.method.as_str())),
        ("uri".to_owned(), Data::text(request.url.as_str())),
        ("headers".to_owned(), headers_data(&request.headers)),
    ])
}
