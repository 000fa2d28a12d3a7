//! `publish_artifact`: a named result for every client of the session.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use loggia_core::{Access, Artifact, Output, Part};
use serde_json::Value;

use super::input::{input, invalid};
use super::text::counted;
use super::typed::{Call, TypedTool};
use super::{Preview, ToolError, ToolResult};
use crate::workspace::{Workspace, shown};

/// Bytes of one chunk. It is stored in the log.
const LARGEST: u64 = 1024 * 1024;
const LONGEST_NAME: usize = 256;

input! {
    pub(super) struct Input {
        /// The artifact's name. Chunks with the same name belong together.
        name: String,
        /// The content, as text.
        text: Option<String>,
        /// The content, as a file of the workspace.
        path: Option<String>,
        /// The content, as structured data.
        data: Option<Value>,
        /// The http or https address of the content.
        url: Option<String>,
        /// A media type such as `image/png`. Default: guessed from the name.
        media_type: Option<String>,
        /// Whether to add to the artifact that was published under this name. Default: false.
        append: Option<bool>,
        /// Whether this is the last chunk. Default: true.
        last: Option<bool>,
    }
}

impl Input {
    fn check(&self) -> ToolResult<()> {
        let Self { name, text, path, data, url, .. } = self;
        if name.trim().is_empty() || name.len() > LONGEST_NAME {
            return Err(invalid(format!("the field `name` must have 1 to {LONGEST_NAME} bytes")));
        }
        let given = [text.is_some(), path.is_some(), data.is_some(), url.is_some()];
        if given.into_iter().filter(|given| *given).count() != 1 {
            return Err(invalid("give exactly one of the fields `text`, `path`, `data` and `url`"));
        }
        if url.as_deref().is_some_and(|url| !is_web_address(url)) {
            let expected = "an http or https address without spaces, of at most 2048 bytes";
            return Err(invalid(format!("the field `url` must be {expected}")));
        }
        Ok(())
    }
}

pub(super) struct PublishArtifact;

impl TypedTool for PublishArtifact {
    const NAME: &'static str = "publish_artifact";
    const DESCRIPTION: &'static str = "Publishes a result under a name: a text, a file of the \
        workspace, structured data, or an address. Give exactly one of the four.";
    const ACCESS: Access = Access::Session;
    type Input = Input;

    async fn preview(&self, input: Input, workspace: &Arc<Workspace>) -> ToolResult<Preview> {
        input.check()?;
        if let Some(path) = &input.path {
            workspace.locate(path)?;
        }
        Ok(Preview::plain(format!("publish {}", shown(&input.name))))
    }

    async fn run(&self, input: Input, call: Call<'_>) -> ToolResult<Output> {
        input.check()?;
        call.read(move |workspace| publish(workspace, input)).await
    }
}

fn publish(workspace: &Workspace, input: Input) -> ToolResult<Output> {
    let Input { name, text, path, data, url, media_type, append, last } = input;
    let (part, size) = match (text, path, data) {
        (None, None, None) if url.is_some() => {
            let media_type = media_type.or_else(|| guess_media_type(&name).map(str::to_owned));
            (Part::File { name: Some(name.clone()), media_type, base64: None, uri: url }, 0)
        }
        (Some(text), ..) => (text_part(&name, media_type, &text), text.len()),
        (None, Some(path), _) => {
            let path = workspace.locate(&path)?;
            let bytes = workspace.open_file(&path)?.read_whole(&path, LARGEST)?;
            let media_type =
                media_type.or_else(|| guess_media_type(path.as_str()).map(str::to_owned));
            (file_part(&name, media_type, &bytes), bytes.len())
        }
        (None, None, data) => {
            let data = data.unwrap_or_default();
            let size = data.to_string().len();
            (Part::Data { data }, size)
        }
    };
    if size as u64 > LARGEST {
        let message = format!(
            "`{}` has {size} bytes; the limit of one chunk is {LARGEST}: append chunks",
            shown(&name)
        );
        return Err(ToolError::new("too_large", message));
    }
    let size = match &part {
        Part::File { uri: Some(_), .. } => "an address".to_owned(),
        Part::Text { .. } | Part::Data { .. } | Part::File { .. } => counted(size, "byte"),
    };
    let words = format!("published {} ({size})", shown(&name));
    let artifact = Artifact {
        // The name is the id, so that chunks of one artifact belong together.
        id: name.clone(),
        name,
        parts: vec![part],
        append: append.unwrap_or_default(),
        last: last.unwrap_or(true),
    };
    Ok(Output { artifact: Some(artifact), ..Output::text(words) })
}

/// An address that a client can open without running a program or reading a local file.
fn is_web_address(url: &str) -> bool {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    let host = rest.is_some_and(|rest| rest.starts_with(|first: char| first.is_alphanumeric()));
    let plain = !url.contains(|letter: char| letter.is_whitespace() || letter.is_control());
    host && plain && url.len() <= 2048
}

/// Text stays a text part, which every client can show, unless its media type says otherwise.
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

fn guess_media_type(path: &str) -> Option<&'static str> {
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
