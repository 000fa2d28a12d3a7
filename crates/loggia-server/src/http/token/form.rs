//! A strict reader of `application/x-www-form-urlencoded`: malformed input is an error. Knows no parameter.
//!
//! `form_urlencoded` accepts every input, so it cannot report a malformed one.

/// Names and values, each name once. An empty value is treated as absent (RFC 6749, §3.2).
pub(super) struct Form(Vec<(String, String)>);

const MOST_FIELDS: usize = 32;

impl Form {
    pub fn parse(body: &[u8]) -> Result<Self, &'static str> {
        let text = std::str::from_utf8(body).map_err(|_| "The form is not valid UTF-8.")?;
        let mut fields: Vec<(String, String)> = Vec::new();
        for field in text.split('&').filter(|field| !field.is_empty()) {
            let (name, value) = field.split_once('=').unwrap_or((field, ""));
            let (Some(name), Some(value)) = (decode(name), decode(value)) else {
                return Err("The form is not encoded correctly.");
            };
            if fields.iter().any(|(known, _)| *known == name) {
                return Err("A parameter is repeated.");
            }
            if fields.len() >= MOST_FIELDS {
                return Err("There are too many parameters.");
            }
            fields.push((name, value));
        }
        Ok(Self(fields))
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }
}

/// `+` is a space, `%41` is a byte. None if the text is not a valid encoding of UTF-8.
pub(in crate::http) fn decode(text: &str) -> Option<String> {
    let mut bytes = text.bytes();
    let mut decoded = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digit = |byte: u8| char::from(byte).to_digit(16);
                let (high, low) = (digit(bytes.next()?)?, digit(bytes.next()?)?);
                u8::try_from(high * 16 + low).ok()?
            }
            other => other,
        });
    }
    String::from_utf8(decoded).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn forms_are_read_strictly() {
        let form = Form::parse(b"a=1&b=x%2By+z&c=&d&%65=%C3%A4").ok().unwrap();
        let rows =
            [("a", Some("1")), ("b", Some("x+y z")), ("c", None), ("d", None), ("e", Some("ä"))];
        for (name, value) in rows {
            assert_eq!(form.get(name), value, "{name}");
        }
        let many: String = (0..40).map(|n| format!("p{n}=1&")).collect();
        for wrong in ["a=%", "a=%4", "a=%zz", "a=%ff", "a=1&a=2", "a=1&%61=1", "%=1", &many] {
            assert!(Form::parse(wrong.as_bytes()).is_err(), "{wrong}");
        }
        assert!(Form::parse(b"a=\xff").is_err());
    }

    proptest! {
        #[test]
        fn encoded_text_is_decoded(text in "\\PC{0,20}") {
            let encoded: String = text.bytes().map(|byte| format!("%{byte:02X}")).collect();
            prop_assert_eq!(decode(&encoded), Some(text));
        }

        #[test]
        fn no_input_panics(body in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Form::parse(&body);
        }
    }
}
