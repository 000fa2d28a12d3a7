use proptest::prelude::*;

use super::*;
use crate::auth::keys::{Key, OldTokens};

const NOW: Millis = Millis(1_800_000_000_000);

fn ring() -> KeyRing {
    KeyRing::fresh(NOW).unwrap()
}

fn new_token() -> NewToken {
    NewToken {
        client: "ann".into(),
        client_serial: "g1".into(),
        scopes: Scopes::REGISTERED,
        token_id: "t1".into(),
    }
}

fn token(ring: &KeyRing) -> String {
    sign(ring, new_token(), NOW).unwrap()
}

/// A token that says `claims`, signed with the right key.
fn saying(ring: &KeyRing, change: impl FnOnce(&mut Claims)) -> String {
    let mut claims = verify(ring, &token(ring), NOW).unwrap();
    change(&mut claims);
    write(ring, &claims).unwrap()
}

fn after(seconds: i64) -> Millis {
    Millis(NOW.0 + seconds * 1000)
}

#[test]
fn a_token_contains_its_client_and_scopes() {
    let ring = ring();
    let claims = verify(&ring, &token(&ring), NOW).unwrap();
    assert_eq!((claims.sub.as_str(), claims.client_serial.as_str()), ("ann", "g1"));
    assert_eq!((claims.scope, claims.jti.as_str()), (Scopes::REGISTERED, "t1"));
    assert_eq!((claims.exp - claims.iat, claims.nbf), (3600, claims.iat));
    assert_eq!(claims.remaining(after(3600)), SKEW);
    assert_eq!(claims.remaining(after(9999)), Duration::ZERO);
}

/// R23: thirty seconds are tolerated, thirty-one are not.
#[test]
fn clocks_may_differ_by_thirty_seconds() {
    let ring = ring();
    let token = token(&ring);
    let rows = [
        (-86_400, false),
        (-31, false),
        (-30, true),
        (0, true),
        (3_600, true),
        (3_630, true),
        (3_631, false),
        (86_400, false),
    ];
    for (seconds, believed) in rows {
        let checked = verify(&ring, &token, after(seconds)).map(drop);
        let new_token = if believed { Ok(()) } else { Err(Fault::NotNow) };
        assert_eq!(checked, new_token, "{seconds} s after it was made");
    }
}

#[test]
fn wrong_claims_are_rejected() {
    let ring = ring();
    type Row = (&'static str, fn(&mut Claims));
    let rows: &[Row] = &[
        ("another store", |claims| claims.iss = "other".into()),
        ("another purpose", |claims| claims.aud = "console".into()),
        ("a life of two hours", |claims| claims.exp += 3_600),
        ("a life without end", |claims| claims.exp = i64::MAX),
        ("times that cannot be", |claims| (claims.iat, claims.exp) = (i64::MIN, i64::MAX)),
    ];
    for (what, change) in rows {
        assert_eq!(verify(&ring, &saying(&ring, change), NOW), Err(Fault::NotOurs), "{what}");
    }
    let early = saying(&ring, |claims| claims.nbf += 31);
    assert_eq!(verify(&ring, &early, NOW), Err(Fault::NotNow));
    let other = self::ring();
    assert_eq!(verify(&other, &token(&ring), NOW), Err(Fault::NotOurs), "another store's key");
}

#[test]
fn a_token_cannot_choose_its_algorithm_or_key() {
    let ring = ring();
    let good = token(&ring);
    let [form, key, claims, sum] = good.split('.').collect::<Vec<_>>().try_into().unwrap();
    let encode = |text: &str| URL_SAFE_NO_PAD.encode(text);
    let says = String::from_utf8(URL_SAFE_NO_PAD.decode(claims).unwrap()).unwrap();
    let rows = [
        String::new(),
        ".".repeat(3),
        format!("{form}.{key}.{claims}"),
        format!("{form}.{key}.{claims}."),
        format!("{form}.{key}.{claims}.{sum}."),
        format!("{form}.{key}.{claims}.{sum}="),
        format!("{form}.{key}..{sum}"),
        format!("{form}.../../x.{claims}.{sum}"),
        format!("{form}..{claims}.{sum}"),
        format!("loggia2.{key}.{claims}.{sum}"),
        format!("{form}.{key}.{}.{sum}", encode(&says.replace("ann", "bob"))),
        // Known attacks on token libraries: no algorithm, our key as a public key, a key elsewhere.
        format!("{}.{claims}.", encode(r#"{"alg":"none","typ":"JWT"}"#)),
        format!("{}.{claims}.{sum}", encode(r#"{"alg":"HS256","kid":"../../x"}"#)),
        format!("{}.{claims}.{sum}", encode(r#"{"alg":"RS256","jku":"http://127.0.0.1:1/"}"#)),
        format!("{good}{}", "x".repeat(4_096)),
    ];
    for row in rows {
        assert_eq!(verify(&ring, &row, NOW), Err(Fault::NotOurs), "{row}");
    }
}

#[test]
fn key_rotation_invalidates_no_token() {
    let first = ring();
    let old = token(&first);
    let rotated = first.rotated(Key::fresh(NOW).unwrap(), NOW, OldTokens::Stay);
    let new = token(&rotated);
    assert_ne!(key_of(&old), key_of(&new), "the newest signs");
    for (token, at) in [(&old, 0), (&new, 0), (&old, 3_630), (&new, 3_630)] {
        assert!(verify(&rotated, token, after(at)).is_ok(), "{at}");
    }
    assert_eq!(verify(&rotated, &old, after(3_632)), Err(Fault::NotOurs), "its key is gone");
    let ended = rotated.rotated(Key::fresh(NOW).unwrap(), NOW, OldTokens::End);
    for token in [old, new] {
        assert_eq!(verify(&ended, &token, NOW), Err(Fault::NotOurs));
    }
}

proptest! {
    /// One changed character anywhere makes it invalid.
    #[test]
    fn a_changed_token_is_not_believed(place in 0usize..300, letter in "[A-Za-z0-9_.-]") {
        let ring = ring();
        let good = token(&ring);
        let place = place % good.len();
        let mut changed = good.clone();
        changed.replace_range(place..=place, &letter);
        // The last character of a sum has two unused bits; base64 refuses them set.
        prop_assert_eq!(verify(&ring, &changed, NOW).is_ok(), changed == good);
    }

    #[test]
    fn no_text_makes_it_fail_otherwise(text in "\\PC*") {
        prop_assert_eq!(verify(&ring(), &text, NOW), Err(Fault::NotOurs));
    }
}
