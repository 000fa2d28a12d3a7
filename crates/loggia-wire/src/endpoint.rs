//! JSON-RPC URLs: which protocols each accepts, and the form of its responses.
//!
//! One call may need to know which tasks exist before it can be read: a client of the legacy service chooses the
//! ids of its tasks, and three methods have the same name in A2A 0.3. [`Endpoint::task_names`] says which ids to
//! look up, and [`Endpoint::read`] takes the result.

use loggia_core::TaskId;
use serde_json::Value;

use crate::dialect::{Dialect, Extension, View, check_call_version, decode};
use crate::intent::{DecodedRequest, Delivery};
use crate::jsonrpc::{Call, Rejected};
use crate::legacy::{self, DecodeOptions, TaskIds};
use crate::refuse::WireError;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Endpoint {
    /// JSON-RPC of every protocol; the method tells which one.
    JsonRpc,
    /// The legacy service; `tasks/send` answers at once and clients poll.
    LegacyPolled,
    /// The legacy service of python-a2a: `tasks/send` waits, and errors have HTTP statuses.
    LegacyWaiting,
    /// Streams of python-a2a: no JSON-RPC envelope in either direction.
    LegacyStream,
    /// Text streams of python-a2a: a message in, the text of the answer out.
    LegacyText,
}

/// How the frames of a stream are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamFormat {
    /// Each frame is a response to the request.
    JsonRpc,
    /// Frames without an envelope.
    Bare,
    /// Only the text in the frames ([`legacy::words::chunk`]).
    Text,
}

/// What a request says outside of its call.
#[derive(Debug, Clone, Copy)]
pub struct CallContext<'a> {
    /// `A2A-Version`.
    pub version: Option<&'a str>,
    pub extension: Extension,
    /// The tenant that the server has, if any.
    pub tenant: Option<&'a str>,
    /// The client that made the request: its task ids are its own.
    pub owner: &'a str,
}

/// The two tasks that the id in a call may mean.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskNames {
    /// The task to which this client gave the id.
    pub by_client: TaskId,
    /// The task whose own id it is.
    pub by_server: TaskId,
}

/// Which of these tasks exist. Look up both in any case: otherwise the time of an answer tells whether another
/// client has a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KnownNames {
    pub by_client: bool,
    pub by_server: bool,
}

/// Decodes a call of an A2A version: what the WebSocket and [`Endpoint::JsonRpc`] serve. It is answered in
/// [`View::of_call`].
pub fn decode_call(call: &Call, context: CallContext<'_>) -> Result<DecodedRequest, WireError> {
    let CallContext { version, extension, tenant, .. } = context;
    check_call_version(version, call)?;
    View::of_call(&call.method, version).check_tenant(tenant, &call.params)?;
    decode(call, version, extension)
}

impl Endpoint {
    /// The view before a method tells it.
    pub fn view(self, version: Option<&str>) -> View {
        match self {
            Endpoint::JsonRpc => View::of_header(version),
            _ => View::LEGACY,
        }
    }

    /// The view in which a body that is no call is refused.
    pub fn view_of_rejected(self, rejected: &Rejected) -> View {
        match self {
            Endpoint::JsonRpc => rejected.view(),
            _ => View::LEGACY,
        }
    }

    pub fn has_http_statuses(self) -> bool {
        match self {
            Endpoint::JsonRpc | Endpoint::LegacyPolled => false,
            Endpoint::LegacyWaiting | Endpoint::LegacyStream | Endpoint::LegacyText => true,
        }
    }

    pub fn stream_format(self) -> StreamFormat {
        match self {
            Endpoint::JsonRpc | Endpoint::LegacyPolled | Endpoint::LegacyWaiting => {
                StreamFormat::JsonRpc
            }
            Endpoint::LegacyStream => StreamFormat::Bare,
            Endpoint::LegacyText => StreamFormat::Text,
        }
    }

    /// When `tasks/send` answers.
    fn send_delivery(self) -> Delivery {
        match self {
            Endpoint::LegacyPolled => Delivery::AtOnce,
            Endpoint::JsonRpc
            | Endpoint::LegacyWaiting
            | Endpoint::LegacyStream
            | Endpoint::LegacyText => Delivery::WhenSettled,
        }
    }

    /// The tasks to look up before [`Endpoint::read`]. None if the call needs none.
    pub fn task_names(self, call: &Call, owner: &str) -> Option<TaskNames> {
        if !legacy::names_task(&call.method) {
            return None;
        }
        let task = |ids| {
            let options = DecodeOptions { ids, send: self.send_delivery() };
            legacy::decode(call, options).ok()?.intent.task().cloned()
        };
        Some(TaskNames {
            by_client: task(TaskIds::OfClient(owner))?,
            by_server: task(TaskIds::OfServer)?,
        })
    }

    /// Decodes a call, and tells the view in which it is answered.
    pub fn read(
        self,
        call: &Call,
        context: CallContext<'_>,
        known: KnownNames,
    ) -> (View, Result<DecodedRequest, WireError>) {
        let CallContext { version, owner, .. } = context;
        let view = match self {
            Endpoint::JsonRpc => View::of_call(&call.method, version),
            _ => View::LEGACY,
        };
        let shared = legacy::is_shared(&call.method) && known.by_client && !known.by_server;
        if view.dialect == Dialect::Legacy || shared {
            let named = legacy::names_task(&call.method);
            let ids = if named && !known.by_client {
                TaskIds::OfServer
            } else {
                TaskIds::OfClient(owner)
            };
            let options = DecodeOptions { ids, send: self.send_delivery() };
            return (View::LEGACY, legacy::decode(call, options));
        }
        (view, decode_call(call, context))
    }

    /// Decodes a body without an envelope, on endpoints whose streams have none either. None if the body is no
    /// such request. `new_task` is the id of the task that a bare message begins.
    pub fn read_bare(
        self,
        bytes: &[u8],
        owner: &str,
        new_task: impl FnOnce() -> String,
    ) -> Option<Result<DecodedRequest, WireError>> {
        let value: Value = serde_json::from_slice(bytes).ok()?;
        if !value.is_object() || value.get("jsonrpc").is_some() {
            return None;
        }
        let params = match self.stream_format() {
            StreamFormat::JsonRpc => return None,
            StreamFormat::Bare => value,
            StreamFormat::Text => legacy::words::task_of(value, &new_task()),
        };
        let options = DecodeOptions { ids: TaskIds::OfClient(owner), send: Delivery::Stream };
        Some(legacy::decode_bare(&params, options))
    }
}
