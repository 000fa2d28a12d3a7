//! Access tokens: claims, signature, verification. Pure: keys and the time are arguments.
//!
//! `loggia1.KEY.CLAIMS.SUM`: the id of the key, the claims as JSON, and HMAC-SHA256 over everything
//! before it. There is one algorithm and no field that could choose another, which is why this is not a
//! JSON Web Token; a key is looked up by id among our own only. The form of a token is no promise to
//! clients.
//!
//! Times are of the wall clock, with a tolerance of thirty seconds either way (R23).

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use loggia_core::Millis;
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use super::keys::KeyRing;
use super::scope::Scopes;

/// How long a token is valid.
pub const LIFETIME: Duration = Duration::from_secs(3_600);
/// The difference of clocks that is tolerated.
pub const SKEW: Duration = Duration::from_secs(30);

const FORM: &str = "loggia1";
/// Distinguishes access tokens from anything else that the keys may sign later.
const AUDIENCE: &str = "access";
const LONGEST: usize = 2_048;

/// The claims of a token. Times are seconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claims {
    /// The store whose keys sign.
    pub iss: String,
    pub aud: String,
    /// The client.
    pub sub: String,
    /// The client's serial when the token was made.
    #[serde(rename = "gen")]
    pub client_serial: String,
    pub scope: Scopes,
    pub iat: i64,
    pub nbf: i64,
    pub exp: i64,
    /// Unique for each token.
    pub jti: String,
}

/// Why a token is not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Not a token, or not signed by a key of ours.
    NotOurs,
    /// Ours, but expired or not yet valid.
    NotNow,
}

pub struct NewToken {
    pub client: String,
    pub client_serial: String,
    pub scopes: Scopes,
    pub token_id: String,
}

/// A token that is valid from now on. None if there is no key.
pub fn sign(ring: &KeyRing, new_token: NewToken, at: Millis) -> Option<String> {
    let at = at.0 / 1000;
    let claims = Claims {
        iss: ring.issuer.clone(),
        aud: AUDIENCE.to_owned(),
        sub: new_token.client,
        client_serial: new_token.client_serial,
        scope: new_token.scopes,
        iat: at,
        nbf: at,
        exp: at.saturating_add(seconds(LIFETIME)),
        jti: new_token.token_id,
    };
    write(ring, &claims)
}

fn write(ring: &KeyRing, claims: &Claims) -> Option<String> {
    let key = ring.signing()?;
    let claims = URL_SAFE_NO_PAD.encode(serde_json::to_vec(claims).ok()?);
    let signed = format!("{FORM}.{}.{claims}", key.id);
    let sum = mac(&key.bytes(), &signed)?.finalize().into_bytes();
    Some(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(sum)))
}

/// The id of the key, if the text has the form of a token.
pub fn key_of(text: &str) -> Option<&str> {
    let parts: Vec<&str> = text.split('.').collect();
    match parts.as_slice() {
        [FORM, key, _, _] if text.len() <= LONGEST => Some(key),
        _ => None,
    }
}

pub fn verify(ring: &KeyRing, text: &str, at: Millis) -> Result<Claims, Fault> {
    let key = key_of(text).and_then(|id| ring.verifying(id, at)).ok_or(Fault::NotOurs)?;
    let (signed, sum) = text.rsplit_once('.').ok_or(Fault::NotOurs)?;
    let sum = URL_SAFE_NO_PAD.decode(sum).map_err(|_| Fault::NotOurs)?;
    let mac = mac(&key.bytes(), signed).ok_or(Fault::NotOurs)?;
    // In constant time.
    mac.verify_slice(&sum).map_err(|_| Fault::NotOurs)?;
    let claims = signed.rsplit_once('.').map(|(_, claims)| claims).ok_or(Fault::NotOurs)?;
    let claims = URL_SAFE_NO_PAD.decode(claims).map_err(|_| Fault::NotOurs)?;
    let claims: Claims = serde_json::from_slice(&claims).map_err(|_| Fault::NotOurs)?;
    claims.check(&ring.issuer, at.0 / 1000)?;
    Ok(claims)
}

impl Claims {
    fn check(&self, issuer: &str, at: i64) -> Result<(), Fault> {
        // Longer than any that we issue: the key has leaked.
        let too_long = self.exp.saturating_sub(self.iat) > seconds(LIFETIME);
        if self.iss != issuer || self.aud != AUDIENCE || too_long {
            return Err(Fault::NotOurs);
        }
        let skew = seconds(SKEW);
        let begun = self.nbf.max(self.iat) <= at.saturating_add(skew);
        let over = at > self.exp.saturating_add(skew);
        if begun && !over { Ok(()) } else { Err(Fault::NotNow) }
    }

    /// How long it is valid from `at` on.
    pub fn remaining(&self, at: Millis) -> Duration {
        let remaining = self.exp.saturating_add(seconds(SKEW)).saturating_sub(at.0 / 1000);
        Duration::from_secs(u64::try_from(remaining).unwrap_or_default())
    }
}

fn mac(key: &[u8], text: &str) -> Option<Hmac<Sha256>> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).ok()?;
    mac.update(text.as_bytes());
    Some(mac)
}

fn seconds(time: Duration) -> i64 {
    i64::try_from(time.as_secs()).unwrap_or(i64::MAX)
}

#[cfg(test)]
#[path = "access_token_tests.rs"]
mod tests;
