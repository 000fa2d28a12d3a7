//! Errors, in the form of each protocol. Every way in which a request can fail has one row in one table.
//!
//! JSON-RPC has an [`ErrorObject`]; HTTP+JSON and gRPC have a [`Status`].
//!
//! A message is a sentence for people. It contains no path, no name of a type, and at most a few bytes of
//! what a client sent.

mod status;

use loggia_core::Refusal;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::devtool;
use crate::dialect::{A2aVersion, Dialect};
use crate::protocol::ErrorFormat;
use crate::time::rfc3339;

pub use status::{RpcCode, Status};
pub(crate) use status::{rejection, rejection_code, status};

/// Why a request fails.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum WireError {
    #[error("Invalid JSON payload: {0}")]
    Parse(&'static str),
    #[error("Request payload validation error: {0}")]
    InvalidRequest(&'static str),
    #[error("Method not found")]
    MethodNotFound,
    #[error("Invalid parameters: {} {}", .0.field, .0.why)]
    Invalid(Violation),
    #[error(
        "This protocol version is not supported; supported versions: {}",
        served_versions(" and ")
    )]
    VersionNotSupported,
    /// The method, path or service of the request is of one version, and its `A2A-Version` names another.
    #[error("This is a request of A2A {}, but its A2A-Version says {}", of.name(), named.name())]
    OtherVersion { of: A2aVersion, named: A2aVersion },
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error(transparent)]
    Condition(#[from] Condition),
}

/// The reason for a field that is absent.
pub(crate) const MISSING: &str = "is missing";

/// An invalid field. The name is Loggia's, never the client's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    pub field: String,
    pub why: String,
}

/// Errors that only the server can detect.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Condition {
    /// Another client's task looks exactly like one that does not exist.
    #[error("Task not found")]
    TaskNotFound,
    #[error("There is no such context")]
    UnknownContext,
    #[error("This server has no such tenant")]
    UnknownTenant,
    #[error("The task belongs to another context")]
    ContextMismatch,
    #[error("This question belongs to another task")]
    QuestionElsewhere,
    #[error("The task is over; there is nothing to follow")]
    NothingToFollow,
    #[error("The server is busy: try again in a moment")]
    Busy,
    /// For its owner only: for other clients the session does not exist.
    #[error(
        "Another process has this session open: use the Loggia that runs it, or try again when it has \
         stopped; until then its tasks can only be read here"
    )]
    HeldElsewhere,
    #[error("Too many streams are open: close one and try again")]
    TooManyStreams,
    #[error("The session is being restarted: try again in a moment")]
    Restarting,
    #[error("The log cannot be read or written: nothing was changed")]
    Storage,
    #[error("The disk is full: nothing was changed, and requests are refused until there is space")]
    StorageFull,
    #[error(
        "The log of a session is damaged and cannot be read: the server's own log names the file and the event"
    )]
    StorageDamaged,
    #[error("Authentication is required")]
    Unauthenticated,
    #[error("Not permitted: {0}")]
    Forbidden(Forbidden),
    #[error("The body is larger than {limit} bytes")]
    BodyTooLarge { limit: usize },
    #[error("A request's body must be application/json")]
    NotJson,
    #[error("Content of this media type is not supported")]
    ContentType,
    #[error("This workspace is not allowed: {why}")]
    WorkspaceRefused { why: &'static str },
    #[error(
        "No repository can be cloned now: the limit of clones is reached (server.clones.count). Clones \
         are removed when their sessions have been idle (server.clones.keep) or are deleted on the server"
    )]
    ClonesFull,
    #[error("The session works in another workspace")]
    WorkspaceDiffers,
    #[error("This setting is not allowed: {setting}")]
    SettingRefused { setting: &'static str },
    #[error("Push notifications are not supported")]
    PushNotSupported,
    #[error("This URL cannot be used for push notifications: {why}")]
    PushTargetRefused { why: &'static str },
    #[error("Too many webhooks: {why}")]
    TooManyWebhooks { why: &'static str },
    #[error("There is no such push notification configuration for this task")]
    UnknownPushConfig,
    #[error("Streaming is not supported")]
    StreamingNotSupported,
    #[error("This server has no extended card")]
    ExtendedCardNotSupported,
    #[error("The extended card is not configured")]
    ExtendedCardNotConfigured,
    #[error("This agent needs an extension that the request does not activate")]
    ExtensionRequired,
    #[error("Command not found: {why}")]
    UnknownCommand { why: String },
    #[error("The message was rejected: {why}")]
    Rejected { why: String },
    #[error("The message was answered before it reached the task: {text}")]
    Answered { text: String },
    /// The prompt hook failed; the server's log has the reason.
    #[error("The message could not be checked, so it was not accepted")]
    HookFailed,
    #[error("Internal error")]
    Internal,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Forbidden {
    #[error("a call of this agent cannot act for a person")]
    ToolDescendant,
    #[error("this connection belongs to another user")]
    OtherUser,
    /// The missing scope.
    #[error("the token lacks the `{0}` scope")]
    Scope(&'static str),
    #[error("requests from other origins are refused")]
    Origin,
}

/// A JSON-RPC error.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ErrorObject {
    pub code: i32,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
    /// For bindings whose errors are plain HTTP statuses.
    #[serde(skip)]
    pub http: u16,
}

/// One row: the code, its name in A2A, the cause, and the HTTP status of 1.0.1.
struct ErrorRow {
    code: i32,
    /// None for codes of JSON-RPC, which A2A does not name.
    named: Option<&'static str>,
    cause: &'static str,
    http: u16,
}

const PARAMS: i32 = -32602;
const INTERNAL: i32 = -32603;
/// JSON-RPC reserves -32000 for servers, and A2A does not use it.
const NOT_PERMITTED: i32 = -32000;

pub(crate) fn refuse(error: &WireError, dialect: Dialect) -> ErrorObject {
    let (row, protocol) = (row(error), dialect.protocol());
    // A request that could not be read has no version yet; its code is enough.
    let unread = matches!(
        error,
        WireError::Parse(_) | WireError::InvalidRequest(_) | WireError::MethodNotFound
    );
    let data = (!unread).then(|| match protocol.error_format() {
        ErrorFormat::Reason => free_form(error, &row),
        ErrorFormat::Typed => typed_details(error, &row),
    });
    ErrorObject {
        code: code_in(&row, protocol.error_format()),
        message: protocol.error_message(error),
        data,
        http: protocol.http_status(error).unwrap_or(row.http),
    }
}

/// Codes that 0.3 does not know are internal errors to it.
fn code_in(row: &ErrorRow, format: ErrorFormat) -> i32 {
    let newer = matches!(row.code, -32008 | -32009);
    if format == ErrorFormat::Reason && newer { INTERNAL } else { row.code }
}

fn served_versions(between: &str) -> String {
    A2aVersion::ALL.map(A2aVersion::name).join(between)
}

/// `{reason, …}`: in 0.3 `data` has any form.
fn free_form(error: &WireError, row: &ErrorRow) -> Value {
    let mut data = Map::new();
    data.insert("reason".into(), row.cause.into());
    for (name, value) in facts(error) {
        data.insert(name.into(), value.into());
    }
    Value::Object(data)
}

/// A list of typed objects: `ErrorInfo`, or `BadRequest` for an invalid field.
fn typed_details(error: &WireError, row: &ErrorRow) -> Value {
    if let WireError::Invalid(Violation { field, why }) = error {
        return json!([{
            "@type": "type.googleapis.com/google.rpc.BadRequest",
            "fieldViolations": [{ "field": field, "description": why }],
        }]);
    }
    let mut metadata = Map::new();
    for (name, value) in facts(error) {
        metadata.insert(name.into(), value.into());
    }
    let (reason, domain) = match row.named {
        Some(named) => {
            metadata.insert("cause".into(), row.cause.into());
            (named.to_owned(), "a2a-protocol.org")
        }
        None => (row.cause.to_uppercase().replace('-', "_"), "loggia"),
    };
    json!([{
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": reason,
        "domain": domain,
        "metadata": metadata,
    }])
}

/// The details for programs, besides the reason.
fn facts(error: &WireError) -> Vec<(&'static str, String)> {
    match error {
        WireError::Invalid(Violation { field, why }) => {
            vec![("field", field.clone()), ("why", why.clone())]
        }
        WireError::VersionNotSupported => vec![("supported", served_versions(", "))],
        WireError::OtherVersion { of, .. } => vec![("supported", of.name().to_owned())],
        WireError::Refused(refusal) => match refusal {
            Refusal::AlreadyAnswered { choice, by, at } => {
                vec![("choice", choice.to_string()), ("by", by.to_string()), ("at", rfc3339(*at))]
            }
            Refusal::ReplyTooLate { choice, by, at } => vec![
                ("choice", choice.to_string()),
                ("by", by.to_string()),
                ("at", rfc3339(*at)),
                ("promptMetadata", json!({ devtool::URI: { "prompt": true } }).to_string()),
            ],
            Refusal::Withdrawn { at, .. } => vec![("at", rfc3339(*at))],
            Refusal::NotAChoice { offered, .. } => vec![("offered", offered.join(", "))],
            Refusal::OwnerOnly { instead, .. } => vec![("offered", instead.join(", "))],
            _ => Vec::new(),
        },
        _ => Vec::new(),
    }
}

fn row(error: &WireError) -> ErrorRow {
    match error {
        WireError::Parse(_) => own(-32700, "invalid-json", 400),
        WireError::InvalidRequest(_) => own(-32600, "invalid-request", 400),
        WireError::MethodNotFound => own(-32601, "method-not-found", 404),
        WireError::Invalid(_) => own(PARAMS, "invalid-params", 400),
        WireError::VersionNotSupported | WireError::OtherVersion { .. } => {
            named(-32009, "VERSION_NOT_SUPPORTED", "version-not-supported", 400)
        }
        WireError::Refused(refusal) => refusal_row(refusal),
        WireError::Condition(condition) => condition_row(condition),
    }
}

fn refusal_row(refusal: &Refusal) -> ErrorRow {
    match refusal {
        Refusal::AlreadyAnswered { .. } | Refusal::ReplyTooLate { .. } => {
            own(PARAMS, "already-answered", 400)
        }
        Refusal::Withdrawn { .. } => own(PARAMS, "question-withdrawn", 400),
        Refusal::UnknownQuestion => own(PARAMS, "unknown-question", 400),
        Refusal::MayNotAnswer => own(NOT_PERMITTED, "scope", 403),
        Refusal::MixedQuestion => own(PARAMS, "mixed-question", 400),
        Refusal::NotAChoice { .. } => own(PARAMS, "not-a-choice", 400),
        Refusal::OwnerOnly { .. } => own(PARAMS, "owner-only", 403),
        Refusal::UnfitEdit { .. } => own(PARAMS, "unfit-edit", 400),
        Refusal::DetailsChanged => own(PARAMS, "details-changed", 400),
        Refusal::UnknownTask => named(-32001, "TASK_NOT_FOUND", "unknown-task", 404),
        Refusal::TaskExists => own(PARAMS, "task-exists", 400),
        Refusal::TaskOver => named(-32004, "UNSUPPORTED_OPERATION", "task-over", 400),
        Refusal::NothingToCancel => named(-32002, "TASK_NOT_CANCELABLE", "nothing-to-cancel", 400),
        Refusal::QueueFull { .. } => own(INTERNAL, "queue-full", 503),
        Refusal::UnknownRule => own(PARAMS, "unknown-rule", 400),
        Refusal::SessionClosed => named(-32004, "UNSUPPORTED_OPERATION", "session-closed", 400),
        // For the agent and the code that opens sessions; clients never see them.
        Refusal::StaleTurn
        | Refusal::StaleCall
        | Refusal::DuplicateCall
        | Refusal::AlreadyOpen
        | Refusal::NotOpen => own(INTERNAL, "internal", 500),
    }
}

fn condition_row(condition: &Condition) -> ErrorRow {
    let unsupported = |cause| named(-32004, "UNSUPPORTED_OPERATION", cause, 400);
    match condition {
        Condition::TaskNotFound => named(-32001, "TASK_NOT_FOUND", "unknown-task", 404),
        Condition::UnknownContext => own(PARAMS, "unknown-context", 400),
        Condition::UnknownTenant => own(PARAMS, "unknown-tenant", 404),
        Condition::ContextMismatch => own(PARAMS, "context-mismatch", 400),
        Condition::QuestionElsewhere => own(PARAMS, "question-elsewhere", 400),
        Condition::NothingToFollow => unsupported("task-over"),
        Condition::Busy => own(INTERNAL, "busy", 503),
        Condition::HeldElsewhere => own(INTERNAL, "held-elsewhere", 503),
        Condition::ClonesFull => own(INTERNAL, "clones-full", 503),
        Condition::TooManyStreams => own(INTERNAL, "too-many-streams", 503),
        Condition::Restarting => own(INTERNAL, "restarting", 503),
        Condition::Storage => own(INTERNAL, "storage", 500),
        Condition::StorageFull => own(INTERNAL, "storage-full", 507),
        Condition::StorageDamaged => own(INTERNAL, "storage-damaged", 500),
        Condition::Unauthenticated => own(NOT_PERMITTED, "unauthenticated", 401),
        Condition::Forbidden(Forbidden::ToolDescendant) => {
            own(NOT_PERMITTED, "tool-descendant", 403)
        }
        Condition::Forbidden(Forbidden::OtherUser) => own(NOT_PERMITTED, "other-user", 403),
        Condition::Forbidden(Forbidden::Scope(_)) => own(NOT_PERMITTED, "scope", 403),
        Condition::Forbidden(Forbidden::Origin) => own(NOT_PERMITTED, "origin", 403),
        Condition::BodyTooLarge { .. } => own(-32600, "body-too-large", 413),
        Condition::NotJson => named(-32005, "CONTENT_TYPE_NOT_SUPPORTED", "not-json", 415),
        Condition::ContentType => named(-32005, "CONTENT_TYPE_NOT_SUPPORTED", "content-type", 400),
        Condition::WorkspaceRefused { .. } => own(PARAMS, "workspace-refused", 403),
        Condition::WorkspaceDiffers => own(PARAMS, "workspace-differs", 400),
        Condition::SettingRefused { .. } => own(PARAMS, "setting-refused", 403),
        Condition::PushNotSupported => {
            named(-32003, "PUSH_NOTIFICATION_NOT_SUPPORTED", "push-not-supported", 400)
        }
        Condition::PushTargetRefused { .. } => own(PARAMS, "push-target-refused", 400),
        Condition::TooManyWebhooks { .. } => own(PARAMS, "too-many-webhooks", 400),
        Condition::UnknownPushConfig => named(-32001, "TASK_NOT_FOUND", "unknown-push-config", 404),
        Condition::StreamingNotSupported => unsupported("streaming-not-supported"),
        Condition::ExtendedCardNotSupported => unsupported("extended-card-not-supported"),
        Condition::ExtendedCardNotConfigured => {
            named(-32007, "EXTENDED_AGENT_CARD_NOT_CONFIGURED", "extended-card-not-configured", 400)
        }
        Condition::ExtensionRequired => {
            named(-32008, "EXTENSION_SUPPORT_REQUIRED", "extension-required", 400)
        }
        Condition::UnknownCommand { .. } => own(PARAMS, "unknown-command", 404),
        Condition::Rejected { .. } => unsupported("rejected"),
        Condition::Answered { .. } => unsupported("answered"),
        Condition::HookFailed => own(INTERNAL, "hook-failed", 500),
        Condition::Internal => own(INTERNAL, "internal", 500),
    }
}

fn own(code: i32, cause: &'static str, http: u16) -> ErrorRow {
    ErrorRow { code, named: None, cause, http }
}

fn named(code: i32, named: &'static str, cause: &'static str, http: u16) -> ErrorRow {
    ErrorRow { code, named: Some(named), cause, http }
}
