//! Which addresses may be called: everything public, and what the operator adds.
//!
//! An address is looked at in its plain form, so that an IPv4 address written as IPv6 is judged as what it is.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str::FromStr,
};

/// A range of addresses, such as `10.0.0.0/8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    base: IpAddr,
    bits: u8,
}

impl Range {
    const fn v4(a: u8, b: u8, c: u8, d: u8, bits: u8) -> Range {
        Range { base: IpAddr::V4(Ipv4Addr::new(a, b, c, d)), bits }
    }

    const fn v6(words: [u16; 4], bits: u8) -> Range {
        let [a, b, c, d] = words;
        Range { base: IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0)), bits }
    }

    /// Addresses of this machine itself.
    pub const LOOPBACK: [Range; 2] =
        [Range::v4(127, 0, 0, 0, 8), Range { base: IpAddr::V6(Ipv6Addr::LOCALHOST), bits: 128 }];

    /// Every address.
    pub const ALL: [Range; 2] = [Range::v4(0, 0, 0, 0, 0), Range::v6([0, 0, 0, 0], 0)];

    pub fn contains(&self, address: IpAddr) -> bool {
        let (base, address, width) = match (self.base, address) {
            (IpAddr::V4(base), IpAddr::V4(address)) => {
                (u128::from(base.to_bits()), u128::from(address.to_bits()), 32)
            }
            (IpAddr::V6(base), IpAddr::V6(address)) => (base.to_bits(), address.to_bits(), 128),
            _ => return false,
        };
        let shift = width - u32::from(self.bits);
        base.checked_shr(shift).unwrap_or(0) == address.checked_shr(shift).unwrap_or(0)
    }
}

impl FromStr for Range {
    type Err = String;

    fn from_str(text: &str) -> Result<Range, String> {
        let wrong = || format!("{text:?} is no range of addresses such as 10.0.0.0/8 or fd00::/8");
        let (base, bits) = match text.split_once('/') {
            Some((base, bits)) => (base, Some(bits)),
            None => (text, None),
        };
        let base: IpAddr = base.parse().map_err(|_| wrong())?;
        let width = if base.is_ipv4() { 32 } else { 128 };
        let bits = match bits {
            Some(bits) if bits.bytes().all(|byte| byte.is_ascii_digit()) => {
                bits.parse().ok().filter(|bits| *bits <= width).ok_or_else(wrong)?
            }
            Some(_) => return Err(wrong()),
            None => width,
        };
        Ok(Range { base, bits })
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.base, self.bits)
    }
}

/// What is not public, each with the name that a refusal says.
const DENIED: &[(Range, &str)] = &[
    (Range::v4(0, 0, 0, 0, 8), "\"this network\""),
    (Range::v4(10, 0, 0, 0, 8), "private"),
    (Range::v4(100, 64, 0, 0, 10), "carrier-grade NAT"),
    (Range::v4(127, 0, 0, 0, 8), "loopback"),
    (Range::v4(169, 254, 0, 0, 16), "link-local and metadata"),
    (Range::v4(172, 16, 0, 0, 12), "private"),
    (Range::v4(192, 0, 0, 0, 24), "protocol assignment"),
    (Range::v4(192, 0, 2, 0, 24), "documentation"),
    (Range::v4(192, 88, 99, 0, 24), "6to4 relay"),
    (Range::v4(192, 168, 0, 0, 16), "private"),
    (Range::v4(198, 18, 0, 0, 15), "benchmark"),
    (Range::v4(198, 51, 100, 0, 24), "documentation"),
    (Range::v4(203, 0, 113, 0, 24), "documentation"),
    (Range::v4(224, 0, 0, 0, 4), "multicast"),
    (Range::v4(240, 0, 0, 0, 4), "reserved and broadcast"),
    (Range::v6([0x2001, 0, 0, 0], 23), "protocol assignment"),
    (Range::v6([0x2001, 0xdb8, 0, 0], 32), "documentation"),
    (Range::v6([0x2002, 0, 0, 0], 16), "6to4"),
    (Range::v6([0x3fff, 0, 0, 0], 20), "documentation"),
    (Range { base: IpAddr::V6(Ipv6Addr::LOCALHOST), bits: 128 }, "loopback"),
    (Range::v6([0x64, 0xff9b, 0, 0], 32), "NAT64"),
    (Range::v6([0xfc00, 0, 0, 0], 7), "unique local"),
    (Range::v6([0xfe80, 0, 0, 0], 10), "link-local"),
    (Range::v6([0xff00, 0, 0, 0], 8), "multicast"),
];

/// The only part of IPv6 that is given out for the public.
const PUBLIC_V6: Range = Range::v6([0x2000, 0, 0, 0], 3);

/// The name and range of the rule that forbids `address`, if one does.
pub(crate) fn denied(address: IpAddr, allowed: &[Range]) -> Option<String> {
    let address = address.to_canonical();
    if allowed.iter().any(|range| range.contains(address)) {
        return None;
    }
    if let Some((range, name)) = DENIED.iter().find(|(range, _)| range.contains(address)) {
        return Some(format!("the {name} range {range}"));
    }
    match address {
        IpAddr::V6(_) if !PUBLIC_V6.contains(address) => {
            Some("the part of IPv6 that is not public".to_owned())
        }
        _ => None,
    }
}

/// True for names that mean something inside a network only; checked where a proxy resolves names for us.
pub(crate) fn is_internal_name(host: &str) -> bool {
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    let inner = [".localhost", ".local", ".internal", ".lan", ".intranet", ".home.arpa"];
    !host.contains('.') || inner.iter().any(|end| host.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_denied(text: &str) -> bool {
        denied(text.parse().unwrap(), &[]).is_some()
    }

    #[test]
    fn what_is_not_public_is_denied() {
        let not_public =
            "0.0.0.0 0.1.2.3 10.0.0.1 10.255.255.255 100.64.0.1 100.127.255.255 127.0.0.1 127.9.9.9
            169.254.169.254 172.16.0.1 172.31.255.255 192.0.0.1 192.0.2.1 192.88.99.1 192.168.1.1 198.18.0.1
            198.19.255.255 198.51.100.7 203.0.113.9 224.0.0.1 239.255.255.255 240.0.0.1 255.255.255.255
            :: ::1 ::127.0.0.1 ::8.8.8.8 ::ffff:127.0.0.1 ::ffff:169.254.169.254 ::ffff:10.0.0.1
            64:ff9b::7f00:1 64:ff9b::808:808 64:ff9b:1::1 100::1 2001::1 2001:db8::1 2002:7f00:1::1 3fff::1
            fc00::1 fd12:3456::1 fe80::1 fec0::1 ff02::1 5f00::1 fd00:ec2::254";
        for text in not_public.split_whitespace() {
            assert!(is_denied(text), "{text}");
        }
    }

    #[test]
    fn what_is_public_is_not() {
        for text in
            "1.1.1.1 8.8.8.8 100.63.255.255 100.128.0.0 126.255.255.255 128.0.0.1 172.15.255.255 172.32.0.0
            169.253.0.1 192.167.0.1 223.255.255.255 2606:4700::1111 2a00:1450::1 ::ffff:8.8.8.8"
                .split_whitespace()
        {
            assert!(!is_denied(text), "{text}");
        }
    }

    #[test]
    fn an_allowed_range_is_allowed_in_every_spelling() {
        let allowed: [Range; 1] = ["10.1.0.0/16".parse().unwrap()];
        for (text, fine) in [("10.1.2.3", true), ("::ffff:10.1.2.3", true), ("10.2.0.1", false)] {
            assert_eq!(denied(text.parse().unwrap(), &allowed).is_none(), fine, "{text}");
        }
        assert_eq!(denied("169.254.169.254".parse().unwrap(), &Range::ALL), None);
        assert_eq!(denied("fe80::1".parse().unwrap(), &Range::ALL), None);
        assert_eq!(denied("::1".parse().unwrap(), &Range::LOOPBACK), None);
    }

    #[test]
    fn ranges_are_read_and_nonsense_is_not() {
        for text in ["10.0.0.0/8", "fd00::/8", "1.2.3.4/32", "::/0"] {
            assert_eq!(text.parse::<Range>().unwrap().to_string(), text);
        }
        assert_eq!("1.2.3.4".parse::<Range>().unwrap().to_string(), "1.2.3.4/32");
        for text in ["", "10.0.0.0/33", "10.0.0/8", "fd00::/129", "10.0.0.0/", "10.0.0.0/+8", "all", "host/8"]
        {
            assert!(text.parse::<Range>().is_err(), "{text}");
        }
    }
}
