//! Signs as Standard Webhooks says: HMAC-SHA-256 over `id.timestamp.body`, one signature per secret.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use ring::hmac;

/// What a secret begins with; the rest is base64.
const PREFIX: &str = "whsec_";
/// The least and most bytes of a secret.
const BYTES: std::ops::RangeInclusive<usize> = 24..=64;

/// A secret that signs. Never shown.
pub(crate) struct Secret(hmac::Key);

impl Secret {
    /// The error says what a secret is, and nothing of this one.
    pub(crate) fn read(text: &str) -> Result<Secret, String> {
        let wrong =
            || format!("it must be {PREFIX} and then {} to {} bytes in base64", BYTES.start(), BYTES.end());
        let bytes = text.strip_prefix(PREFIX).and_then(|rest| STANDARD.decode(rest).ok());
        let bytes = bytes.filter(|bytes| BYTES.contains(&bytes.len())).ok_or_else(wrong)?;
        Ok(Secret(hmac::Key::new(hmac::HMAC_SHA256, &bytes)))
    }
}

/// The header `webhook-signature`.
pub(crate) fn signature(secrets: &[Secret], id: &str, timestamp: i64, body: &[u8]) -> String {
    let sign = |Secret(key): &Secret| {
        let mut context = hmac::Context::with_key(key);
        context.update(format!("{id}.{timestamp}.").as_bytes());
        context.update(body);
        format!("v1,{}", STANDARD.encode(context.sign()))
    };
    secrets.iter().map(sign).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the reference implementations.
    #[test]
    fn the_reference_signature_comes_out() {
        let secret = Secret::read("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").ok().unwrap();
        let (id, timestamp, body) =
            ("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, br#"{"test": 2432232314}"#);
        let signed = signature(&[secret], id, timestamp, body);
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn secrets_are_of_the_right_form_and_two_sign_twice() {
        for wrong in ["", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_", "whsec_!!", "whsec_c2hvcnQ="] {
            assert!(Secret::read(wrong).is_err(), "{wrong}");
        }
        let secret = |byte: u8| Secret::read(&format!("whsec_{}", STANDARD.encode([byte; 24]))).ok().unwrap();
        let both = signature(&[secret(1), secret(2)], "evt_1", 1, b"{}");
        let alone = [secret(1), secret(2)].map(|one| signature(&[one], "evt_1", 1, b"{}"));
        assert_eq!(both, alone.join(" "));
    }
}
