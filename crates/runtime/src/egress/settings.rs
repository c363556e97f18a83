//! What the operator sets for outward calls, and how it is written.

use super::rules::Range;
use machine::time::Span;
use std::{
    net::{IpAddr, SocketAddr},
    str::FromStr,
};

/// Rules and bounds of every outward call.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Addresses to dial for a host and port, instead of asking the name service; not checked against the rules.
    pub resolve: Vec<Resolve>,
    /// Ranges that may be called although they are not public.
    pub allow_private: Vec<Range>,
    /// Root certificates trusted beside those of the system, in DER.
    pub roots: Vec<Vec<u8>>,
    /// Where to send everything but `resolve`d hosts.
    pub proxy: Option<Proxy>,
    /// Ports that may be called; all if empty.
    pub ports: Vec<u16>,
    pub connect_timeout: Span,
    /// Hops followed when a step asks for it.
    pub redirects_max: usize,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            resolve: Vec::new(),
            allow_private: Vec::new(),
            roots: Vec::new(),
            proxy: None,
            ports: Vec::new(),
            connect_timeout: Span::from_secs(10),
            redirects_max: 5,
        }
    }
}

/// `HOST:PORT=ADDRESS`, as curl has it; `*` is every host, and an address may carry a port of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolve {
    /// In lower case; `None` is every host.
    host: Option<String>,
    port: u16,
    address: IpAddr,
    dial_port: u16,
}

impl Resolve {
    /// The address to dial for this host and port, if this line is about it.
    pub(crate) fn find(&self, host: &str, port: u16) -> Option<SocketAddr> {
        let host = host.trim_end_matches('.');
        let fits = self.host.as_deref().is_none_or(|wanted| wanted.eq_ignore_ascii_case(host));
        (fits && self.port == port).then(|| SocketAddr::new(self.address, self.dial_port))
    }
}

impl FromStr for Resolve {
    type Err = String;

    fn from_str(text: &str) -> Result<Resolve, String> {
        let wrong = || format!("{text:?} is not HOST:PORT=ADDRESS, such as api.example.com:443=127.0.0.1");
        let (name, address) = text.split_once('=').ok_or_else(wrong)?;
        let (host, port) = name.rsplit_once(':').ok_or_else(wrong)?;
        let port: u16 = port.parse().ok().filter(|port| *port > 0).ok_or_else(wrong)?;
        let plain =
            !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_graphic() && !b"/@?#".contains(&byte));
        if !plain {
            return Err(wrong());
        }
        let (address, dial_port) = match address.parse::<SocketAddr>() {
            Ok(socket) => (socket.ip(), socket.port()),
            Err(_) => {
                (address.trim_start_matches('[').trim_end_matches(']').parse().map_err(|_| wrong())?, port)
            }
        };
        let host = (host != "*").then(|| host.trim_end_matches('.').to_ascii_lowercase());
        Ok(Resolve { host, port, address, dial_port })
    }
}

/// An HTTP proxy: `http://host:port`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proxy {
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl FromStr for Proxy {
    type Err = String;

    fn from_str(text: &str) -> Result<Proxy, String> {
        let wrong = || format!("{text:?} is no proxy such as http://proxy.example.com:3128");
        let url = url::Url::parse(text).map_err(|_| wrong())?;
        let plain = url.scheme() == "http" && url.username().is_empty() && url.password().is_none();
        let bare = matches!(url.path(), "" | "/") && url.query().is_none() && url.fragment().is_none();
        let host = url.host_str().filter(|host| !host.is_empty()).ok_or_else(wrong)?;
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let port = url.port_or_known_default().ok_or_else(wrong)?;
        if plain && bare { Ok(Proxy { host, port }) } else { Err(wrong()) }
    }
}

/// Ranges for `--egress-allow-private`: one, or `all`.
pub fn private_ranges(text: &str) -> Result<Vec<Range>, String> {
    match text {
        "all" => Ok(Range::ALL.to_vec()),
        "loopback" => Ok(Range::LOOPBACK.to_vec()),
        text => text.parse().map(|range| vec![range]).map_err(|error: String| format!("{error}, nor `all`")),
    }
}

/// The certificates of a PEM file, in DER; at least one.
pub fn roots(pem: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    use tokio_rustls::rustls::pki_types::{CertificateDer, pem::PemObject};
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let read = read.map_err(|error| format!("not a PEM file of certificates: {error}"))?;
    match read.is_empty() {
        true => Err("the file holds no PEM certificate".to_owned()),
        false => Ok(read.into_iter().map(|certificate| certificate.as_ref().to_vec()).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resolve_is_read_as_curl_has_it() {
        let line: Resolve = "Pets.example:443=127.0.0.1".parse().unwrap();
        let found = |line: &Resolve, host, port| line.find(host, port).map(|address| address.to_string());
        assert_eq!(found(&line, "pets.EXAMPLE.", 443).as_deref(), Some("127.0.0.1:443"));
        assert_eq!(found(&line, "pets.example", 80), None);
        assert_eq!(found(&line, "other.example", 443), None);
        let any: Resolve = "*:80=127.0.0.1:8080".parse().unwrap();
        assert_eq!(found(&any, "whatever", 80).as_deref(), Some("127.0.0.1:8080"));
        let six: Resolve = "a:1=[::1]".parse().unwrap();
        assert_eq!(found(&six, "a", 1).as_deref(), Some("[::1]:1"));
        for text in
            ["", "a=1.2.3.4", "a:1", "a:0=1.2.3.4", "a:99999=1.2.3.4", ":1=1.2.3.4", "a/b:1=1.2.3.4", "a:1=b"]
        {
            assert!(text.parse::<Resolve>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_proxy_is_a_plain_address() {
        assert_eq!("http://p:3128".parse(), Ok(Proxy { host: "p".to_owned(), port: 3128 }));
        for text in ["p:3128", "https://p", "http://u:p@p", "http://p/x", "socks5://p", ""] {
            assert!(text.parse::<Proxy>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_file_without_certificates_is_refused() {
        assert!(roots(b"nothing").is_err());
        assert!(roots(b"-----BEGIN CERTIFICATE-----\n!!\n-----END CERTIFICATE-----\n").is_err());
    }
}
