//! Requests to nodes, each in the journal before it is sent and after it was answered.

use crate::{
    clock::now_us,
    journal::Journal,
    record::{Op, Res},
};
use anyhow::Result;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{Method, Request};
use hyper_util::{
    client::legacy::{self, connect::HttpConnector},
    rt::TokioExecutor,
};
use serde_json::Value;
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// A node that stands still does not answer; whoever asked it has to ask another.
const ANSWER_MAX: Duration = Duration::from_secs(6);

/// What is asked of a node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ask {
    pub(crate) path: String,
    /// POST with this, GET without.
    pub(crate) body: Option<Value>,
    /// PUT instead.
    pub(crate) puts: bool,
    pub(crate) headers: Vec<(&'static str, String)>,
}

impl Ask {
    pub(crate) fn get(path: String) -> Ask {
        Ask { path, ..Ask::default() }
    }

    pub(crate) fn post(path: String, body: Value) -> Ask {
        Ask { path, body: Some(body), ..Ask::default() }
    }

    pub(crate) fn put(path: String, body: Value) -> Ask {
        Ask { path, body: Some(body), puts: true, ..Ask::default() }
    }

    pub(crate) fn header(mut self, name: &'static str, value: String) -> Ask {
        self.headers.push((name, value));
        self
    }
}

/// What a client learns.
#[derive(Clone, Debug)]
pub(crate) enum Said {
    Answer(u16, Value),
    /// Nobody was there to send it to.
    NotSent(String),
    /// Sent, perhaps in part, and not answered.
    Nothing(String),
}

impl Said {
    /// What is known of the request: only a refusal and a connection that never was are certain failures.
    pub(crate) fn res(&self) -> Res {
        match self {
            Said::Answer(200..=299, _) => Res::Ok,
            Said::Answer(400..=499, _) | Said::NotSent(_) => Res::Fail,
            Said::Answer(..) | Said::Nothing(_) => Res::Info,
        }
    }
}

#[derive(Clone)]
pub(crate) struct Client {
    http: legacy::Client<HttpConnector, Full<Bytes>>,
    ports: Vec<u16>,
    journal: Journal,
    count: Arc<AtomicU64>,
}

impl Client {
    /// Nodes answer on these ports of this machine.
    pub(crate) fn new(ports: Vec<u16>, journal: Journal) -> Client {
        let http = legacy::Client::builder(TokioExecutor::new()).build_http();
        Client { http, ports, journal, count: Arc::default() }
    }

    pub(crate) fn nodes(&self) -> usize {
        self.ports.len()
    }

    /// Asks the node of `op` and notes what is known; `read` takes from the answer what checks need.
    pub(crate) async fn note(
        &self,
        mut op: Op,
        secret: &str,
        ask: Ask,
        read: impl FnOnce(&mut Op, &Value),
    ) -> Result<(Op, Said)> {
        op.n = self.count.fetch_add(1, Ordering::Relaxed);
        op.t0 = now_us();
        self.journal.append(&op).await?;
        let said = self.ask(op.node, secret, ask).await;
        op.t1 = Some(now_us());
        op.res = said.res();
        match &said {
            Said::Answer(status, body) => {
                op.status = Some(*status);
                match op.res {
                    Res::Ok => read(&mut op, body),
                    _ => op.why = body["code"].as_str().map(str::to_owned),
                }
            }
            Said::NotSent(why) | Said::Nothing(why) => op.why = Some(why.clone()),
        }
        self.journal.append(&op).await?;
        Ok((op, said))
    }

    /// Asks without noting it.
    pub(crate) async fn ask(&self, node: usize, secret: &str, ask: Ask) -> Said {
        match tokio::time::timeout(ANSWER_MAX, self.exchange(node, secret, ask)).await {
            Ok(said) => said,
            Err(_) => Said::Nothing("no answer in time".to_owned()),
        }
    }

    async fn exchange(&self, node: usize, secret: &str, ask: Ask) -> Said {
        let uri = format!("http://127.0.0.1:{}{}", self.ports[node], ask.path);
        let method = match ask.body {
            Some(_) if ask.puts => Method::PUT,
            Some(_) => Method::POST,
            None => Method::GET,
        };
        let mut request = Request::builder().method(method).uri(uri);
        request = request.header("authorization", format!("Bearer {secret}"));
        request = request.header("content-type", "application/json");
        for (name, value) in ask.headers {
            request = request.header(name, value);
        }
        let body = ask.body.map(|body| body.to_string()).unwrap_or_default();
        let request = match request.body(Full::from(body)) {
            Ok(request) => request,
            Err(error) => return Said::NotSent(error.to_string()),
        };
        let response = match self.http.request(request).await {
            Ok(response) => response,
            Err(error) if error.is_connect() => return Said::NotSent(error.to_string()),
            Err(error) => return Said::Nothing(error.to_string()),
        };
        let status = response.status().as_u16();
        match response.into_body().collect().await {
            Ok(body) => Said::Answer(status, serde_json::from_slice(&body.to_bytes()).unwrap_or(Value::Null)),
            Err(error) => Said::Nothing(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_certain_is_a_failure() {
        let of = |status| Said::Answer(status, Value::Null).res();
        assert_eq!([of(201), of(404), of(429)], [Res::Ok, Res::Fail, Res::Fail]);
        assert_eq!([of(500), of(503), of(302)], [Res::Info, Res::Info, Res::Info]);
        assert_eq!(Said::NotSent(String::new()).res(), Res::Fail);
        assert_eq!(Said::Nothing(String::new()).res(), Res::Info);
    }
}
