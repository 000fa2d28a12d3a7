//! The status line (model, mode, cost, clients) and the activity line above the composer.

use loggia_core::Usage;
use ratatui::text::{Line, Span};

use crate::app::Model;
use crate::cell::SPINNER;
use crate::composer::vim::Vim;
use crate::safe;
use crate::uptime::{Uptime, format_duration};

/// Maximum number of client names before a count.
const NAMES: usize = 3;

/// Parts in order of importance; those that do not fit are dropped from the end.
pub fn line(model: &Model, width: u16, now: Uptime) -> Line<'static> {
    let dim = model.theme.dim;
    if model.leaving(now) {
        return Line::from(Span::styled("Ctrl-C again to leave", dim));
    }
    if !model.connection_problem.is_empty() {
        let problem = safe::one_line(&model.connection_problem).into_owned();
        return crate::wrap::cut(&[Span::styled(problem, model.theme.warning)], width.into());
    }
    if model.composer.is_shell() {
        let mode = model.composer.vim.as_ref().map_or_else(String::new, |vim| vim.shown() + " · ");
        let text =
            format!("{mode}Enter runs this line in the workspace's shell, without a question");
        return crate::wrap::cut(&[Span::styled(text, dim)], width.into());
    }
    let mut text = String::new();
    for part in parts(model) {
        let next = if text.is_empty() { part } else { format!("{text} · {part}") };
        if crate::wrap::width(&next) > usize::from(width) {
            break;
        }
        text = next;
    }
    Line::from(Span::styled(text, dim))
}

fn parts(model: &Model) -> Vec<String> {
    let mut parts: Vec<String> = model.composer.vim.iter().map(Vim::shown).collect();
    if let Some(settings) = &model.facts.settings {
        parts.push(settings.approvals());
        parts.push(safe::one_line(&settings.model.0).into_owned());
    }
    parts.extend(model.facts.name.as_ref().map(|name| safe::one_line(name).into_owned()));
    parts.extend(context(model.facts.context, model.facts.window));
    if model.facts.used != Usage::default() {
        let used = &model.facts.used;
        parts.push(format!("{} in, {} out", count(used.input_tokens), count(used.output_tokens)));
    }
    // If a price is missing, any total would be wrong.
    if let Some(cost) = model.prices.total(&model.facts.by_model) {
        parts.push(safe::one_line(&model.prices.shown(cost)).into_owned());
    }
    if !model.present.is_empty() {
        let names = model.present.iter().take(NAMES);
        let names: Vec<String> = names.map(|one| safe::one_line(&one.name).into_owned()).collect();
        let more = model.present.len().saturating_sub(NAMES);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        parts.push(format!("with {}{more}", names.join(", ")));
    }
    parts.push("? help".to_owned());
    parts
}

/// How full the context is; None if its window is unknown.
fn context(held: u64, window: Option<u64>) -> Option<String> {
    match (held, window) {
        (0, _) => None,
        (held, None | Some(0)) => Some(format!("context {}", count(held))),
        (held, Some(window)) => {
            let percent = u128::from(held) * 100 / u128::from(window);
            Some(format!("context {} of {} ({percent}%)", count(held), count(window)))
        }
    }
}

/// The spinner and the running time; None while nothing runs.
pub fn activity(model: &Model, now: Uptime) -> Option<Line<'static>> {
    let elapsed = model.elapsed(now)?;
    let turn = model.frame(now) % SPINNER.len();
    let dim = |text: String| Line::from(Span::styled(text, model.theme.dim));
    let text = match model.questions.open().len() {
        0 => {
            return Some(dim(format!(
                "{} working · {} · Esc interrupts",
                SPINNER.get(turn)?,
                format_duration(elapsed)
            )));
        }
        1 => format!("? waiting for an answer · {}", format_duration(elapsed)),
        more => format!("? {more} questions are open · {}", format_duration(elapsed)),
    };
    let left = model
        .left(now)
        .map(|(then, left)| format!(" · {} in {}", then.done(), format_duration(left)));
    Some(dim(text + &left.unwrap_or_default()))
}

/// `950`, `1.2k`, `34k`, `1.5M`.
pub fn count(number: u64) -> String {
    match number {
        0..1_000 => number.to_string(),
        1_000..10_000 => format!("{}.{}k", number / 1_000, number % 1_000 / 100),
        10_000..1_000_000 => format!("{}k", number / 1_000),
        _ => format!("{}.{}M", number / 1_000_000, number % 1_000_000 / 100_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_meter_shows_what_is_known() {
        let cases = [
            (0, None, None),
            (0, Some(200_000), None),
            (950, None, Some("context 950")),
            (34_000, Some(200_000), Some("context 34k of 200k (17%)")),
            (250_000, Some(200_000), Some("context 250k of 200k (125%)")),
            (5, Some(0), Some("context 5")),
            (u64::MAX, Some(1), Some("context 18446744073709.5M of 1 (1844674407370955161500%)")),
        ];
        for (held, window, wanted) in cases {
            assert_eq!(context(held, window).as_deref(), wanted, "{held} {window:?}");
        }
    }

    #[test]
    fn counts_are_short() {
        let cases = [
            (0, "0"),
            (999, "999"),
            (1_000, "1.0k"),
            (1_290, "1.2k"),
            (34_567, "34k"),
            (1_500_000, "1.5M"),
        ];
        for (number, wanted) in cases {
            assert_eq!(count(number), wanted);
        }
    }
}
