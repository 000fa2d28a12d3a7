//! `publish_artifact`: a named result for every client of the session.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures::future::BoxFuture;
use loggia_core::{Access, Artifact, Output, Part};
use loggia_session::Permit;
use serde::Deserialize;
use serde_json::Value;

use super::input::{self, Field, Kind, invalid};
use super::text::counted;
use super::{Preview, Tool, ToolError, ToolSpec, reading};
use crate::workspace::{Workspace, shown};

/// Of one chunk; it goes into the log.
const LARGEST: u64 = 1024 * 1024;
const LONGEST_NAME: usize = 256;

const FIELDS: &[Field] = &[
    Field::required(
        "name",
        Kind::Text,
        "The artifact's name; chunks with one name belong together.",
    ),
    Field::optional("text", Kind::Text, "The content, as text."),
    Field::optional("path", Kind::Text, "The content, as a file of the workspace."),
    Field::optional("data", Kind::Any, "The content, as structured data."),
    Field::optional("url", Kind::Text, "Where the content is, as an http or https address."),
    Field::optional(
        "media_type",
        Kind::Text,
        "Such as `image/png`; guessed from the name unless told.",
    ),
    Field::optional("append", Kind::Flag, "Adds to what was published under this name before."),
    Field::optional("last", Kind::Flag, "Nothing will be added any more; true unless told."),
];

#[derive(Deserialize)]
struct Input {
    name: String,
    text: Option<String>,
    path: Option<String>,
    data: Option<Value>,
    url: Option<String>,
    media_type: Option<String>,
    #[serde(default)]
    append: bool,
    last: Option<bool>,
}

pub(super) struct PublishArtifact;

impl Tool for PublishArtifact {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "publish_artifact".into(),
            description: "Publishes a result under a name: a text, a file of the workspace, \
                          structured data, or an address. Exactly one of the four."
                .into(),
            parameters: input::schema(FIELDS),
            access: Access::Session,
        }
    }

    fn preview<'a>(
        &'a self,
        input: &'a Value,
        workspace: &'a Arc<Workspace>,
    ) -> BoxFuture<'a, Result<Preview, ToolError>> {
        Box::pin(async move {
            let input = checked(input)?;
            if let Some(path) = &input.path {
                workspace.locate(path)?;
            }
            Ok(Preview::plain(format!("publish {}", shown(&input.name))))
        })
    }

    fn run<'a>(
        &'a self,
        permit: &'a mut Permit,
        workspace: &'a Arc<Workspace>,
    ) -> BoxFuture<'a, Result<Output, ToolError>> {
        Box::pin(async move {
            let input = checked(permit.input())?;
            let workspace = Arc::clone(workspace);
            reading(permit.stop(), move || publish(&workspace, input)).await
        })
    }
}

fn checked(input: &Value) -> Result<Input, ToolError> {
    let input: Input = input::read(FIELDS, input)?;
    if input.name.trim().is_empty() || input.name.len() > LONGEST_NAME {
        return Err(invalid(format!("the field `name` must have 1 to {LONGEST_NAME} bytes")));
    }
    let Input { text, path, data, url, .. } = &input;
    let given = [text.is_some(), path.is_some(), data.is_some(), url.is_some()];
    if given.into_iter().filter(|given| *given).count() != 1 {
        return Err(invalid("give exactly one of the fields `text`, `path`, `data` and `url`"));
    }
    if url.as_deref().is_some_and(|url| !is_web_address(url)) {
        let what = "an http or https address without spaces, of at most 2048 bytes";
        return Err(invalid(format!("the field `url` must be {what}")));
    }
    Ok(input)
}

fn publish(workspace: &Workspace, input: Input) -> Result<Output, ToolError> {
    let Input { name, text, path, data, url, media_type, append, last } = input;
    let (part, size) = match (text, path, data) {
        (None, None, None) if url.is_some() => {
            let media_type = media_type.or_else(|| guessed(&name).map(str::to_owned));
            (Part::File { name: Some(name.clone()), media_type, base64: None, uri: url }, 0)
        }
        (Some(text), ..) => (text_part(&name, media_type, &text), text.len()),
        (None, Some(path), _) => {
            let place = workspace.locate(&path)?;
            let bytes = workspace.open_file(&place)?.read_whole(&place, LARGEST)?;
            let media_type = media_type.or_else(|| guessed(place.as_str()).map(str::to_owned));
            (file_part(&name, media_type, &bytes), bytes.len())
        }
        (None, None, data) => {
            let data = data.unwrap_or_default();
            let size = data.to_string().len();
            (Part::Data { data }, size)
        }
    };
    if size as u64 > LARGEST {
        let message =
            format!("`{}` has {size} bytes, at most {LARGEST} fit: append chunks", shown(&name));
        return Err(ToolError::new("too_large", message));
    }
    let what = match &part {
        Part::File { uri: Some(_), .. } => "an address".to_owned(),
        Part::Text { .. } | Part::Data { .. } | Part::File { .. } => counted(size, "byte"),
    };
    let words = format!("published {} ({what})", shown(&name));
    let artifact = Artifact {
        // The name is the id: that is what makes chunks of one artifact find each other.
        id: name.clone(),
        name,
        parts: vec![part],
        append,
        last: last.unwrap_or(true),
    };
    Ok(Output { artifact: Some(artifact), ..Output::text(words) })
}

/// Something that a client can open, and nothing that runs or reads a file when it does.
fn is_web_address(url: &str) -> bool {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    let host = rest.is_some_and(|rest| rest.starts_with(|first: char| first.is_alphanumeric()));
    let plain = !url.contains(|letter: char| letter.is_whitespace() || letter.is_control());
    host && plain && url.len() <= 2048
}

/// Text stays readable for every client; only what claims to be something else becomes a file.
fn text_part(name: &str, media_type: Option<String>, text: &str) -> Part {
    match media_type {
        Some(media_type) if !media_type.starts_with("text/") => {
            file_part(name, Some(media_type), text.as_bytes())
        }
        Some(_) | None => Part::Text { text: text.to_owned() },
    }
}

fn file_part(name: &str, media_type: Option<String>, bytes: &[u8]) -> Part {
    Part::File {
        name: Some(name.to_owned()),
        media_type,
        base64: Some(STANDARD.encode(bytes)),
        uri: None,
    }
}

fn guessed(path: &str) -> Option<&'static str> {
    let (_, ending) = path.rsplit_once('.')?;
    Some(match ending.to_ascii_lowercase().as_str() {
        "txt" | "log" | "rs" | "py" | "sh" | "toml" | "yaml" | "yml" | "diff" | "patch" => {
            "text/plain"
        }
        "md" => "text/markdown",
        "html" | "htm" => "text/html",
        "css" => "text/css",
        "csv" => "text/csv",
        "js" | "mjs" => "text/javascript",
        "json" => "application/json",
        "pdf" => "application/pdf",
        "zip" => "application/zip",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "svg" => "image/svg+xml",
        _ => return None,
    })
}
