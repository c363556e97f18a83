//! Signatures of the deployment: Ed25519.

use machine::audit::{Hash, Signature};
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};

/// Signs for the deployment.
pub(super) struct Signer {
    pair: Ed25519KeyPair,
    /// The public key.
    pub(super) key: Hash,
}

impl Signer {
    pub(super) fn new(seed: &[u8; 32]) -> Signer {
        let pair = Ed25519KeyPair::from_seed_unchecked(seed).expect("32 bytes are a seed");
        let key = pair.public_key().as_ref().try_into().expect("a public key has 32 bytes");
        Signer { pair, key }
    }

    pub(super) fn sign(&self, said: &[u8]) -> Signature {
        self.pair.sign(said).as_ref().try_into().expect("a signature has 64 bytes")
    }
}

/// True if the key's owner signed what was said.
pub fn is_signed(key: &Hash, said: &[u8], signature: &Signature) -> bool {
    UnparsedPublicKey::new(&ED25519, key).verify(said, signature).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_counts_for_its_key_and_its_words() {
        let (one, other) = (Signer::new(&[1; 32]), Signer::new(&[2; 32]));
        let signature = one.sign(b"this");
        assert!(is_signed(&one.key, b"this", &signature));
        assert!(!is_signed(&one.key, b"that", &signature));
        assert!(!is_signed(&other.key, b"this", &signature));
    }
}
