//! The task service's own paths. `/rpc` answers at once and is polled; python-a2a posts to one path
//! a method, waits for the result, reads HTTP statuses, and streams without an envelope.
//!
//! Which dialect a call is in is told by the path, by the method, and for three methods by the task.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use loggia_core::Surface;
use loggia_wire::legacy::{self, DecodeOptions, TaskIds};
use loggia_wire::{
    Asked, Call, Delivery, Dialect, Id, WireError, answered_in, check_call_version, check_tenant,
    decode, dialect_of_version,
};
use serde_json::Value;

use super::rpc::{self, Envelope};
use super::sse::Form;
use crate::state::{Caller, Server};

/// Paths on which only the task service answers.
pub const PATHS: &[&str] = &[
    "/rpc",
    "/tasks/send",
    "/tasks/get",
    "/tasks/cancel",
    "/tasks/stream",
    "/a2a/tasks/send",
    "/a2a/tasks/get",
    "/a2a/tasks/cancel",
    "/a2a/tasks/stream",
    "/stream",
    "/a2a/stream",
];

/// What is understood where a request came in, and how it is answered.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spoken {
    /// Every dialect, by the method's name.
    Every,
    /// The task service; `tasks/send` is answered at once.
    Polled,
    /// The same as python-a2a speaks it: `tasks/send` waits, and an error has an HTTP status.
    Waiting,
    /// Its streams: without an envelope in either direction.
    Bare,
    /// Its streams of words: a message in, the answer out.
    Words,
}

impl Spoken {
    /// What is spoken where no method tells it.
    pub fn dialect(self, version: Option<&str>) -> Dialect {
        match self {
            Spoken::Every => dialect_of_version(version),
            Spoken::Polled | Spoken::Waiting | Spoken::Bare | Spoken::Words => Dialect::Legacy,
        }
    }

    pub fn has_statuses(self) -> bool {
        matches!(self, Spoken::Waiting | Spoken::Bare | Spoken::Words)
    }

    pub fn form(self, id: &Id) -> Form {
        match self {
            Spoken::Every | Spoken::Polled | Spoken::Waiting => Form::Responses(id.clone()),
            Spoken::Bare => Form::Bare,
            Spoken::Words => Form::Words,
        }
    }

    /// Who polls is answered at once; A2A 0.1's own clients wait for the result.
    fn send(self) -> Delivery {
        match self {
            Spoken::Polled => Delivery::AtOnce,
            Spoken::Every | Spoken::Waiting | Spoken::Bare | Spoken::Words => Delivery::WhenSettled,
        }
    }
}

pub async fn polled(State(server): State<Arc<Server>>, request: Request) -> Response {
    rpc::answer(&server, request, Spoken::Polled).await
}

pub async fn waiting(State(server): State<Arc<Server>>, request: Request) -> Response {
    rpc::answer(&server, request, Spoken::Waiting).await
}

pub async fn bare(State(server): State<Arc<Server>>, request: Request) -> Response {
    rpc::answer(&server, request, Spoken::Bare).await
}

pub async fn words(State(server): State<Arc<Server>>, request: Request) -> Response {
    rpc::answer(&server, request, Spoken::Words).await
}

/// Which dialect a call is answered in, and what it wants.
pub(super) async fn read(
    server: &Server,
    call: &Call,
    envelope: &mut Envelope,
) -> (Dialect, Result<Asked, WireError>) {
    let dialect = match envelope.spoken {
        Spoken::Every => answered_in(&call.method, envelope.version.as_deref()),
        other => other.dialect(None),
    };
    let dialect = match meant_by_task(server, call, envelope, dialect).await {
        Ok(dialect) => dialect,
        Err(error) => return (dialect, Err(error)),
    };
    if dialect == Dialect::Legacy {
        envelope.caller.origin.surface = Surface::Legacy;
        let send = envelope.spoken.send();
        let asked = Box::pin(legacy_call(server, call, &envelope.caller, send)).await;
        return (dialect, asked);
    }
    let asked = check_call_version(envelope.version.as_deref(), call)
        .and_then(|()| check_tenant(server.facts.tenant.as_deref(), dialect, &call.params))
        .and_then(|()| decode(call, envelope.extension));
    (dialect, asked)
}

/// Three methods have the same name in A2A 0.3. They mean the service where the word they give is
/// a name that this client gave a task, and nobody's name of ours.
async fn meant_by_task(
    server: &Server,
    call: &Call,
    envelope: &Envelope,
    dialect: Dialect,
) -> Result<Dialect, WireError> {
    if dialect == Dialect::Legacy || !legacy::is_shared(&call.method) {
        return Ok(dialect);
    }
    let own = of_client(&envelope.caller, envelope.spoken.send());
    let Ok(asked) = legacy::decode(call, own) else { return Ok(dialect) };
    let Ok(ours) = legacy::decode(call, DecodeOptions { ids: TaskIds::OfServer, ..own }) else {
        return Ok(dialect);
    };
    match (asked.intent.task(), ours.intent.task()) {
        (Some(named), Some(ours)) => {
            // Both, whatever the first says: a task of another client costs as much as none.
            let ours = Box::pin(server.has_task(ours)).await?;
            let named = Box::pin(server.has_task(named)).await?;
            Ok(if named && !ours { Dialect::Legacy } else { dialect })
        }
        _ => Ok(dialect),
    }
}

/// A name is the client's own; where it has given none such, ours.
async fn legacy_call(
    server: &Server,
    call: &Call,
    caller: &Caller,
    send: Delivery,
) -> Result<Asked, WireError> {
    let own = of_client(caller, send);
    let asked = legacy::decode(call, own)?;
    match asked.intent.task() {
        Some(task) if !server.has_task(task).await? => {
            legacy::decode(call, DecodeOptions { ids: TaskIds::OfServer, ..own })
        }
        Some(_) | None => Ok(asked),
    }
}

fn of_client(caller: &Caller, send: Delivery) -> DecodeOptions<'_> {
    DecodeOptions { ids: TaskIds::OfClient(&caller.principal.name), send }
}

/// A task, or a message that begins one, without an envelope: where streams have none either.
pub(super) fn read_bare(bytes: &[u8], envelope: &mut Envelope) -> Option<Result<Asked, WireError>> {
    let value: Value = serde_json::from_slice(bytes).ok()?;
    if !value.is_object() || value.get("jsonrpc").is_some() {
        return None;
    }
    let params = match envelope.spoken {
        Spoken::Every | Spoken::Polled | Spoken::Waiting => return None,
        Spoken::Bare => value,
        Spoken::Words => legacy::words::task_of(value, &uuid::Uuid::now_v7().to_string()),
    };
    envelope.caller.origin.surface = Surface::Legacy;
    Some(legacy::decode_bare(&params, of_client(&envelope.caller, Delivery::Stream)))
}
