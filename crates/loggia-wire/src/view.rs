//! What a server needs to know about a protocol, as functions of a [`View`], so that it never has to ask which
//! protocol it is.

use loggia_core::{ChoiceId, CustomCommands, SessionId, Surface, TaskId, TaskView};
use serde_json::{Value, json};

use crate::card::CardKind;
use crate::dialect::{self, A2aVersion, Dialect, Extension, View};
use crate::intent::{Asked, Delivery, PushTarget};
use crate::refuse::{self, ErrorObject, Status, WireError};
use crate::{coder, commands, legacy, reply, sdlc};

impl View {
    pub const A2A_03: View = View::plain(Dialect::A2a03);
    pub const A2A_1: View = View::plain(Dialect::A2a1);
    /// A2A 0.3 in the JSON form of its protocol file: HTTP+JSON and gRPC.
    pub const PROTO_03: View = View::plain(Dialect::Proto03);
    /// Followed sessions on the WebSocket, where the extension is always on.
    pub const WEBSOCKET: View = View { dialect: Dialect::A2a03, extension: Extension::On };

    pub(crate) const fn plain(dialect: Dialect) -> View {
        View { dialect, extension: Extension::Off }
    }

    /// The view of a JSON-RPC client that names this version in `A2A-Version`. Only 1.0 has an error code for a
    /// version that is not served, so such a client is answered in 1.0.
    pub fn of_header(version: Option<&str>) -> View {
        View::plain(dialect::dialect_of_version(version))
    }

    /// The view in which a JSON-RPC call is answered. The version decides only for an unknown method.
    pub fn of_call(method: &str, version: Option<&str>) -> View {
        View::plain(dialect::answered_in(method, version))
    }

    /// The view under the name that [`View::version`] gives it: how a webhook remembers it.
    pub fn of_version(version: &str, extension: bool) -> Option<View> {
        let all = [View::LEGACY, View::A2A_03, View::A2A_1];
        let view = all.into_iter().find(|view| view.version() == version)?;
        Some(View { extension: if extension { Extension::On } else { Extension::Off }, ..view })
    }

    /// The protocol version as hooks and webhooks name it.
    pub fn version(self) -> &'static str {
        match self.dialect {
            Dialect::Legacy => "0.1",
            other => other.version().written(),
        }
    }

    pub fn has_extension(self) -> bool {
        self.extension == Extension::On
    }

    /// The origin that the log gives to what a client of this view does.
    pub fn surface(self) -> Surface {
        match self.dialect {
            Dialect::Legacy => Surface::Legacy,
            Dialect::Sdlc => Surface::Sdlc,
            Dialect::A2a03 | Dialect::Proto03 | Dialect::A2a1 | Dialect::Coder => Surface::A2a,
        }
    }

    /// Checks the `A2A-Version` of a request.
    pub fn check_version(self, given: Option<&str>) -> Result<(), WireError> {
        dialect::check_version(given, self.dialect)
    }

    pub fn check_tenant(self, served: Option<&str>, params: &Value) -> Result<(), WireError> {
        dialect::check_tenant(served, self.dialect, params)
    }

    /// Decodes a request whose path or gRPC service has told the view.
    pub fn decode(
        self,
        method: &str,
        params: &Value,
        extension: Extension,
    ) -> Result<Asked, WireError> {
        dialect::decode_method(self.dialect, method, params, extension)
    }

    /// An error as JSON-RPC has it.
    pub fn refuse(self, error: &WireError) -> ErrorObject {
        refuse::refuse(error, self.dialect)
    }

    /// An error as HTTP+JSON and gRPC have it.
    pub fn status(self, error: &WireError) -> Status {
        refuse::status(error, self.dialect)
    }

    /// A request that was rejected before it was read, for HTTP+JSON and gRPC.
    pub fn rejection(self, http: u16, reason: &str, message: &str) -> Status {
        refuse::refused_at_the_door(http, reason, message, self.dialect)
    }

    /// The same as a JSON-RPC error.
    pub fn rejected_call(self, http: u16, reason: &str, message: &str) -> ErrorObject {
        let data = match self.dialect.version() {
            A2aVersion::V03 => json!({ "reason": reason }),
            A2aVersion::V1 => self.rejection(http, reason, message).details,
        };
        let code = refuse::closed_door_code(http);
        ErrorObject { code, message: message.to_owned(), data: Some(data), http }
    }

    /// The data of an `error` event in a stream that is not JSON-RPC.
    pub fn stream_error(self, error: &WireError) -> Value {
        match self.dialect {
            Dialect::Sdlc => sdlc::error(error).1,
            _ => self.status(error).body,
        }
    }

    /// Whether a JSON-RPC request for a stream that fails is answered with a stream of one error. Clients of
    /// 0.3 that asked for a stream read nothing else.
    pub fn refuses_in_stream(self) -> bool {
        self.dialect != Dialect::A2a1
    }

    pub fn card_kind(self) -> CardKind {
        match self.dialect {
            Dialect::A2a03 | Dialect::Legacy | Dialect::Sdlc | Dialect::Coder => CardKind::A2a03,
            Dialect::Proto03 => CardKind::Proto03,
            Dialect::A2a1 => CardKind::A2a1,
        }
    }

    /// How a result is delivered, with the protocol's default where the client did not say.
    #[must_use]
    pub fn delivery(self, requested: Delivery) -> Delivery {
        requested.in_dialect(self.dialect)
    }

    /// The choice that an answer means, given the choices that are offered.
    #[must_use]
    pub fn offered_choice(self, choice: ChoiceId, offered: &[ChoiceId]) -> ChoiceId {
        match self.dialect {
            Dialect::Coder => coder::within(choice, offered),
            _ => choice,
        }
    }

    /// Whether a rejected message becomes a rejected task. Otherwise its client gets an error.
    pub fn has_rejected_tasks(self) -> bool {
        self.dialect != Dialect::Sdlc
    }

    /// Whether a webhook gets each update. Otherwise it gets the whole task when its state changes.
    pub fn pushes_updates(self) -> bool {
        self.dialect.version() == A2aVersion::V1
    }

    /// Whether a task can be written without its history. The legacy service repeats the request that made it.
    pub fn writes_without_history(self) -> bool {
        self.dialect != Dialect::Legacy
    }

    /// The id that clients of this view know a task by.
    pub fn task_id(self, task: &TaskView) -> TaskId {
        match self.dialect {
            Dialect::Legacy => TaskId::from(legacy::project::word(task)),
            _ => task.id.clone(),
        }
    }

    /// Whether that id can differ from the task's own.
    pub fn has_client_task_ids(self) -> bool {
        self.dialect == Dialect::Legacy
    }

    /// The result of a send: a task, as [`Projector::snapshot`](crate::Projector::snapshot) gives it.
    pub fn sent(self, task: Value) -> Value {
        reply::sent(self.dialect, task)
    }

    /// A direct answer without a task: the result of a send, or the only frame of a stream. None where every
    /// answer is a task.
    pub fn message(self, session: &SessionId, id: &str, text: &str) -> Option<Value> {
        reply::message(self.dialect, session, id, text)
    }

    /// A webhook as clients may see it: without its secrets.
    pub fn push_config(self, task: &TaskId, target: &PushTarget) -> Value {
        reply::push(self.dialect, task, target)
    }

    pub fn push_configs(self, task: &TaskId, targets: &[PushTarget]) -> Value {
        reply::pushes(self.dialect, task, targets)
    }

    pub fn push_config_deleted(self) -> Value {
        reply::push_deleted(self.dialect)
    }

    /// The list of slash commands.
    pub fn commands(self, custom: &CustomCommands) -> Value {
        match self.dialect {
            Dialect::Sdlc => sdlc::types::commands(custom),
            _ => json!(commands::GetAllSlashCommandsResponse::all(custom)),
        }
    }

    /// Whether the answer to a slash command is its output, and a command that cannot run is an error. Otherwise
    /// the answer says whether it was started.
    pub fn waits_for_commands(self) -> bool {
        self.dialect == Dialect::Sdlc
    }
}
