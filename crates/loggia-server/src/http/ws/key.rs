//! The keys of a socket's tasks. A request id is compared as a JSON value: `1` and `1.0` are the same id.

use loggia_wire::Id;
use serde_json::Value;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Key {
    Session(String),
    Request(Name),
    /// A request whose id is free again, although its last frame is not sent yet.
    Leaving(u64),
}

/// The id of a request, as a value.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Name {
    Text(String),
    /// Digits without zeros at either end, and the exponent: exact for any length.
    Number {
        negative: bool,
        digits: String,
        exponent: i64,
    },
    /// Null, and values that are not valid ids.
    Other(String),
}

impl Key {
    pub(super) fn session(id: &str) -> Self {
        Self::Session(id.to_owned())
    }

    pub(super) fn request(id: &Id) -> Self {
        // Cannot fail: it was parsed before.
        Self::named(&serde_json::from_str(id.as_json()).unwrap_or_default())
    }

    pub(super) fn named(id: &Value) -> Self {
        Self::Request(match id {
            Value::String(text) => Name::Text(text.clone()),
            Value::Number(number) => {
                let text = number.to_string();
                number_of(&text).unwrap_or(Name::Other(text))
            }
            other => Name::Other(other.to_string()),
        })
    }
}

/// None if the exponent does not fit.
fn number_of(text: &str) -> Option<Name> {
    let (negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (written, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, fraction) = written.split_once('.').unwrap_or((written, ""));
    let digits = [whole, fraction].concat();
    let digits = digits.trim_start_matches('0');
    let short = digits.trim_end_matches('0');
    if short.is_empty() {
        return Some(Name::Number { negative: false, digits: String::new(), exponent: 0 });
    }
    let exponent: i64 = exponent.parse().ok()?;
    let exponent = exponent.checked_sub(i64::try_from(fraction.len()).ok()?)?;
    let exponent = exponent.checked_add(i64::try_from(digits.len() - short.len()).ok()?)?;
    Some(Name::Number { negative, digits: short.to_owned(), exponent })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_compared_as_values() {
        let alike: &[&[&str]] = &[
            &["null"],
            &[r#""""#],
            &[r#""null""#],
            &[r#""é""#, r#""\u00e9""#, r#""\u00E9""#],
            &[r#""a/b""#, r#""a\/b""#],
            &[r#""1""#],
            &["1", "1.0", "1e0", "1E+0", "10e-1", "0.1e1", "1.000"],
            &["-1", "-1.0"],
            &["100", "1e2", "1E2", "100.00"],
            &["0", "-0", "0.0", "0e99999999999999999999"],
            &["1.5", "15e-1"],
            &["9007199254740993"],
            &["9007199254740992", "9007199254740992.0"],
            &["1e99999999999999999999"],
            &["1e99999999999999999998"],
        ];
        let key = |text: &&str| Key::named(&serde_json::from_str(text).unwrap());
        for (place, same) in alike.iter().enumerate() {
            let first = key(&same[0]);
            assert!(same.iter().all(|text| key(text) == first), "{same:?}");
            let others = alike.iter().skip(place + 1);
            assert!(others.flat_map(|same| same.iter()).all(|text| key(text) != first), "{same:?}");
        }
    }
}
