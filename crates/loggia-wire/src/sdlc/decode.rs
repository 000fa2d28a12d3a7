//! Request bodies of the SDLC specification to intents.
//!
//! The specification gives the members of a confirmation and describes the other bodies in words only. So a prompt may
//! be a text, `{text}`, `{parts}` or a whole message, with settings beside it or inside it.

use loggia_core::{CallId, ChoiceId, Content, Edit, Part, Question, TaskChoice, TaskId};
use serde_json::{Map, Value};

use crate::a2a03;
use crate::coder;
use crate::devtool::decode::{agent_settings, answers, settings, without_servers};
use crate::dialect::View;
use crate::intent::{
    AgentSettings, Answer, DecodedRequest, Delivery, HistoryLength, Intent, OpenTask, Prompt,
    RunSlash,
};
use crate::jsonrpc::value;
use crate::read::{Fields, Read, violation};
use crate::send::{self, check_text};

/// The same as for the text of a message.
const ARGUMENTS_LIMIT: usize = 1024 * 1024;

/// `POST /tasks`. The body may be empty; otherwise it is the settings, as documented, or the shipped
/// server's `{agentSettings, contextId}`.
pub fn open_task(bytes: &[u8]) -> Read<OpenTask> {
    let body = body(bytes)?;
    let fields = Fields::of_body(&body)?;
    check_kind(&fields)?;
    let around = BESIDE.iter().find(|name| fields.get(name).is_some());
    let settings = match (around, SETTINGS.iter().find(|name| fields.get(name).is_some())) {
        (Some(around), Some(name)) => {
            let why = format!("stands beside {around}: settings may be in one place only");
            return Err(violation(fields.path(name), why));
        }
        (None, Some(_)) => Some(needed(&fields)?),
        (Some(around), None) => fields.object(around)?.map(|given| needed(&given)).transpose()?,
        (None, None) => None,
    };
    Ok(OpenTask {
        session: fields.id("contextId")?.map(Into::into),
        settings,
        profile: Some(coder::PROFILE.to_owned()),
    })
}

/// Members with settings, where these are not the body itself.
const BESIDE: [&str; 2] = ["agentSettings", "settings"];
/// The members of settings, `kind` included. A body with one of them is the settings.
const SETTINGS: [&str; 10] = [
    "kind",
    "workspacePath",
    "workspace_path",
    "autoExecute",
    "auto_execute",
    "allowedTools",
    "allowed_tools",
    "mcpServers",
    "mcp_servers",
    "repository",
];

/// Settings of a new task: they must name a workspace or a repository.
fn needed(fields: &Fields<'_>) -> Read<AgentSettings> {
    check_kind(fields)?;
    let settings = agent_settings(fields)?.unwrap_or_default();
    match settings.workspace_path.is_none() && settings.repository.is_none() {
        true => Err(fields.missing("workspacePath")),
        false => Ok(settings),
    }
}

fn check_kind(fields: &Fields<'_>) -> Read<()> {
    match fields.text("kind")? {
        None | Some("agent-settings") => Ok(()),
        Some(_) => Err(violation(fields.path("kind"), "must be agent-settings")),
    }
}

/// `POST /message/stream`: a prompt, an answer, or only a task to follow.
pub fn message(bytes: &[u8]) -> Read<Message> {
    let body = body(bytes)?;
    let fields = Fields::of_body(&body)?;
    let named = Named {
        session: fields.id("contextId")?.map(Into::into),
        task: fields.id("taskId")?.map(TaskId::from),
    };
    let given = ["userMessage", "message"].into_iter().find(|name| fields.get(name).is_some());
    let intent = match (given, named) {
        (None, Named { task: Some(task), .. }) => Intent::Subscribe { task },
        (None, Named { task: None, .. }) => return Err(fields.missing("userMessage")),
        (Some(given), named) => said(&fields, given, named)?,
    };
    let at = given.unwrap_or("userMessage");
    Ok(Message { asked: DecodedRequest { view: View::SDLC, intent }, at })
}

/// A request, and the member that holds its message.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    pub asked: DecodedRequest,
    pub at: &'static str,
}

struct Named {
    session: Option<loggia_core::SessionId>,
    task: Option<TaskId>,
}

fn said(fields: &Fields<'_>, name: &str, named: Named) -> Read<Intent> {
    let first = named.task.is_none() && named.session.is_none();
    let around = settings_beside(fields, first)?;
    if let Some(Value::String(text)) = fields.get(name) {
        let content = Content::text(text.as_str());
        return prompt(content, named, around, name);
    }
    let message = fields.object(name)?.ok_or_else(|| fields.missing(name))?;
    match message.text("kind")? {
        Some("tool-call-confirmation") => return confirmation(&message, named),
        None | Some("message" | "text-content" | "text" | "prompt" | "user-message") => {}
        Some(_) => {
            let why = "must be message, text-content or tool-call-confirmation";
            return Err(violation(message.path("kind"), why));
        }
    }
    if message.text("role")?.is_some_and(|role| role != "user") {
        return Err(violation(message.path("role"), "must be user in a message of a client"));
    }
    let parts = match (message.text("text")?, message.get("parts")) {
        (Some(text), None) => vec![Part::Text { text: text.to_owned() }],
        (None, Some(_)) => send::parts(&message, "parts", a2a03::decode::part)?,
        (None, None) => return Err(message.missing("text")),
        (Some(_), Some(_)) => {
            return Err(violation(message.path("text"), "and parts exclude each other"));
        }
    };
    let metadata = message.metadata("metadata")?;
    let inside = match settings_beside(&message, first)? {
        None => settings(&message.path("metadata"), metadata.as_ref())?,
        given => given,
    };
    let content = Content {
        parts,
        message: message.id("messageId")?.map(str::to_owned),
        metadata: metadata.map(without_servers),
        profile: None,
    };
    prompt(content, named, inside.or(around), name)
}

fn prompt(
    content: Content,
    named: Named,
    settings: Option<AgentSettings>,
    at: &str,
) -> Read<Intent> {
    check_text(at, &content.parts)?;
    let answers = answers(&format!("{at}.metadata"), content.metadata.as_ref())?;
    Ok(Intent::Prompt(Box::new(Prompt {
        session: named.session,
        task: named.task.map_or(TaskChoice::New, TaskChoice::Reopen),
        content,
        answers,
        settings,
        delivery: Delivery::Stream,
        push: None,
        history: HistoryLength::All,
        output_modes: Vec::new(),
        references: Vec::new(),
    })))
}

/// An unknown member is refused, because it might be meant to change what is approved.
fn confirmation(message: &Fields<'_>, named: Named) -> Read<Intent> {
    const KNOWN: [&str; 5] = ["kind", "toolCallId", "approved", "answer", "newContent"];
    if !message.names().all(|name| KNOWN.contains(&name.as_str())) {
        let why = "holds a member that a confirmation does not have";
        return Err(violation(message.at(), why));
    }
    let call = message.needed_id("toolCallId")?;
    let approved = message.flag("approved")?.ok_or_else(|| message.missing("approved"))?;
    let answer = message.owned_text("answer")?.map(|text| Edit::Text { text });
    let content = message.owned_text("newContent")?.map(|content| Edit::File { content });
    let (choice, edit) = match (approved, answer, content) {
        (false, _, _) => (ChoiceId::CANCEL, None),
        (true, Some(_), Some(_)) => {
            return Err(violation(message.path("answer"), "and newContent exclude each other"));
        }
        (true, Some(answer), None) => (ChoiceId::ANSWER, Some(answer)),
        (true, None, content) => (ChoiceId::PROCEED_ONCE, content),
    };
    Ok(Intent::Answer(Box::new(Answer {
        session: named.session,
        task: named.task,
        to: Question::Call(CallId::from(call)),
        choice: choice.into(),
        edit,
        digest: None,
        message: None,
        delivery: Delivery::Stream,
        history: HistoryLength::All,
    })))
}

/// `POST /executeCommand`: the command's full name, and its arguments as a list.
pub fn command(bytes: &[u8]) -> Read<RunSlash> {
    let body = body(bytes)?;
    let fields = Fields::of_body(&body)?;
    let path: Vec<String> = match fields.get("command") {
        Some(Value::String(name)) => name.split_whitespace().map(str::to_owned).collect(),
        _ => Vec::new(),
    };
    if path.is_empty() {
        return Err(violation("command", "must be the name of a command"));
    }
    let args = match fields.get("args") {
        None => Vec::new(),
        Some(Value::Array(_)) => fields.texts("args")?,
        Some(_) => return Err(violation("args", "must be an array of strings")),
    };
    let args = args.join(" ");
    if args.len() > ARGUMENTS_LIMIT {
        return Err(violation("args", format!("must have at most {ARGUMENTS_LIMIT} bytes")));
    }
    let session = fields.id("contextId")?.map(Into::into);
    let first = session.is_none();
    Ok(RunSlash { session, path, args, settings: settings_beside(&fields, first)? })
}

/// All settings of a request that makes a task; for a later request, the changes.
fn settings_beside(fields: &Fields<'_>, first: bool) -> Read<Option<AgentSettings>> {
    for name in BESIDE {
        match fields.object(name)? {
            Some(given) if first => return needed(&given).map(Some),
            Some(given) => {
                check_kind(&given)?;
                return agent_settings(&given);
            }
            None => {}
        }
    }
    Ok(None)
}

/// An absent body is an empty object.
fn body(bytes: &[u8]) -> Read<Value> {
    match bytes.trim_ascii().is_empty() {
        true => Ok(Value::Object(Map::new())),
        false => value(bytes),
    }
}
