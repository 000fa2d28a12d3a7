//! Which protocol a request speaks, told by its method or its path, and whether the development-tool extension is
//! on. `A2A-Version` checks a request; it does not route it.

use crate::intent::DecodedRequest;
use crate::jsonrpc::Call;
use crate::protocol::Protocol;
use crate::refuse::WireError;
use crate::{a2a1, a2a03, coder, commands, devtool, legacy, proto03, sdlc};

/// A protocol as Loggia speaks it. Its [`Protocol`] says everything else about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Dialect {
    /// A2A 0.3 over JSON-RPC.
    A2a03,
    /// A2A 0.3 over HTTP+JSON and gRPC: the JSON form of its protocol file.
    Proto03,
    /// A2A 1.0 on all its bindings.
    A2a1,
    /// The legacy task service: `tasks/send` of A2A 0.1. Never with the extension.
    Legacy,
    /// The SDLC agent server as its document describes it: events of seven kinds.
    Sdlc,
    /// The SDLC agent server as it was shipped: A2A 0.3 with its own records under `coderAgent`.
    Coder,
}

impl Dialect {
    /// The protocols of JSON-RPC, the newest version first.
    pub(crate) const JSON_RPC: [Dialect; 3] = [Dialect::A2a1, Dialect::A2a03, Dialect::Legacy];

    pub(crate) fn protocol(self) -> &'static dyn Protocol {
        match self {
            Dialect::A2a03 => &a2a03::A2a03,
            Dialect::Proto03 => &proto03::Proto03,
            Dialect::A2a1 => &a2a1::A2a1,
            Dialect::Legacy => &legacy::Legacy,
            Dialect::Sdlc => &sdlc::Sdlc,
            Dialect::Coder => &coder::Coder,
        }
    }

    pub fn version(self) -> A2aVersion {
        self.protocol().version()
    }
}

/// A version of A2A that is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum A2aVersion {
    V03,
    V1,
}

impl A2aVersion {
    /// The newest one first.
    pub(crate) const ALL: [A2aVersion; 2] = [A2aVersion::V1, A2aVersion::V03];

    /// As `A2A-Version` has it.
    pub fn name(self) -> &'static str {
        match self {
            A2aVersion::V03 => "0.3",
            A2aVersion::V1 => "1.0",
        }
    }

    fn named(given: &str) -> Option<A2aVersion> {
        let given = major_minor(given)?;
        Self::ALL.into_iter().find(|version| major_minor(version.name()) == Some(given))
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

/// The dialect of a JSON-RPC method.
pub fn dialect_of(method: &str) -> Option<Dialect> {
    if commands::METHODS.contains(&method) {
        return Some(Dialect::A2a03);
    }
    let has = |dialect: &Dialect| dialect.protocol().methods().contains(&method);
    Dialect::JSON_RPC.into_iter().find(has)
}

/// The dialect in which a call is answered. The version that the request names decides only for an unknown method:
/// it tells how the client reads errors.
pub(crate) fn answered_in(method: &str, version: Option<&str>) -> Dialect {
    dialect_of(method).unwrap_or_else(|| dialect_of_version(version))
}

/// The dialect of a JSON-RPC client that names this version. Only 1.0 has an error code for a version that is not
/// served, so such a client is answered in the newest version.
pub(crate) fn dialect_of_version(version: Option<&str>) -> Dialect {
    match check_version(version, Dialect::A2a03) {
        Ok(()) => Dialect::A2a03,
        Err(_) => {
            let named = |dialect: &Dialect| check_version(version, *dialect).is_ok();
            let a2a = |dialect: &Dialect| dialect.protocol().has_version_header();
            let [newest, ..] = Dialect::JSON_RPC;
            Dialect::JSON_RPC.into_iter().filter(a2a).find(named).unwrap_or(newest)
        }
    }
}

/// Every JSON-RPC method of A2A and of the extension.
pub fn methods() -> impl Iterator<Item = &'static str> {
    [a2a03::METHODS, a2a1::METHODS, commands::METHODS].into_iter().flatten().copied()
}

/// Whether the answer to this JSON-RPC method is a stream of frames.
pub fn streams(method: &str) -> bool {
    let dialects = Dialect::JSON_RPC.iter();
    dialects.flat_map(|dialect| dialect.protocol().streaming_methods()).any(|some| *some == method)
}

/// Whether requests of this `A2A-Version` are served. A request without one is.
pub fn is_served_version(given: Option<&str>) -> bool {
    let given = given.map(str::trim).unwrap_or_default();
    given.is_empty() || A2aVersion::named(given).is_some()
}

/// Checks the `A2A-Version` header or query parameter. Without one, a request fits every dialect; the patch number is
/// ignored.
pub(crate) fn check_version(given: Option<&str>, dialect: Dialect) -> Result<(), WireError> {
    let given = given.map(str::trim).unwrap_or_default();
    if given.is_empty() || !dialect.protocol().has_version_header() {
        return Ok(());
    }
    match (A2aVersion::named(given), dialect.version()) {
        (Some(named), of) if named == of => Ok(()),
        (Some(named), of) => Err(WireError::OtherVersion { of, named }),
        (None, _) => Err(WireError::VersionNotSupported),
    }
}

/// The same for a call. The extension's own methods belong to every version. Unknown methods belong to none;
/// [`decode`] refuses them.
pub fn check_call_version(given: Option<&str>, call: &Call) -> Result<(), WireError> {
    if commands::METHODS.contains(&call.method.as_str()) && is_served_version(given) {
        return Ok(());
    }
    check_version(given, answered_in(&call.method, given))
}

pub(crate) fn major_minor(version: &str) -> Option<[u32; 2]> {
    let mut numbers = version.split('.').map(|part| part.parse::<u32>().ok());
    let (major, minor) = (numbers.next()??, numbers.next()??);
    match (numbers.next(), numbers.next()) {
        (None | Some(Some(_)), None) => Some([major, minor]),
        (Some(None), _) | (_, Some(_)) => None,
    }
}

/// Decodes a call of A2A or of the extension. `extension` is what the transport says: a header, or the WebSocket,
/// where the extension is always on. The message may turn it on too.
///
/// Calls of the legacy service are decoded by [`legacy::decode()`], because its task ids depend on the client.
pub fn decode(call: &Call, extension: Extension) -> Result<DecodedRequest, WireError> {
    let dialect = dialect_of(&call.method).ok_or(WireError::MethodNotFound)?;
    if commands::METHODS.contains(&call.method.as_str()) {
        // These methods exist in the extension only.
        let view = View { dialect, extension: Extension::On };
        return Ok(DecodedRequest {
            view,
            intent: devtool::decode::slash(&call.method, &call.params)?,
        });
    }
    dialect.protocol().decode(&call.method, &call.params, extension)
}
