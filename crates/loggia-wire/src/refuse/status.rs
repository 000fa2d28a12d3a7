//! Errors of HTTP+JSON and gRPC, which have their own status.
//!
//! 1.0 writes `google.rpc.Status` (§11.6, §10.6), 0.3 a plain object with the code of JSON-RPC.

use serde_json::{Value, json};

use super::{ErrorRow, NOT_PERMITTED, WireError, code_in, free_form, row, typed_details};
use crate::dialect::Dialect;
use crate::protocol::ErrorFormat;

/// An error as HTTP+JSON and gRPC write it.
#[derive(Debug, Clone, PartialEq)]
pub struct Status {
    pub http: u16,
    pub rpc: RpcCode,
    pub message: String,
    /// Typed objects: `ErrorInfo`, or `BadRequest` for an invalid field.
    pub details: Value,
    /// The body of an HTTP+JSON response.
    pub body: Value,
}

/// The gRPC codes in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RpcCode {
    InvalidArgument = 3,
    DeadlineExceeded = 4,
    NotFound = 5,
    PermissionDenied = 7,
    ResourceExhausted = 8,
    FailedPrecondition = 9,
    Unimplemented = 12,
    Internal = 13,
    Unavailable = 14,
    Unauthenticated = 16,
}

pub(crate) fn status(error: &WireError, dialect: Dialect) -> Status {
    let row = row(error);
    let (message, details) = (error.to_string(), typed_details(error, &row));
    let format = dialect.protocol().error_format();
    let rpc = RpcCode::of(&row, format);
    let (http, body) = match format {
        ErrorFormat::Typed => (row.http, rpc.body(row.http, &message, &details)),
        ErrorFormat::Reason => {
            let body = json!({
                "code": code_in(&row, format),
                "message": message,
                "error": name_03(row.code),
                "data": free_form(error, &row),
            });
            (http_03(&row), body)
        }
    };
    Status { http, rpc, message, details, body }
}

/// A request that was rejected before it was read: the HTTP status, a reason for programs, a sentence.
pub(crate) fn rejection(http: u16, reason: &str, message: &str, dialect: Dialect) -> Status {
    let rpc = RpcCode::of_http(http);
    let (named, domain) = match http {
        415 => ("CONTENT_TYPE_NOT_SUPPORTED".to_owned(), "a2a-protocol.org"),
        _ => (reason.to_uppercase().replace('-', "_"), "loggia"),
    };
    let details = json!([{
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": named,
        "domain": domain,
        "metadata": { "cause": reason },
    }]);
    let body = match dialect.protocol().error_format() {
        ErrorFormat::Typed => rpc.body(http, message, &details),
        ErrorFormat::Reason => {
            let code = rejection_code(http);
            json!({ "code": code, "message": message, "error": name_03(code), "data": { "reason": reason } })
        }
    };
    Status { http, rpc, message: message.to_owned(), details, body }
}

/// The JSON-RPC code of a request that was rejected before it was read.
pub(crate) fn rejection_code(http: u16) -> i32 {
    match http {
        413 => -32600,
        415 => -32005,
        _ => NOT_PERMITTED,
    }
}

impl RpcCode {
    /// The code for an HTTP status.
    pub fn of_http(http: u16) -> Self {
        match http {
            401 => RpcCode::Unauthenticated,
            403 => RpcCode::PermissionDenied,
            404 => RpcCode::NotFound,
            408 => RpcCode::DeadlineExceeded,
            413 | 429 | 507 => RpcCode::ResourceExhausted,
            503 => RpcCode::Unavailable,
            400..=499 => RpcCode::InvalidArgument,
            _ => RpcCode::Internal,
        }
    }

    fn of(row: &ErrorRow, format: ErrorFormat) -> Self {
        match row.code {
            -32601 => RpcCode::Unimplemented,
            // Clients of 0.3 tell these two apart from other errors by the gRPC code alone.
            -32003 | -32004 if format == ErrorFormat::Reason => RpcCode::Unimplemented,
            -32002 | -32003 | -32004 | -32007 | -32008 | -32009 => RpcCode::FailedPrecondition,
            _ => RpcCode::of_http(row.http),
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            RpcCode::InvalidArgument => "INVALID_ARGUMENT",
            RpcCode::DeadlineExceeded => "DEADLINE_EXCEEDED",
            RpcCode::NotFound => "NOT_FOUND",
            RpcCode::PermissionDenied => "PERMISSION_DENIED",
            RpcCode::ResourceExhausted => "RESOURCE_EXHAUSTED",
            RpcCode::FailedPrecondition => "FAILED_PRECONDITION",
            RpcCode::Unimplemented => "UNIMPLEMENTED",
            RpcCode::Internal => "INTERNAL",
            RpcCode::Unavailable => "UNAVAILABLE",
            RpcCode::Unauthenticated => "UNAUTHENTICATED",
        }
    }

    /// `google.rpc.Status` as HTTP+JSON 1.0 wraps it.
    pub fn body(self, http: u16, message: &str, details: &Value) -> Value {
        let status = self.name();
        let error =
            json!({ "code": http, "status": status, "message": message, "details": details });
        json!({ "error": error })
    }
}

/// The statuses of the 0.3 SDKs, where 1.0 chose others.
fn http_03(row: &ErrorRow) -> u16 {
    match row.code {
        -32002 => 409,
        -32003 | -32004 => 501,
        -32005 => 415,
        -32007 => 404,
        -32602 if row.http == 400 => 422,
        _ => row.http,
    }
}

/// The name of an error in 0.3.
fn name_03(code: i32) -> &'static str {
    match code {
        -32700 => "JSONParseError",
        -32600 => "InvalidRequestError",
        -32601 => "MethodNotFoundError",
        -32602 => "InvalidParamsError",
        -32001 => "TaskNotFoundError",
        -32002 => "TaskNotCancelableError",
        -32003 => "PushNotificationNotSupportedError",
        -32004 => "UnsupportedOperationError",
        -32005 => "ContentTypeNotSupportedError",
        -32007 => "AuthenticatedExtendedCardNotConfiguredError",
        _ => "InternalError",
    }
}
