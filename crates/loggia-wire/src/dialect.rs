//! Which protocol a request speaks, told by its method's name or its path, and whether the
//! development-tool extension is on. `A2A-Version` checks a request; it does not route it.

use crate::intent::Asked;
use crate::jsonrpc::Call;
use crate::refuse::{Condition, WireError};
use crate::{a2a1, a2a03, commands, devtool, legacy, proto03};
use serde_json::Value;

/// A protocol as Loggia speaks it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Dialect {
    /// A2A 0.3, JSON-RPC: `kind` on everything, `final` on status updates.
    A2a03,
    /// A2A 0.3, HTTP+JSON and gRPC: the JSON form of its protocol file.
    Proto03,
    /// A2A 1.0, on all its bindings.
    A2a1,
    /// The task service: `tasks/send` of A2A 0.1 and what was built on it. Never with the extension.
    Legacy,
    /// The SDLC agent server as its document describes it: events of seven kinds.
    Sdlc,
    /// The same server as it was shipped: A2A 0.3 with records of its own under `coderAgent`.
    Coder,
}

/// A version of A2A. What a request means depends on this; how it is written, on the dialect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum A2aVersion {
    V03,
    V1,
}

impl Dialect {
    pub fn version(self) -> A2aVersion {
        match self {
            Dialect::A2a03
            | Dialect::Proto03
            | Dialect::Legacy
            | Dialect::Sdlc
            | Dialect::Coder => A2aVersion::V03,
            Dialect::A2a1 => A2aVersion::V1,
        }
    }
}

impl A2aVersion {
    const ALL: [A2aVersion; 2] = [A2aVersion::V1, A2aVersion::V03];

    fn numbers(self) -> [u32; 2] {
        match self {
            A2aVersion::V03 => [0, 3],
            A2aVersion::V1 => [1, 0],
        }
    }

    /// As `A2A-Version` has it.
    pub fn written(self) -> &'static str {
        match self {
            A2aVersion::V03 => "0.3",
            A2aVersion::V1 => "1.0",
        }
    }

    /// The one that is served beside it.
    pub fn other(self) -> A2aVersion {
        match self {
            A2aVersion::V03 => A2aVersion::V1,
            A2aVersion::V1 => A2aVersion::V03,
        }
    }
}

/// Whether a client speaks the development-tool extension.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Extension {
    On,
    #[default]
    Off,
}

impl Extension {
    #[must_use]
    pub fn or(self, other: Extension) -> Extension {
        if self == Extension::On { self } else { other }
    }
}

/// What decides how the log looks to a reader: readers with the same view share frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct View {
    pub dialect: Dialect,
    pub extension: Extension,
}

impl View {
    pub const SDLC: View = View { dialect: Dialect::Sdlc, extension: Extension::Off };
    pub const LEGACY: View = View { dialect: Dialect::Legacy, extension: Extension::Off };
    pub const CODER: View = View { dialect: Dialect::Coder, extension: Extension::Off };
    /// The views whose frames are A2A's own, tasks and updates.
    pub const A2A: [View; 6] = [
        View { dialect: Dialect::A2a03, extension: Extension::On },
        View { dialect: Dialect::A2a03, extension: Extension::Off },
        View { dialect: Dialect::Proto03, extension: Extension::On },
        View { dialect: Dialect::Proto03, extension: Extension::Off },
        View { dialect: Dialect::A2a1, extension: Extension::On },
        View { dialect: Dialect::A2a1, extension: Extension::Off },
    ];
    pub const ALL: [View; 9] = {
        let [a, b, c, d, e, f] = View::A2A;
        [a, b, c, d, e, f, View::SDLC, View::CODER, View::LEGACY]
    };

    /// How the log remembers that a task was begun with the extension.
    pub fn profile(self) -> Option<String> {
        (self.extension == Extension::On).then(|| crate::devtool::PROFILE.to_owned())
    }
}

/// The dialect a method of JSON-RPC belongs to, or None for a method nobody knows.
pub fn dialect_of(method: &str) -> Option<Dialect> {
    if a2a03::METHODS.contains(&method) || commands::METHODS.contains(&method) {
        Some(Dialect::A2a03)
    } else if a2a1::METHODS.contains(&method) {
        Some(Dialect::A2a1)
    } else if legacy::METHODS.contains(&method) {
        Some(Dialect::Legacy)
    } else {
        None
    }
}

/// The dialect a call is answered in: where nobody knows its method, the version that the request
/// names tells how its client reads errors.
pub fn answered_in(method: &str, version: Option<&str>) -> Dialect {
    dialect_of(method).unwrap_or_else(|| dialect_of_version(version))
}

/// What a client of JSON-RPC speaks that names this version. Of one that is not served there is a
/// code only in 1.0.
pub fn dialect_of_version(version: Option<&str>) -> Dialect {
    match check_version(version, Dialect::A2a03) {
        Ok(()) => Dialect::A2a03,
        Err(_) => Dialect::A2a1,
    }
}

/// Every method that somebody knows.
pub fn methods() -> impl Iterator<Item = &'static str> {
    [a2a03::METHODS, a2a1::METHODS, commands::METHODS].into_iter().flatten().copied()
}

/// Whether the answer to this method is a stream of frames.
pub fn streams(method: &str) -> bool {
    [a2a03::STREAMING, a2a1::STREAMING, legacy::STREAMING].iter().any(|some| some.contains(&method))
}

/// Whether requests of this `A2A-Version` are served. Without one, every version is meant.
pub fn is_served_version(given: Option<&str>) -> bool {
    [Dialect::A2a1, Dialect::A2a03].iter().any(|dialect| check_version(given, *dialect).is_ok())
}

/// The `A2A-Version` header or query parameter. Absent and empty fit both dialects; the patch
/// number is never looked at.
pub fn check_version(given: Option<&str>, dialect: Dialect) -> Result<(), WireError> {
    let given = given.map(str::trim).unwrap_or_default();
    if dialect == Dialect::Legacy {
        return Ok(()); // older than the header
    }
    let named = major_minor(given);
    let named = A2aVersion::ALL.into_iter().find(|version| named == Some(version.numbers()));
    match named {
        _ if given.is_empty() => Ok(()),
        Some(version) if version == dialect.version() => Ok(()),
        Some(_) => Err(WireError::OtherVersion(dialect.version())),
        None => Err(WireError::VersionNotSupported),
    }
}

/// The same for a call. The extension's own methods belong to no version: whoever speaks either
/// may call them. Neither do methods that nobody knows, which is for [`decode`] to say.
pub fn check_call_version(given: Option<&str>, call: &Call) -> Result<(), WireError> {
    let dialect = answered_in(&call.method, given);
    let newer = || check_version(given, Dialect::A2a1).is_ok();
    match commands::METHODS.contains(&call.method.as_str()) && newer() {
        true => Ok(()),
        false => check_version(given, dialect),
    }
}

pub(crate) fn major_minor(version: &str) -> Option<[u32; 2]> {
    let mut numbers = version.split('.').map(|part| part.parse::<u32>().ok());
    let (major, minor) = (numbers.next()??, numbers.next()??);
    match (numbers.next(), numbers.next()) {
        (None | Some(Some(_)), None) => Some([major, minor]),
        (Some(None), _) | (_, Some(_)) => None,
    }
}

/// What a request wants. `extension` is what the transport says: a header, or the WebSocket, where
/// the extension is always on; the message itself may turn it on too.
///
/// The task service is not read here: what its clients call their tasks depends on who they are
/// ([`legacy::decode()`]).
pub fn decode(call: &Call, extension: Extension) -> Result<Asked, WireError> {
    let dialect = dialect_of(&call.method).ok_or(WireError::MethodNotFound)?;
    if commands::METHODS.contains(&call.method.as_str()) {
        // Nobody calls a method of the extension without speaking it.
        let view = View { dialect, extension: Extension::On };
        return Ok(Asked { view, intent: devtool::decode::slash(&call.method, &call.params)? });
    }
    decode_method(dialect, &call.method, &call.params, extension)
}

/// The same where a path or a gRPC service has told the dialect.
pub fn decode_method(
    dialect: Dialect,
    method: &str,
    params: &Value,
    extension: Extension,
) -> Result<Asked, WireError> {
    match dialect {
        Dialect::A2a03 | Dialect::Sdlc | Dialect::Coder => {
            a2a03::decode::asked(method, params, extension)
        }
        Dialect::Legacy => Err(WireError::MethodNotFound),
        Dialect::Proto03 => proto03::decode::asked(method, params, extension),
        Dialect::A2a1 => a2a1::decode::asked(method, params, extension),
    }
}

/// A tenant is a name on the way to an agent, as 1.0 has it: not who asks, and not what they may. A
/// request names the one of the interface that it uses, or none.
pub fn check_tenant(
    served: Option<&str>,
    dialect: Dialect,
    params: &Value,
) -> Result<(), WireError> {
    match params.get("tenant").and_then(Value::as_str) {
        _ if dialect.version() == A2aVersion::V03 => Ok(()),
        None | Some("") => Ok(()),
        given if given == served => Ok(()),
        Some(_) => Err(Condition::UnknownTenant.into()),
    }
}
