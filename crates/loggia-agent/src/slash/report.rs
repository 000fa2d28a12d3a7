//! `/about`, `/tools` and `/stats`: reports of the session, the tools and the usage.

use loggia_core::{Access, Prices, Stats};
use loggia_session::{Turn, TurnContext, TurnOver};

use super::say;
use crate::compaction::BYTES_PER_TOKEN;
use crate::instructions;
use crate::native::{self, NativeAgent};
use crate::notes::workspace_name;
use crate::tool::Toolbox;

pub fn about(context: &TurnContext) -> String {
    let mut lines = vec![
        format!("- Loggia {}", env!("CARGO_PKG_VERSION")),
        format!("- model: {}", context.settings.model),
        format!("- mode: {}", context.settings.approvals()),
        format!("- workspace: {}", workspace_name(context)),
        format!("- session: {}", context.session),
    ];
    lines.extend(context.name.as_ref().map(|name| format!("- name: {name}")));
    lines.join("\n")
}

pub fn tools(tools: &Toolbox) -> String {
    let lines: Vec<String> = tools
        .specs()
        .iter()
        .map(|spec| {
            format!("- `{}` ({}): {}", spec.name, describe_access(spec.access), spec.description)
        })
        .collect();
    if lines.is_empty() {
        "There are no tools in this session.".to_owned()
    } else {
        lines.join("\n")
    }
}

fn describe_access(access: Access) -> &'static str {
    match access {
        Access::Read => "reads",
        Access::Session => "changes the session only",
        Access::Edit => "edits files",
        Access::Execute => "runs a program",
        Access::Ask => "asks you",
        Access::Other => "does something else",
    }
}

pub async fn stats(agent: &NativeAgent, turn: &Turn) -> Result<(), TurnOver> {
    let model = agent.open_model(turn).await?;
    let conversation = native::conversation(turn, model.as_ref()).await?;
    let surroundings = agent.surroundings(turn, &agent.open_workspace(turn)?).await?;
    let instructions = instructions::with_memory(&model.name(), &surroundings.memory).len();
    let bytes = instructions + conversation.size();
    let summary = match conversation.summary() {
        Some(_) => ", a summary before them",
        None => "",
    };
    let context = format!(
        "- context: {bytes} bytes, about {} tokens (earlier turns: {}{summary})",
        (bytes as u64).div_ceil(BYTES_PER_TOKEN),
        conversation.turns(),
    );
    let stats = &turn.context().stats;
    let mut lines = vec![counted(stats)];
    lines.extend(cost_lines(stats, agent.prices()));
    lines.push(context);
    say(turn, lines.join("\n")).await
}

/// The cost of each model that has a price, and the total if each has one.
fn cost_lines(stats: &Stats, prices: &Prices) -> Vec<String> {
    let priced = stats.by_model.spending().filter_map(|(model, usage)| {
        let cost = prices.of(model, usage)?;
        let (input, output) = (usage.input_tokens, usage.output_tokens);
        Some(format!("- cost of {model}: {} ({input} in, {output} out)", prices.shown(cost)))
    });
    let mut lines: Vec<String> = priced.collect();
    if let (Some(total), true) = (prices.total(&stats.by_model), lines.len() > 1) {
        lines.push(format!("- cost of all: {}", prices.shown(total)));
    }
    let missing =
        stats.by_model.spending().filter(|(model, usage)| prices.of(model, usage).is_none());
    let missing: Vec<&str> = missing.map(|(model, _)| model).collect();
    if !lines.is_empty() && !missing.is_empty() {
        lines.push(format!("- without a price: {}", missing.join(", ")));
    }
    lines
}

fn counted(stats: &Stats) -> String {
    let lines = [
        format!(
            "- turns: {}, including this one ({} failed, {} cancelled)",
            stats.turns, stats.failed, stats.cancelled
        ),
        format!(
            "- calls: {} ({} succeeded, {} failed, {} refused or stopped)",
            stats.calls, stats.calls_succeeded, stats.calls_failed, stats.calls_cancelled
        ),
        format!("- questions asked: {}", stats.questions),
        format!(
            "- tokens: {} in ({} of them cached), {} out, {} thought",
            stats.usage.input_tokens,
            stats.usage.cached_tokens,
            stats.usage.output_tokens,
            stats.usage.thought_tokens
        ),
        format!("- time in turns: {}", duration(stats.working)),
        format!("- compactions, including clears: {}", stats.compactions),
    ];
    lines.join("\n")
}

fn duration(millis: u64) -> String {
    let seconds = millis / 1000;
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds}.{} s", millis % 1000 / 100),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_readable() {
        let cases =
            [(0, "0.0 s"), (1_250, "1.2 s"), (61_000, "1 min 1 s"), (3_720_000, "1 h 2 min")];
        for (millis, expected) in cases {
            assert_eq!(duration(millis), expected);
        }
    }
}
