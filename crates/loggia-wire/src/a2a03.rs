//! A2A 0.3 over JSON-RPC: `kind` tells things apart, `final` ends a request's stream.

pub mod decode;
pub(crate) mod project;
pub mod types;

pub(crate) const METHODS: &[&str] = &[
    "message/send",
    "message/stream",
    "tasks/get",
    "tasks/cancel",
    "tasks/resubscribe",
    "tasks/pushNotificationConfig/set",
    "tasks/pushNotificationConfig/get",
    "tasks/pushNotificationConfig/list",
    "tasks/pushNotificationConfig/delete",
    "agent/getAuthenticatedExtendedCard",
];
pub(crate) const STREAMING: &[&str] = &["message/stream", "tasks/resubscribe"];
