//! Signs notifications by the Standard Webhooks specification.
//!
//! A client that registers `whsec_` and base64 as its token or credentials shares this secret with the receiver.
//! The secret is never sent. It signs the id, time and body of each attempt, so that the receiver can detect forged,
//! changed and repeated notifications.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

const PREFIX: &str = "whsec_";
/// Bytes of a secret, as the specification recommends.
const SHORTEST: usize = 24;
const LONGEST: usize = 64;

/// Has no `Debug`, because it is secret.
pub struct Secret(Hmac<Sha256>);

impl Secret {
    /// The signing secret in a token or in credentials. None for one that is to be sent as it is.
    pub fn read(text: &str) -> Option<Result<Self, &'static str>> {
        let encoded = text.strip_prefix(PREFIX)?;
        let key = STANDARD.decode(encoded).ok();
        let key = key.filter(|key| (SHORTEST..=LONGEST).contains(&key.len()));
        let key = key.and_then(|key| Hmac::new_from_slice(&key).ok());
        Some(key.map(Self).ok_or("its secret must be whsec_ and 24 to 64 bytes in base64"))
    }

    /// The value of `webhook-signature`.
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

    #[test]
    fn the_example_of_the_specification() {
        let secret = secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
        let signed =
            secret.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, br#"{"test": 2432232314}"#);
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn the_signature_depends_on_all_inputs() {
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
    fn secrets_have_a_prefix_and_a_length() {
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
