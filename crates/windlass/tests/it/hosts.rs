//! Public hosts on this machine: a certificate for their names, and a server that answers what a test says.

use std::{path::Path, sync::Arc};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};
use tokio_rustls::{TlsAcceptor, rustls};

/// Longer requests are cut off.
const REQUEST_BYTES_MAX: usize = 64 * 1024;

/// What a request is answered with: the rest of the status line, a header line, the body.
pub(crate) struct Answer {
    pub(crate) status: String,
    pub(crate) header: String,
    pub(crate) body: String,
}

/// How the hosts answer.
pub(crate) type Answering = Arc<dyn Fn(&Request) -> Answer + Send + Sync>;

/// Flags that make an engine find the hosts here. The certificate's root is written into `folder`.
pub(crate) async fn flags(folder: &Path, hosts: &[String], answer: Answering) -> Vec<String> {
    let (acceptor, root) = secure(hosts);
    let port = listen(acceptor, answer).await;
    let file = folder.join("root.pem");
    std::fs::write(&file, root).unwrap();
    let mut flags = vec!["--egress-ca".to_owned(), file.display().to_string()];
    for host in hosts {
        flags.extend(["--egress-resolve".to_owned(), format!("{host}:443=127.0.0.1:{port}")]);
    }
    flags
}

fn secure(hosts: &[String]) -> (TlsAcceptor, String) {
    let key = || rcgen::KeyPair::generate().unwrap();
    let mut root = rcgen::CertificateParams::new(vec![]).unwrap();
    root.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    root.distinguished_name.push(rcgen::DnType::CommonName, "conformance root");
    let root_key = key();
    let pem = root.self_signed(&root_key).unwrap().pem();
    let issuer = rcgen::Issuer::new(root, root_key);
    let own_key = key();
    let own = rcgen::CertificateParams::new(hosts.to_vec()).unwrap().signed_by(&own_key, &issuer).unwrap();
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
    (TlsAcceptor::from(Arc::new(config)), pem)
}

async fn listen(acceptor: TlsAcceptor, answer: Answering) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let (acceptor, answer) = (acceptor.clone(), answer.clone());
            tokio::spawn(async move {
                let Ok(mut stream) = acceptor.accept(socket).await else { return };
                let mut bytes = Vec::new();
                let request = loop {
                    if let Some(request) = Request::read(&bytes) {
                        break request;
                    }
                    let mut chunk = [0; 4096];
                    match stream.read(&mut chunk).await {
                        Ok(count) if count > 0 && bytes.len() < REQUEST_BYTES_MAX => {
                            bytes.extend_from_slice(&chunk[..count]);
                        }
                        _ => return,
                    }
                };
                let Answer { status, header, body } = answer(&request);
                let length = body.len();
                let head = format!(
                    "HTTP/1.1 {status}\r\n{header}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
                );
                let _ = stream.write_all(format!("{head}{body}").as_bytes()).await;
                let _ = stream.shutdown().await;
            });
        }
    });
    port
}

pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Request {
    /// `None` if there is more to come.
    fn read(bytes: &[u8]) -> Option<Request> {
        let text = std::str::from_utf8(bytes).ok()?;
        let (head, body) = text.split_once("\r\n\r\n")?;
        let mut lines = head.lines();
        let mut first = lines.next()?.split(' ');
        let (method, target) = (first.next()?.to_owned(), first.next()?);
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let headers: Vec<(String, String)> = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        let request = Request {
            method,
            path: path.to_owned(),
            query: query.to_owned(),
            headers,
            body: body.to_owned(),
        };
        let length: usize = request.header("content-length").parse().unwrap_or(0);
        (request.body.len() >= length).then_some(request)
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(found, _)| found == name).map_or("", |(_, value)| value)
    }
}
