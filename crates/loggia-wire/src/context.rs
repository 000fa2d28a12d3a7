//! Context names. A context is named by its session's id, unless two clients have chosen the same name for
//! different sessions. The later session then has an id with a suffix, and its client sees the name without
//! the suffix. So a client cannot tell whether another client uses a name.
//!
//! The suffix is computed elsewhere.

use loggia_core::SessionId;

/// Between a name and its suffix.
const SIGN: char = '@';
const DIGITS: usize = 16;

/// The id of a session that has this name for one client only.
pub fn with_suffix(name: &SessionId, suffix: u64) -> SessionId {
    SessionId::from(format!("{name}{SIGN}{suffix:0DIGITS$x}").as_str())
}

/// The name that clients see.
pub fn shown(session: &SessionId) -> &str {
    without_suffix(session.as_str()).unwrap_or(session.as_str())
}

/// The same as an id.
pub fn shown_id(session: SessionId) -> SessionId {
    without_suffix(session.as_str()).map(SessionId::from).unwrap_or(session)
}

/// Whether a name looks like an id with a suffix. Such a name needs a suffix itself.
pub fn has_suffix(name: &SessionId) -> bool {
    without_suffix(name.as_str()).is_some()
}

fn without_suffix(text: &str) -> Option<&str> {
    let (name, suffix) = text.rsplit_once(SIGN)?;
    let digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    (suffix.len() == DIGITS && suffix.bytes().all(digit)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_shown_without_its_suffix() {
        for name in ["a", "", "a@b", "a@0123456789abcdeF", "a@0123456789abcdef", "ä@"] {
            let name = SessionId::from(name);
            for suffix in [0, 7, u64::MAX] {
                let session = with_suffix(&name, suffix);
                assert!(has_suffix(&session) && shown(&session) == name.as_str(), "{session}");
            }
        }
        let plain = SessionId::from("0199d3a0-0000-7000-8000-000000000000");
        assert!(!has_suffix(&plain) && shown(&plain) == plain.as_str());
        assert!(has_suffix(&SessionId::from("a@0123456789abcdef")));
    }
}
