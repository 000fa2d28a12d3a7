//! The routing table: which path serves which protocol. The only place in this crate that names a protocol version.

use loggia_wire::View;

/// A version of A2A.
pub(crate) struct Version {
    /// Serves JSON-RPC of all versions, like `/`.
    pub path: &'static str,
    pub card_path: &'static str,
    pub view: View,
    pub grpc_service: &'static str,
    pub grpc_view: View,
}

/// A new version is a new row here, and a module of `loggia-wire`.
pub(crate) const VERSIONS: [Version; 2] = [
    Version {
        path: "/a2a/1.0",
        card_path: "/a2a/1.0/.well-known/agent-card.json",
        view: View::A2A_1,
        grpc_service: "lf.a2a.v1.A2AService",
        grpc_view: View::A2A_1,
    },
    Version {
        path: "/a2a/0.3",
        card_path: "/a2a/0.3/.well-known/agent-card.json",
        view: View::A2A_03,
        grpc_service: "a2a.v1.A2AService",
        grpc_view: View::PROTO_03,
    },
];

/// The view of gRPC errors before the service is known.
pub(crate) const GRPC: View = View::A2A_1;

pub(crate) const SDLC: View = View::SDLC;

/// The card of all versions.
pub(crate) const CARD: &str = "/.well-known/agent-card.json";

/// Where clients of A2A 0.1 and 0.2 look for a card.
pub(crate) const LEGACY_CARDS: [&str; 3] =
    ["/.well-known/agent.json", "/agent.json", "/a2a/agent.json"];

pub(crate) const HEALTH: &str = "/healthz";

/// Paths that serve JSON-RPC. Clients append a slash to an address, or not.
pub(crate) fn json_rpc() -> impl Iterator<Item = String> {
    let paths = VERSIONS.iter().map(|version| version.path).chain(["", "/a2a"]);
    paths.flat_map(|path| [path.to_owned(), format!("{path}/")]).filter(|path| !path.is_empty())
}

/// Paths that say nothing about sessions and need no identity.
pub fn public_paths() -> Vec<&'static str> {
    let cards = VERSIONS.iter().map(|version| version.card_path);
    cards.chain(LEGACY_CARDS).chain([CARD, HEALTH]).collect()
}
