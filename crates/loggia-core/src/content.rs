//! The content of a prompt: text, files, structured data. Numbers in data keep their digits.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Content {
    pub parts: Vec<Part>,
    /// The id that the client gave its message, returned to it. Not an idempotency key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Value>,
    /// The protocol profile of the client, for readers of the task that name none. Only `loggia-wire`
    /// interprets it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
}

/// Reads a value that is present, null included, as `Some`.
pub(crate) fn present<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(value).map(Some)
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Part {
    Text {
        text: String,
    },
    /// Inline bytes (base64) or an address, never both; the decoder checks that.
    File {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        media_type: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        base64: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        uri: Option<String>,
    },
    Data {
        data: Value,
    },
}

impl Content {
    pub fn text(text: impl Into<String>) -> Self {
        Self { parts: vec![Part::Text { text: text.into() }], ..Self::default() }
    }

    /// The content for people: the texts, and a placeholder for every other part.
    pub fn shown(&self) -> String {
        let shown: Vec<String> = self.parts.iter().map(Part::shown).collect();
        shown.join("\n")
    }

    /// All text parts, one after the other, separated by newlines.
    pub fn to_text(&self) -> String {
        let texts: Vec<&str> = self
            .parts
            .iter()
            .filter_map(|part| match part {
                Part::Text { text } => Some(text.as_str()),
                Part::File { .. } | Part::Data { .. } => None,
            })
            .collect();
        texts.join("\n")
    }
}

impl Part {
    fn shown(&self) -> String {
        match self {
            Part::Text { text } => text.clone(),
            Part::File { name, media_type, uri, .. } => {
                let name = name.as_deref().or(uri.as_deref()).unwrap_or("without a name");
                let kind = media_type.as_ref().map_or_else(String::new, |kind| format!(", {kind}"));
                format!("[file {name}{kind}]")
            }
            Part::Data { .. } => "[data]".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_data_are_shown_as_placeholders() {
        let file = |name: Option<&str>, media_type: Option<&str>, uri: Option<&str>| Part::File {
            name: name.map(str::to_owned),
            media_type: media_type.map(str::to_owned),
            base64: None,
            uri: uri.map(str::to_owned),
        };
        let parts = vec![
            Part::Text { text: "look".into() },
            file(Some("a.png"), Some("image/png"), None),
            file(None, None, Some("https://x.example/b")),
            file(None, Some("text/plain"), None),
            Part::Data { data: Value::Null },
        ];
        let content = Content { parts, ..Content::default() };
        let wanted = "look\n[file a.png, image/png]\n[file https://x.example/b]\n\
                      [file without a name, text/plain]\n[data]";
        assert_eq!(content.shown(), wanted);
        assert_eq!(content.to_text(), "look");
    }
}
