//! A server on this machine that answers what a test says, plain or encrypted, and remembers what it was asked.

use crate::support::*;
use machine::{Fault, time::Span};
use parking_lot::Mutex;
use runtime::{
    egress::{Range, Settings},
    secrets::Keyring,
};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpListener,
};
use tokio_rustls::{TlsAcceptor, rustls};

/// One request, as it came.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) method: String,
    /// Path and query, or the whole URL at a proxy.
    pub(crate) path: String,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Asked {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let line = self.head.lines().find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then_some(value.trim())
        });
        line.filter(|value| !value.is_empty())
    }
}

/// Status line without `HTTP/1.1`, header lines, body.
pub(crate) type Answer = (&'static str, String, String);

pub(crate) fn ok(body: Value) -> Answer {
    ("200 OK", "content-type: application/json\r\n".to_owned(), body.to_string())
}

pub(crate) fn says(status: &'static str, headers: &str) -> Answer {
    (status, headers.to_owned(), String::new())
}

type Answering = dyn Fn(&Asked, u16) -> Answer + Send + Sync;

pub(crate) struct Stub {
    pub(crate) port: u16,
    asked: Arc<Mutex<Vec<Asked>>>,
    /// What to trust, if it speaks TLS.
    pub(crate) root: Vec<u8>,
}

impl Stub {
    pub(crate) async fn plain(answer: impl Fn(&Asked, u16) -> Answer + Send + Sync + 'static) -> Stub {
        Stub::start(None, Vec::new(), Arc::new(answer)).await
    }

    /// Shows a certificate for these names, signed by a root of its own.
    pub(crate) async fn secure(
        names: &[&str],
        answer: impl Fn(&Asked, u16) -> Answer + Send + Sync + 'static,
    ) -> Stub {
        let key = || rcgen::KeyPair::generate().unwrap();
        let mut root = rcgen::CertificateParams::new(vec![]).unwrap();
        root.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        root.distinguished_name.push(rcgen::DnType::CommonName, "test root");
        let root_key = key();
        let issued_by = root.self_signed(&root_key).unwrap();
        let issuer = rcgen::Issuer::new(root, root_key);
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let own_key = key();
        let own = rcgen::CertificateParams::new(names).unwrap().signed_by(&own_key, &issuer).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![own.der().clone()],
                rustls::pki_types::PrivateKeyDer::try_from(own_key.serialize_der()).unwrap(),
            )
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        Stub::start(Some(acceptor), issued_by.der().to_vec(), Arc::new(answer)).await
    }

    async fn start(tls: Option<TlsAcceptor>, root: Vec<u8>, answer: Arc<Answering>) -> Stub {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let seen = asked.clone();
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let (tls, seen, answer) = (tls.clone(), seen.clone(), answer.clone());
                tokio::spawn(async move {
                    match tls {
                        None => serve(socket, port, &seen, answer.as_ref()).await,
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(socket).await {
                                serve(stream, port, &seen, answer.as_ref()).await;
                            }
                        }
                    }
                });
            }
        });
        Stub { port, asked, root }
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().clone()
    }

    pub(crate) fn last(&self) -> Asked {
        self.asked().pop().expect("it was asked something")
    }
}

async fn serve<S: AsyncRead + AsyncWrite + Unpin>(
    mut stream: S,
    port: u16,
    seen: &Mutex<Vec<Asked>>,
    answer: &Answering,
) {
    let mut bytes = Vec::new();
    let mut chunk = [0; 4096];
    let asked = loop {
        if let Some(asked) = whole(&bytes) {
            break asked;
        }
        match stream.read(&mut chunk).await {
            Ok(0) | Err(_) => return,
            Ok(count) => bytes.extend_from_slice(&chunk[..count]),
        }
    };
    seen.lock().push(asked.clone());
    let (status, headers, body) = answer(&asked, port);
    let text = format!(
        "HTTP/1.1 {status}\r\n{headers}content-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    let _ = stream.write_all(text.as_bytes()).await;
    let _ = stream.shutdown().await;
}

fn whole(bytes: &[u8]) -> Option<Asked> {
    let text = String::from_utf8_lossy(bytes);
    let (head, body) = text.split_once("\r\n\r\n")?;
    let mut line = head.lines().next()?.split(' ');
    let (method, path) = (line.next()?.to_owned(), line.next()?.to_owned());
    let asked = Asked { method, path, head: head.to_owned(), body: body.to_owned() };
    let length: usize = asked.header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    (asked.body.len() >= length).then_some(asked)
}

/// A node in real time with rules of its own.
pub(crate) struct Near {
    pub(crate) world: World,
    pub(crate) node: Up,
}

impl Near {
    pub(crate) async fn new(change: impl FnOnce(&mut Settings)) -> Near {
        let world = World::real();
        let node = world.build().secrets(Keyring::fresh().0).options(|options| {
            options.http_timeout = Span::from_secs(20);
            change(&mut options.egress);
        });
        let node = node.start().await;
        Near { world, node }
    }

    /// One that may call this machine.
    pub(crate) async fn loopback() -> Near {
        Near::new(|egress| egress.allow_private = Range::LOOPBACK.to_vec()).await
    }

    /// A definition with one call, to its end.
    pub(crate) async fn call(&self, name: &str, kind: &str, with: &str) -> Result<Value, Fault> {
        let uses = "use: { secrets: [ one, two ] }";
        self.node.deploy(name, &format!("{uses}\ndo: [ {{ c: {{ call: {kind}, with: {with} }} }} ]")).await;
        let id = self.node.start(name, json!({ "who": "ann lee", "id": 7 })).await;
        match self.node.end(id).await {
            runtime::api::InstanceResult::Completed(data) => Ok(data.to_json()),
            runtime::api::InstanceResult::Faulted(fault) => Err(fault),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn http(&self, name: &str, with: &str) -> Result<Value, Fault> {
        self.call(name, "http", with).await
    }

    pub(crate) async fn secret(&self, name: &str, value: Value, hosts: &[&str]) {
        let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
        let value = machine::Data::from_json(value);
        self.node.handle.put_secret(&self.node.tenant, name, &value, &hosts).await.unwrap();
    }
}
