//! The list of models. Gateways list only the names.

use std::collections::BTreeMap;

use loggia_core::Effort;
use serde::Deserialize;

use crate::protocol::ModelFacts;

#[derive(Deserialize)]
struct Page {
    data: Vec<Listed>,
}

#[derive(Deserialize)]
struct Listed {
    id: String,
    #[serde(default)]
    lifecycle: Option<String>,
    #[serde(default)]
    max_input_tokens: Option<u64>,
    #[serde(default)]
    max_tokens: Option<u64>,
    #[serde(default)]
    capabilities: Option<Capabilities>,
}

#[derive(Deserialize)]
struct Capabilities {
    #[serde(default)]
    effort: Option<BTreeMap<String, Support>>,
    #[serde(default)]
    thinking: Option<Thinking>,
}

#[derive(Deserialize)]
struct Thinking {
    #[serde(default)]
    types: BTreeMap<String, Support>,
}

/// `{"supported": true}`. The field `supported` of a group is a plain boolean.
#[derive(Deserialize)]
#[serde(untagged)]
enum Support {
    Group(#[expect(dead_code, reason = "only told apart from the other forms")] bool),
    One { supported: bool },
    Other(serde::de::IgnoredAny),
}

pub fn models(body: &str) -> Result<Vec<ModelFacts>, String> {
    let page: Page = serde_json::from_str(body).map_err(|error| error.to_string())?;
    let offered = page.data.into_iter();
    let offered = offered.filter(|listed| listed.lifecycle.as_deref() != Some("retired"));
    Ok(offered.map(facts).collect())
}

fn facts(listed: Listed) -> ModelFacts {
    let Listed { id, max_input_tokens, max_tokens, capabilities, .. } = listed;
    let (effort, types) = match capabilities {
        Some(Capabilities { effort, thinking }) => (effort, thinking.map(|has| has.types)),
        None => (None, None),
    };
    let kind = types.as_ref().map(kind);
    let may_be_off = types.as_ref().is_some_and(|types| has(types, "disabled"));
    let efforts = effort.map(|levels| {
        let offered = Effort::ALL.into_iter().filter(|effort| match effort {
            Effort::None => may_be_off,
            // Each level is a budget.
            _ => kind == Some("budget") || has(&levels, effort.name()),
        });
        offered.collect()
    });
    ModelFacts {
        id,
        window: max_input_tokens,
        output: max_tokens,
        efforts,
        thinking: kind.map(str::to_owned),
        price: None,
    }
}

fn has(support: &BTreeMap<String, Support>, name: &str) -> bool {
    matches!(support.get(name), Some(Support::One { supported: true }))
}

/// `between_tools` comes last: it turns thinking off, and only shows the text between calls as thoughts.
fn kind(types: &BTreeMap<String, Support>) -> &'static str {
    match () {
        () if has(types, "adaptive") => "adaptive",
        () if has(types, "enabled") => "budget",
        () if has(types, "between_tools") => "between_tools",
        () => "none",
    }
}
