//! The properties of a protocol that a server uses, as functions of a [`View`], so that the server never asks which
//! protocol it serves. Their values are in each protocol's directory ([`crate::protocol`]).

use loggia_core::{ChoiceId, CustomCommands, SessionId, Surface, TaskId, TaskView};
use serde_json::{Value, json};

use crate::card::CardKind;
use crate::devtool;
use crate::dialect::{self, Dialect, Extension, View};
use crate::intent::{DecodedRequest, Delivery, PushTarget};
use crate::project::update::ChatMessage;
use crate::protocol::{ErrorFormat, Protocol};
use crate::refuse::{self, Condition, ErrorObject, Status, WireError};

impl View {
    pub const A2A_03: View = View::plain(Dialect::A2a03);
    pub const A2A_1: View = View::plain(Dialect::A2a1);
    /// A2A 0.3 in the JSON form of its protocol file: HTTP+JSON and gRPC.
    pub const PROTO_03: View = View::plain(Dialect::Proto03);
    pub const LEGACY: View = View::plain(Dialect::Legacy);
    pub const SDLC: View = View::plain(Dialect::Sdlc);
    pub const CODER: View = View::plain(Dialect::Coder);
    /// Followed sessions on the WebSocket, where the extension is always on.
    pub const WEBSOCKET: View = View::extended(Dialect::A2a03);

    pub fn all() -> impl Iterator<Item = View> {
        Dialect::ALL.into_iter().flat_map(|dialect| {
            let extended = dialect.protocol().is_a2a().then_some(View::extended(dialect));
            extended.into_iter().chain([View::plain(dialect)])
        })
    }

    /// The views whose frames are A2A's own: tasks and updates.
    pub fn all_of_a2a() -> impl Iterator<Item = View> {
        View::all().filter(|view| view.protocol().is_a2a())
    }

    pub(crate) const fn plain(dialect: Dialect) -> View {
        View { dialect, extension: Extension::Off, guest: false }
    }

    const fn extended(dialect: Dialect) -> View {
        View { dialect, extension: Extension::On, guest: false }
    }

    /// The same for a client that is not the owner (a guest), or for the owner.
    #[must_use]
    pub fn read_by(self, guest: bool) -> View {
        View { guest, ..self }
    }

    pub(crate) fn protocol(self) -> &'static dyn Protocol {
        self.dialect.protocol()
    }

    /// The view of a JSON-RPC client that names this version in `A2A-Version`. Only 1.0 has an error code for a
    /// version that is not served, so such a client is answered in the newest version.
    pub fn of_header(version: Option<&str>) -> View {
        View::plain(dialect::dialect_of_version(version))
    }

    /// The view in which a JSON-RPC call is answered. The version decides only for an unknown method.
    pub fn of_call(method: &str, version: Option<&str>) -> View {
        View::plain(dialect::answered_in(method, version))
    }

    /// The view under the name that [`View::version`] gives it: how a webhook remembers it.
    pub fn of_version(version: &str, extension: bool) -> Option<View> {
        let named = |dialect: &Dialect| dialect.protocol().version_name() == version;
        let dialect = Dialect::json_rpc().find(named)?;
        Some(if extension { View::extended(dialect) } else { View::plain(dialect) })
    }

    /// The protocol version as hooks and webhooks name it.
    pub fn version(self) -> &'static str {
        self.protocol().version_name()
    }

    pub fn has_extension(self) -> bool {
        self.extension == Extension::On
    }

    /// The name in the log of a task that was begun with the extension.
    pub fn profile(self) -> Option<String> {
        self.has_extension().then(|| devtool::PROFILE.to_owned())
    }

    /// The kind of client that the log records for actions in this view.
    pub fn surface(self) -> Surface {
        self.protocol().surface()
    }

    /// Checks the `A2A-Version` of a request.
    pub fn check_version(self, given: Option<&str>) -> Result<(), WireError> {
        dialect::check_version(given, self.dialect)
    }

    /// Checks the tenant of a request. In 1.0 a tenant is a name for an agent on a server, not an identity. A
    /// request names the tenant of the interface that it uses, or none.
    pub fn check_tenant(self, served: Option<&str>, params: &Value) -> Result<(), WireError> {
        match params.get("tenant").and_then(Value::as_str) {
            _ if !self.protocol().has_tenants() => Ok(()),
            None | Some("") => Ok(()),
            given if given == served => Ok(()),
            Some(_) => Err(Condition::UnknownTenant.into()),
        }
    }

    /// Decodes a request whose path or gRPC service has told the view.
    pub fn decode(
        self,
        method: &str,
        params: &Value,
        extension: Extension,
    ) -> Result<DecodedRequest, WireError> {
        self.protocol().decode(method, params, extension)
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
        refuse::rejection(http, reason, message, self.dialect)
    }

    /// The same as a JSON-RPC error.
    pub fn rejected_call(self, http: u16, reason: &str, message: &str) -> ErrorObject {
        let data = match self.protocol().error_format() {
            ErrorFormat::Reason => json!({ "reason": reason }),
            ErrorFormat::Typed => self.rejection(http, reason, message).details,
        };
        let code = refuse::rejection_code(http);
        ErrorObject { code, message: message.to_owned(), data: Some(data), http }
    }

    /// The data of an `error` event in a stream that is not JSON-RPC.
    pub fn stream_error(self, error: &WireError) -> Value {
        self.protocol().stream_error(error).unwrap_or_else(|| self.status(error).body)
    }

    /// Whether a JSON-RPC request for a stream that fails is answered with a stream of one error. Clients of
    /// 0.3 that asked for a stream read nothing else.
    pub fn refuses_in_stream(self) -> bool {
        self.protocol().refuses_in_stream()
    }

    pub fn card_kind(self) -> CardKind {
        self.protocol().card_kind()
    }

    /// How a result is delivered, with the protocol's default where the client did not say.
    #[must_use]
    pub fn delivery(self, requested: Delivery) -> Delivery {
        match requested {
            Delivery::Unsaid => self.protocol().default_delivery(),
            named => named,
        }
    }

    /// The choice that an answer means, given the choices that are offered.
    #[must_use]
    pub fn offered_choice(self, choice: ChoiceId, offered: &[ChoiceId]) -> ChoiceId {
        self.protocol().offered_choice(choice, offered)
    }

    /// Whether the stream of an answer begins with the task.
    pub fn answer_opens_with_task(self) -> bool {
        self.protocol().answer_starts_with_task(self.extension)
    }

    /// Whether a rejected message becomes a rejected task. Otherwise its client gets an error.
    pub fn has_rejected_tasks(self) -> bool {
        self.protocol().has_rejected_tasks()
    }

    /// Whether a webhook gets each update. Otherwise it gets the whole task when its state changes.
    pub fn pushes_updates(self) -> bool {
        self.protocol().pushes_updates()
    }

    /// The media type of a webhook's payload.
    pub fn push_media_type(self) -> &'static str {
        self.protocol().push_media_type()
    }

    /// Whether a webhook without an id replaces the task's earlier one.
    pub fn replaces_unnamed_push(self) -> bool {
        self.protocol().replaces_unnamed_push()
    }

    /// Whether a task can be written without its history. The legacy service repeats the request that made it.
    pub fn writes_without_history(self) -> bool {
        !self.has_client_task_ids()
    }

    /// The id that clients of this view know a task by.
    pub fn task_id(self, task: &TaskView) -> TaskId {
        self.protocol().client_task_id(task).map_or_else(|| task.id.clone(), TaskId::from)
    }

    /// Whether that id can differ from the task's own.
    pub fn has_client_task_ids(self) -> bool {
        self.protocol().has_client_task_ids()
    }

    /// The result of a send: a task, as [`Projector::snapshot`](crate::Projector::snapshot) gives it.
    pub fn sent(self, task: Value) -> Value {
        self.protocol().sent(task)
    }

    /// A direct answer without a task: the result of a send, or the only frame of a stream. None where every
    /// answer is a task.
    pub fn message(self, session: &SessionId, id: &str, text: &str) -> Option<Value> {
        self.protocol().message(session, &ChatMessage::text(id, text))
    }

    /// A webhook as clients may see it: without its secrets.
    pub fn push_config(self, task: &TaskId, target: &PushTarget) -> Value {
        self.protocol().push_config(task, target)
    }

    pub fn push_configs(self, task: &TaskId, targets: &[PushTarget]) -> Value {
        let configs = targets.iter().map(|target| self.push_config(task, target));
        self.protocol().push_configs(configs.collect())
    }

    pub fn push_config_deleted(self) -> Value {
        self.protocol().push_config_deleted()
    }

    /// The list of slash commands.
    pub fn commands(self, custom: &CustomCommands) -> Value {
        self.protocol().commands(custom)
    }

    /// Whether the answer to a slash command is its output, and a command that cannot run is an error. Otherwise
    /// the answer says whether it was started.
    pub fn waits_for_commands(self) -> bool {
        self.protocol().waits_for_commands()
    }
}
