//! Finds the protocol of a request by its method or path, and whether the development-tool extension is on.
//! `A2A-Version` chooses among protocols that share a method or path ([`choose`]). Otherwise it only checks a request.

use crate::intent::DecodedRequest;
use crate::jsonrpc::Call;
use crate::protocol::Protocol;
use crate::refuse::WireError;
use crate::{a2a1, a2a03, coder, commands, devtool, legacy, proto03, sdlc};

/// An enum with a list of its variants.
macro_rules! listed_enum {
    ($(#[$of_enum:meta])* pub enum $name:ident { $($(#[$of_variant:meta])* $variant:ident,)* }) => {
        $(#[$of_enum])*
        pub enum $name { $($(#[$of_variant])* $variant,)* }

        impl $name {
            pub(crate) const ALL: [$name; [$(stringify!($variant)),*].len()] = [$($name::$variant),*];
        }
    };
}

listed_enum! {
    /// A protocol as Loggia speaks it, the newest version first. Its [`Protocol`] says everything else about it.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub enum Dialect {
        /// A2A 1.0 on all its bindings.
        A2a1,
        /// A2A 0.3 over JSON-RPC.
        A2a03,
        /// A2A 0.3 over HTTP+JSON and gRPC: the JSON form of its protocol file.
        Proto03,
        /// The legacy task service: `tasks/send` of A2A 0.1. Never with the extension.
        Legacy,
        /// The SDLC agent server as its specification describes it: events of seven kinds.
        Sdlc,
        /// The SDLC agent server as it was shipped: A2A 0.3 with its own records under `coderAgent`.
        Coder,
    }
}

impl Dialect {
    /// The protocols with JSON-RPC methods.
    pub(crate) fn json_rpc() -> impl Iterator<Item = Dialect> + Clone {
        Self::ALL.into_iter().filter(|dialect| !dialect.protocol().methods().is_empty())
    }

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

listed_enum! {
    /// A version of A2A that is served, the newest one first.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub enum A2aVersion {
        V1,
        V03,
    }
}

impl A2aVersion {
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
    /// The reader is not the owner, who alone may give some answers.
    pub guest: bool,
}

/// The dialect of a JSON-RPC method in a request that names this version.
pub fn dialect_of(method: &str, version: Option<&str>) -> Option<Dialect> {
    if commands::METHODS.contains(&method) {
        return Some(Dialect::A2a03);
    }
    let has = |dialect: &Dialect| dialect.protocol().methods().contains(&method);
    choose(Dialect::json_rpc().filter(has), version)
}

/// Chooses among the dialects that share a method or path: the newest one that is not newer than the version of the
/// request. A request without a version gets the oldest one, because its client may be written for any of them.
pub(crate) fn choose(
    sharing: impl Iterator<Item = Dialect> + Clone,
    version: Option<&str>,
) -> Option<Dialect> {
    let number = |dialect: &Dialect| major_minor(dialect.version().name());
    let named = version.and_then(|given| major_minor(given.trim()));
    let fitting = sharing.clone().filter(|dialect| number(dialect) <= named);
    fitting.max_by_key(number).or_else(|| sharing.min_by_key(number))
}

/// The dialect in which a call is answered. For an unknown method, the version that the request names tells how the
/// client reads errors.
pub(crate) fn answered_in(method: &str, version: Option<&str>) -> Dialect {
    dialect_of(method, version).unwrap_or_else(|| dialect_of_version(version))
}

/// The dialect of a JSON-RPC client that names this version. Only 1.0 has an error code for a version that is not
/// served, so such a client is answered in the newest version.
pub(crate) fn dialect_of_version(version: Option<&str>) -> Dialect {
    match check_version(version, Dialect::A2a03) {
        Ok(()) => Dialect::A2a03,
        Err(_) => {
            let named = |dialect: &Dialect| check_version(version, *dialect).is_ok();
            let a2a = |dialect: &Dialect| dialect.protocol().has_version_header();
            let [newest, ..] = Dialect::ALL;
            Dialect::json_rpc().filter(a2a).find(named).unwrap_or(newest)
        }
    }
}

/// Every JSON-RPC method of A2A and of the extension.
pub fn methods() -> impl Iterator<Item = &'static str> {
    let protocols = Dialect::json_rpc().map(Dialect::protocol);
    let of_a2a = protocols.filter(|protocol| protocol.is_a2a()).flat_map(Protocol::methods);
    of_a2a.chain(commands::METHODS).copied()
}

/// Whether the answer to this JSON-RPC method is a stream of frames.
pub fn streams(method: &str, version: Option<&str>) -> bool {
    let dialect = dialect_of(method, version);
    dialect.is_some_and(|dialect| dialect.protocol().streaming_methods().contains(&method))
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
pub fn decode(
    call: &Call,
    version: Option<&str>,
    extension: Extension,
) -> Result<DecodedRequest, WireError> {
    let dialect = dialect_of(&call.method, version).ok_or(WireError::MethodNotFound)?;
    if commands::METHODS.contains(&call.method.as_str()) {
        // These methods exist in the extension only.
        let view = View { dialect, extension: Extension::On, guest: false };
        return Ok(DecodedRequest {
            view,
            intent: devtool::decode::slash(&call.method, &call.params)?,
        });
    }
    dialect.protocol().decode(&call.method, &call.params, extension)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No two versions share a method yet, so this gives the choice two of them.
    #[test]
    fn the_version_chooses_among_dialects_that_share_a_method() {
        let both = || [Dialect::A2a1, Dialect::A2a03].into_iter();
        for (version, expected) in [
            (None, Dialect::A2a03),
            (Some(""), Dialect::A2a03),
            (Some("soon"), Dialect::A2a03),
            (Some("0.1"), Dialect::A2a03),
            (Some(" 0.3.9 "), Dialect::A2a03),
            (Some("1.0"), Dialect::A2a1),
            (Some("9.9"), Dialect::A2a1),
        ] {
            assert_eq!(choose(both(), version), Some(expected), "{version:?}");
            assert_eq!(choose(both().rev(), version), Some(expected), "{version:?}");
            assert_eq!(choose(both().skip(1), version), Some(Dialect::A2a03), "{version:?}");
        }
        assert_eq!(choose(std::iter::empty(), Some("1.0")), None);
    }

    #[test]
    fn lists_begin_with_the_newest_version() {
        let numbers = A2aVersion::ALL.map(|version| major_minor(version.name()));
        assert!(numbers.is_sorted_by(|newer, older| newer > older), "{numbers:?}");
        let a2a = Dialect::ALL.into_iter().filter(|dialect| dialect.protocol().is_a2a());
        let numbers: Vec<_> = a2a.map(|dialect| major_minor(dialect.version().name())).collect();
        assert!(numbers.is_sorted_by(|newer, older| newer >= older), "{numbers:?}");
    }
}
