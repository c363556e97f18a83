//! TLS to the database: what the URL's `sslmode` asks for, over the same library and ciphers as calls to the outside.
//!
//! `sslmode` means what it means to every client of PostgreSQL: `disable`, `prefer` (unless given), `require`, `verify-ca`,
//! `verify-full`. `sslrootcert` is a PEM file, or `system`; `sslcert` and `sslkey` are a certificate of the node's own.

use super::error::said;
use crate::port::{Error, Result};
use std::{
    fmt, io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::{
    Client, Config, Connection, Error as PgError, Socket,
    config::SslMode,
    error::SqlState,
    tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream},
};
use tokio_rustls::{
    TlsConnector,
    client::TlsStream as RustlsStream,
    rustls::{
        CertificateError, ClientConfig, DigitallySignedStruct, Error as TlsError, RootCertStore,
        SignatureScheme,
        client::{
            WebPkiServerVerifier,
            danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        },
        crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
        pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject},
    },
};

/// The parameters of a URL that are about TLS.
pub(super) const PARAMETERS: [&str; 4] = ["sslmode", "sslrootcert", "sslcert", "sslkey"];
/// `sslrootcert` for what the machine trusts.
const SYSTEM: &str = "system";

/// What the URL says about TLS.
#[derive(Clone, Debug, Default)]
pub(super) struct Wanted {
    pub(super) mode: Option<String>,
    pub(super) root: Option<String>,
    pub(super) certificate: Option<String>,
    pub(super) key: Option<String>,
}

impl Wanted {
    /// Takes one of [`PARAMETERS`].
    pub(super) fn set(&mut self, name: &str, value: String) {
        match name {
            "sslmode" => self.mode = Some(value),
            "sslrootcert" => self.root = Some(value),
            "sslcert" => self.certificate = Some(value),
            _ => self.key = Some(value),
        }
    }
}

/// How the certificate of the server is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Check {
    Nothing,
    /// Who signed it.
    Authority,
    /// And for whom.
    Host,
}

/// Makes connections secure, or says that none can be.
#[derive(Clone)]
pub(super) struct Tls {
    /// `None` if there is to be no TLS.
    client: Option<Arc<ClientConfig>>,
    /// Without TLS if it cannot be had.
    optional: bool,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tls {{ wanted: {}, optional: {} }}", self.client.is_some(), self.optional)
    }
}

fn unreadable(detail: String) -> Error {
    Error::Misconfigured(format!("the address of the database cannot be used: {detail}"))
}

impl Tls {
    /// Reads what is wanted, files included, and sets the driver's own mode accordingly.
    pub(super) fn new(wanted: &Wanted, config: &mut Config) -> Result<Tls> {
        let rooted = wanted.root.is_some();
        let (mode, check) = match wanted.mode.as_deref() {
            Some("disable") => (SslMode::Disable, Check::Nothing),
            None | Some("prefer") => (SslMode::Prefer, Check::Nothing),
            // As every client does: a root that is given is there to be used.
            Some("require") if rooted => (SslMode::Require, Check::Authority),
            Some("require") => (SslMode::Require, Check::Nothing),
            Some("verify-ca") => (SslMode::Require, Check::Authority),
            Some("verify-full") => (SslMode::Require, Check::Host),
            Some(other) => {
                let known = "disable, prefer, require, verify-ca and verify-full";
                return Err(unreadable(format!("sslmode={other} is none of {known}")));
            }
        };
        config.ssl_mode(mode);
        let optional = mode == SslMode::Prefer;
        if mode == SslMode::Disable {
            return Ok(Tls { client: None, optional });
        }
        Ok(Tls { client: Some(Arc::new(client(wanted, check)?)), optional })
    }

    /// One connection, with what drives it.
    pub(super) async fn connect(
        &self,
        config: &Config,
    ) -> std::result::Result<(Client, Connection<Socket, Secure<Socket>>), PgError> {
        match config.connect(self.clone()).await {
            Err(err) if self.optional && refuses_tls(&err) => {
                let mut plain = config.clone();
                plain.ssl_mode(SslMode::Disable);
                plain.connect(Tls { client: None, optional: false }).await.map_err(|_| err)
            }
            connected => connected,
        }
    }
}

/// The handshake failed, or the server lets nobody in who comes with TLS.
fn refuses_tls(err: &PgError) -> bool {
    match err.code() {
        Some(code) => *code == SqlState::INVALID_AUTHORIZATION_SPECIFICATION,
        None => said(err).contains("TLS"),
    }
}

fn client(wanted: &Wanted, check: Check) -> Result<ClientConfig> {
    let provider = Arc::new(ring::default_provider());
    let verifier = verifier(wanted, check, &provider)?;
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|err| unreadable(err.to_string()))?
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    match (&wanted.certificate, &wanted.key) {
        (None, None) => Ok(builder.with_no_client_auth()),
        (Some(certificate), Some(key)) => {
            let chain = certificates(certificate)?;
            let key = PrivateKeyDer::from_pem_file(key)
                .map_err(|err| unreadable(format!("sslkey={key}: {err}")))?;
            let made = builder.with_client_auth_cert(chain, key);
            made.map_err(|err| unreadable(format!("sslcert and sslkey: {err}")))
        }
        _ => Err(unreadable("sslcert and sslkey are given together".into())),
    }
}

fn certificates(file: &str) -> Result<Vec<CertificateDer<'static>>> {
    let read =
        CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<std::result::Result<Vec<_>, _>>);
    match read {
        Ok(read) if !read.is_empty() => Ok(read),
        Ok(_) => Err(unreadable(format!("{file} holds no PEM certificate"))),
        Err(err) => Err(unreadable(format!("{file}: {err}"))),
    }
}

fn verifier(
    wanted: &Wanted,
    check: Check,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>> {
    let inner: Option<Arc<dyn ServerCertVerifier>> = match (check, wanted.root.as_deref()) {
        (Check::Nothing, _) => None,
        (Check::Host, None | Some(SYSTEM)) => {
            let system = rustls_platform_verifier::Verifier::new(provider.clone());
            Some(Arc::new(system.map_err(|err| unreadable(format!("no trusted root certificates: {err}")))?))
        }
        // Anybody can have a certificate of an authority that everybody trusts.
        (Check::Authority, None | Some(SYSTEM)) => {
            return Err(unreadable(
                "without a file of its own in sslrootcert only sslmode=verify-full says who answers".into(),
            ));
        }
        (_, Some(file)) => {
            let mut roots = RootCertStore::empty();
            for root in certificates(file)? {
                roots.add(root).map_err(|err| unreadable(format!("sslrootcert={file}: {err}")))?;
            }
            let built =
                WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build();
            Some(built.map_err(|err| unreadable(format!("sslrootcert={file}: {err}")))?)
        }
    };
    if check == Check::Host
        && let Some(inner) = inner
    {
        return Ok(inner);
    }
    Ok(Arc::new(Lenient { inner, provider: provider.clone() }))
}

/// Does not look at the name in the certificate, or at the certificate at all.
#[derive(Debug)]
struct Lenient {
    /// `None`: whoever answers will do, as long as the connection is encrypted.
    inner: Option<Arc<dyn ServerCertVerifier>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Lenient {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> std::result::Result<ServerCertVerified, TlsError> {
        let Some(inner) = &self.inner else { return Ok(ServerCertVerified::assertion()) };
        match inner.verify_server_cert(certificate, between, name, ocsp, now) {
            // The name is looked at last: all else was found in order.
            Err(TlsError::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, TlsError> {
        verify_tls12_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, TlsError> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

impl MakeTlsConnect<Socket> for Tls {
    type Stream = Secure<Socket>;
    type TlsConnect = Handshake;
    type Error = io::Error;

    fn make_tls_connect(&mut self, host: &str) -> io::Result<Handshake> {
        Ok(Handshake { client: self.client.clone(), host: host.to_owned() })
    }
}

/// About to make one connection secure.
pub(super) struct Handshake {
    client: Option<Arc<ClientConfig>>,
    host: String,
}

impl<S> TlsConnect<S> for Handshake
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = Secure<S>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Secure<S>>> + Send>>;

    fn connect(self, stream: S) -> Self::Future {
        Box::pin(async move {
            let client = self.client.ok_or_else(|| io::Error::other("sslmode=disable"))?;
            let name = ServerName::try_from(self.host)
                .map_err(|_| io::Error::other("the host is no name that a certificate could have"))?;
            TlsConnector::from(client).connect(name, stream).await.map(Secure)
        })
    }
}

/// A connection with TLS.
pub(super) struct Secure<S>(RustlsStream<S>);

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for Secure<S> {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Secure<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Secure<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
