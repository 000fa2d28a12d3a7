//! Requests of clients of the extension: settings, confirmations, slash commands.
//!
//! The schemas are protocol buffers, whose JSON form has two spellings (`tool_call_id`, `toolCallId`). Both
//! are accepted; S1's is written. A confirmation with an unknown member is refused, because the member might
//! be meant to change what is approved.

use std::path::Path;

use loggia_core::{ApprovalId, CallId, ChoiceId, Edit, Question, Repository};
use serde_json::Value;

use super::{CODER_AGENT, URI, is_ours};
use crate::commands;
use crate::intent::{AgentSettings, Answers, Intent, RepositoryFields, RunSlash};
use crate::read::{Fields, Read, violation};

const PATH_LIMIT: usize = 4096;
const COMMAND_DEPTH: usize = 16;
/// The same as for the text of a message.
const ARGUMENTS_LIMIT: usize = 1024 * 1024;

/// One choice for one call: S1's `ToolCallConfirmation`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Confirmation {
    pub to: Question,
    pub choice: ChoiceId,
    pub edit: Option<Edit>,
    pub digest: Option<String>,
}

/// Whether a data part is meant as a confirmation, well-formed or not.
pub(crate) fn is_confirmation(data: &Value) -> bool {
    let members = ["tool_call_id", "toolCallId", "selected_option_id", "selectedOptionId"];
    data.as_object().is_some_and(|map| members.iter().any(|name| map.contains_key(*name)))
}

/// `metadata` is that of the message, with its path. It may have the correlation id and the digest, under
/// the extension's URI or next to it.
pub(crate) fn confirmation(
    at: &str,
    data: &Value,
    metadata: Option<(&str, &Value)>,
) -> Read<Confirmation> {
    const KNOWN: [&str; 12] = [
        "tool_call_id",
        "toolCallId",
        "selected_option_id",
        "selectedOptionId",
        "file_details",
        "fileDetails",
        "modified_details",
        "modifiedDetails",
        "correlation_id",
        "correlationId",
        "details_digest",
        "detailsDigest",
    ];
    let fields = Fields::of(at, data)?;
    if fields.names().any(|name| !KNOWN.contains(&name.as_str()) && name != "kind") {
        return Err(violation(at, "holds a member that a confirmation does not have"));
    }
    let call = either(&fields, "tool_call_id", "toolCallId")?
        .ok_or_else(|| fields.missing(missing_spelling(&fields, "tool_call_id", "toolCallId")))?;
    let choice = either(&fields, "selected_option_id", "selectedOptionId")?.ok_or_else(|| {
        fields.missing(missing_spelling(&fields, "selected_option_id", "selectedOptionId"))
    })?;
    let beside = metadata.map(|(at, metadata)| Fields::of(at, metadata)).transpose()?;
    let keyed = beside.as_ref().and_then(|beside| beside.names().find(|name| is_ours(name)));
    let keyed = match (&beside, keyed) {
        (Some(beside), Some(name)) => beside.object(name)?,
        (_, _) => None,
    };
    let named = |snake, camel| -> Read<Option<String>> {
        for place in [Some(&fields), keyed.as_ref(), beside.as_ref()].into_iter().flatten() {
            if let Some(given) = either(place, snake, camel)? {
                return Ok(Some(given.to_owned()));
            }
        }
        Ok(None)
    };
    let call = CallId::from(call);
    let to = match named("correlation_id", "correlationId")? {
        Some(approval) => Question::Both { approval: ApprovalId::from(approval.as_str()), call },
        None => Question::Call(call),
    };
    let choice = ChoiceId::from(choice);
    Ok(Confirmation {
        to,
        // A refusal changes nothing, whatever else it has.
        edit: if choice.proceeds() { edit(&fields)? } else { None },
        choice,
        digest: named("details_digest", "detailsDigest")?,
    })
}

/// New content for the file that was shown. The client cannot change the path.
fn edit(fields: &Fields<'_>) -> Read<Option<Edit>> {
    let nested = both(fields, "modified_details", "modifiedDetails")?;
    let direct = both(fields, "file_details", "fileDetails")?;
    let details = match (nested, direct) {
        (Some(_), Some(_)) => {
            let name = spelling(fields, "file_details", "fileDetails");
            return Err(violation(fields.path(name), "is duplicated"));
        }
        (Some(nested), None) => {
            let only = |name: &String| ["file_details", "fileDetails"].contains(&name.as_str());
            if !nested.names().all(only) {
                let at = fields.path(spelling(fields, "modified_details", "modifiedDetails"));
                return Err(violation(at, "may only contain file_details"));
            }
            both(&nested, "file_details", "fileDetails")?
        }
        (None, direct) => direct,
    };
    let Some(details) = details else { return Ok(None) };
    if !details.names().all(|name| name == "new_content" || name == "newContent") {
        let why = "may only contain new_content: the file stays the one shown";
        return Err(violation(details.at(), why));
    }
    let content = match details.text("new_content")? {
        Some(content) => Some(content),
        None => details.text("newContent")?,
    };
    let content = content
        .ok_or_else(|| details.missing(missing_spelling(fields, "new_content", "newContent")))?;
    Ok(Some(Edit::File { content: content.to_owned() }))
}

/// Settings in a message's metadata, under the extension's URI or in the shipped server's form.
pub(crate) fn settings(at: &str, metadata: Option<&Value>) -> Read<Option<AgentSettings>> {
    let Some(metadata) = metadata else { return Ok(None) };
    let fields = Fields::of(at, metadata)?;
    let keyed = fields.names().find(|name| is_ours(name)).cloned();
    for name in [keyed, Some(CODER_AGENT.to_owned())].into_iter().flatten() {
        let Some(value) = fields.get(&name) else { continue };
        // The path without the version that the client wrote.
        let at = match name == CODER_AGENT {
            true => format!("{at}.{CODER_AGENT}"),
            false => format!("{at}[{URI}]"),
        };
        if let Some(settings) = agent_settings(&Fields::of(at, value)?)? {
            return Ok(Some(settings));
        }
    }
    Ok(None)
}

/// Whether the client marks a message as a prompt (`"prompt": true` under the extension's URI) or as an
/// answer (`false`). Without the mark, the text of a message to a task may be an answer.
pub(crate) fn answers(at: &str, metadata: Option<&Value>) -> Read<Answers> {
    let Some(metadata) = metadata else { return Ok(Answers::Maybe) };
    let fields = Fields::of(at, metadata)?;
    let keyed = fields.names().find(|name| is_ours(name)).and_then(|name| fields.get(name));
    let Some(keyed) = keyed.filter(|keyed| keyed.is_object()) else { return Ok(Answers::Maybe) };
    match Fields::of(format!("{at}.settings"), keyed)?.flag("prompt")? {
        Some(true) => Ok(Answers::Never),
        Some(false) => Ok(Answers::Only),
        None => Ok(Answers::Maybe),
    }
}

pub(crate) fn agent_settings(fields: &Fields<'_>) -> Read<Option<AgentSettings>> {
    let workspace_path = workspace_path(fields)?;
    let repository = repository(fields)?;
    if workspace_path.is_some() && repository.is_some() {
        let other = spelling(fields, "workspace_path", "workspacePath");
        let why = format!("must not be given together with {other}: it is one or the other");
        return Err(violation(fields.path("repository"), why));
    }
    let mcp_servers = match both(fields, "mcp_servers", "mcpServers")? {
        None => None,
        Some(_) => fields.get("mcp_servers").or_else(|| fields.get("mcpServers")).cloned(),
    };
    let listed =
        ["allowed_tools", "allowedTools"].into_iter().find(|name| fields.get(name).is_some());
    let allowed_tools = listed.map(|name| fields.ids(name)).transpose()?;
    let auto_execute = match fields.flag("auto_execute")? {
        None => fields.flag("autoExecute")?,
        given => given,
    };
    let settings = AgentSettings {
        repository_fields: match &repository {
            Some(_) => RepositoryFields::below(&fields.path("repository"), "url", "revision"),
            None => RepositoryFields::default(),
        },
        workspace_path,
        mcp_servers,
        allowed_tools: allowed_tools.map(|tools| tools.into_iter().map(str::to_owned).collect()),
        auto_execute,
        model: fields.text("model")?.map(str::to_owned),
        effort: fields.text("effort")?.map(str::to_owned),
        repository,
        unattended: false,
    };
    Ok((settings != AgentSettings::default()).then_some(settings))
}

/// The metadata without the addresses of the client's tool servers, which may contain secrets: a prompt's
/// metadata goes into the log and to every reader.
pub(crate) fn without_servers(mut metadata: Value) -> Value {
    let keyed = metadata.as_object_mut().into_iter().flat_map(|map| map.iter_mut());
    let ours = keyed.filter(|(name, _)| *name == CODER_AGENT || is_ours(name));
    for settings in ours.filter_map(|(_, value)| value.as_object_mut()) {
        settings.retain(|name, _| !["mcp_servers", "mcpServers"].contains(&name.as_str()));
    }
    metadata
}

fn workspace_path(fields: &Fields<'_>) -> Read<Option<String>> {
    let name = spelling(fields, "workspace_path", "workspacePath");
    // Protocol buffers write an absent text as an empty one.
    let Some(path) = fields.text(name)?.filter(|path| !path.is_empty()) else { return Ok(None) };
    let at = || fields.path(name);
    if path.len() > PATH_LIMIT || path.chars().any(char::is_control) {
        return Err(violation(at(), "must be a path of at most 4096 bytes"));
    }
    match Path::new(path).is_absolute() {
        true => Ok(Some(path.to_owned())),
        false => Err(violation(at(), "must be an absolute path")),
    }
}

/// The repository to clone. The server decides whether it is allowed; the directory is checked after
/// cloning.
fn repository(fields: &Fields<'_>) -> Read<Option<Repository>> {
    let Some(fields) = fields.object("repository")? else { return Ok(None) };
    let directory = match fields.text("target_directory")? {
        None => fields.text("targetDirectory")?,
        given => given,
    };
    let repository = Repository {
        url: fields.text("url")?.ok_or_else(|| fields.missing("url"))?.to_owned(),
        revision: fields.owned_text("revision")?,
        shallow: fields.flag("shallow")?.unwrap_or(false),
        directory: directory.map(str::to_owned),
    };
    repository.address().map_err(|why| violation(fields.path("url"), why))?;
    repository.named_revision().map_err(|why| violation(fields.path("revision"), why))?;
    Ok(Some(repository))
}

/// `commands/get` and `command/execute`.
pub(crate) fn slash(method: &str, params: &Value) -> Read<Intent> {
    let fields = Fields::of_params(params)?;
    let session = either(&fields, "context_id", "contextId")?.map(Into::into);
    if method == commands::GET {
        return Ok(Intent::ListSlash { session });
    }
    let listed =
        ["command_path", "commandPath"].into_iter().find(|name| fields.get(name).is_some());
    let path = fields.ids(listed.unwrap_or("command_path"))?;
    if !(1..=COMMAND_DEPTH).contains(&path.len()) {
        return Err(violation(listed.unwrap_or("command_path"), "must name a command"));
    }
    let args = fields.owned_text("args")?.unwrap_or_default();
    if args.len() > ARGUMENTS_LIMIT {
        return Err(violation("args", format!("must have at most {ARGUMENTS_LIMIT} bytes")));
    }
    Ok(Intent::RunSlash(RunSlash {
        session,
        path: path.into_iter().map(str::to_owned).collect(),
        args,
        settings: settings("metadata", fields.metadata("metadata")?.as_ref())?,
    }))
}

/// The spelling that the client used for a member.
fn spelling<'n>(fields: &Fields<'_>, snake: &'n str, camel: &'n str) -> &'n str {
    match fields.get(snake) {
        None if fields.get(camel).is_some() => camel,
        Some(_) | None => snake,
    }
}

/// The spelling for a member that is missing: that of the client's other members.
fn missing_spelling<'n>(fields: &Fields<'_>, snake: &'n str, camel: &'n str) -> &'n str {
    let in_camel = fields.names().any(|name| name.bytes().any(|byte| byte.is_ascii_uppercase()));
    if in_camel { camel } else { snake }
}

fn either<'a>(fields: &Fields<'a>, snake: &str, camel: &str) -> Read<Option<&'a str>> {
    match fields.id(snake)? {
        None => fields.id(camel),
        given => Ok(given),
    }
}

fn both<'a>(fields: &Fields<'a>, snake: &str, camel: &str) -> Read<Option<Fields<'a>>> {
    match fields.object(snake)? {
        None => fields.object(camel),
        given => Ok(given),
    }
}
