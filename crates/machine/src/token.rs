//! Signal tokens: texts that name an instance, and that nobody can make without the deployment's key.

use crate::id::TenantId;
use sha2::{Digest, Sha256};
use uuid::Uuid;

/// What ties tokens to a deployment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Known to the nodes of the deployment only.
    pub key: [u8; 32],
    /// The address under which others reach the API, without a slash at its end.
    pub public_url: String,
}

const MAC_BYTES: usize = 16;
const HEAD_BYTES: usize = 16 + 8 + MAC_BYTES;
/// The longest token that is looked at.
const TOKEN_BYTES_MAX: usize = 256;

/// The token of a step of an instance; `sequence` tells its visits apart.
pub fn make(key: &[u8; 32], tenant: &TenantId, instance: Uuid, sequence: u64) -> String {
    let mut bytes = Vec::with_capacity(HEAD_BYTES + tenant.as_str().len());
    bytes.extend(instance.as_bytes());
    bytes.extend(sequence.to_be_bytes());
    bytes.extend(mac(key, instance, sequence, tenant.as_str()));
    bytes.extend(tenant.as_str().as_bytes());
    encode(&bytes)
}

/// The instance a token was made for; `None` if this deployment did not make it.
pub fn read(key: &[u8; 32], token: &str) -> Option<(TenantId, Uuid)> {
    let bytes = decode(token)?;
    let (head, tenant) = bytes.split_at_checked(HEAD_BYTES)?;
    let instance = Uuid::from_slice(&head[..16]).ok()?;
    let sequence = u64::from_be_bytes(head[16..24].try_into().ok()?);
    let tenant = std::str::from_utf8(tenant).ok()?;
    let wanted = mac(key, instance, sequence, tenant);
    // Every byte is looked at, so that the time taken says nothing.
    let differs = wanted.iter().zip(&head[24..]).fold(0u8, |differs, (a, b)| differs | (a ^ b));
    if differs != 0 {
        return None;
    }
    Some((TenantId::new(tenant).ok()?, instance))
}

/// HMAC-SHA-256, shortened.
fn mac(key: &[u8; 32], instance: Uuid, sequence: u64, tenant: &str) -> [u8; MAC_BYTES] {
    let pad = |with: u8| -> [u8; 64] {
        std::array::from_fn(|position| key.get(position).copied().unwrap_or(0) ^ with)
    };
    let mut inner = Sha256::new();
    inner.update(pad(0x36));
    inner.update("windlass signal token");
    inner.update(instance.as_bytes());
    inner.update(sequence.to_be_bytes());
    inner.update(tenant.as_bytes());
    let mut outer = Sha256::new();
    outer.update(pad(0x5c));
    outer.update(inner.finalize());
    outer.finalize()[..MAC_BYTES].try_into().expect("a hash is longer")
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// base64url without padding.
fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |position: usize| u32::from(chunk.get(position).copied().unwrap_or(0));
        let word = byte(0) << 16 | byte(1) << 8 | byte(2);
        for position in 0..=chunk.len() {
            text.push(ALPHABET[(word >> (18 - 6 * position)) as usize & 63] as char);
        }
    }
    text
}

fn decode(text: &str) -> Option<Vec<u8>> {
    if text.len() > TOKEN_BYTES_MAX {
        return None;
    }
    let mut bytes = Vec::with_capacity(text.len() * 3 / 4);
    for chunk in text.as_bytes().chunks(4) {
        let mut word = 0u32;
        for position in 0..4 {
            let digit = match chunk.get(position) {
                Some(character) => ALPHABET.iter().position(|known| known == character)? as u32,
                None => 0,
            };
            word = word << 6 | digit;
        }
        let whole = word.to_be_bytes();
        bytes.extend(&whole[1..chunk.len().max(1)]);
    }
    (encode(&bytes) == text).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::{make, read};
    use crate::TenantId;
    use uuid::Uuid;

    #[test]
    fn a_token_names_its_instance_and_nothing_else_does() {
        let (key, other) = ([7; 32], [8; 32]);
        let tenant = TenantId::new("acme").unwrap();
        let instance = Uuid::from_u128(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef);
        let token = make(&key, &tenant, instance, 42);
        assert_eq!(read(&key, &token), Some((tenant.clone(), instance)));
        assert_eq!(read(&other, &token), None, "another deployment's key");
        assert_ne!(token, make(&key, &tenant, instance, 43), "every visit has its own");
        for position in 0..token.len() {
            let mut forged: Vec<u8> = token.clone().into_bytes();
            forged[position] = if forged[position] == b'A' { b'B' } else { b'A' };
            assert_eq!(read(&key, std::str::from_utf8(&forged).unwrap()), None, "at {position}");
        }
        for broken in ["", "a", "ab", "!!!!", "é", &token[..20], &format!("{token}A"), &"A".repeat(5000)] {
            assert_eq!(read(&key, broken), None, "{broken}");
        }
    }

    #[test]
    fn tokens_fit_into_a_path() {
        for length in 1..=40 {
            let tenant = TenantId::new(&"t".repeat(length)).unwrap();
            let token = make(&[1; 32], &tenant, Uuid::from_u128(9), 1);
            assert!(token.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_'));
            assert_eq!(read(&[1; 32], &token), Some((tenant, Uuid::from_u128(9))));
        }
    }
}
