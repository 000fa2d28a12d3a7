//! The model as lines: what goes into the scrollback, and the part of the screen below it, from
//! the live cells down to the status line. Decides who gets the rows when there are few.

use loggia_core::ApprovalId;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

use crate::app::{Model, Shown};
use crate::composer::completion::ROWS;
use crate::moment::Moment;
use crate::{provisional_view as render, safe, status};

/// Rows of the composer before it scrolls.
const COMPOSER_ROWS: usize = 10;
/// Queued prompts that are shown.
const QUEUED: usize = 3;

/// One picture of the lower part of the screen.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Frame {
    pub lines: Vec<Line<'static>>,
    pub cursor: Option<(u16, u16)>,
    /// Rows from the top of the frame, for the pointer.
    answers: Vec<(usize, usize)>,
    question: Option<(ApprovalId, bool)>,
}

impl Frame {
    pub fn new(lines: Vec<Line<'static>>, cursor: Option<(u16, u16)>) -> Self {
        Self { lines, cursor, ..Self::default() }
    }

    /// What the frame means for keys and clicks, once it is at `top` of the screen. Where nobody
    /// knows that, a click means nothing.
    pub fn shown(&self, top: Option<u16>) -> Shown {
        let row = |at: usize| Some(top?.saturating_add(u16::try_from(at).ok()?));
        let answers = self.answers.iter().filter_map(|(at, index)| Some((row(*at)?, *index)));
        Shown { question: self.question.clone(), answers: answers.collect() }
    }

    fn push(&mut self, lines: impl IntoIterator<Item = Line<'static>>) {
        self.lines.extend(lines);
    }
}

/// What is finished since the last time, for the scrollback.
pub fn finished(model: &mut Model, width: u16) -> Vec<Line<'static>> {
    if model.replaying() {
        return Vec::new();
    }
    let cells = model.printed.take(&model.transcript, model.facts.running());
    cells.iter().flat_map(|cell| render::cell(cell, width)).collect()
}

/// The inline screen: live cells, what is asked, the composer.
pub fn inline(model: &mut Model, now: Moment) -> Frame {
    let (width, height) = (model.size.0, usize::from(model.size.1));
    let mut below = panel(model, width, height, now);
    let room = height.saturating_sub(below.lines.len());
    let live = live_lines(model, width, room);
    let mut frame = Frame { lines: live, ..Frame::default() };
    join(&mut frame, &mut below);
    frame
}

/// The alternate screen: the transcript, and below it the same panel where there is one.
pub fn fullscreen(model: &mut Model, now: Moment) -> Frame {
    let (width, height) = (model.size.0, usize::from(model.size.1));
    let with_panel = model.full.as_ref().is_some_and(|full| !full.has_keys())
        || model.dialog.is_some()
        || model.overlay.is_some();
    let mut below = match with_panel {
        true => panel(model, width, height.saturating_sub(1), now),
        false => Frame::default(),
    };
    let room = height.saturating_sub(below.lines.len());
    let mut lines = match &mut model.full {
        Some(full) => full.draw(&model.transcript, width, room),
        None => Vec::new(),
    };
    lines.resize(room, Line::default());
    let mut frame = Frame { lines, ..Frame::default() };
    join(&mut frame, &mut below);
    frame
}

fn join(frame: &mut Frame, below: &mut Frame) {
    let above = frame.lines.len();
    let down = u16::try_from(above).unwrap_or(u16::MAX);
    frame.cursor = below.cursor.map(|(column, row)| (column, row.saturating_add(down)));
    frame.answers = below.answers.iter().map(|(row, index)| (row + above, *index)).collect();
    frame.question = below.question.take();
    frame.lines.append(&mut below.lines);
}

/// The end of what is alive: the newest rows, if there is no room for all.
fn live_lines(model: &Model, width: u16, room: usize) -> Vec<Line<'static>> {
    let mut lines: Vec<Line<'static>> = Vec::new();
    for cell in model.printed.live(&model.transcript) {
        lines.extend(render::cell(&cell, width));
    }
    let over = lines.len().saturating_sub(room);
    lines.drain(..over);
    lines
}

/// From the remark down to the status line, in at most `height` rows. The composer keeps one row
/// whatever happens; a question gets what is left before anything else does.
fn panel(model: &mut Model, width: u16, height: usize, now: Moment) -> Frame {
    let mut frame = Frame::default();
    if height == 0 {
        return frame;
    }
    let composer = composer(model, width, height);
    let mut left = height.saturating_sub(composer.0.len());
    let status = (left >= 2).then(|| status::line(model, width, now));
    left = left.saturating_sub(usize::from(status.is_some()));

    let mut asked = Frame::default();
    if let Some(overlay) = &mut model.overlay {
        asked.push(overlay.draw(width, left));
    } else if let Some(dialog) = model.dialog.as_mut().filter(|_| left > 0) {
        let drawn = dialog.draw(width, left, now);
        let approval = dialog.question.approval.clone();
        asked = Frame {
            lines: drawn.lines,
            cursor: drawn.cursor,
            answers: drawn.answers,
            question: Some((approval, drawn.end_shown)),
        };
    }
    left = left.saturating_sub(asked.lines.len());
    let popup = popup(model, width, left);
    left -= popup.len();
    let mut above: Vec<Line<'static>> = Vec::new();
    above.extend(remark(model, width));
    above.extend(queued(model, width));
    above.extend(status::activity(model, now));
    let over = above.len().saturating_sub(left);
    above.drain(..over);

    let (asked_row, editing) = (above.len(), asked.cursor);
    frame.push(above);
    frame.push(std::mem::take(&mut asked.lines));
    frame.answers = asked.answers.iter().map(|(row, index)| (row + asked_row, *index)).collect();
    frame.question = asked.question;
    let down = |cursor: (u16, u16), rows: usize| {
        (cursor.0, cursor.1.saturating_add(u16::try_from(rows).unwrap_or(u16::MAX)))
    };
    frame.cursor = match (editing, model.overlay.is_some()) {
        (Some(cursor), _) => Some(down(cursor, asked_row)),
        (None, true) => None,
        (None, false) => Some(down(composer.1, frame.lines.len())),
    };
    frame.push(composer.0);
    frame.push(popup);
    frame.push(status);
    frame
}

/// The composer's rows and the cursor in them. Remembers the width, by which the cursor moves.
fn composer(model: &mut Model, width: u16, height: usize) -> (Vec<Line<'static>>, (u16, u16)) {
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let dim = Style::new().add_modifier(Modifier::DIM);
    if let Some(search) = &model.composer.history.search {
        let found = model.composer.history.found().unwrap_or_default();
        let text = format!("search: {}", safe::one_line(&search.query));
        let column = u16::try_from(unicode_width::UnicodeWidthStr::width(text.as_str()));
        let column = column.unwrap_or(u16::MAX).min(width.saturating_sub(1));
        let text = format!("{text}  {}", safe::one_line(found));
        let lines = render::wrapped(&text, width, bold).into_iter().take(1).collect();
        return (lines, (column, 0));
    }
    let mark = if width >= 4 { "› " } else { "" };
    let margin = u16::try_from(unicode_width::UnicodeWidthStr::width(mark)).unwrap_or(0);
    let inner = width.saturating_sub(margin).max(1);
    model.composer.width = inner;
    let layout = model.composer.editor.layout(inner);
    let rows = layout.rows.len().min(COMPOSER_ROWS).min((height / 2).max(1));
    // The window onto the rows that holds the cursor.
    let row = usize::from(layout.cursor.1);
    let skip = (row + 1).saturating_sub(rows);
    let mut lines: Vec<Line<'static>> = Vec::new();
    for (index, text) in layout.rows.into_iter().enumerate().skip(skip).take(rows) {
        let mark = if index == 0 { mark } else { &"  "[..mark.len().min(2)] };
        lines.push(Line::from(vec![Span::styled(mark.to_owned(), bold), Span::raw(text)]));
    }
    if model.composer.editor.is_empty() {
        let hint = "what shall I do?  / commands  @ files  ? help";
        let hint: String = hint.chars().take(usize::from(inner)).collect();
        lines =
            vec![Line::from(vec![Span::styled(mark.to_owned(), bold), Span::styled(hint, dim)])];
    }
    let row = u16::try_from(row.saturating_sub(skip)).unwrap_or(0);
    (lines, (layout.cursor.0 + margin, row))
}

fn popup(model: &Model, width: u16, left: usize) -> Vec<Line<'static>> {
    let Some(popup) = model.composer.popup.as_ref().filter(|_| left > 0) else {
        return Vec::new();
    };
    let dim = Style::new().add_modifier(Modifier::DIM);
    let row = |(marked, offer): (bool, &crate::composer::completion::Offer)| {
        let style =
            if marked { Style::new().add_modifier(Modifier::REVERSED) } else { Style::new() };
        let label = safe::one_line(&offer.label);
        let gap = " ".repeat(24usize.saturating_sub(label.chars().count()).max(2));
        Line::from(vec![
            Span::raw("  "),
            Span::styled(label, style),
            Span::styled(format!("{gap}{}", safe::one_line(&offer.about)), dim),
        ])
    };
    let _ = width;
    popup.shown(left.min(ROWS)).map(row).collect()
}

fn remark(model: &Model, width: u16) -> Vec<Line<'static>> {
    let Some((text, _)) = &model.remark else { return Vec::new() };
    let style = Style::new().add_modifier(Modifier::ITALIC);
    render::wrapped(&safe::one_line(text), width, style).into_iter().take(2).collect()
}

fn queued(model: &Model, width: u16) -> Vec<Line<'static>> {
    let queued = &model.facts.queued;
    let dim = Style::new().add_modifier(Modifier::DIM);
    let row = |text: String| render::wrapped(&text, width, dim).into_iter().next();
    let by = |origin: &loggia_core::Origin| match *origin == model.me {
        true => String::new(),
        false => format!("[{}] ", safe::one_line(&origin.to_string())),
    };
    let shown = queued.iter().take(QUEUED);
    let shown =
        shown.map(|one| format!("queued: {}{}", by(&one.origin), safe::one_line(&one.text)));
    let more = queued.len().saturating_sub(QUEUED);
    let more = (more > 0).then(|| format!("… and {more} more in the queue"));
    shown.chain(more).filter_map(row).collect()
}
