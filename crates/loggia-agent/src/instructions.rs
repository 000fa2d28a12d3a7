//! The instructions of a request: how to work, for the family of the model.
//!
//! Not here: what differs from session to session (`notes`).

use loggia_core::ModelName;

use crate::memory::Memory;

const CLAUDE: &str =
    concat!(include_str!("instructions/common.md"), include_str!("instructions/claude.md"));
const GPT: &str =
    concat!(include_str!("instructions/common.md"), include_str!("instructions/gpt.md"));
const GEMINI: &str =
    concat!(include_str!("instructions/common.md"), include_str!("instructions/gemini.md"));
const OTHER: &str =
    concat!(include_str!("instructions/common.md"), include_str!("instructions/other.md"));

/// The instructions for this model.
pub fn for_model(model: &ModelName) -> &'static str {
    match Family::of(model) {
        Family::Claude => CLAUDE,
        Family::Gpt => GPT,
        Family::Gemini => GEMINI,
        Family::Other => OTHER,
    }
}

/// The same with the notes of the user and the workspace, for a model that does not keep a conversation.
pub fn with_memory(model: &ModelName, memory: &Memory) -> String {
    match memory.block() {
        Some(block) => format!("{}\n\n{block}", for_model(model)),
        None => for_model(model).to_owned(),
    }
}

/// Models that need the same remarks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    Claude,
    Gpt,
    Gemini,
    Other,
}

impl Family {
    /// By the model's own name, because a provider may offer the models of others; else by the provider.
    fn of(model: &ModelName) -> Self {
        let name = model.0.to_lowercase();
        let (providers, model) = name.rsplit_once('/').unwrap_or(("", &name));
        let contains = |part: &str| model.contains(part);
        if contains("claude") {
            Family::Claude
        } else if contains("gpt") || contains("codex") {
            Family::Gpt
        } else if contains("gemini") {
            Family::Gemini
        } else {
            match providers.split('/').next_back() {
                Some("anthropic") => Family::Claude,
                Some("openai") => Family::Gpt,
                _ => Family::Other,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::tool::{ToolConfig, builtin};

    const ALL: [&str; 4] = [CLAUDE, GPT, GEMINI, OTHER];

    #[test]
    fn a_family_is_chosen_by_the_name() {
        let cases = [
            ("anthropic/claude-opus-5-5", Family::Claude),
            ("openrouter/anthropic/claude-sonnet-5-5", Family::Claude),
            ("anthropic/next", Family::Claude),
            ("bedrock/eu.anthropic.claude-x", Family::Claude),
            ("openai/gpt-6-astra", Family::Gpt),
            ("azure/my-GPT-deployment", Family::Gpt),
            ("openai/o3", Family::Gpt),
            ("openrouter/openai/codex-x", Family::Gpt),
            ("gemini/gemini-3.8-flash", Family::Gemini),
            ("openrouter/google/gemini-4-argon", Family::Gemini),
            ("openrouter/google/gemma-4", Family::Other),
            ("ollama/qwen3-coder:30b", Family::Other),
            ("deepseek/deepseek-v4-pro", Family::Other),
            ("offline", Family::Other),
            ("", Family::Other),
        ];
        for (name, family) in cases {
            assert_eq!(Family::of(&ModelName(name.into())), family, "{name}");
        }
    }

    #[test]
    fn every_tool_is_named_and_every_named_tool_exists() {
        let tools = builtin(ToolConfig::default()).specs();
        let tools: BTreeSet<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
        // Other words in backticks are programs and an example of a path.
        let others = BTreeSet::from(["cat", "grep", "sed", "src/main.rs:42"]);
        for text in ALL {
            let named: BTreeSet<&str> = text.split('`').skip(1).step_by(2).collect();
            assert_eq!(text.matches('`').count() % 2, 0);
            let known: BTreeSet<&str> = tools.union(&others).copied().collect();
            assert_eq!(named.difference(&known).collect::<Vec<_>>(), Vec::<&&str>::new());
            assert_eq!(tools.difference(&named).collect::<Vec<_>>(), Vec::<&&str>::new());
        }
    }

    #[test]
    fn the_texts_are_short_and_fixed() {
        for text in ALL {
            assert!((6_000..10_000).contains(&text.len()), "{}", text.len());
            assert!(text.is_ascii(), "a typographic character costs tokens");
            let words = || text.split_whitespace();
            assert!(!words().any(|word| word.starts_with(['/', '~'])), "an absolute path");
            assert!(!text.contains("20"), "a date");
            // Some vendors refuse requests for the model's reasoning.
            for word in ["reasoning", "think", "step by step", "chain of thought"] {
                assert!(!text.to_lowercase().contains(word), "{word}");
            }
            assert!(!text.contains("{") && !text.contains("$"), "a placeholder");
        }
    }
}
