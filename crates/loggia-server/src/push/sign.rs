//! Signs notifications as Standard Webhooks wants it, for receivers that were given a secret.
//!
//! A client that registers `whsec_` and base64 as its token or credentials shares a secret with the
//! receiver. It is never sent: it signs each attempt's id, time and body, so that the receiver can
//! tell a notification from a forged, changed or old one.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

const PREFIX: &str = "whsec_";
/// Bytes of a secret, as the specification recommends them.
const SHORTEST: usize = 24;
const LONGEST: usize = 64;

/// Not `Debug`: it must not be shown.
pub struct Secret(Hmac<Sha256>);

impl Secret {
    /// The secret in a token or in credentials. None: they are what they are, and are sent.
    pub fn read(text: &str) -> Option<Result<Self, &'static str>> {
        let encoded = text.strip_prefix(PREFIX)?;
        let key = STANDARD.decode(encoded).ok();
        let key = key.filter(|key| (SHORTEST..=LONGEST).contains(&key.len()));
        let key = key.and_then(|key| Hmac::new_from_slice(&key).ok());
        Some(key.map(Self).ok_or("its secret must be whsec_ and 24 to 64 bytes in base64"))
    }

    /// What stands in `webhook-signature`.
    pub fn sign(&self, id: &str, seconds: u64, body: &[u8]) -> String {
        let mut sum = self.0.clone();
        sum.update(format!("{id}.{seconds}.").as_bytes());
        sum.update(body);
        format!("v1,{}", STANDARD.encode(sum.finalize().into_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(text: &str) -> Secret {
        Secret::read(text).and_then(Result::ok).unwrap()
    }

    /// The example of the specification.
    #[test]
    fn a_notification_is_signed_as_others_sign_it() {
        let secret = secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
        let signed =
            secret.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, br#"{"test": 2432232314}"#);
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn everything_that_is_signed_counts() {
        let one = secret(&format!("whsec_{}", STANDARD.encode([7; 24])));
        let other = secret(&format!("whsec_{}", STANDARD.encode([8; 24])));
        let signed = one.sign("id", 1, b"body");
        assert_eq!(signed, one.sign("id", 1, b"body"));
        for changed in [
            one.sign("id2", 1, b"body"),
            one.sign("id", 2, b"body"),
            one.sign("id", 1, b"body "),
            other.sign("id", 1, b"body"),
        ] {
            assert_ne!(signed, changed);
        }
    }

    #[test]
    fn what_is_a_secret() {
        let encoded = |bytes: usize| format!("whsec_{}", STANDARD.encode(vec![1; bytes]));
        for (text, expected) in [
            ("token".to_owned(), None),
            (String::new(), None),
            ("WHSEC_AAAA".to_owned(), None),
            ("whsec_".to_owned(), Some(false)),
            ("whsec_not base64".to_owned(), Some(false)),
            (encoded(23), Some(false)),
            (encoded(24), Some(true)),
            (encoded(64), Some(true)),
            (encoded(65), Some(false)),
        ] {
            assert_eq!(Secret::read(&text).map(|read| read.is_ok()), expected, "{text}");
        }
    }
}
