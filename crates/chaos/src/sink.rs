//! The outside world that effects reach: a process of its own with a file of its own, which outlives every node.
//!
//! It is what a good receiver is: once it has taken a request it answers its key as it did the first time. On purpose it
//! refuses the first requests of some effects, so that definitions have something to try again.

use crate::{clock::now_us, journal::Journal, record::Effect};
use anyhow::{Context, Result};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{Request, Response, body::Incoming, service::service_fn};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::{
    collections::HashMap,
    convert::Infallible,
    io::Read as _,
    path::{Path, PathBuf},
    process::Stdio,
    sync::Arc,
};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    net::TcpListener,
    process::{Child, Command},
};

/// The hidden command that makes this binary a sink.
pub(crate) const ARGUMENT: &str = "sink";

/// A sink that this process started; it ends with it.
pub(crate) struct Sink {
    pub(crate) port: u16,
    #[expect(dead_code, reason = "the sink ends when this is dropped")]
    process: Child,
}

impl Sink {
    pub(crate) async fn start(file: &Path) -> Result<Sink> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(ARGUMENT).arg(file).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut process = command.spawn().context("the sink does not start")?;
        let mut lines = BufReader::new(process.stdout.take().context("the pipe was asked for")?).lines();
        let line = lines.next_line().await?.context("the sink says where it is")?;
        Ok(Sink { port: line.parse()?, process })
    }
}

#[derive(Default)]
struct Seen {
    /// What was answered to a key whose request was taken.
    taken: HashMap<String, Value>,
    /// How often an effect was refused.
    refused: HashMap<String, i64>,
}

impl Seen {
    fn answer(&mut self, key: &str, id: &str, body: &Value) -> (u16, Value) {
        if let Some(answer) = self.taken.get(key) {
            return (200, answer.clone());
        }
        let number = |name: &str| body[name].as_i64().unwrap_or_default();
        let refused = self.refused.entry(id.to_owned()).or_default();
        if *refused < number("fails") {
            *refused += 1;
            return (503, json!({ "refused": true }));
        }
        let answer = json!({ "n": number("n") + number("add") });
        self.taken.insert(key.to_owned(), answer.clone());
        (200, answer)
    }
}

/// Serves until whoever started it is gone.
#[expect(clippy::print_stdout, reason = "says where it listens")]
pub(crate) async fn run(file: PathBuf) -> Result<()> {
    let journal = Journal::open(&file)?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?.port());
    let seen = Arc::new(Mutex::new(Seen::default()));
    std::thread::spawn(|| {
        // Nothing is ever said on this pipe; it closes when the one who holds it is gone.
        let _ = std::io::stdin().read(&mut [0; 1]);
        std::process::exit(0);
    });
    loop {
        let (socket, _) = listener.accept().await?;
        let (seen, journal) = (seen.clone(), journal.clone());
        let service = service_fn(move |request| take(seen.clone(), journal.clone(), request));
        tokio::spawn(
            hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(socket), service),
        );
    }
}

async fn take(
    seen: Arc<Mutex<Seen>>,
    journal: Journal,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let key = request.headers().get("idempotency-key").and_then(|key| key.to_str().ok());
    let key = key.unwrap_or_default().to_owned();
    // A request that breaks off has no body and no effect.
    let Ok(body) = request.into_body().collect().await else { return Ok(answer(400, &Value::Null)) };
    let bytes = body.to_bytes();
    let body: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    let id = body["id"].as_str().unwrap_or_default().to_owned();
    let hash = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    let t = now_us();
    let (status, said) = seen.lock().answer(&key, &id, &body);
    // What cannot be remembered has not happened.
    match journal.append(&Effect { t, key, id, hash, status }).await {
        Ok(()) => Ok(answer(status, &said)),
        Err(_) => std::process::exit(1),
    }
}

fn answer(status: u16, body: &Value) -> Response<Full<Bytes>> {
    let response = Response::builder().status(status).header("content-type", "application/json");
    response.body(Full::from(body.to_string())).expect("a status and a fixed header make a response")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_requests_are_refused_and_what_was_taken_is_answered_as_before() {
        let mut seen = Seen::default();
        let body = json!({ "n": 2, "add": 3, "fails": 1 });
        assert_eq!(seen.answer("a", "x", &body).0, 503);
        assert_eq!(seen.answer("a", "x", &body), (200, json!({ "n": 5 })));
        let other = json!({ "n": 9, "add": 3, "fails": 1 });
        assert_eq!(seen.answer("a", "x", &other), (200, json!({ "n": 5 })), "the key counts");
    }
}
