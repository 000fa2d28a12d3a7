//! How a model is asked to reason: Gemini 2.5 takes a budget of tokens, later models a level.

use loggia_core::Effort;
use serde_json::{Value, json};

use crate::protocol::ModelFacts;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Level,
    Budget,
}

/// What a request says about reasoning. None if nothing is known of the model: a model that does not
/// reason refuses the question.
pub fn config(facts: &ModelFacts, effort: Option<Effort>) -> Option<Value> {
    let kind = Kind::of(facts)?;
    let efforts = facts.efforts.clone().unwrap_or_else(|| kind.efforts(&facts.id));
    let effort = effort.and_then(|effort| nearest(&efforts, effort));
    let Some(effort) = effort else { return Some(json!({ "includeThoughts": true })) };
    Some(match (kind, effort) {
        (Kind::Level, effort) => json!({ "includeThoughts": true, "thinkingLevel": level(effort) }),
        // Thoughts cannot be asked for when there are none.
        (Kind::Budget, Effort::None) => json!({ "thinkingBudget": 0 }),
        (Kind::Budget, effort) => {
            json!({ "includeThoughts": true, "thinkingBudget": budget(effort) })
        }
    })
}

impl Kind {
    fn of(facts: &ModelFacts) -> Option<Self> {
        if facts.efforts.as_ref().is_some_and(Vec::is_empty) {
            return None;
        }
        match facts.thinking.as_deref() {
            Some("level") => Some(Kind::Level),
            Some("budget") => Some(Kind::Budget),
            _ => Self::of_name(&facts.id),
        }
    }

    pub fn of_name(id: &str) -> Option<Self> {
        let version = id.strip_prefix("models/").unwrap_or(id).strip_prefix("gemini-")?;
        if version.starts_with("2.5") {
            return Some(Kind::Budget);
        }
        let major: String = version.chars().take_while(char::is_ascii_digit).collect();
        major.parse::<u32>().is_ok_and(|major| major >= 3).then_some(Kind::Level)
    }

    pub fn name(self) -> &'static str {
        match self {
            Kind::Level => "level",
            Kind::Budget => "budget",
        }
    }

    /// The levels that a model with this name has. An unknown one has those that all of its kind accept.
    pub fn efforts(self, id: &str) -> Vec<Effort> {
        use Effort::{High, Low, Max, Medium, Minimal, None};
        match self {
            Kind::Level if id.contains("gemini-3-pro") => vec![Low, High],
            Kind::Level if id.contains("gemini-3-flash") => vec![Minimal, Low, Medium, High],
            Kind::Level => vec![Low, Medium, High],
            Kind::Budget if id.contains("flash") => vec![None, Minimal, Low, Medium, High],
            Kind::Budget => vec![Minimal, Low, Medium, High, Max],
        }
    }
}

/// The level that is the fewest steps away; of two, the higher.
fn nearest(efforts: &[Effort], wanted: Effort) -> Option<Effort> {
    let step = |effort: Effort| Effort::ALL.iter().position(|level| *level == effort);
    let distance = |effort: &Effort| step(*effort).unwrap_or(0).abs_diff(step(wanted).unwrap_or(0));
    efforts.iter().copied().min_by_key(|effort| (distance(effort), std::cmp::Reverse(*effort)))
}

fn level(effort: Effort) -> &'static str {
    match effort {
        Effort::None | Effort::Minimal => "MINIMAL",
        Effort::Low => "LOW",
        Effort::Medium => "MEDIUM",
        Effort::High | Effort::Xhigh | Effort::Max => "HIGH",
    }
}

/// Inside the limits of all models of 2.5, except the highest, which only the larger ones accept.
fn budget(effort: Effort) -> u32 {
    match effort {
        Effort::None => 0,
        Effort::Minimal => 512,
        Effort::Low => 1024,
        Effort::Medium => 8192,
        Effort::High => 24_576,
        Effort::Xhigh | Effort::Max => 32_768,
    }
}
