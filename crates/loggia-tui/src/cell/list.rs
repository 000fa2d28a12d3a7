//! Plans and sources.

use loggia_core::{PlanStep, Source, StepState};
use ratatui::text::{Line, Span};

use super::{CellContext, Keep};
use crate::safe::one_line;
use crate::wrap::{Break, Margin, wrap};

/// Lines of a summary.
const FOLDED: usize = 5;

pub fn plan(steps: &[PlanStep], context: &CellContext<'_>) -> Vec<Line<'static>> {
    let theme = context.theme;
    let done = steps.iter().filter(|step| step.state == StepState::Completed).count();
    let mut lines = vec![context.line(&[
        Span::styled("Plan", theme.strong),
        Span::styled(format!(" {done}/{}", steps.len()), theme.dim),
    ])];
    for step in steps {
        let (mark, mark_style, style) = match step.state {
            StepState::Pending => ("☐ ", theme.marker, theme.agent),
            StepState::InProgress => ("▸ ", theme.running, theme.strong),
            StepState::Completed => ("☑ ", theme.success, theme.dim),
            StepState::Cancelled => ("⊘ ", theme.dim, theme.dim.patch(theme.struck)),
        };
        let margin = context.indent().and(&Margin::hanging(mark, mark_style));
        let text = Span::styled(one_line(step.text.trim()).into_owned(), style);
        lines.extend(wrap(&[text], context.width, &margin, Break::Words));
    }
    context.shortened(lines, FOLDED, Keep::Start)
}

pub fn sources(sources: &[Source], context: &CellContext<'_>) -> Vec<Line<'static>> {
    let theme = context.theme;
    let mut lines = vec![context.line(&[Span::styled("Sources", theme.strong)])];
    for (index, source) in sources.iter().enumerate() {
        let mark = format!("{}. ", index + 1);
        let margin = context.indent().and(&Margin::hanging(&mark, theme.marker));
        let mut spans = Vec::new();
        if !source.title.trim().is_empty() && source.title != source.uri {
            spans.push(Span::raw(one_line(source.title.trim()).into_owned()));
            spans.push(Span::raw("  "));
        }
        spans.push(Span::styled(one_line(source.uri.trim()).into_owned(), theme.link));
        lines.extend(wrap(&spans, context.width, &margin, Break::Words));
    }
    context.shortened(lines, FOLDED, Keep::Start)
}
