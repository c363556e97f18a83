//! Opens connections: resolves, checks every address, dials exactly the checked one.
//!
//! This is the only place of the engine that opens a connection to somewhere a tenant named.

use super::{
    rules,
    settings::{Proxy, Settings},
};
use hyper::{Uri, rt::ReadBufCursor};
use hyper_util::{
    client::legacy::connect::{Connected, Connection},
    rt::TokioIo,
};
use machine::{Fault, fault::Kind};
use std::{
    future::Future,
    io,
    net::{IpAddr, SocketAddr},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tokio_rustls::{
    TlsConnector,
    client::TlsStream,
    rustls::{self, pki_types::ServerName},
};

/// Addresses of one host that are tried, at most.
const ADDRESSES_MAX: usize = 8;
/// The longest head of a proxy's answer to CONNECT.
const PROXY_HEAD_MAX: usize = 8 * 1024;

/// Makes connections for the client.
#[derive(Clone)]
pub(super) struct Connector {
    settings: Arc<Settings>,
    tls: Arc<rustls::ClientConfig>,
    lookup: Lookup,
}

/// Asks the name service.
type Lookup = Arc<dyn Fn(String, u16) -> Found + Send + Sync>;
type Found = Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send>>;

fn ask_system(host: String, port: u16) -> Found {
    Box::pin(async move { Ok(tokio::net::lookup_host((host, port)).await?.collect()) })
}

/// An open connection.
pub(super) struct Wire {
    stream: Stream,
    /// Requests go to a proxy and carry the whole URL.
    to_proxy: bool,
}

enum Stream {
    Plain(TokioIo<TcpStream>),
    Tls(Box<TokioIo<TlsStream<TcpStream>>>),
}

impl Connector {
    /// Fails if the system's trusted roots cannot be had.
    pub(super) fn new(settings: Arc<Settings>) -> Result<Connector, String> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let roots: Vec<_> = settings.roots.iter().map(|root| root.clone().into()).collect();
        let verifier = rustls_platform_verifier::Verifier::new_with_extra_roots(roots, provider.clone())
            .map_err(|error| format!("no trusted root certificates: {error}"))?;
        let mut tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_no_client_auth();
        tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Connector { settings, tls: Arc::new(tls), lookup: Arc::new(ask_system) })
    }

    async fn open(&self, uri: Uri) -> Result<Wire, Fault> {
        let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']').to_owned();
        let secure = uri.scheme_str() == Some("https");
        let port = uri.port_u16().unwrap_or(if secure { 443 } else { 80 });
        let limit = Duration::from_micros(self.settings.connect_timeout.0.max(0) as u64);
        let opening = async {
            let (stream, to_proxy) = self.reach(&host, port, secure).await?;
            if !secure {
                return Ok(Wire { stream: Stream::Plain(TokioIo::new(stream)), to_proxy });
            }
            let name = ServerName::try_from(host.clone())
                .map_err(|_| failed(format!("{host:?} is no name a certificate could have")))?;
            let stream = TlsConnector::from(self.tls.clone())
                .connect(name, stream)
                .await
                .map_err(|error| failed(format!("no secure connection to {host}: {error}")))?;
            Ok(Wire { stream: Stream::Tls(Box::new(TokioIo::new(stream))), to_proxy: false })
        };
        tokio::time::timeout(limit, opening).await.unwrap_or_else(|_| {
            let detail = format!("no connection to {host}:{port} within {} ms", limit.as_millis());
            Err(Fault::new(Kind::Timeout, detail))
        })
    }

    /// A stream to the host, straight or through the proxy.
    async fn reach(&self, host: &str, port: u16, secure: bool) -> Result<(TcpStream, bool), Fault> {
        if let Some(address) = self.settings.resolve.iter().find_map(|line| line.find(host, port)) {
            return Ok((dial(host, &[address]).await?, false));
        }
        if !self.settings.ports.is_empty() && !self.settings.ports.contains(&port) {
            return Err(refused(format!("port {port} is not one that this engine calls")));
        }
        match &self.settings.proxy {
            Some(proxy) => self.through(proxy, host, port, secure).await,
            None => Ok((dial(host, &self.checked(host, port).await?).await?, false)),
        }
    }

    /// The addresses of `host` that may be dialled. Every one given back was checked, and no other is dialled.
    async fn checked(&self, host: &str, port: u16) -> Result<Vec<SocketAddr>, Fault> {
        let allowed = &self.settings.allow_private;
        let found: Vec<SocketAddr> = match host.parse::<IpAddr>() {
            Ok(address) => vec![SocketAddr::new(address, port)],
            Err(_) => (self.lookup)(host.to_owned(), port)
                .await
                .map_err(|error| failed(format!("the host {host:?} is not known: {error}")))?,
        };
        let mut rule = None;
        let mut fine = Vec::new();
        for address in found {
            match rules::denied(address.ip(), allowed) {
                Some(name) => rule = Some(name),
                None => fine.push(address),
            }
        }
        fine.truncate(ADDRESSES_MAX);
        match (fine.is_empty(), rule) {
            (false, _) => Ok(fine),
            (true, Some(rule)) => Err(refused(format!("the address of {host:?} is in {rule}"))),
            (true, None) => Err(failed(format!("the host {host:?} has no address"))),
        }
    }

    /// A proxy resolves names itself, so only what the name says can be checked here.
    async fn through(
        &self,
        proxy: &Proxy,
        host: &str,
        port: u16,
        secure: bool,
    ) -> Result<(TcpStream, bool), Fault> {
        let rule = match host.parse::<IpAddr>() {
            Ok(address) => rules::denied(address, &self.settings.allow_private),
            Err(_) if self.settings.allow_private.is_empty() && rules::is_internal_name(host) => {
                Some("a network of its own: it is an internal name".to_owned())
            }
            Err(_) => None,
        };
        if let Some(rule) = rule {
            return Err(refused(format!("the address of {host:?} is in {rule}")));
        }
        let found = tokio::net::lookup_host((proxy.host.as_str(), proxy.port)).await;
        let found: Vec<SocketAddr> =
            found.map_err(|error| failed(format!("the proxy is not known: {error}")))?.collect();
        let mut stream = dial("the proxy", &found).await?;
        if !secure {
            return Ok((stream, true));
        }
        tunnel(&mut stream, host, port)
            .await
            .map_err(|error| failed(format!("the proxy refuses: {error}")))?;
        Ok((stream, false))
    }
}

async fn dial(host: &str, addresses: &[SocketAddr]) -> Result<TcpStream, Fault> {
    let mut last = None;
    for address in addresses {
        match TcpStream::connect(address).await {
            Ok(stream) => {
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Err(error) => last = Some(error),
        }
    }
    let why = last.map_or_else(|| "it has no address".to_owned(), |error| error.to_string());
    Err(failed(format!("no connection to {host}: {why}")))
}

/// Asks a proxy for a way through to the host.
async fn tunnel(stream: &mut TcpStream, host: &str, port: u16) -> io::Result<()> {
    let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
    let ask = format!("CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n");
    stream.write_all(ask.as_bytes()).await?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() >= PROXY_HEAD_MAX {
            return Err(io::Error::other("its answer is too long"));
        }
        head.push(stream.read_u8().await?);
    }
    let head = String::from_utf8_lossy(&head);
    let line = head.lines().next().unwrap_or_default();
    match line.split(' ').nth(1) {
        Some("200") => Ok(()),
        _ => Err(io::Error::other(format!("it answered {line:?}"))),
    }
}

fn failed(detail: String) -> Fault {
    Fault::new(Kind::Communication, detail)
}

/// Against the operator's rules: trying again will not help.
pub(super) fn refused(detail: String) -> Fault {
    let detail = format!("{detail}, which this engine does not call; its operator can allow it");
    Fault::new(Kind::Configuration, detail)
}

/// A fault on its way through the client, which knows only errors.
#[derive(Debug, thiserror::Error)]
#[error("the connection failed")]
pub(super) struct Carried(pub(super) Box<Fault>);

impl tower::Service<Uri> for Connector {
    type Response = Wire;
    type Error = Carried;
    type Future = Pin<Box<dyn Future<Output = Result<Wire, Carried>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Carried>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connector = self.clone();
        Box::pin(async move { connector.open(uri).await.map_err(|fault| Carried(Box::new(fault))) })
    }
}

impl Connection for Wire {
    fn connected(&self) -> Connected {
        Connected::new().proxy(self.to_proxy)
    }
}

impl hyper::rt::Read for Wire {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut self.get_mut().stream {
            Stream::Plain(stream) => Pin::new(stream).poll_read(cx, buffer),
            Stream::Tls(stream) => Pin::new(stream.as_mut()).poll_read(cx, buffer),
        }
    }
}

impl hyper::rt::Write for Wire {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.get_mut().stream {
            Stream::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Stream::Tls(stream) => Pin::new(stream.as_mut()).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().stream {
            Stream::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Stream::Tls(stream) => Pin::new(stream.as_mut()).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().stream {
            Stream::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Stream::Tls(stream) => Pin::new(stream.as_mut()).poll_shutdown(cx),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn connector(
        settings: Settings,
        lookup: impl Fn(usize) -> Vec<&'static str> + Send + Sync + 'static,
    ) -> Connector {
        let asked = AtomicUsize::new(0);
        let lookup: Lookup = Arc::new(move |_, port| {
            let answer = lookup(asked.fetch_add(1, Ordering::SeqCst));
            let answer = answer.into_iter().map(|ip| SocketAddr::new(ip.parse().unwrap(), port)).collect();
            Box::pin(async move { Ok(answer) })
        });
        Connector { lookup, ..Connector::new(Arc::new(settings)).unwrap() }
    }

    #[tokio::test]
    async fn only_checked_addresses_are_given_to_the_dialler() {
        let mixed =
            connector(Settings::default(), |_| vec!["fd00::1", "8.8.8.8", "127.0.0.1", "::ffff:10.0.0.1"]);
        let found = mixed.checked("mixed.example", 443).await.unwrap();
        assert_eq!(found, ["8.8.8.8:443".parse().unwrap()]);
    }

    #[tokio::test]
    async fn a_name_that_changes_its_mind_is_asked_once_per_connection() {
        // Public first, private second: whatever was checked is what is dialled, so the second answer is never used.
        let rebinding =
            connector(Settings::default(), |asked| vec![if asked == 0 { "8.8.8.8" } else { "127.0.0.1" }]);
        assert_eq!(rebinding.checked("re.example", 80).await.unwrap(), ["8.8.8.8:80".parse().unwrap()]);
        let fault = rebinding.checked("re.example", 80).await.unwrap_err();
        assert!(fault.error_type.ends_with("/configuration"));
        assert!(fault.detail.unwrap().contains("loopback range 127.0.0.0/8"));
    }

    #[tokio::test]
    async fn a_refusal_does_not_tell_what_the_name_service_said() {
        let inner = connector(Settings::default(), |_| vec!["10.20.30.40"]);
        let detail = inner.checked("db.example", 80).await.unwrap_err().detail.unwrap();
        assert!(detail.contains("db.example") && !detail.contains("10.20.30.40"), "{detail}");
    }

    #[tokio::test]
    async fn ports_can_be_limited() {
        let settings = Settings { ports: vec![443], ..Settings::default() };
        let limited = connector(settings, |_| vec!["8.8.8.8"]);
        let fault = limited.reach("a.example", 25, false).await.unwrap_err();
        assert!(fault.detail.unwrap().contains("port 25"));
    }
}
