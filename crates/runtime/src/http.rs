//! HTTP calls of `call: http` steps.
//!
//! One attempt per call row: a failure raises `communication` with the answer's status, and the definition's own
//! try/retry decides what happens. The call's stable key travels as `Idempotency-Key`, the instance's trace
//! as `traceparent` and `correlation-id`.

use crate::{calls::Attempted, options::Options};
use futures_util::StreamExt;
use machine::{
    Data, Fault,
    command::{Call, HttpRequest},
    fault::Kind,
    ir::HttpOutput,
};
use std::{sync::OnceLock, time::Duration};

/// Clients are made on first use: loading the trusted roots takes milliseconds that many nodes never need.
pub(crate) struct HttpCaller {
    plain: OnceLock<Option<reqwest::Client>>,
    following: OnceLock<Option<reqwest::Client>>,
    limit: Duration,
    answer_bytes_max: usize,
}

impl HttpCaller {
    pub(crate) fn new(options: &Options) -> HttpCaller {
        HttpCaller {
            plain: OnceLock::new(),
            following: OnceLock::new(),
            limit: Duration::from_micros(options.http_timeout.0.max(0) as u64),
            answer_bytes_max: options.answer_bytes_max,
        }
    }

    fn client(&self, follow: bool) -> Option<&reqwest::Client> {
        use reqwest::redirect::Policy;
        let (cell, policy) = match follow {
            true => (&self.following, Policy::limited(5)),
            false => (&self.plain, Policy::none()),
        };
        let build =
            || reqwest::Client::builder().timeout(self.limit).redirect(policy).no_proxy().build().ok();
        cell.get_or_init(build).as_ref()
    }

    pub(crate) async fn call(&self, call: &Call) -> Attempted {
        match self.attempt(call).await {
            Ok(data) => Attempted::Done(data),
            Err(fault) => Attempted::Failed { fault, exhausted: false },
        }
    }

    async fn attempt(&self, call: &Call) -> Result<Data, Fault> {
        let request: HttpRequest = serde_json::from_value(call.input.to_json())
            .map_err(|error| Fault::new(Kind::Configuration, format!("not an HTTP request: {error}")))?;
        let client = self
            .client(request.redirect)
            .ok_or_else(|| Fault::new(Kind::Configuration, "this node has no HTTP client".to_owned()))?;
        let response = self.send(client, call, &request).await?;
        let status = response.status();
        let headers: Vec<(String, Data)> = response
            .headers()
            .iter()
            .map(|(name, value)| {
                (name.as_str().to_owned(), Data::text(String::from_utf8_lossy(value.as_bytes())))
            })
            .collect();
        let json = response
            .headers()
            .get(reqwest::header::CONTENT_TYPE)
            .and_then(|value| value.to_str().ok())
            .is_some_and(|kind| kind.contains("json"));
        let body = self.read(response).await?;
        if !(status.is_success() || request.redirect && status.is_redirection()) {
            let mut fault = Fault::new(
                Kind::Communication,
                format!("{} {} answered {status}", request.method, request.url),
            );
            fault.status = status.as_u16();
            return Err(fault);
        }
        let content = match json {
            true if body.is_empty() => Data::NULL,
            true => Data::parse(&body).map_err(|error| {
                Fault::new(Kind::Communication, format!("the answer is not acceptable JSON: {error}"))
            })?,
            false => Data::text(String::from_utf8_lossy(&body)),
        };
        Ok(match request.output {
            HttpOutput::Content => content,
            HttpOutput::Raw => Data::text(String::from_utf8_lossy(&body)),
            HttpOutput::Response => Data::map([
                ("request".to_owned(), request_data(&request)),
                ("statusCode".to_owned(), Data::int(i64::from(status.as_u16()))),
                ("headers".to_owned(), Data::map(headers)),
                ("content".to_owned(), content),
            ]),
        })
    }

    async fn send(
        &self,
        client: &reqwest::Client,
        call: &Call,
        request: &HttpRequest,
    ) -> Result<reqwest::Response, Fault> {
        let bad = |detail: String| Fault::new(Kind::Configuration, detail);
        let method = reqwest::Method::from_bytes(request.method.as_bytes())
            .map_err(|_| bad(format!("{:?} is not an HTTP method", request.method)))?;
        let url = reqwest::Url::parse(&request.url)
            .map_err(|error| bad(format!("{:?} is not a URL: {error}", request.url)))?;
        let mut builder = client.request(method, url).header("idempotency-key", &call.key);
        // What the definition says itself wins.
        let given = |wanted: &str| request.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(wanted));
        if let Some(traceparent) = call.trace.traceparent.as_ref().filter(|_| !given("traceparent")) {
            builder = builder.header("traceparent", traceparent);
        }
        if let Some(correlation) = call.trace.correlation_id.as_ref().filter(|_| !given("correlation-id")) {
            builder = builder.header("correlation-id", correlation);
        }
        let own = |name: &str| name.eq_ignore_ascii_case("idempotency-key");
        for (name, value) in request.headers.iter().filter(|(name, _)| !own(name)) {
            builder = builder.header(name, value);
        }
        if let Some(body) = &request.body {
            if !given("content-type") {
                builder = builder.header("content-type", "application/json");
            }
            builder = builder.body(body.to_bytes());
        }
        builder.send().await.map_err(|error| {
            let about = format!("{} {}: {}", request.method, request.url, root_cause(&error));
            Fault::new(kind_of(&error), about)
        })
    }

    async fn read(&self, response: reqwest::Response) -> Result<Vec<u8>, Fault> {
        let mut body = Vec::new();
        let mut chunks = response.bytes_stream();
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk.map_err(|error| Fault::new(kind_of(&error), root_cause(&error)))?;
            if body.len() + chunk.len() > self.answer_bytes_max {
                let detail = format!("the answer is larger than {} bytes", self.answer_bytes_max);
                return Err(Fault::new(Kind::Communication, detail));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }
}

fn request_data(request: &HttpRequest) -> Data {
    let headers = request
        .headers
        .iter()
        .filter(|(name, _)| !name.eq_ignore_ascii_case("authorization"))
        .map(|(name, value)| (name.clone(), Data::text(value.as_str())));
    Data::map([
        ("method".to_owned(), Data::text(request.method.as_str())),
        ("uri".to_owned(), Data::text(request.url.as_str())),
        ("headers".to_owned(), Data::map(headers)),
    ])
}

fn kind_of(error: &reqwest::Error) -> Kind {
    if error.is_timeout() { Kind::Timeout } else { Kind::Communication }
}

/// The innermost reason: the outer ones repeat the URL.
fn root_cause(error: &dyn std::error::Error) -> String {
    let mut current = error;
    while let Some(source) = current.source() {
        current = source;
    }
    current.to_string()
}
