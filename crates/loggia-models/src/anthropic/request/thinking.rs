//! How the model is asked to reason: its kind of thinking and its effort.

use loggia_core::Effort;
use serde::Serialize;

use crate::protocol::{ModelContext, ModelFacts};
use crate::request::{Message, ModelRequest};

/// The smallest budget that the vendor accepts.
const SMALLEST_BUDGET: u64 = 1024;

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Thinking {
    Adaptive {
        display: Display,
    },
    /// The vendor turns thinking off, and sends the text between calls as thoughts. It has no `display`.
    BetweenTools,
    Enabled {
        budget_tokens: u64,
        display: Display,
    },
    Disabled,
}

/// Without it, newer models send thoughts without their text.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Display {
    Summarized,
}

#[derive(Serialize)]
pub struct OutputConfig {
    effort: &'static str,
}

/// None if nothing is known about the model, which then uses its default.
pub fn thinking(
    model: &ModelContext<'_>,
    request: &ModelRequest,
    max_tokens: u64,
) -> Option<Thinking> {
    let off = level(model.facts, request.effort) == Some(Effort::None);
    let display = Display::Summarized;
    match model.facts.thinking.as_deref()? {
        "adaptive" if off => Some(Thinking::Disabled),
        "adaptive" => Some(Thinking::Adaptive { display }),
        "between_tools" => Some(Thinking::BetweenTools),
        "budget" => {
            let budget_tokens = budget(request.effort)?.min(max_tokens / 2);
            let possible =
                budget_tokens >= SMALLEST_BUDGET && may_begin_with_thoughts(model, request);
            possible.then_some(Thinking::Enabled { budget_tokens, display })
        }
        _ => None,
    }
}

/// A budget says the effort already, and most models with one have no other effort.
pub fn output_config(facts: &ModelFacts, wanted: Option<Effort>) -> Option<OutputConfig> {
    if facts.thinking.as_deref() == Some("budget") {
        return None;
    }
    let level = level(facts, wanted).filter(|level| *level != Effort::None)?;
    Some(OutputConfig { effort: level.name() })
}

/// The level nearest to the wanted one, or the lower of two. `none` only if it is wanted.
fn level(facts: &ModelFacts, wanted: Option<Effort>) -> Option<Effort> {
    let (wanted, offered) = (wanted?, facts.efforts.as_ref()?);
    let offered = offered.iter().copied();
    let offered = offered.filter(|level| *level == wanted || *level != Effort::None);
    offered.min_by_key(|level| ((*level as u8).abs_diff(wanted as u8), *level))
}

fn budget(effort: Option<Effort>) -> Option<u64> {
    match effort.unwrap_or(Effort::Medium) {
        Effort::None => None,
        Effort::Minimal => Some(SMALLEST_BUDGET),
        Effort::Low => Some(4096),
        Effort::Medium => Some(8192),
        Effort::High => Some(16_384),
        Effort::Xhigh => Some(24_576),
        Effort::Max => Some(32_768),
    }
}

/// Models with a budget want each reply of a running turn to begin with its thoughts. The replies of
/// another model have none, so thinking waits for the next turn.
fn may_begin_with_thoughts(model: &ModelContext<'_>, request: &ModelRequest) -> bool {
    let running = request.messages.iter().rev();
    let mut running = running.take_while(|message| !matches!(message, Message::User(_)));
    running.all(|message| match message {
        Message::Reply(reply) => reply.items_of(model.name).is_some(),
        Message::Summary(_) | Message::User(_) => true,
    })
}
