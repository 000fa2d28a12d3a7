//! Everything in which the protocols differ, as one trait. Each protocol implements it at the top of its own
//! directory; the default of a method is what most of them do.
//!
//! To add a version of A2A: a variant of [`Dialect`] and its line in [`Dialect::protocol`], a variant of
//! [`A2aVersion`], and a directory with the implementation. It may share methods and paths with other versions. Over
//! gRPC it also needs a route of the server for its service.

use loggia_core::{
    ChoiceId, CustomCommands, LateUntil, SessionId, Surface, TaskArtifact, TaskId, TaskView,
};
use serde_json::{Value, json};

use crate::a2a::{self, Spelling};
use crate::a2a03;
use crate::card::CardKind;
use crate::commands::GetAllSlashCommandsResponse;
use crate::dialect::{A2aVersion, Extension};
use crate::intent::{DecodedRequest, Delivery, PushTarget};
use crate::project::snapshot::TaskSnapshot;
use crate::project::update::{ArtifactChunk, ChatMessage, FrameContext, StatusChange, Update};
use crate::project::{FoldedEvent, plain, tool};
use crate::read::Read;
use crate::refuse::WireError;
use crate::rest::HttpPaths;

/// How a protocol writes errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ErrorFormat {
    /// 0.3: `data` is an object with a `reason`, and codes that were added in 1.0 are internal errors.
    Reason,
    /// 1.0: `data` is a list of typed objects, and HTTP+JSON writes `google.rpc.Status`.
    Typed,
}

pub(crate) trait Protocol: Sync {
    // Requests.

    /// The A2A version of its requests, as `A2A-Version` names it.
    fn version(&self) -> A2aVersion {
        A2aVersion::V03
    }

    /// The version as hooks and webhooks name it.
    fn version_name(&self) -> &'static str {
        self.version().name()
    }

    /// Whether its frames are A2A's own: tasks and updates. Its clients may use the extension.
    fn is_a2a(&self) -> bool {
        true
    }

    /// Whether its requests may have `A2A-Version`.
    fn has_version_header(&self) -> bool {
        true
    }

    fn has_tenants(&self) -> bool {
        false
    }

    /// Its JSON-RPC methods.
    fn methods(&self) -> &'static [&'static str] {
        &[]
    }

    /// Its paths over HTTP+JSON. None if it has no such binding.
    fn http_paths(&self) -> Option<&'static HttpPaths> {
        None
    }

    /// The methods, on any binding, whose answer is a stream.
    fn streaming_methods(&self) -> &'static [&'static str] {
        &[]
    }

    fn decode(&self, method: &str, params: &Value, extension: Extension) -> Read<DecodedRequest>;

    /// The kind of client that the log records for its clients' actions.
    fn surface(&self) -> Surface {
        Surface::A2a
    }

    /// When a message is answered if its client did not say.
    fn default_delivery(&self) -> Delivery {
        Delivery::AtOnce
    }

    /// Whether clients can answer a question in a form other than text. Text that answers nothing is then a prompt.
    fn has_answer_form(&self, extension: Extension) -> bool {
        extension == Extension::On
    }

    /// How long text may still be a late answer to a question.
    fn late_answers(&self) -> LateUntil {
        LateUntil::UntilNextTurn
    }

    /// The choice that an answer means, given the choices that are offered.
    fn offered_choice(&self, choice: ChoiceId, _offered: &[ChoiceId]) -> ChoiceId {
        choice
    }

    // Errors.

    fn error_format(&self) -> ErrorFormat {
        ErrorFormat::Reason
    }

    fn error_message(&self, error: &WireError) -> String {
        error.to_string()
    }

    /// The HTTP status of an error, where it is not that of the table.
    fn http_status(&self, _error: &WireError) -> Option<u16> {
        None
    }

    /// The data of an `error` event in a stream that is not JSON-RPC. None: as the body of an HTTP+JSON error.
    fn stream_error(&self, _error: &WireError) -> Option<Value> {
        None
    }

    /// Whether a JSON-RPC request for a stream that fails is answered with a stream of one error.
    fn refuses_in_stream(&self) -> bool {
        true
    }

    // Frames.

    /// The updates of an event.
    fn updates(&self, folded: &mut FoldedEvent<'_>, extension: Extension) -> Vec<Update> {
        match extension {
            Extension::On => tool::updates(folded),
            Extension::Off => plain::updates(folded),
        }
    }

    /// How it writes the objects of A2A.
    fn spelling(&self) -> &'static Spelling {
        &a2a03::SPELLING
    }

    /// A whole task.
    fn task(&self, task: TaskSnapshot<'_>) -> Value {
        self.spelling().task(&task)
    }

    /// A whole task as a frame.
    fn task_frame(&self, task: TaskSnapshot<'_>) -> Value {
        self.spelling().frame("task", self.task(task))
    }

    /// Changes a task frame that looks final in a stream that continues.
    fn continued_task_frame(&self, frame: Value) -> Value {
        frame
    }

    fn status_frame(&self, at: &FrameContext<'_>, _: &TaskView, status: &StatusChange) -> Value {
        self.spelling().status_frame(at, status)
    }

    fn artifact_frame(&self, at: &FrameContext<'_>, _: &TaskView, chunk: &ArtifactChunk) -> Value {
        self.spelling().artifact_frame(at, chunk)
    }

    /// The artifacts that a task shows, in order: published ones, responses, changed files.
    fn artifacts<'a>(&self, task: &'a TaskView) -> Vec<&'a TaskArtifact> {
        let mut ordered: Vec<&TaskArtifact> = task.artifacts.iter().collect();
        ordered.sort_by_key(|artifact| match artifact {
            TaskArtifact::Published { .. } => 0,
            TaskArtifact::Response { .. } => 1,
            TaskArtifact::Change { .. } => 2,
        });
        ordered
    }

    /// Whether the status of a task that waits for an answer has the question.
    fn has_question_in_status(&self) -> bool {
        true
    }

    /// Whether, with the extension, the text of a turn is repeated as an artifact at its end.
    fn repeats_response(&self) -> bool {
        false
    }

    // Streams.

    /// Whether the stream of an answer begins with the task.
    fn answer_starts_with_task(&self, _extension: Extension) -> bool {
        true
    }

    /// Whether a subscription without a position begins with the first event instead of the task as it is now.
    fn subscribes_from_start(&self) -> bool {
        false
    }

    /// Whether a task that is over can be subscribed to.
    fn follows_ended_tasks(&self) -> bool {
        true
    }

    // Other answers.

    fn card_kind(&self) -> CardKind {
        CardKind::A2a03
    }

    /// The result of a send.
    fn sent(&self, task: Value) -> Value {
        self.spelling().frame("task", task)
    }

    /// A direct answer without a task. None where every answer is a task.
    fn message(&self, session: &SessionId, message: &ChatMessage) -> Option<Value> {
        Some(self.spelling().message_frame(session, message))
    }

    /// A webhook without its secrets.
    fn push_config(&self, task: &TaskId, target: &PushTarget) -> Value {
        json!({ "taskId": task, "pushNotificationConfig": a2a::push_config(target) })
    }

    fn push_configs(&self, configs: Vec<Value>) -> Value {
        Value::Array(configs)
    }

    fn push_config_deleted(&self) -> Value {
        Value::Null
    }

    /// Whether a webhook gets each update. Otherwise it gets the whole task when its state changes.
    fn pushes_updates(&self) -> bool {
        false
    }

    /// The media type of a webhook's payload.
    fn push_media_type(&self) -> &'static str {
        "application/json"
    }

    /// Whether a webhook without an id replaces the task's earlier one.
    fn replaces_unnamed_push(&self) -> bool {
        true
    }

    /// Whether a rejected message becomes a rejected task. Otherwise its client gets an error.
    fn has_rejected_tasks(&self) -> bool {
        true
    }

    /// Whether clients give tasks their ids. Such a task cannot be written without its history, which has the id.
    fn has_client_task_ids(&self) -> bool {
        false
    }

    /// The id that the client gave a task. None: the task's own id.
    fn client_task_id<'a>(&self, _task: &'a TaskView) -> Option<&'a str> {
        None
    }

    fn commands(&self, custom: &CustomCommands) -> Value {
        json!(GetAllSlashCommandsResponse::all(custom))
    }

    /// Whether the answer to a slash command is its output. Otherwise it says whether the command was started.
    fn waits_for_commands(&self) -> bool {
        false
    }
}
